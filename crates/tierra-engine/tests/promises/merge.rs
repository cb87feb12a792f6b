//! A dictionary's delta is merged before it makes lookups slow, without anybody asking.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{options, scan, sorted};
use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use tierra_column::{Encoding, Filter, LogicalType, Value};
use tierra_engine::{ColumnSpec, Database, Table, TableSpec};
use tierra_interleave::Lookups;

fn spec() -> TableSpec {
    let word = ColumnSpec {
        encoding: Some(Encoding::Dictionary),
        ..ColumnSpec::new("word", LogicalType::Varchar)
    };
    TableSpec {
        name: "t".to_owned(),
        columns: vec![word],
        primary_key: vec![],
    }
}

fn word(number: usize) -> String {
    // Neighbours in number are far apart in order.
    format!(
        "{:08x} a word of its own",
        (number as u32).wrapping_mul(0x9e37_79b1)
    )
}

fn words(numbers: impl Iterator<Item = usize>) -> RecordBatch {
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(numbers.map(word)));
    RecordBatch::try_new(spec().schema(), vec![column]).unwrap()
}

/// Waits for the writer, which merges after it has answered.
fn settle(table: &Arc<Table>) {
    table.seal().unwrap();
}

#[test]
fn after_100_appends_with_new_values_a_lookup_costs_what_it_costs_in_a_fresh_table() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &options()).unwrap();
    let table = database.create_table(spec()).unwrap();
    for append in 0..100 {
        table
            .append(&[words(append * 100..append * 100 + 100)])
            .unwrap();
        table.seal().unwrap();
    }
    settle(&table);
    let grown = table.snapshot().coded_dictionary(0).unwrap();
    assert_eq!(grown.len(), 10_000);
    assert!(
        grown.delta_len() * 10 <= grown.len(),
        "{} of {} in the delta",
        grown.delta_len(),
        grown.len()
    );

    let fresh = Database::create(&dir.path().join("fresh"), &options()).unwrap();
    let fresh = fresh.create_table(spec()).unwrap();
    fresh.append(&[words(0..10_000)]).unwrap();
    fresh.seal().unwrap();
    let fresh = fresh.snapshot().coded_dictionary(0).unwrap();
    assert_eq!((fresh.len(), fresh.delta_len()), (10_000, 0));

    // Time, as the best of many alternating rounds: noise only ever adds. While the machine is busy it takes more of them.
    let values: Vec<Value> = (0..10_000)
        .step_by(7)
        .map(|number| Value::Bytes(word(number).as_bytes().into()))
        .collect();
    let (mut grown_best, mut fresh_best) = (Duration::MAX, Duration::MAX);
    let mut ratio = f64::MAX;
    for round in 1..=3000 {
        for (dictionary, best) in [(&grown, &mut grown_best), (&fresh, &mut fresh_best)] {
            let started = Instant::now();
            let codes = dictionary.code_of_many(&values, &mut Lookups::default());
            *best = (*best).min(started.elapsed());
            assert!(codes.iter().all(Option::is_some));
        }
        ratio = grown_best.as_secs_f64() / fresh_best.as_secs_f64();
        if round % 60 == 0 && ratio <= 1.2 {
            break;
        }
    }
    println!("a lookup costs {ratio:.2} times a fresh table's");
    // A tenth of the values may still be in the delta, which is searched after the main part.
    assert!(
        ratio <= 1.2,
        "{ratio:.2}: {grown_best:?} against {fresh_best:?}"
    );
}

#[test]
fn a_merge_changes_no_row_and_older_snapshots_none_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("db");
    let database = Database::create(&dir, &options()).unwrap();
    let table = database.create_table(spec()).unwrap();
    let mut loader = table.loader();
    loader.push(words(0..70_000)).unwrap();
    loader.finish().unwrap();
    let mut loader = table.loader();
    loader
        .push(words((0..70_000).map(|number| number % 5_000 + 68_000)))
        .unwrap();
    loader.finish().unwrap();
    settle(&table);
    let before = table.snapshot();
    let old = before.coded_dictionary(0).unwrap();
    assert_eq!(
        (old.len(), old.delta_len()),
        (73_000, 3_000),
        "too few to be merged unasked"
    );
    table.merge_dictionaries().unwrap();
    let new = table.snapshot().coded_dictionary(0).unwrap();
    assert_eq!((new.len(), new.delta_len()), (73_000, 0));
    assert!(new.generation() > old.generation());

    let expected = || {
        let all = (0..70_000).chain((0..70_000).map(|number| number % 5_000 + 68_000));
        sorted(&words(all))
    };
    let eq = Filter::eq(Value::Bytes(word(72_999).as_bytes().into()));
    for snapshot in [&before, &table.snapshot()] {
        assert_eq!(sorted(&scan(snapshot, &[0], &[]).0), expected());
        assert_eq!(scan(snapshot, &[0], &[(0, eq.clone())]).0.num_rows(), 14);
    }
    // New rows go on in the new generation, also after a reopen.
    drop((table, database, before, old, new));
    let database = Database::open(&dir, &options()).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(sorted(&scan(&table.snapshot(), &[0], &[]).0), expected());
    table.append(&[words(90_000..90_010)]).unwrap();
    table.seal().unwrap();
    let eq = Filter::eq(Value::Bytes(word(90_003).as_bytes().into()));
    assert_eq!(scan(&table.snapshot(), &[0], &[(0, eq)]).0.num_rows(), 1);
}
