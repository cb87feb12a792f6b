//! Builds leaves from entries: each leaf takes as many as fit, in as few bits as its normalized keys and rows need.
//!
//! Invariant: reading returns what was pushed. The builder holds the packed leaves and the entries of one leaf.

use super::layout::{Directory, Entry, LEAF_BYTES, LEAF_ENTRIES_MOST, Leaf, leaves_at, len_bytes};

/// Leaves per allocation.
const BLOCK_LEAVES: usize = 256;

/// Bits of a number.
fn width_of(number: u64) -> u8 {
    (u64::BITS - number.leading_zeros()) as u8
}

/// Packs entries that come in ascending order.
#[derive(Default)]
pub(crate) struct RunBuilder {
    built: BuiltRun,
    /// Entries of the leaf that is being filled.
    pending: Vec<Entry>,
    /// The least and the greatest distance of their rows from their places.
    rows: (i64, i64),
}

/// Leaves to be stored.
#[derive(Default)]
pub(crate) struct BuiltRun {
    pub(super) directory: Directory,
    blocks: Vec<Vec<u8>>,
}

impl RunBuilder {
    /// Adds an entry; it must not be less than the previous one.
    #[inline]
    pub(crate) fn push(&mut self, normalized_key: u64, row: u64) {
        let place = self.pending.len();
        debug_assert!(
            self.pending
                .last()
                .is_none_or(|last| *last <= (normalized_key, row))
        );
        let distance = row as i64 - place as i64;
        if let Some((first, _)) = self.pending.first() {
            let rows = (self.rows.0.min(distance), self.rows.1.max(distance));
            let bits = width_of(normalized_key - first) + width_of(rows.1.abs_diff(rows.0));
            if (place + 1) * usize::from(bits) <= LEAF_BYTES * 8 && place < LEAF_ENTRIES_MOST {
                self.rows = rows;
                self.pending.push((normalized_key, row));
                return;
            }
            self.end_leaf();
        }
        self.rows = (row as i64, row as i64);
        self.pending.push((normalized_key, row));
    }

    /// The leaves of all entries.
    pub(crate) fn finish(mut self) -> BuiltRun {
        if !self.pending.is_empty() {
            self.end_leaf();
        }
        self.built
    }

    fn end_leaf(&mut self) {
        let (first, last) = (self.pending[0].0, self.pending[self.pending.len() - 1].0);
        let mut leaf = Leaf {
            rows: self.rows.0,
            crc: 0,
            entries: self.pending.len() as u16,
            key_width: width_of(last - first),
            row_width: width_of(self.rows.1.abs_diff(self.rows.0)),
        };
        let mut bytes = [0; LEAF_BYTES];
        pack(&self.pending, first, &leaf, &mut bytes);
        leaf.crc = crc32c::crc32c(&bytes);
        let built = &mut self.built;
        built.directory.firsts.push(first);
        built.directory.leaves.push(leaf);
        built.directory.last = last;
        built.directory.entries += self.pending.len() as u64;
        let is_full = |block: &Vec<u8>| block.len() == BLOCK_LEAVES * LEAF_BYTES;
        if built.blocks.last().is_none_or(is_full) {
            built.blocks.push(Vec::new());
        }
        let block = built.blocks.last_mut().expect("one was pushed");
        block.extend_from_slice(&bytes);
        self.pending.clear();
    }
}

/// Writes the entries' bits one after the other.
fn pack(entries: &[Entry], first: u64, leaf: &Leaf, bytes: &mut [u8; LEAF_BYTES]) {
    let (mut word, mut bits, mut at) = (0_u128, 0_u32, 0);
    let mut put = |value: u64, width: u8| {
        word |= u128::from(value) << bits;
        bits += u32::from(width);
        if bits >= u64::BITS {
            bytes[at..at + 8].copy_from_slice(&(word as u64).to_le_bytes());
            (word, bits, at) = (word >> u64::BITS, bits - u64::BITS, at + 8);
        }
    };
    for (place, (normalized_key, row)) in entries.iter().enumerate() {
        put(normalized_key - first, leaf.key_width);
        put(
            (*row as i64 - place as i64).abs_diff(leaf.rows),
            leaf.row_width,
        );
    }
    // Only the remaining bytes.
    let left = (bits as usize).div_ceil(8);
    bytes[at..at + left].copy_from_slice(&word.to_le_bytes()[..left]);
}

impl BuiltRun {
    /// Whether there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.directory.len() == 0
    }

    /// The least and the greatest normalized key. There must be an entry.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        (self.directory.firsts[0], self.directory.last)
    }

    /// Takes over the leaves of another run, whose normalized keys must be greater.
    pub(crate) fn append(&mut self, mut other: BuiltRun) {
        debug_assert!(self.is_empty() || self.bounds().1 < other.bounds().0);
        self.directory.firsts.append(&mut other.directory.firsts);
        self.directory.leaves.append(&mut other.directory.leaves);
        self.directory.last = other.directory.last;
        self.directory.entries += other.directory.entries;
        self.blocks.append(&mut other.blocks);
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        let leaves = self
            .blocks
            .iter()
            .flat_map(|block| block.chunks_exact(LEAF_BYTES));
        let directory = self.directory.firsts.iter().zip(&self.directory.leaves);
        directory.zip(leaves).flat_map(|((first, leaf), bytes)| {
            (0..usize::from(leaf.entries)).map(move |place| {
                let (distance, row) = leaf.entry(bytes, place);
                (first.wrapping_add(distance), row)
            })
        })
    }

    /// Its stored size.
    pub(crate) fn len_bytes(&self) -> usize {
        len_bytes(self.directory.len())
    }

    /// Writes it; `bytes` must have [`BuiltRun::len_bytes`].
    pub(crate) fn write(&self, bytes: &mut [u8]) {
        self.directory.write(bytes);
        let mut at = leaves_at(self.directory.len());
        for block in &self.blocks {
            bytes[at..at + block.len()].copy_from_slice(block);
            at += block.len();
        }
        bytes[at..].fill(0);
    }
}
