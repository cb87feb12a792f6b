//! A persistent B+-tree: leaves far and durable, in any number of copies, inner nodes near.
//!
//! ```text
//!  near │ inner nodes: from a key to a leaf                  inner.rs     rebuilt on opening
//!       │      summaries, one line a leaf: which far lines     summary.rs
//!  far  │           leaf: 16 lines of three entries each       leaf_line.rs in every copy
//!       │ extent 0: leaf │ leaf │ … │     extent 1: leaf │ …
//! ```
//! The key-value workload of the replication thesis (section 3.1.1, figure 3.1) runs on such a tree. Like the
//! FPTree and the LB+-tree it keeps leaves unsorted and finds entries by fingerprints of their keys; unlike them
//! a leaf has no header in which an entry has to be published. Each line's state word says which of its entries
//! are valid, so an insertion, an update and a removal store into one line and wait for one fence, whatever the
//! number of copies. The fingerprints lie near: a lookup reads one far line.
//!
//! Each line of a leaf has room for a word (`leaf_word`) that belongs to the leaf as a whole:
//! ```text
//!  line 0      │ leaf word: least key of the leaf's range │ 3 entries │
//!  line 1      │ leaf word: greatest key                  │ 3 entries │
//!  line 2 … 15 │ leaf word: 0                             │ 3 entries │
//! ```
//! A leaf is *in the tree* if its range begins where that of another one ends, or with key 0. There is no list.
//! A split writes the new leaf completely, waits, and lowers the greatest key of the old one, one word. That word
//! puts the new leaf into the tree, and the entries that the old one still holds above it are out of its range.
//!
//! Invariants:
//! - The leaves in the tree cover every key once, at any moment that a crash could choose.
//! - At most one leaf is neither in the tree nor free, from a split or a merge that a crash cut short;
//!   opening frees it.
//! - Of what a line counts, only keys in its leaf's range are entries, each key once in the tree.

mod arch;
mod error;
mod inner;
mod leaf_line;
mod open;
mod range;
mod summary;
mod write;

pub use error::TreeError;
pub use range::Range;

use tierra_interleave::{Cx, Gate, Lookups, Mode, map_into};
use tierra_memory::in_mode;
use tierra_memory::replication::{Composition, CopyBy, Master, Method, ReplicaSet, Waits};

use crate::node_array::NodeArray;
use inner::InnerNodes;
use leaf_line::{LINE_SLOTS, LeafLine, Seed};
use summary::{LEAF_SLOTS, LeafSummary};

/// Lines of a leaf.
const LEAF_LINES: usize = LEAF_SLOTS / LINE_SLOTS;
/// Bytes of a leaf.
pub(crate) const LEAF_BYTES: u64 = (LEAF_LINES * size_of::<LeafLine>()) as u64;
/// Bits of a leaf's number that count within its extent; the others are the extent's.
const LEAF_BITS: u32 = 22;
/// The longest extent.
pub(crate) const MAX_EXTENT_BYTES: u64 = LEAF_BYTES << LEAF_BITS;
/// The most extents. No leaf has the number that means none.
pub(crate) const MAX_EXTENTS: usize = (1 << (u32::BITS - LEAF_BITS)) - 1;

/// A durable map from `u64` to `u64`.
///
/// Its leaves lie in *extents*, each a log of one length in all its copies ([`ReplicaSet`]). Their owner
/// remembers which ones there are and in which order, for instance in what its pool's root names: it
/// publishes an extent after [`create`](Self::create) has returned, but before
/// [`add_extent`](Self::add_extent) is called, and gives all of them to [`open`](Self::open).
///
/// Any number of threads look up through `&PersistentTree` at the same time. A change takes `&mut`, so the
/// borrow checker keeps the one writer and the readers apart; where it cannot, put an `RwLock` around the tree.
/// A change is durable in all copies when it returns.
///
/// ```
/// use tierra_index::PersistentTree;
/// use tierra_interleave::{Lookups, Scheduling, run_plain};
/// use tierra_memory::replication::ReplicaSet;
/// use tierra_memory::{Pool, PoolOptions};
///
/// let dir = tempfile::tempdir()?;
/// let pool = Pool::create(&dir.path().join("pool"), &PoolOptions::default())?;
/// let log = || pool.allocate(64 << 10, 1)?.finish_log().map(|log| (pool.clone(), log.extent()));
/// let copies = [log()?, log()?];
///
/// let mut tree = PersistentTree::create(7, vec![ReplicaSet::open(&copies)?])?;
/// for key in 0..1000 {
///     tree.put(key * 3, key)?;
/// }
/// drop(tree);
///
/// let tree = PersistentTree::open(7, vec![ReplicaSet::open(&copies)?])?;
/// assert_eq!(run_plain(|cx| tree.get(cx, 300)), Some(100));
/// let mut values = [None; 3];
/// tree.get_all(&mut Lookups::new(Scheduling::Auto), &[3, 4, 6], &mut values);
/// assert_eq!(values, [Some(1), None, Some(2)]);
/// assert!(tree.range(10..20).eq([(12, 4), (15, 5), (18, 6)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PersistentTree {
    /// Part of every checksum, so that a leaf of another tree is not taken for one of this.
    id: u64,
    extents: Vec<Extent>,
    inner: InnerNodes,
    /// The leaf whose range begins with 0.
    first: u32,
    /// Numbers of free leaves; the last is used next.
    free: Vec<u32>,
    len: usize,
    gate: Gate,
}

/// A part of the leaves.
struct Extent {
    set: ReplicaSet,
    /// One for each leaf, in their order.
    summaries: NodeArray<LeafSummary>,
}

/// One fence behind all copies.
const ONE_FENCE: Method = Method::Always(Composition {
    waits: Waits::Once,
    master: Master::Pre,
    prefetch: false,
    copy: CopyBy::Stores,
});

impl PersistentTree {
    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the next split would find no leaf: time to [`add_extent`](Self::add_extent).
    pub fn needs_extent(&self) -> bool {
        self.free.is_empty()
    }

    /// Leaves in use and leaves in all.
    pub fn leaves(&self) -> (u64, u64) {
        let all = self.extents.iter().map(|extent| extent.summaries.len());
        let all = all.sum::<usize>() as u64;
        (all - self.free.len() as u64, all)
    }

    /// Bytes of near memory that the tree takes.
    pub fn near_bytes(&self) -> usize {
        let summaries = self.extents.iter();
        let summaries = summaries.map(|extent| size_of_val(&*extent.summaries));
        summaries.sum::<usize>() + self.inner.bytes() + self.free.capacity() * size_of::<u32>()
    }

    /// The value of `key`: one lookup of a group. Reads the master's copy.
    pub async fn get<M: Mode>(&self, cx: Cx<M>, key: u64) -> Option<u64> {
        let (resident, larger) = self.inner.levels();
        let mut number = self.inner.root();
        for _ in 0..resident {
            number = self.inner.child(self.inner.node(number), key);
        }
        for _ in 0..larger {
            let node = cx.load(self.inner.node(number)).await;
            number = self.inner.child(node, key);
        }
        let mut slots = cx.load(self.summary(number)).await.candidates(key);
        while slots != 0 {
            let leaf_slot = slots.trailing_zeros() as usize;
            let line = cx.load(self.line(number, leaf_slot / LINE_SLOTS)).await;
            if line.key(leaf_slot % LINE_SLOTS) == key {
                return Some(line.value(leaf_slot % LINE_SLOTS));
            }
            slots &= slots - 1;
        }
        None
    }

    /// The value of `keys[i]` for each `i`, written to `values[i]`, plain or interleaved as `lookups` says or the
    /// tree's gate finds cheaper.
    ///
    /// # Panics
    /// If `values` and `keys` differ in length.
    pub fn get_all(&self, lookups: &mut Lookups, keys: &[u64], values: &mut [Option<u64>]) {
        assert_eq!(keys.len(), values.len(), "a place for each value");
        lookups.run(&self.gate, keys.len(), |execution, size, part| {
            let (keys, values) = (&keys[part.clone()], &mut values[part]);
            in_mode!(execution, M => map_into(
                size, keys, |cx: Cx<M>, &key| self.get(cx, key), values))
        });
    }

    #[inline(always)]
    fn summary(&self, leaf: u32) -> &LeafSummary {
        let (extent, index) = locate(leaf);
        &self.extents[extent].summaries[index]
    }

    fn summary_mut(&mut self, leaf: u32) -> &mut LeafSummary {
        let (extent, index) = locate(leaf);
        &mut self.extents[extent].summaries[index]
    }

    /// A line of the master.
    #[inline(always)]
    fn line(&self, leaf: u32, line: usize) -> &LeafLine {
        let (extent, index) = locate(leaf);
        &self.extents[extent].lines()[index * LEAF_LINES + line]
    }

    fn leaf(&self, leaf: u32) -> &[LeafLine] {
        let (extent, index) = locate(leaf);
        &self.extents[extent].lines()[index * LEAF_LINES..][..LEAF_LINES]
    }

    fn leaf_bytes(&self, leaf: u32) -> &[u8] {
        let (extent, index) = locate(leaf);
        &self.extents[extent].set.bytes(0)[index * LEAF_BYTES as usize..][..LEAF_BYTES as usize]
    }

    fn seed(&self, leaf: u32, line: usize) -> Seed {
        Seed::new(self.id, leaf, line)
    }
}

impl Extent {
    /// The master's lines.
    #[inline(always)]
    fn lines(&self) -> &[LeafLine] {
        let bytes = self.set.bytes(0);
        let start = bytes.as_ptr().cast::<LeafLine>();
        debug_assert!(start.is_aligned(), "a payload begins at a line");
        // SAFETY: payloads of extents are aligned to lines, and the length is rounded down to whole ones.
        // Any bytes are integers. The borrow of the set excludes its writer.
        unsafe { std::slice::from_raw_parts(start, bytes.len() / size_of::<LeafLine>()) }
    }
}

/// A leaf's extent, and which of its leaves it is.
#[inline(always)]
fn locate(leaf: u32) -> (usize, usize) {
    let index = leaf & ((1 << LEAF_BITS) - 1);
    ((leaf >> LEAF_BITS) as usize, index as usize)
}
