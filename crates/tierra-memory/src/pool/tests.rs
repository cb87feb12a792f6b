//! A medium that refuses, and what a pool makes of it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mm::MapFlags;

use super::medium::{Medium, MediumKind};
use super::{Durability, Extent, Pool, PoolError, PoolOptions};
use crate::address::map_fixed;
use crate::backing;
use crate::replication::{Composition, Method, ReplicaSet, ReplicationError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Map,
    Settle,
    Fence,
    Allocate,
}

#[derive(Debug)]
struct Refusing {
    refused: Refused,
    now: Arc<AtomicBool>,
}

impl Refusing {
    fn unless(&self, refused: Refused) -> io::Result<()> {
        match self.refused == refused && self.now.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl Medium for Refusing {
    fn kind(&self) -> MediumKind {
        MediumKind::Dax
    }

    fn durability(&self) -> Durability {
        Durability::CacheLine
    }

    unsafe fn map(&self, file: &File, at: *mut u8, offset: u64, len: usize) -> io::Result<()> {
        self.unless(Refused::Map)?;
        // SAFETY: the caller's promise is passed on.
        unsafe { map_fixed(file, at, offset, len, MapFlags::SHARED) }
    }

    fn allocate(&self, file: &File, from: u64, to: u64) -> io::Result<()> {
        match self.unless(Refused::Allocate) {
            Ok(()) => backing::allocate(file, from, to),
            Err(_) => Err(Errno::NOSPC.into()),
        }
    }

    fn grown(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    unsafe fn flush(&self, _: *const u8, _: u64) -> io::Result<()> {
        Ok(())
    }

    unsafe fn fence(&self, _: *const u8, _: u64) -> io::Result<()> {
        self.unless(Refused::Fence)
    }

    fn shares_fences(&self) -> bool {
        true
    }

    unsafe fn stage(&self, _: &File, _: *const u8, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn settle(&self, _: &File) -> io::Result<()> {
        self.unless(Refused::Settle)
    }
}

fn capacity(bytes: u64) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(bytes),
        ..PoolOptions::default()
    }
}

/// A pool whose medium refuses from now on.
fn create(path: &Path, refused: Refused, options: &PoolOptions) -> Arc<Pool> {
    create_refusing_when(path, refused, options, &Arc::new(AtomicBool::new(true)))
}

fn create_refusing_when(
    path: &Path,
    refused: Refused,
    options: &PoolOptions,
    now: &Arc<AtomicBool>,
) -> Arc<Pool> {
    let mut pool = Arc::into_inner(Pool::create(path, options).unwrap()).unwrap();
    let now = Arc::clone(now);
    pool.medium = Box::new(Refusing { refused, now });
    Arc::new(pool)
}

fn store(pool: &Arc<Pool>, payload: &[u8]) -> super::Finished {
    let mut writer = pool.allocate(payload.len() as u64, 0).unwrap();
    writer.copy_from_slice(payload);
    writer.finish().unwrap()
}

#[test]
fn a_pool_that_cannot_map_its_growth_goes_on_without() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let options = capacity(16 << 20);
    let pool = create(&path, Refused::Map, &options);
    let kept = store(&pool, b"kept").extent();
    let len_bytes = pool.len_bytes();
    for _ in 0..2 {
        assert!(matches!(
            pool.allocate(4 << 20, 0),
            Err(PoolError::Io {
                doing: "map the file",
                ..
            })
        ));
        // What lies behind may be another thread's by now.
        assert_eq!(pool.range.len_bytes() as u64, len_bytes);
        assert_eq!(
            (pool.len_bytes(), pool.bytes(kept)),
            (len_bytes, &b"kept"[..])
        );
    }
    let more = store(&pool, b"in the space there is");
    let root = more.extent();
    pool.publish(&more).unwrap();
    drop(pool);
    let reopened = Pool::open(&path, &options).unwrap();
    assert_eq!(reopened.root(), Some(root));
    reopened.retain(&[kept]).unwrap();
    assert!(reopened.allocate(4 << 20, 0).is_ok());
    assert_eq!(reopened.bytes(kept), b"kept");
}

#[test]
fn a_pool_whose_device_refused_publishes_no_more() {
    for refused in [Refused::Settle, Refused::Fence] {
        let dir = tempfile::tempdir().unwrap();
        let pool = create(&dir.path().join("p"), refused, &capacity(128 << 10));
        let log = || pool.allocate(100, 0).unwrap().finish_log().unwrap();
        let first: Extent = log().extent();
        assert!(matches!(pool.publish(&log()), Err(PoolError::Io { .. })));
        assert_eq!(pool.root(), None);
        assert!(matches!(
            pool.publish(&log()),
            Err(PoolError::Poisoned { .. })
        ));
        assert!(matches!(
            pool.write(first, 0, b"x"),
            Err(PoolError::Poisoned { .. })
        ));
        assert!(matches!(
            super::UndoLog::open(&pool, first),
            Err(PoolError::Poisoned { .. })
        ));
    }
}

/// Also where a thread wrote the replica that failed.
#[test]
fn a_replica_set_one_of_whose_devices_refused_writes_no_more() {
    for composition in Composition::all() {
        let dir = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicBool::new(false));
        let mut copies = Vec::new();
        for name in ["master", "whole", "failing"] {
            let path = dir.path().join(name);
            let options = capacity(128 << 10);
            let pool = match name {
                "failing" => create_refusing_when(&path, Refused::Fence, &options, &now),
                _ => Pool::create(&path, &options).unwrap(),
            };
            let log = pool.allocate(5_000, 0).unwrap().finish_log().unwrap();
            copies.push((pool, log.extent()));
        }
        let mut set = ReplicaSet::open(&copies).unwrap();
        let method = Method::Always(composition);
        set.write(&method, 0, &[1; 5_000]).unwrap();
        now.store(true, Ordering::Relaxed);
        let refused = set.write(&method, 0, &[2; 5_000]);
        assert!(
            matches!(refused, Err(ReplicationError::Pool(PoolError::Io { .. }))),
            "{composition}: {refused:?}"
        );
        let refused = set.write(&method, 0, &[3; 5_000]);
        assert!(
            matches!(
                refused,
                Err(ReplicationError::Pool(PoolError::Poisoned { .. }))
            ),
            "{composition}: {refused:?}"
        );
        assert_ne!(set.bytes(0)[0], 3);
    }
}

/// Where the processor writes the copies, pools are not asked for each write: only after a trouble.
#[test]
fn a_set_that_was_well_hears_of_a_refusal_in_one_of_its_pools() {
    let Ok(dir) = tempfile::TempDir::new_in("/dev/shm") else {
        // No file in memory, no pool that is not asked.
        return;
    };
    let copies = ["a", "b", "of nobody"].map(|name| {
        let pool = Pool::create(&dir.path().join(name), &capacity(128 << 10)).unwrap();
        let log = pool.allocate(5_000, 0).unwrap().finish_log().unwrap();
        (pool, log.extent())
    });
    let mut set = ReplicaSet::open(&copies[..2]).unwrap();
    let method = Method::Always(Composition::BASIC);
    set.write(&method, 8, &[1; 8]).unwrap();
    copies[2].0.stop_writing();
    set.write(&method, 8, &[2; 8]).unwrap();
    set.write_line(&method, 0, &[(8, 3)]).unwrap();
    copies[1].0.stop_writing();
    let refused = [
        set.write(&method, 8, &[4; 8]),
        set.write_line(&method, 0, &[(8, 4)]),
    ];
    for refused in refused {
        let is_refused = matches!(
            refused,
            Err(ReplicationError::Pool(PoolError::Poisoned { .. }))
        );
        assert!(is_refused, "{refused:?}");
    }
    assert_eq!(set.bytes(0)[8], 3);
}

/// Others may have taken it meanwhile: an error, and no signal where it is written.
#[test]
fn space_that_was_given_back_is_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let now = Arc::new(AtomicBool::new(false));
    let options = capacity(4 << 20);
    let pool = create_refusing_when(&path, Refused::Allocate, &options, &now);
    let kept = store(&pool, &[1; 100_000]).extent();
    let given = store(&pool, &[2; 1 << 20]).extent();
    let behind = store(&pool, &[3; 100]).extent();
    pool.free(given);
    if pool.give_back().unwrap() == 0 {
        // Not a file system that takes anything back.
        return;
    }
    assert_eq!(pool.give_back().unwrap(), 0, "nothing is left to give");
    let used = pool.used_bytes();
    now.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let error = pool.allocate(1 << 19, 0).unwrap_err();
        assert!(matches!(error, PoolError::Full { .. }), "{error}");
        assert_eq!(pool.used_bytes(), used);
    }
    now.store(false, Ordering::Relaxed);
    let again = store(&pool, &[4; 1 << 20]).extent();
    assert_eq!(again, given, "the same place");
    for (extent, byte) in [(kept, 1), (again, 4), (behind, 3)] {
        pool.verify_extent(extent).unwrap();
        assert!(pool.bytes(extent).iter().all(|of| *of == byte));
    }
}
