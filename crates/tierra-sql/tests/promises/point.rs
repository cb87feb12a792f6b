//! Point queries are planned once, and keys are looked up, not scanned for.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
use tierra_column::LogicalType;
use tierra_data::Part;
use tierra_data::wide::Wide;
use tierra_engine::{ColumnSpec, TableSpec};

use crate::twins::{Twins, rows};

const ROWS: u32 = 4_000;
const COLUMNS: u32 = 1_000;

/// A table of many columns whose first is the key.
fn wide(twins: &Twins) -> Wide {
    let wide = Wide::new(ROWS, COLUMNS);
    let columns = wide
        .schema()
        .fields()
        .iter()
        .map(|field| ColumnSpec::new(field.name(), LogicalType::Integer).not_null())
        .collect();
    let spec = TableSpec {
        name: "wide".to_string(),
        columns,
        primary_key: vec![0],
    };
    let table = twins.tierra.database().create_table(spec).unwrap();
    let mut loader = table.loader();
    for batch in wide.generate(Part::WHOLE, 1024) {
        loader.push(batch).unwrap();
    }
    loader.finish().unwrap();
    table.seal().unwrap();
    wide
}

fn integers(batch: &RecordBatch, row: usize) -> Vec<i32> {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;
    batch
        .columns()
        .iter()
        .map(|column| column.as_primitive::<Int32Type>().value(row))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn execute_never_plans_again() {
    let twins = Twins::new();
    let wide = wide(&twins);
    let session = &twins.tierra;
    session
        .sql("PREPARE p AS SELECT * FROM wide WHERE c0 = $1")
        .await
        .unwrap_or_else(|error| panic!("{error}: {}", Wide::column_name(0)));
    let planned = session.statements_planned();
    let mut best = f64::MAX;
    for row in (0..ROWS).step_by(40) {
        let key = wide.cell(row, 0);
        let start = Instant::now();
        let batches = session.query(&format!("EXECUTE p({key})")).await.unwrap();
        best = best.min(start.elapsed().as_secs_f64());
        assert_eq!(batches[0].num_rows(), 1);
        let expected: Vec<i32> = (0..COLUMNS).map(|column| wide.cell(row, column)).collect();
        assert_eq!(integers(&batches[0], 0), expected);
    }
    assert_eq!(
        session.statements_planned(),
        planned,
        "EXECUTE went through a planner"
    );
    assert!(best < 0.005, "a row of {COLUMNS} columns took {best} s");

    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..100).map(|row| wide.cell(row, 0)),
    ));
    let batch = session.execute_prepared("p", &[keys]).unwrap();
    assert_eq!(batch.num_rows(), 100);
    assert_eq!(session.statements_planned(), planned);
    let key = f64::from(wide.cell(5, 0));
    for (key, expected) in [(key, Some(1)), (key + 0.5, None), (1e300, None)] {
        let keys: ArrayRef = Arc::new(Float64Array::from(vec![key]));
        let found = session.execute_prepared("p", &[keys]);
        assert_eq!(found.ok().map(|rows| rows.num_rows()), expected, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_looked_up_in_every_mode() {
    let twins = Twins::new();
    let wide = wide(&twins);
    let (one, two) = (wide.cell(17, 0), wide.cell(3_999, 0));
    for mode in ["auto", "plain", "interleaved"] {
        twins
            .tierra
            .sql(&format!("SET tierra.execution = '{mode}'"))
            .await
            .unwrap();
        let plan = twins
            .tierra
            .query(&format!("EXPLAIN SELECT c1 FROM wide WHERE c0 = {one}"))
            .await
            .unwrap();
        assert!(
            rows(&plan).join("\n").contains(&format!(
                "TierraPointExec: table=wide, keys=1, columns=1, {mode}"
            )),
            "{plan:?}"
        );
        let found = twins
            .tierra
            .query(&format!(
                "SELECT c1, c999 FROM wide WHERE c0 IN ({two}, {one}) AND c1 <> -1"
            ))
            .await
            .unwrap();
        let mut found = rows(&found);
        found.sort();
        let mut expected = vec![
            format!("{}|{}", wide.cell(17, 1), wide.cell(17, 999)),
            format!("{}|{}", wide.cell(3_999, 1), wide.cell(3_999, 999)),
        ];
        expected.sort();
        assert_eq!(found, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_can_be_explained_with_its_arguments() {
    let twins = Twins::new();
    let session = &twins.tierra;
    for statement in [
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "PREPARE above(INTEGER) AS SELECT sum(x) FROM t WHERE x > $1",
    ] {
        session.sql(statement).await.unwrap();
    }
    for (statement, expected) in [
        ("EXPLAIN EXECUTE above(15)", "TierraScanExec"),
        ("EXPLAIN EXECUTE above(15)", "x > Int32(15)"),
        ("EXPLAIN ANALYZE EXECUTE above(15)", "output_rows=1"),
    ] {
        let plan = rows(&session.query(statement).await.unwrap()).join("\n");
        assert!(plan.contains(expected), "{statement}: {plan}");
    }
}
