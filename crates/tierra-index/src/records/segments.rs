//! The groups of a table: where they lie, and how they grow, split, merge and shrink.
//!
//! Segments come thirty-two to a large page, near or far, so that a probe rarely misses the TLB; the first thirty-two near
//! ones come one, two, four at a time, or a table of one segment would take a large page. The only segment of a small table
//! lies by itself, near. Entries move by the bits that the table keeps of their hashes: a record's key
//! is read only where these do not say where its entry belongs.
//!
//! Invariants: a segment's length is the number of its occupied slots; every number is either among those that name segments, or
//! among the unused; there are blocks exactly if there is a [`ManySegments`], and else one segment, number 0.

use std::ops::Range;
use std::sync::Arc;

use tierra_memory::{FarSource, LARGE_PAGE_BYTES, emulation};

use super::group::{Group, HASH_BITS, RecordEntry, SLOTS};
use super::probe::{home_group, next_group};
use super::record_store::RecordStore;
use crate::node_array::{Node, NodeArray};

/// Entries a group holds on average when its segment is full.
///
/// With insertions and removals, entries that were inserted while their home was full stay displaced. Then a search
/// for an absent key reads nine groups at a load of twelve, and three at a load of eleven (`churn_makes_no_search_long`).
pub(super) const LOAD: usize = 11;
/// Groups of a segment that splits instead of doubling.
pub(super) const SEGMENT_GROUPS: usize = 512;
const BLOCK_SEGMENTS: usize = LARGE_PAGE_BYTES / (SEGMENT_GROUPS * size_of::<Group>());
/// A segment emptier than one part in this many looks for a neighbour to share with.
const SPARSE: usize = 4;

pub(super) struct Segments {
    /// The only segment, while it has fewer groups than [`SEGMENT_GROUPS`]; then there are no blocks.
    small: Box<[Group]>,
    /// Entries of the small segment.
    small_len: u32,
    /// The others; a block none of whose segments is used is given back.
    blocks: Box<[Option<NodeArray<Group>>]>,
    /// What else there is to know of blocks. Apart, because most tables are small, and there may be millions of them.
    many: Option<Box<ManySegments>>,
    /// The source of far blocks; `None` if blocks are near.
    far: Option<Arc<FarSource>>,
}

/// The segments in blocks.
#[derive(Default)]
struct ManySegments {
    /// Groups of all blocks.
    block_groups: usize,
    info: Vec<SegmentInfo>,
    /// The numbers that name segments, and the free ones.
    in_use: Vec<u32>,
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
struct SegmentInfo {
    len: u32,
    /// How many of a hash's top bits all entries share.
    depth: u32,
    /// Where its number stands among those that name segments.
    in_use_at: u32,
}

impl SegmentInfo {
    const EMPTY: SegmentInfo = SegmentInfo {
        len: 0,
        depth: 0,
        in_use_at: 0,
    };
}

/// An entry that moves to another group.
#[derive(Clone, Copy)]
struct Moved {
    home: usize,
    tag: u8,
    entry: RecordEntry,
}

impl Segments {
    /// One segment of one group. Blocks are far if a source of far memory is given.
    pub(super) fn new(far: Option<Arc<FarSource>>) -> Segments {
        Segments {
            small: vec![<Group as Node>::ZERO].into_boxed_slice(),
            small_len: 0,
            blocks: Box::default(),
            many: None,
            far,
        }
    }

    pub(super) fn far(&self) -> Option<&Arc<FarSource>> {
        self.far.as_ref()
    }

    /// Bytes of far memory.
    pub(super) fn far_bytes(&self) -> usize {
        let far = self.blocks.iter().flatten().filter(|block| block.is_far());
        far.map(|block| block.len()).sum::<usize>() * size_of::<Group>()
    }

    /// Some groups are about to be read sequentially, or outside a lookup. Emulated far memory adds its delay
    /// here.
    #[inline(always)]
    pub(super) fn reading(&self, number: usize, groups: Range<usize>) {
        if self.far.is_some() {
            let groups = self.groups(number).get(groups).unwrap_or_default();
            drop(emulation::begin_read(Group::bytes(groups)));
        }
    }

    /// Some groups have been written. Emulated far memory adds its delay here.
    #[inline(always)]
    pub(super) fn wrote(&self, number: usize, groups: Range<usize>) {
        if self.far.is_some() {
            let groups = &self.groups(number)[groups];
            drop(emulation::begin_store(
                groups.as_ptr().cast(),
                size_of_val(groups),
            ));
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let small = size_of_val(&*self.small);
        let Some(many) = &self.many else {
            return small;
        };
        small
            + many.block_groups * size_of::<Group>()
            + size_of_val(&*self.blocks)
            + size_of::<ManySegments>()
            + many.info.capacity() * size_of::<SegmentInfo>()
            + (many.in_use.capacity() + many.free.capacity()) * size_of::<u32>()
    }

    /// Numbers below this may name segments.
    pub(super) fn numbers(&self) -> usize {
        self.many.as_ref().map_or(1, |many| many.info.len())
    }

    /// The numbers that name segments, in no particular order.
    pub(super) fn in_use(&self) -> &[u32] {
        self.many.as_ref().map_or(&[0], |many| &many.in_use)
    }

    #[inline(always)]
    pub(super) fn groups(&self, number: usize) -> &[Group] {
        match self.blocks.get(number / BLOCK_SEGMENTS) {
            Some(Some(block)) => {
                &block[number % BLOCK_SEGMENTS * SEGMENT_GROUPS..][..SEGMENT_GROUPS]
            }
            _ => &self.small,
        }
    }

    #[inline(always)]
    pub(super) fn groups_mut(&mut self, number: usize) -> &mut [Group] {
        match self.blocks.get_mut(number / BLOCK_SEGMENTS) {
            Some(Some(block)) => {
                &mut block[number % BLOCK_SEGMENTS * SEGMENT_GROUPS..][..SEGMENT_GROUPS]
            }
            _ => &mut self.small,
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = RecordEntry> {
        let used = (0..self.numbers()).filter(|&number| self.is_used(number));
        let groups = used.flat_map(|number| self.groups(number));
        groups.flat_map(|group| group.occupied().map(|slot| group.entry(slot)))
    }

    /// Whether the segment holds anything.
    pub(super) fn is_used(&self, number: usize) -> bool {
        self.len(number) > 0
    }

    pub(super) fn depth(&self, number: usize) -> u32 {
        self.many.as_ref().map_or(0, |many| many.info[number].depth)
    }

    /// Entries of a segment.
    #[inline(always)]
    fn len(&self, number: usize) -> usize {
        let many = self.many.as_ref();
        many.map_or(self.small_len, |many| many.info[number].len) as usize
    }

    #[inline(always)]
    fn len_mut(&mut self, number: usize) -> &mut u32 {
        match &mut self.many {
            Some(many) => &mut many.info[number].len,
            None => &mut self.small_len,
        }
    }

    pub(super) fn is_full(&self, number: usize) -> bool {
        self.len(number) >= self.groups(number).len() * LOAD
    }

    pub(super) fn is_sparse(&self, number: usize) -> bool {
        let groups = self.groups(number).len();
        groups > 1 && self.len(number) < groups * LOAD / SPARSE
    }

    /// Whether two segments fill less than half of one.
    pub(super) fn fit_together(&self, one: usize, other: usize) -> bool {
        self.len(one) + self.len(other) < SEGMENT_GROUPS * LOAD / 2
    }

    /// Inserts an entry into the first group of its probe sequence that has a vacant slot; returns group and slot.
    #[inline]
    pub(super) fn insert(
        &mut self,
        number: usize,
        home: usize,
        tag: u8,
        entry: RecordEntry,
    ) -> (usize, usize) {
        *self.len_mut(number) += 1;
        let groups = self.groups_mut(number);
        let mut at = home;
        loop {
            if let Some(slot) = groups[at].try_insert(tag, entry, at != home) {
                return (at, slot);
            }
            at = next_group(at, tag, groups.len());
        }
    }

    /// An entry of the segment has been removed.
    pub(super) fn note_removal(&mut self, number: usize) {
        *self.len_mut(number) -= 1;
    }

    /// Moves every entry of the only segment into twice the groups.
    pub(super) fn double<R: RecordStore>(&mut self, records: &R) {
        let groups = 2 * self.groups(0).len();
        let moved = self.drain(0, |_, entry| {
            home_group(records.hash(entry.record()), groups)
        });
        self.resize(groups);
        self.insert_all(0, moved);
    }

    /// Moves every entry of the only segment into half the groups.
    pub(super) fn halve<R: RecordStore>(&mut self, records: &R) {
        let groups = self.groups(0).len() / 2;
        let moved = self.drain(0, |at, entry| {
            let hash = || records.hash(entry.record());
            home_group(
                if entry.is_displaced() {
                    hash()
                } else {
                    at as u64
                },
                groups,
            )
        });
        self.resize(groups);
        self.insert_all(0, moved);
    }

    /// Gives the entries with the next bit set to a new segment, which is returned.
    pub(super) fn split<R: RecordStore>(&mut self, number: usize, records: &R) -> usize {
        let depth = self.depth(number) + 1;
        let new = self.claim_number();
        let info = &mut self.many_mut().info;
        info[number].depth = depth;
        info[new].depth = depth;
        let moved = self.drain(number, |at, entry| current_home(at, entry, records));
        let (ones, zeros): (Vec<Moved>, _) = moved.into_iter().partition(|moved| {
            let known = depth <= HASH_BITS;
            let hash = || records.hash(moved.entry.record());
            let hash = if known {
                moved.entry.hash_top()
            } else {
                hash()
            };
            hash >> (u64::BITS - depth) & 1 == 1
        });
        self.insert_all(number, zeros);
        self.insert_all(new, ones);
        new
    }

    /// Moves the entries of `other` to `number`, which share all but their last bit.
    pub(super) fn merge<R: RecordStore>(&mut self, number: usize, other: usize, records: &R) {
        let mut moved = self.drain(other, |at, entry| current_home(at, entry, records));
        moved.extend(self.drain(number, |at, entry| current_home(at, entry, records)));
        self.insert_all(number, moved);
        let many = self.many_mut();
        many.info[number].depth -= 1;
        let at = many.info[other].in_use_at;
        many.in_use.swap_remove(at as usize);
        if let Some(&moved) = many.in_use.get(at as usize) {
            many.info[moved as usize].in_use_at = at;
        }
        many.free.push(other as u32);
        let block = other / BLOCK_SEGMENTS;
        let in_block = |&&free: &&u32| free as usize / BLOCK_SEGMENTS == block;
        if many.free.iter().filter(in_block).count() == BLOCK_SEGMENTS {
            many.block_groups -= BLOCK_SEGMENTS * SEGMENT_GROUPS;
            self.blocks[block] = None;
        }
    }

    /// Empties a segment; `home` is asked for every entry's new home.
    fn drain(&mut self, number: usize, home: impl Fn(usize, RecordEntry) -> usize) -> Vec<Moved> {
        let mut moved = Vec::with_capacity(self.len(number));
        self.reading(number, 0..self.groups(number).len());
        for (at, group) in self.groups_mut(number).iter_mut().enumerate() {
            for slot in group.occupied() {
                let (tag, entry) = (group.tag(slot), group.entry(slot));
                let home = home(at, entry);
                moved.push(Moved { home, tag, entry });
            }
            *group = <Group as Node>::ZERO;
        }
        *self.len_mut(number) = 0;
        moved
    }

    fn insert_all(&mut self, number: usize, moved: Vec<Moved>) {
        for Moved { home, tag, entry } in moved {
            self.insert(number, home, tag, entry);
        }
        self.wrote(number, 0..self.groups(number).len());
    }

    /// Gives the only segment, number 0, which is empty, as many groups.
    fn resize(&mut self, groups: usize) {
        debug_assert_eq!(
            (self.len(0), self.depth(0), self.in_use()),
            (0, 0, &[0][..])
        );
        self.blocks = Box::default();
        self.many = None;
        if groups < SEGMENT_GROUPS {
            self.small = vec![<Group as Node>::ZERO; groups].into_boxed_slice();
        } else {
            self.small = Box::default();
            self.many = Some(Box::default());
            self.claim_number();
        }
    }

    /// What is known of blocks, which there are.
    fn many_mut(&mut self) -> &mut ManySegments {
        self.many.as_mut().expect("a table of several segments")
    }

    /// A segment that nothing names, empty, of depth 0.
    fn claim_number(&mut self) -> usize {
        if self.many_mut().free.is_empty() {
            self.add_segments();
        }
        let number = self.many_mut().free.pop().expect("there are some now") as usize;
        if self.blocks[number / BLOCK_SEGMENTS].is_none() {
            // All of its block has been given back.
            self.blocks[number / BLOCK_SEGMENTS] = Some(self.new_block(BLOCK_SEGMENTS));
        }
        let many = self.many_mut();
        many.info[number] = SegmentInfo {
            in_use_at: many.in_use.len() as u32,
            ..SegmentInfo::EMPTY
        };
        many.in_use.push(number as u32);
        number
    }

    /// Adds numbers, and as much of a block as they need.
    fn add_segments(&mut self) {
        let first = self.numbers();
        let added = if first < BLOCK_SEGMENTS && self.far.is_none() {
            first.max(1)
        } else {
            BLOCK_SEGMENTS
        };
        if first.is_multiple_of(BLOCK_SEGMENTS) {
            let block = self.new_block(added);
            let mut blocks = std::mem::take(&mut self.blocks).into_vec();
            blocks.push(Some(block));
            self.blocks = blocks.into_boxed_slice();
        } else {
            let mut wider = self.new_block(first + added);
            if let Some(block) = &self.blocks[0] {
                wider[..block.len()].copy_from_slice(block);
                let replaced = block.len();
                self.many_mut().block_groups -= replaced;
            }
            self.blocks[0] = Some(wider);
        }
        let end = first + added;
        let many = self.many_mut();
        many.info.resize(end, SegmentInfo::EMPTY);
        many.free.extend((first as u32..end as u32).rev());
    }

    fn new_block(&mut self, segments: usize) -> NodeArray<Group> {
        self.many_mut().block_groups += segments * SEGMENT_GROUPS;
        NodeArray::zeroed_in(self.far.as_deref(), segments * SEGMENT_GROUPS)
    }
}

/// The home of an entry in a segment of as many groups: where it lies, or where it would if there were room.
fn current_home<R: RecordStore>(at: usize, entry: RecordEntry, records: &R) -> usize {
    if entry.is_displaced() {
        home_group(records.hash(entry.record()), SEGMENT_GROUPS)
    } else {
        at
    }
}

// A group's worth of entries never meets more groups than there are.
const _: () = assert!(LOAD < SLOTS);
