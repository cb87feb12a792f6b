//! Ziplists: small hashes and sorted sets as Redis packed them from 2.6 to 6.2.
//!
//! ```text
//!  │ bytes: 32 │ last element at: 32 │ elements: 16 │ then for each: │ bytes of the one before │ head │ text │ ff │
//!
//!  bytes of the one before: │ 8 │, below 254, or │ fe │ 32 │
//!  head: │ 00 │ length: 6 │   │ 01 │ length: 14 │   │ 10 │ unused: 6 │ length: 32 │      high byte first
//!        │ c0 │ 16 │   │ d0 │ 32 │   │ e0 │ 64 │   │ f0 │ 24 │   │ fe │ 8 │   a number, low byte first
//!        │ f1 .. fd │   0 to 12
//! ```
//!
//! 65,535 elements stand for any number.

use super::listpack::little_endian;
use super::source::{Element, Malformed, text};

const HEAD_BYTES: usize = 10;
const END: u8 = 0xff;
const COUNT_UNKNOWN: u16 = u16::MAX;
const LONG: u8 = 0xfe;

/// The elements, each checked when it is reached, and all of them at the end.
pub(super) fn elements(packed: &[u8]) -> Result<impl Iterator<Item = Element<'_>>, Malformed> {
    let (head, rest) = packed.split_at_checked(HEAD_BYTES).ok_or(Malformed)?;
    let [bytes, told_last] = [0, 4].map(|at| little_endian(&head[at..at + 4]) as u32 as usize);
    let told = u16::from_le_bytes([head[8], head[9]]);
    let (&end, mut rest) = rest.split_last().ok_or(Malformed)?;
    if bytes != packed.len() || end != END {
        return Err(Malformed);
    }
    let (mut count, mut before, mut has_ended) = (0, 0, false);
    Ok(std::iter::from_fn(move || {
        if has_ended {
            return None;
        }
        if rest.is_empty() {
            has_ended = true;
            let last_at = packed.len() - 1 - before;
            let is_right = (told == COUNT_UNKNOWN || usize::from(told) == count)
                && (count == 0 || told_last == last_at);
            return (!is_right).then_some(Err(Malformed));
        }
        let left = rest.len();
        let element = element(&mut rest, before);
        (count, before) = (count + 1, left - rest.len());
        // The start of the next one is unknown.
        has_ended = element.is_err();
        Some(element)
    }))
}

/// The element that begins the rest, if its length of the previous element matches.
fn element<'p>(rest: &mut &'p [u8], before: usize) -> Element<'p> {
    let mut left = *rest;
    let mut take = |bytes: usize| {
        let (taken, behind) = left.split_at_checked(bytes).ok_or(Malformed)?;
        left = behind;
        Ok(taken)
    };
    let told = match take(1)?[0] {
        END => return Err(Malformed),
        LONG => little_endian(take(4)?) as u32 as usize,
        short => short.into(),
    };
    if told != before {
        return Err(Malformed);
    }
    let first = take(1)?[0];
    let number_bytes = match first {
        0..0xc0 => {
            let low = usize::from(first & 0x3f);
            let bytes = match first >> 6 {
                0 => low,
                1 => low << 8 | usize::from(take(1)?[0]),
                _ => take(4)?
                    .iter()
                    .fold(0, |bytes, &byte| bytes << 8 | usize::from(byte)),
            };
            let string = take(bytes)?;
            *rest = left;
            return Ok(string.into());
        }
        0xc0 => 2,
        0xd0 => 4,
        0xe0 => 8,
        0xf0 => 3,
        0xfe => 1,
        0xf1..=0xfd => 0,
        _ => return Err(Malformed),
    };
    let number = match number_bytes {
        0 => i64::from(first - 0xf1),
        bytes => little_endian(take(bytes)?),
    };
    *rest = left;
    Ok(text(number))
}

#[cfg(test)]
mod tests {
    use super::super::tests::texts;
    use super::*;

    fn read(packed: &[u8]) -> Result<Vec<String>, Malformed> {
        texts(elements(packed)?)
    }

    /// `a`, 1, -2, `bcd`, 0, 300, as Redis 6.2 packs them.
    const GOLDEN: &[u8] = &[
        30, 0, 0, 0, 25, 0, 0, 0, 6, 0, //
        0, 1, b'a', 3, 0xf2, 2, 0xfe, 0xfe, 3, 3, b'b', b'c', b'd', //
        5, 0xf1, 2, 0xc0, 44, 1, 0xff,
    ];

    #[test]
    fn elements_of_every_kind_are_read() {
        assert_eq!(read(GOLDEN).unwrap(), ["a", "1", "-2", "bcd", "0", "300"]);
        let long = |text: &[u8], head: &[u8]| {
            let mut packed = vec![0; HEAD_BYTES];
            packed.push(0);
            packed.extend_from_slice(head);
            packed.extend_from_slice(text);
            let before = packed.len() - HEAD_BYTES;
            let last_at = packed.len();
            packed.push(LONG);
            packed.extend_from_slice(&(before as u32).to_le_bytes());
            packed.extend_from_slice(&[0xe0, 1, 2, 3, 4, 5, 6, 7, 0x80, END]);
            let bytes = packed.len() as u32;
            packed[..4].copy_from_slice(&bytes.to_le_bytes());
            packed[4..8].copy_from_slice(&(last_at as u32).to_le_bytes());
            packed[8..10].copy_from_slice(&COUNT_UNKNOWN.to_le_bytes());
            packed
        };
        let number = i64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 0x80]).to_string();
        for head in [&[0x41, 0x2c][..], &[0x80, 0, 0, 1, 0x2c]] {
            let text = [b'x'; 300];
            let found = read(&long(&text, head)).unwrap();
            assert_eq!(found, [&*"x".repeat(300), &*number]);
        }
        for (head, text, expected) in [
            (0xd0, &[1, 0, 0, 0x80][..], "-2147483647"),
            (0xf0, &[0xff, 0xff, 0xff], "-1"),
            (0xfd, &[], "12"),
        ] {
            let found = read(&long(text, &[head])).unwrap();
            assert_eq!(found[0], expected);
        }
    }

    #[test]
    fn what_is_damaged_is_refused() {
        // Its bytes, where the last one is, how many there are, what the one before takes, a length, a head, the end.
        for (at, byte) in [
            (0, 31),
            (4, 24),
            (8, 5),
            (13, 4),
            (11, 0x3f),
            (14, 0xc1),
            (10, 0xff),
            (29, 0xfe),
        ] {
            let mut packed = GOLDEN.to_vec();
            packed[at] = byte;
            assert!(read(&packed).is_err(), "{at}");
        }
        for end in 0..GOLDEN.len() {
            assert!(read(&GOLDEN[..end]).is_err(), "{end}");
        }
    }
}
