//! Lists of keys are looked up, whatever they are written like, and answer as a scan does.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::random::{Random, seed};
use crate::twins::{Twins, rows};

/// Rows of each table: enough that a list of thirty keys is short.
const ROWS: i32 = 5_000;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int32, false),
        Field::new("b", DataType::Int64, false),
        Field::new("s", DataType::Utf8View, false),
        Field::new("v", DataType::Int32, true),
    ]))
}

/// Row `n` has the keys `a = n % 50, b = n / 50` of `pairs`, `b = n` of `numbers`, `s` of `names`.
fn batch(table: &str) -> RecordBatch {
    let pairs = table == "pairs";
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values((0..ROWS).map(|n| n % 50))),
        Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|n| i64::from(if pairs { n / 50 } else { n })),
        )),
        Arc::new(StringViewArray::from_iter_values(
            (0..ROWS).map(|n| format!("the name of number {n}")),
        )),
        Arc::new(Int32Array::from_iter(
            (0..ROWS).map(|n| (n % 3 > 0).then_some(n % 10)),
        )),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The tables `pairs`, `numbers` and `names`; a hundred rows of each lie in the tail.
async fn twins() -> Twins {
    let twins = Twins::new();
    let exact = "SET datafusion.sql_parser.parse_float_as_decimal = true";
    twins.peer.sql(exact).await.unwrap();
    for (table, key) in [("pairs", "a, b"), ("numbers", "b"), ("names", "s")] {
        let create = format!(
            "CREATE TABLE {table} (a INTEGER, b BIGINT, s VARCHAR, v INTEGER, PRIMARY KEY ({key}))"
        );
        twins.tierra.sql(&create).await.unwrap();
        let batch = batch(table);
        twins.add(table, &schema(), &[batch.slice(0, 4_900)]);
        let loaded = twins.tierra.database().table(table).unwrap();
        loaded.seal().unwrap();
        twins.peer.deregister_table(table).unwrap();
        twins.add_more(table, &schema(), &batch, 4_900);
    }
    twins
}

async fn plan(twins: &Twins, sql: &str) -> String {
    let explained = twins.tierra.query(&format!("EXPLAIN {sql}")).await.unwrap();
    rows(&explained).join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_keys_is_looked_up_however_it_is_written() {
    let twins = twins().await;
    for (sql, keys) in [
        ("SELECT * FROM numbers WHERE b IN (1, 2)", 2),
        (
            "SELECT * FROM numbers WHERE b IN (7, 2, 7, 4950, NULL, 9999999)",
            4,
        ),
        ("SELECT * FROM numbers WHERE b = 3 OR b = 8 OR 3 = b", 2),
        ("SELECT * FROM numbers WHERE b = ANY([3, 8, 4999])", 3),
        (
            "SELECT s FROM numbers WHERE b IN (1, 2, 3, 4, 5) AND v > 2 AND s LIKE '%4'",
            5,
        ),
        (
            "SELECT * FROM names WHERE s IN ('the name of number 7', 'nobody')",
            2,
        ),
        (
            "SELECT * FROM pairs WHERE a IN (1, 2, 3) AND b IN (4, 99)",
            6,
        ),
        (
            "SELECT * FROM pairs WHERE (a, b) IN ((1, 2), (3, 98), (1, 2), (5000000000, 1))",
            2,
        ),
        (
            "SELECT v FROM pairs WHERE (b, a) IN ((2, 1), (98, 3), (98, 77)) AND s <> 'x'",
            3,
        ),
        (
            "SELECT * FROM pairs WHERE (a = 1 AND b = 2) OR (b = 99 AND a = 49) OR (a = 7 AND b = NULL)",
            2,
        ),
        (
            "SELECT * FROM pairs WHERE a = 1 AND b = 2 OR a = 1 AND b = 3",
            2,
        ),
    ] {
        let plan = plan(&twins, sql).await;
        assert!(plan.contains(&format!("keys={keys},")), "{sql}\n{plan}");
        assert!(!plan.contains("TierraScanExec"), "{sql}\n{plan}");
        assert!(!plan.contains("FilterExec"), "{sql}\n{plan}");
        twins.compare("keys", sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leaves_part_of_the_key_open_is_scanned() {
    let twins = twins().await;
    for sql in [
        "SELECT * FROM numbers WHERE b NOT IN (1, 2, 3)",
        "SELECT count(*) FROM numbers WHERE b IN (1, 2) OR v = 3",
        "SELECT * FROM pairs WHERE a IN (1, 2)",
        "SELECT * FROM pairs WHERE (a, v) IN ((1, 2), (3, 4))",
        "SELECT * FROM pairs WHERE (a, b) NOT IN ((1, 2), (3, 4))",
        "SELECT * FROM pairs WHERE (a = 1 AND b = 2) OR b = 5",
        "SELECT * FROM pairs WHERE (a, b) IN ((1, 2), (3, 4)) OR v IS NULL",
        // A list nearly as long as the table.
        "SELECT count(*) FROM pairs WHERE a < 40 AND b IN (0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20)",
    ] {
        let plan = plan(&twins, sql).await;
        assert!(plan.contains("TierraScanExec"), "{sql}\n{plan}");
        twins.compare("no keys", sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_are_shared_out_and_each_row_is_found_once() {
    let twins = Twins::new();
    let setup = "CREATE TABLE big (id BIGINT PRIMARY KEY, v BIGINT); \
                 INSERT INTO big SELECT value AS id, value * 2 AS v FROM generate_series(1, 1500000) AS t(value)";
    twins.tierra.execute(setup).await.unwrap();
    let list: Vec<String> = (0..12_000).map(|n| (n * 131 - 50).to_string()).collect();
    let found = (0..12_000_i64).map(|n| n * 131 - 50);
    let found: Vec<i64> = found.filter(|id| (1..=1_500_000).contains(id)).collect();
    let sql = format!(
        "SELECT count(*), count(DISTINCT id), sum(v) FROM big WHERE id IN ({})",
        list.join(", ")
    );
    let plan = plan(&twins, &sql).await;
    assert!(
        plan.contains("TierraPointExec: table=big, keys=12000"),
        "{plan}"
    );
    let answer = rows(&twins.tierra.query(&sql).await.unwrap());
    let sum: i64 = found.iter().sum();
    assert_eq!(answer, [format!("{0}|{0}|{1}", found.len(), 2 * sum)]);
}

/// A predicate that fixes the key, with duplicates, absent values and NULLs among the values.
fn predicate(random: &mut Random, table: &str) -> String {
    let number = |random: &mut Random| match random.below(12) {
        0 => "NULL".to_string(),
        1 => "-1".to_string(),
        2 => "99999999999".to_string(),
        _ => random.below(5_100).to_string(),
    };
    let small = |random: &mut Random| match random.below(12) {
        0 => "NULL".to_string(),
        1 => "5000000000".to_string(),
        _ => random.below(110).to_string(),
    };
    let count = 1 + random.below(12);
    let list = |random: &mut Random, value: &dyn Fn(&mut Random) -> String, separator: &str| {
        let values: Vec<String> = (0..count).map(|_| value(random)).collect();
        values.join(separator)
    };
    match (table, random.below(3)) {
        ("numbers", 0) => list(random, &|random| format!("b = {}", number(random)), " OR "),
        ("numbers", _) => format!("b IN ({})", list(random, &number, ", ")),
        ("names", _) => {
            let name = |random: &mut Random| match random.below(9) {
                0 => "NULL".to_string(),
                _ => format!("'the name of number {}'", random.below(5_100)),
            };
            format!("s IN ({})", list(random, &name, ", "))
        }
        (_, 0) => format!(
            "(a, b) IN ({})",
            // DataFusion compares rows with NULL in them otherwise than SQL does.
            list(
                random,
                &|random| format!("({}, {})", random.below(60), random.below(110)),
                ", "
            )
        ),
        (_, 1) => list(
            random,
            &|random| format!("(a = {} AND b = {})", small(random), small(random)),
            " OR ",
        ),
        _ => format!(
            "a IN ({}) AND b = {}",
            list(random, &small, ", "),
            small(random)
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_lists_of_keys_find_the_rows_that_datafusion_finds() {
    let seed = seed();
    let mut random = Random(seed);
    let twins = twins().await;
    for _ in 0..80 {
        let table = random.one_of(&["pairs", "numbers", "names"]);
        let more = random.one_of(&["", " AND v > 3", " AND v IS NULL", " AND s LIKE '%7'"]);
        let columns = random.one_of(&["*", "v", "s, a", "count(*), sum(b)"]);
        let mode = random.one_of(&["auto", "plain", "interleaved"]);
        twins
            .tierra
            .sql(&format!("SET tierra.execution = '{mode}'"))
            .await
            .unwrap();
        let keys = predicate(&mut random, table);
        let sql = format!("SELECT {columns} FROM {table} WHERE ({keys}){more}");
        twins.compare(&format!("TIERRA_SEED={seed}"), &sql).await;
    }
}
