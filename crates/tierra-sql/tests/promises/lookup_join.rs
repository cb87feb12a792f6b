//! Few rows joined with a table on its primary key look the table's rows up, and get the rows that a hash
//! join gives.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::random::{Random, seed};
use crate::twins::{Twins, rows};

const BIG: i64 = 60_000;

fn big() -> (SchemaRef, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("s", DataType::Utf8View, true),
        Field::new("v", DataType::Int32, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..BIG)),
        Arc::new(StringViewArray::from_iter(
            (0..BIG).map(|id| (id % 9 > 0).then(|| format!("row {id}"))),
        )),
        Arc::new(Int32Array::from_iter(
            (0..BIG).map(|id| (id % 7 > 0).then_some((id % 100) as i32)),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    (schema, batch)
}

/// The key of `pairs` is (a, b).
fn pairs() -> (SchemaRef, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int32, false),
        Field::new("b", DataType::Utf8View, false),
        Field::new("w", DataType::Int64, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(
            (0..BIG as i32).map(|n| n % 300),
        )),
        Arc::new(StringViewArray::from_iter_values(
            (0..BIG).map(|n| format!("b{}", n / 300)),
        )),
        Arc::new(Int64Array::from_iter_values(0..BIG)),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    (schema, batch)
}

/// A hundred rows: NULLs, duplicates, and keys that are nowhere.
fn few() -> (SchemaRef, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int32, false),
        Field::new("k", DataType::Int64, true),
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8View, true),
    ]));
    let numbers = 0..100_i64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..100)),
        Arc::new(Int64Array::from_iter(numbers.clone().map(|n| {
            match n % 10 {
                0 => None,
                1 => Some(BIG + n),
                2 => Some(4_242),
                _ => Some(n * 599),
            }
        }))),
        Arc::new(Int32Array::from_iter(
            numbers
                .clone()
                .map(|n| (n % 8 > 0).then_some((n * 7 % 310) as i32)),
        )),
        Arc::new(StringViewArray::from_iter(
            numbers.map(|n| (n % 11 > 0).then(|| format!("b{}", n % 210))),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    (schema, batch)
}

/// All three tables; fifty rows of `big` lie in the tail.
async fn twins() -> Twins {
    let twins = Twins::new();
    let database = Arc::clone(twins.tierra.database());
    let create = "CREATE TABLE big (id BIGINT PRIMARY KEY, s VARCHAR, v INTEGER); \
                  CREATE TABLE pairs (a INTEGER, b VARCHAR, w BIGINT, PRIMARY KEY (b, a))";
    twins.tierra.execute(create).await.unwrap();
    let (schema, batch) = big();
    let packed = BIG as usize - 50;
    twins.add("big", &schema, &[batch.slice(0, packed)]);
    twins.peer.deregister_table("big").unwrap();
    database.table("big").unwrap().seal().unwrap();
    twins.add_more("big", &schema, &batch, packed);
    let (schema, batch) = pairs();
    twins.add("pairs", &schema, &[batch]);
    database.table("pairs").unwrap().seal().unwrap();
    let (schema, batch) = few();
    twins.add("few", &schema, &[batch]);
    twins
}

async fn plan(twins: &Twins, sql: &str) -> String {
    let explained = twins.tierra.query(&format!("EXPLAIN {sql}")).await.unwrap();
    rows(&explained).join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_every_kind_look_up() {
    let twins = twins().await;
    for (kind, sql) in [
        ("Inner", "SELECT * FROM few JOIN big ON few.k = big.id"),
        (
            "Inner",
            "SELECT big.s, few.n, big.v FROM big JOIN few ON few.k = big.id AND big.v > 50",
        ),
        ("Semi", "SELECT n FROM few JOIN big ON few.k = big.id"),
        (
            "Inner",
            "SELECT few.n, pairs.w FROM few JOIN pairs ON few.a = pairs.a AND few.b = pairs.b",
        ),
        (
            "Inner",
            "SELECT n, s FROM (SELECT n, k + 1 AS m FROM few) JOIN big ON m = id",
        ),
        ("Left", "SELECT * FROM few LEFT JOIN big ON few.k = big.id"),
        (
            "Left",
            "SELECT few.n, big.s FROM big RIGHT JOIN few ON few.k = big.id AND big.v < 30",
        ),
        (
            "Semi",
            "SELECT * FROM few WHERE EXISTS (SELECT 1 FROM big WHERE big.id = few.k AND big.v > 20)",
        ),
        ("Semi", "SELECT n FROM few WHERE k IN (SELECT id FROM big)"),
        (
            "Anti",
            "SELECT * FROM few WHERE NOT EXISTS (SELECT 1 FROM big WHERE big.id = few.k)",
        ),
        (
            "Anti",
            "SELECT n FROM few WHERE NOT EXISTS (SELECT 1 FROM big WHERE big.id = few.k AND big.v < 30)",
        ),
        (
            "TableSemi",
            "SELECT * FROM big WHERE id IN (SELECT k FROM few)",
        ),
        (
            "TableSemi",
            "SELECT v, s FROM big WHERE v > 10 AND id IN (SELECT k FROM few WHERE n > 20)",
        ),
        (
            "TableSemi",
            "SELECT count(*), sum(w) FROM pairs WHERE EXISTS (SELECT 1 FROM few WHERE few.a = pairs.a AND few.b = pairs.b)",
        ),
    ] {
        let plan = plan(&twins, sql).await;
        assert!(
            plan.contains("TierraLookupJoinExec") && plan.contains(&format!("type={kind},")),
            "{sql}\n{plan}"
        );
        twins.compare(kind, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_look_ups_do_not_answer_stay_hash_joins() {
    let twins = twins().await;
    for sql in [
        // Part of the key, another column, more than the key.
        "SELECT count(*) FROM few JOIN pairs ON few.a = pairs.a",
        "SELECT count(*) FROM few JOIN big ON few.a = big.v",
        "SELECT count(*) FROM few JOIN big ON few.k = big.id AND few.a = big.v",
        // All rows of the table are wanted.
        "SELECT count(*) FROM big LEFT JOIN few ON few.k = big.id",
        "SELECT count(*) FROM big FULL JOIN few ON few.k = big.id",
        "SELECT count(*) FROM big WHERE NOT EXISTS (SELECT 1 FROM few WHERE few.k = big.id)",
        // One NULL decides about all rows.
        "SELECT count(*) FROM few WHERE k NOT IN (SELECT id FROM big)",
        // NULL equals NULL.
        "SELECT count(*) FROM few JOIN big ON few.k IS NOT DISTINCT FROM big.id",
        // How few rows a join leaves is guessed too badly.
        "SELECT count(*) FROM pairs JOIN few ON pairs.w = few.n AND few.a = 3 JOIN big ON pairs.w = big.id",
        // Nearly as many rows as the table has.
        "SELECT count(*) FROM pairs JOIN big ON pairs.w = big.id",
    ] {
        let plan = plan(&twins, sql).await;
        assert!(!plan.contains("TierraLookupJoinExec"), "{sql}\n{plan}");
        twins.compare("no lookup", sql).await;
    }
    let sql = "SELECT * FROM few JOIN big ON few.k = big.id";
    twins
        .tierra
        .sql("SET tierra.late_rows = false")
        .await
        .unwrap();
    assert!(!plan(&twins, sql).await.contains("TierraLookupJoinExec"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_counts_the_look_ups() {
    let twins = twins().await;
    let sql =
        "EXPLAIN ANALYZE SELECT big.s, few.n FROM few JOIN big ON few.k = big.id WHERE big.v >= 0";
    let plan = rows(&twins.tierra.query(sql).await.unwrap()).join("\n");
    let join = plan
        .lines()
        .find(|line| line.contains("TierraLookupJoinExec"));
    let join = join.unwrap_or_else(|| panic!("{plan}"));
    for metric in [
        "keys=100",
        "lookups=",
        "suspensions=",
        "cells_near=",
        "cells_far=",
        "output_rows=",
    ] {
        assert!(join.contains(metric), "{metric}\n{join}");
    }
}

fn query(random: &mut Random) -> String {
    let few = format!(
        "(SELECT * FROM few WHERE n BETWEEN {} AND {}) f",
        random.below(50),
        50 + random.below(50)
    );
    let filter = random.one_of(&[
        "",
        "AND t.v > 40",
        "AND t.v IS NULL",
        "AND t.s LIKE 'row 4%'",
        "AND t.id < 0",
    ]);
    let join = random.one_of(&["JOIN", "LEFT JOIN"]);
    match random.below(5) {
        0 => format!("SELECT t.* FROM big t WHERE t.id IN (SELECT k FROM {few}) {filter}"),
        1 => format!(
            "SELECT f.* FROM {few} WHERE EXISTS (SELECT 1 FROM big t WHERE t.id = f.k {filter})"
        ),
        2 => format!(
            "SELECT f.* FROM {few} WHERE NOT EXISTS (SELECT 1 FROM big t WHERE t.id = f.k {filter})"
        ),
        3 => format!(
            "SELECT f.n, p.w, t.s FROM {few} {join} pairs p ON p.a = f.a AND p.b = f.b JOIN big t ON t.id = p.w {filter}"
        ),
        _ => format!(
            "SELECT f.n, t.s, t.v, t.id FROM {few} {join} big t ON t.id = f.k {filter} ORDER BY f.n LIMIT 17"
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_joins_answer_as_datafusion_does() {
    let seed = seed();
    let mut random = Random(seed);
    let twins = twins().await;
    for _ in 0..60 {
        let mode = random.one_of(&["auto", "plain", "interleaved"]);
        let batch_rows = random.one_of(&[7, 64, 8192]);
        let set = format!("SET tierra.execution = '{mode}'; SET tierra.batch_rows = {batch_rows}");
        twins.tierra.execute(&set).await.unwrap();
        let sql = query(&mut random);
        twins.compare(&format!("TIERRA_SEED={seed}"), &sql).await;
    }
}
