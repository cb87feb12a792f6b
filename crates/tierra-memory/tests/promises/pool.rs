//! The promise of a pool: what is published survives, what is not is undone, space is reused, and a
//! full pool is an error.

use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use tierra_memory::persist::Flush;
use tierra_memory::{
    Durability, Extent, Finished, MediumKind, NodeId, Pool, PoolError, PoolOptions,
};

/// Folders of every kind this machine has: its temporary folder and, where there is one, tmpfs.
fn places() -> Vec<TempDir> {
    let mut places = vec![tempfile::tempdir().unwrap()];
    places.extend(TempDir::new_in("/dev/shm").ok());
    places
}

fn options(capacity_bytes: u64) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(capacity_bytes),
        ..PoolOptions::default()
    }
}

fn store(pool: &Arc<Pool>, payload: &[u8], owner: u64) -> Extent {
    finish(pool, payload, owner).extent()
}

fn finish(pool: &Arc<Pool>, payload: &[u8], owner: u64) -> Finished {
    let mut writer = pool.allocate(payload.len() as u64, owner).unwrap();
    writer.copy_from_slice(payload);
    writer.finish().unwrap()
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(17)) as u8)
        .collect()
}

#[test]
fn extents_come_back_after_a_reopen() {
    for place in places() {
        let path = place.path().join("far.pool");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        assert_eq!(pool.root(), None);
        // Around the grain: header and payload fill it, miss it by one, exceed it by one.
        let lengths = [0, 1, 63, 64, 65, 4031, 4032, 4033, 100_000, 5 << 20];
        let extents: Vec<Extent> = lengths
            .iter()
            .enumerate()
            .map(|(i, &len)| store(&pool, &pattern(i, len), i as u64))
            .collect();
        let root = finish(&pool, b"manifest", 99);
        pool.publish(&root).unwrap();
        let root = root.extent();
        let used = pool.used_bytes();
        drop(pool);

        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        assert_eq!(pool.root(), Some(root));
        assert_eq!(pool.bytes(root), b"manifest");
        pool.retain(&extents).unwrap();
        assert_eq!(
            pool.used_bytes(),
            used,
            "the root is kept without being named"
        );
        for (i, (&extent, &len)) in extents.iter().zip(&lengths).enumerate() {
            assert_eq!(pool.verify_extent(extent).unwrap(), i as u64);
            assert_eq!(pool.bytes(extent), pattern(i, len));
            assert_eq!(pool.bytes(extent).as_ptr().addr() % 64, 0);
        }
    }
}

#[test]
fn a_pool_says_what_it_lies_on() {
    let Ok(place) = TempDir::new_in("/dev/shm") else {
        return;
    };
    let pool = Pool::create(&place.path().join("p"), &PoolOptions::default()).unwrap();
    assert_eq!(
        (pool.medium(), pool.durability()),
        (MediumKind::Tmpfs, Durability::ProcessOnly)
    );
    drop(pool);
    // Flushing lines makes it no more durable.
    for flush in [None].into_iter().chain(Flush::available().map(Some)) {
        let options = PoolOptions {
            emulate_dax: true,
            flush,
            ..PoolOptions::default()
        };
        let pool = Pool::open(&place.path().join("p"), &options).unwrap();
        assert_eq!(
            (pool.medium(), pool.durability()),
            (MediumKind::EmulatedDax, Durability::ProcessOnly)
        );
        pool.publish(&pool.allocate(100, 1).unwrap().finish().unwrap())
            .unwrap();
    }
}

#[test]
fn a_pool_in_memory_is_bound_to_a_node_or_refused() {
    let Ok(place) = TempDir::new_in("/dev/shm") else {
        return;
    };
    let path = place.path().join("p");
    let on = |node| PoolOptions {
        node: Some(NodeId(node)),
        ..PoolOptions::default()
    };
    assert!(matches!(
        Pool::create(&path, &on(1023)),
        Err(PoolError::Node { .. })
    ));
    assert!(!path.exists());
    match Pool::create(&path, &on(0)) {
        Ok(pool) => assert_eq!(pool.bytes(store(&pool, b"here", 1)), b"here"),
        // A kernel without NUMA, or a sandbox that forbids the call.
        Err(error) => assert!(matches!(error, PoolError::Node { .. })),
    }
}

#[test]
fn every_publication_replaces_the_one_before() {
    for place in places() {
        let path = place.path().join("p");
        let mut pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        for round in 0..7u64 {
            let before = pool.root();
            let root = finish(&pool, &round.to_le_bytes(), round);
            pool.publish(&root).unwrap();
            let root = root.extent();
            if let Some(before) = before {
                pool.free(before);
            }
            drop(pool);
            pool = Pool::open(&path, &PoolOptions::default()).unwrap();
            assert_eq!(pool.root(), Some(root));
            pool.retain(&[]).unwrap();
            assert_eq!(pool.bytes(root), round.to_le_bytes());
            assert_eq!(pool.used_bytes(), 4096);
        }
    }
}

#[test]
fn dropping_a_writer_undoes_it() {
    for place in places() {
        let pool = Pool::create(&place.path().join("p"), &PoolOptions::default()).unwrap();
        let kept = store(&pool, &pattern(1, 10_000), 1);
        let used = pool.used_bytes();
        let mut writer = pool.allocate(50_000, 2).unwrap();
        let abandoned = writer.extent();
        writer.fill(0xFF);
        assert!(pool.used_bytes() > used);
        drop(writer);
        assert_eq!(pool.used_bytes(), used);
        assert!(pool.check_extent(abandoned).is_err());
        assert_eq!(
            pool.allocate(50_000, 3).unwrap().extent(),
            abandoned,
            "the space is reused"
        );
        assert_eq!(pool.bytes(kept), pattern(1, 10_000));
    }
}

#[test]
fn a_full_pool_is_an_error_and_stays_whole() {
    for place in places() {
        // Header, and four grains for extents.
        let capacity = 16384 + 4 * 4096;
        let pool = Pool::create(&place.path().join("p"), &options(capacity)).unwrap();
        assert_eq!(
            (pool.len_bytes(), pool.capacity_bytes()),
            (capacity, capacity)
        );
        let most = 4 * 4096 - 64;
        assert!(matches!(
            pool.allocate(most + 1, 0),
            Err(PoolError::Full { .. })
        ));
        for impossible in [u64::MAX, u64::MAX - 64, 1 << 62, 1 << 40] {
            assert!(matches!(
                pool.allocate(impossible, 0),
                Err(PoolError::Full { .. })
            ));
        }
        let extents: Vec<Extent> = (0..4).map(|i| store(&pool, &pattern(i, 4032), 0)).collect();
        match pool.allocate(1, 0) {
            Err(PoolError::Full {
                used_bytes,
                capacity_bytes,
                ..
            }) => {
                assert_eq!((used_bytes, capacity_bytes), (4 * 4096, capacity));
            }
            other => panic!("a full pool answered {other:?}"),
        }
        for (i, &extent) in extents.iter().enumerate() {
            assert_eq!(pool.bytes(extent), pattern(i, 4032));
            pool.free(extent);
        }
        assert_eq!(pool.allocate(most, 0).unwrap().len() as u64, most);
    }
}

#[test]
fn a_capacity_too_small_for_one_extent_leaves_no_file() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("p");
    for capacity in [0, 1, 16384, 16384 + 4095] {
        assert!(matches!(
            Pool::create(&path, &options(capacity)),
            Err(PoolError::Full { .. })
        ));
        assert!(!path.exists());
    }
    Pool::create(&path, &options(16384 + 4096)).unwrap();
}

#[test]
fn pointers_stay_while_the_pool_grows() {
    for place in places() {
        let pool = Pool::create(&place.path().join("p"), &PoolOptions::default()).unwrap();
        let first = store(&pool, &pattern(7, 100), 1);
        let bytes = pool.bytes(first);
        let before = pool.len_bytes();
        for round in 0..6 {
            store(&pool, &pattern(round, 3 << 20), 2);
        }
        assert!(pool.len_bytes() > before);
        assert_eq!(bytes, pattern(7, 100));
        assert_eq!(bytes.as_ptr(), pool.bytes(first).as_ptr());
    }
}

#[test]
fn a_reopened_pool_overwrites_nothing_before_it_is_told_what_is_live() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("p");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let root = finish(&pool, b"root", 1);
    let named = store(&pool, b"named by the root", 1);
    pool.publish(&root).unwrap();
    drop(pool);
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let before = pool.len_bytes();
    let new = store(&pool, &pattern(0, 1000), 2);
    assert!(new.offset >= before);
    assert_eq!(pool.bytes(named), b"named by the root");
    assert!(matches!(
        pool.retain(&[named]),
        Err(PoolError::RetainTooLate { .. })
    ));
}

#[test]
fn logs_are_zero_then_written_in_place() {
    for place in places() {
        let path = place.path().join("p");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let stale = store(&pool, &pattern(3, 9000), 1);
        pool.free(stale);
        let root = pool.allocate(9000, 5).unwrap().finish_log().unwrap();
        let log = root.extent();
        assert_eq!(log.offset, stale.offset);
        assert!(pool.bytes(log).iter().all(|&byte| byte == 0));
        pool.publish(&root).unwrap();
        pool.write(log, 0, b"first").unwrap();
        pool.write(log, 5, b"second").unwrap();
        pool.write(log, 8999, b"!").unwrap();
        pool.write(log, 9000, b"").unwrap();
        assert!(matches!(
            pool.write(log, 9000, b"x"),
            Err(PoolError::OutsideLog { .. })
        ));
        assert!(matches!(
            pool.write(log, u64::MAX, b"x"),
            Err(PoolError::OutsideLog { .. })
        ));
        let sealed = store(&pool, b"sealed", 1);
        assert!(matches!(
            pool.write(sealed, 0, b"x"),
            Err(PoolError::BadExtent { .. })
        ));
        drop(pool);
        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        assert_eq!(pool.verify_extent(log).unwrap(), 5);
        assert_eq!(&pool.bytes(log)[..12], b"firstsecond\0");
        assert_eq!(pool.bytes(log)[8999], b'!');
    }
}

#[test]
fn threads_write_extents_at_the_same_time() {
    for place in places() {
        let path = place.path().join("p");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let extents: Vec<(usize, Extent)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4usize)
                .map(|thread| {
                    let pool = &pool;
                    scope.spawn(move || {
                        let mut extents = Vec::new();
                        for round in 0..40usize {
                            let seed = thread * 1000 + round;
                            let extent = store(pool, &pattern(seed, seed * 13 % 70_000), 1);
                            if round % 3 == 0 {
                                pool.free(extent);
                            } else {
                                extents.push((seed, extent));
                            }
                        }
                        extents
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        pool.publish(&finish(&pool, b"root", 0)).unwrap();
        drop(pool);
        let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
        let live: Vec<Extent> = extents.iter().map(|&(_, extent)| extent).collect();
        pool.retain(&live).unwrap();
        for (seed, extent) in extents {
            pool.verify_extent(extent).unwrap();
            assert_eq!(pool.bytes(extent), pattern(seed, seed * 13 % 70_000));
        }
    }
}

#[test]
fn a_pool_has_one_user() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("p");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    assert!(matches!(
        Pool::open(&path, &PoolOptions::default()),
        Err(PoolError::InUse { .. })
    ));
    assert!(matches!(
        Pool::create(&path, &PoolOptions::default()),
        Err(PoolError::Exists { .. })
    ));
    drop(pool);
    Pool::open(&path, &PoolOptions::default()).unwrap();
    let missing: PathBuf = place.path().join("missing");
    assert!(matches!(
        Pool::open(&missing, &PoolOptions::default()),
        Err(PoolError::Missing { .. })
    ));
    assert!(matches!(
        Pool::open(place.path(), &PoolOptions::default()),
        Err(PoolError::Io { .. } | PoolError::NotAPool { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A pool against a map: store, free, drop, publish, reopen, in any order.
    #[test]
    fn a_pool_holds_what_a_map_would(
        steps in prop::collection::vec((0..6u8, any::<usize>(), 0..40_000usize), 1..60),
    ) {
        let place = TempDir::new_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = place.path().join("p");
        let options = options(1 << 20);
        let mut pool = Pool::create(&path, &options).unwrap();
        let mut held: Vec<(Finished, Vec<u8>)> = Vec::new();
        for (what, which, len) in steps {
            match what {
                0..=2 => match pool.allocate(len as u64, which as u64) {
                    Ok(mut writer) => {
                        writer.copy_from_slice(&pattern(which, len));
                        held.push((writer.finish().unwrap(), pattern(which, len)));
                    }
                    Err(PoolError::Full { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                3 => {
                    let published = pool.root();
                    let candidates: Vec<usize> = (0..held.len())
                        .filter(|&i| Some(held[i].0.extent()) != published)
                        .collect();
                    if !candidates.is_empty() {
                        let (extent, _) = held.swap_remove(candidates[which % candidates.len()]);
                        pool.free(extent.extent());
                    }
                }
                4 if !held.is_empty() => pool.publish(&held[which % held.len()].0).unwrap(),
                4 => {}
                _ => {
                    let root = pool.root();
                    drop(pool);
                    pool = Pool::open(&path, &options).unwrap();
                    prop_assert_eq!(pool.root(), root);
                    let live: Vec<Extent> = held.iter().map(|(extent, _)| extent.extent()).collect();
                    pool.retain(&live).unwrap();
                }
            }
            for (extent, payload) in &held {
                pool.verify_extent(extent.extent()).unwrap();
                prop_assert_eq!(pool.bytes(extent.extent()), &payload[..]);
            }
            let spans: u64 = held
                .iter()
                .map(|(extent, _)| (extent.extent().len_bytes + 64).next_multiple_of(4096))
                .sum();
            prop_assert_eq!(pool.used_bytes(), spans);
        }
    }
}
