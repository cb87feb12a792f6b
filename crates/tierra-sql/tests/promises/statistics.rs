//! The planner is told about how many distinct values a column has, from chunks and the tail alike. A span of integers is no count:
//! dates written as integers span 60,701 of which 2,406 are there.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};

use crate::twins::{Twins, rows};

const DAYS: usize = 2_406;

/// Rows with few days, many keys, 50 prices, and about 2,000 names.
fn sales(rows: std::ops::Range<usize>) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("day", DataType::Int32, true),
        Field::new("key", DataType::Int64, false),
        Field::new("price", DataType::Float64, false),
        Field::new("name", DataType::Utf8View, false),
    ]);
    let day = |row: usize| {
        let day = row % DAYS;
        (row % 9 != 4)
            .then_some((19_920_101 + day / 372 * 10_000 + day / 31 % 12 * 100 + day % 31) as i32)
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter(rows.clone().map(day))),
        Arc::new(Int64Array::from_iter_values(
            rows.clone().map(|row| row as i64 * 1_000_003),
        )),
        Arc::new(Float64Array::from_iter_values(
            rows.clone().map(|row| (row % 50) as f64 * 0.01),
        )),
        Arc::new(StringViewArray::from_iter_values(
            rows.map(|row| format!("name {}", row * row % 3_989)),
        )),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values_are_counted_not_taken_from_the_bounds() {
    let twins = Twins::new();
    let session = &twins.tierra;
    session
        .sql("SET datafusion.explain.show_statistics = true")
        .await
        .unwrap();
    let all = sales(0..90_000);
    twins.add("sales", &all.schema(), &[all.slice(0, 80_000)]);
    twins.peer.deregister_table("sales").unwrap();
    twins.add_more("sales", &all.schema(), &all, 80_000);
    let snapshot = session.database().table("sales").unwrap().snapshot();
    assert_eq!(
        (snapshot.segments().len(), snapshot.tail_rows()),
        (1, 10_000)
    );
    let names = (0..90_000_usize).map(|row| row * row % 3_989);
    let names = names.collect::<std::collections::HashSet<_>>().len();
    for (column, distinct) in [
        ("day", DAYS),
        ("key", 90_000),
        ("price", 50),
        ("name", names),
    ] {
        let plan = session
            .query(&format!("EXPLAIN SELECT {column} FROM sales"))
            .await;
        let plan = rows(&plan.unwrap()).join("\n");
        let told = plan
            .split("Distinct=Inexact(")
            .nth(1)
            .and_then(|rest| rest.split(')').next());
        let told: f64 = told.unwrap_or_else(|| panic!("{plan}")).parse().unwrap();
        let off = (told - distinct as f64).abs();
        assert!(
            off <= 0.13 * distinct as f64,
            "{column}: {told} of {distinct}"
        );
    }
}
