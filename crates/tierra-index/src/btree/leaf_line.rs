//! The unit of a change: one line of a leaf, whose state word says which of its entries are valid.
//!
//! ```text
//!  byte 0       8           16     24     32     40     48     56     64
//!       │ state │ leaf word │ key 0│val 0 │ key 1│val 1 │ key 2│val 2 │     little-endian
//!
//!  state: occupied slots 3 bits │ magic 5 bits │ checksum before 28 bits │ checksum after 28 bits
//! ```
//! Stores to a line reach memory in their order, 8 bytes at a time. So an entry is stored before the
//! state that counts it, and a state before the one word of the line whose change it allows: a line is
//! valid if its content matches either of the two checksums. Each change is one word, or several words and
//! then the one that makes them count, so a crash leaves the line before or the line after the change.
//!
//! Invariant: a line that fails both checksums was never left by a crash in this code.

use crate::hash::hash_of;
use tierra_interleave::LINE_BYTES;

/// Entries in a line.
pub(super) const LINE_SLOTS: usize = 3;

const WORDS: usize = LINE_BYTES / 8;
/// Marks a line in use, of this version of the format.
const MAGIC: u64 = 0b10101;
const CHECK_BITS: u32 = 28;

/// A word and its offset in the line, in bytes, as stored.
pub(super) type Word = (usize, u64);

/// A line as it lies on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct LeafLine([u64; WORDS]);

const _: () = assert!(size_of::<LeafLine>() == LINE_BYTES);

/// The words of a free line. A first word of 0 marks it as free.
pub(super) const ZEROED: [Word; WORDS] = {
    let mut words = [(0, 0); WORDS];
    let mut word = 0;
    while word < WORDS {
        words[word] = (8 * word, 0);
        word += 1;
    }
    words
};

/// The words that add an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Insertion {
    words: [Word; 4],
    /// The first word that is needed.
    first: usize,
}

impl Insertion {
    pub(super) fn words(&self) -> &[Word] {
        &self.words[self.first..]
    }
}

/// What a line's checksums depend on beside its content: a line at another position, or of another tree, fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(u64);

impl Seed {
    pub(super) fn new(tree: u64, leaf: u32, line: usize) -> Seed {
        Seed(tree ^ hash_of(u64::from(leaf) << 8 | line as u64))
    }
}

impl LeafLine {
    /// A line with these entries in its first slots.
    pub(super) fn new(seed: Seed, leaf_word: u64, entries: &[(u64, u64)]) -> LeafLine {
        let mut line = LeafLine([0; WORDS]);
        line.0[1] = leaf_word.to_le();
        for (slot, (key, value)) in entries.iter().enumerate() {
            line.0[2 + 2 * slot] = key.to_le();
            line.0[3 + 2 * slot] = value.to_le();
        }
        let occupied = (1 << entries.len()) - 1;
        let check = line.check(seed, occupied);
        line.0[0] = state(occupied, check, check).to_le();
        line
    }

    pub(super) fn bytes(&self) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        u64::from_le(self.0[index])
    }

    /// Whether the line is not in use.
    pub(super) fn is_free(&self) -> bool {
        self.0[0] == 0
    }

    /// Whether the content matches one of the checksums.
    pub(super) fn is_valid(&self, seed: Seed) -> bool {
        let state = self.word(0);
        let check = self.check(seed, self.occupied());
        let [before, after] = [8, 8 + CHECK_BITS].map(|bit| state >> bit & ((1 << CHECK_BITS) - 1));
        state >> LINE_SLOTS & 0b11111 == MAGIC && (check == before || check == after)
    }

    /// A bit for each slot that the line says has an entry.
    pub(super) fn occupied(&self) -> u8 {
        self.word(0) as u8 & ((1 << LINE_SLOTS) - 1)
    }

    /// The word that belongs to the leaf as a whole.
    pub(super) fn leaf_word(&self) -> u64 {
        self.word(1)
    }

    #[inline(always)]
    pub(super) fn key(&self, slot: usize) -> u64 {
        self.word(2 + 2 * slot)
    }

    #[inline(always)]
    pub(super) fn value(&self, slot: usize) -> u64 {
        self.word(3 + 2 * slot)
    }

    /// Adds an entry to the `live` ones: data, then the word that makes it count. A slot that the line counts
    /// although it is not live is released before it is overwritten.
    pub(super) fn insert(
        &self,
        seed: Seed,
        live: u8,
        slot: usize,
        (key, value): (u64, u64),
    ) -> Insertion {
        let [at_key, at_value] = [2 + 2 * slot, 3 + 2 * slot];
        let mut after = *self;
        after.0[at_key] = key.to_le();
        after.0[at_value] = value.to_le();
        let occupied = live | 1 << slot;
        let check = after.check(seed, occupied);
        let [released] = self.retain(seed, live);
        Insertion {
            words: [
                released,
                (8 * at_key, after.0[at_key]),
                (8 * at_value, after.0[at_value]),
                (0, state(occupied, check, check).to_le()),
            ],
            first: usize::from(self.occupied() >> slot & 1 == 0),
        }
    }

    /// Gives an entry another value: a state that allows the change, then the value.
    pub(super) fn update(&self, seed: Seed, live: u8, slot: usize, value: u64) -> [Word; 2] {
        self.change(seed, live, 3 + 2 * slot, value)
    }

    /// Changes the leaf's word: a state that allows the change, then the word.
    pub(super) fn set_leaf_word(&self, seed: Seed, live: u8, leaf_word: u64) -> [Word; 2] {
        self.change(seed, live, 1, leaf_word)
    }

    fn change(&self, seed: Seed, live: u8, at: usize, word: u64) -> [Word; 2] {
        let mut after = *self;
        after.0[at] = word.to_le();
        let checks = [self, &after].map(|line| line.check(seed, live));
        [
            (0, state(live, checks[0], checks[1]).to_le()),
            (8 * at, after.0[at]),
        ]
    }

    /// Retains the `live` entries only.
    pub(super) fn retain(&self, seed: Seed, live: u8) -> [Word; 1] {
        let check = self.check(seed, live);
        [(0, state(live, check, check).to_le())]
    }

    /// A checksum of every bit that counts. Words are hashed one by one, so that none waits for the word
    /// before it; a change of a single word always changes the sum.
    #[inline(always)]
    fn check(&self, seed: Seed, occupied: u8) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let spread = |index: usize| hash_of(self.word(index) ^ STEP.wrapping_mul(index as u64));
        let mut sum = hash_of(seed.0 ^ u64::from(occupied)).wrapping_add(spread(1));
        for slot in 0..LINE_SLOTS {
            if occupied >> slot & 1 == 1 {
                let entry = spread(2 + 2 * slot).wrapping_add(spread(3 + 2 * slot));
                sum = sum.wrapping_add(entry);
            }
        }
        sum >> (u64::BITS - CHECK_BITS)
    }
}

fn state(occupied: u8, before: u64, after: u64) -> u64 {
    u64::from(occupied) | MAGIC << LINE_SLOTS | before << 8 | after << (8 + CHECK_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every beginning of the words is the line before or the line after.
    fn beginnings(line: LeafLine, words: &[Word], seed: Seed) -> Vec<LeafLine> {
        (0..=words.len())
            .map(|stored| {
                let mut line = line;
                for &(at, word) in &words[..stored] {
                    line.0[at / 8] = word;
                }
                assert!(line.is_valid(seed), "after {stored} of {}", words.len());
                line
            })
            .collect()
    }

    fn entries(line: &LeafLine) -> Vec<(u64, u64)> {
        (0..LINE_SLOTS)
            .filter(|slot| line.occupied() >> slot & 1 == 1)
            .map(|slot| (line.key(slot), line.value(slot)))
            .collect()
    }

    #[test]
    fn a_change_cut_short_is_the_line_before_or_after() {
        let seed = Seed::new(7, 3, 1);
        let line = LeafLine::new(seed, 99, &[(1, 10), (2, 20)]);
        let cut = beginnings(line, line.insert(seed, 0b11, 2, (3, 30)).words(), seed);
        assert!(cut[..3].iter().all(|cut| entries(cut) == entries(&line)));
        let full = cut[3];
        assert_eq!(entries(&full), [(1, 10), (2, 20), (3, 30)]);
        // Into a slot that counts but is not live.
        let reused = full.insert(seed, 0b101, 1, (4, 40));
        let cut = beginnings(full, reused.words(), seed);
        assert_eq!(entries(&cut[3]), [(1, 10), (3, 30)]);
        assert_eq!(entries(&cut[4]), [(1, 10), (4, 40), (3, 30)]);
        let cut = beginnings(full, &full.update(seed, 0b111, 1, 21), seed);
        assert_eq!(cut[1].value(1), 20);
        assert_eq!(cut[2].value(1), 21);
        // And once more, with the state of the change before.
        let again = beginnings(cut[2], &cut[2].update(seed, 0b111, 1, 22), seed);
        assert_eq!(again[2].value(1), 22);
        let cut = beginnings(full, &full.set_leaf_word(seed, 0b111, 5), seed);
        assert_eq!((cut[1].leaf_word(), cut[2].leaf_word()), (99, 5));
        let cut = beginnings(full, &full.retain(seed, 0b101), seed);
        assert_eq!(entries(&cut[1]), [(1, 10), (3, 30)]);
    }

    #[test]
    fn a_bit_that_counts_is_missed_by_no_check() {
        let seed = Seed::new(7, 3, 1);
        let line = LeafLine::new(seed, 99, &[(1, 10), (0, 0)]);
        for bit in 0..8 * LINE_BYTES {
            let mut rotten = line;
            rotten.0[bit / 64] ^= (1u64 << (bit % 64)).to_le();
            // A vacant slot's content does not count, and of equal checks one will do.
            let counts = bit < 48 * 8 && !(8..64).contains(&bit);
            assert_eq!(!rotten.is_valid(seed), counts, "bit {bit}");
        }
        for other in [Seed::new(8, 3, 1), Seed::new(7, 4, 1), Seed::new(7, 3, 2)] {
            assert!(!line.is_valid(other));
        }
        let free = LeafLine([0; WORDS]);
        assert!(free.is_free() && !free.is_valid(seed) && !line.is_free());
    }
}
