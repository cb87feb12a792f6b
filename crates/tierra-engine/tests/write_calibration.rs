//! The promise of a calibration of writes: every method is measured in the database's own tiers, nothing is left
//! behind, logs are written so from the next opening on, and a profile that went stale does no harm.

mod support;

use std::fs;
use std::path::Path;

use support::{all_rows, options, pool_bytes, rows, spec};
use tempfile::TempDir;
use tierra_engine::{Database, Effort, write_profile};
use tierra_memory::replication::{Composition, Profile, SIZE_CLASSES, Situation};

#[test]
fn logs_are_written_as_calibrated_and_a_stale_profile_does_no_harm() {
    let Ok(scratch) = TempDir::new_in("/dev/shm") else {
        // On a device nothing is measured.
        return;
    };
    let dir = scratch.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    table.append(&[rows(0..100)]).unwrap();
    let used = pool_bytes(&database);
    let mut steps = 0;
    let profile = database.calibrate_writes(Effort::QUICK, || steps += 1);
    let profile = profile.unwrap().expect("the tier is memory");
    assert_eq!(steps, Profile::steps(1, false));
    assert_eq!(pool_bytes(&database), used);
    for is_sequential in [false, true] {
        for size_class in 0..SIZE_CLASSES {
            let situation = Situation {
                is_transactional: false,
                is_sequential,
                replicas: 0,
                size_class,
            };
            assert_eq!(profile.measured(situation).len(), Composition::all().len());
        }
    }
    let path = write_profile(&profile, &dir).unwrap();
    drop((table, database));

    let append = |from: i64, to: i64| {
        let database = Database::open(&dir, &options()).unwrap();
        let table = database.table("t").unwrap();
        for row in from..to {
            table.append(&[rows(row..row + 1)]).unwrap();
        }
        drop((table, database));
        let database = Database::open(&dir, &options()).unwrap();
        let found = all_rows(&database.table("t").unwrap());
        assert_eq!(found.num_rows(), to as usize);
    };
    append(100, 200);
    assert_eq!(Profile::read(&path).unwrap().as_ref(), Some(&profile));
    plant_another_machine(&path);
    assert!(Profile::read(&path).is_err());
    append(200, 300);
    fs::write(&path, "something else").unwrap();
    append(300, 310);
}

/// What a directory that was copied from another machine has.
fn plant_another_machine(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let machine = text.lines().nth(1).unwrap();
    fs::write(path, text.replace(machine, "machine = \"that one\"")).unwrap();
}
