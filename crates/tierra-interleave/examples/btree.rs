//! An ordinary B+-tree, changed to hide its misses: what to change in a structure of your own.
//!
//! ```text
//! cargo run --release -p tierra-interleave --example btree -- [MILLIONS OF KEYS]
//! ```
//!
//! The tree knows nothing of modes or groups. Its lookup was an ordinary loop; now each node is loaded
//! before it is read, and that is all. The example times it plain, interleaved, behind a gate that
//! chooses, and fed over time as a server would be, and checks every answer.

use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::ControlFlow::{Break, Continue};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Instant;

use tierra_interleave::{
    Chain, Cx, Execution, Gate, Group, GroupSize, Interleaved, Lookups, Mode, Scheduling, in_mode,
    map_into,
};

/// Children of an inner node; its keys and links fill three lines.
const FANOUT: usize = 16;

/// Nodes of all levels, the root last. Level 0 holds the leaves' first keys.
struct BTree {
    nodes: Vec<Node>,
    /// Keys and values in key order, cut into runs of `FANOUT`.
    leaves: Vec<(u64, u64)>,
}

#[repr(align(64))]
struct Node {
    /// The first key of each child but the first; `u64::MAX` where there is none.
    keys: [u64; FANOUT - 1],
    children: [u32; FANOUT],
    /// Whether `children` number runs of leaves.
    above_leaves: bool,
}

impl Node {
    fn child(&self, key: u64) -> usize {
        let below = self.keys.iter().filter(|&&first| first <= key).count();
        self.children[below] as usize
    }
}

impl BTree {
    /// Of entries in ascending order of distinct keys below `u64::MAX`, at least one.
    fn new(leaves: Vec<(u64, u64)>) -> Self {
        let mut nodes = Vec::new();
        let mut level: Vec<(u64, u32)> = leaves
            .chunks(FANOUT)
            .zip(0..)
            .map(|(run, number)| (run[0].0, number))
            .collect();
        let mut above_leaves = true;
        loop {
            let first_node = nodes.len() as u32;
            nodes.extend(level.chunks(FANOUT).map(|children| {
                let mut node = Node {
                    keys: [u64::MAX; FANOUT - 1],
                    children: [children[children.len() - 1].1; FANOUT],
                    above_leaves,
                };
                for (place, &(first, child)) in children.iter().enumerate() {
                    node.children[place] = child;
                    if place > 0 {
                        node.keys[place - 1] = first;
                    }
                }
                node
            }));
            if level.len() <= FANOUT {
                return BTree { nodes, leaves };
            }
            let firsts = level.chunks(FANOUT).map(|children| children[0].0);
            level = firsts.zip(first_node..).collect();
            above_leaves = false;
        }
    }

    /// The value of `key`. A walk from node to node, then a load of the leaf: no `async fn`, so nothing
    /// stands between the group and the closure.
    fn get<M: Mode>(&self, cx: Cx<M>, key: u64) -> impl Future<Output = Option<u64>> {
        let root = self.nodes.last().expect("a tree has a root");
        cx.walk(root, move |node| {
            let child = node.child(key);
            if node.above_leaves {
                Break(child * FANOUT)
            } else {
                Continue(&self.nodes[child])
            }
        })
        .then(move |first| cx.load(&self.leaves[first..(first + FANOUT).min(self.leaves.len())]))
        .map(move |run| run.iter().find(|(k, _)| *k == key).map(|(_, value)| *value))
    }

    /// The same, written as one would write it without thinking of cost.
    async fn get_by_loop<M: Mode>(&self, cx: Cx<M>, key: u64) -> Option<u64> {
        let mut node = self.nodes.last()?;
        let first = loop {
            let near = cx.load(node).await;
            let child = near.child(key);
            if near.above_leaves {
                break child * FANOUT;
            }
            node = &self.nodes[child];
        };
        let end = (first + FANOUT).min(self.leaves.len());
        let run = cx.load(&self.leaves[first..end]).await;
        run.iter().find(|(k, _)| *k == key).map(|(_, value)| *value)
    }
}

const LOOKUPS: usize = 2_000;
const ROUNDS: usize = 101;

fn main() -> ExitCode {
    let millions = match std::env::args().nth(1).map(|text| text.parse()) {
        None => 8,
        Some(Ok(millions @ 1..=256)) => millions,
        Some(_) => {
            eprintln!("usage: btree [MILLIONS OF KEYS, from 1 to 256]");
            return ExitCode::FAILURE;
        }
    };
    // Key = 3 * value, so that the answer to any key is known.
    let tree = BTree::new((0..millions * 1_000_000).map(|i| (3 * i, i)).collect());
    let tree = &tree;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut fresh_keys = || -> Vec<u64> {
        std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % (3 * millions * 1_000_000)
        })
        .take(LOOKUPS)
        .collect()
    };

    let gate = Gate::new(GroupSize::DEFAULT);
    let by = |execution: Execution, keys: &[u64], out: &mut [Option<u64>]| {
        in_mode!(execution, M => map_into(
            GroupSize::DEFAULT,
            keys,
            |cx: Cx<M>, &key| tree.get(cx, key),
            out,
        ));
    };
    type Way<'a> = (&'a str, Box<dyn Fn(&[u64], &mut [Option<u64>]) + 'a>);
    let ways: [Way; 5] = [
        (
            "plain",
            Box::new(|keys, out| by(Execution::Plain, keys, out)),
        ),
        (
            "interleaved",
            Box::new(|keys, out| by(Execution::Interleaved, keys, out)),
        ),
        (
            "interleaved, as an async loop",
            Box::new(|keys, out| {
                let lookup = |cx: Cx<Interleaved>, &key: &u64| tree.get_by_loop(cx, key);
                map_into(GroupSize::DEFAULT, keys, lookup, out);
            }),
        ),
        (
            "gated",
            Box::new(|keys, out| {
                let mut lookups = Lookups::new(Scheduling::Auto);
                lookups.run(&gate, keys.len(), |execution, size, part| {
                    let (keys, out) = (&keys[part.clone()], &mut out[part]);
                    in_mode!(execution, M => map_into(
                        size,
                        keys,
                        |cx: Cx<M>, &key| tree.get(cx, key),
                        out,
                    ))
                });
            }),
        ),
        (
            "interleaved, arriving in fours",
            Box::new(|keys, out| {
                let cx = Cx::<Interleaved>::new();
                let mut group = pin!(Group::new(GroupSize::DEFAULT));
                let (mut arriving, mut waiting) = (keys.chunks(4).zip(0..), VecDeque::new());
                loop {
                    if let Some((keys, number)) = arriving.next() {
                        waiting.extend(keys.iter().zip(4 * number..));
                    }
                    let next = || {
                        let (&key, place) = waiting.pop_front()?;
                        Some((place, tree.get(cx, key)))
                    };
                    if group
                        .as_mut()
                        .turn(next, |place: usize, value| out[place] = value)
                        == 0
                    {
                        break;
                    }
                }
            }),
        ),
    ];

    println!(
        "{millions} million keys, ns per lookup, lower quartile of {ROUNDS} rounds of {LOOKUPS} fresh keys"
    );
    let mut times_ns = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((name, way), times_ns) in ways.iter().zip(&mut times_ns) {
            let keys = fresh_keys();
            let mut out = vec![None; LOOKUPS];
            let start = Instant::now();
            way(&keys, black_box(&mut out));
            times_ns.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
            for (key, value) in keys.iter().zip(out) {
                let expected = key.is_multiple_of(3).then_some(key / 3);
                assert_eq!(value, expected, "wrong answer to {key}, {name}");
            }
        }
    }
    for ((name, _), mut times_ns) in ways.iter().zip(times_ns) {
        times_ns.sort_by(f64::total_cmp);
        println!("{:>8.1}  {name}", times_ns[ROUNDS / 4]);
    }
    ExitCode::SUCCESS
}
