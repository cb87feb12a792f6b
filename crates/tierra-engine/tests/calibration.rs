//! The promise of a calibration: every kind of lookup is measured in every tier, what a database has is
//! measured there, nothing is left behind, and no answer depends on it.

mod support;

use std::fs;
use std::time::Duration;

use support::{all_rows, options, rows, spec};
use tierra_column::bits::Level;
use tierra_column::{Filter, Value, ordinal};
use tierra_engine::{
    Calibration, ColumnScans, Database, Effort, LookupKind, Measured, MeasuredMixes, Mix, Operator,
    Reading, ScanSpec, Scanned, Situation,
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
        for (mix, rates) in &measured.values_per_s {
            assert_eq!(rates.len(), EFFORT.rounds, "{mix}");
            assert!(rates.iter().all(|rate| *rate > 0.0), "{mix}");
        }
    }
    let chosen = |measured: &MeasuredMixes| (measured.situation, measured.best().unwrap().clone());
    let scalar = Mix::uniform(Level::Scalar, 1);
    let mut levels: Vec<_> = mixes.iter().map(chosen).collect();
    levels.iter_mut().for_each(|(_, mix)| *mix = scalar.clone());
    // Scans of two columns have another level.
    levels.retain(|(situation, _)| situation.columns == 1);
    let widest = Mix::uniform(Level::detect(), 1);
    let of_two = levels.iter().map(|(situation, _)| Situation {
        columns: 2,
        ..*situation
    });
    let of_two = Vec::from_iter(of_two.map(|situation| (situation, widest.clone())));
    levels.extend(of_two);

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
    let scan = |projection, filters| {
        table.snapshot().scan(ScanSpec {
            projection,
            filters,
            batch_rows: 8192,
            execution: Scheduling::Auto,
        })
    };
    // Columns are those of the operator, each counted once.
    let (select, aggregate) = (Operator::Select, Operator::Aggregate);
    let few = || (0, Filter::less_or_equal(Value::Ordinal(ordinal::of_i64(9))));
    for (projection, filters, operator, level) in [
        (vec![0], vec![few()], select, Level::Scalar),
        (vec![1], vec![few()], select, Level::Scalar),
        (vec![0, 0], vec![], aggregate, Level::Scalar),
        (vec![0, 1], vec![], aggregate, Level::detect()),
    ] {
        let chosen = scan(projection, filters).level_for(operator, 0, 1);
        assert_eq!(chosen, Some(level));
    }
    // What is measured ends in time, and counts what was read: a select to the end, as nothing behind is returned.
    let snapshot = table.snapshot();
    let scans = |most| ColumnScans {
        snapshot: &snapshot,
        column: 0,
        most,
        level: None,
    };
    let scanned = ColumnScans::at_once(&[scans(None), scans(Some(9))], Duration::ZERO).unwrap();
    let read = |scanned: &Scanned| (scanned.rows, scanned.sum);
    let expected_of: [(u64, i64); 2] = [(8_192, 8_191 * 4_096), (100_000, 45)];
    assert!(scanned.iter().map(read).eq(expected_of));
    let scan = scan(vec![0], vec![]);
    let mut cursor = scan.cursor_by(Reading::default()).unwrap();
    cursor.next(&[], 0).unwrap().unwrap();
    assert_eq!(
        (cursor.level(), scan.level()),
        (Level::Scalar, Some(Level::Scalar))
    );
    assert_eq!(all_rows(&table), expected);
}
