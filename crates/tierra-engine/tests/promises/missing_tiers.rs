//! Promise: what lies in a missing tier alone waits for it, and takes nothing else along. A tier whose file was cut short has its end again
//! where others have what lay there.

use std::fs::{self, File};
use std::sync::Arc;

use crate::replicated::{Place, check, fill, indexed};
use crate::support::{self, all_rows, rows, sorted};
use tierra_engine::{Fault, FaultKind, Replicas, ScrubOptions, TierError};

/// The only tier of some columns is missing: the other columns answer, a query that needs one of these gets an error, and no data is lost.
#[test]
fn a_column_whose_only_tier_is_missing_takes_nothing_along() {
    const PRICE: usize = 3;
    let place = Place::new();
    let database = place.create(&["b"]);
    // A chunk of numbers, and one of codes with an index.
    let alone = ["price", "city"].map(|column| (column.to_owned(), vec!["b".to_owned()]));
    let replicas = Replicas {
        table: vec!["far".to_owned()],
        columns: alone.into(),
    };
    let table = database.create_table_in(indexed("t"), replicas).unwrap();
    let count = fill(&table, 0);
    let others = Replicas::of_table(["far"]);
    let other = database.create_table_in(indexed("other"), others).unwrap();
    let others = fill(&other, 0);
    database.wait_for_near_copies().unwrap();
    drop((table, other, database));
    place.take_away("b");
    for round in 0..2 {
        let database = place.open();
        let other = database.table("other").unwrap();
        other
            .append(&[rows(others + round..others + round + 1)])
            .unwrap();
        other.seal().unwrap();
        database.wait_for_near_copies().unwrap();
        let table = database.table("t").unwrap();
        let snapshot = table.snapshot();
        table.check_available().unwrap();
        assert_eq!(snapshot.rows(), count as u64);

        let is_there = |column: &usize| ![PRICE, support::CITY].contains(column);
        let there: Vec<usize> = (0..table.spec().columns.len()).filter(is_there).collect();
        let expected = rows(0..count).project(&there).unwrap();
        assert_eq!(sorted(&support::scan(&snapshot, &there, &[]).0), expected);
        let by_id = |id: i64| {
            let id = tierra_column::ordinal::of_i64(id);
            (
                0,
                tierra_column::Filter::eq(tierra_column::Value::Ordinal(id)),
            )
        };
        let (found, _) = support::scan(&snapshot, &there, &[by_id(66_450)]);
        assert_eq!(found, expected.slice(66_450, 1));
        assert_eq!(
            support::scan(&snapshot, &[], &[]).0.num_rows() as i64,
            count
        );
        assert!(snapshot.statistics(PRICE).lacks_rows);
        assert!(!snapshot.statistics(0).lacks_rows);

        let told = |error: String, column: Option<&str>| {
            let pool = place.pool("b");
            let says = [
                "table \"t\"",
                "\"b\"",
                "bring the file back",
                pool.to_str().unwrap(),
            ];
            for part in says.into_iter().chain(column) {
                assert!(error.contains(part), "{part}: {error}");
            }
        };
        let scan = |projection: &[usize], filters: &[(usize, tierra_column::Filter)]| {
            let scan = snapshot.scan(tierra_engine::ScanSpec {
                projection: projection.to_vec(),
                filters: filters.to_vec(),
                batch_rows: 8192,
                execution: tierra_interleave::Scheduling::Auto,
            });
            let mut cursor = scan.cursor();
            let mut found = 0;
            while let Some(batch) = cursor.next(&[], 0)? {
                found += batch.num_rows();
            }
            Ok::<_, tierra_engine::ScanError>(found)
        };
        told(
            scan(&[0, PRICE], &[]).unwrap_err().to_string(),
            Some("\"price\""),
        );
        // Even of what a header would know.
        let counted = tierra_engine::ScanSpec {
            projection: vec![PRICE],
            filters: vec![],
            batch_rows: 8192,
            execution: tierra_interleave::Scheduling::Auto,
        };
        let counted = snapshot.scan_totals(counted, vec![tierra_column::WantedTotals::default()]);
        let error = counted.cursor().next_totals(&[], 0).unwrap_err();
        told(error.to_string(), Some("\"price\""));
        let is_null = (PRICE, tierra_column::Filter::is_null());
        let error = scan(&[0], std::slice::from_ref(&is_null)).unwrap_err();
        told(error.to_string(), Some("\"price\""));
        let city = tierra_column::Value::Bytes("city number 007".as_bytes().into());
        let of_city = (support::CITY, tierra_column::Filter::eq(city));
        let error = scan(&[0], std::slice::from_ref(&of_city)).unwrap_err();
        told(error.to_string(), Some("\"city\""));
        // In the tail all columns are there, and what other conditions rule out is not needed.
        assert_eq!(scan(&[0, PRICE], &[by_id(66_450)]).unwrap(), 1);
        assert_eq!(scan(&[0], &[by_id(66_450), is_null]).unwrap(), 0);
        assert_eq!(scan(&[0], &[by_id(-1), of_city]).unwrap(), 0);

        let keys: arrow::array::ArrayRef =
            Arc::new(arrow::array::Int64Array::from(vec![5, 66_450]));
        let mut lookups = tierra_interleave::Lookups::new(tierra_interleave::Scheduling::Auto);
        let found = snapshot.rows_by_key(&[keys], &mut lookups).unwrap();
        let found: Vec<_> = found.into_iter().flatten().collect();
        let cells = |columns: &[usize]| {
            let projection = table.projection(columns);
            let mut lookups = tierra_interleave::Lookups::new(tierra_interleave::Scheduling::Auto);
            snapshot.gather(&found, &projection, &mut lookups).map(drop)
        };
        cells(&there).unwrap();
        told(
            cells(&[0, PRICE]).unwrap_err().to_string(),
            Some("\"price\""),
        );

        // What is written is checked against what is there, and names it.
        told(
            table
                .append(&[rows(count..count + 1)])
                .unwrap_err()
                .to_string(),
            None,
        );
        told(table.seal().unwrap_err().to_string(), None);
        told(table.merge_dictionaries().unwrap_err().to_string(), None);
        let mut loader = table.loader();
        let loaded = loader.push(rows(count..count + 66_000));
        told(
            loaded
                .and_then(|()| loader.finish())
                .unwrap_err()
                .to_string(),
            None,
        );
        database.make_copies().unwrap();
        let scrubbed = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!((scrubbed.damaged_copies, scrubbed.lost), (0, vec![]));
    }
    place.bring_back("b");
    let database = place.open();
    check(&database, count);
    let table = database.table("t").unwrap();
    table.append(&[rows(count..count + 5)]).unwrap();
    check(&database, count + 5);
    let other = database.table("other").unwrap();
    assert_eq!(all_rows(&other), rows(0..others + 2));
}

/// A table whose only tier is missing: the others go on, it can be dropped, and it is there again with its tier.
#[test]
fn a_table_whose_only_tier_is_missing_waits_for_it() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let of_b = |name: &str| {
        let table = database.create_table_in(indexed(name), Replicas::of_table(["b"]));
        table.unwrap()
    };
    let (gone, dropped) = (of_b("gone"), of_b("dropped"));
    let count = fill(&gone, 0);
    dropped.append(&[rows(0..10)]).unwrap();
    let table = database
        .create_table_in(indexed("t"), Replicas::of_table(["far"]))
        .unwrap();
    let others = fill(&table, 0);
    drop((gone, dropped, table, database));
    place.take_away("b");
    for round in 0..2 {
        let database = place.open();
        check(&database, others + round);
        let gone = database.table("gone").unwrap();
        let told = |error: String| {
            let says = |part: &str| assert!(error.contains(part), "{error}");
            ["gone", "\"b\"", "drop the table"]
                .into_iter()
                .for_each(says);
            says(place.pool("b").to_str().unwrap());
        };
        told(gone.check_available().unwrap_err().to_string());
        told(gone.append(&[rows(0..1)]).unwrap_err().to_string());
        told(gone.seal().unwrap_err().to_string());
        let keys: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1]));
        let mut lookups = tierra_interleave::Lookups::new(tierra_interleave::Scheduling::Auto);
        let found = gone.snapshot().rows_by_key(&[keys], &mut lookups);
        told(found.unwrap_err().to_string());
        let scan = gone.snapshot().scan(tierra_engine::ScanSpec {
            projection: vec![],
            filters: vec![],
            batch_rows: 8192,
            execution: tierra_interleave::Scheduling::Auto,
        });
        told(scan.cursor().next(&[], 0).unwrap_err().to_string());
        // Much is published meanwhile, and nothing of it forgotten.
        let table = database.table("t").unwrap();
        table
            .append(&[rows(others + round..others + round + 1)])
            .unwrap();
        table.seal().unwrap();
        if round == 0 {
            database.drop_table("dropped").unwrap();
            assert!(matches!(
                database.drop_tier("b").unwrap_err(),
                TierError::InUse { .. }
            ));
        }
        database.make_copies().unwrap();
        let scrubbed = database.scrub(&tierra_engine::ScrubOptions::default(), |_| {});
        assert_eq!(scrubbed.unwrap().damaged_copies, 0);
    }
    place.bring_back("b");
    let database = place.open();
    check(&database, others + 2);
    assert_eq!(database.tables(), ["gone", "t"]);
    let gone = database.table("gone").unwrap();
    assert_eq!(all_rows(&gone), rows(0..count));
    gone.append(&[rows(count..count + 5)]).unwrap();
    drop((gone, database));
    let database = place.open();
    assert_eq!(
        all_rows(&database.table("gone").unwrap()),
        rows(0..count + 5)
    );
}

/// A tier's file loses its end, while the database is closed or while it is open and unused: the end is restored, with what lay
/// there.
#[test]
fn a_tier_that_is_cut_short_has_its_end_again() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let replicas = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(indexed("t"), replicas).unwrap();
    let count = fill(&table, 0);
    drop((table, database));
    for (victim, other) in [("far", "b"), ("b", "far")] {
        let len_bytes = fs::metadata(place.pool(victim)).unwrap().len();
        let cut = |to: u64| {
            let file = File::options().write(true).open(place.pool(victim));
            file.unwrap().set_len(to).unwrap();
        };
        // From nothing that lies there to nearly everything.
        for to in [len_bytes - 1, len_bytes / 8 + 100, 16_384] {
            for is_open in [true, false] {
                println!("{victim} cut to {to}, while open: {is_open}");
                let database = if is_open {
                    let database = place.open();
                    check(&database, count);
                    cut(to);
                    database
                } else {
                    cut(to);
                    place.open()
                };
                assert_eq!(database.missing_tiers(), []);
                let scrubbed = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
                assert_eq!(scrubbed.lost, []);
                check(&database, count);
                let (faults, totals) = database.faults();
                let is_cut = |fault: &&Fault| fault.kind == FaultKind::CutShort;
                assert_eq!(faults.iter().filter(is_cut).count(), 1, "{faults:?}");
                assert_eq!(totals.lost, 0);
                assert!(fs::metadata(place.pool(victim)).unwrap().len() >= len_bytes);
                database.wait_for_near_copies().unwrap();
                let again = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
                assert_eq!((again.damaged_copies, again.lost), (0, vec![]));
                drop(database);
                place.take_away(other);
                check(&place.open(), count);
                place.bring_back(other);
                place.open().wait_for_near_copies().unwrap();
            }
        }
    }
}

/// What lay at the end of a tier alone may still be had back: the file is left as it is, and the tier named.
#[test]
fn a_tier_that_is_cut_short_of_what_it_has_alone_is_missing() {
    let place = Place::new();
    let database = place.create(&["b"]);
    let both = Replicas::of_table(["far", "b"]);
    let table = database.create_table_in(indexed("t"), both).unwrap();
    let count = fill(&table, 0);
    let alone = Replicas::of_table(["b"]);
    let only = database.create_table_in(indexed("alone"), alone).unwrap();
    fill(&only, 0);
    drop((table, only, database));
    let whole = fs::read(place.pool("b")).unwrap();
    let file = File::options().write(true).open(place.pool("b")).unwrap();
    file.set_len(16_384).unwrap();
    let database = place.open();
    let missing = database.missing_tiers();
    assert!(missing[0].1.contains("truncated"), "{missing:?}");
    assert!(database.table("alone").unwrap().check_available().is_err());
    check(&database, count);
    assert_eq!(fs::metadata(place.pool("b")).unwrap().len(), 16_384);
    drop(database);
    fs::write(place.pool("b"), whole).unwrap();
    let database = place.open();
    assert_eq!(
        all_rows(&database.table("alone").unwrap()).num_rows() as i64,
        count
    );
}
