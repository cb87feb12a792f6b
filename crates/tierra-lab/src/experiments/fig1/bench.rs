//! One array of figure 1: every way to search it, near and in emulated far memory, in turn.
//!
//! A turn searches twice, for other values each time unless they are the paper's, and the second search counts: the caches then
//! hold what this way of searching left, not what the previous contender left.

use std::time::{Duration, Instant};

use tierra_index::{SearchTree, Searcher};
use tierra_interleave::{Cx, Execution, GroupSize, MAX_LANES, map_into};
use tierra_memory::in_mode;
use tierra_memory::measure::{LoadTrace, record};

use super::{Keys, MANY, SEARCHES};
use crate::error::LabError;
use crate::lab::SEED;
use crate::memory::Memory;
use crate::mersenne::Mt19937;
use crate::peers::coroutines::{Coroutines, Schedule};
use crate::random::Random;
use crate::sorted::{by_hand, check, search, walk};
use crate::turns::turns;

/// Different keys whose lines, all levels together, stay in the nearest cache.
const CACHED_KEYS: usize = 16;
/// Searches for [`SEARCHES`] fresh keys, each of which loads half a dozen lines that are not cached yet.
const CACHE_FILLS: usize = 32;
/// Loads in flight in a replay, as many as a group. The processor, or the model, limits how many of them miss at a time.
const REPLAYED: usize = MAX_LANES;

/// A way to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// `slice::binary_search`, one key after the other.
    Std,
    /// The async loop, run plain: the paper's Baseline.
    Plain,
    /// The same, named as a lower bound on emulated memory.
    PlainOverlapping,
    /// The async loop, interleaved.
    Async(GroupSize),
    /// The same as a chain of loads, interleaved.
    Walk(GroupSize),
    /// Group prefetching.
    ByHand(GroupSize),
    /// The C++ peer.
    Coroutines(Schedule, GroupSize),
    /// The static tree, a group of lookups.
    Tree(GroupSize),
    /// The static tree, a batch level by level.
    Batch,
}

impl Way {
    /// The name in results: one per line of a table, for every group.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Std => "slice::binary_search",
            Way::Plain => "plain",
            Way::PlainOverlapping => "plain, lower bound",
            Way::Async(_) => "async loop",
            Way::Walk(_) => "walk",
            Way::ByHand(_) => "by hand",
            Way::Coroutines(..) => Coroutines::NAME,
            Way::Tree(_) => "static tree, interleaved",
            Way::Batch => "static tree, batched",
        }
    }

    pub(super) fn group(self) -> Option<GroupSize> {
        match self {
            Way::Std | Way::Plain | Way::PlainOverlapping | Way::Batch => None,
            Way::Async(group)
            | Way::Walk(group)
            | Way::ByHand(group)
            | Way::Coroutines(_, group)
            | Way::Tree(group) => Some(group),
        }
    }

    /// The lookups that are compared with their replay, with the default group.
    pub(super) fn replayed() -> [Way; 4] {
        let group = GroupSize::DEFAULT;
        [
            Way::Async(group),
            Way::Walk(group),
            Way::Tree(group),
            Way::Batch,
        ]
    }

    fn is_tree(self) -> bool {
        matches!(self, Way::Tree(_) | Way::Batch)
    }
}

/// What is measured in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Searches for the round's keys.
    Search(Way),
    /// Searches for [`MANY`] keys: the initial misses of upper levels weigh a tenth.
    Many(Way),
    /// Searches for a few keys again and again: the time of computation alone.
    Cached(Way),
    /// The lines that such searches load, as independent loads.
    Replay {
        /// Those of the tree instead of the array's.
        tree: bool,
    },
}

/// One array and all that searches it.
pub(super) struct Bench<'a> {
    sorted: &'a [u32],
    searcher: Searcher<'a, u32>,
    peer: Option<&'a Coroutines>,
    random: Random,
    /// The lines of the previous round's searches, by [`Way::is_tree`]; they have left the caches.
    traces: [LoadTrace; 2],
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        sorted: &'a [u32],
        tree: &'a SearchTree<u32>,
        peer: Option<&'a Coroutines>,
    ) -> Bench<'a> {
        Bench {
            sorted,
            searcher: tree.over(sorted),
            peer,
            random: Random::new(SEED),
            traces: [LoadTrace::default(), LoadTrace::default()],
        }
    }

    /// Fills the modelled cache. Another setting has emptied it, and one contender alone would take many rounds to fill it.
    pub(super) fn fill_cache(&mut self, memory: Memory) -> Result<(), LabError> {
        memory.during(|| {
            for _ in 0..CACHE_FILLS {
                let keys = self.fresh(SEARCHES);
                self.search(Way::Walk(GroupSize::DEFAULT), &keys)?;
            }
            Ok(())
        })
    }

    /// The samples of every contender.
    pub(super) fn measure(
        &mut self,
        contenders: &[(Memory, Keys, What)],
        rounds: usize,
    ) -> Result<Vec<Vec<u64>>, LabError> {
        let mut samples = vec![Vec::with_capacity(rounds); contenders.len()];
        for turn in turns(contenders.len(), rounds) {
            let (memory, keys, what) = contenders[turn.contender];
            let time = self.turn(keys, memory, what)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(time.as_nanos() as u64);
            }
        }
        Ok(samples)
    }

    fn turn(&mut self, keys: Keys, memory: Memory, what: What) -> Result<Duration, LabError> {
        match what {
            What::Search(way) => {
                let (before, keys) = (self.draw(keys), self.draw(keys));
                memory.during(|| {
                    self.search(way, &before)?;
                    self.search(way, &keys)
                })
            }
            What::Many(way) => {
                let keys = self.fresh(MANY);
                self.search(way, &keys)
            }
            What::Cached(way) => {
                let few = self.fresh(CACHED_KEYS);
                let keys: Vec<u32> = few.into_iter().cycle().take(SEARCHES).collect();
                memory.during(|| {
                    // Once to bring the lines in.
                    self.search(way, &keys[..CACHED_KEYS])?;
                    self.search(way, &keys)
                })
            }
            What::Replay { tree } => {
                let way = if tree {
                    Way::Batch
                } else {
                    Way::Walk(GroupSize::DEFAULT)
                };
                let before = self.fresh(SEARCHES);
                let time = memory.during(|| {
                    self.search(way, &before)?;
                    Ok(self.traces[usize::from(tree)].replay(REPLAYED))
                })?;
                let keys = self.fresh(SEARCHES);
                let (searched, trace) = record(|| self.search(way, &keys));
                searched?;
                self.traces[usize::from(tree)] = trace;
                Ok(time)
            }
        }
    }

    /// The time of searching for all keys; every answer is checked.
    fn search(&self, way: Way, keys: &[u32]) -> Result<Duration, LabError> {
        let (sorted, searcher) = (self.sorted, self.searcher);
        let mut ranks = vec![usize::MAX; keys.len()];
        let out = &mut ranks[..];
        const HIDING: Execution = Execution::Interleaved;
        let start = Instant::now();
        match way {
            Way::Std => {
                for (key, rank) in keys.iter().zip(out) {
                    *rank = sorted.binary_search(key).unwrap_or(usize::MAX);
                }
            }
            Way::Plain | Way::PlainOverlapping => in_mode!(Execution::Plain, M => {
                map_into(GroupSize::DEFAULT, keys, |cx: Cx<M>, &key| search(cx, sorted, key), out);
            }),
            Way::Async(group) => in_mode!(HIDING, M => {
                map_into(group, keys, |cx: Cx<M>, &key| search(cx, sorted, key), out);
            }),
            Way::Walk(group) => in_mode!(HIDING, M => {
                map_into(group, keys, |cx: Cx<M>, &key| walk(cx, sorted, key), out);
            }),
            Way::Tree(group) => in_mode!(HIDING, M => {
                map_into(group, keys, |cx: Cx<M>, &key| searcher.lower_bound(cx, key), out);
            }),
            Way::Batch => in_mode!(HIDING, M => {
                searcher.lower_bounds::<M>(keys, out);
            }),
            Way::ByHand(group) => by_hand(group, sorted, keys, out),
            Way::Coroutines(schedule, group) => {
                if let Some(peer) = self.peer {
                    peer.search(schedule, group, sorted, keys, out);
                }
            }
        }
        let time = start.elapsed();
        check(way.name(), keys, &ranks)?;
        Ok(time)
    }

    fn draw(&mut self, keys: Keys) -> Vec<u32> {
        match keys {
            Keys::Paper => {
                let mut random = Mt19937::new(0);
                let len = self.sorted.len() as u32;
                (0..SEARCHES).map(|_| random.below(len)).collect()
            }
            Keys::Fresh => self.fresh(SEARCHES),
        }
    }

    fn fresh(&mut self, count: usize) -> Vec<u32> {
        let len = self.sorted.len() as u64;
        (0..count).map(|_| self.random.below(len) as u32).collect()
    }
}

/// The contenders of one memory, with all group sizes. `peer`: whether the C++ peer is present. `replays`: whether replays
/// are measured.
pub(super) fn contenders(memory: Memory, groups: &[usize], peer: bool, replays: bool) -> Vec<What> {
    if memory == Memory::OptaneOverlapping {
        return vec![What::Search(Way::PlainOverlapping)];
    }
    let sizes = || groups.iter().copied().filter_map(GroupSize::new);
    let mut ways = vec![Way::Plain];
    ways.extend(sizes().map(Way::Async));
    ways.extend(sizes().map(Way::Walk));
    ways.extend([Way::Tree(GroupSize::DEFAULT), Way::Batch]);
    if memory == Memory::Near {
        // Written without the executor, so emulation does not slow them.
        ways.push(Way::Std);
        ways.extend(sizes().map(Way::ByHand));
        if peer {
            for schedule in Schedule::ALL {
                ways.extend(sizes().map(|group| Way::Coroutines(schedule, group)));
            }
        }
    }
    let mut all: Vec<What> = ways.into_iter().map(What::Search).collect();
    if replays {
        all.extend([false, true].map(|tree| What::Replay { tree }));
    }
    if memory == Memory::Near && replays {
        all.extend(Way::replayed().map(What::Cached));
        all.extend([Way::Std, Way::Batch].map(What::Many));
    }
    all
}

impl What {
    /// The keys it searches for.
    pub(super) fn searches(self) -> usize {
        match self {
            What::Many(_) => MANY,
            _ => SEARCHES,
        }
    }

    /// The name in results.
    pub(super) fn name(self) -> String {
        match self {
            What::Search(way) => way.name().to_owned(),
            What::Many(way) => many_name(way.name()),
            What::Cached(way) => cached_name(way.name()),
            What::Replay { tree } => replay_name(tree).to_owned(),
        }
    }
}

/// The name of a way's searches for [`MANY`] keys.
pub(super) fn many_name(way: &str) -> String {
    format!("{way}, {MANY} values")
}

/// The name of a way's searches in cache.
pub(super) fn cached_name(way: &str) -> String {
    format!("{way}, in cache")
}

/// The name of a replay.
pub(super) fn replay_name(tree: bool) -> &'static str {
    if tree {
        "replay of the static tree"
    } else {
        "replay of the search"
    }
}

/// The name of the replay with which a way is compared.
pub(super) fn replay_of(way: Way) -> &'static str {
    replay_name(way.is_tree())
}
