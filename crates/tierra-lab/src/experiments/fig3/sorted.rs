//! A sorted copy of a dictionary's values, searched in ways that the product does not offer, to separate the gain of the tree
//! from that of interleaving.

use arrow::array::{Array, AsArray, StringViewArray};
use arrow::datatypes::Int32Type;
use tierra_column::{Dictionary, Value, ordinal};
use tierra_index::{FETCHED_BYTES, PrefixTree, SearchTree, SortedStrings, lower_bound};
use tierra_interleave::{Cx, GroupSize, Mode, for_each};

/// Sorted values with their tree. A value's rank is its code.
pub(super) enum Sorted {
    Ordinals {
        ascending: Vec<u64>,
        tree: SearchTree<u64>,
    },
    Strings {
        ascending: Views,
        tree: PrefixTree,
    },
}

impl Sorted {
    /// The values of a dictionary that is completely sorted; `None` for another one, or another type.
    pub(super) fn of(dictionary: &Dictionary) -> Option<Sorted> {
        if dictionary.delta_len() > 0 {
            return None;
        }
        let values = dictionary.values_array();
        if let Some(strings) = values.as_string_view_opt() {
            let ascending = Views(strings.clone());
            let tree = PrefixTree::new(&ascending);
            return Some(Sorted::Strings { ascending, tree });
        }
        let values = values.as_primitive_opt::<Int32Type>()?;
        let ascending: Vec<u64> = values
            .values()
            .iter()
            .copied()
            .map(ordinal::of_i32)
            .collect();
        let tree = SearchTree::new(&ascending);
        Some(Sorted::Ordinals { ascending, tree })
    }

    /// The codes of values, found one at a time by the tree or by halving.
    pub(super) fn codes<M: Mode>(&self, wanted: &[Value], by_tree: bool) -> Vec<Option<u32>> {
        let mut codes = vec![None; wanted.len()];
        let size = GroupSize::DEFAULT;
        match self {
            Sorted::Ordinals { ascending, tree } => {
                let wanted: Vec<u64> = wanted.iter().map(ordinal_of).collect();
                let found = |index: usize, rank: usize| {
                    let is_there = ascending.get(rank) == Some(&wanted[index]);
                    codes[index] = is_there.then_some(rank as u32);
                };
                if by_tree {
                    let searcher = tree.over(ascending);
                    let find = |cx: Cx<M>, &key: &u64| searcher.lower_bound(cx, key);
                    for_each(size, &wanted, find, found);
                } else {
                    let find = |cx: Cx<M>, &key: &u64| lower_bound(cx, ascending, key);
                    for_each(size, &wanted, find, found);
                }
            }
            Sorted::Strings { ascending, tree } => {
                let found = |index: usize, rank: Option<usize>| {
                    codes[index] = rank.map(|rank| rank as u32);
                };
                if by_tree {
                    let find = |cx: Cx<M>, wanted| tree.find(cx, ascending, bytes_of(wanted));
                    for_each(size, wanted, find, found);
                } else {
                    let find = |cx: Cx<M>, wanted| {
                        tree.find_by_binary_search(cx, ascending, bytes_of(wanted))
                    };
                    for_each(size, wanted, find, found);
                }
            }
        }
        codes
    }
}

fn ordinal_of(value: &Value) -> u64 {
    match value {
        Value::Ordinal(ordinal) => *ordinal,
        _ => 0,
    }
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

/// Strings in ascending order.
pub(super) struct Views(StringViewArray);

impl SortedStrings for Views {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, rank: usize) -> &[u8] {
        self.0.value(rank).as_bytes()
    }

    async fn load<M: Mode>(&self, cx: Cx<M>, rank: usize) -> &[u8] {
        cx.load(&self.0.views()[rank]).await;
        let bytes = self.get(rank);
        cx.load_bytes(&bytes[..bytes.len().min(FETCHED_BYTES)])
            .await;
        bytes
    }
}
