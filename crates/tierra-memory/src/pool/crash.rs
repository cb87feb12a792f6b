//! Crashes, simulated: a medium that keeps what a power cut would keep, and the promise that a pool
//! opened from it holds either the last root or the one being published, whole.
//!
//! A store survives if its line was made durable; any other line may or may not have been evicted
//! from the cache in time. So at each step the simulated medium takes two images: of the durable
//! lines alone, and of those with a random half of the lines as they are in memory now.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::mm::MapFlags;

use super::medium::{Medium, MediumKind, map_fixed};
use super::{Durability, Extent, Pool, PoolError, PoolOptions, lock};
use crate::LINE_BYTES;

/// What the medium does wrong, to show that the test would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Extents never reach the medium.
    ForgetStage,
    /// Extents reach the medium after the root that names them.
    SettleLate,
    /// The device refuses.
    RefuseMap,
    RefuseSettle,
    RefusePersist,
}

#[derive(Debug)]
struct Simulated {
    fault: Fault,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    base: usize,
    durable: Vec<u8>,
    staged: Vec<(usize, usize)>,
    images: Vec<Vec<u8>>,
    random: u64,
}

impl State {
    fn memory(&self, at: usize, len_bytes: usize) -> &[u8] {
        let start = std::ptr::with_exposed_provenance::<u8>(self.base + at);
        // SAFETY: the test keeps the pool mapped and writes from this thread only, never meanwhile.
        unsafe { std::slice::from_raw_parts(start, len_bytes) }
    }

    fn keep(&mut self, at: usize, len_bytes: usize) {
        let (from, to) = (
            at / LINE_BYTES * LINE_BYTES,
            (at + len_bytes).next_multiple_of(LINE_BYTES),
        );
        let lines = self.memory(from, to - from).to_vec();
        self.durable[from..to].copy_from_slice(&lines);
    }

    fn crash(&mut self) {
        self.images.push(self.durable.clone());
        let mut evicted = self.durable.clone();
        for at in (0..evicted.len()).step_by(LINE_BYTES) {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            if self.random.is_multiple_of(2) {
                evicted[at..at + LINE_BYTES].copy_from_slice(self.memory(at, LINE_BYTES));
            }
        }
        self.images.push(evicted);
    }
}

impl Medium for Simulated {
    fn kind(&self) -> MediumKind {
        MediumKind::Dax
    }

    fn durability(&self) -> Durability {
        Durability::CacheLine
    }

    unsafe fn map(&self, file: &File, at: *mut u8, offset: u64, len: usize) -> io::Result<()> {
        if self.fault == Fault::RefuseMap {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { map_fixed(file, at, offset, len, MapFlags::SHARED)? };
        let mut state = lock(&self.state);
        let from = state.durable.len();
        state.durable.resize(from + len, 0);
        file.read_exact_at(&mut state.durable[from..], offset)
    }

    fn grown(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    unsafe fn stage(&self, _: &File, _: *const u8, offset: u64, len: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.crash();
        if self.fault != Fault::ForgetStage {
            state.staged.push((offset as usize, len as usize));
        }
        Ok(())
    }

    fn settle(&self, _: &File) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.crash();
        match self.fault {
            Fault::RefuseSettle => return Err(io::ErrorKind::StorageFull.into()),
            Fault::SettleLate => {}
            _ => {
                for (at, len) in std::mem::take(&mut state.staged) {
                    state.keep(at, len);
                    state.crash();
                }
            }
        }
        Ok(())
    }

    unsafe fn persist(&self, start: *const u8, len: u64) -> io::Result<()> {
        if self.fault == Fault::RefusePersist {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut state = lock(&self.state);
        state.crash();
        let at = start.addr() - state.base;
        state.keep(at, len as usize);
        state.crash();
        for (at, len) in std::mem::take(&mut state.staged) {
            state.keep(at, len);
        }
        Ok(())
    }
}

fn options() -> PoolOptions {
    capacity(128 << 10)
}

fn capacity(bytes: u64) -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(bytes),
        ..PoolOptions::default()
    }
}

/// A pool on the simulated medium.
fn create(path: &Path, fault: Fault) -> (Arc<Pool>, Arc<Mutex<State>>) {
    create_with(path, fault, &options())
}

fn create_with(path: &Path, fault: Fault, options: &PoolOptions) -> (Arc<Pool>, Arc<Mutex<State>>) {
    let mut pool = Arc::into_inner(Pool::create(path, options).unwrap()).unwrap();
    let state = State {
        base: pool.address(0).expose_provenance(),
        durable: std::fs::read(path).unwrap(),
        staged: Vec::new(),
        images: Vec::new(),
        random: 0x5EED,
    };
    let state = Arc::new(Mutex::new(state));
    pool.medium = Box::new(Simulated {
        fault,
        state: Arc::clone(&state),
    });
    (Arc::new(pool), state)
}

fn store(pool: &Arc<Pool>, payload: &[u8]) -> Extent {
    let mut writer = pool.allocate(payload.len() as u64, 0).unwrap();
    writer.copy_from_slice(payload);
    writer.finish().unwrap()
}

/// A root that says its round and names two extents filled with it.
fn store_round(pool: &Arc<Pool>, round: u8) -> [Extent; 3] {
    let data = [200, 9000].map(|len| store(pool, &vec![round; len]));
    let mut root = vec![round];
    for extent in data {
        root.extend(extent.offset.to_le_bytes());
        root.extend(extent.len_bytes.to_le_bytes());
    }
    [store(pool, &root), data[0], data[1]]
}

/// The round that a pool holds, if all of it is there.
fn read_round(pool: &Pool) -> Result<Option<u8>, PoolError> {
    let Some(root) = pool.root() else {
        return Ok(None);
    };
    pool.verify_extent(root)?;
    let bytes = pool.bytes(root);
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    for at in [1, 17] {
        let extent = Extent {
            offset: word(at),
            len_bytes: word(at + 8),
        };
        pool.verify_extent(extent)?;
        assert!(pool.bytes(extent).iter().all(|&byte| byte == bytes[0]));
    }
    Ok(Some(bytes[0]))
}

/// Publishes some rounds, each freeing the one before it, and opens what a crash at any step would
/// have left. Returns how many of these pools were not what was promised.
fn broken_promises(fault: Fault) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let (pool, state) = create(&dir.path().join("p"), fault);
    let crashed = dir.path().join("crashed");
    let (mut published, mut before, mut broken) = (None, None, 0);
    for round in 0..12 {
        let extents = store_round(&pool, round);
        pool.publish(extents[0]).unwrap();
        for image in std::mem::take(&mut lock(&state).images) {
            std::fs::write(&crashed, image).unwrap();
            let found = Pool::open(&crashed, &options()).and_then(|pool| read_round(&pool));
            let kept = found.is_ok_and(|found| found == published || found == Some(round));
            broken += usize::from(!kept);
        }
        // Nothing but what is durable counts from here on: publish has returned.
        std::fs::write(&crashed, &lock(&state).durable).unwrap();
        let found = Pool::open(&crashed, &options()).and_then(|pool| read_round(&pool));
        broken += usize::from(!found.is_ok_and(|found| found == Some(round)));
        published = Some(round);
        before
            .replace(extents)
            .into_iter()
            .flatten()
            .for_each(|extent| pool.free(extent));
    }
    broken
}

#[test]
fn a_crash_at_any_step_leaves_the_old_root_or_the_new() {
    assert_eq!(broken_promises(Fault::None), 0);
}

#[test]
fn a_medium_that_forgets_or_reorders_is_caught() {
    assert!(broken_promises(Fault::ForgetStage) > 0);
    assert!(broken_promises(Fault::SettleLate) > 0);
}

#[test]
fn a_record_of_a_log_is_durable_when_written() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, state) = create(&dir.path().join("p"), Fault::None);
    let log = pool.allocate(1000, 0).unwrap().finish_log().unwrap();
    pool.publish(log).unwrap();
    for (at, record) in [(0u64, &b"one"[..]), (60, b"across a line"), (999, b"!")] {
        pool.write(log, at, record).unwrap();
        let crashed = dir.path().join("crashed");
        std::fs::write(&crashed, &lock(&state).durable).unwrap();
        let reopened = Pool::open(&crashed, &options()).unwrap();
        assert_eq!(reopened.root(), Some(log));
        assert_eq!(&reopened.bytes(log)[at as usize..][..record.len()], record);
    }
}

#[test]
fn a_pool_that_cannot_map_its_growth_goes_on_without() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let options = capacity(16 << 20);
    let (pool, _) = create_with(&path, Fault::RefuseMap, &options);
    let kept = store(&pool, b"kept");
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
    pool.publish(more).unwrap();
    drop(pool);
    let reopened = Pool::open(&path, &options).unwrap();
    assert_eq!(reopened.root(), Some(more));
    reopened.retain(&[kept]).unwrap();
    assert!(reopened.allocate(4 << 20, 0).is_ok());
    assert_eq!(reopened.bytes(kept), b"kept");
}

#[test]
fn a_pool_whose_device_refused_publishes_no_more() {
    for fault in [Fault::RefuseSettle, Fault::RefusePersist] {
        let dir = tempfile::tempdir().unwrap();
        let (pool, _) = create(&dir.path().join("p"), fault);
        let log = pool.allocate(100, 0).unwrap().finish_log().unwrap();
        assert!(matches!(pool.publish(log), Err(PoolError::Io { .. })));
        assert_eq!(pool.root(), None);
        assert!(matches!(pool.publish(log), Err(PoolError::Poisoned { .. })));
        assert!(matches!(
            pool.write(log, 0, b"x"),
            Err(PoolError::Poisoned { .. })
        ));
    }
}
