//! The promise of a calibration: every kind of lookup is measured in every tier, what a database has is
//! measured there, nothing is left behind, and no answer depends on it.

mod support;

use std::fs;

use support::{all_rows, options, rows, spec};
use tierra_column::bits::Level;
use tierra_engine::{
    Calibration, Database, Effort, LookupKind, Measured, MeasuredMixes, Mix, Reading, ScanSpec,
};
use tierra_interleave::Scheduling;
use tierra_memory::Speed;
use tierra_memory::emulation::{self, FarMemory};

const EFFORT: Effort = Effort {
    lookups: 100,
    rounds: 1,
    ..Effort::QUICK
};

// One test, as emulation is the process's.
#[test]
fn a_database_is_calibrated_and_opened_with_it() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    let mut loader = table.loader();
    loader.push(rows(0..100_000)).unwrap();
    loader.finish().unwrap();
    // Of a run that was killed.
    fs::create_dir_all(dir.join("far.pool.calibration/rest")).unwrap();

    let before = FarMemory::CXL;
    emulation::set(Some(before)).unwrap();
    let fars = [None, Some(FarMemory::OPTANE)];
    let mut steps = 0;
    let measured = database.calibrate(EFFORT, &fars, || steps += 1).unwrap();
    assert_eq!(emulation::current(), Some(before), "as it was");
    emulation::set(None).unwrap();
    assert_eq!(steps, EFFORT.steps(2));
    let names = |entry: Result<fs::DirEntry, _>| entry.unwrap().file_name().into_string().unwrap();
    let mut left: Vec<String> = fs::read_dir(&dir).unwrap().map(names).collect();
    left.sort();
    assert_eq!(left, ["LOCK", "database", "database.copy", "far.pool"]);

    for far in fars {
        let of = |kind, speed| -> &Measured {
            let mut found = measured.iter().filter(|measured| {
                (measured.kind, measured.speed, measured.far) == (kind, speed, far)
            });
            let only = found.next().unwrap_or_else(|| panic!("{kind} {speed}"));
            assert!(found.next().is_none(), "{kind} {speed} twice");
            only
        };
        for kind in LookupKind::ALL
            .into_iter()
            .filter(|kind| *kind != LookupKind::Key)
        {
            of(kind, Speed::Near);
        }
        for kind in [LookupKind::Cell, LookupKind::List, LookupKind::Stretch] {
            of(kind, Speed::Far);
        }
        assert_eq!(of(LookupKind::Key, Speed::Far).place, "t");
        assert_eq!(of(LookupKind::List, Speed::Far).place, "a scratch table");
    }
    for Measured {
        plain_ns,
        interleaved_ns,
        kind,
        ..
    } in &measured
    {
        let sizes = if *kind == LookupKind::Number { 1 } else { 8 };
        assert_eq!(interleaved_ns.len(), sizes);
        assert!(*plain_ns > 0.0 && interleaved_ns.iter().all(|(_, ns)| *ns > 0.0));
    }

    // Levels of scans: each situation has a mix, and a file with all of them is read back and in effect.
    let mut steps = 0;
    let mixes = database
        .calibrate_levels(EFFORT, &fars, || steps += 1)
        .unwrap();
    assert_eq!(steps, EFFORT.steps_of_levels(2));
    assert_eq!(emulation::current(), None);
    for measured in &mixes {
        assert!(measured.best().is_some());
        assert!(measured.values_per_s.iter().all(|(_, rate)| *rate > 0.0));
    }
    let chosen = |measured: &MeasuredMixes| (measured.situation, measured.best().unwrap().clone());
    let scalar = Mix::uniform(Level::Scalar, 1);
    let mut levels: Vec<_> = mixes.iter().map(chosen).collect();
    levels.iter_mut().for_each(|(_, mix)| *mix = scalar.clone());

    let calibration = Calibration::of(&measured).with_levels(levels);
    calibration.write(&dir).unwrap();
    let expected = all_rows(&table);
    drop((table, database));
    let database = Database::open(&dir, &options()).unwrap();
    assert_eq!(**database.calibration(), calibration);
    let gate = database.calibration().gate(LookupKind::Key, Speed::Far);
    let key = measured
        .iter()
        .find(|measured| measured.kind == LookupKind::Key)
        .unwrap();
    assert_eq!(gate.now().size(), key.best().0);
    let table = database.table("t").unwrap();
    let spec = ScanSpec {
        projection: vec![0],
        filters: vec![],
        batch_rows: 8192,
        execution: Scheduling::Auto,
    };
    let scan = table.snapshot().scan(spec);
    let mut cursor = scan.cursor_by(Reading::default()).unwrap();
    cursor.next(&[], 0).unwrap().unwrap();
    assert_eq!(
        (cursor.level(), scan.level()),
        (Level::Scalar, Some(Level::Scalar))
    );
    assert_eq!(all_rows(&table), expected);
}
