//! Predicates are evaluated on packed codes: what nothing matches decodes nothing, joins narrow the
//! scan of the larger table, and a long list of values costs no planning.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Int32Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use tierra_sql::{Outcome, Work};

use crate::twins::{Twins, rows};

const ROWS: i32 = 100_000;

/// `wide (k, v, s)`: k counts, v repeats 0..1000, s one of ten strings.
fn twins() -> Twins {
    let twins = Twins::new();
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int32, false),
        Field::new("v", DataType::Int32, true),
        Field::new("s", DataType::Utf8View, false),
    ]));
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(0..ROWS)),
        Arc::new(Int32Array::from_iter(
            (0..ROWS).map(|k| (k % 7 != 3).then_some(k * 7919 % 1000 * 2)),
        )),
        Arc::new(StringViewArray::from_iter_values(
            (0..ROWS).map(|k| format!("string number {}", k * 31 % 10)),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    twins.add("facts", &schema, &[batch]);
    twins
        .tierra
        .database()
        .table("facts")
        .unwrap()
        .seal()
        .unwrap();
    twins
}

async fn work(twins: &Twins, sql: &str) -> (Vec<String>, Work) {
    let Outcome::Rows(mut result) = twins.tierra.sql(sql).await.unwrap() else {
        panic!("a query yields rows")
    };
    let batches = result.collect().await.unwrap();
    (rows(&batches), result.work())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_matches_nothing_decodes_nothing() {
    let twins = twins();
    for predicate in [
        // Odd values lie between the minima and maxima of every block, and are in none.
        "v = 501",
        "v IN (1, 3, 5, 999)",
        "v = 501 OR v = 777",
        "s LIKE '%absent%'",
        "upper(s) = 'ABSENT'",
        "s = 'string number'",
        "v IS NULL AND v > 3",
    ] {
        let sql = format!("SELECT * FROM facts WHERE {predicate}");
        let (found, work) = work(&twins, &sql).await;
        assert!(found.is_empty(), "{predicate}");
        assert_eq!(work.blocks_decoded, 0, "{predicate}: {work:?}");
        twins.compare(predicate, &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minima_and_maxima_skip_blocks() {
    let twins = twins();
    let (found, work) = work(
        &twins,
        "SELECT v FROM facts WHERE k BETWEEN 50000 AND 50010",
    )
    .await;
    assert_eq!(found.len(), 11);
    assert!(work.blocks_read <= 4, "{work:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_narrows_the_scan_of_its_larger_side() {
    let twins = twins();
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, false)]));
    let few = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![Arc::new(Int32Array::from(vec![501, 7]))],
    )
    .unwrap();
    twins.add("few", &schema, &[few]);
    let sql = "SELECT f.k, f.s FROM facts f JOIN few ON f.v = few.id";
    let (found, work) = work(&twins, sql).await;
    assert!(found.is_empty());
    // `few` itself is decoded; of `facts`, no block.
    assert!(work.blocks_decoded <= 1, "{work:?}");
    twins
        .compare(
            "join",
            "SELECT f.k, f.s FROM facts f JOIN few ON f.v = few.id * 2",
        )
        .await;
}

/// What EXPLAIN ANALYZE says of a number, such as `blocks_read=98`.
fn metric(plan: &str, name: &str) -> f64 {
    let (_, rest) = plan
        .split_once(&format!("{name}="))
        .unwrap_or_else(|| panic!("{name} is not in\n{plan}"));
    let end = rest.find([',', ']', ' ']).unwrap_or(rest.len());
    let number = rest[..end].trim_end_matches(|c: char| c.is_alphabetic() || c == 'µ');
    number
        .parse()
        .unwrap_or_else(|_| panic!("{name}={} is no number\n{plan}", &rest[..end]))
}

async fn analyzed(twins: &Twins, sql: &str) -> String {
    let (plan, _) = work(twins, &format!("EXPLAIN ANALYZE {sql}")).await;
    plan.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_what_was_read() {
    let twins = twins();
    let plan = analyzed(&twins, "SELECT count(*) FROM facts WHERE v = 500").await;
    assert!(plan.contains("TierraScanExec: table=facts"), "{plan}");
    let blocks = f64::from(ROWS).div_euclid(1024.0) + 1.0;
    assert_eq!(metric(&plan, "blocks_read"), blocks, "{plan}");
    assert_eq!(metric(&plan, "blocks_skipped"), 0.0, "{plan}");
    assert_eq!(metric(&plan, "tail_rows"), 0.0, "{plan}");
    // Ten bits a value, or a few more, from wherever the chunk lies.
    let work = work(&twins, "SELECT count(*) FROM facts WHERE v = 500")
        .await
        .1;
    let bytes = work.bytes_near + work.bytes_far;
    let expected = u64::from(ROWS.unsigned_abs()) * 10 / 8;
    assert!((expected..2 * expected).contains(&bytes), "{work:?}");

    let plan = analyzed(&twins, "SELECT v FROM facts WHERE k = 500").await;
    assert!(metric(&plan, "blocks_skipped") >= blocks - 1.0, "{plan}");
}

/// Sums, means, minima, maxima and numbers of values are taken from packed codes; what needs rows has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_of_all_rows_unpack_nothing() {
    let twins = twins();
    let setup = "CREATE TABLE packed (id BIGINT PRIMARY KEY, a INTEGER, b BIGINT, x DOUBLE) \
                 WITH ('id.encoding' = 'for', 'a.encoding' = 'static', 'b.encoding' = 'dynamic'); \
                 INSERT INTO packed SELECT value AS id, CASE WHEN value % 3 > 0 THEN value % 500 END AS a, \
                 value * 7919 % 10007 AS b, CAST(value AS DOUBLE) AS x FROM generate_series(1, 100000) AS t(value)";
    twins.tierra.execute(setup).await.unwrap();
    let table = twins.tierra.database().table("packed").unwrap();
    table.seal().unwrap();
    let sql = "SELECT sum(a), avg(b), min(b), max(a), count(a), count(*), count(x) FROM packed WHERE id > 1000";
    let (plan, _) = work(&twins, &format!("EXPLAIN {sql}")).await;
    let plan = plan.join("\n");
    assert!(
        plan.contains("TierraTotalsExec: [sum(packed.a), avg(packed.b)"),
        "{plan}"
    );
    let (found, done) = work(&twins, sql).await;
    let rows = 1001..=100_000_i64;
    let a = || rows.clone().filter(|v| v % 3 > 0).map(|v| v % 500);
    let b = || rows.clone().map(|v| v * 7919 % 10_007);
    let mean = b().sum::<i64>() as f64 / 99_000.0;
    let expected = format!(
        "{}, {mean}, {}, {}, {}, 99000, 99000",
        a().sum::<i64>(),
        b().min().unwrap(),
        a().max().unwrap(),
        a().count()
    );
    let numbers = |text: &str| {
        let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == '-' || c == 'e';
        let words = text.split(|c| !is_part(c)).filter(|word| !word.is_empty());
        Vec::from_iter(words.map(|word| word.parse::<f64>().unwrap()))
    };
    let (found, expected) = (numbers(&found.join(" ")), numbers(&expected));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        // Doubles are shown with twelve digits.
        assert!(
            (found - expected).abs() <= expected.abs() * 1e-11,
            "{found} {expected}"
        );
    }
    assert_eq!(done.blocks_decoded, 0, "{done:?}");
    // Without conditions and sums there is nothing to be read; `x` is not read in any case.
    let plan = analyzed(&twins, "SELECT sum(a), count(x) FROM packed").await;
    assert!(metric(&plan, "blocks_read") <= 98.0, "{plan}");
    for sql in [
        "SELECT sum(a * 2) FROM packed",
        "SELECT sum(DISTINCT a) FROM packed",
        "SELECT sum(a) FILTER (WHERE b > 3), sum(b) FROM packed",
        "SELECT a, sum(b) FROM packed GROUP BY a",
        "SELECT sum(a), sum(x) FROM packed WHERE id > 10",
        "SELECT sum(a) FROM (SELECT a FROM packed LIMIT 10)",
        "SELECT max(x), sum(a) FROM packed WHERE b > 10",
    ] {
        let (plan, _) = work(&twins, &format!("EXPLAIN {sql}")).await;
        let plan = plan.join("\n");
        assert!(!plan.contains("TierraTotalsExec"), "{sql}: {plan}");
    }
}

/// Groups of a column that has a dictionary are its codes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_grouped_by_codes() {
    let twins = twins();
    for sql in [
        "SELECT s, count(*), count(v), sum(v), min(k), max(v), avg(k) FROM facts GROUP BY s",
        "SELECT s, sum(k) FROM facts WHERE v > 700 GROUP BY s HAVING count(*) > 100",
        "SELECT DISTINCT s FROM facts WHERE k < 5",
        "SELECT max(n) FROM (SELECT count(*) AS n FROM facts WHERE v IS NULL GROUP BY s) AS g",
    ] {
        let (plan, _) = work(&twins, &format!("EXPLAIN {sql}")).await;
        let plan = plan.join("\n");
        assert!(plan.contains("TierraTotalsExec: group=s"), "{sql}: {plan}");
        twins.compare("groups", sql).await;
    }
    for sql in [
        "SELECT s, sum(v * 2) FROM facts GROUP BY s",
        "SELECT k, count(*) FROM facts GROUP BY k",
        "SELECT s, v, count(*) FROM facts GROUP BY s, v",
        "SELECT upper(s) AS u, count(*) FROM facts GROUP BY u",
        "SELECT s, count(*) FROM facts GROUP BY ROLLUP (s)",
    ] {
        let (plan, _) = work(&twins, &format!("EXPLAIN {sql}")).await;
        let plan = plan.join("\n");
        assert!(!plan.contains("TierraTotalsExec"), "{sql}: {plan}");
        twins.compare("groups", sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_the_tail_count_as_read() {
    let twins = twins();
    let setup = "CREATE TABLE small (id BIGINT PRIMARY KEY, v BIGINT, w BIGINT); \
                 INSERT INTO small SELECT value AS id, value AS v, value AS w FROM generate_series(1, 1000) AS t(value)";
    twins.tierra.execute(setup).await.unwrap();
    let (_, all) = work(&twins, "SELECT v FROM small").await;
    assert_eq!((all.tail_rows, all.bytes_near), (1000, 8000));
    // The filter's column is read whole, the other only where something passes.
    let (_, none) = work(&twins, "SELECT v FROM small WHERE w > 5000 AND w < 6000").await;
    assert_eq!((none.tail_rows, none.bytes_near), (1000, 8000));
    let (_, some) = work(&twins, "SELECT v FROM small WHERE w > 500").await;
    assert_eq!((some.tail_rows, some.bytes_near), (1000, 16_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_what_a_look_up_did() {
    let twins = twins();
    let setup = "CREATE TABLE keyed (id BIGINT PRIMARY KEY, v BIGINT) WITH ('v.tier' = 'far'); \
                 INSERT INTO keyed SELECT value AS id, value AS v FROM generate_series(1, 70000) AS t(value); \
                 INSERT INTO keyed VALUES (70001, 7)";
    twins.tierra.execute(setup).await.unwrap();
    let sql = "SELECT id, v FROM keyed WHERE id IN (5, 70000, 70001, 80000)";
    let plan = analyzed(&twins, sql).await;
    assert!(plan.contains("TierraPointExec"), "{plan}");
    assert_eq!(metric(&plan, "keys"), 4.0, "{plan}");
    assert_eq!(metric(&plan, "output_rows"), 3.0, "{plan}");
    // Two rows are sealed, one is in the tail.
    let (near, far) = (metric(&plan, "cells_near"), metric(&plan, "cells_far"));
    assert_eq!(near + far, 6.0, "{plan}");
    assert!(far >= 2.0, "{plan}");
    assert!(metric(&plan, "elapsed_compute") > 0.0, "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_values_plan_in_milliseconds() {
    let twins = twins();
    let list: Vec<String> = (0..10_000).map(|n| (n * 3).to_string()).collect();
    let sql = format!(
        "SELECT count(*) FROM facts WHERE k IN ({})",
        list.join(", ")
    );
    let mut best = f64::MAX;
    // The best of five, or of more while the machine is busy.
    for turn in 0..100 {
        if turn >= 5 && best < 0.05 {
            break;
        }
        let start = Instant::now();
        let Outcome::Rows(mut result) = twins.tierra.sql(&sql).await.unwrap() else {
            panic!("a query yields rows")
        };
        best = best.min(start.elapsed().as_secs_f64());
        assert_eq!(rows(&result.collect().await.unwrap()), ["10000"]);
    }
    // It is a few milliseconds.
    assert!(best < 0.05, "planning took {best} s");
}
