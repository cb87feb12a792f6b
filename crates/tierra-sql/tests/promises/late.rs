//! A query that takes few rows of many reads the columns that only travel to its result last, and answers
//! as if it had read them first.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, IndexKind, TableSpec};
use tierra_sql::Outcome;

use crate::random::{Random, seed};
use crate::twins::{Twins, rows};

/// Rows of `items`: enough for two partitions.
const ITEMS: i64 = 40_000;
/// Rows of `owners`; the items of owners beyond have none.
const OWNERS: i64 = 3_000;

fn items() -> (SchemaRef, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("owner", DataType::Int32, true),
        Field::new("price", DataType::Float64, false),
        Field::new("name", DataType::Utf8View, false),
        Field::new("note", DataType::Utf8View, true),
        Field::new("v", DataType::Int32, true),
    ]));
    let mixed = |id: i64| id * 7919 % 10_007;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..ITEMS)),
        Arc::new(Int32Array::from_iter(
            (0..ITEMS).map(|id| (id % 11 > 0).then_some((id % (OWNERS + 500)) as i32)),
        )),
        Arc::new(Float64Array::from_iter_values(
            (0..ITEMS).map(|id| mixed(id) as f64 / 4.0),
        )),
        Arc::new(StringViewArray::from_iter_values(
            (0..ITEMS).map(|id| format!("the item with number {id}")),
        )),
        Arc::new(StringViewArray::from_iter(
            (0..ITEMS).map(|id| (id % 3 > 0).then(|| format!("note {}", id % 100))),
        )),
        Arc::new(Int32Array::from_iter(
            (0..ITEMS).map(|id| (id % 7 > 0).then_some((id % 1000) as i32)),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    (schema, batch)
}

fn owners() -> (SchemaRef, RecordBatch) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("city", DataType::Utf8View, false),
        Field::new("street", DataType::Utf8View, true),
        Field::new("rank", DataType::Int32, false),
    ]));
    let ids = 0..OWNERS as i32;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(ids.clone())),
        Arc::new(StringViewArray::from_iter_values(
            ids.clone().map(|id| format!("city number {}", id % 40)),
        )),
        Arc::new(StringViewArray::from_iter(
            ids.clone()
                .map(|id| (id % 5 > 0).then(|| format!("street {id}"))),
        )),
        Arc::new(Int32Array::from_iter_values(ids.map(|id| id * 31 % 997))),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    (schema, batch)
}

/// Both tables, packed but for the last hundred items.
async fn twins() -> Twins {
    let twins = Twins::new();
    let create = "CREATE TABLE items (id BIGINT PRIMARY KEY, owner INTEGER, price DOUBLE, name VARCHAR, note VARCHAR, v INTEGER)";
    twins.tierra.sql(create).await.unwrap();
    let (schema, batch) = items();
    let packed = ITEMS as usize - 100;
    twins.add("items", &schema, &[batch.slice(0, packed)]);
    twins.peer.deregister_table("items").unwrap();
    let database = Arc::clone(twins.tierra.database());
    database.table("items").unwrap().seal().unwrap();
    twins.add_more("items", &schema, &batch, packed);
    let create =
        "CREATE TABLE owners (id INTEGER PRIMARY KEY, city VARCHAR, street VARCHAR, rank INTEGER)";
    twins.tierra.sql(create).await.unwrap();
    let (schema, batch) = owners();
    twins.add("owners", &schema, &[batch]);
    database.table("owners").unwrap().seal().unwrap();
    twins
}

async fn text(twins: &Twins, sql: &str) -> String {
    rows(&twins.tierra.query(sql).await.unwrap()).join("\n")
}

async fn plan(twins: &Twins, sql: &str) -> String {
    text(twins, &format!("EXPLAIN {sql}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_k_reads_other_columns_of_the_rows_that_are_left() {
    let twins = twins().await;
    let sql = "SELECT * FROM items WHERE v > 10 ORDER BY price DESC, id LIMIT 20";
    let plan = plan(&twins, sql).await;
    assert!(
        plan.contains("TierraFetchExec: table=items, columns=[owner, name, note, v]"),
        "{plan}"
    );
    assert!(
        plan.contains("TierraScanExec: table=items, columns=[id, price, row id], filters=[v@5 > 10], dynamic=["),
        "{plan}"
    );
    twins.compare("top-k", sql).await;
    let analyzed = text(&twins, &format!("EXPLAIN ANALYZE {sql}")).await;
    let fetch = analyzed
        .lines()
        .find(|line| line.contains("TierraFetchExec"));
    let fetch = fetch.unwrap_or_else(|| panic!("{analyzed}"));
    // Twenty rows of four columns; those in the tail are no lookups.
    for metric in ["output_rows=20", "lookups=", "suspensions=", "cells_near="] {
        assert!(fetch.contains(metric), "{metric}\n{fetch}");
    }

    twins
        .tierra
        .sql("SET tierra.late_rows = false")
        .await
        .unwrap();
    let plan = text(&twins, &format!("EXPLAIN {sql}")).await;
    assert!(!plan.contains("TierraFetchExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn less_is_decoded() {
    let twins = twins().await;
    // Ascending: no row lets the scan skip those behind it. One thread: no other runs ahead.
    twins.tierra.sql("SET tierra.threads = 1").await.unwrap();
    let sql = "SELECT * FROM items ORDER BY id DESC LIMIT 5";
    let mut decoded = Vec::new();
    for setting in ["true", "false"] {
        let set = format!("SET tierra.late_rows = {setting}");
        twins.tierra.sql(&set).await.unwrap();
        let Outcome::Rows(mut result) = twins.tierra.sql(sql).await.unwrap() else {
            panic!("a query yields rows")
        };
        result.collect().await.unwrap();
        decoded.push(result.work().blocks_decoded);
    }
    // Blocks of one column, and of six.
    let blocks = (ITEMS as u64 - 100).div_ceil(1024);
    assert!(
        decoded[0] <= blocks && decoded[1] >= 5 * blocks,
        "{decoded:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_ids_travel_through_joins_and_projections() {
    let twins = twins().await;
    for (sql, fetched) in [
        (
            "SELECT i.name, i.note, o.city, o.street, o.rank * 2 FROM items i JOIN owners o ON i.owner = o.id \
             ORDER BY i.price, i.id LIMIT 7",
            "table=owners, columns=[city, street], table=items, columns=[name, note]",
        ),
        (
            "SELECT i.name, i.note, o.city, o.street FROM items i LEFT JOIN owners o ON i.owner = o.id \
             ORDER BY i.price, i.id LIMIT 30",
            "table=items, columns=[name, note]",
        ),
        (
            "SELECT i.id + 1, i.name, upper(i.note), i.v FROM items i WHERE i.owner IN (SELECT id FROM owners WHERE rank < 50) \
             ORDER BY i.price DESC, i.id LIMIT 9",
            "table=items, columns=[name, v]",
        ),
    ] {
        let plan = plan(&twins, sql).await;
        for columns in fetched.split(", table=") {
            let columns = columns.trim_start_matches("table=");
            assert!(
                plan.contains(&format!("table={columns}")),
                "{columns}\n{plan}"
            );
        }
        assert!(plan.contains("TierraFetchExec"), "{plan}");
        twins.compare("joins", sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_costs_as_much_late_is_read_at_once() {
    let twins = twins().await;
    for sql in [
        // Every column is read below.
        "SELECT id, price FROM items ORDER BY price, id LIMIT 3",
        // One narrow column.
        "SELECT id, v FROM items ORDER BY id LIMIT 3",
        // Half of the rows.
        "SELECT * FROM items ORDER BY price, id LIMIT 20000",
        "SELECT count(*) FROM items LIMIT 3",
    ] {
        let plan = plan(&twins, sql).await;
        assert!(!plan.contains("TierraFetchExec"), "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_alone_decodes_no_more_than_it_yields() {
    let twins = twins().await;
    let sql = "SELECT * FROM items LIMIT 3";
    let plan = plan(&twins, sql).await;
    assert!(plan.contains("columns=[row id], fetch=3"), "{plan}");
    let Outcome::Rows(mut result) = twins.tierra.sql(sql).await.unwrap() else {
        panic!("a query yields rows")
    };
    assert_eq!(rows(&result.collect().await.unwrap()).len(), 3);
    assert_eq!(result.work().blocks_decoded, 0);
    let all = twins.tierra.query("SELECT * FROM items").await.unwrap();
    let all: std::collections::HashSet<String> = rows(&all).into_iter().collect();
    for limit in [1, 10, 100] {
        for filter in ["", "WHERE v = 999", "WHERE note LIKE '%7' AND price < 100"] {
            let sql = format!("SELECT * FROM items {filter} LIMIT {limit} OFFSET 2");
            let found = rows(&twins.tierra.query(&sql).await.unwrap());
            assert!(found.iter().all(|row| all.contains(row)), "{sql}");
            let count = format!(
                "SELECT count(*) FROM (SELECT * FROM items {filter} LIMIT {limit} OFFSET 2)"
            );
            assert_eq!(text(&twins, &count).await, found.len().to_string(), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_added_since_the_query_began_are_not_seen() {
    let twins = twins().await;
    let sql = "SELECT * FROM items ORDER BY price DESC, id LIMIT 10";
    let before = text(&twins, sql).await;
    let Outcome::Rows(mut result) = twins.tierra.sql(sql).await.unwrap() else {
        panic!("a query yields rows")
    };
    let more = "INSERT INTO items SELECT value AS id, 1 AS owner, 99999.0 AS price, 'new' AS name, 'new' AS note, 20 AS v \
                FROM generate_series(100000, 100100) AS t(value)";
    twins.tierra.sql(more).await.unwrap();
    let database = Arc::clone(twins.tierra.database());
    let seal = move || database.table("items").unwrap().seal().unwrap();
    tokio::task::spawn_blocking(seal).await.unwrap();
    assert_eq!(rows(&result.collect().await.unwrap()).join("\n"), before);
    assert!(text(&twins, sql).await.contains("new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inverted_index_leaves_rows_whose_ids_are_told() {
    let twins = twins().await;
    let indexed = ColumnSpec {
        index: Some(IndexKind::Inverted),
        ..ColumnSpec::new("v", LogicalType::Integer)
    };
    let spec = TableSpec {
        name: "indexed".to_string(),
        columns: vec![
            ColumnSpec::new("id", LogicalType::BigInt),
            indexed,
            ColumnSpec::new("name", LogicalType::Varchar),
            ColumnSpec::new("note", LogicalType::Varchar),
        ],
        primary_key: vec![],
    };
    twins.tierra.database().create_table(spec).unwrap();
    let fill = "INSERT INTO indexed SELECT id, v, name, note FROM items";
    twins.tierra.sql(fill).await.unwrap();
    let database = Arc::clone(twins.tierra.database());
    let settle = move || {
        database.table("indexed").unwrap().seal().unwrap();
        database.wait_for_near_copies().unwrap();
    };
    tokio::task::spawn_blocking(settle).await.unwrap();
    for rest in [
        "LIMIT 5",
        "ORDER BY id DESC LIMIT 2",
        "ORDER BY name, id LIMIT 3",
    ] {
        let wanted = format!("SELECT id, v, name, note FROM indexed WHERE v IN (7, 500) {rest}");
        let found = rows(&twins.tierra.query(&wanted).await.unwrap());
        let all = "SELECT id, v, name, note FROM items WHERE v IN (7, 500)";
        let expected = match rest {
            "LIMIT 5" => rows(&twins.tierra.query(all).await.unwrap()),
            rest => rows(&twins.tierra.query(&format!("{all} {rest}")).await.unwrap()),
        };
        assert!(
            found.iter().all(|row| expected.contains(row)),
            "{rest}: {found:?}"
        );
        assert_eq!(found.len(), expected.len().min(5), "{rest}");
    }
}

/// A query whose rows come in one possible order.
fn query(random: &mut Random) -> String {
    let limit = random.one_of(&[1, 2, 3, 10, 30, 100, 1000, 2600]);
    let offset = random.one_of(&["", "", " OFFSET 3"]);
    let filter = random.one_of(&[
        "",
        "WHERE i.v BETWEEN 100 AND 300",
        "WHERE i.note IS NULL",
        "WHERE i.name LIKE '%77%'",
        "WHERE i.v > 5000",
        "WHERE i.price > 600 AND i.note = 'note 5'",
        "WHERE i.v + i.id > 500",
    ]);
    let order = random.one_of(&[
        "i.id",
        "i.price",
        "i.note DESC NULLS LAST",
        "i.v",
        "i.v % 10",
    ]);
    let join = random.one_of(&[
        "",
        "",
        "JOIN owners o ON i.owner = o.id",
        "LEFT JOIN owners o ON i.owner = o.id",
        "RIGHT JOIN owners o ON i.owner = o.id AND i.v < 500",
        "FULL JOIN owners o ON i.owner = o.id AND o.rank < 300",
        "JOIN owners o ON i.owner = o.id AND i.v > o.rank",
    ]);
    let columns = match join {
        "" => random.one_of(&[
            "*",
            "i.name, i.note, i.id",
            "i.note, i.price * 2, i.name, i.name AS again",
        ]),
        _ => random.one_of(&[
            "*",
            "i.name, o.street, o.city, i.id",
            "o.street, i.note, i.price, i.v, o.rank + 1",
        ]),
    };
    let last = if join.is_empty() {
        "i.id"
    } else {
        "i.id, o.id"
    };
    format!(
        "SELECT {columns} FROM items i {join} {filter} ORDER BY {order}, {last} LIMIT {limit}{offset}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_answer_as_datafusion_does() {
    let seed = seed();
    let mut random = Random(seed);
    let twins = twins().await;
    let mut fetched = 0;
    for _ in 0..60 {
        let mode = random.one_of(&["auto", "plain", "interleaved"]);
        let set = format!("SET tierra.execution = '{mode}'");
        twins.tierra.sql(&set).await.unwrap();
        let sql = query(&mut random);
        fetched += usize::from(plan(&twins, &sql).await.contains("TierraFetchExec"));
        twins.compare(&format!("TIERRA_SEED={seed}"), &sql).await;
    }
    assert!(fetched > 10, "TIERRA_SEED={seed}: {fetched} of 60");
}
