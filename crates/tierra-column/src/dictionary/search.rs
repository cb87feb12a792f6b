//! Finding values' codes: an order of some codes by value, with an index above it.
//!
//! Ordinals are found by a search tree whose leaves are the values themselves where they are stored in
//! order (half a byte a value), strings by eight bytes of each and a search tree over those (8.5 bytes
//! a string). Front-coded strings were not chosen: predicates and results need the strings as an arrow
//! array, which front coding would store a second time.
//!
//! Run one by one, values are found by binary search, the tree left aside: that is what
//! [`Execution::Plain`](tierra_interleave::Execution::Plain) means, here as in every measurement.

use std::ops::{Bound, Range};
use std::sync::Arc;

use arrow::array::StringViewArray;
use tierra_index::{FETCHED_BYTES, PrefixTree, SearchTree, SortedStrings, lower_bound};
use tierra_interleave::{Cx, GroupReport, GroupSize, Mode, for_each};

use super::{DictionaryValues, sort};
use crate::filter::BytesRange;
use crate::view::INLINE_BYTES;

/// Codes in the order of their values.
#[derive(Clone)]
pub(super) struct Order {
    codes: Codes,
    index: Index,
}

#[derive(Clone)]
enum Codes {
    /// The code at position `p` is `p`: these values are stored in order.
    Ranks {
        len: usize,
    },
    Sorted(Arc<Vec<u32>>),
}

/// Finds positions of the order.
#[derive(Clone)]
enum Index {
    Ordinals {
        /// In order as far as there are codes; the dictionary's own where these are stored in order.
        ascending: Arc<Vec<u64>>,
        tree: Arc<SearchTree<u64>>,
    },
    Strings(Arc<PrefixTree>),
}

/// Ordinals looked up together: their leaves are still near when they are compared.
const ORDINALS_TOGETHER: usize = 512;

impl Order {
    /// Of the first `len` codes, whose values ascend already.
    pub(super) fn ascending(values: &DictionaryValues, len: usize) -> Order {
        let codes = Codes::Ranks { len };
        let index = match values {
            DictionaryValues::Ordinals(values) => Index::Ordinals {
                ascending: Arc::clone(values),
                tree: Arc::new(SearchTree::new(&values[..len])),
            },
            DictionaryValues::Strings(strings) => Index::of_strings(strings, &codes),
        };
        Order { codes, index }
    }

    /// Of codes in any order.
    pub(super) fn sorting(values: &DictionaryValues, codes: Range<u32>) -> Order {
        match values {
            DictionaryValues::Ordinals(values) => {
                let (ascending, codes) = sort::ordinals(values, codes);
                Order {
                    index: Index::Ordinals {
                        tree: Arc::new(SearchTree::new(&ascending)),
                        ascending: Arc::new(ascending),
                    },
                    codes: Codes::Sorted(Arc::new(codes)),
                }
            }
            DictionaryValues::Strings(strings) => {
                let codes = Codes::Sorted(Arc::new(sort::strings(strings, codes)));
                Order {
                    index: Index::of_strings(strings, &codes),
                    codes,
                }
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Bytes beside the dictionary's values.
    pub(super) fn len_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::Ranks { .. } => 0,
            Codes::Sorted(codes) => size_of_val(&codes[..]),
        };
        let index = match (&self.index, &self.codes) {
            (Index::Ordinals { tree, .. }, Codes::Ranks { .. }) => tree.len_bytes(),
            (Index::Ordinals { tree, ascending }, Codes::Sorted(_)) => {
                tree.len_bytes() + size_of_val(&ascending[..])
            }
            (Index::Strings(tree), _) => tree.len_bytes(),
        };
        codes + index
    }

    /// The code at a position of the order.
    #[inline]
    pub(super) fn code(&self, position: usize) -> u32 {
        self.codes.at(position)
    }

    /// Looks up ordinals: `found` gets the index of each and its code, if it has one, in no particular
    /// order. Of a column of strings, none has.
    pub(super) fn find_ordinals<M: Mode>(
        &self,
        size: GroupSize,
        wanted: &[u64],
        mut found: impl FnMut(usize, Option<u32>),
    ) -> GroupReport {
        let Index::Ordinals { ascending, tree } = &self.index else {
            (0..wanted.len()).for_each(|index| found(index, None));
            return GroupReport::default();
        };
        let ascending = &ascending[..self.len()];
        let mut resolve = |index: usize, position: usize| {
            let is_there = ascending.get(position) == Some(&wanted[index]);
            found(index, is_there.then(|| self.code(position)));
        };
        if !M::INTERLEAVED {
            let search = |cx: Cx<M>, &ordinal: &u64| lower_bound(cx, ascending, ordinal);
            return for_each(size, wanted, search, resolve);
        }
        let searcher = tree.over(ascending);
        let mut positions = [0; ORDINALS_TOGETHER];
        let mut first = 0;
        let mut report = GroupReport::default();
        for wanted in wanted.chunks(ORDINALS_TOGETHER) {
            let positions = &mut positions[..wanted.len()];
            report += searcher.lower_bounds::<M>(wanted, positions);
            for position in positions {
                resolve(first, *position);
                first += 1;
            }
        }
        report
    }

    /// Looks up strings among those of the dictionary, as [`Order::find_ordinals`].
    pub(super) fn find_strings<M: Mode, W: AsRef<[u8]>>(
        &self,
        size: GroupSize,
        strings: &StringViewArray,
        wanted: &[W],
        mut found: impl FnMut(usize, Option<u32>),
    ) -> GroupReport {
        let Index::Strings(tree) = &self.index else {
            (0..wanted.len()).for_each(|index| found(index, None));
            return GroupReport::default();
        };
        let strings = InOrder {
            strings,
            codes: &self.codes,
        };
        let resolve = |index: usize, position: Option<usize>| {
            found(index, position.map(|position| self.code(position)));
        };
        if !M::INTERLEAVED {
            return for_each(
                size,
                wanted,
                |cx: Cx<M>, wanted| tree.find_by_binary_search(cx, &strings, wanted.as_ref()),
                resolve,
            );
        }
        tree.find_all::<M, _, _>(size, &strings, wanted, resolve)
    }

    /// Codes of ordinals between two, both included.
    pub(super) fn between(&self, low: u64, high: u64) -> impl Iterator<Item = u32> {
        let ascending = match &self.index {
            Index::Ordinals { ascending, .. } => &ascending[..self.len()],
            Index::Strings(_) => &[],
        };
        let from = ascending.partition_point(|&value| value < low);
        let to = ascending.partition_point(|&value| value <= high);
        (from..to).map(|position| self.code(position))
    }

    /// Codes of strings in a range.
    pub(super) fn within(
        &self,
        values: &DictionaryValues,
        (low, high): &BytesRange,
    ) -> impl Iterator<Item = u32> {
        let rank = |before: &dyn Fn(&[u8]) -> bool| {
            let DictionaryValues::Strings(strings) = values else {
                return 0;
            };
            let (mut low, mut len) = (0, self.len());
            while len > 0 {
                let half = len / 2;
                if before(strings.value(self.code(low + half) as usize).as_bytes()) {
                    (low, len) = (low + half + 1, len - half - 1);
                } else {
                    len = half;
                }
            }
            low
        };
        let from = match low {
            Bound::Unbounded => 0,
            Bound::Included(low) => rank(&|value| value < &**low),
            Bound::Excluded(low) => rank(&|value| value <= &**low),
        };
        let to = match high {
            Bound::Unbounded => self.len(),
            Bound::Included(high) => rank(&|value| value <= &**high),
            Bound::Excluded(high) => rank(&|value| value < &**high),
        };
        (from..to).map(|position| self.code(position))
    }
}

impl Codes {
    fn len(&self) -> usize {
        match self {
            Codes::Ranks { len } => *len,
            Codes::Sorted(codes) => codes.len(),
        }
    }

    #[inline]
    fn at(&self, position: usize) -> u32 {
        match self {
            Codes::Ranks { .. } => position as u32,
            Codes::Sorted(codes) => codes[position],
        }
    }
}

impl Index {
    fn of_strings(strings: &StringViewArray, codes: &Codes) -> Index {
        Index::Strings(Arc::new(PrefixTree::new(&InOrder { strings, codes })))
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Order of {} codes", self.len())
    }
}

/// A dictionary's strings in order.
struct InOrder<'a> {
    strings: &'a StringViewArray,
    codes: &'a Codes,
}

impl SortedStrings for InOrder<'_> {
    fn len(&self) -> usize {
        self.codes.len()
    }

    fn get(&self, rank: usize) -> &[u8] {
        self.strings.value(self.codes.at(rank) as usize).as_bytes()
    }

    async fn load<M: Mode>(&self, cx: Cx<M>, rank: usize) -> &[u8] {
        let code = self.codes.at(rank) as usize;
        // The view has the length, and short strings whole.
        cx.load(&self.strings.views()[code]).await;
        let bytes = self.strings.value(code).as_bytes();
        if bytes.len() > INLINE_BYTES {
            cx.load_bytes(&bytes[..bytes.len().min(FETCHED_BYTES)])
                .await;
        }
        bytes
    }
}
