//! How one cursor reaches the blocks of each tier; `auto` is settled by measuring.
//!
//! Measuring decodes blocks that the scan is about to read, at some places spread over its columns and segments: at each, as many
//! runs of neighbouring blocks as there are methods, each run by one of them: in place, or copied as into a frame that has to be filled,
//! and checked and decoded there. So it sees the medium, the state of
//! the page cache and emulated far memory as the scan will, and how much waiting decoding hides. Methods are compared place by
//! place, because a byte of one column takes several times what one of another does; what cannot be clearly faster at three of four
//! any more is read no further. The result lasts a minute, and then until as much was scanned again that measuring costs little beside
//! it; before the first, scans read in place.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use tierra_column::Chunk;
use tierra_column::bits::PAD_BYTES;
use tierra_memory::emulation::begin_read;
use tierra_memory::{CopyMethod, CopyMethodError, FileReads};

use super::Segment;
use super::framed::FRAME_BLOCKS;
use crate::spec::replicas::TierId;
use crate::storage::access::Access;
use crate::storage::tier::Tier;
use crate::storage::tiers::Tiers;

/// Consecutive blocks of a column that are read by one method.
const RUN_BLOCKS: usize = 32;
/// Places at which each method reads a run.
const PLACES: usize = 8;
/// What is measured, in place first.
const MEASURED: [Option<CopyMethod>; 4] = [
    None,
    Some(CopyMethod::Mapped),
    Some(CopyMethod::Buffered),
    Some(CopyMethod::Direct),
];
/// Frames are used only if they take no more than this share of the time in place: neighbours differ, what is in place already stays
/// cached, and a wrong choice lasts a minute.
const CLEARLY: f64 = 0.85;
/// The most places at which frames that are used were not clearly faster.
const PLACES_LOST: usize = PLACES / 4;
/// A method that takes this many times what reading in place does at the first place is read no further: small reads past the page cache
/// take that long, and would take most of the time that is spent on measuring.
const HOPELESS: f64 = 4.0;

/// How one cursor reaches the blocks of each tier.
#[derive(Debug)]
pub(crate) struct Methods(Vec<(TierId, CopyMethod)>);

impl Methods {
    /// In place everywhere.
    pub(crate) const IN_PLACE: Methods = Methods(Vec::new());

    /// How blocks of a tier are copied into frames; `None`: they are read in place.
    #[inline]
    pub(crate) fn of(&self, tier: TierId) -> Option<CopyMethod> {
        let mut framed = self.0.iter();
        framed
            .find(|(id, _)| *id == tier)
            .map(|(_, method)| *method)
    }

    /// Whether there is a tier whose blocks are copied.
    #[inline]
    pub(crate) fn has_frames(&self) -> bool {
        !self.0.is_empty()
    }

    /// The methods of a scan of these columns of these segments; `access`, if given, instead of what the tiers say. `decode`
    /// does with a block of a column what the scan does.
    pub(crate) fn settle(
        access: Option<Access>,
        tiers: &Tiers,
        segments: &[Arc<Segment>],
        columns: &[usize],
        mut decode: impl FnMut(usize, &Chunk<'_>, usize),
    ) -> Result<Methods, CopyMethodError> {
        let mut framed = Vec::new();
        for tier in tiers.readable() {
            let method = match access.unwrap_or(tier.access) {
                Access::InPlace => None,
                Access::Framed(method) => Some(method),
                Access::Auto => tier.fastest(
                    || bytes(tier, segments, columns),
                    || fastest(tier, segments, columns, &mut decode),
                ),
            };
            // A tier's own mode was checked when it was set.
            if let (Some(method), Some(_)) = (method, access) {
                tier.pool.check_copy_method(method)?;
            }
            framed.extend(method.map(|method| (tier.id, method)));
        }
        Ok(Methods(framed))
    }
}

/// The columns of segments that lie on a tier.
fn on_tier<'a>(
    tier: &Tier,
    segments: &'a [Arc<Segment>],
    columns: &'a [usize],
) -> impl Iterator<Item = (&'a Segment, usize)> {
    let lies_there = move |(segment, column): &(&Segment, usize)| {
        let far = segment.far(*column);
        far.is_some_and(|(_, copy, _)| copy.tier() == tier.id)
    };
    let all = segments.iter().flat_map(|segment| {
        let columns = columns.iter();
        columns.map(move |column| (&**segment, *column))
    });
    all.filter(lies_there)
}

/// Bytes of these columns of these segments on a tier.
fn bytes(tier: &Tier, segments: &[Arc<Segment>], columns: &[usize]) -> u64 {
    let places = on_tier(tier, segments, columns)
        .filter_map(|(segment, column)| segment.far(column))
        .map(|(.., place)| place.len() as u64);
    places.sum()
}

/// The fastest method by which these columns of these segments can be read from a tier, in place being `Some(None)`; `None` if
/// too little lies there to measure.
fn fastest(
    tier: &Tier,
    segments: &[Arc<Segment>],
    columns: &[usize],
    decode: &mut impl FnMut(usize, &Chunk<'_>, usize),
) -> Option<Option<CopyMethod>> {
    let has = |method: &Option<CopyMethod>| {
        method.is_none_or(|method| tier.pool.check_copy_method(method).is_ok())
    };
    let methods: Vec<_> = MEASURED.into_iter().filter(has).collect();
    let place_blocks = methods.len() * RUN_BLOCKS;
    let places: Vec<_> = on_tier(tier, segments, columns)
        .flat_map(|(segment, column)| {
            let starts =
                (0..segment.blocks() / place_blocks).map(move |place| place * place_blocks);
            starts.map(move |start| (segment, column, start))
        })
        .collect();
    if places.len() < PLACES {
        return None;
    }
    // Other places each time: what was measured is in the page cache.
    let begin = RandomState::new().hash_one(0) as usize % places.len();
    let place = |turn: usize| places[(begin + turn * (places.len() / PLACES)) % places.len()];
    // As a scan reads frames ahead.
    let mut reads = FileReads::new(RUN_BLOCKS / FRAME_BLOCKS);
    // What decoding makes when it is first used is no method's; the last place is measured last, or not at all.
    let (segment, column, start) = place(PLACES - 1);
    segment.read_run(None, &mut reads, column, start, decode);
    let mut compared = Compared::new(methods.len());
    for turn in 0..PLACES {
        let (segment, column, start) = place(turn);
        let left = compared.left();
        let mut ns_per_byte = vec![None; methods.len()];
        for run in 0..left.len() {
            // Another one begins at each place: the first reads what the system then reads ahead.
            let method = left[(turn + run) % left.len()];
            let start = start + run * RUN_BLOCKS;
            let began = Instant::now();
            let bytes = segment.read_run(methods[method], &mut reads, column, start, decode);
            // What cannot be read by a method has no bytes.
            let per_byte = |bytes: u64| began.elapsed().as_nanos() as f64 / bytes.max(1) as f64;
            ns_per_byte[method] = bytes.map(per_byte);
        }
        compared.note(&ns_per_byte);
        if compared.is_decided() {
            break;
        }
    }
    tracing::debug!(
        tier = &*tier.name,
        ?methods,
        ?compared,
        "access modes were measured"
    );
    Some(methods[compared.best()])
}

/// What each method takes over reading in place, the first, place by place. No mean: an interruption is at one place.
#[derive(Debug)]
struct Compared(Vec<Vec<f64>>);

impl Compared {
    fn new(methods: usize) -> Compared {
        Compared(vec![Vec::with_capacity(PLACES); methods])
    }

    /// The methods that may be used yet, in place always among them.
    fn left(&self) -> Vec<usize> {
        let is_left = |method: &usize| {
            let ratios = &self.0[*method];
            let lost = ratios.iter().filter(|ratio| **ratio >= CLEARLY).count();
            let is_hopeless = ratios.first().is_some_and(|ratio| *ratio >= HOPELESS);
            *method == 0 || lost <= PLACES_LOST && !is_hopeless
        };
        (0..self.0.len()).filter(is_left).collect()
    }

    fn is_decided(&self) -> bool {
        self.left().len() == 1
    }

    /// Notes the time per byte of each method at one place; methods without one were not read there, or cannot be.
    fn note(&mut self, ns_per_byte: &[Option<f64>]) {
        let left = self.left();
        let in_place = ns_per_byte[0].unwrap_or(f64::INFINITY);
        for method in left {
            let ratio = ns_per_byte[method].map_or(f64::INFINITY, |ns| ns / in_place);
            self.0[method].push(ratio);
        }
    }

    /// The method to be used: of those that are left the one that took the least in the median.
    fn best(&self) -> usize {
        let median = |method: &usize| {
            let mut ratios = self.0[*method].clone();
            ratios.sort_unstable_by(f64::total_cmp);
            ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
        };
        let methods = self.left().into_iter();
        let least = methods.min_by(|one, other| median(one).total_cmp(&median(other)));
        least.unwrap_or(0)
    }
}

impl Segment {
    /// Reads a run of blocks as a scan would, and drops what it read; returns how many bytes. `None` if they cannot be copied.
    fn read_run(
        &self,
        method: Option<CopyMethod>,
        reads: &mut Option<FileReads>,
        column: usize,
        start: usize,
        decode: &mut impl FnMut(usize, &Chunk<'_>, usize),
    ) -> Option<u64> {
        let (_, copy, place) = self.far(column)?;
        let chunk = self.chunk(column);
        let blocks = start..start + RUN_BLOCKS;
        let range = |first: usize, end: usize| {
            chunk.block_range(first).start..chunk.block_range(end - 1).end
        };
        let run_bytes = range(blocks.start, blocks.end).len() as u64;
        let Some(method) = method else {
            for block in blocks {
                let _reading = begin_read(chunk.stored_block(block));
                // As the scan does: a block is checked when it is first read in place, and each time that it is in a frame.
                if self.verified.contains(block, column) || chunk.verify_block(block).is_ok() {
                    decode(column, chunk, block);
                }
            }
            return Some(run_bytes);
        };
        let frames = || blocks.clone().step_by(FRAME_BLOCKS);
        let of_extent = |first: usize| {
            let range = range(first, first + FRAME_BLOCKS);
            place.start + range.start..place.start + range.end
        };
        let begun: Vec<_> = frames()
            .map(|first| copy.begin_copy_out(reads.as_mut()?, of_extent(first), PAD_BYTES, method))
            .collect();
        reads.iter_mut().for_each(FileReads::submit);
        let mut is_whole = true;
        for (first, begun) in frames().zip(begun) {
            // All that were begun are taken, whatever comes of one.
            let copied = match (begun, reads.as_mut()) {
                (Some(begun), Some(reads)) => reads.finish(begun),
                _ => copy.copy_out(of_extent(first), PAD_BYTES, method),
            };
            let Ok(copied) = copied else {
                is_whole = false;
                continue;
            };
            let framed = chunk.with_blocks(range(first, first + FRAME_BLOCKS).start, &copied);
            for block in first..first + FRAME_BLOCKS {
                // Damage is for the scan to find.
                if framed.verify_block(block).is_ok() {
                    decode(column, &framed, block);
                }
            }
        }
        is_whole.then_some(run_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_clearly_faster_is_left_out_and_one_interruption_decides_nothing() {
        let mut compared = Compared::new(3);
        // The first place was interrupted while it was read in place.
        compared.note(&[Some(100.0), Some(2.0), Some(3.0)]);
        for _ in 0..PLACES_LOST {
            assert_eq!(compared.left(), [0, 1, 2]);
            compared.note(&[Some(1.0), Some(0.9), Some(0.5)]);
        }
        compared.note(&[Some(1.0), Some(0.9), Some(3.0)]);
        assert_eq!(compared.left(), [0, 2]);
        assert!(!compared.is_decided());
        assert_eq!(compared.best(), 2);
        for _ in 0..PLACES_LOST {
            compared.note(&[Some(1.0), None, Some(0.9)]);
        }
        assert!(compared.is_decided());
        assert_eq!(compared.best(), 0);
    }

    #[test]
    fn what_is_hopeless_is_read_once() {
        let mut compared = Compared::new(2);
        compared.note(&[Some(1.0), Some(HOPELESS)]);
        assert!(compared.is_decided());
        assert_eq!(compared.best(), 0);
    }

    #[test]
    fn what_cannot_be_read_by_a_method_is_not_read_by_it() {
        let mut compared = Compared::new(2);
        for _ in 0..PLACES {
            compared.note(&[Some(1.0), None]);
        }
        assert!(compared.is_decided());
        assert_eq!(compared.best(), 0);
    }
}
