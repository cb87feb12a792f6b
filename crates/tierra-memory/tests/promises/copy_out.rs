//! The promise of copies out of a pool: every method that a medium has yields the same bytes, and others are refused with a
//! reason.

use tempfile::TempDir;
use tierra_memory::simulation::Recorder;
use tierra_memory::{CopyMethod, MediumKind, Pool, PoolOptions};

const METHODS: [CopyMethod; 3] = [CopyMethod::Mapped, CopyMethod::Buffered, CopyMethod::Direct];

#[test]
fn every_method_yields_the_same_bytes() {
    let mut places = vec![tempfile::tempdir().unwrap()];
    places.extend(TempDir::new_in("/dev/shm").ok());
    for place in places {
        let path = place.path().join("far.pool");
        let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
        let bytes: Vec<u8> = (0..100_000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
        let mut writer = pool.allocate(bytes.len() as u64, 7).unwrap();
        writer.copy_from_slice(&bytes);
        let extent = writer.finish().unwrap().extent();
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
