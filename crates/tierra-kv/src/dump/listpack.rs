//! Listpacks: small hashes and sorted sets as Redis 7.0 packs them.
//!
//! ```text
//!  │ bytes: 32 │ elements: 16 │ then for each: │ head │ text │ bytes of both, backwards: 8 to 40 │ ff │
//!
//!  head: │ 0 │ number: 7 │   │ 10 │ length: 6 │   │ 110 │ number: 13 │   │ 1110 │ length: 12 │
//!        │ f0 │ length: 32 │   │ f1 .. f4 │ number of 16, 24, 32, 64 bits │
//! ```
//!
//! 65,535 elements stand for any number. Numbers behind f0 to f4 are little-endian, others have their high byte first. The
//! bytes of an element follow it, seven bits a byte, the highest first; all but the first have
//! their high bit set.

use super::source::{Element, Malformed, text};
use crate::number::parse_i64;

const HEAD_BYTES: usize = 6;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;

/// The elements, each checked when it is reached, and all of them at the end.
pub(super) fn elements(packed: &[u8]) -> Result<impl Iterator<Item = Element<'_>>, Malformed> {
    let (head, rest) = packed.split_at_checked(HEAD_BYTES).ok_or(Malformed)?;
    let [b0, b1, b2, b3, c0, c1] = head.try_into().map_err(|_| Malformed)?;
    let (&end, mut rest) = rest.split_last().ok_or(Malformed)?;
    if u32::from_le_bytes([b0, b1, b2, b3]) as usize != packed.len() || end != END {
        return Err(Malformed);
    }
    let told = u16::from_le_bytes([c0, c1]);
    let mut count = 0;
    Ok(std::iter::from_fn(move || {
        if rest.is_empty() {
            let is_right = told == COUNT_UNKNOWN || usize::from(told) == count;
            count = usize::from(told);
            return (!is_right).then_some(Err(Malformed));
        }
        count += 1;
        let element = element(&mut rest);
        if element.is_err() {
            // The start of the next one is unknown.
            (rest, count) = (&[], usize::from(told));
        }
        Some(element)
    }))
}

fn element<'p>(rest: &mut &'p [u8]) -> Element<'p> {
    let whole = *rest;
    let at = |index: usize| whole.get(index).copied().ok_or(Malformed);
    let (first, high) = (at(0)?, usize::from(at(0)?));
    // A number: how many bytes it has behind the first, of which bits count, or a string: where it begins, and its length.
    let (string_at, string_bytes, number) = match first {
        0..0x80 => (1, 0, Some(i64::from(first))),
        0x80..0xc0 => (1, high & 0x3f, None),
        0xc0..0xe0 => {
            let number = i64::from(first & 0x1f) << 8 | i64::from(at(1)?);
            (2, 0, Some(number - (number >> 12 << 13)))
        }
        0xe0..0xf0 => (2, (high & 0xf) << 8 | usize::from(at(1)?), None),
        0xf0 => {
            let length = [at(1)?, at(2)?, at(3)?, at(4)?];
            (5, u32::from_le_bytes(length) as usize, None)
        }
        0xf1..=0xf4 => {
            let width = [2, 3, 4, 8][high - 0xf1];
            let bytes = whole.get(1..1 + width).ok_or(Malformed)?;
            (1 + width, 0, Some(little_endian(bytes)))
        }
        _ => return Err(Malformed),
    };
    let end = string_at + string_bytes;
    let string = whole.get(string_at..end).ok_or(Malformed)?;
    let (length, length_bytes) = backwards(end);
    let behind = whole[end..].strip_prefix(&length[..length_bytes]);
    *rest = behind.ok_or(Malformed)?;
    Ok(number.map_or(string.into(), text))
}

/// A number of at most eight bytes, the lowest first, with its sign.
pub(super) fn little_endian(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len() as u32;
    let number = bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | i64::from(byte));
    number << unused >> unused
}

/// The length of an element, to be read from its end.
fn backwards(length: usize) -> ([u8; 5], usize) {
    // Redis takes a byte more for the greatest of each width.
    let bytes = match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    let mut told = [0; 5];
    for (at, byte) in told[..bytes].iter_mut().enumerate() {
        let part = (length >> (7 * (bytes - 1 - at)) & 0x7f) as u8;
        *byte = part | if at == 0 { 0 } else { 0x80 };
    }
    (told, bytes)
}

/// A listpack that is written.
pub(super) struct Writer {
    packed: Vec<u8>,
    count: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        Writer {
            packed: vec![0; HEAD_BYTES],
            count: 0,
        }
    }

    /// Appends an element, as a number where it is one.
    pub(super) fn push(&mut self, element: &[u8]) {
        let start = self.packed.len();
        match parse_i64(element) {
            Some(number) => self.push_number(number),
            None => self.push_string(element),
        }
        let (length, bytes) = backwards(self.packed.len() - start);
        self.packed.extend_from_slice(&length[..bytes]);
        self.count += 1;
    }

    fn push_number(&mut self, number: i64) {
        let bytes = number.to_le_bytes();
        let (first, width) = match number {
            0..=127 => return self.packed.push(number as u8),
            -0x1000..=0xfff => {
                let number = 0xc000 | number as u16 & 0x1fff;
                return self.packed.extend_from_slice(&number.to_be_bytes());
            }
            -0x8000..=0x7fff => (0xf1, 2),
            -0x80_0000..=0x7f_ffff => (0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => (0xf3, 4),
            _ => (0xf4, 8),
        };
        self.packed.push(first);
        self.packed.extend_from_slice(&bytes[..width]);
    }

    fn push_string(&mut self, string: &[u8]) {
        match string.len() {
            length @ 0..0x40 => self.packed.push(0x80 | length as u8),
            length @ 0x40..0x1000 => {
                let head = 0xe000 | length as u16;
                self.packed.extend_from_slice(&head.to_be_bytes());
            }
            length => {
                self.packed.push(0xf0);
                self.packed
                    .extend_from_slice(&(length as u32).to_le_bytes());
            }
        }
        self.packed.extend_from_slice(string);
    }

    /// All of it.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.packed.push(END);
        let bytes = u32::try_from(self.packed.len()).expect("packed values are small");
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.packed[..4].copy_from_slice(&bytes.to_le_bytes());
        self.packed[4..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
        self.packed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(elements: &[Vec<u8>]) -> Vec<u8> {
        let mut writer = Writer::new();
        elements.iter().for_each(|element| writer.push(element));
        writer.end()
    }

    fn read(packed: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
        elements(packed)?
            .map(|element| element.map(Into::into))
            .collect()
    }

    #[test]
    fn elements_are_written_as_redis_writes_them() {
        let golden: [(&str, &[u8]); 8] = [
            ("5", &[5, 1]),
            ("127", &[127, 1]),
            ("-1", &[0xdf, 0xff, 2]),
            ("4095", &[0xcf, 0xff, 2]),
            ("-4097", &[0xf1, 0xff, 0xef, 3]),
            ("8388607", &[0xf2, 0xff, 0xff, 0x7f, 4]),
            ("2147483648", &[0xf4, 0, 0, 0, 0x80, 0, 0, 0, 0, 9]),
            ("ab", &[0x82, b'a', b'b', 3]),
        ];
        for (text, bytes) in golden {
            let packed = packed(&[text.into()]);
            assert_eq!(&packed[HEAD_BYTES..packed.len() - 1], bytes, "{text}");
        }
    }

    #[test]
    fn lengths_at_the_edges_come_back() {
        for length in [
            0, 63, 64, 126, 127, 4095, 4096, 16_377, 16_378, 16_379, 2_097_150,
        ] {
            let all = vec![vec![b'x'; length], b"behind".to_vec()];
            assert_eq!(read(&packed(&all)), Ok(all));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            numbers in prop::collection::vec((any::<i64>(), 0u32..64), 0..20),
        ) {
            let numbers = numbers.iter().map(|(number, shift)| (number >> shift).to_string().into_bytes());
            let all: Vec<_> = texts.into_iter().chain(numbers).collect();
            prop_assert_eq!(read(&packed(&all)), Ok(all));
        }

        #[test]
        fn what_is_damaged_ends(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut bytes = packed(&[b"field".to_vec(), vec![b'v'; 200], b"-70000".to_vec(), b"7".to_vec()]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            _ = read(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            prop_assert!(read(&bytes).is_err());
        }
    }
}
