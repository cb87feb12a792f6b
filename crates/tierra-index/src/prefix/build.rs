//! Building the layers, each by one pass over its strings; a layer found to be needed waits in line, so
//! that no depth of strings can exhaust the stack.

use super::{KEY_BYTES, Layer, PrefixTree, RUN_MAX, SortedStrings, key_of};
use crate::hash::HashIndex;
use crate::tree::SearchTree;

/// A layer to be built: its strings, and how many bytes they are known to share.
struct PendingLayer {
    first: usize,
    len: usize,
    shared: usize,
}

impl PrefixTree {
    /// Builds the index over `strings`. If they do not ascend strictly, lookups may miss some of them.
    pub fn new<S: SortedStrings + ?Sized>(strings: &S) -> Self {
        let mut wanted = vec![PendingLayer {
            first: 0,
            len: strings.len(),
            shared: 0,
        }];
        let mut layers = Vec::new();
        let mut deeper = HashIndex::new();
        let mut keys_before = 0;
        while let Some(next) = wanted.get(layers.len()) {
            let (layer, runs) = build_layer(strings, next, keys_before);
            for run in runs {
                deeper.insert((keys_before + run.position) as u64, wanted.len() as u64);
                wanted.push(run.wanted);
            }
            keys_before += layer.keys.len();
            layers.push(layer);
        }
        PrefixTree {
            layers,
            deeper,
            len: strings.len(),
        }
    }
}

/// Many strings of one key: where the keys begin, and the layer of those that go on.
struct Run {
    position: usize,
    wanted: PendingLayer,
}

fn build_layer<S: SortedStrings + ?Sized>(
    strings: &S,
    &PendingLayer { first, len, shared }: &PendingLayer,
    keys_before: usize,
) -> (Layer, Vec<Run>) {
    // Of strings in order, what the first and the last share all of them share.
    let skip = match len {
        0 => 0,
        _ => {
            let (least, greatest) = (strings.get(first), strings.get(first + len - 1));
            let behind = |string: &'_ [u8]| string.len().min(shared);
            let more = least[behind(least)..]
                .iter()
                .zip(&greatest[behind(greatest)..]);
            shared + more.take_while(|(a, b)| a == b).count()
        }
    };
    let key = |rank: usize| key_of(strings.get(rank), skip).unwrap_or(0);
    let keys: Box<[u64]> = (first..first + len).map(key).collect();

    let (mut runs, mut position, mut is_distinct) = (Vec::new(), 0, true);
    for run in keys.chunk_by(|a, b| a == b) {
        is_distinct &= run.len() == 1;
        if run.len() > RUN_MAX {
            let ranks = first + position..first + position + run.len();
            let goes_on = |rank: &usize| strings.get(*rank).len() >= skip + KEY_BYTES;
            let first = ranks.clone().find(goes_on).unwrap_or(ranks.end);
            runs.push(Run {
                position,
                wanted: PendingLayer {
                    first,
                    len: ranks.end - first,
                    shared: skip + KEY_BYTES,
                },
            });
        }
        position += run.len();
    }
    let layer = Layer {
        first,
        skip,
        tree: SearchTree::new(&keys),
        keys,
        keys_before,
        is_distinct,
    };
    (layer, runs)
}
