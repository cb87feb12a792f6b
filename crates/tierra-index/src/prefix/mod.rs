//! The rank of a string among sorted, distinct ones: search trees over eight bytes of each string at a
//! time.
//!
//! ```text
//!  layer 0: every string                           skip 10: all begin with "Customer#0"
//!    keys   │ 00012345 │ 00012346 │ … │            bytes 10..18 of each, as one big-endian number,
//!    tree   over the keys                          short strings filled up with zero bytes
//!                │ more than 16 strings share a key
//!                ▼
//!  layer n: those of them that go on               skip: behind what all of these share
//! ```
//!
//! Nearly always the keys of the first layer tell all strings apart: a lookup then reads the tree's
//! lines and the one string it ends at, which it compares as a whole. So layers may skip bytes
//! unseen: a string that differs in them is found out at the end. Up to 16 strings of one key are
//! searched themselves; more have a layer of their own, found by a [`HashIndex`]. Every layer tells
//! eight more bytes apart, so the keys of all layers take no more than the strings themselves do,
//! and 8 bytes a string.
//!
//! Above strings of which the first layer tells all apart the whole takes 8.5 bytes a string. It reads
//! the strings where their owner keeps them ([`SortedStrings`]) and is rebuilt when they are loaded.
//!
//! Invariants:
//! - Layer 0 is of all strings. The strings of a layer are consecutive, agree in the bytes before its
//!   `skip`, and have at least as many.
//! - Strings of one key that do not go on behind it (shorter than `skip + 8`) precede those that do, and
//!   differ in their zero bytes at the end only: there are at most eight of them.

mod build;

use std::cmp::Ordering;
use std::ops::Range;

use tierra_interleave::{Cx, GroupReport, GroupSize, Mode, for_each};

use crate::hash::HashIndex;
use crate::sorted::lower_bound;
use crate::tree::SearchTree;

/// Bytes that a key takes from a string.
const KEY_BYTES: usize = size_of::<u64>();

/// Strings of one key that have no layer of their own.
const RUN_MAX: usize = 16;

/// Keys that go down the first tree together. More than a batch of the tree, so that the lookups that
/// follow seldom run out of others to take turns with.
const KEYS_TOGETHER: usize = 1024;

/// Strings in ascending order of their bytes, no two the same, each found by its rank.
pub trait SortedStrings {
    /// The number of strings.
    fn len(&self) -> usize;

    /// Whether there are no strings.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The string with rank `rank`, which is less than [`len`](Self::len).
    fn get(&self, rank: usize) -> &[u8];

    /// Brings that string near, giving way as often as what leads to its bytes may be far.
    fn load<M: Mode>(&self, cx: Cx<M>, rank: usize) -> impl Future<Output = &[u8]>;
}

/// Strings of which each has its own place, such as boxed ones.
impl<T: AsRef<[u8]>> SortedStrings for [T] {
    fn len(&self) -> usize {
        self.len()
    }

    fn get(&self, rank: usize) -> &[u8] {
        self[rank].as_ref()
    }

    async fn load<M: Mode>(&self, cx: Cx<M>, rank: usize) -> &[u8] {
        let bytes = cx.load(&self[rank]).await.as_ref();
        cx.load_bytes(&bytes[..bytes.len().min(FETCHED_BYTES)])
            .await;
        bytes
    }
}

/// The most bytes of a string worth fetching before it is compared: a comparison that goes on behind
/// them runs in order, which the processor sees.
pub const FETCHED_BYTES: usize = 256;

/// An index of sorted strings.
///
/// ```
/// use tierra_index::PrefixTree;
/// use tierra_interleave::{GroupSize, Interleaved, run_plain};
///
/// let names = ["", "Aachen", "Amsterdam", "Zürich"];
/// let tree = PrefixTree::new(&names[..]);
/// assert_eq!(run_plain(|cx| tree.find(cx, &names[..], b"Amsterdam")), Some(2));
///
/// let mut found = Vec::new();
/// tree.find_all::<Interleaved, _, _>(GroupSize::DEFAULT, &names[..], &["Zürich", "Z"], |wanted, rank| {
///     found.push((wanted, rank));
/// });
/// found.sort();
/// assert_eq!(found, [(0, Some(3)), (1, None)]);
/// ```
pub struct PrefixTree {
    layers: Vec<Layer>,
    /// From the number of a run's first key, counted through all layers, to the layer of its strings.
    deeper: HashIndex,
    len: usize,
}

/// An index of consecutive strings by eight bytes of each.
struct Layer {
    /// The rank of its first string.
    first: usize,
    /// Bytes before those of the keys.
    skip: usize,
    /// Of each of its strings, ascending.
    keys: Box<[u64]>,
    tree: SearchTree<u64>,
    /// Keys in the layers before it.
    keys_before: usize,
    /// No two keys are the same.
    is_distinct: bool,
}

impl PrefixTree {
    /// Bytes of memory that the index takes beside the strings.
    pub fn len_bytes(&self) -> usize {
        let layer =
            |layer: &Layer| size_of::<Layer>() + size_of_val(&*layer.keys) + layer.tree.len_bytes();
        self.layers.iter().map(layer).sum::<usize>() + self.deeper.bytes()
    }

    /// The rank of `wanted` among `strings`, if it is one of them.
    ///
    /// # Panics
    ///
    /// If there are more or fewer strings than the index was built over. With other strings of the same
    /// number the answer is a rank whose string is `wanted`, or `None`.
    pub async fn find<M, S>(&self, cx: Cx<M>, strings: &S, wanted: &[u8]) -> Option<usize>
    where
        M: Mode,
        S: SortedStrings + ?Sized,
    {
        self.check(strings);
        let layer = &self.layers[0];
        let key = key_of(wanted, layer.skip)?;
        let position = layer.tree.over(&layer.keys).lower_bound(cx, key).await;
        self.resolve(cx, strings, wanted, position).await
    }

    /// As [`find`](Self::find), but the keys of the first layer are searched by halving them, as if there
    /// were no tree: what the tree is measured against.
    ///
    /// # Panics
    ///
    /// As [`find`](Self::find).
    pub async fn find_by_binary_search<M, S>(
        &self,
        cx: Cx<M>,
        strings: &S,
        wanted: &[u8],
    ) -> Option<usize>
    where
        M: Mode,
        S: SortedStrings + ?Sized,
    {
        self.check(strings);
        let layer = &self.layers[0];
        let key = key_of(wanted, layer.skip)?;
        let position = lower_bound(cx, &layer.keys, key).await;
        self.resolve(cx, strings, wanted, position).await
    }

    /// The ranks of many strings, as [`find`](Self::find): `found` is called with the index of each and
    /// its rank, in no particular order. The first layer's tree is gone down in batches; `size` of the
    /// lookups take turns at what follows.
    ///
    /// # Panics
    ///
    /// As [`find`](Self::find).
    pub fn find_all<M, S, W>(
        &self,
        size: GroupSize,
        strings: &S,
        wanted: &[W],
        mut found: impl FnMut(usize, Option<usize>),
    ) -> GroupReport
    where
        M: Mode,
        S: SortedStrings + ?Sized,
        W: AsRef<[u8]>,
    {
        self.check(strings);
        let layer = &self.layers[0];
        let searcher = layer.tree.over(&layer.keys);
        let mut keys = Vec::with_capacity(KEYS_TOGETHER.min(wanted.len()));
        let mut positions = vec![0; KEYS_TOGETHER.min(wanted.len())];
        let mut report = GroupReport::default();
        for (number, together) in wanted.chunks(KEYS_TOGETHER).enumerate() {
            keys.clear();
            // One that is too short to have a key is not there: any position finds that out.
            keys.extend(
                together
                    .iter()
                    .map(|wanted| key_of(wanted.as_ref(), layer.skip).unwrap_or(0)),
            );
            let positions = &mut positions[..together.len()];
            report.suspensions += searcher.lower_bounds::<M>(&keys, positions).suspensions;
            report += for_each(
                size,
                together.iter().zip(&*positions),
                |cx: Cx<M>, (wanted, &position)| {
                    self.resolve(cx, strings, wanted.as_ref(), position)
                },
                |index, rank| found(number * KEYS_TOGETHER + index, rank),
            );
        }
        report
    }

    /// The rank of `wanted`, given the position of its key in the first layer.
    async fn resolve<M, S>(
        &self,
        cx: Cx<M>,
        strings: &S,
        wanted: &[u8],
        mut position: usize,
    ) -> Option<usize>
    where
        M: Mode,
        S: SortedStrings + ?Sized,
    {
        let mut layer = &self.layers[0];
        loop {
            let key = key_of(wanted, layer.skip)?;
            // In the line where the search ended: near.
            if layer.keys.get(position) != Some(&key) {
                return None;
            }
            let rank = layer.first + position;
            // The next key may lie in the next line, so it is not looked at without need.
            if layer.is_distinct
                || cx
                    .load(&layer.keys[position..layer.keys.len().min(position + 2)])
                    .await
                    .get(1)
                    != Some(&key)
            {
                return (strings.load(cx, rank).await == wanted).then_some(rank);
            }
            let number = (layer.keys_before + position) as u64;
            let Some(deeper) = self.deeper.get(cx, number).await else {
                let run = layer.keys[position..]
                    .iter()
                    .take_while(|other| **other == key)
                    .count();
                return search(cx, strings, rank..rank + run, wanted).await;
            };
            let deeper = &self.layers[deeper as usize];
            if wanted.len() < layer.skip + KEY_BYTES {
                return search(cx, strings, rank..deeper.first, wanted).await;
            }
            let key = key_of(wanted, deeper.skip)?;
            position = deeper.tree.over(&deeper.keys).lower_bound(cx, key).await;
            layer = deeper;
        }
    }

    fn check<S: SortedStrings + ?Sized>(&self, strings: &S) {
        assert_eq!(
            self.len,
            strings.len(),
            "a prefix tree belongs to one sequence of strings"
        );
    }
}

/// The rank of `wanted` among few strings.
async fn search<M, S>(
    cx: Cx<M>,
    strings: &S,
    mut ranks: Range<usize>,
    wanted: &[u8],
) -> Option<usize>
where
    M: Mode,
    S: SortedStrings + ?Sized,
{
    while !ranks.is_empty() {
        let middle = ranks.start + ranks.len() / 2;
        match strings.load(cx, middle).await.cmp(wanted) {
            Ordering::Equal => return Some(middle),
            Ordering::Less => ranks.start = middle + 1,
            Ordering::Greater => ranks.end = middle,
        }
    }
    None
}

/// The eight bytes behind `skip` as a number in the order of bytes, zero bytes where there are fewer;
/// `None` if `string` does not reach that far.
fn key_of(string: &[u8], skip: usize) -> Option<u64> {
    let rest = string.get(skip..)?;
    Some(match rest.first_chunk::<KEY_BYTES>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; KEY_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    })
}
