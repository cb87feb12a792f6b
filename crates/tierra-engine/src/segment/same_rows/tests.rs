//! A column of which scans and lookups read different replicas.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use tierra_column::{Encoding, LogicalType};
use tierra_memory::placement::LineTimes;

use crate::segment::Segment;
use crate::support::options;
use crate::{ColumnSpec, Database, DatabaseOptions, Replicas, Table, TableSpec};

const ROWS: i64 = 5000;

/// A segment whose column 0 is scanned in one replica and looked up in the other, and whose column 1 has one. It is opened anew, so that
/// nothing is verified yet, and nothing is near.
fn opened(dir: &tempfile::TempDir) -> (Arc<Database>, Arc<Table>) {
    let db = dir.path().join("db");
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        // It verifies as well.
        scrub_bytes_per_s: Some(0),
        ..options()
    };
    let database = Database::create(&db, &options).unwrap();
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: ["n", "m"]
            .map(|name| ColumnSpec::new(name, LogicalType::BigInt))
            .into(),
        primary_key: Vec::new(),
    };
    let of_n = ["far/dynamic", "far/static"].map(str::to_owned);
    let replicas = Replicas {
        table: vec!["far".to_owned()],
        columns: [("n".to_owned(), of_n.into())].into(),
    };
    let table = database.create_table_in(spec, replicas).unwrap();
    // Few values are large.
    let numbers = (0..ROWS).map(|at| if at % 1000 == 0 { 1 << 40 } else { at % 7 });
    let numbers = Arc::new(Int64Array::from_iter_values(numbers));
    let batch = RecordBatch::try_new(table.schema(), vec![numbers.clone(), numbers]).unwrap();
    table.append(&[batch]).unwrap();
    table.seal().unwrap();
    database.wait_for_near_copies().unwrap();
    drop((table, database));
    let database = Database::open(&db, &options).unwrap();
    database.wait_for_near_copies().unwrap();
    let table = database.table("t").unwrap();
    (database, table)
}

fn segment(table: &Table) -> Arc<Segment> {
    table.current().segments[0].clone()
}

#[test]
fn headers_are_shared_and_what_was_verified_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let (_database, table) = opened(&dir);
    let (segment, spec) = (segment(&table), table.spec());
    let looked_up = segment.for_lookups();
    let encodings = [segment.encoding(0), looked_up.encoding(0)];
    assert_eq!(encodings, [Encoding::Dynamic, Encoding::Static].map(Some));
    for (slot, other) in [(0, 2), (1, 1), (2, 0)] {
        let (here, there) = (segment.chunk_headers(), looked_up.chunk_headers());
        assert!(std::ptr::eq(here.of(slot), there.of(other)));
    }
    segment.verify(spec, 0, 0).unwrap();
    segment.verify(spec, 1, 1).unwrap();
    looked_up.verify(spec, 0, 2).unwrap();
    let again = segment
        .with_extents(segment.extents().to_vec(), spec)
        .unwrap();
    let verified = |of: &Segment, column| {
        let blocks = (0..of.blocks()).filter(|block| of.verified.contains(*block, column));
        blocks.collect::<Vec<_>>()
    };
    assert_eq!([verified(&again, 0), verified(&again, 1)], [[0], [1]]);
    let looked_up = again.for_lookups();
    assert_eq!([verified(looked_up, 0), verified(looked_up, 1)], [[2], [1]]);
}

#[test]
fn lookups_elsewhere_make_no_case_for_a_near_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (database, table) = opened(&dir);
    let counts = |column: usize| {
        let segment = segment(&table);
        let looked_up = segment.for_lookups();
        Arc::ptr_eq(&segment.uses()[column], &looked_up.uses()[column])
    };
    assert_eq!([counts(0), counts(1)], [false, true]);
    // Where far memory is slow, a near copy would serve lookups as well.
    let before = segment(&table).for_lookups().encoding(0);
    database.storage().tiers().open[0]
        .lines
        .set(Some(LineTimes {
            in_order_ns: 5.0,
            alone_ns: 1000.0,
            shared_ns: 0.0,
        }));
    database.choose_replicas().unwrap();
    assert_eq!(segment(&table).for_lookups().encoding(0), before);
    assert_eq!([counts(0), counts(1)], [true, true]);
}
