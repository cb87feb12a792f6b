//! Promise: opening any file as a pool is an error or a pool; what the pool then vouches for can be
//! read; and an allocation never lands on an extent that was retained.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_fuzz::{database, image};
use tierra_memory::{Extent, Pool, PoolOptions};

/// Every place that could be an extent's, as its header describes it.
fn extents(image: &[u8]) -> impl Iterator<Item = Extent> {
    let u64_at = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("8 bytes"));
    (16_384..image.len()).step_by(4096).map(move |at| Extent {
        offset: u64_at(at + 16),
        len_bytes: u64_at(at + 24),
    })
}

fuzz_target!(|input: &[u8]| {
    let image = image::expand(input);
    let path = database::scratch_dir().join("pool");
    std::fs::write(&path, &image).expect("room for a small file");
    let options = PoolOptions {
        capacity_bytes: Some(1 << 20),
        ..PoolOptions::default()
    };
    let Ok(pool) = Pool::open(&path, &options) else {
        return;
    };
    let mut live = Vec::new();
    for extent in pool.root().into_iter().chain(extents(&image)) {
        let checked = pool.check_extent(extent);
        if checked.is_ok() {
            assert_eq!(pool.bytes(extent).len() as u64, extent.len_bytes);
            live.push(extent);
        }
        if let Ok(owner) = pool.verify_extent(extent) {
            assert_eq!(checked.expect("verifying checks"), owner);
        }
    }
    live.sort_unstable();
    live.dedup();
    if pool.retain(&live).is_err() {
        return;
    }
    let Ok(mut writer) = pool.allocate(5000, 9) else {
        return;
    };
    writer.fill(9);
    let root = writer.finish().expect("memory can be written");
    let new = root.extent();
    let overlaps = |old: &Extent| {
        old.offset < new.offset + new.len_bytes && new.offset < old.offset + old.len_bytes
    };
    assert!(!live.iter().any(overlaps), "{new:?} lies on a live extent");
    pool.publish(&root).expect("memory can be written");
    drop(pool);
    let pool = Pool::open(&path, &options).expect("it was published a moment ago");
    assert_eq!(pool.root(), Some(new));
    assert_eq!(pool.bytes(new), [9; 5000]);
});
