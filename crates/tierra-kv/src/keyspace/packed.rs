//! Small hashes and sorted sets as one run of bytes.
//!
//! ```text
//!  hash: │ fields: 16 │ then for each: │ field bytes │ value bytes │ field │ value │
//!  set:  │ members: 16 │ then for each, in order: │ score: 64 │ member bytes │ member │
//! ```
//!
//! Lengths take a byte below 128, five otherwise. Fields keep the order in which they came.

use std::cmp::Ordering;

/// Bytes of the count at the beginning.
pub(super) const COUNT_BYTES: usize = 2;

/// A packed value longer than this is not packed: each change may move all of it.
pub(super) const PACKED_BYTES_MAX: usize = 16 << 10;
const SHORT_MAX: usize = 127;
const SCORE_BYTES: usize = 8;

#[inline(always)]
pub(super) fn count(packed: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([packed[0], packed[1]]))
}

pub(super) fn set_count(packed: &mut [u8], count: usize) {
    let count = u16::try_from(count).expect("packed ones are small");
    packed[..COUNT_BYTES].copy_from_slice(&count.to_le_bytes());
}

fn push_length(packed: &mut Vec<u8>, length: usize) {
    if length <= SHORT_MAX {
        packed.push(length as u8);
    } else {
        packed.push(u8::MAX);
        packed.extend_from_slice(&(length as u32).to_le_bytes());
    }
}

#[inline(always)]
fn length(packed: &[u8], at: usize) -> (usize, usize) {
    let first = usize::from(packed[at]);
    if first <= SHORT_MAX {
        return (first, at + 1);
    }
    let long = packed[at + 1..at + 5].try_into().expect("four bytes");
    (u32::from_le_bytes(long) as usize, at + 5)
}

/// The fields and values of a packed hash.
#[derive(Clone, Debug)]
pub(super) struct Pairs<'a> {
    packed: &'a [u8],
    at: usize,
}

/// Where a pair lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairRange {
    pub(super) start: usize,
    pub(super) field_at: usize,
    pub(super) value_at: usize,
    pub(super) end: usize,
}

impl<'a> Pairs<'a> {
    #[inline(always)]
    pub(super) fn new(packed: &'a [u8]) -> Pairs<'a> {
        Pairs {
            packed,
            at: COUNT_BYTES,
        }
    }

    #[inline(always)]
    fn next_range(&mut self) -> Option<PairRange> {
        let start = self.at;
        if start >= self.packed.len() {
            return None;
        }
        let (field_bytes, at) = length(self.packed, start);
        let (value_bytes, field_at) = length(self.packed, at);
        let value_at = field_at + field_bytes;
        self.at = value_at + value_bytes;
        Some(PairRange {
            start,
            field_at,
            value_at,
            end: self.at,
        })
    }

    /// Where a field is.
    #[inline]
    pub(super) fn find(mut self, field: &[u8]) -> Option<PairRange> {
        while let Some(range) = self.next_range() {
            if self.packed[range.field_at..range.value_at] == *field {
                return Some(range);
            }
        }
        None
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let range = self.next_range()?;
        let field = &self.packed[range.field_at..range.value_at];
        Some((field, &self.packed[range.value_at..range.end]))
    }
}

/// Adds a pair at the end; its count is the caller's.
pub(super) fn push_pair(packed: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    push_length(packed, field.len());
    push_length(packed, value.len());
    packed.extend_from_slice(field);
    packed.extend_from_slice(value);
}

/// A member of a packed sorted set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) score: f64,
    pub(super) member: &'a [u8],
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The members of a packed sorted set, in order.
pub(super) fn members(packed: &[u8]) -> impl Iterator<Item = Member<'_>> + Clone {
    let mut at = COUNT_BYTES;
    std::iter::from_fn(move || {
        let start = at;
        let score = packed.get(start..start + SCORE_BYTES)?;
        let score = f64::from_le_bytes(score.try_into().expect("eight bytes"));
        let (bytes, member_at) = length(packed, start + SCORE_BYTES);
        at = member_at + bytes;
        let member = &packed[member_at..at];
        Some(Member {
            score,
            member,
            start,
            end: at,
        })
    })
}

/// Adds a member at the end; its count is the caller's.
pub(super) fn push_member(packed: &mut Vec<u8>, score: f64, member: &[u8]) {
    packed.extend_from_slice(&score.to_le_bytes());
    push_length(packed, member.len());
    packed.extend_from_slice(member);
}

/// Makes a packed set of another, with a member's score changed or the member added.
pub(super) fn put_member(packed: &mut Vec<u8>, before: &[u8], score: f64, member: &[u8]) {
    packed.clear();
    packed.extend_from_slice(&[0; COUNT_BYTES]);
    let (mut count, mut placed) = (0, false);
    for found in members(before).filter(|found| found.member != member) {
        let is_later = order((found.score, found.member), (score, member)) == Ordering::Greater;
        if is_later && !placed {
            push_member(packed, score, member);
            (count, placed) = (count + 1, true);
        }
        push_member(packed, found.score, found.member);
        count += 1;
    }
    if !placed {
        push_member(packed, score, member);
        count += 1;
    }
    set_count(packed, count);
}

/// The order of members: by score, then by bytes.
#[inline]
pub(super) fn order(one: (f64, &[u8]), other: (f64, &[u8])) -> Ordering {
    // Scores are never NaN, and -0 equals 0.
    let by_score = one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal);
    by_score.then_with(|| one.1.cmp(other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_found() {
        let long = [7u8; 300];
        let pairs: [(&[u8], &[u8]); 4] =
            [(b"a", b""), (b"", b"empty"), (b"b", &long), (&long, b"c")];
        let mut packed = vec![0; COUNT_BYTES];
        for (field, value) in pairs {
            push_pair(&mut packed, field, value);
        }
        set_count(&mut packed, pairs.len());
        assert_eq!(count(&packed), 4);
        assert_eq!(Pairs::new(&packed).collect::<Vec<_>>(), pairs);
        for (field, value) in pairs {
            let range = Pairs::new(&packed).find(field).unwrap();
            assert_eq!(packed[range.value_at..range.end], *value);
        }
        assert!(Pairs::new(&packed).find(b"x").is_none());
    }

    #[test]
    fn members_come_back_in_order() {
        let mut packed = vec![0; COUNT_BYTES];
        let all: [(f64, &[u8]); 3] = [(-1.5, b"x"), (0.0, b""), (f64::INFINITY, &[9; 200])];
        for (score, member) in all {
            push_member(&mut packed, score, member);
        }
        let found: Vec<_> = members(&packed)
            .map(|found| (found.score, found.member))
            .collect();
        assert_eq!(found, all);
    }
}
