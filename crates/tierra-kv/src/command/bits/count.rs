//! BITCOUNT and BITPOS: how many bits are set in a part of a value, and where the first one is.

use std::ops::Range;

use super::offset::bit;
use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;

/// The part of a value that arguments name, in bits.
struct Part {
    bits: Range<u64>,
    /// Whether its end is one that the client has given.
    ends: bool,
}

impl Part {
    /// The arguments from `from` on: start, end, and whether these count bytes or bits. All where there is none.
    ///
    /// Commands differ in whether there may be a start alone, and in what is wrong first.
    fn parse(call: &Call<'_>, from: usize, bytes: usize, needs_end: bool) -> Result<Self, Failure> {
        let given = call.args.len() - from;
        if given > 3 || needs_end && given == 1 {
            return Err(Failure::SYNTAX);
        }
        let ends = given >= 2;
        let unit_bits = || match call.args.get(from + 2) {
            None => Ok(8),
            Some(unit) if unit.eq_ignore_ascii_case(b"BYTE") => Ok(8),
            Some(unit) if unit.eq_ignore_ascii_case(b"BIT") => Ok(1),
            Some(_) => Err(Failure::SYNTAX),
        };
        let start = if given == 0 { 0 } else { call.integer(from)? };
        if !needs_end {
            unit_bits()?;
        }
        let end = if ends { call.integer(from + 1)? } else { -1 };
        if needs_end && start < 0 && end < 0 && start > end {
            return Ok(Self { bits: 0..0, ends });
        }
        let unit_bits = unit_bits()?;
        let units = (bytes as i64) * 8 / unit_bits;
        let absolute = |index: i64| {
            if index < 0 {
                index.saturating_add(units).max(0)
            } else {
                index
            }
        };
        let (first, last) = (absolute(start), absolute(end).min(units - 1));
        let bits = if first > last {
            0..0
        } else {
            (first * unit_bits) as u64..((last + 1) * unit_bits) as u64
        };
        Ok(Self { bits, ends })
    }

    /// What is left of these bits before the first whole byte, the whole bytes, and the bits after them.
    fn split(&self) -> (Range<u64>, Range<usize>, Range<u64>) {
        let Range { start, end } = self.bits;
        let (first, last) = (start.div_ceil(8), end / 8);
        if first >= last {
            return (start..end, 0..0, end..end);
        }
        (
            start..first * 8,
            first as usize..last as usize,
            last * 8..end,
        )
    }
}

pub(super) fn bitcount(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    let Some(entry) = call.read(&key, Kind::String)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let value = call.db_ref().string(entry);
    let (before, whole, after) = Part::parse(call, 2, value.len(), true)?.split();
    let (words, rest) = value[whole].as_chunks::<8>();
    let words = words
        .iter()
        .map(|word| u64::from_le_bytes(*word).count_ones());
    let rest = rest.iter().map(|byte| byte.count_ones());
    let count = words.chain(rest).map(i64::from).sum::<i64>()
        + before.chain(after).filter(|&at| bit(value, at)).count() as i64;
    call.reply.integer(count);
    Ok(())
}

/// The first byte with such a bit. Those without are passed many at a time.
fn first_with(bytes: &[u8], wanted: bool) -> Option<usize> {
    let without = if wanted { 0 } else { u8::MAX };
    let (blocks, _) = bytes.as_chunks::<64>();
    let passed = blocks
        .iter()
        .take_while(|block| block.iter().fold(0, |all, byte| all | (byte ^ without)) == 0)
        .count();
    let start = passed * 64;
    let at = bytes[start..].iter().position(|&byte| byte != without)?;
    Some(start + at)
}

pub(super) fn bitpos(call: &mut Call<'_>) -> Outcome {
    let wanted = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let key = call.key(1);
    let Some(entry) = call.read(&key, Kind::String)? else {
        call.reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let value = call.db_ref().string(entry);
    let part = Part::parse(call, 3, value.len(), false)?;
    let (before, whole, after) = part.split();
    let in_whole = || {
        let at = first_with(&value[whole.clone()], wanted)?;
        let first = (whole.start + at) as u64 * 8;
        (first..first + 8).find(|&at| bit(value, at) == wanted)
    };
    let found = before
        .clone()
        .find(|&at| bit(value, at) == wanted)
        .or_else(in_whole)
        .or_else(|| after.clone().find(|&at| bit(value, at) == wanted));
    let place = match found {
        Some(at) => at as i64,
        // A value is followed by zeros, unless an end was given.
        None if !wanted && !part.ends && !part.bits.is_empty() => part.bits.end as i64,
        None => -1,
    };
    call.reply.integer(place);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_without_the_bit_are_passed() {
        for wanted in [false, true] {
            let without = if wanted { 0 } else { u8::MAX };
            for len in [0, 1, 63, 64, 65, 200] {
                let mut bytes = vec![without; len];
                assert_eq!(first_with(&bytes, wanted), None);
                for at in (0..len).rev() {
                    bytes[at] ^= 0x10;
                    assert_eq!(first_with(&bytes, wanted), Some(at));
                }
            }
        }
    }

    #[test]
    fn a_part_is_split_at_whole_bytes() {
        for start in 0..40 {
            for end in start..40 {
                let part = Part {
                    bits: start..end,
                    ends: true,
                };
                let (before, whole, after) = part.split();
                let inside = (whole.start as u64 * 8)..(whole.end as u64 * 8);
                let all: Vec<u64> = before.chain(inside).chain(after).collect();
                assert_eq!(all, (start..end).collect::<Vec<_>>());
            }
        }
    }
}
