//! The promise that a damaged, foreign or hostile file is an error that says so, never a panic.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use tierra_memory::{Extent, Finished, Pool, PoolError, PoolOptions};

const SLOTS: [u64; 2] = [4096, 8192];

struct Fixture {
    _dir: TempDir,
    path: PathBuf,
    /// Published first, then second, which is current.
    roots: [Extent; 2],
}

fn options() -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(1 << 20),
        id: Some(42),
        ..PoolOptions::default()
    }
}

fn store(pool: &Arc<Pool>, payload: &[u8]) -> Extent {
    finish(pool, payload).extent()
}

fn finish(pool: &Arc<Pool>, payload: &[u8]) -> Finished {
    let mut writer = pool.allocate(payload.len() as u64, 7).unwrap();
    writer.copy_from_slice(payload);
    writer.finish().unwrap()
}

fn fixture() -> Fixture {
    // In memory where possible: the tests make hundreds of pools, and a disk would sync each.
    let dir = TempDir::new_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let path = dir.path().join("p");
    let pool = Pool::create(&path, &options()).unwrap();
    let finished = [finish(&pool, b"first"), finish(&pool, b"second")];
    for root in &finished {
        pool.publish(root).unwrap();
    }
    let roots = finished.each_ref().map(Finished::extent);
    Fixture {
        _dir: dir,
        path,
        roots,
    }
}

fn open(path: &Path) -> Result<Arc<Pool>, PoolError> {
    Pool::open(path, &options())
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .write_all_at(bytes, at)
        .unwrap();
}

fn flip(path: &Path, at: u64) {
    let mut byte = [0];
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

#[test]
fn a_truncated_file_is_an_error_at_every_length() {
    let fixture = fixture();
    let whole = fs::metadata(&fixture.path).unwrap().len();
    for len in [
        whole - 1,
        whole - 4096,
        20_480,
        16_384,
        16_383,
        8192,
        4160,
        4096,
        64,
        63,
        1,
        0,
    ] {
        OpenOptions::new()
            .write(true)
            .open(&fixture.path)
            .unwrap()
            .set_len(len)
            .unwrap();
        let error = open(&fixture.path).unwrap_err();
        match len {
            64.. => assert!(
                matches!(error, PoolError::Truncated { .. }),
                "{len} bytes: {error}"
            ),
            _ => assert!(
                matches!(error, PoolError::NotAPool { .. }),
                "{len} bytes: {error}"
            ),
        }
    }
}

#[test]
fn a_file_longer_than_its_superblock_says_is_fine() {
    let fixture = fixture();
    let whole = fs::metadata(&fixture.path).unwrap().len();
    for len in [whole + 1, whole + 4096, whole + 5000] {
        OpenOptions::new()
            .write(true)
            .open(&fixture.path)
            .unwrap()
            .set_len(len)
            .unwrap();
        let pool = open(&fixture.path).unwrap();
        assert_eq!(pool.len_bytes(), len / 4096 * 4096);
        pool.retain(&[]).unwrap();
        store(&pool, b"goes on");
    }
}

#[test]
fn other_files_are_no_pools() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    for bytes in [
        &b""[..],
        b"x",
        &[0; 64],
        &[0xFF; 100_000],
        b"PAR1 and something after it",
    ] {
        fs::write(&path, bytes).unwrap();
        assert!(
            matches!(open(&path), Err(PoolError::NotAPool { .. })),
            "{} bytes",
            bytes.len()
        );
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn extents_are_checked_before_they_are_believed() {
    let fixture = fixture();
    let pool = open(&fixture.path).unwrap();
    let good = fixture.roots[0];
    let refused = |extent: Extent| {
        assert!(
            matches!(pool.check_extent(extent), Err(PoolError::BadExtent { .. })),
            "{extent:?}"
        );
        assert!(matches!(
            pool.verify_extent(extent),
            Err(PoolError::BadExtent { .. })
        ));
        assert!(matches!(
            pool.retain(&[extent]),
            Err(PoolError::BadExtent { .. })
        ));
    };
    let offsets = [
        0,
        1,
        63,
        64,
        4096,
        4096 + 64,
        12288 + 64,
        good.offset - 1,
        good.offset + 1,
        good.offset + 64,
        good.offset + (4 << 12),
        pool.len_bytes(),
        pool.len_bytes() + 64,
        u64::MAX,
        u64::MAX - 63,
        1 << 63,
    ];
    for offset in offsets {
        refused(Extent { offset, ..good });
    }
    for len_bytes in [
        0,
        4,
        6,
        4033,
        1 << 20,
        1 << 40,
        u64::MAX,
        u64::MAX - 64,
        1 << 63,
    ] {
        refused(Extent { len_bytes, ..good });
    }
    assert_eq!(pool.check_extent(good).unwrap(), 7);
    let twice = pool.retain(&[good, fixture.roots[1], good]);
    assert!(matches!(twice, Err(PoolError::Overlap { .. })));
    pool.retain(&[good]).unwrap();
}

#[test]
fn a_damaged_extent_header_or_payload_is_noticed() {
    let fixture = fixture();
    let extent = fixture.roots[0];
    for at in 0..64 {
        flip(&fixture.path, extent.offset - 64 + at);
        let pool = open(&fixture.path).unwrap();
        assert!(
            matches!(pool.check_extent(extent), Err(PoolError::BadExtent { .. })),
            "byte {at}"
        );
        drop(pool);
        flip(&fixture.path, extent.offset - 64 + at);
    }
    flip(&fixture.path, extent.offset + 2);
    let pool = open(&fixture.path).unwrap();
    assert_eq!(pool.check_extent(extent).unwrap(), 7, "the header is whole");
    assert!(matches!(
        pool.verify_extent(extent),
        Err(PoolError::BadExtent { .. })
    ));
}

#[test]
fn overlapping_extents_are_refused() {
    // An extent whose payload holds the image of another extent's header, at a grain.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let pool = Pool::create(&path, &options()).unwrap();
    let outer = store(&pool, &[1; 8192]);
    pool.free(outer);
    let _first = store(&pool, &[2; 4000]);
    let inner = store(&pool, &[3; 100]);
    drop(pool);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut header = [0; 64];
    file.read_exact_at(&mut header, inner.offset - 64).unwrap();
    drop(file);

    let path = dir.path().join("q");
    let pool = Pool::create(&path, &options()).unwrap();
    let outer = store(&pool, &[1; 8192]);
    assert!(outer.offset < inner.offset && inner.offset < outer.offset + outer.len_bytes);
    drop(pool);
    overwrite(&path, inner.offset - 64, &header);
    let pool = open(&path).unwrap();
    pool.check_extent(outer).unwrap();
    pool.check_extent(inner).unwrap();
    for live in [[outer, inner], [inner, outer]] {
        assert!(matches!(pool.retain(&live), Err(PoolError::Overlap { .. })));
    }
    pool.retain(&[outer]).unwrap();
}

#[test]
fn an_extent_of_another_pool_is_refused() {
    let fixture = fixture();
    let other_path = fixture.path.with_extension("other");
    let other = PoolOptions {
        id: Some(43),
        ..options()
    };
    let pool = Pool::create(&other_path, &other).unwrap();
    store(&pool, b"first");
    drop(pool);
    let mut grain = [0; 4096];
    let from = OpenOptions::new().read(true).open(&other_path).unwrap();
    from.read_exact_at(&mut grain, fixture.roots[0].offset - 64)
        .unwrap();
    overwrite(&fixture.path, fixture.roots[0].offset - 64, &grain);
    let pool = open(&fixture.path).unwrap();
    assert!(matches!(
        pool.check_extent(fixture.roots[0]),
        Err(PoolError::BadExtent { .. })
    ));
}

#[test]
fn a_file_with_holes_is_filled_before_it_is_written() {
    let fixture = fixture();
    let elsewhere = tempfile::tempdir().unwrap();
    for sparse in [
        fixture.path.with_extension("sparse"),
        elsewhere.path().join("p"),
    ] {
        is_filled(&fixture, &sparse);
    }
}

fn is_filled(fixture: &Fixture, sparse: &Path) {
    let bytes = fs::read(&fixture.path).unwrap();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(sparse)
        .unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (index, grain) in bytes
        .chunks(4096)
        .enumerate()
        .filter(|(_, grain)| grain.iter().any(|&b| b != 0))
    {
        file.write_all_at(grain, index as u64 * 4096).unwrap();
    }
    let blocks = || std::os::unix::fs::MetadataExt::blocks(&fs::metadata(sparse).unwrap()) * 512;
    assert!(blocks() < bytes.len() as u64);
    let before = blocks();
    let pool = open(sparse).unwrap();
    pool.retain(&fixture.roots).unwrap();
    store(&pool, b"new");
    // Of what is live and what is used; other free space is not asked for.
    assert!(blocks() > before);
    assert_eq!(pool.bytes(fixture.roots[1]), b"second");
}

proptest! {
    /// Any bytes written anywhere over header, slots and extents: an error or a pool, and what the
    /// pool then vouches for can be read.
    #[test]
    fn no_damage_makes_opening_panic(
        wounds in prop::collection::vec(
            (0..6usize, 0..80u64, prop::collection::vec(any::<u8>(), 1..16)), 0..4,
        ),
        cut in prop::option::of(0..40_000u64),
        offset in any::<u64>(),
        len_bytes in any::<u64>(),
    ) {
        let fixture = fixture();
        let places =
            [0, SLOTS[0], SLOTS[1], fixture.roots[0].offset - 64, fixture.roots[1].offset - 64, 12288];
        for (place, at, bytes) in wounds {
            overwrite(&fixture.path, places[place] + at, &bytes);
        }
        if let Some(len) = cut {
            OpenOptions::new().write(true).open(&fixture.path).unwrap().set_len(len).unwrap();
        }
        if let Ok(pool) = open(&fixture.path) {
            let named = [fixture.roots[0], fixture.roots[1], Extent { offset, len_bytes }];
            for extent in pool.root().into_iter().chain(named) {
                if pool.check_extent(extent).is_ok() {
                    prop_assert_eq!(pool.bytes(extent).len() as u64, extent.len_bytes);
                    let _ = pool.verify_extent(extent);
                }
            }
            if pool.retain(&fixture.roots).is_ok() {
                let new = store(&pool, &[9; 5000]);
                prop_assert!(fixture.roots.iter().all(|root| root.offset != new.offset));
            }
        }
    }
}
