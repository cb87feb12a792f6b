//! No byte of a backup may change, and none may be missing: it is refused, and leaves nothing behind. A database with damaged copies
//! is backed up from those that are whole, or not at all.

use std::fs;
use std::panic;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tierra_column::Encoding;
use tierra_engine::{
    Backup, BackupError, BackupOptions, Compression, Database, DatabaseOptions, IndexKind,
    RestoreOptions,
};
use tierra_memory::faults::Stop;

use crate::changed::{self, Model};
use crate::copied::{self, FIRST_EXTENT};
use crate::support::{self, all_rows, options, rows};

/// A backup with segments, a dictionary, an index, runs of keys, deletions and a tail, of a few KiB.
fn small(dir: &Path, compression: Compression) -> Vec<u8> {
    let database = Database::create(&dir.join("db"), &options()).unwrap();
    let table = database.create_table(changed::spec("t", true)).unwrap();
    let some: Vec<(i64, i64)> = (0..300).map(|key| (key, 0)).collect();
    changed::commit(&database, &table, &[], &some).unwrap();
    table.seal().unwrap();
    database.wait_for_near_copies().unwrap();
    changed::commit(&database, &table, &[3, 7], &[(300, 1), (301, 1)]).unwrap();
    changed::commit(&database, &table, &[300], &[]).unwrap();
    let how = BackupOptions {
        compression,
        ..BackupOptions::default()
    };
    database.backup(&dir.join("small"), &how, |_| {}).unwrap();
    fs::read(dir.join("small")).unwrap()
}

fn checked(path: &Path) -> Result<(), BackupError> {
    Backup::open(path)?.check(&Stop::default(), |_| {})
}

#[test]
fn no_byte_may_change_and_none_may_be_missing() {
    let dir = TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .unwrap();
    for compression in [Compression::None, Compression::Zstd] {
        let bytes = small(dir.path(), compression);
        fs::remove_dir_all(dir.path().join("db")).unwrap();
        fs::remove_file(dir.path().join("small")).unwrap();
        let path = dir.path().join("wrong");
        let restored = dir.path().join("restored");
        let how = RestoreOptions::default();
        fs::write(&path, &bytes).unwrap();
        checked(&path).unwrap();
        println!("{} bytes, {compression}", bytes.len());
        // Not all of them: each restore makes a pool.
        let is_restored = |at: usize| at.is_multiple_of(bytes.len() / 40);
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1 << (at % 8);
            fs::write(&path, &wrong).unwrap();
            assert!(checked(&path).is_err(), "byte {at}");
            if is_restored(at)
                && let Ok(backup) = Backup::open(&path)
            {
                let refused = backup.restore(&restored, &options(), &how, |_| {});
                assert!(refused.is_err(), "byte {at}");
                assert!(!restored.exists(), "byte {at}");
            }
        }
        for len in 0..bytes.len() {
            fs::write(&path, &bytes[..len]).unwrap();
            assert!(Backup::open(&path).is_err(), "{len} bytes");
        }
        for more in [&[0][..], &bytes] {
            fs::write(&path, [&bytes[..], more].concat()).unwrap();
            assert!(Backup::open(&path).is_err());
        }
        fs::write(&path, &bytes).unwrap();
        let backup = Backup::open(&path).unwrap();
        backup.restore(&restored, &options(), &how, |_| {}).unwrap();
        let database = Database::open(&restored, &options()).unwrap();
        let model = (0..300).filter(|key| ![3, 7].contains(key));
        let mut model: Model = model.map(|key| (key, 0)).collect();
        model.insert(301, 1);
        let table = database.table("t").unwrap();
        changed::check(&table.snapshot(), &model, &[], &[3, 7, 300]);
        drop((table, database));
        fs::remove_dir_all(&restored).unwrap();
    }
}

/// All checksums of the file made right again, as a forger does.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let u64_at =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let end = bytes.len() - 64;
    let contents = u64_at(&bytes, end + 8) as usize..end;
    if contents.start <= contents.end {
        let crc = crc32c::crc32c(&bytes[contents]);
        bytes[end + 48..end + 52].copy_from_slice(&crc.to_le_bytes());
    }
    for line in [0, end] {
        let crc = crc32c::crc32c(&bytes[line..line + 60]);
        bytes[line + 60..line + 64].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}

/// Whatever the list of contents says, nothing panics, and a restore ends with a database or with nothing.
#[test]
fn forged_contents_end_in_an_error_or_a_database() {
    let dir = TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .unwrap();
    let bytes = small(dir.path(), Compression::None);
    let end = bytes.len() - 64;
    let contents = u64::from_le_bytes(bytes[end + 8..end + 16].try_into().unwrap()) as usize;
    let (path, restored) = (dir.path().join("forged"), dir.path().join("restored"));
    let (mut refused, mut accepted) = (0, 0);
    for at in contents..end {
        for value in [0, 0xff, bytes[at].wrapping_add(1), bytes[at] ^ 0x80] {
            let mut forged = bytes.clone();
            forged[at] = value;
            if forged == bytes {
                continue;
            }
            fs::write(&path, sealed(forged)).unwrap();
            let Ok(backup) = Backup::open(&path) else {
                refused += 1;
                continue;
            };
            let how = RestoreOptions::default();
            let little = DatabaseOptions {
                capacity_bytes: Some(8 << 20),
                ..options()
            };
            let made = panic::catch_unwind(panic::AssertUnwindSafe(|| {
                backup.restore(&restored, &little, &how, |_| {})
            }));
            match made.unwrap_or_else(|_| panic!("byte {at} as {value}")) {
                Ok(_) => {
                    accepted += 1;
                    // It opens as it did.
                    drop(Database::open(&restored, &options()).unwrap());
                    fs::remove_dir_all(&restored).unwrap();
                }
                Err(_) => {
                    refused += 1;
                    assert!(!restored.exists(), "byte {at} as {value}");
                }
            }
        }
    }
    println!("{refused} refused, {accepted} accepted");
    assert!(refused > 1000 && accepted > 0);
}

#[test]
fn what_is_no_backup_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b");
    let opened = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Backup::open(&path).unwrap_err().to_string()
    };
    assert!(opened(b"").contains("too short"));
    assert!(opened(&[b'x'; 5000]).contains("does not begin as one"));
    let error = Backup::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("no file"), "{error}");
    let error = Backup::open(&dir.path().join("none")).unwrap_err();
    assert!(matches!(error, BackupError::Io { .. }), "{error}");
    // Nobody writes to it.
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let error = Backup::open(&pipe).unwrap_err().to_string();
    assert!(error.contains("no file"), "{error}");
    let bytes = small(dir.path(), Compression::None);
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert!(opened(&sealed(newer)).contains("version 2"));
    assert!(opened(&bytes[..bytes.len() - 1]).contains("cut short"));
    // The end of one and the beginning of another.
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    fs::remove_file(dir.path().join("small")).unwrap();
    let other = small(dir.path(), Compression::None);
    let both = [&other[..64], &bytes[64..]].concat();
    assert!(opened(&both).contains("another file"));
}

#[test]
fn a_damaged_copy_is_not_backed_up_while_another_is_whole() {
    let place = copied::Place::new();
    let database = place.open(0);
    for seed in 0..6 {
        let victim = ["far", "b"][seed as usize % 2];
        let len_bytes = fs::metadata(place.pool(victim)).unwrap().len();
        place.change(victim, &copied::damage(seed, len_bytes));
        let (file, dir) = (place.0.path().join("backup"), place.0.path().join("copy"));
        // What is sent cannot be taken back. The first of the two finds the damage.
        let write = || {
            let options = BackupOptions::default();
            database.backup(&file, &options, |_| {}).unwrap();
        };
        let send = || {
            let mut sent = Vec::new();
            let options = BackupOptions::default();
            database.backup_to(&mut sent, &options, |_| {}).unwrap();
            Backup::receive(&mut &sent[..], &file, &Default::default(), |_| {}).unwrap();
        };
        let ways: [&dyn Fn(); 2] = [&write, &send];
        for way in [seed as usize / 2, seed as usize / 2 + 1] {
            ways[way % 2]();
            let backup = Backup::open(&file).unwrap();
            backup
                .restore(&dir, &options(), &RestoreOptions::default(), |_| {})
                .unwrap();
            copied::check(&Database::open(&dir, &options()).unwrap());
            fs::remove_dir_all(&dir).unwrap();
            fs::remove_file(&file).unwrap();
        }
        database.scrub(&Default::default(), |_| {}).unwrap();
    }
}

#[test]
fn rows_that_no_copy_has_are_not_backed_up_and_indexes_are_built_again() {
    let dir = TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .unwrap();
    let mut spec = support::spec("t", vec![0]);
    spec.columns[support::CITY].encoding = Some(Encoding::Dictionary);
    spec.columns[support::CITY].index = Some(IndexKind::Inverted);
    // No near copy could repair what is damaged.
    let far = DatabaseOptions {
        near_memory_bytes: Some(0),
        ..options()
    };
    let database = Database::create(&dir.path().join("db"), &far).unwrap();
    let table = database.create_table(spec).unwrap();
    table.append(&[rows(0..20_000)]).unwrap();
    table.seal().unwrap();
    database.wait_for_near_copies().unwrap();
    let pool = dir.path().join("db/far.pool");
    let file = dir.path().join("backup");
    // All that begins so: some of it may lie in space that is no longer used.
    let harm = |begin: &[u8], behind: usize| {
        use std::os::unix::fs::FileExt;
        let bytes = fs::read(&pool).unwrap();
        let file = fs::File::options().write(true).open(&pool).unwrap();
        let starts = bytes.windows(begin.len()).enumerate();
        let starts = starts.filter(|(at, found)| *at as u64 >= FIRST_EXTENT && *found == begin);
        let mut harmed = 0;
        for (at, _) in starts {
            let right = &bytes[at + behind..at + behind + 8];
            let wrong: Vec<u8> = right.iter().map(|byte| !byte).collect();
            file.write_all_at(&wrong, (at + behind) as u64).unwrap();
            harmed += 1;
        }
        assert!(harmed > 0);
    };
    // The index of keys.
    harm(b"TKEY", 100);
    let take = |database: &Arc<Database>| database.backup(&file, &BackupOptions::default(), |_| {});
    take(&database).unwrap();
    let backup = Backup::open(&file).unwrap();
    let copy = dir.path().join("copy");
    backup
        .restore(&copy, &options(), &RestoreOptions::default(), |_| {})
        .unwrap();
    let copy = Database::open(&copy, &options()).unwrap();
    copy.wait_for_near_copies().unwrap();
    let restored = copy.table("t").unwrap();
    assert_eq!(all_rows(&restored), rows(0..20_000));
    assert_eq!(restored.snapshot().key_index().listed_rows, 20_000);
    fs::remove_file(&file).unwrap();
    // A chunk.
    harm(b"TCHK", 2000);
    let error = take(&database).unwrap_err();
    assert!(matches!(error, BackupError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("tierra salvage"), "{error}");
    assert!(!file.exists() && !file.with_extension("partial").exists());
}
