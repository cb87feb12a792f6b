//! However a statement is written, it ends in an answer or in an error, and soon; up to the limits of
//! docs/sql.md in an answer.

use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use tierra_sql::{Session, SqlError};

use crate::twins::{Twins, memory};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A way to make statements deeper or longer, and what they answer.
struct Production {
    name: &'static str,
    /// Sizes up to this one must be answered.
    answered: usize,
    statement: fn(usize) -> String,
    answer: fn(usize) -> i64,
}

fn repeated(part: &str, separator: &str, n: usize) -> String {
    vec![part; n].join(separator)
}

fn nested(open: &str, inner: &str, close: &str, n: usize) -> String {
    format!("{}{inner}{}", open.repeat(n), close.repeat(n))
}

fn one(_: usize) -> i64 {
    1
}

fn count(n: usize) -> i64 {
    n as i64
}

const PRODUCTIONS: &[Production] = &[
    Production {
        name: "sum of integers",
        answered: 1_000,
        statement: |n| format!("SELECT {} FROM t", repeated("a", " + ", n)),
        answer: count,
    },
    Production {
        name: "sum of doubles",
        answered: 1_000,
        statement: |n| format!("SELECT {} FROM t", repeated("d", " + ", n)),
        answer: count,
    },
    Production {
        name: "sum of decimals",
        answered: 1_000,
        statement: |n| format!("SELECT {} FROM t", repeated("m", " + ", n)),
        answer: count,
    },
    Production {
        name: "sum in a condition",
        answered: 1_000,
        statement: |n| format!("SELECT a FROM t WHERE {} = {n}", repeated("a", " + ", n)),
        answer: one,
    },
    Production {
        name: "strings",
        answered: 1_000,
        statement: |n| format!("SELECT length({}) FROM t", repeated("s", " || ", n)),
        answer: count,
    },
    Production {
        name: "AND",
        answered: 10_000,
        statement: |n| {
            let terms: Vec<String> = (0..n).map(|term| format!("a <> -{term} - 1")).collect();
            format!("SELECT a FROM t WHERE {}", terms.join(" AND "))
        },
        answer: one,
    },
    Production {
        name: "OR",
        answered: 10_000,
        statement: |n| {
            let terms: Vec<String> = (0..n)
                .map(|term| format!("a * 2 = {}", n + 1 - term))
                .collect();
            format!("SELECT a FROM t WHERE {}", terms.join(" OR "))
        },
        answer: one,
    },
    Production {
        name: "parentheses",
        answered: 500,
        statement: |n| format!("SELECT {} FROM t", nested("(", "a", ")", n)),
        answer: one,
    },
    Production {
        name: "NOT",
        answered: 1_000,
        statement: |n| {
            format!(
                "SELECT a FROM t WHERE {} b OR a = 1",
                repeated("NOT", " ", n)
            )
        },
        answer: one,
    },
    Production {
        name: "minus",
        answered: 200,
        statement: |n| format!("SELECT abs({} a) FROM t", repeated("-", " ", n)),
        answer: one,
    },
    Production {
        name: "CASE in CASE",
        answered: 200,
        statement: |n| {
            let sql = nested("CASE WHEN b THEN ", "a", " ELSE 2 END", n);
            format!("SELECT {sql} FROM t")
        },
        answer: one,
    },
    Production {
        name: "branches of CASE",
        answered: 10_000,
        statement: |n| {
            let branches: Vec<String> = (0..n)
                .map(|branch| format!("WHEN a = {} THEN {branch} + 1", n - branch))
                .collect();
            format!("SELECT CASE {} END FROM t", branches.join(" "))
        },
        answer: count,
    },
    Production {
        name: "calls",
        answered: 200,
        statement: |n| format!("SELECT {} FROM t", nested("abs(", "a", ")", n)),
        answer: one,
    },
    Production {
        name: "arguments",
        answered: 1_000,
        statement: |n| format!("SELECT length(concat({})) FROM t", repeated("s", ", ", n)),
        answer: count,
    },
    Production {
        name: "casts behind",
        answered: 500,
        statement: |n| format!("SELECT a{} FROM t", "::INT::BIGINT".repeat(n / 2)),
        answer: one,
    },
    Production {
        name: "casts around",
        answered: 200,
        statement: |n| format!("SELECT {} FROM t", nested("CAST(", "a", " AS BIGINT)", n)),
        answer: one,
    },
    Production {
        name: "IS NULL",
        answered: 500,
        statement: |n| {
            format!(
                "SELECT a FROM t WHERE a{} IS NOT NULL",
                " IS NULL".repeat(n)
            )
        },
        answer: one,
    },
    Production {
        name: "subqueries in FROM",
        answered: 200,
        statement: |n| format!("SELECT a FROM {}", nested("(SELECT a FROM ", "t", ") x", n)),
        answer: one,
    },
    Production {
        name: "subqueries in WHERE",
        answered: 10,
        statement: |n| {
            let sql = nested("(SELECT a FROM t WHERE a IN ", "(1)", ")", n);
            format!("SELECT a FROM t WHERE a IN {sql}")
        },
        answer: one,
    },
    Production {
        name: "subqueries in SELECT",
        answered: 10,
        statement: |n| {
            format!(
                "SELECT {}",
                nested("(SELECT ", "(SELECT max(a) FROM t)", ")", n)
            )
        },
        answer: one,
    },
    Production {
        name: "joins",
        answered: 100,
        statement: |n| {
            let joins: Vec<String> = (1..n)
                .map(|join| format!(" JOIN t t{join} ON t{join}.a = t{}.a", join - 1))
                .collect();
            format!("SELECT t0.a FROM t t0{}", joins.concat())
        },
        answer: one,
    },
    Production {
        name: "tables beside each other",
        answered: 100,
        statement: |n| {
            let tables: Vec<String> = (0..n).map(|table| format!("t t{table}")).collect();
            format!("SELECT t0.a FROM {}", tables.join(", "))
        },
        answer: one,
    },
    Production {
        name: "joins within joins",
        answered: 0,
        statement: |n| {
            format!(
                "SELECT count(*) FROM {}t{}",
                "(t JOIN ".repeat(n),
                " ON true)".repeat(n)
            )
        },
        answer: one,
    },
    Production {
        name: "UNION ALL",
        answered: 500,
        statement: |n| {
            let queries = repeated("SELECT a FROM t", " UNION ALL ", n);
            format!("SELECT count(*) FROM ({queries})")
        },
        answer: count,
    },
    Production {
        name: "INTERSECT",
        answered: 100,
        statement: |n| repeated("SELECT a FROM t", " INTERSECT ", n),
        answer: one,
    },
    Production {
        name: "common table expressions",
        answered: 500,
        statement: |n| {
            let tables: Vec<String> = (1..=n)
                .map(|table| format!("c{table} AS (SELECT a FROM c{})", table - 1))
                .collect();
            format!(
                "WITH c0 AS (SELECT a FROM t), {} SELECT a FROM c{n}",
                tables.join(", ")
            )
        },
        answer: one,
    },
    Production {
        name: "common table expressions that double",
        answered: 0,
        statement: |n| {
            let tables: Vec<String> = (1..=n)
                .map(|table| format!("c{table} AS (SELECT x.a FROM c{0} x, c{0} y)", table - 1))
                .collect();
            format!(
                "WITH c0 AS (SELECT a FROM t), {} SELECT a FROM c{n}",
                tables.join(", ")
            )
        },
        answer: one,
    },
    Production {
        name: "arrays",
        answered: 50,
        statement: |n| format!("SELECT cardinality({}) FROM t", nested("[", "a", "]", n)),
        answer: one,
    },
    Production {
        name: "places of arrays",
        answered: 0,
        statement: |n| format!("SELECT [1]{}", "[1]".repeat(n)),
        answer: one,
    },
    Production {
        name: "intervals",
        answered: 0,
        statement: |n| format!("SELECT {} '1' DAY", repeated("INTERVAL", " ", n)),
        answer: one,
    },
    Production {
        name: "types",
        answered: 0,
        statement: |n| format!("SELECT NULL::{}", nested("ARRAY<", "INT", ">", n)),
        answer: one,
    },
    Production {
        name: "types with fields",
        answered: 0,
        statement: |n| format!("SELECT NULL::{}", nested("STRUCT<a INT, b ", "INT", ">", n)),
        answer: one,
    },
    Production {
        name: "EXPLAIN",
        answered: 0,
        statement: |n| format!("{} SELECT 1", repeated("EXPLAIN", " ", n)),
        answer: one,
    },
    Production {
        name: "PREPARE",
        answered: 0,
        statement: |n| format!("{} SELECT 1", repeated("PREPARE p AS", " ", n)),
        answer: one,
    },
    Production {
        name: "INSERT",
        answered: 0,
        statement: |n| format!("{} SELECT 1", repeated("INSERT INTO t", " ", n)),
        answer: one,
    },
    Production {
        name: "BETWEEN",
        answered: 0,
        statement: |n| format!("SELECT a{} FROM t", " BETWEEN 0 AND 1".repeat(n)),
        answer: one,
    },
    Production {
        name: "lambdas",
        answered: 0,
        statement: |n| format!("SELECT f({}1)", "x -> x AND ".repeat(n)),
        answer: one,
    },
];

async fn session() -> Twins {
    let twins = Twins::new();
    let create = "CREATE TABLE t (a BIGINT, d DOUBLE, m DECIMAL(9, 0), s VARCHAR, b BOOLEAN);
         INSERT INTO t VALUES (1, 1, 1, 'x', true)";
    twins.tierra.execute(create).await.unwrap();
    twins
}

/// The one value of the answer.
fn value(batches: &[RecordBatch]) -> i64 {
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
    let column = cast(batch.column(0), &DataType::Int64).unwrap();
    column.as_primitive::<Int64Type>().value(0)
}

async fn run(
    session: &Session,
    name: &str,
    n: usize,
    sql: &str,
) -> Result<Vec<RecordBatch>, SqlError> {
    let start = Instant::now();
    let ended = tokio::time::timeout(PATIENCE, session.query(sql)).await;
    let ended =
        ended.unwrap_or_else(|_| Err(SqlError::Syntax(format!("no end after {PATIENCE:?}"))));
    let what = match &ended {
        Ok(_) => "answer".to_string(),
        Err(error) => error.to_string().chars().take(100).collect(),
    };
    eprintln!("{name}, {n}: {:?}: {what}", start.elapsed());
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deep_statements_are_answered_up_to_the_limits_and_refused_beyond() {
    let _memory = memory().await;
    let twins = session().await;
    let mut faults = Vec::new();
    for production in PRODUCTIONS {
        let name = production.name;
        for n in [10, 30, 100, 200, 500, 1_000, 10_000, 100_000] {
            let sql = (production.statement)(n);
            match run(&twins.tierra, name, n, &sql).await {
                Ok(batches) if production.answered > 0 => {
                    let (found, expected) = (value(&batches), (production.answer)(n));
                    if found != expected {
                        faults.push(format!("{name}, {n}: {found}, not {expected}"));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let error = error.to_string();
                    let is_late = error.contains("no end after");
                    // Some messages show the statement as it was parsed.
                    let is_long = error.len() > 10_000 + 500 * sql.len();
                    if n <= production.answered || is_late || is_long {
                        let begin: String = error.chars().take(300).collect();
                        faults.push(format!("{name}, {n}: {begin}"));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// DataFusion would keep 2 MiB of each group that counts distinct texts, 8 KiB of each whose texts are ordered, and for the least list
/// of each group the texts of all rows that were read with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_of_few_texts_take_little() {
    let _memory = memory().await;
    let twins = session().await;
    let session = &twins.tierra;
    session
        .sql(
            "CREATE TABLE texts AS SELECT i, i % 40000 AS k, 'a text of many bytes ' || i % 9 AS s
             FROM generate_series(0, 79999) AS g(i)",
        )
        .await
        .unwrap();
    session
        .sql("SET tierra.query_memory = '300M'")
        .await
        .unwrap();
    for (of_group, expected) in [
        ("count(DISTINCT s) + count(DISTINCT s || 'x')", 160_000),
        ("octet_length(string_agg(s, ',' ORDER BY i))", 1_800_000),
        ("array_length(array_agg(i ORDER BY s, i))", 80_000),
        ("octet_length(nth_value(s, 2 ORDER BY i))", 880_000),
        ("octet_length((min([s]))[1])", 880_000),
    ] {
        let sql =
            format!("SELECT sum(n)::BIGINT FROM (SELECT {of_group} AS n FROM texts GROUP BY k)");
        let answer = run(session, of_group, 40_000, &sql).await.unwrap();
        assert_eq!(value(&answer), expected, "{of_group}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_and_many_rows_are_no_depth() {
    let _memory = memory().await;
    let twins = session().await;
    let numbers: Vec<String> = (0..1_000_000).map(|n| n.to_string()).collect();
    let list = format!("SELECT a FROM t WHERE a IN ({})", numbers.join(", "));
    assert_eq!(
        value(&run(&twins.tierra, "list", 1_000_000, &list).await.unwrap()),
        1
    );
    let rows: Vec<String> = (0..20_000).map(|n| format!("(-{n} - 1, 'x')")).collect();
    let rows = format!("SELECT count(*) FROM (VALUES {})", rows.join(", "));
    assert_eq!(
        value(&run(&twins.tierra, "rows", 20_000, &rows).await.unwrap()),
        20_000
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deep_stays_prepared_and_explained() {
    let _memory = memory().await;
    let twins = session().await;
    let sum = repeated("a", " + ", 900);
    let session = &twins.tierra;
    session
        .sql(&format!("PREPARE p AS SELECT {sum} + $1 FROM t"))
        .await
        .unwrap();
    assert_eq!(
        value(&session.query("EXECUTE p(100)").await.unwrap()),
        1_000
    );
    let any: Vec<String> = (0..5_000)
        .map(|term| format!("a * 2 = {}", term + 2))
        .collect();
    let any = any.join(" OR ");
    session
        .sql(&format!(
            "PREPARE any AS SELECT a FROM t WHERE a > $1 AND ({any})"
        ))
        .await
        .unwrap();
    assert_eq!(value(&session.query("EXECUTE any(0)").await.unwrap()), 1);
    session.query("EXPLAIN EXECUTE any(0)").await.unwrap();
    session
        .query(&format!("EXPLAIN SELECT {sum} FROM t"))
        .await
        .unwrap();
    let create =
        format!("CREATE TABLE u AS SELECT {sum} AS n FROM t; INSERT INTO u SELECT {sum} FROM t");
    session.execute(&create).await.unwrap();
    assert_eq!(
        value(&session.query("SELECT sum(n) FROM u").await.unwrap()),
        1_800
    );
    // The name of a column is what is written.
    let named = session
        .query(&format!("SELECT {sum} FROM t"))
        .await
        .unwrap();
    assert_eq!(*named[0].schema().field(0).name(), sum);
}
