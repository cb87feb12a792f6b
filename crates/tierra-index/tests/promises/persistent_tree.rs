//! What a persistent tree answers: the same as a map kept beside it, through splits, merges, further
//! extents and openings, in every copy.

use std::collections::BTreeMap;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_index::{PersistentTree, TreeError};
use tierra_interleave::{
    Cx, Execution, GroupSize, Lookups, Scheduling, in_mode, map_into, run_plain,
};
use tierra_memory::replication::ReplicaSet;
use tierra_memory::{Extent, Pool, PoolOptions};

const ID: u64 = 0x7E44A;

/// Pools, and which logs of them are copies of one extent.
struct Files {
    _dir: TempDir,
    pools: Vec<Arc<Pool>>,
    extents: Vec<Vec<(Arc<Pool>, Extent)>>,
}

impl Files {
    fn new(copies: usize) -> Files {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let dir = dir.unwrap();
        let pool = |copy| {
            let path = dir.path().join(format!("pool {copy}"));
            Pool::create(&path, &PoolOptions::default()).unwrap()
        };
        let pools = (0..copies).map(pool).collect();
        Files {
            pools,
            _dir: dir,
            extents: Vec::new(),
        }
    }

    /// One more extent of so many leaves.
    fn extend(&mut self, leaves: u64) -> ReplicaSet {
        let log = |pool: &Arc<Pool>| {
            let log = pool.allocate(leaves * 1024, 0).unwrap().finish_log();
            (Arc::clone(pool), log.unwrap().extent())
        };
        self.extents.push(self.pools.iter().map(log).collect());
        ReplicaSet::open(&self.extents[self.extents.len() - 1]).unwrap()
    }

    fn sets(&self) -> Vec<ReplicaSet> {
        let extents = self.extents.iter();
        extents
            .map(|copies| ReplicaSet::open(copies).unwrap())
            .collect()
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % below
    }
}

fn assert_same(tree: &PersistentTree, model: &BTreeMap<u64, u64>, doing: &str) {
    assert_eq!(tree.len(), model.len(), "{doing}");
    assert!(
        tree.range(..).eq(model.iter().map(|(k, v)| (*k, *v))),
        "{doing}"
    );
}

/// Random operations on a tree and a map.
fn compare(seed: u64, operations: u64) {
    let mut random = Random(seed * 0x9E37_79B9 + 1);
    let mut files = Files::new(1 + seed as usize % 3);
    let first = files.extend(3);
    let mut tree = PersistentTree::create(ID, vec![first]).unwrap();
    let mut model = BTreeMap::new();
    let key = |random: &mut Random, step: u64| match random.next(8) {
        0 => u64::MAX - random.next(50),
        1 => random.next(50),
        // In ascending order.
        2 | 3 => 1 << 40 | step,
        // In clusters.
        4 => random.next(3) << 60 | random.next(100),
        _ => random.next(2_000) * 1_000_003,
    };
    for step in 0..operations {
        let doing = format!("seed {seed}, step {step}");
        // Grows for a while, then shrinks.
        let puts = if step * 3 < operations * 2 { 80 } else { 15 };
        if random.next(100) < puts {
            let (key, value) = (key(&mut random, step), random.next(u64::MAX));
            if tree.needs_extent() {
                tree.add_extent(files.extend(1 + random.next(5))).unwrap();
            }
            assert_eq!(
                tree.put(key, value).unwrap(),
                model.insert(key, value),
                "{doing}"
            );
        } else {
            // Mostly one that is there, from one end on so that leaves get empty.
            let key = match random.next(6) {
                0 => key(&mut random, step),
                1 => model.last_key_value().map_or(0, |(key, _)| *key),
                _ => {
                    let from = random.next(u64::MAX >> 12);
                    model.range(from..).next().map_or(7, |(key, _)| *key)
                }
            };
            assert_eq!(tree.remove(key).unwrap(), model.remove(&key), "{doing}");
        }
        let probe = key(&mut random, step);
        assert_eq!(
            run_plain(|cx| tree.get(cx, probe)),
            model.get(&probe).copied(),
            "{doing}"
        );
        if random.next(operations / 8) == 0 {
            assert_same(&tree, &model, &doing);
            let leaves = tree.leaves();
            drop(tree);
            tree = PersistentTree::open(ID, files.sets()).unwrap();
            assert_eq!(tree.leaves(), leaves, "{doing}");
            assert_same(&tree, &model, &doing);
        }
        if random.next(operations / 30) == 0 {
            let (from, to) = (key(&mut random, step), key(&mut random, step));
            let (from, to) = (from.min(to), from.max(to));
            let found: Vec<_> = tree.range(from..to).collect();
            let right: Vec<_> = model.range(from..to).map(|(k, v)| (*k, *v)).collect();
            assert_eq!(found, right, "{doing}");
        }
    }
    assert_same(&tree, &model, "at the end");
    drop(tree);
    // Any copy alone is the tree.
    for copy in 0..files.pools.len() {
        let alone = |copies: &Vec<(Arc<Pool>, Extent)>| {
            ReplicaSet::open(std::slice::from_ref(&copies[copy])).unwrap()
        };
        let sets = files.extents.iter().map(alone).collect();
        assert_same(&PersistentTree::open(ID, sets).unwrap(), &model, "one copy");
    }
    let mut tree = PersistentTree::open(ID, files.sets()).unwrap();
    for key in model.into_keys() {
        tree.remove(key).unwrap();
    }
    // The first leaf stays, all others are free.
    assert_eq!((tree.len(), tree.leaves().0), (0, 1), "seed {seed}");
}

#[test]
fn a_tree_answers_as_a_map_does() {
    for seed in 1..=12 {
        compare(seed, 4_000);
    }
}

#[test]
fn ends_of_the_range_of_keys() {
    let mut files = Files::new(1);
    let first = files.extend(8);
    let mut tree = PersistentTree::create(ID, vec![first]).unwrap();
    assert!(tree.is_empty() && tree.range(..).next().is_none());
    for key in [0, u64::MAX, 1, u64::MAX - 1] {
        assert_eq!(tree.put(key, !key).unwrap(), None);
    }
    for key in 100..200 {
        tree.put(key, key).unwrap();
    }
    let keys = |range: Vec<(u64, u64)>| range.into_iter().map(|e| e.0).collect::<Vec<_>>();
    assert_eq!(keys(tree.range(..=1).collect()), [0, 1]);
    assert_eq!(
        keys(tree.range(199..).collect()),
        [199, u64::MAX - 1, u64::MAX]
    );
    assert_eq!(keys(tree.range(u64::MAX..).collect()), [u64::MAX]);
    assert_eq!(keys(tree.range(1..1).collect()), []);
    assert_eq!(keys(tree.range(..0).collect()), []);
    #[expect(
        clippy::reversed_empty_ranges,
        reason = "an empty range is what is asked"
    )]
    let reversed = tree.range(150..100).next();
    assert_eq!(reversed, None);
    use std::ops::Bound::{Excluded, Unbounded};
    assert_eq!(tree.range((Excluded(u64::MAX), Unbounded)).next(), None);
    assert_eq!(
        keys(tree.range((Excluded(197), Excluded(200))).collect()),
        [198, 199]
    );
}

#[test]
fn every_mode_and_thread_finds_the_same() {
    let mut files = Files::new(2);
    let first = files.extend(2_000);
    let mut tree = PersistentTree::create(ID, vec![first]).unwrap();
    let mut random = Random(77);
    let keys: Vec<u64> = (0..30_000).map(|_| random.next(1 << 40)).collect();
    for key in &keys {
        tree.put(*key, key ^ 5).unwrap();
    }
    let asked: Vec<u64> = keys.iter().flat_map(|&key| [key, key + 1]).collect();
    let right: Vec<Option<u64>> = {
        let there: std::collections::HashSet<u64> = keys.iter().copied().collect();
        let value = |key: &u64| there.contains(key).then_some(key ^ 5);
        asked.iter().map(value).collect()
    };
    std::thread::scope(|scope| {
        for execution in Execution::ALL {
            let (tree, asked, right) = (&tree, &asked, &right);
            scope.spawn(move || {
                let mut values = vec![None; asked.len()];
                in_mode!(execution, M => map_into(GroupSize::DEFAULT, asked,
                    |cx: Cx<M>, &key| tree.get(cx, key), &mut values));
                assert_eq!(values, *right);
                let mut values = vec![None; asked.len()];
                let mut lookups = Lookups::new(Scheduling::Auto);
                tree.get_all(&mut lookups, asked, &mut values);
                assert_eq!(values, *right);
                assert_eq!(lookups.report().lookups, asked.len() as u64);
            });
        }
    });
}

#[test]
fn a_full_tree_says_so_and_grows_by_an_extent() {
    let mut files = Files::new(1);
    let first = files.extend(2);
    let mut tree = PersistentTree::create(ID, vec![first]).unwrap();
    let full = (0..).find_map(|key| tree.put(key, key).err());
    assert!(
        matches!(full, Some(TreeError::Full { leaves: 2 })),
        "{full:?}"
    );
    assert!(tree.needs_extent());
    let len = tree.len() as u64;
    assert_eq!(len, 96, "keys in ascending order fill leaves");
    assert_eq!(run_plain(|cx| tree.get(cx, len)), None);
    // What needs no leaf goes on.
    assert_eq!(tree.put(3, 33).unwrap(), Some(3));
    assert_eq!(tree.remove(5).unwrap(), Some(5));
    tree.put(5, 5).unwrap();
    // An extent that another leaf lies in is refused.
    let error = tree.add_extent(ReplicaSet::open(&files.extents[0]).unwrap());
    assert!(matches!(
        error,
        Err(TreeError::NotEmpty { extent: 1, leaf: 0 })
    ));
    tree.add_extent(files.extend(1)).unwrap();
    assert!(!tree.needs_extent());
    tree.put(len, len).unwrap();
    drop(tree);
    let tree = PersistentTree::open(ID, files.sets()).unwrap();
    assert_eq!((tree.len() as u64, tree.leaves()), (len + 1, (3, 3)));
    assert!(tree.near_bytes() > 3 * 64);
}

#[test]
fn all_copies_have_the_same_bytes() {
    let mut files = Files::new(3);
    let first = files.extend(20);
    let mut tree = PersistentTree::create(ID, vec![first]).unwrap();
    for key in 0..300 {
        tree.put(key * 7919 % 1_000, key).unwrap();
    }
    let entries: Vec<_> = tree.range(..).collect();
    drop(tree);
    let sets = files.sets();
    for copy in 1..3 {
        assert!(sets[0].bytes(0) == sets[0].bytes(copy), "copy {copy}");
    }
    drop(sets);
    let tree = PersistentTree::open(ID, files.sets()).unwrap();
    assert!(tree.range(..).eq(entries));
}
