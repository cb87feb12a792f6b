//! Choosing an encoding from a sample of the values.
//!
//! Minima, maxima and NULLs of every block are known before this is asked, so the bytes of plain,
//! static and frame of reference are exact. Mini-blocks, differences and distinct values are
//! measured on evenly spread blocks and scaled up. The fewest bytes win, but an encoding that is
//! slower to read must save enough to pay for it.

use std::hash::BuildHasher;

use hashbrown::HashMap;

use arrow::array::{Array, AsArray};

use crate::bits::{BLOCK_LEN, packed_bytes};
use crate::block::{OrdinalBlock, Summary};
use crate::bytes::lines;
use crate::encoding::{
    Encoding, delta, dictionary, dynamic, frame_of_reference, plain, static_packing,
};
use crate::logical_type::LogicalType;
use crate::source::{Arrays, Source};

/// Blocks that are looked at.
const SAMPLE_BLOCKS: usize = 32;
/// A dictionary pays for strings while fewer than one row in this many brings a new value.
const ROWS_PER_STRING: usize = 4;
/// For ordinals, which pack well without, only while the sample repeats each value this often.
const SAMPLED_PER_ORDINAL: usize = 16;

/// What an encoding's bytes are multiplied with: slower reading must save this much.
fn handicap(encoding: Encoding) -> f64 {
    match encoding {
        Encoding::Static => 0.97,
        Encoding::Plain | Encoding::FrameOfReference => 1.0,
        Encoding::Dynamic | Encoding::Dictionary => 1.03,
        Encoding::Delta => 1.06,
    }
}

/// The blocks to sample of `blocks`, evenly spread.
fn sample(blocks: usize) -> impl Iterator<Item = usize> {
    let count = blocks.min(SAMPLE_BLOCKS);
    (0..count).map(move |i| i * blocks / count)
}

/// The encoding for values that have ordinals.
pub(crate) fn ordinal_encoding(
    ty: LogicalType,
    source: &Source,
    summaries: &[Summary],
    has_dictionary: bool,
) -> Encoding {
    let mut candidates = bytes(ty, source, summaries);
    candidates.retain(|&(encoding, _)| has_dictionary || encoding != Encoding::Dictionary);
    candidates
        .into_iter()
        .map(|(encoding, bytes)| (encoding, bytes * handicap(encoding)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(Encoding::Plain, |(encoding, _)| encoding)
}

/// Estimated bytes of the blocks (and of the dictionary) for every encoding that is possible.
fn bytes(ty: LogicalType, source: &Source, summaries: &[Summary]) -> Vec<(Encoding, f64)> {
    let rows = source.rows();
    let null_codes = u64::from(Summary::nulls_of(summaries) > 0);
    let total = Summary::of_all(summaries);
    let block_rows = |block: usize| (rows - block * BLOCK_LEN).min(BLOCK_LEN);
    let sum = |len: &dyn Fn(usize) -> Option<usize>| -> Option<f64> {
        (0..summaries.len())
            .map(|b| len(b).map(|len| lines(len) as f64))
            .sum()
    };

    let mut estimates = Vec::new();
    let bitmap = if null_codes > 0 {
        plain::BITMAP_BYTES
    } else {
        0
    };
    let natural = ty.natural_width();
    estimates.push((
        Encoding::Plain,
        sum(&|b| Some(bitmap + packed_bytes(block_rows(b), natural))),
    ));
    let static_width = static_packing::base_and_width(total, null_codes).map(|(_, width)| width);
    estimates.push((
        Encoding::Static,
        static_width.and_then(|width| sum(&|b| Some(packed_bytes(block_rows(b), width)))),
    ));
    let frame = sum(&|b| {
        let width = frame_of_reference::width(summaries[b], null_codes)?;
        Some(packed_bytes(block_rows(b), width))
    });
    estimates.push((Encoding::FrameOfReference, frame));

    let sampled = Sampled::new(source, summaries, null_codes);
    let scale = rows as f64 / sampled.rows.max(1) as f64;
    if frame.is_some() {
        estimates.push((Encoding::Dynamic, Some(sampled.dynamic as f64 * scale)));
    }
    estimates.push((
        Encoding::Delta,
        sampled.delta.map(|bytes| bytes as f64 * scale),
    ));
    estimates.push((Encoding::Dictionary, sampled.dictionary(rows, null_codes)));
    estimates
        .into_iter()
        .filter_map(|(encoding, bytes)| Some((encoding, bytes?)))
        .collect()
}

/// What the sampled blocks say.
struct Sampled {
    rows: usize,
    /// Bytes with mini-blocks, and as differences (if these are possible).
    dynamic: usize,
    delta: Option<usize>,
    distinct: Distinct,
}

impl Sampled {
    fn new(source: &Source, summaries: &[Summary], null_codes: u64) -> Sampled {
        let mut block = OrdinalBlock::new();
        let mut codes = Box::new([0; BLOCK_LEN]);
        let mut sampled = Sampled {
            rows: 0,
            dynamic: 0,
            delta: Some(0),
            distinct: Distinct::default(),
        };
        let distinct_most = SAMPLE_BLOCKS * BLOCK_LEN / SAMPLED_PER_ORDINAL;
        for b in sample(summaries.len()) {
            source.fill(b, &mut block);
            sampled.rows += block.rows;
            block.codes(
                frame_of_reference::base(summaries[b], null_codes),
                &mut codes,
            );
            let widths = dynamic::widths(&codes[..block.rows]);
            sampled.dynamic += lines(dynamic::block_bytes(&widths, block.rows));
            sampled.delta = sampled.delta.and_then(|bytes| {
                let (_, width) = delta::plan(&block, null_codes)?;
                Some(bytes + lines(delta::HEADER_BYTES + packed_bytes(block.rows, width)))
            });
            // Past this there will be no dictionary, whatever the other blocks hold.
            if sampled.distinct.counts.len() <= distinct_most {
                for &value in block.values() {
                    sampled.distinct.add(value);
                }
            }
        }
        sampled
    }

    /// Bytes of codes and dictionary; `None` where new values keep coming, because a dictionary
    /// then grows with the rows and every scan pays for its misses.
    fn dictionary(&self, rows: usize, null_codes: u64) -> Option<f64> {
        if self.distinct.counts.len() * SAMPLED_PER_ORDINAL > self.distinct.values {
            return None;
        }
        let distinct = self.distinct.estimate(rows);
        let codes = Summary {
            min: 0,
            max: distinct.saturating_sub(1) as u64,
            null_count: 0,
        };
        let (_, width) = dictionary::base_and_width(codes, null_codes);
        Some((packed_bytes(rows, width) + 8 * distinct) as f64)
    }
}

/// How often a sample has each of its distinct values (strings: hashes of them).
#[derive(Default)]
struct Distinct {
    counts: HashMap<u64, u32>,
    values: usize,
}

impl Distinct {
    fn add(&mut self, value: u64) {
        self.values += 1;
        *self.counts.entry(value).or_insert(0) += 1;
    }

    /// Distinct values among `rows` rows by Chao's estimator: those seen, and as many more as
    /// values seen once and values seen twice let expect.
    fn estimate(&self, rows: usize) -> usize {
        let seen_times = |times| {
            self.counts
                .values()
                .filter(|&&count| count == times)
                .count()
        };
        if self.values >= rows {
            return self.counts.len();
        }
        let (once, twice) = (seen_times(1) as f64, seen_times(2) as f64);
        let unseen = once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0));
        rows.min(self.counts.len() + unseen as usize)
    }
}

/// Dictionary for strings if fewer than a quarter of the rows seem to bring a new one, else plain.
pub(crate) fn string_encoding(arrays: &Arrays) -> Encoding {
    let hasher = hashbrown::DefaultHashBuilder::default();
    let mut distinct = Distinct::default();
    for block in sample(arrays.rows().div_ceil(BLOCK_LEN)) {
        arrays.pieces(block, |array, from, len, _| {
            let strings = array.as_string_view();
            for row in from..from + len {
                if strings.is_valid(row) {
                    distinct.add(hasher.hash_one(strings.value(row)));
                }
            }
        });
    }
    if distinct.estimate(arrays.rows()) * ROWS_PER_STRING <= arrays.rows() {
        Encoding::Dictionary
    } else {
        Encoding::Plain
    }
}
