//! The promise when memory fails under a mapped pool: the process continues, no answer is made of
//! lost bytes, no store to them counts, and what they held can be restored. A signal that is not the
//! pool's ends the process as before.

mod simulated;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use simulated::{finish, folder};
use tempfile::TempDir;
use tierra_memory::faults::Injector;
use tierra_memory::replication::{Composition, Method, ReplicaSet, ReplicationError};
use tierra_memory::{Extent, Pool, PoolError, PoolOptions, UndoLog};

const SEED: u64 = 4;

fn page_bytes() -> u64 {
    tierra_memory::base_page_bytes() as u64
}

/// In memory, and on a disk.
fn folders() -> [TempDir; 2] {
    [folder(), tempfile::tempdir().unwrap()]
}

fn create(dir: &TempDir, name: &str) -> Arc<Pool> {
    Pool::create(&dir.path().join(name), &PoolOptions::default()).unwrap()
}

fn payload(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| (at * 7 + number * 31 + at / 251) as u8 | 1)
        .collect()
}

fn log(pool: &Arc<Pool>, len_bytes: u64) -> Extent {
    pool.allocate(len_bytes, 3)
        .unwrap()
        .finish_log()
        .unwrap()
        .extent()
}

fn range(extent: Extent) -> std::ops::Range<u64> {
    extent.offset..extent.offset + extent.len_bytes
}

fn verify(pool: &Pool, extents: &[Extent]) {
    for extent in extents {
        pool.verify_extent(*extent).unwrap();
    }
}

/// Lost pages that were never touched are good again when their space is allocated.
#[test]
fn space_whose_pages_are_lost_is_given_out_whole() {
    for dir in folders() {
        let pool = create(&dir, "p");
        let bytes = 6 * page_bytes() as usize;
        let writer = pool.allocate(bytes as u64, 1).unwrap();
        let place = writer.extent();
        drop(writer);
        for page in [1, 4] {
            let at = place.offset + page * page_bytes();
            Injector::new(SEED).lose_page(&pool, at..at + 1).unwrap();
        }
        let mut writer = pool.allocate(bytes as u64, 1).unwrap();
        assert_eq!(writer.extent(), place);
        writer.copy_from_slice(&payload(1, bytes));
        let finished = writer.finish().unwrap();
        pool.publish(&finished).unwrap();
        assert_eq!(pool.bytes(place), payload(1, bytes));
        assert_eq!(pool.counters().lost_pages, 2);
        drop(pool);
        let pool = Pool::open(&dir.path().join("p"), &PoolOptions::default()).unwrap();
        verify(&pool, &[place]);
        assert_eq!(pool.bytes(place), payload(1, bytes));
    }
}

/// An extent whose header is damaged may be kept by who answers for what it holds, and gets its header again.
#[test]
fn an_extent_outlives_its_header() {
    let dir = folder();
    let pool = create(&dir, "p");
    let kept = finish(&pool, &payload(1, 5_000));
    let root = finish(&pool, &payload(2, 100));
    pool.publish(&root).unwrap();
    let (kept, root) = (kept.extent(), root.extent());
    let label = pool.label(kept).unwrap();
    Injector::new(SEED)
        .flip_bits(&pool, kept.offset - 64..kept.offset, 5)
        .unwrap();
    drop(pool);
    let pool = Pool::open(&dir.path().join("p"), &PoolOptions::default()).unwrap();
    assert!(pool.has_damaged_header(kept) && !pool.has_damaged_header(root));
    let beyond = Extent {
        offset: 1 << 40,
        ..kept
    };
    assert!(!pool.has_damaged_header(beyond));
    pool.retain(&[kept]).unwrap_err();
    pool.retain_without_header(&[kept], &[]).unwrap_err();
    pool.retain_without_header(&[kept, beyond], &[kept, beyond])
        .unwrap_err();
    pool.retain_without_header(&[kept], &[kept]).unwrap();
    assert_eq!(pool.bytes(kept), payload(1, 5_000));
    pool.restore_header(kept, &label).unwrap();
    verify(&pool, &[kept, root]);
}

/// Loses a page that holds bytes of the range, and touches it.
fn lose(pool: &Pool, extent: Extent, within: std::ops::Range<u64>) -> u64 {
    let damage = Injector::new(SEED).lose_page(pool, within).unwrap();
    let page = damage.offsets[0].start;
    let epoch = pool.fault_epoch();
    let bytes = pool.bytes(extent);
    let at = page.max(extent.offset) - extent.offset;
    assert_eq!(std::hint::black_box(bytes)[at as usize], 0, "zeros");
    assert!(pool.fault_epoch() > epoch);
    page
}

/// What an owner does: copies of extents, damaged or not, are put right from another pool.
fn restore_all(pool: &Pool, extents: &[Extent], copy: &Pool, copies: &[Extent]) {
    for fault in pool.take_faults() {
        for (extent, from) in extents.iter().zip(copies) {
            let header = extent.offset - 64;
            if fault.offsets.start >= extent.offset + extent.len_bytes
                || fault.offsets.end <= header
            {
                continue;
            }
            if fault.offsets.start < extent.offset {
                pool.restore_header(*extent, &copy.label(*from).unwrap())
                    .unwrap();
            }
            let first = fault.offsets.start.max(extent.offset) - extent.offset;
            let end = fault.offsets.end.min(extent.offset + extent.len_bytes) - extent.offset;
            let good = &copy.bytes(*from)[first as usize..end as usize];
            pool.restore(*extent, first, good).unwrap();
        }
    }
}

/// Threads read all the time while the file is cut in the middle of a page, and behind it.
#[test]
fn readers_of_a_file_that_is_cut_short_answer_right_or_not_at_all() {
    const EXTENTS: u64 = 48;
    const LEN: usize = 30_000;
    for dir in folders() {
        let (pool, copy) = (create(&dir, "a"), create(&dir, "b"));
        let store = |pool| -> Vec<Extent> {
            (0..EXTENTS)
                .map(|n| finish(pool, &payload(n, LEN)).extent())
                .collect()
        };
        let (extents, copies) = (store(&pool), store(&copy));
        pool.publish(&finish(&pool, &simulated::names(&extents)))
            .unwrap();
        // Page by page behind an extent: no page is cut in two here.
        let cut = extents[20].offset - 64;
        let mapped = pool.len_bytes();
        let dealt_with = pool.fault_epoch();
        let answers = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for reader in 0..3 {
                let (pool, extents, answers) = (&pool, &extents, &answers);
                scope.spawn(move || {
                    for turn in reader.. {
                        let n = turn % EXTENTS;
                        let crc = crc32c::crc32c(pool.bytes(extents[n as usize]));
                        if pool.fault_epoch() != dealt_with {
                            break;
                        }
                        assert_eq!(crc, crc32c::crc32c(&payload(n, LEN)), "extent {n}");
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Readers that fail answer no more; the cut ends the others.
            let begun = Instant::now();
            while answers.load(Ordering::Relaxed) < 20 && begun.elapsed() < Duration::from_secs(60)
            {
                std::thread::yield_now();
            }
            Injector::new(SEED).cut(&pool, cut).unwrap();
        });
        assert!(pool.verify_extent(extents[19]).is_ok());
        assert!(pool.verify_extent(extents[20]).is_err());
        let faults = pool.take_faults();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].offsets, cut..mapped);
        assert_eq!(pool.take_faults(), []);
        // All is told, what was not touched as well. The first restoration gives the file its end again.
        pool.restore_header(extents[20], &copy.label(copies[20]).unwrap())
            .unwrap();
        assert_eq!(std::fs::metadata(pool.path()).unwrap().len(), mapped);
        for n in 20..EXTENTS as usize {
            pool.restore_header(extents[n], &copy.label(copies[n]).unwrap())
                .unwrap();
            pool.restore(extents[n], 0, copy.bytes(copies[n])).unwrap();
        }
        verify(&pool, &extents);
        let root = finish(&pool, &simulated::names(&extents));
        pool.publish(&root).unwrap();
        let path = pool.path().to_owned();
        drop(pool);
        let opened = Pool::open(&path, &PoolOptions::default()).unwrap();
        assert_eq!(opened.root(), Some(root.extent()));
        verify(&opened, &extents);
    }
}

/// The bytes between the new end and that of its page are zero without a signal: told with the rest.
#[test]
fn a_page_that_is_cut_in_two_is_told() {
    for dir in folders() {
        let (pool, copy) = (create(&dir, "a"), create(&dir, "b"));
        let in_front = finish(&pool, b"in front");
        let store = |pool| [1, 2].map(|n| finish(pool, &payload(n, 10_000)).extent());
        let (extents, copies) = (store(&pool), store(&copy));
        pool.publish(&finish(&pool, &simulated::names(&extents)))
            .unwrap();
        let root = pool.root();
        let unpublished = finish(&pool, &payload(3, 10_000));
        let cut = extents[0].offset + 5_000;
        Injector::new(SEED).cut(&pool, cut).unwrap();
        let epoch = pool.fault_epoch();
        assert!(pool.publish(&unpublished).is_err());
        let error = pool.publish(&in_front).unwrap_err();
        assert!(
            matches!(error, PoolError::Truncated { len_bytes, .. } if len_bytes == cut),
            "{error}"
        );
        // Found by the first that asks, at the latest by a restore or an allocation.
        pool.restore(extents[0], 0, &copy.bytes(copies[0])[..1])
            .unwrap();
        assert!(pool.fault_epoch() > epoch);
        restore_all(&pool, &extents, &copy, &copies);
        verify(&pool, &extents);
        // What was finished and lies there now is not what was finished.
        let next = finish(&pool, &simulated::names(&extents));
        let error = pool.publish(&next).unwrap_err();
        assert!(matches!(error, PoolError::Lost { .. }), "{error}");
        assert_eq!(pool.root(), root);
        pool.free(unpublished.extent());
        pool.publish(&next).unwrap();
    }
}

/// Space behind the new end is had again by who needs it.
#[test]
fn a_file_that_was_cut_short_grows_again() {
    for dir in folders() {
        let pool = create(&dir, "a");
        let mapped = pool.len_bytes();
        let damage = Injector::new(SEED).cut(&pool, 20_000).unwrap();
        let extent = finish(&pool, &payload(1, 100_000));
        pool.verify_extent(extent.extent()).unwrap();
        pool.publish(&extent).unwrap();
        assert_eq!(std::fs::metadata(pool.path()).unwrap().len(), mapped);
        let faults = pool.take_faults();
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].offsets.start <= 20_000 && faults[0].offsets.end == mapped,
            "{damage}"
        );
    }
}

#[test]
fn a_store_to_a_lost_page_does_not_count() {
    for dir in folders() {
        let pool = create(&dir, "a");
        let (one, other) = (log(&pool, 9_000), log(&pool, 9_000));
        pool.publish(&finish(&pool, &simulated::names(&[one, other])))
            .unwrap();
        pool.write(one, 5_000, b"before").unwrap();
        // The store itself finds out.
        let damage = Injector::new(SEED).lose_page(&pool, one.offset + 5_000..one.offset + 5_001);
        let page = damage.unwrap().offsets[0].start;
        let error = pool.write(one, 5_001, b"lost").unwrap_err();
        assert!(
            matches!(error, PoolError::Lost { offset, .. } if offset == page),
            "{error}"
        );
        assert!(error.to_string().contains("restore"), "{error}");
        // So does every later write there; not on other pages.
        assert!(pool.write(one, 5_001, b"lost").is_err());
        assert!(pool.persist_log(one, 9_000).is_err());
        pool.persist_log(one, 100).unwrap();
        pool.write(one, 0, b"elsewhere").unwrap();
        pool.write(other, 5_000, b"elsewhere").unwrap();
        pool.publish(&finish(&pool, &simulated::names(&[one, other])))
            .unwrap();
        let faults = pool.take_faults();
        assert_eq!(faults[0].offsets, page..page + page_bytes());
        pool.restore(one, 5_000, b"before").unwrap();
        pool.write(one, 5_006, b" and after").unwrap();
        let path = pool.path().to_owned();
        drop(pool);
        let opened = Pool::open(&path, &PoolOptions::default()).unwrap();
        assert_eq!(&opened.bytes(one)[5_000..5_016], b"before and after");
        assert_eq!(&opened.bytes(one)[..9], b"elsewhere");
    }
}

#[test]
fn transactions_and_copies_do_not_count_either() {
    let dir = folder();
    let (pool, other) = (create(&dir, "a"), create(&dir, "b"));
    let (accounts, undo) = (log(&pool, 9_000), log(&pool, 9_000));
    let mut undo = UndoLog::open(&pool, undo).unwrap();
    let page = lose(
        &pool,
        accounts,
        accounts.offset + 6_000..accounts.offset + 6_001,
    );
    let mut transaction = undo.begin();
    transaction.write(accounts, 6_000, b"x").unwrap();
    let error = transaction.commit().unwrap_err();
    assert!(
        matches!(error, PoolError::Lost { offset, .. } if offset == page),
        "{error}"
    );
    let copies = [
        (Arc::clone(&pool), log(&pool, 9_000)),
        (Arc::clone(&other), log(&other, 9_000)),
    ];
    for composition in Composition::all() {
        let mut set = ReplicaSet::open(&copies).unwrap();
        let method = Method::Always(composition);
        for (pool, extent) in &copies {
            let page = lose(pool, *extent, extent.offset + 5_000..extent.offset + 5_001);
            let error = set.write(&method, 5_000, &[7; 100]).unwrap_err();
            let is_lost = matches!(
                error,
                ReplicationError::Pool(PoolError::Lost { offset, .. }) if offset == page
            );
            assert!(is_lost, "{composition}: {error}");
            pool.restore(*extent, 5_000, &[0; 100]).unwrap();
            set.write(&method, 5_000, &[7; 100]).unwrap();
        }
        assert_eq!(set.bytes(0)[5_000..5_100], [7; 100]);
        assert_eq!(set.bytes(0)[5_000..5_100], set.bytes(1)[5_000..5_100]);
    }
}

#[test]
fn what_was_finished_and_lost_is_not_published() {
    let dir = folder();
    let pool = create(&dir, "a");
    let good = payload(1, 20_000);
    // Lost while it is written: its checksum would be that of what is left.
    let mut writer = pool.allocate(20_000, 0).unwrap();
    writer.copy_from_slice(&good);
    lose(&pool, writer.extent(), range(writer.extent()));
    let error = writer.finish().unwrap_err();
    assert!(matches!(error, PoolError::Lost { .. }), "{error}");
    // The same space again, which is cleared.
    let first = finish(&pool, &good);
    pool.verify_extent(first.extent()).unwrap();
    // Lost when it is finished, and touched before it is published.
    lose(&pool, first.extent(), range(first.extent()));
    let other = finish(&pool, b"root");
    let error = pool.publish(&other).unwrap_err();
    assert!(matches!(error, PoolError::Lost { .. }), "{error}");
    assert_eq!(pool.root(), None);
    for fault in pool.take_faults() {
        assert!(fault.offsets.start >= first.extent().offset - 64);
    }
    pool.restore_header(first.extent(), &pool.label(other.extent()).unwrap())
        .unwrap();
    pool.restore(first.extent(), 0, &good).unwrap();
    pool.publish(&other).unwrap();
    // Or given up.
    let second = finish(&pool, &good).extent();
    lose(&pool, second, range(second));
    let third = finish(&pool, b"root");
    assert!(pool.publish(&third).is_err());
    pool.free(second);
    pool.publish(&third).unwrap();
    assert_eq!(pool.root(), Some(third.extent()));
}

#[test]
fn a_lost_slot_is_written_anew() {
    for dir in folders() {
        let pool = create(&dir, "a");
        for round in 0..9u64 {
            // Slot 0, slot 1, and their twins.
            let slot = 4096 * (1 + round / 2 % 3);
            Injector::new(SEED)
                .lose_page(&pool, slot..slot + 1)
                .unwrap();
            let root = finish(&pool, &round.to_le_bytes());
            pool.publish(&root).unwrap();
            assert_eq!(pool.root(), Some(root.extent()));
        }
        let (root, path) = (pool.root(), pool.path().to_owned());
        drop(pool);
        let opened = Pool::open(&path, &PoolOptions::default()).unwrap();
        assert_eq!(opened.root(), root);
        assert_eq!(opened.bytes(root.unwrap()), 8u64.to_le_bytes());
    }
}

/// More than the list of the handler holds.
#[test]
fn no_lost_page_is_forgotten() {
    let dir = folder();
    let pool = create(&dir, "a");
    let pages = 3_000;
    let extent = log(&pool, pages * page_bytes());
    let mut injector = Injector::new(SEED);
    // Every second page: a run would be one mapping.
    let lost: Vec<u64> = (1..pages)
        .step_by(2)
        .map(|page| page * page_bytes())
        .collect();
    for &at in &lost {
        let at = extent.offset - 64 + at;
        injector.lose_page(&pool, at..at + 1).unwrap();
    }
    let bytes = pool.bytes(extent);
    assert!(
        lost.iter()
            .all(|&at| std::hint::black_box(bytes)[at as usize] == 0)
    );
    let faults = pool.take_faults();
    let told: Vec<u64> = faults.iter().map(|fault| fault.offsets.start).collect();
    let expected: Vec<u64> = lost.iter().map(|at| extent.offset - 64 + at).collect();
    assert_eq!(told, expected);
    assert!(
        faults
            .iter()
            .all(|fault| fault.offsets.end - fault.offsets.start == page_bytes())
    );
    for &at in &lost {
        assert!(pool.write(extent, at, b"x").is_err());
    }
    pool.restore(extent, 0, &vec![9; extent.len_bytes as usize])
        .unwrap();
    pool.write(extent, lost[7], b"x").unwrap();
    assert_eq!(
        pool.bytes(extent).iter().filter(|&&byte| byte != 9).count(),
        1
    );
    assert_eq!(pool.take_faults(), []);
}

/// Runs a test of this file in a process of its own.
fn child(test: &str, case: &str) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    let output = command.env("TIERRA_CHILD", case).output().unwrap();
    output.status
}

/// Memory of a file that is not a pool's, and has lost its end.
fn touch_foreign(dir: &Path) {
    let mut options = std::fs::File::options();
    let options = options.read(true).write(true).create_new(true);
    let file = options.open(dir.join("foreign")).unwrap();
    // SAFETY: a new mapping of this test's own; reading it raises the signal.
    let byte = unsafe {
        let flags = rustix::mm::MapFlags::SHARED;
        let access = rustix::mm::ProtFlags::READ;
        let at = rustix::mm::mmap(std::ptr::null_mut(), 4096, access, flags, &file, 0).unwrap();
        std::ptr::read_volatile(at.cast::<u8>())
    };
    unreachable!("read {byte} from nothing");
}

extern "C" fn leave(_: libc::c_int) {
    // SAFETY: may be called in a signal.
    unsafe { libc::_exit(42) }
}

#[test]
fn a_signal_that_is_not_the_pools_does_what_it_did() {
    let name = "a_signal_that_is_not_the_pools_does_what_it_did";
    let Ok(case) = std::env::var("TIERRA_CHILD") else {
        for case in ["foreign", "raised"] {
            let status = child(name, case);
            assert_eq!(status.signal(), Some(libc::SIGBUS), "{case}: {status}");
        }
        assert_eq!(child(name, "handled").code(), Some(42));
        assert_eq!(child(name, "ignored").code(), Some(0));
        let status = child(name, "foreign and ignored");
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
        return;
    };
    let limit = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(rustix::process::Resource::Core, limit).unwrap();
    let action = match case.as_str() {
        "handled" => leave as extern "C" fn(libc::c_int) as usize,
        "ignored" | "foreign and ignored" => libc::SIG_IGN,
        _ => libc::SIG_DFL,
    };
    // SAFETY: before there is a pool; the handler ends the process.
    unsafe { libc::signal(libc::SIGBUS, action) };
    let dir = folder();
    let pool = create(&dir, "a");
    let extent = finish(&pool, &[1; 20_000]).extent();
    // The pool's fault is handled by the pool alone.
    lose(&pool, extent, range(extent));
    assert_eq!(pool.take_faults().len(), 1);
    match case.as_str() {
        "foreign" | "foreign and ignored" | "handled" => touch_foreign(dir.path()),
        // SAFETY: what is tested.
        _ => assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0),
    }
}

/// What lies where a pool was is not the pool's any more.
#[test]
fn a_pool_that_is_closed_catches_nothing() {
    let name = "a_pool_that_is_closed_catches_nothing";
    if std::env::var("TIERRA_CHILD").is_err() {
        assert_eq!(child(name, "closed").signal(), Some(libc::SIGBUS));
        return;
    }
    let limit = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(rustix::process::Resource::Core, limit).unwrap();
    let dir = folder();
    for round in 0..3 {
        let pool = create(&dir, &round.to_string());
        let extent = finish(&pool, &[1; 20_000]).extent();
        lose(&pool, extent, range(extent));
    }
    touch_foreign(dir.path());
}
