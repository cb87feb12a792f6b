//! A pool that somebody wrote to deceive, its checksums right: it opens or is refused, reading it
//! ends with rows or an error, and what it accepts it keeps. No thread panics.
//!
//! The code and the seeds are those of the fuzz targets `database`, `manifest`, `tail_log` and `backup`; here
//! mutations are drawn at random. A failure prints the numbers that draw them again.

#[path = "../../../fuzz/src/backup.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod backup;
#[path = "../../../fuzz/src/database.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod database;
#[path = "../../../fuzz/src/image.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod image;
#[path = "../../../fuzz/src/queries.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod queries;
#[path = "../../../fuzz/src/seal.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the fuzz targets")]
mod seal;
#[path = "../../../fuzz/src/seeds.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
mod seeds;

use std::ops::Range;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tierra_engine::{Backup, Database, RestoreOptions};

/// Panics so far, of whatever thread: the writer's would otherwise only be logged.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            tell(panic);
        }));
    });
}

/// Where the pool's structures lie: mutating zeros between them finds nothing.
fn structures(pool: &[u8]) -> Vec<usize> {
    let lines = pool.chunks(64).enumerate();
    lines
        .filter(|(_, line)| line.iter().any(|byte| *byte != 0))
        .map(|(at, _)| at * 64)
        .collect()
}

fn change(bytes: &mut [u8], at: usize, how: u8, value: u8) {
    let Some(byte) = bytes.get_mut(at) else {
        return;
    };
    *byte = match how % 4 {
        0 => value,
        1 => *byte ^ 1 << (value % 8),
        2 => byte.wrapping_add(1 + value % 3),
        _ => 0xff,
    };
}

#[test]
#[ignore = "writes the seeds anew, after a deliberate change of a format"]
fn write_seeds() {
    seeds::write().unwrap();
}

/// It pins the format: a backup of version 1 stays one.
#[test]
fn the_seed_of_backup_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (file, restored) = (dir.path().join("backup"), dir.path().join("restored"));
    std::fs::write(&file, backup::base()).unwrap();
    let how = RestoreOptions::default();
    let backup = Backup::open(&file).unwrap();
    backup
        .restore(&restored, &database::options(), &how, |_| {})
        .unwrap();
    let database = Database::open(&restored, &database::options()).unwrap();
    let rows = |name: &str| database.table(name).unwrap().snapshot().rows();
    assert_eq!((rows("every"), rows("words")), (23, 3));
}

/// It pins the format of replicas: each column is there in the encodings in which it was written.
#[test]
fn the_seed_of_replicas_opens() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("far.pool"), database::replicated()).unwrap();
    let database = Database::open(dir.path(), &database::options()).unwrap();
    let table = database.table("replicas").unwrap();
    assert_eq!(table.snapshot().rows(), 60);
    let copies = database.copies().unwrap();
    let encodings = copies.iter().filter_map(|copy| copy.encoding);
    assert_eq!(encodings.count(), 7);
    assert!(copies.iter().all(|copy| copy.is_complete), "{copies:?}");
    assert_eq!(database.faults().1.found, 0, "{:?}", database.faults().0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 700, ..ProptestConfig::default() })]

    #[test]
    fn a_forged_database_is_refused_or_keeps_its_promises(
        is_replicated in any::<bool>(),
        part in 0..3,
        changes in prop::collection::vec((any::<u16>(), 0..64_usize, any::<u8>(), any::<u8>()), 1..5),
        sealed in prop::bool::weighted(0.9),
    ) {
        count_panics();
        let before = PANICS.load(Ordering::SeqCst);
        let base = if is_replicated { database::replicated() } else { database::base() };
        let mut pool = base.to_vec();
        let within: Range<usize> = match part {
            0 => 0..pool.len(),
            1 => image::root(&pool),
            _ => database::log(&pool),
        };
        let lines = structures(&pool);
        let lines: Vec<usize> = lines.into_iter().filter(|at| within.contains(at)).collect();
        for (line, at, how, value) in changes {
            change(&mut pool, lines[usize::from(line) % lines.len()] + at, how, value);
        }
        if sealed {
            seal::pool(&mut pool);
        }
        database::open_and_use(&pool);
        prop_assert_eq!(PANICS.load(Ordering::SeqCst), before, "a thread panicked");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_forged_backup_is_refused_or_becomes_a_database(
        in_contents in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 1..5),
        sealed in prop::bool::weighted(0.9),
    ) {
        count_panics();
        let before = PANICS.load(Ordering::SeqCst);
        let mut bytes = backup::base().to_vec();
        let end = bytes.len() - 64;
        let contents = u64::from_le_bytes(bytes[end + 8..end + 16].try_into().expect("eight bytes"));
        let from = if in_contents { contents as usize } else { 0 };
        for (at, how, value) in changes {
            let at = from + at.index(bytes.len() - from);
            change(&mut bytes, at, how, value);
        }
        if sealed {
            seal::backup(&mut bytes);
        }
        backup::restore_and_use(&bytes);
        prop_assert_eq!(PANICS.load(Ordering::SeqCst), before, "a thread panicked");
    }
}
