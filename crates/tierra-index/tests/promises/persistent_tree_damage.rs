//! Bytes of leaves that are not what was stored: refused with what and where, or without effect, never a
//! panic or a wrong answer.

use std::sync::Arc;

use tempfile::TempDir;
use tierra_index::{PersistentTree, TreeError};
use tierra_memory::replication::{Composition, Method, ReplicaSet};
use tierra_memory::{Extent, Pool, PoolOptions};

const ID: u64 = 5;
const LEAF: usize = 1024;

struct Files {
    _dir: TempDir,
    pool: Arc<Pool>,
}

impl Files {
    fn new() -> Files {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let dir = dir.unwrap();
        let pool = Pool::create(&dir.path().join("pool"), &PoolOptions::default()).unwrap();
        Files { _dir: dir, pool }
    }

    fn log(&self, len_bytes: u64) -> Extent {
        let log = self.pool.allocate(len_bytes, 0).unwrap().finish_log();
        log.unwrap().extent()
    }

    fn set(&self, log: Extent) -> ReplicaSet {
        ReplicaSet::open(&[(Arc::clone(&self.pool), log)]).unwrap()
    }

    fn open(&self, logs: &[Extent]) -> Result<PersistentTree, TreeError> {
        PersistentTree::open(ID, logs.iter().map(|log| self.set(*log)).collect())
    }

    /// A tree of two extents.
    fn tree(&self) -> ([Extent; 2], Vec<(u64, u64)>) {
        let logs = [5, 8].map(|leaves| self.log(leaves * LEAF as u64));
        let mut tree = PersistentTree::create(ID, vec![self.set(logs[0])]).unwrap();
        tree.add_extent(self.set(logs[1])).unwrap();
        for key in 0..300 {
            tree.put(key * 7919 % 10_007, key).unwrap();
        }
        for key in 0..10 {
            tree.remove(key * 7919 % 10_007).unwrap();
        }
        let entries = tree.range(..).collect();
        (logs, entries)
    }

    fn write(&self, log: Extent, at: usize, bytes: &[u8]) {
        let method = Method::Always(Composition::BASIC);
        self.set(log).write(&method, at as u64, bytes).unwrap();
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below
    }
}

/// Each bit of a leaf in turn: found by a check, or it does not count.
#[test]
fn a_flipped_bit_is_found_or_does_not_count() {
    let files = Files::new();
    let (logs, entries) = files.tree();
    let (mut refused, mut freed) = (0, 0);
    for bit in (0..8 * LEAF * 2).step_by(3) {
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        let before = files.pool.bytes(logs[0])[at];
        files.write(logs[0], at, &[before ^ mask]);
        match files.open(&logs) {
            Ok(tree) => {
                assert!(tree.range(..).eq(entries.iter().copied()), "bit {bit}");
                freed += 1;
            }
            Err(TreeError::Damaged {
                extent: 0, leaf, ..
            }) => {
                assert_eq!(leaf as usize, at / LEAF, "bit {bit}");
                refused += 1;
            }
            Err(error) => panic!("bit {bit}: {error}"),
        }
        files.write(logs[0], at, &[before]);
    }
    assert!(refused > 1_000 && freed > 500, "{refused} {freed}");
}

/// Random bytes, pieces of leaves in other places, zeros: no panic, and what opens answers something.
#[test]
fn forged_leaves_never_panic() {
    let seed = 0x7E44A;
    let files = Files::new();
    let (logs, entries) = files.tree();
    let whole = logs.map(|log| files.pool.bytes(log).to_vec());
    let mut random = Random(seed);
    let mut refused = 0;
    for round in 0..3_000 {
        let mut forged = whole.clone();
        for _ in 0..1 + random.next(4) {
            let (extent, at) = (random.next(2), random.next(5 * LEAF / 8) * 8);
            let len = [8, 64, 8, LEAF][random.next(4)].min(5 * LEAF - at);
            let from = random.next(5 * LEAF - len + 1) / 8 * 8;
            let bytes: Vec<u8> = match random.next(4) {
                0 => vec![0; len],
                1 => (0..len).map(|_| random.next(256) as u8).collect(),
                2 => vec![0xFF; len],
                _ => whole[random.next(2)][from..from + len].to_vec(),
            };
            forged[extent][at..at + len].copy_from_slice(&bytes);
        }
        for (log, bytes) in logs.iter().zip(&forged) {
            files.write(*log, 0, bytes);
        }
        match files.open(&logs) {
            Ok(mut tree) => {
                assert!(
                    tree.range(..).count() == tree.len(),
                    "seed {seed}, round {round}"
                );
                for (key, _) in &entries {
                    tree.remove(*key).unwrap();
                    let _full_perhaps = tree.put(key + 1, 0);
                }
            }
            Err(error) => {
                assert!(error.to_string().contains("leaf"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn other_extents_than_the_trees_are_refused() {
    let files = Files::new();
    let (logs, entries) = files.tree();
    let error = |logs: &[Extent]| match files.open(logs) {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    };
    assert!(matches!(error(&[]), TreeError::Extents { extents: 0 }));
    // In another order, one missing, under another tree's number.
    assert!(matches!(
        error(&[logs[1], logs[0]]),
        TreeError::Damaged { .. }
    ));
    assert!(matches!(error(&logs[..1]), TreeError::Missing { .. }));
    let sets = || logs.iter().map(|log| files.set(*log)).collect();
    let other_id = PersistentTree::open(ID + 1, sets());
    assert!(matches!(other_id, Err(TreeError::Damaged { .. })));
    // An empty log is no tree, a tree no empty log, and one too short neither.
    let empty = files.log(LEAF as u64);
    assert!(matches!(error(&[empty]), TreeError::Missing { key: 0 }));
    let again = PersistentTree::create(ID, sets());
    assert!(matches!(
        again,
        Err(TreeError::NotEmpty { extent: 0, leaf: 0 })
    ));
    let short = files.log(LEAF as u64 - 1);
    let length = error(&[short]);
    assert!(
        matches!(
            length,
            TreeError::Length {
                len_bytes: 1023,
                ..
            }
        ),
        "{length}"
    );
    // A rest behind the last whole leaf is not used.
    let longer = files.log(2 * LEAF as u64 + 100);
    let tree = PersistentTree::create(ID, vec![files.set(longer)]).unwrap();
    assert_eq!(tree.leaves(), (1, 2));
    // Nothing of all this has changed the tree.
    assert!(files.open(&logs).unwrap().range(..).eq(entries));
}
