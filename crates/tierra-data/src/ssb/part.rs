//! The dimension `part`: 5 manufacturers make 5 categories each, of 40 brands each.

use std::{fmt::Write, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Int32Array, StringViewBuilder},
    datatypes::DataType::{self, Int32, Utf8View},
};

use super::place::STRING;
use crate::draw::Draw;

/// Names and types, in order.
pub(super) const COLUMNS: [(&str, DataType); 9] = [
    ("p_partkey", Int32),
    ("p_name", Utf8View),
    ("p_mfgr", Utf8View),
    ("p_category", Utf8View),
    ("p_brand1", Utf8View),
    ("p_color", Utf8View),
    ("p_type", Utf8View),
    ("p_size", Int32),
    ("p_container", Utf8View),
];

/// Number of brands.
const BRANDS: usize = 1_000;

#[rustfmt::skip]
const COLORS: [&str; 92] = [
    "almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue", "blush", "brown",
    "burlywood", "burnished", "chartreuse", "chiffon", "chocolate", "coral", "cornflower", "cornsilk", "cream",
    "cyan", "dark", "deep", "dim", "dodger", "drab", "firebrick", "floral", "forest", "frosted", "gainsboro",
    "ghost", "goldenrod", "green", "grey", "honeydew", "hot", "indian", "ivory", "khaki", "lace", "lavender",
    "lawn", "lemon", "light", "lime", "linen", "magenta", "maroon", "medium", "metallic", "midnight", "mint",
    "misty", "moccasin", "navajo", "navy", "olive", "orange", "orchid", "pale", "papaya", "peach", "peru", "pink",
    "plum", "powder", "puff", "purple", "red", "rose", "rosy", "royal", "saddle", "salmon", "sandy", "seashell",
    "sienna", "sky", "slate", "smoke", "snow", "spring", "steel", "tan", "thistle", "tomato", "turquoise",
    "violet", "wheat", "white", "yellow",
];

const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];

const CONTAINERS: [&[&str]; 2] = [
    &["SM", "LG", "MED", "JUMBO", "WRAP"],
    &["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"],
];

/// The columns of `rows`.
pub(super) fn columns(rows: Range<u64>) -> Vec<ArrayRef> {
    const BRAND: Draw = Draw::named("part.brand1");
    const COLOR: Draw = Draw::named("part.color");
    const TYPE: Draw = Draw::named("part.type");
    const SIZE: Draw = Draw::named("part.size");
    const CONTAINER: Draw = Draw::named("part.container");
    let capacity = (rows.end - rows.start) as usize;
    let column = || StringViewBuilder::with_capacity(capacity);
    let (mut name, mut color) = (column(), column());
    let (mut mfgr, mut category, mut brand1) = (column(), column(), column());
    let mut kind = column().with_deduplicate_strings();
    let mut container = column();
    let mut deck = (u64::MAX, [0; BRANDS]);
    let mut text = String::new();
    for row in rows.clone() {
        let block = row / BRANDS as u64;
        if deck.0 != block {
            deck = (block, BRAND.shuffled(block));
        }
        let brand = deck.1[(row % BRANDS as u64) as usize];
        // All three are prefixes of one another: MFGR#2, MFGR#22, MFGR#2239.
        text.clear();
        let (of_mfgr, of_category) = (brand / 200 + 1, brand / 40 % 5 + 1);
        write!(text, "MFGR#{of_mfgr}{of_category}{}", brand % 40 + 1).expect(STRING);
        mfgr.append_value(&text[..6]);
        category.append_value(&text[..7]);
        brand1.append_value(&text);

        let first = COLOR.pick(2 * row, &COLORS);
        color.append_value(first);
        text.clear();
        write!(text, "{first} {}", COLOR.pick(2 * row + 1, &COLORS)).expect(STRING);
        name.append_value(&text);

        join(&mut text, TYPE, row, &TYPES);
        kind.append_value(&text);
        join(&mut text, CONTAINER, row, &CONTAINERS);
        container.append_value(&text);
    }
    let keys = rows.clone().map(|row| row as i32 + 1);
    let sizes = rows.map(|row| SIZE.between(row, 1, 50));
    vec![
        Arc::new(Int32Array::from_iter_values(keys)),
        Arc::new(name.finish()),
        Arc::new(mfgr.finish()),
        Arc::new(category.finish()),
        Arc::new(brand1.finish()),
        Arc::new(color.finish()),
        Arc::new(kind.finish()),
        Arc::new(Int32Array::from_iter_values(sizes)),
        Arc::new(container.finish()),
    ]
}

/// One syllable of each list, with spaces between.
fn join(text: &mut String, draw: Draw, row: u64, lists: &[&[&str]]) {
    text.clear();
    for (i, list) in lists.iter().enumerate() {
        if i > 0 {
            text.push(' ');
        }
        text.push_str(draw.pick(row * lists.len() as u64 + i as u64, list));
    }
}

/// What one piece of part `key` costs, in cents, by the formula that SSB takes from TPC-H.
pub(super) fn price_cents(key: i32) -> i32 {
    90_000 + key / 10 % 20_001 + 100 * (key % 1_000)
}
