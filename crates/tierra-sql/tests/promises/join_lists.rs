//! A join whose build side is short hands the scan of its other side a list of keys: the scan looks them up, in
//! the index where there is one, and the rows stay those that DataFusion yields.
//!
//! A failure prints its seed; `TIERRA_SEED=n` replays it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::random::{Random, seed};
use crate::twins::{Twins, rows};

const ROWS: usize = 40_000;
const JOINS: usize = 60;
/// Of the tables; the first ones may equal each other across types.
const COLUMNS: [&str; 6] = ["i", "l", "p", "f", "d", "s"];
const JOIN_TYPES: [&str; 8] = [
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "RIGHT SEMI JOIN",
    "RIGHT ANTI JOIN",
];
/// Each thread builds its own part of the build side, however short.
const PARTITIONED: &str = "SET datafusion.optimizer.hash_join_single_partition_threshold = 0; \
     SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0";

fn schema() -> SchemaRef {
    let column = |name: &str, ty| Field::new(name, ty, true);
    Arc::new(Schema::new(vec![
        column("i", DataType::Int32),
        column("l", DataType::Int64),
        column("p", DataType::Decimal128(12, 2)),
        column("f", DataType::Float64),
        column("d", DataType::Date32),
        column("s", DataType::Utf8View),
    ]))
}

/// Rows whose columns have values below `distinct`, one in twelve NULL.
fn random_rows(random: &mut Random, count: usize, distinct: u64) -> RecordBatch {
    let mut column = || -> Vec<Option<i32>> {
        let value = |_| (random.below(12) > 0).then(|| random.below(distinct) as i32);
        (0..count).map(value).collect()
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(column())),
        Arc::new(Int64Array::from_iter(
            column().into_iter().map(|v| v.map(i64::from)),
        )),
        Arc::new(
            Decimal128Array::from_iter(column().into_iter().map(|v| v.map(|v| i128::from(v) * 50)))
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(Float64Array::from_iter(
            column().into_iter().map(|v| v.map(f64::from)),
        )),
        Arc::new(Date32Array::from(column())),
        Arc::new(StringViewArray::from_iter(
            column()
                .into_iter()
                .map(|v| v.map(|v| format!("the key {v}"))),
        )),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn random_join(random: &mut Random) -> String {
    let mut conditions = Vec::new();
    for _ in 0..1 + random.below(2) {
        let column = random.below(COLUMNS.len() as u64) as usize;
        // Numbers of one type with those of another.
        let other = match column {
            0..3 if random.below(3) == 0 => random.below(3) as usize,
            _ => column,
        };
        let equal = match random.below(6) {
            0 => "IS NOT DISTINCT FROM",
            _ => "=",
        };
        // DataFusion's parser would take what follows IS NOT DISTINCT FROM into it.
        conditions.push(format!(
            "(x.{} {equal} y.{})",
            COLUMNS[column], COLUMNS[other]
        ));
    }
    let on = conditions.join(" AND ");
    let few = random.below(40);
    let build = match random.below(8) {
        0 => "(SELECT * FROM y WHERE i > 1000000)".to_string(),
        1 => "y".to_string(),
        _ => format!("(SELECT * FROM y WHERE i < {few} OR l < {few})"),
    };
    let column = random.one_of(&COLUMNS);
    if random.below(6) == 0 {
        let not = random.one_of(&["", "NOT "]);
        return format!(
            "SELECT count(*), count(i) FROM x WHERE {column} {not}IN (SELECT {column} FROM {build} y)"
        );
    }
    let join = random.one_of(&JOIN_TYPES);
    let side = if join.starts_with("RIGHT S") || join.starts_with("RIGHT A") {
        "y"
    } else {
        "x"
    };
    format!(
        "SELECT count(*), count({side}.i), sum({side}.l), min({side}.s) FROM x {join} {build} y ON {on}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_joins_yield_the_rows_that_datafusion_yields() {
    let seed = seed();
    let mut random = Random(seed);
    let twins = Twins::new();
    let create = "CREATE TABLE x (i INTEGER, l BIGINT, p DECIMAL(12, 2), f DOUBLE, d DATE, s VARCHAR) \
         WITH ('i.index' = 'inverted', 'l.encoding' = 'for', 'p.encoding' = 'dictionary', \
         's.index' = 'inverted')";
    twins.tierra.execute(create).await.unwrap();
    for (name, count, distinct) in [("x", ROWS, 3_000), ("y", 300, 4_000)] {
        let rows = random_rows(&mut random, count, distinct);
        twins.add(name, &schema(), &[rows]);
        twins.tierra.database().table(name).unwrap().seal().unwrap();
    }
    twins.tierra.database().wait_for_near_copies().unwrap();
    for number in 0..JOINS {
        if number == JOINS / 2 {
            twins.tierra.execute(PARTITIONED).await.unwrap();
        }
        let join = random_join(&mut random);
        let what = format!("TIERRA_SEED={seed} join {number}");
        twins.compare(&what, &join).await;
    }
}

/// `fact (i, l, s, v)` with ten rows of each of 7,000 keys, `dim (i, l, s)` with the first of them.
async fn star() -> Twins {
    let twins = Twins::new();
    let create = "CREATE TABLE fact (i INTEGER, l BIGINT, s VARCHAR, v BIGINT) \
             WITH ('i.index' = 'inverted', 's.index' = 'inverted'); \
         INSERT INTO fact SELECT k * 300007, k, concat('key ', k), value FROM \
             (SELECT value, value * 7919 % 70000 / 10 AS k FROM generate_series(0, 69999)); \
         CREATE TABLE dim (i INTEGER, l BIGINT, s VARCHAR); \
         INSERT INTO dim SELECT l * 300007, l, concat('key ', l) FROM \
             (SELECT value AS l FROM generate_series(0, 2000))";
    twins.tierra.execute(create).await.unwrap();
    twins.tierra.database().wait_for_near_copies().unwrap();
    twins
}

async fn text(twins: &Twins, sql: &str) -> String {
    rows(&twins.tierra.query(sql).await.unwrap()).join("\n")
}

/// What the scan of `fact` says that it did.
async fn scan_of_fact(twins: &Twins, sql: &str) -> String {
    let plan = text(twins, &format!("EXPLAIN ANALYZE {sql}")).await;
    let scan = plan.lines().find(|line| line.contains("table=fact"));
    scan.unwrap_or_else(|| panic!("{plan}")).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_a_short_build_side_are_looked_up_in_the_index() {
    let twins = star().await;
    // Of an index one lookup for each key, and one for its rows.
    for (on, is_indexed) in [
        ("fact.i = dim.i", true),
        ("fact.s = dim.s", true),
        ("fact.i = CAST(dim.i AS BIGINT)", true),
        ("fact.i = dim.i AND fact.s = dim.s", false),
        ("fact.l = dim.l", false),
    ] {
        let join = format!(
            "SELECT count(*), sum(v) FROM fact JOIN (SELECT * FROM dim WHERE l % 200 = 77) dim ON {on}"
        );
        for setting in ["SELECT 1", PARTITIONED] {
            twins.tierra.execute(setting).await.unwrap();
            let scan = scan_of_fact(&twins, &join).await;
            let is_found = !scan.contains("index_lookups=0");
            assert_eq!(is_found, is_indexed, "{on}: {scan}");
            let found = text(&twins, &join).await;
            let off = "SET datafusion.optimizer.enable_join_dynamic_filter_pushdown";
            twins
                .tierra
                .execute(&format!("{off} = false"))
                .await
                .unwrap();
            assert_eq!(found, text(&twins, &join).await, "{on}");
            twins
                .tierra
                .execute(&format!("{off} = true"))
                .await
                .unwrap();
        }
        let back = "SET datafusion.optimizer.hash_join_single_partition_threshold = 1000000; \
             SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 100000";
        twins.tierra.execute(back).await.unwrap();
    }
}
