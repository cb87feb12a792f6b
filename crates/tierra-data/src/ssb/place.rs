//! Where customers and suppliers are: 5 regions of 5 nations of 10 cities, and the address and
//! telephone number that go with them.

use std::{fmt::Write, ops::Range};

use arrow::array::{StringViewArray, StringViewBuilder};

use crate::draw::Draw;

/// Number of cities: 10 in each of 25 nations.
pub(super) const CITIES: usize = 250;

/// The nations with the index of their region, in the benchmark's order; the index of a nation
/// plus 10 is its telephone country code.
const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

/// The columns address, city, nation, region and phone of some customers or suppliers.
pub(super) struct Places {
    pub(super) address: StringViewArray,
    pub(super) city: StringViewArray,
    pub(super) nation: StringViewArray,
    pub(super) region: StringViewArray,
    pub(super) phone: StringViewArray,
}

impl Places {
    /// The places of `rows`: every 250 rows hold each city once.
    pub(super) fn of(rows: Range<u64>, cities: Draw, addresses: Draw, phones: Draw) -> Self {
        let capacity = (rows.end - rows.start) as usize;
        let column = || StringViewBuilder::with_capacity(capacity);
        let (mut address, mut city, mut phone) = (column(), column(), column());
        let mut nation = column().with_deduplicate_strings();
        let mut region = column();
        let mut deck = (u64::MAX, [0; CITIES]);
        let mut text = String::new();
        for row in rows {
            let block = row / CITIES as u64;
            if deck.0 != block {
                deck = (block, cities.shuffled(block));
            }
            let drawn = deck.1[(row % CITIES as u64) as usize] as usize;
            let (nation_name, nation_region) = NATIONS[drawn / 10];

            text.clear();
            push_address(&mut text, addresses, row);
            address.append_value(&text);

            text.clear();
            write!(text, "{nation_name:<9.9}{}", drawn % 10).expect(STRING);
            city.append_value(&text);
            nation.append_value(nation_name);
            region.append_value(REGIONS[nation_region]);

            text.clear();
            let digits = phones.bits(row);
            write!(
                text,
                "{}-{:03}-{:03}-{:04}",
                drawn / 10 + 10,
                digits % 900 + 100,
                (digits >> 16) % 900 + 100,
                (digits >> 32) % 9_000 + 1_000
            )
            .expect(STRING);
            phone.append_value(&text);
        }
        Self {
            address: address.finish(),
            city: city.finish(),
            nation: nation.finish(),
            region: region.finish(),
            phone: phone.finish(),
        }
    }
}

/// Why writing into a text cannot fail.
pub(super) const STRING: &str = "a String takes every write";

/// 10 to 25 characters of the 64 that addresses are made of.
fn push_address(text: &mut String, draw: Draw, row: u64) {
    const LETTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";
    // Three numbers a row: 4 bits of length, then 25 times 6 bits.
    let mut bits = draw.bits(3 * row);
    let length = 10 + bits % 16;
    bits >>= 4;
    for i in 0..length {
        if i % 10 == 0 && i > 0 {
            bits = draw.bits(3 * row + i / 10);
        }
        text.push(LETTERS[(bits % 64) as usize].into());
        bits >>= 6;
    }
}

/// The column `Customer#000000001` and so on, of one-based keys.
pub(super) fn names(prefix: &str, rows: Range<u64>) -> StringViewArray {
    let mut names = StringViewBuilder::with_capacity((rows.end - rows.start) as usize);
    let mut text = String::new();
    for row in rows {
        text.clear();
        write!(text, "{prefix}#{:09}", row + 1).expect(STRING);
        names.append_value(&text);
    }
    names.finish()
}
