//! Looking images up in a run: the near tree says which leaf, all images together, level by level; then each image is a
//! lookup of its own in its leaf, which waits for one line of far memory, rarely two.
//!
//! Where in a leaf an image should be follows from its distance to the leaf's first image and to the next leaf's:
//! images are ordinals, which are often dense, or hashes, which are even. A guess that misses tells the bounds of the
//! next; after a few of them, the leaf is halved.

use tierra_index::SearchTree;
use tierra_interleave::{Cx, GroupReport, GroupSize, Mode, for_each};

use super::layout::{Directory, LEAF_BYTES, Leaf};

/// Guesses before a leaf is halved.
const GUESSES_MOST: usize = 4;

/// A directory, and the tree over it.
pub(super) struct Leaves {
    pub(super) directory: Directory,
    tree: SearchTree<u64>,
}

/// An image that is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sought {
    pub(super) image: u64,
    /// Which of those asked for it is.
    pub(super) place: u32,
    /// Where its first entry lies, if there is one: in this leaf, or first in the one behind it.
    pub(super) leaf: u32,
}

impl Sought {
    /// Fewer than 2^32 are looked up together.
    #[inline]
    pub(super) fn of(image: u64, place: usize) -> Self {
        Self {
            image,
            place: place as u32,
            leaf: 0,
        }
    }
}

impl Leaves {
    pub(super) fn new(directory: Directory) -> Self {
        let tree = SearchTree::new(&directory.firsts);
        Self { directory, tree }
    }

    /// Bytes of near memory.
    pub(super) fn near_bytes(&self) -> usize {
        let Directory { firsts, leaves, .. } = &self.directory;
        self.tree.len_bytes() + size_of_val(&**firsts) + size_of_val(&**leaves)
    }

    /// Whether an image may have an entry.
    #[inline]
    pub(super) fn may_have(&self, image: u64) -> bool {
        self.directory.firsts[0] <= image && image <= self.directory.last
    }

    /// Finds the leaf of each image.
    pub(super) fn seek<M: Mode>(&self, sought: &mut [Sought]) -> GroupReport {
        const TOGETHER: usize = 256;
        let searcher = self.tree.over(&self.directory.firsts);
        let (mut images, mut ranks) = ([0; TOGETHER], [0; TOGETHER]);
        let mut report = GroupReport::default();
        for sought in sought.chunks_mut(TOGETHER) {
            let (images, ranks) = (&mut images[..sought.len()], &mut ranks[..sought.len()]);
            for (image, sought) in images.iter_mut().zip(&*sought) {
                *image = sought.image;
            }
            report += searcher.lower_bounds::<M>(images, ranks);
            for (sought, rank) in sought.iter_mut().zip(ranks) {
                // Entries with the image may end the leaf before the one that begins with it.
                sought.leaf = rank.saturating_sub(1) as u32;
            }
        }
        report
    }

    /// The first row of each image, told to `found` by its place. `leaves` are the leaves' bytes.
    pub(super) fn first_rows<M: Mode>(
        &self,
        size: GroupSize,
        leaves: &[u8],
        sought: &[Sought],
        mut found: impl FnMut(usize, Option<u64>),
    ) -> GroupReport {
        for_each(
            size,
            sought,
            |cx: Cx<M>, sought| self.first_row(cx, leaves, *sought),
            |at, row| found(sought[at].place as usize, row),
        )
    }

    /// All rows of an image, from where its first entry is sought.
    pub(super) fn all_rows<'a>(
        &'a self,
        leaves: &'a [u8],
        sought: Sought,
    ) -> impl Iterator<Item = u64> + 'a {
        let number = sought.leaf as usize;
        let numbers = (number..self.directory.len()).take_while(move |other| {
            *other == number || self.directory.firsts[*other] == sought.image
        });
        numbers.flat_map(move |number| {
            let (first, leaf, bytes) = self.leaf(leaves, number);
            let places = 0..usize::from(leaf.entries);
            let entries = places.map(move |place| leaf.entry(bytes, place));
            entries
                .filter(move |(distance, _)| first.wrapping_add(*distance) == sought.image)
                .map(|(_, row)| row)
        })
    }

    /// The first image of a leaf, the leaf, and its bytes out of those of all.
    #[inline]
    pub(super) fn leaf<'a>(&self, leaves: &'a [u8], number: usize) -> (u64, Leaf, &'a [u8]) {
        let bytes = &leaves[number * LEAF_BYTES..][..LEAF_BYTES];
        let Directory {
            firsts,
            leaves: known,
            ..
        } = &self.directory;
        (firsts[number], known[number], bytes)
    }

    async fn first_row<M: Mode>(&self, cx: Cx<M>, leaves: &[u8], sought: Sought) -> Option<u64> {
        let (image, number) = (sought.image, sought.leaf as usize);
        let (first, leaf, bytes) = self.leaf(leaves, number);
        let next = self.directory.firsts.get(number + 1).copied();
        let wanted = image.checked_sub(first)?;
        let entries = usize::from(leaf.entries);
        // The first place with the image or a greater one is `low` or above, and `high` or below. The greatest distance
        // below `low`, and the least at `high` or above, as far as they are known.
        let (mut low, mut high) = (0, entries);
        let (mut low_distance, mut high_distance) =
            (0, next.unwrap_or(self.directory.last).saturating_sub(first));
        let mut guesses = 0;
        while low < high {
            let count = high - low;
            let place = match guesses < GUESSES_MOST {
                true => {
                    // Multiplied first: dense images are then found where they are, at once.
                    let part = wanted.saturating_sub(low_distance) as f64 * count as f64;
                    let part = part / (high_distance - low_distance).max(1) as f64;
                    low + (part as usize).min(count - 1)
                }
                false => low + count / 2,
            };
            guesses += 1;
            cx.load_bytes(&bytes[leaf.bytes_of(place)]).await;
            let (distance, row) = leaf.entry(bytes, place);
            if distance == wanted {
                return Some(row);
            }
            // Whatever else lies in this line is near now.
            let line = leaf.line_of(place);
            if distance < wanted {
                let end = line.end.min(high);
                let last = leaf.distance(bytes, end - 1);
                if last < wanted {
                    (low, low_distance) = (end, last.min(high_distance));
                    continue;
                }
                return leaf.row_between(bytes, place + 1..end, wanted);
            }
            let start = line.start.max(low);
            let first = leaf.distance(bytes, start);
            if first > wanted && start > low {
                (high, high_distance) = (start, first.max(low_distance));
                continue;
            }
            return leaf.row_between(bytes, start..place, wanted);
        }
        // Greater than all of the leaf.
        if low == entries && next == Some(image) {
            let (_, leaf, bytes) = self.leaf(leaves, number + 1);
            cx.load_bytes(&bytes[leaf.bytes_of(0)]).await;
            return Some(leaf.entry(bytes, 0).1);
        }
        None
    }
}
