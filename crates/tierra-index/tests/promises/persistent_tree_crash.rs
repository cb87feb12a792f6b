//! The promise of a persistent tree: after a power cut at any moment each copy alone is the tree with all
//! changes that returned, and the one under way whole or not at all. And that the check can fail: bugs
//! are planted, each found.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_index::{PersistentTree, TreeError};
use tierra_memory::replication::ReplicaSet;
use tierra_memory::simulation::{Image, Limits, Recorder, Report, StepKind, Trace};
use tierra_memory::{Extent, Pool, PoolOptions};

const ID: u64 = 9;
const LEAF: u64 = 1024;
/// Leaves of the two extents.
const LEAVES: [u64; 2] = [4, 12];

/// A change; step `n` is change `n - 1`, step 1 makes the tree.
#[derive(Clone, Copy, Debug)]
enum Change {
    Put(u64, u64),
    Remove(u64),
}

/// Insertions in random and ascending order, updates, then a range is emptied, so that leaves are
/// split, merged and used again.
fn changes() -> Vec<Change> {
    let random = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let mut changes = Vec::new();
    changes.extend((0..110).map(|n| Change::Put(random(n % 90), n)));
    changes.extend((0..55).map(|n| Change::Put((1 << 30) + n, n)));
    let mut keys: Vec<u64> = (0..90).map(random).collect();
    keys.sort_unstable();
    changes.extend(keys[20..80].iter().map(|&key| Change::Remove(key)));
    changes.extend((0..40).map(|n| Change::Put(keys[40] + n, n)));
    changes
}

type State = BTreeMap<u64, u64>;

/// What the tree holds after each step.
fn states(changes: &[Change]) -> Vec<State> {
    let mut states = vec![State::new(), State::new()];
    for change in changes {
        let mut next = states[states.len() - 1].clone();
        match *change {
            Change::Put(key, value) => next.insert(key, value),
            Change::Remove(key) => next.remove(&key),
        };
        states.push(next);
    }
    states
}

fn apply(tree: &mut PersistentTree, change: Change) {
    match change {
        Change::Put(key, value) => tree.put(key, value).unwrap(),
        Change::Remove(key) => tree.remove(key).unwrap(),
    };
}

fn options(recorder: &Recorder) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(160 << 10),
        id: Some(1),
        recorder: Some(recorder.clone()),
        ..PoolOptions::default()
    }
}

/// The root names the copies of the first extent, then those of the second.
fn sets(pool: &Arc<Pool>, logs: &[Extent]) -> Result<Vec<ReplicaSet>, String> {
    let set = |logs: &[Extent]| {
        let copies: Vec<_> = logs.iter().map(|log| (Arc::clone(pool), *log)).collect();
        ReplicaSet::open(&copies).map_err(|e| e.to_string())
    };
    logs.chunks(logs.len() / LEAVES.len()).map(set).collect()
}

/// A recorded program.
struct Recorded {
    dir: TempDir,
    trace: Trace,
    states: Vec<State>,
    /// Events before the first change.
    made: usize,
}

impl Recorded {
    fn new(recorder: &Recorder, copies: u64, changes: &[Change]) -> Recorded {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let dir = dir.unwrap();
        let pool = Pool::create(&dir.path().join("pool"), &options(recorder)).unwrap();
        let log = |leaves: u64| {
            let log = pool.allocate(leaves * LEAF, 0).unwrap().finish_log();
            log.unwrap().extent()
        };
        let logs = LEAVES
            .iter()
            .flat_map(|&leaves| (0..copies).map(move |_| leaves));
        let logs: Vec<Extent> = logs.map(log).collect();
        let mut sets = sets(&pool, &logs).unwrap();
        let second = sets.pop().unwrap();
        let mut tree = PersistentTree::create(ID, sets).unwrap();
        let words = logs.iter().flat_map(|e| [e.offset, e.len_bytes]);
        let names: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let mut root = pool.allocate(names.len() as u64, 0).unwrap();
        root.copy_from_slice(&names);
        pool.publish(&root.finish().unwrap()).unwrap();
        tree.add_extent(second).unwrap();
        recorder.acknowledge(1);
        let made = recorder.trace().len();
        for (change, step) in changes.iter().zip(2..) {
            apply(&mut tree, *change);
            recorder.acknowledge(step);
        }
        assert_eq!(recorder.unseen(&pool), [], "a store took another way");
        let trace = recorder.trace();
        Recorded {
            dir,
            trace,
            states: states(changes),
            made,
        }
    }

    fn explore(&self, trace: &Trace, limits: &Limits) -> Report {
        let path = self.dir.path().join("image");
        let check = |image: &Image<'_>| check(image, &self.states);
        trace.explore(&path, limits, check).unwrap()
    }

    fn is_found(&self, trace: &Trace) -> bool {
        let limits = Limits {
            violations: 1,
            images_per_cut: 30,
            ..Limits::default()
        };
        !self.explore(trace, &limits).violations.is_empty()
    }

    /// Flushes or fences of the changes.
    fn steps(&self, kind: StepKind) -> Vec<usize> {
        let mut steps = self.trace.steps(kind);
        steps.retain(|&step| step >= self.made);
        steps
    }

    /// Flushes that are of a new leaf, whole: a split.
    fn whole_leaves(&self) -> Vec<usize> {
        let mut flushes = self.steps(StepKind::Flush);
        flushes.retain(|&flush| self.trace.without_last_line(flush).is_some());
        flushes
    }
}

/// A pool, and the logs that its root names.
type Opened = (Arc<Pool>, Vec<Extent>);

fn open(image: &Image<'_>) -> Result<Option<Opened>, String> {
    let pool = Pool::open(image.path, &options(&image.recorder)).map_err(|e| e.to_string())?;
    let Some(root) = pool.root() else {
        return match image.acknowledged {
            0 => Ok(None),
            step => Err(format!("nothing published, step {step} acknowledged")),
        };
    };
    let word = |at: &[u8]| u64::from_le_bytes(at.try_into().unwrap());
    let pairs = pool.bytes(root).chunks_exact(16);
    let logs = pairs.map(|pair| Extent {
        offset: word(&pair[..8]),
        len_bytes: word(&pair[8..]),
    });
    let logs: Vec<Extent> = logs.collect();
    pool.retain(&logs).map_err(|e| e.to_string())?;
    Ok(Some((pool, logs)))
}

fn check(image: &Image<'_>, states: &[State]) -> Result<(), String> {
    let Some((pool, logs)) = open(image)? else {
        return Ok(());
    };
    let done = image.acknowledged as usize;
    let copies = logs.len() / LEAVES.len();
    // Each copy alone, then all: copies are made equal to the first only at the end.
    for alone in (0..copies).map(Some).chain([None]) {
        let of_copy = |(at, log): (usize, &Extent)| {
            (alone.is_none() || alone == Some(at % copies)).then_some(*log)
        };
        let logs: Vec<Extent> = logs.iter().enumerate().filter_map(of_copy).collect();
        let tree = PersistentTree::open(ID, sets(&pool, &logs)?).map_err(|e| e.to_string())?;
        let found: State = tree.range(..).collect();
        let later = &states[(done + 1).min(states.len() - 1)];
        if found != states[done] && found != *later {
            return Err(format!(
                "copy {alone:?} is neither step {done} nor the next"
            ));
        }
        if tree.leaves().1 != LEAVES.iter().sum::<u64>() || tree.len() != found.len() {
            return Err(format!("copy {alone:?}: {:?} leaves", tree.leaves()));
        }
    }
    for set in sets(&pool, &logs)? {
        if (1..copies).any(|copy| set.bytes(copy) != set.bytes(0)) {
            return Err("copies differ after opening".into());
        }
    }
    Ok(())
}

fn assert_kept(report: &Report) {
    for violation in &report.violations {
        eprintln!("{violation}");
    }
    assert!(report.violations.is_empty(), "{:?}", Limits::default());
}

#[test]
fn every_copy_keeps_what_was_acknowledged() {
    let changes = changes();
    for (recorder, copies) in [
        (Recorder::by_line(), 1),
        (Recorder::by_line(), 3),
        (Recorder::by_page(), 2),
    ] {
        let recorded = Recorded::new(&recorder, copies, &changes);
        let limits = Limits {
            images_per_cut: 40,
            ..Limits::default()
        };
        let report = recorded.explore(&recorded.trace, &limits);
        assert_kept(&report);
        assert!(report.images > 1_000, "{}", report.images);
    }
}

/// A process is killed in a change, the next one opens the tree and shows it, changes it, and the power is cut.
#[test]
fn what_was_shown_after_a_kill_is_kept() {
    const NEXT: u64 = 10_000;
    let changes = changes();
    let recorded = Recorded::new(&Recorder::by_line(), 2, &changes);
    let splits = recorded.whole_leaves();
    // In some changes, and at every event of a split.
    let kills = (recorded.made..recorded.trace.len()).step_by(29);
    let kills = kills.chain(splits[1]..splits[1] + 18);
    for events in kills {
        let path = recorded.dir.path().join("killed");
        std::fs::write(&path, recorded.trace.killed_after(events)).unwrap();
        let recorder = Recorder::by_line();
        let image = Image {
            path: &path,
            acknowledged: 0,
            recorder: recorder.clone(),
        };
        let (pool, logs) = open(&image).unwrap().unwrap();
        let sets = sets(&pool, &logs).unwrap();
        let mut tree = PersistentTree::open(ID, sets).unwrap();
        let mut shown: Vec<State> = vec![State::new(), tree.range(..).collect()];
        recorder.acknowledge(NEXT + 1);
        for (key, step) in (0..3).zip(NEXT + 2..) {
            tree.put(key, step).unwrap();
            shown.push(tree.range(..).collect());
            recorder.acknowledge(step);
        }
        let trace = recorded
            .trace
            .killed_and_continued(events, &recorder.trace());
        let limits = Limits {
            images_per_cut: 8,
            ..Limits::default()
        };
        let image_path = recorded.dir.path().join("image");
        let report = trace.explore(&image_path, &limits, |image| match image.acknowledged {
            // Up to the kill the first test has looked.
            0..NEXT => Ok(()),
            step => check(
                &Image {
                    path: image.path,
                    acknowledged: step - NEXT,
                    recorder: image.recorder.clone(),
                },
                &shown,
            ),
        });
        assert_kept(&report.unwrap());
    }
}

#[test]
fn a_leaf_that_a_split_left_halfway_is_used_again() {
    let recorded = Recorded::new(&Recorder::by_line(), 1, &changes()[..80]);
    let split = recorded.whole_leaves()[0];
    for events in split..split + 10 {
        let path = recorded.dir.path().join("killed");
        std::fs::write(&path, recorded.trace.killed_after(events)).unwrap();
        let image = Image {
            path: &path,
            acknowledged: 0,
            recorder: Recorder::by_line(),
        };
        let (pool, logs) = open(&image).unwrap().unwrap();
        let open = || PersistentTree::open(ID, sets(&pool, &logs).unwrap()).unwrap();
        let mut tree = open();
        let (used, all) = tree.leaves();
        assert!(used == 1 || used == 2, "{used}");
        let full = (1 << 40..).find_map(|key| tree.put(key, 0).err());
        assert!(matches!(full, Some(TreeError::Full { .. })), "{full:?}");
        assert_eq!(tree.leaves(), (all, all));
        let entries: Vec<_> = tree.range(..).collect();
        drop(tree);
        assert!(open().range(..).eq(entries), "after {events} events");
    }
}

/// As a program that forgot it, for a sample of changes and all of a split.
#[test]
fn a_flush_or_the_fence_left_out_is_found() {
    let changes = &changes()[..80];
    let recorded = Recorded::new(&Recorder::by_line(), 2, changes);
    assert!(!recorded.is_found(&recorded.trace));
    let split = recorded.whole_leaves()[0];
    let is_near = |step: &usize| (split..split + 20).contains(step);
    for kind in [StepKind::Flush, StepKind::Fence] {
        let steps = recorded.steps(kind);
        let sample = steps.iter().step_by(13);
        for &step in sample.chain(steps.iter().filter(|step| is_near(step))) {
            assert!(
                recorded.is_found(&recorded.trace.without(step)),
                "{kind:?} {step}"
            );
        }
    }
}

/// The new leaf of a split: not flushed, its last line not flushed, not waited for before it is published.
#[test]
fn a_leaf_published_before_it_is_whole_is_found() {
    let recorded = Recorded::new(&Recorder::by_line(), 1, &changes()[..160]);
    let trace = &recorded.trace;
    let splits = recorded.whole_leaves();
    assert!(splits.len() >= 2, "{splits:?}");
    for flush in splits {
        assert!(recorded.is_found(&trace.without(flush)), "flush {flush}");
        let short = trace.without_last_line(flush).unwrap();
        assert!(recorded.is_found(&short), "last line of flush {flush}");
        let fences = recorded.steps(StepKind::Fence);
        let fence = fences.into_iter().find(|&fence| fence > flush).unwrap();
        assert!(recorded.is_found(&trace.without(fence)), "fence {fence}");
        // The store that publishes, and its flush, come before the leaf is waited for.
        let publication = fence + 2;
        assert!(
            recorded.is_found(&trace.delayed(flush, publication)),
            "order at {flush}"
        );
    }
}

/// The word of a line that says what counts is stored before what it counts.
#[test]
fn a_state_stored_before_its_entry_is_found() {
    let recorded = Recorded::new(&Recorder::by_line(), 1, &changes()[..30]);
    let trace = &recorded.trace;
    // Key, value, state, flush, of a key that is not zero and a value that is not.
    for flush in recorded.steps(StepKind::Flush).into_iter().skip(1).take(10) {
        for word in [flush - 3, flush - 2] {
            assert!(
                recorded.is_found(&trace.delayed(word, flush - 1)),
                "word {word}"
            );
        }
    }
}

/// An update lets a value change before it does: the other way round leaves a line that is neither.
#[test]
fn a_value_stored_before_leave_to_change_it_is_found() {
    let update = [Change::Put(1, 10), Change::Put(1, 20), Change::Put(1, 30)];
    let recorded = Recorded::new(&Recorder::by_line(), 1, &update);
    for flush in &recorded.steps(StepKind::Flush)[1..] {
        let swapped = recorded.trace.delayed(flush - 2, flush - 1);
        assert!(recorded.is_found(&swapped), "flush {flush}");
    }
}
