//! The longest sequence of bytes that two strings have in common, with others between them.
//!
//! The textbook's table has a cell for every pair of beginnings of the two strings: how long the sequence is that they have
//! in common. From one cell of a row to the next it rises by one or not at all, and a row of these bits follows from the one
//! before in one addition, 64 cells at a time (Crochemore et al., "A fast and practical bit-vector algorithm for the
//! longest common subsequence problem", 2001). Where two bytes differ, the cell above is greater than the one to the left
//! just if the row rises here: the bits say which way the sequence is traced back, as Redis does.

use super::super::options::OptionWords;
use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;

/// Bytes of a cell in Redis, by which strings are too long.
const CELL_BYTES: u64 = 4;

/// The rows of a table, or the last one: a bit is clear where the row rises.
struct RowBits {
    rows: Vec<u64>,
    words: usize,
}

impl RowBits {
    /// The rows for beginnings of `a`, against all beginnings of `b`; `None` where there is no memory for them.
    fn new(a: &[u8], b: &[u8], keeps_rows: bool) -> Option<Self> {
        let words = b.len().div_ceil(64);
        let kept = if keeps_rows { a.len().max(1) } else { 1 };
        let mut rows = Vec::new();
        rows.try_reserve_exact(kept * words).ok()?;
        rows.resize(words, u64::MAX);
        // Where in `b` each byte of `a` is.
        let (mut positions_of, mut end) = ([None; 256], 0);
        for &byte in a {
            positions_of[usize::from(byte)].get_or_insert_with(|| {
                end += words;
                end - words
            });
        }
        let mut positions = vec![0; end];
        for (at, &byte) in b.iter().enumerate() {
            if let Some(start) = positions_of[usize::from(byte)] {
                positions[start + at / 64] |= 1 << (at % 64);
            }
        }
        for (at, &byte) in a.iter().enumerate() {
            let start: usize =
                positions_of[usize::from(byte)].expect("every byte of it has places");
            if keeps_rows && at > 0 {
                rows.extend_from_within(rows.len() - words..);
            }
            let row = rows.len() - words;
            let mut carry = false;
            for (word, &here) in rows[row..].iter_mut().zip(&positions[start..]) {
                let (sum, over) = word.overflowing_add(*word & here);
                let (sum, over_again) = sum.overflowing_add(u64::from(carry));
                carry = over | over_again;
                *word = sum | *word & !here;
            }
        }
        Some(RowBits { rows, words })
    }

    /// The length of the sequence: how often the last row rises.
    fn len(&self) -> usize {
        let last = &self.rows[self.rows.len() - self.words..];
        last.iter().map(|word| word.count_zeros() as usize).sum()
    }

    /// Whether the row of a place in `a` rises at one in `b`.
    fn at(&self, a: usize, b: usize) -> bool {
        self.rows[a * self.words + b / 64] >> (b % 64) & 1 == 0
    }
}

/// Bytes that both strings have next to each other: where they begin, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: usize,
    b: usize,
    bytes: usize,
}

/// The matches of which the sequence consists, the last one first.
fn matches(a: &[u8], b: &[u8], rows: &RowBits) -> Vec<Match> {
    let (mut found, mut now): (Vec<Match>, Option<Match>) = (Vec::new(), None);
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            let bytes = now.map_or(0, |now| now.bytes) + 1;
            now = Some(Match { a: i, b: j, bytes });
        } else {
            found.extend(now.take());
            match rows.at(i - 1, j - 1) {
                true => i -= 1,
                false => j -= 1,
            }
        }
    }
    found.extend(now);
    found
}

#[derive(Default)]
struct LcsOptions {
    length: bool,
    positions: bool,
    with_lengths: bool,
    bytes_min: i64,
}

impl LcsOptions {
    fn parse(call: &Call<'_>) -> Result<Self, Failure> {
        let mut wanted = Self::default();
        let mut options = OptionWords::new(call.args, 3);
        while options.left() > 0 {
            if options.take("IDX") {
                wanted.positions = true;
            } else if options.take("LEN") {
                wanted.length = true;
            } else if options.take("WITHMATCHLEN") {
                wanted.with_lengths = true;
            } else if options.take_with("MINMATCHLEN", 1) {
                wanted.bytes_min = options.integer()?;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        if wanted.positions && wanted.length {
            return Err("ERR If you want both the length and indexes, please just use IDX.".into());
        }
        Ok(wanted)
    }
}

pub(super) fn lcs(call: &mut Call<'_>) -> Outcome {
    // Copied: the second one's use may move the first.
    let mut string = |index| {
        let key = call.key(index);
        let entry = call.look(&key);
        let db = call.keyspace.selected();
        match entry {
            Some(entry) if db.kind(entry) != Kind::String => None,
            entry => Some(entry.map_or(Vec::new(), |entry| db.string(entry).to_vec())),
        }
    };
    let (Some(a), Some(b)) = (string(1), string(2)) else {
        return Err("ERR The specified keys must contain string values".into());
    };
    let wanted = LcsOptions::parse(call)?;
    let cells = (a.len() as u64 + 1).saturating_mul(b.len() as u64 + 1);
    if cells.saturating_mul(CELL_BYTES) > call.shared.config.proto_max_bulk_len as u64 {
        return Err(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into(),
        );
    }
    let rows = RowBits::new(&a, &b, !wanted.length)
        .ok_or("ERR Insufficient memory, failed allocating transient memory for LCS")?;
    let reply = &mut *call.reply;
    if wanted.length {
        reply.integer(rows.len() as i64);
        return Ok(());
    }
    let mut found = matches(&a, &b, &rows);
    if !wanted.positions {
        let sequence = found.iter().rev();
        let sequence: Vec<&[u8]> = sequence.map(|m| &a[m.a..m.a + m.bytes]).collect();
        reply.bulk(&sequence.concat());
        return Ok(());
    }
    found.retain(|m| m.bytes as i64 >= wanted.bytes_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(found.len());
    for Match { a, b, bytes } in found {
        reply.array(2 + usize::from(wanted.with_lengths));
        for start in [a, b] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + bytes - 1) as i64);
        }
        if wanted.with_lengths {
            reply.integer(bytes as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(rows.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The textbook's table, and the way back through it as Redis goes.
    fn textbook(a: &[u8], b: &[u8]) -> (usize, Vec<(usize, usize)>) {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table[i][j] = match a[i - 1] == b[j - 1] {
                    true => table[i - 1][j - 1] + 1,
                    false => table[i - 1][j].max(table[i][j - 1]),
                };
            }
        }
        let (mut i, mut j, mut pairs) = (a.len(), b.len(), Vec::new());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                pairs.push((i, j));
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        (table[a.len()][b.len()], pairs)
    }

    proptest! {
        #[test]
        fn bits_say_what_the_table_says(a in "[abc]{0,200}", b in "[abcd]{0,200}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let (len, pairs) = textbook(a, b);
            prop_assert_eq!(RowBits::new(a, b, false).unwrap().len(), len);
            let rows = RowBits::new(a, b, true).unwrap();
            prop_assert_eq!(rows.len(), len);
            let found = matches(a, b, &rows);
            let each = found.iter().flat_map(|m| (0..m.bytes).rev().map(|at| (m.a + at, m.b + at)));
            prop_assert_eq!(each.collect::<Vec<_>>(), pairs);
            // Each match is as long as it can be.
            let touch = |two: &[Match]| two[1].a + two[1].bytes == two[0].a && two[1].b + two[1].bytes == two[0].b;
            prop_assert!(!found.windows(2).any(touch));
        }
    }
}
