//! The promise of header and superblock: a line that is damaged is read from its twin, and put right; a publication that is cut
//! short at any store leaves the one before it; what can be read in no copy is an error that says what is left, and the
//! way back to an older publication is gone on purpose only.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tierra_memory::{Extent, Finished, Pool, PoolError, PoolOptions};

const HEADERS: [u64; 2] = [0, 12288];
/// By slot: its first copy, which is written first, and its second.
const SLOTS: [[u64; 2]; 2] = [[4096, 12288 + 1024], [8192, 12288 + 2048]];
/// What the two publications are called. The first lies in slot 0, the second, which is current, in slot 1.
const VERSIONS: [u64; 2] = [70, 75];

type LineBytes = [u8; 64];

struct Fixture {
    _dir: TempDir,
    path: PathBuf,
    roots: [Extent; 2],
}

fn options() -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(1 << 20),
        id: Some(42),
        ..PoolOptions::default()
    }
}

fn finish(pool: &Arc<Pool>, payload: &[u8]) -> Finished {
    let mut writer = pool.allocate(payload.len() as u64, 7).unwrap();
    writer.copy_from_slice(payload);
    writer.finish().unwrap()
}

fn fixture() -> Fixture {
    let dir = TempDir::new_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let path = dir.path().join("p");
    let pool = Pool::create(&path, &options()).unwrap();
    let finished = [finish(&pool, b"first"), finish(&pool, b"second")];
    for (root, version) in finished.iter().zip(VERSIONS) {
        pool.publish_version(root, version).unwrap();
    }
    let roots = finished.each_ref().map(Finished::extent);
    Fixture {
        _dir: dir,
        path,
        roots,
    }
}

impl Fixture {
    fn open(&self) -> Result<Arc<Pool>, PoolError> {
        Pool::open(&self.path, &options())
    }

    fn open_at(&self, version: u64) -> Result<Arc<Pool>, PoolError> {
        let options = PoolOptions {
            at_version: Some(version),
            ..options()
        };
        Pool::open(&self.path, &options)
    }

    fn line(&self, at: u64) -> LineBytes {
        let mut line = [0; 64];
        let file = File::open(&self.path).unwrap();
        file.read_exact_at(&mut line, at).unwrap();
        line
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        write(&self.path, at, bytes);
    }

    fn flip(&self, at: u64) {
        let byte = self.line(at)[0];
        self.write(at, &[byte ^ 0x10]);
    }
}

fn write(path: &Path, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// The CRC at the end of a line that was changed.
fn with_crc(mut line: LineBytes, at: usize) -> LineBytes {
    let crc = crc32c::crc32c(&line[..at]);
    line[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    line
}

#[test]
fn any_line_is_read_from_its_twin_and_put_right() {
    let fixture = fixture();
    for line in HEADERS.into_iter().chain(SLOTS.into_iter().flatten()) {
        let right = fixture.line(line);
        for damage in 0..65 {
            match damage {
                64 => fixture.write(line, &[0; 64]),
                byte => fixture.flip(line + byte),
            }
            assert_ne!(fixture.line(line), right);
            let pool = fixture.open().unwrap();
            assert_eq!(pool.root(), Some(fixture.roots[1]), "{line} {damage}");
            assert_eq!(pool.version(), VERSIONS[1]);
            assert_eq!(pool.verify_extent(fixture.roots[1]).unwrap(), 7);
            assert_eq!(pool.counters().failed_checks, 1, "{line} {damage}");
            drop(pool);
            assert_eq!(fixture.line(line), right, "{line} {damage}");
            assert_eq!(fixture.open().unwrap().counters().failed_checks, 0);
        }
    }
}

/// Both copies of either slot: it may have been the newer one.
#[test]
fn a_slot_without_a_whole_copy_is_an_error_that_names_what_is_left() {
    for (slot, twins) in SLOTS.into_iter().enumerate() {
        let left = VERSIONS[1 - slot];
        for damage in 0..65 {
            let fixture = fixture();
            for line in twins {
                match damage {
                    64 => fixture.write(line, &[0; 64]),
                    byte => fixture.flip(line + byte),
                }
            }
            let before = std::fs::read(&fixture.path).unwrap();
            let error = fixture.open().unwrap_err();
            assert!(
                matches!(error, PoolError::LostPublication { version, .. } if version == left),
                "{error}"
            );
            assert!(
                error.to_string().contains(&format!("version {left}")),
                "{error}"
            );
            let lost = fixture.open_at(VERSIONS[slot]).unwrap_err();
            assert!(
                matches!(&lost, PoolError::NoVersion { found, .. } if *found == [left]),
                "{lost}"
            );
            assert_eq!(
                std::fs::read(&fixture.path).unwrap(),
                before,
                "as it was found"
            );
            // On purpose. Nothing is changed before the next publication.
            let pool = fixture.open_at(left).unwrap();
            assert_eq!(pool.root(), Some(fixture.roots[1 - slot]));
            assert_eq!(pool.version(), left);
            drop(pool);
            assert!(fixture.open().is_err());
            let pool = fixture.open_at(left).unwrap();
            pool.retain(&fixture.roots).unwrap();
            let root = finish(&pool, b"third");
            pool.publish_version(&root, 90).unwrap();
            drop(pool);
            let pool = fixture.open().unwrap();
            assert_eq!((pool.root(), pool.version()), (Some(root.extent()), 90));
        }
    }
}

#[test]
fn no_slot_at_all_is_damage() {
    let fixture = fixture();
    for line in SLOTS.into_iter().flatten() {
        fixture.flip(line);
    }
    let error = fixture.open().unwrap_err();
    assert!(matches!(error, PoolError::Damaged { .. }), "{error}");
}

/// Both are whole, and the older one is wanted.
#[test]
fn the_older_publication_is_gone_back_to_on_purpose() {
    let fixture = fixture();
    let pool = fixture.open_at(VERSIONS[0]).unwrap();
    assert_eq!(
        (pool.root(), pool.version()),
        (Some(fixture.roots[0]), VERSIONS[0])
    );
    drop(pool);
    assert_eq!(fixture.open().unwrap().root(), Some(fixture.roots[1]));
    let pool = fixture.open_at(VERSIONS[0]).unwrap();
    pool.retain(&[]).unwrap();
    let root = finish(&pool, b"gone back");
    let older = [fixture.line(SLOTS[0][0]), fixture.line(SLOTS[0][1])];
    pool.publish_version(&root, VERSIONS[0]).unwrap();
    drop(pool);
    assert_eq!(fixture.open().unwrap().root(), Some(root.extent()));
    let now = [fixture.line(SLOTS[0][0]), fixture.line(SLOTS[0][1])];
    assert_eq!(now, older, "the current slot was not the one to be written");
}

/// A publication writes one copy, and then the other: each clears its commit word, stores the other seven words in order,
/// then the commit word. A crash keeps some first part of these stores.
#[test]
fn a_publication_cut_short_at_any_store_leaves_the_one_before() {
    let fixture = fixture();
    let [first, second] = SLOTS[0];
    let before = fixture.line(first);
    assert_eq!(before, fixture.line(second));
    let pool = fixture.open().unwrap();
    pool.retain(&fixture.roots).unwrap();
    let third = finish(&pool, b"third");
    pool.publish(&third).unwrap();
    assert_eq!(pool.version(), VERSIONS[1] + 1, "it counts by itself");
    drop(pool);
    let after = fixture.line(first);
    let cut = |words: usize| {
        let mut line = before;
        line[56..].fill(0);
        line[..words * 8].copy_from_slice(&after[..words * 8]);
        line
    };
    for words in 0..=8 {
        fixture.write(first, &cut(words));
        fixture.write(second, &before);
        let root = match words {
            8 => third.extent(),
            _ => fixture.roots[1],
        };
        assert_eq!(fixture.open().unwrap().root(), Some(root), "{words} words");
        assert_eq!(fixture.line(first), fixture.line(second), "{words} words");
        fixture.write(first, &after);
        fixture.write(second, &cut(words));
        assert_eq!(fixture.open().unwrap().root(), Some(third.extent()));
        assert_eq!(fixture.line(second), after, "{words} words");
    }
}

#[test]
fn a_first_publication_cut_short_leaves_an_empty_pool() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    drop(Pool::create(&path, &options()).unwrap());
    write(&path, SLOTS[0][0], &2u64.to_le_bytes());
    let pool = Pool::open(&path, &options()).unwrap();
    assert_eq!((pool.root(), pool.version()), (None, 0));
}

/// A slot forged to the last sequence there is: counting on from it would wrap, and the new root
/// would be older than the forged one.
#[test]
fn a_publication_that_cannot_be_counted_is_refused() {
    let fixture = fixture();
    let mut slot = fixture.line(SLOTS[1][0]);
    slot[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let slot = with_crc(slot, 56);
    SLOTS[1].into_iter().for_each(|at| fixture.write(at, &slot));
    let pool = fixture.open().unwrap();
    pool.retain(&fixture.roots).unwrap();
    let root = finish(&pool, b"third");
    let error = pool.publish(&root).unwrap_err();
    assert!(matches!(error, PoolError::Damaged { .. }), "{error}");
    assert_eq!(pool.root(), Some(fixture.roots[1]), "nothing was published");
}

/// A root that is whole, at the right place, and another: of a copy that was made while the pool was written.
#[test]
fn a_root_that_is_not_the_one_published_is_refused() {
    let fixture = fixture();
    let root = fixture.roots[1];
    let other = b"2econd";
    let mut header = fixture.line(root.offset - 64);
    header[48..52].copy_from_slice(&crc32c::crc32c(other).to_le_bytes());
    fixture.write(root.offset - 64, &with_crc(header, 60));
    fixture.write(root.offset, other);
    let pool = fixture.open().unwrap();
    for refused in [pool.check_extent(root), pool.verify_extent(root)] {
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("another root"), "{error}");
    }
}

#[test]
fn a_header_without_a_whole_copy_is_refused() {
    let fixture = fixture();
    for at in 0..64 {
        HEADERS
            .into_iter()
            .for_each(|header| fixture.flip(header + at));
        let error = fixture.open().unwrap_err();
        match at {
            0..8 => assert!(matches!(error, PoolError::NotAPool { .. }), "{error}"),
            8 => assert!(
                matches!(error, PoolError::NewerFormat { found: 17, .. }),
                "{error}"
            ),
            _ => assert!(
                matches!(error, PoolError::Damaged { .. }),
                "byte {at}: {error}"
            ),
        }
        HEADERS
            .into_iter()
            .for_each(|header| fixture.flip(header + at));
    }
    HEADERS
        .into_iter()
        .for_each(|header| fixture.write(header + 8, &[0]));
    let error = fixture.open().unwrap_err();
    assert!(
        matches!(error, PoolError::Damaged { .. }),
        "version 0 never was"
    );
}

/// By a line that is whole, or by both; one flipped byte is damage.
#[test]
fn a_newer_version_is_believed_and_touches_nothing() {
    for header in HEADERS {
        let fixture = fixture();
        let mut line = fixture.line(header);
        line[8] = 2;
        fixture.write(header, &with_crc(line, 60));
        let before = std::fs::read(&fixture.path).unwrap();
        let error = fixture.open().unwrap_err();
        let is_newer = |error: &PoolError| {
            matches!(
                error,
                PoolError::NewerFormat {
                    found: 2,
                    supported: 1,
                    ..
                }
            )
        };
        assert!(is_newer(&error), "{error}");
        assert!(error.to_string().contains("use a newer Tierra"), "{error}");
        assert_eq!(std::fs::read(&fixture.path).unwrap(), before);
        // Another layout may have its checksum elsewhere.
        HEADERS
            .into_iter()
            .for_each(|header| fixture.write(header + 8, &[2, 1]));
        assert!(is_newer(&fixture.open().unwrap_err()));
    }
}
