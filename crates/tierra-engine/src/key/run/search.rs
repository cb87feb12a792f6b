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

/// An image, and where in a run its first entry lies, if there is one: in a leaf, or first in the one behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sought {
    pub(super) image: u64,
    pub(super) leaf: usize,
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

    /// The leaves of images, behind what is in `sought`.
    pub(super) fn seek<M: Mode>(&self, images: &[u64], sought: &mut Vec<Sought>) -> GroupReport {
        const TOGETHER: usize = 256;
        let searcher = self.tree.over(&self.directory.firsts);
        let mut ranks = [0; TOGETHER];
        let mut report = GroupReport::default();
        for images in images.chunks(TOGETHER) {
            let ranks = &mut ranks[..images.len()];
            report += searcher.lower_bounds::<M>(images, ranks);
            sought.extend(images.iter().zip(ranks).map(|(image, rank)| Sought {
                image: *image,
                // Entries with the image may end the leaf before the one that begins with it.
                leaf: rank.saturating_sub(1),
            }));
        }
        report
    }

    /// The first row of each image sought, told to `found` by its place among them. `leaves` are the leaves' bytes.
    pub(super) fn first_rows<M: Mode>(
        &self,
        size: GroupSize,
        leaves: &[u8],
        sought: &[Sought],
        found: impl FnMut(usize, Option<u64>),
    ) -> GroupReport {
        for_each(
            size,
            sought,
            |cx: Cx<M>, sought| self.first_row(cx, leaves, *sought),
            found,
        )
    }

    /// All rows of an image, from where its first entry is sought.
    pub(super) fn all_rows<'a>(
        &'a self,
        leaves: &'a [u8],
        sought: Sought,
    ) -> impl Iterator<Item = u64> + 'a {
        let numbers = sought.leaf..self.directory.len();
        let numbers = numbers.take_while(move |number| {
            *number == sought.leaf || self.directory.firsts[*number] == sought.image
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
        let Sought {
            image,
            leaf: number,
        } = sought;
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
            let place = match guesses < GUESSES_MOST {
                true => {
                    let (from, to) = (
                        wanted.saturating_sub(low_distance),
                        high_distance - low_distance,
                    );
                    let part = u128::from(from) * (high - low) as u128 / u128::from(to.max(1));
                    low + (part as usize).min(high - low - 1)
                }
                false => low + (high - low) / 2,
            };
            guesses += 1;
            let (line, range) = leaf.line_of(place);
            let (start, end) = (line.start.max(low), line.end.min(high));
            cx.load_bytes(&bytes[range]).await;
            let at_start = leaf.distance(bytes, start);
            if at_start > wanted && start > low {
                (high, high_distance) = (start, at_start.max(low_distance));
                continue;
            }
            let at_end = leaf.distance(bytes, end - 1);
            if at_end < wanted {
                (low, low_distance) = (end, at_end.min(high_distance));
                continue;
            }
            // It is in this line, or one of its kind in the line before, too.
            let (mut from, mut to) = (start, end - 1);
            while from < to {
                let middle = from + (to - from) / 2;
                match leaf.distance(bytes, middle) < wanted {
                    true => from = middle + 1,
                    false => to = middle,
                }
            }
            let (distance, row) = leaf.entry(bytes, from);
            return (distance == wanted).then_some(row);
        }
        // Greater than all of the leaf.
        if low == entries && next == Some(image) {
            let (_, leaf, bytes) = self.leaf(leaves, number + 1);
            let (_, range) = leaf.line_of(0);
            cx.load_bytes(&bytes[range]).await;
            return Some(leaf.entry(bytes, 0).1);
        }
        None
    }
}
