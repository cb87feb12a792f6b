//! A B+-tree that survives: leaves far and durable, in any number of copies, inner nodes near.
//!
//! ```text
//!  near │ inner nodes: from a key to a leaf                  inner.rs     rebuilt on opening
//!       │      summaries, one line a leaf: which far lines     near.rs
//!  far  │           leaf: 16 lines of three entries each       line.rs     in every copy
//!       │ extent 0: leaf │ leaf │ … │     extent 1: leaf │ …
//! ```
//! The key-value workload of the replication thesis (section 3.1.1, figure 3.1) runs on such a tree. Like the
//! FPTree and the LB+-tree it keeps leaves unsorted and finds entries by prints of their keys; unlike them
//! a leaf has no header that an entry has to be published in. Each line says itself what in it counts, so an
//! insertion, an update and a removal store into one line and wait for one fence, whatever the number of
//! copies. The prints lie near: a lookup reads one far line.
//!
//! Each line of a leaf has room for a word (`note`) that belongs to the leaf as a whole:
//! ```text
//!  line 0      │ note: the least key of the leaf's range │ 3 entries │
//!  line 1      │ note: the greatest                      │ 3 entries │
//!  line 2 … 15 │ note: 0                                 │ 3 entries │
//! ```
//! A leaf is *in the tree* if its range begins where that of another one ends, or with key 0. There is no list.
//! A split writes the new leaf whole, waits, and lowers the greatest key of the old one, one word: with
//! it the new leaf is in the tree, and what the old one still holds above is in its range no more.
//!
//! Invariants:
//! - The leaves in the tree cover every key once, at any moment that a crash could choose.
//! - At most one leaf is neither in the tree nor free, from a split or a merge that a crash cut short;
//!   opening frees it.
//! - Of what a line counts, only keys in its leaf's range are entries, each key once in the tree.

mod arch;
mod error;
mod inner;
mod line;
mod near;
mod open;
mod range;
mod write;

pub use error::TreeError;
pub use range::Range;

use tierra_interleave::{Cx, Gate, Lookups, Mode, map_into};
use tierra_memory::in_mode;
use tierra_memory::replication::{Composition, CopyBy, Master, Method, ReplicaSet, Waits};

use crate::lines::Lines;
use inner::InnerNodes;
use line::{Line, SLOTS, Seed};
use near::{PLACES, Summary};

/// Lines of a leaf.
const LEAF_LINES: usize = PLACES / SLOTS;
/// Bytes of a leaf.
pub(crate) const LEAF_BYTES: u64 = (LEAF_LINES * size_of::<Line>()) as u64;
/// Bits of a leaf's number that count within its extent; the others are the extent's.
const LEAF_BITS: u32 = 22;
/// The longest extent.
pub(crate) const EXTENT_BYTES_MOST: u64 = LEAF_BYTES << LEAF_BITS;
/// The most extents. No leaf has the number that means none.
pub(crate) const EXTENTS_MOST: usize = (1 << (u32::BITS - LEAF_BITS)) - 1;

/// A durable map from `u64` to `u64`.
///
/// Its leaves lie in *extents*, each a log of one length in all its copies ([`ReplicaSet`]). Their owner
/// remembers which ones there are and in which order, for instance in what its pool's root names: it
/// publishes an extent after [`create`](Self::create) has returned, but before
/// [`add_extent`](Self::add_extent) is called, and gives all of them to [`open`](Self::open).
///
/// Who may read while it is written: nobody. Any number of threads look up through `&PersistentTree` at
/// the same time; a change takes `&mut`, so the borrow checker keeps the one writer and the readers
/// apart, and an `RwLock` around the tree does where it cannot. What a change returned is durable in all copies.
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
    /// Goes into every check, so that no other tree's leaf is taken for one of this.
    id: u64,
    method: Method,
    extents: Vec<Extent>,
    inner: InnerNodes,
    /// The leaf whose range begins with 0.
    first: u32,
    /// Numbers of leaves that nothing is kept in; the last is used next.
    free: Vec<u32>,
    len: usize,
    gate: Gate,
}

/// A part of the leaves.
struct Extent {
    set: ReplicaSet,
    /// One for each leaf, in their order.
    summaries: Lines<Summary>,
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

    /// Writes all copies by another method than one fence behind all of them. Of a line only its waits and its
    /// prefetch count: a line is stored in order.
    pub fn set_method(&mut self, method: Method) {
        self.method = method;
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
        let mut places = cx.load(self.summary(number)).await.candidates(key);
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            let line = cx.load(self.line(number, place / SLOTS)).await;
            if line.key(place % SLOTS) == key {
                return Some(line.value(place % SLOTS));
            }
            places &= places - 1;
        }
        None
    }

    /// The value of `keys[i]` for each `i`, written to `values[i]`, plain or interleaved as `lookups` says or the
    /// tree's gate finds cheaper.
    ///
    /// # Panics
    /// If there are more or fewer places than keys.
    pub fn get_all(&self, lookups: &mut Lookups, keys: &[u64], values: &mut [Option<u64>]) {
        assert_eq!(keys.len(), values.len(), "a place for each value");
        lookups.run(&self.gate, keys.len(), |execution, size, part| {
            let (keys, values) = (&keys[part.clone()], &mut values[part]);
            in_mode!(execution, M => map_into(
                size, keys, |cx: Cx<M>, &key| self.get(cx, key), values))
        });
    }

    #[inline(always)]
    fn summary(&self, leaf: u32) -> &Summary {
        let (extent, index) = place(leaf);
        &self.extents[extent].summaries[index]
    }

    fn summary_mut(&mut self, leaf: u32) -> &mut Summary {
        let (extent, index) = place(leaf);
        &mut self.extents[extent].summaries[index]
    }

    /// A line of the master.
    #[inline(always)]
    fn line(&self, leaf: u32, line: usize) -> &Line {
        let (extent, index) = place(leaf);
        &self.extents[extent].lines()[index * LEAF_LINES + line]
    }

    fn leaf(&self, leaf: u32) -> &[Line] {
        let (extent, index) = place(leaf);
        &self.extents[extent].lines()[index * LEAF_LINES..][..LEAF_LINES]
    }

    fn leaf_bytes(&self, leaf: u32) -> &[u8] {
        let (extent, index) = place(leaf);
        &self.extents[extent].set.bytes(0)[index * LEAF_BYTES as usize..][..LEAF_BYTES as usize]
    }

    fn seed(&self, leaf: u32, line: usize) -> Seed {
        Seed::new(self.id, leaf, line)
    }
}

impl Extent {
    /// The master's lines.
    #[inline(always)]
    fn lines(&self) -> &[Line] {
        let bytes = self.set.bytes(0);
        let start = bytes.as_ptr().cast::<Line>();
        debug_assert!(start.is_aligned(), "a payload begins at a line");
        // SAFETY: payloads of extents are aligned to lines, and the length is rounded down to whole ones.
        // Any bytes are integers. The borrow of the set keeps its writer away.
        unsafe { std::slice::from_raw_parts(start, bytes.len() / size_of::<Line>()) }
    }
}

/// A leaf's extent, and which of its leaves it is.
#[inline(always)]
fn place(leaf: u32) -> (usize, usize) {
    let index = leaf & ((1 << LEAF_BITS) - 1);
    ((leaf >> LEAF_BITS) as usize, index as usize)
}
