//! Which composition suits a write: a decision tree over what is known of it, as the replication thesis's
//! lightweight switching (section 3.2.2).
//!
//! The tree asks in the thesis's order: is the write part of a transaction, does it go on where the last one
//! ended, how many replicas are there, how long is it. Every level has all its branches, so the tree is one
//! table and a decision one load. The first question, what memory it is, is answered when the tree is made
//! ([`Profile::switch`](super::Profile::switch)).

use super::composition::{Composition, CopyBy, MAX_REPLICAS, Master, Waits};

/// Lengths that are told apart: 4 B, 8 B, and so on to 1 MiB.
pub const SIZE_CLASSES: usize = 19;
const SHORTEST_LOG2: u32 = 2;

/// What is known of a write before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Situation {
    /// It is made by a transaction, whose log is written as well.
    pub is_transactional: bool,
    /// It begins in the line where the set's last write ended, or the next.
    pub is_sequential: bool,
    /// Copies beside the master.
    pub replicas: usize,
    /// Its length, one of [`SIZE_CLASSES`].
    pub size_class: usize,
}

/// The class of a length: those of up to twice as many bytes as the shortest of them.
#[inline]
pub fn size_class(len_bytes: u64) -> usize {
    let log2 = (len_bytes | 1 << SHORTEST_LOG2).ilog2() - SHORTEST_LOG2;
    (log2 as usize).min(SIZE_CLASSES - 1)
}

/// The shortest length of a class, in bytes.
pub fn class_bytes(size_class: usize) -> u64 {
    1 << (size_class as u32 + SHORTEST_LOG2)
}

/// The decision tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MethodTree {
    leaves: Box<[Composition; LEAVES]>,
}

const LEAVES: usize = 2 * 2 * (1 + MAX_REPLICAS) * SIZE_CLASSES;

impl MethodTree {
    /// The composition for a write.
    #[inline]
    pub fn choose(&self, situation: Situation) -> Composition {
        self.leaves[leaf(situation)]
    }

    /// A tree of what `choose` says of each situation.
    pub fn of(mut choose: impl FnMut(Situation) -> Composition) -> MethodTree {
        let mut leaves = Box::new([Composition::BASIC; LEAVES]);
        for is_transactional in [false, true] {
            for is_sequential in [false, true] {
                for replicas in 0..=MAX_REPLICAS {
                    for size_class in 0..SIZE_CLASSES {
                        let situation = Situation {
                            is_transactional,
                            is_sequential,
                            replicas,
                            size_class,
                        };
                        leaves[leaf(situation)] = choose(situation);
                    }
                }
            }
        }
        MethodTree { leaves }
    }

    /// Without calibration: one fence always; the cache passed by where a write is so long that its
    /// lines would be fetched only to be overwritten.
    pub fn uncalibrated() -> MethodTree {
        const STREAMED_FROM_BYTES: u64 = 256;
        MethodTree::of(|situation| {
            let is_long = class_bytes(situation.size_class) >= STREAMED_FROM_BYTES;
            Composition {
                waits: Waits::Once,
                prefetch: !is_long,
                master: if is_long { Master::Post } else { Master::Pre },
                copy: if is_long {
                    CopyBy::Streams
                } else {
                    CopyBy::Stores
                },
            }
        })
    }
}

#[inline]
fn leaf(situation: Situation) -> usize {
    let Situation {
        is_transactional,
        is_sequential,
        replicas,
        size_class,
    } = situation;
    let branch = usize::from(is_transactional) * 2 + usize::from(is_sequential);
    let replicas = replicas.min(MAX_REPLICAS);
    (branch * (1 + MAX_REPLICAS) + replicas) * SIZE_CLASSES + size_class.min(SIZE_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_begin_at_powers_of_two() {
        assert_eq!([0, 1, 4, 7].map(size_class), [0; 4]);
        assert_eq!([8, 15, 16].map(size_class), [1, 1, 2]);
        assert_eq!(size_class(u64::MAX), SIZE_CLASSES - 1);
        for class in 0..SIZE_CLASSES {
            assert_eq!(size_class(class_bytes(class)), class);
        }
        assert_eq!(class_bytes(SIZE_CLASSES - 1), 1 << 20);
    }

    #[test]
    fn every_situation_has_a_leaf_of_its_own() {
        let all = Composition::all();
        let mut asked = Vec::new();
        let switch = MethodTree::of(|situation| {
            asked.push(situation);
            all[asked.len() * 7 % all.len()]
        });
        assert_eq!(asked.len(), LEAVES);
        for (number, situation) in asked.iter().enumerate() {
            assert_eq!(switch.choose(*situation), all[(number + 1) * 7 % all.len()]);
        }
    }
}
