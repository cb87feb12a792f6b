//! The promise of copies out of a pool: every method that a medium has yields the same bytes, at once or from a queue of reads, and
//! others are refused with a reason.

use std::sync::Arc;

use tempfile::TempDir;
use tierra_memory::simulation::Recorder;
use tierra_memory::{CopyMethod, Extent, FileReads, MediumKind, Pool, PoolOptions};

const METHODS: [CopyMethod; 3] = [CopyMethod::Mapped, CopyMethod::Buffered, CopyMethod::Direct];

#[test]
fn every_method_yields_the_same_bytes() {
    let mut places = vec![tempfile::tempdir().unwrap()];
    places.extend(TempDir::new_in("/dev/shm").ok());
    for place in places {
        let (pool, extent, bytes) = stored(&place);
        // Within a device's unit, over its border, whole, empty, to the end.
        let ranges = [
            0..1,
            3..4_000,
            4_000..4_200,
            4_096..8_192,
            70..70,
            0..bytes.len(),
            99_999..100_000,
        ];
        for method in METHODS {
            match pool.check_copy_method(method) {
                Ok(()) => {}
                Err(refused) => {
                    assert_eq!(method, CopyMethod::Direct, "{refused}");
                    assert!(refused.to_string().contains("use 'buffered'"), "{refused}");
                    continue;
                }
            }
            assert!(method != CopyMethod::Direct || pool.medium() == MediumKind::File);
            for range in &ranges {
                for zeros in [0, 64] {
                    let copied = pool.copy_out(extent, range.clone(), zeros, method).unwrap();
                    let (content, pad) = copied.split_at(range.len());
                    assert_eq!(content, &bytes[range.clone()], "{method} {range:?}");
                    assert_eq!(pad, vec![0; zeros], "{method} {range:?}");
                    assert!(copied.memory_bytes() >= range.len() + zeros);
                }
            }
        }
    }
}

/// A pool with an extent, and its bytes.
fn stored(place: &TempDir) -> (Arc<Pool>, Extent, Vec<u8>) {
    let path = place.path().join("far.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
    let mut writer = pool.allocate(bytes.len() as u64, 7).unwrap();
    writer.copy_from_slice(&bytes);
    let extent = writer.finish().unwrap().extent();
    (pool, extent, bytes)
}

#[test]
fn reads_under_way_yield_what_copies_do() {
    const MOST: usize = 5;
    let mut places = vec![tempfile::tempdir().unwrap()];
    places.extend(TempDir::new_in("/dev/shm").ok());
    for place in places {
        let (pool, extent, bytes) = stored(&place);
        let Some(mut reads) = FileReads::new(MOST) else {
            println!("this kernel has no io_uring, or forbids it");
            return;
        };
        let none = reads.begin(&pool, extent, 0..10, 0, CopyMethod::Mapped);
        assert!(none.is_none(), "a mapping is copied at once");
        for method in [CopyMethod::Buffered, CopyMethod::Direct] {
            if pool.check_copy_method(method).is_err() {
                continue;
            }
            for round in 0..40 {
                let ranges: Vec<_> = (0..MOST + 2)
                    .map(|at| {
                        let start = (round * 977 + at * 13_001) % 90_000;
                        start..start + (at * 2_111) % 9_000
                    })
                    .collect();
                let begun: Vec<_> = ranges
                    .iter()
                    .map(|range| reads.begin(&pool, extent, range.clone(), 64, method))
                    .collect();
                reads.submit();
                // What was given up in the round before may still be under way.
                let begun_count = begun.iter().flatten().count();
                assert!(begun_count <= MOST && begun[0].is_some(), "{reads:?}");
                assert!(round > 0 || begun_count == MOST, "{reads:?}");
                // The last first; some are given up.
                for (at, (range, begun)) in ranges.iter().zip(begun).enumerate().rev() {
                    let Some(begun) = begun else { continue };
                    if at % 3 == 1 {
                        reads.discard(begun);
                        continue;
                    }
                    let copied = reads.finish(begun).unwrap();
                    let (content, pad) = copied.split_at(range.len());
                    assert_eq!(content, &bytes[range.clone()], "{method} {range:?}");
                    assert_eq!(pad, [0; 64], "{method} {range:?}");
                }
                // A place is free sooner or later.
                let again =
                    std::iter::repeat_with(|| reads.begin(&pool, extent, 0..4096, 0, method));
                let begun = again.flatten().next().unwrap();
                reads.finish(begun).unwrap();
            }
            // Dropped with reads under way.
            let mut dropped = FileReads::new(MOST).unwrap();
            for at in 0..MOST {
                let range = at * 9_000..at * 9_000 + 9_000;
                let begun = dropped.begin(&pool, extent, range, 0, method);
                if let Some(begun) = begun.filter(|_| at % 2 == 0) {
                    dropped.discard(begun);
                }
            }
            dropped.submit();
        }
    }
}

#[test]
fn a_read_beyond_the_files_end_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let (pool, extent, bytes) = stored(&place);
    let Some(mut reads) = FileReads::new(2) else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(place.path().join("far.pool"));
    let file = file.unwrap();
    let len_bytes = file.metadata().unwrap().len();
    file.set_len(extent.offset + 50_000).unwrap();
    let mut read = |range| {
        let begun = reads.begin(&pool, extent, range, 0, CopyMethod::Buffered);
        reads.finish(begun.unwrap())
    };
    assert_eq!(*read(0..50_000).unwrap(), bytes[..50_000]);
    let error = read(40_000..60_000).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    file.set_len(len_bytes).unwrap();
}

#[test]
fn a_simulated_pool_is_read_by_its_mapping_alone() {
    let place = super::simulated::folder();
    let options = PoolOptions {
        recorder: Some(Recorder::by_page()),
        ..PoolOptions::default()
    };
    let pool = Pool::create(&place.path().join("far.pool"), &options).unwrap();
    assert_eq!(pool.check_copy_method(CopyMethod::Mapped), Ok(()));
    let refused = pool.check_copy_method(CopyMethod::Buffered).unwrap_err();
    assert!(refused.to_string().contains("use 'mapped'"), "{refused}");
}
