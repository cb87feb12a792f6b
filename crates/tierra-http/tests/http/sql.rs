//! Statements and their answers, in all formats.

use std::collections::HashSet;
use std::sync::PoisonError;

use arrow::array::AsArray;
use arrow::datatypes::{Decimal128Type, Int64Type};
use arrow::ipc::reader::StreamReader;
use serde_json::json;

use crate::server::{MEMORY, TestServer};

#[test]
fn statements_are_confirmed_and_rows_are_objects() {
    let server = TestServer::start();
    let mut client = server.connect();
    let answer = client.sql("CREATE TABLE t (n BIGINT PRIMARY KEY, d DECIMAL(38, 2), s VARCHAR)");
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({"command": "CREATE TABLE"}))
    );
    let answer = client.sql("INSERT INTO t VALUES (1, 1.5, 'a'), (9223372036854775807, 999999999999999999999999999999999999.99, NULL)");
    assert_eq!(answer.json(), json!({"command": "INSERT", "count": 2}));
    let answer = client.sql("SELECT n, d, s, n / 2.5e0 - 0.4e0 AS f FROM t ORDER BY n");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let text = answer.text();
    // As text: a parser may lose digits.
    assert!(
        text.contains(r#""rows":[{"n":1,"d":1.50,"s":"a","f":0.0},{"n":9223372036854775807,"d":999999999999999999999999999999999999.99,"s":null,"#),
        "{text}"
    );
    let answer = answer.json();
    assert_eq!(
        answer["columns"][1],
        json!({"name": "d", "type": "DECIMAL(38, 2)"})
    );
    assert_eq!(
        (&answer["count"], &answer["cut"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(
        client.rows("SELECT 'NaN'::DOUBLE AS x, 'it''s \"é\"\n' AS y"),
        json!([{"x": "NaN", "y": "it's \"é\"\n"}])
    );
    assert_eq!(client.rows("SELECT n FROM t WHERE n = 7"), json!([]));
}

#[test]
fn json_is_cut_and_says_so() {
    let _memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::start();
    let mut client = server.connect();
    for (rows, cut) in [
        (10_000, false),
        (10_001, true),
        (1_000_000_000_000_u64, true),
    ] {
        let answer = client.sql(&format!("SELECT value FROM generate_series(1, {rows})"));
        let answer = answer.json();
        assert_eq!(
            (&answer["count"], &answer["cut"]),
            (&json!(10_000), &json!(cut)),
            "{rows}"
        );
        assert_eq!(answer["rows"][9_999], json!({"value": 10_000}));
    }
    server.wait_for_running(0);
    // Wide rows are cut sooner.
    let answer = client.sql("SELECT repeat('x', 100000) AS x FROM generate_series(1, 5000)");
    assert!(answer.text().contains("\"cut\":true"));
    assert!(answer.body.len() < 100 << 20, "{}", answer.body.len());
}

#[test]
fn csv_is_what_a_load_reads() {
    let server = TestServer::start();
    let mut client = server.connect();
    let answer = client.sql_as(
        "SELECT * FROM (VALUES (1, 'a,b'), (2, NULL), (3, '')) AS t(\"n,m\", s) ORDER BY 1",
        "text/csv",
    );
    assert_eq!(
        answer.header("content-type"),
        Some("text/csv; charset=utf-8; header=present")
    );
    assert_eq!(answer.text(), "\"n,m\",s\n1,\"a,b\"\n2,\n3,\"\"\n");
    let answer = client.sql_as("SELECT 1 AS a, 2 AS a WHERE 1 = 2", "text/csv");
    assert_eq!((answer.text(), answer.is_whole), ("a,a\n", true));
    let answer = client.sql_as("SELECT value FROM generate_series(1, 100000)", "text/csv");
    assert!(answer.is_whole);
    assert_eq!(answer.text().lines().count(), 100_001);
}

/// The batches of a group by share the texts of all groups, which are not sent with each.
#[test]
fn arrow_streams_hold_no_texts_of_other_batches() {
    let _memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::start();
    let mut client = server.connect();
    let groups = "SELECT 'a text that is not in its view ' || CAST(value AS VARCHAR) AS s, count(*) AS n \
         FROM generate_series(1, 100000) GROUP BY 1";
    let answer = client.sql_as(groups, "application/vnd.apache.arrow.stream");
    let reader = StreamReader::try_new(&answer.body[..], None).unwrap();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    assert!(batches.len() > 1);
    let texts = batches.iter().flat_map(|batch| {
        let texts = batch.column(0).as_string_view().iter();
        texts.map(|text| text.unwrap().to_owned())
    });
    let texts: HashSet<String> = texts.collect();
    assert_eq!(texts.len(), 100_000);
    assert!(
        texts
            .iter()
            .all(|text| text.starts_with("a text that is not in its view "))
    );
    // A view, a count and a text of 36 to 41 bytes.
    assert!(answer.body.len() < 100_000 * 80, "{}", answer.body.len());
}

#[test]
fn arrow_streams_keep_types_and_all_rows() {
    let server = TestServer::start();
    let mut client = server.connect();
    let arrow = "application/vnd.apache.arrow.stream";
    let answer = client.sql_as(
        "SELECT value AS n, CAST(value AS DECIMAL(38, 3)) AS d, CAST(value AS VARCHAR) AS s FROM generate_series(1, 100000)",
        arrow,
    );
    assert_eq!(answer.header("content-type"), Some(arrow));
    assert!(answer.is_whole);
    let (mut sum, mut rows) = (0, 0);
    for batch in StreamReader::try_new(&*answer.body, None).unwrap() {
        let batch = batch.unwrap();
        rows += batch.num_rows();
        sum += batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .sum::<i64>();
        let decimal = batch.column(1).as_primitive::<Decimal128Type>();
        assert_eq!(
            decimal.value(0),
            i128::from(batch.column(0).as_primitive::<Int64Type>().value(0)) * 1000
        );
    }
    assert_eq!((rows, sum), (100_000, 5_000_050_000));
    // No rows, but columns.
    let answer = client.sql_as("SELECT 1 AS a WHERE 1 = 2", arrow);
    let reader = StreamReader::try_new(&*answer.body, None).unwrap();
    assert_eq!(reader.schema().field(0).name(), "a");
    assert_eq!(reader.count(), 0);
    // What has no rows is confirmed whatever is accepted.
    let answer = client.sql_as("CREATE TABLE t (n BIGINT)", arrow);
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn errors_have_a_status_and_a_code() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.sql("CREATE TABLE t (n BIGINT PRIMARY KEY)");
    client.sql("INSERT INTO t VALUES (1)");
    for (sql, status, code) in [
        ("", 400, "42601"),
        ("-- nothing", 400, "42601"),
        ("SELEC 1", 400, "42601"),
        ("SELECT 'open", 400, "42601"),
        ("SELECT * FROM ts", 400, "42P01"),
        ("SELECT m FROM t", 400, "42703"),
        ("SELECT 1 / 0 AS x", 400, "22012"),
        ("INSERT INTO t VALUES (1)", 409, "23505"),
        ("SELECT 1 AS a, 2 AS a", 400, "42701"),
        ("BEGIN", 400, "25000"),
        ("BEGIN; SELECT 1", 400, "25000"),
    ] {
        let answer = client.sql(sql);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{sql}");
    }
    client.sql("CREATE TABLE items (n BIGINT)");
    assert_eq!(
        client.sql("SELECT * FROM itms").message(),
        "table 'itms' not found: is it 'items'?"
    );
    let answer = client.sql_as("SELECT 1", "text/html");
    assert_eq!(answer.status, 406);
    assert_eq!(client.rows("SELECT 1 AS x"), json!([{"x": 1}]));
}

#[test]
fn several_statements_are_one_session() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(
        client.rows("CREATE TABLE t (n BIGINT); BEGIN; INSERT INTO t VALUES (1), (2); COMMIT; SELECT * FROM t; SELECT count(*) AS n FROM t"),
        json!([{"n": 2}])
    );
    assert_eq!(
        client.rows("SET tierra.threads = 1; SHOW tierra.threads"),
        client.rows("SET tierra.threads = 1; SHOW tierra.threads")
    );
    let answer =
        client.sql("INSERT INTO t VALUES (3); SELECT 1 / 0 AS x; INSERT INTO t VALUES (4)");
    assert_eq!((answer.status, &*answer.code()), (400, "22012"));
    assert!(
        answer.message().starts_with("statement 2: "),
        "{}",
        answer.message()
    );
    let count = "SELECT count(*) AS n FROM t";
    assert_eq!(client.rows(count), json!([{"n": 2}]));
    // What is not committed is undone, and that is no success.
    let answer = client.sql("BEGIN; INSERT INTO t VALUES (5)");
    assert_eq!(answer.code(), "25000");
    assert_eq!(client.rows(count), json!([{"n": 2}]));
}

#[test]
fn a_body_of_several_statements_is_one_transaction() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.sql("CREATE TABLE t (n BIGINT PRIMARY KEY)");
    let count = "SELECT count(*) AS n FROM t";
    // An error of syntax anywhere stops all.
    let answer = client.sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2; SELECT 1");
    assert_eq!((answer.status, &*answer.code()), (400, "42601"));
    assert!(
        answer.message().starts_with("statement 2: "),
        "{}",
        answer.message()
    );
    assert_eq!(client.rows(count), json!([{"n": 0}]));
    let answer = client.sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)");
    assert_eq!((answer.status, &*answer.code()), (409, "23505"));
    assert_eq!(client.rows(count), json!([{"n": 0}]));
    // The last answer commits: without rows, with them, and with more than an answer has.
    client.sql("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)");
    assert_eq!(
        client.rows("INSERT INTO t VALUES (3); SELECT count(*) AS n FROM t"),
        json!([{"n": 3}])
    );
    let many = "INSERT INTO t VALUES (4); SELECT value FROM generate_series(1, 100000)";
    let answer = client.sql(many).json();
    assert_eq!(
        (&answer["cut"], &answer["count"]),
        (&json!(true), &json!(10_000))
    );
    assert_eq!(client.rows(count), json!([{"n": 4}]));
    assert!(client.sql_as(&many.replace('4', "5"), "text/csv").is_whole);
    assert_eq!(client.rows(count), json!([{"n": 5}]));
    // An error in the rows undoes all.
    let late =
        "INSERT INTO t VALUES (6); SELECT 1 / (value - 90000) AS x FROM generate_series(1, 100000)";
    let answer = client.sql_as(late, "text/csv");
    assert!(!answer.is_whole || answer.status == 400);
    // A connection whose answer was broken off has ended.
    let mut client = server.connect();
    assert_eq!(client.rows(count), json!([{"n": 5}]));
    // BEGIN takes over what came before, and what comes behind COMMIT is another transaction.
    client.sql("INSERT INTO t VALUES (6); BEGIN; INSERT INTO t VALUES (7); ROLLBACK");
    assert_eq!(client.rows(count), json!([{"n": 5}]));
    let answer = client.sql(
        "INSERT INTO t VALUES (6); BEGIN; SAVEPOINT a; INSERT INTO t VALUES (7); ROLLBACK TO a; COMMIT; \
         INSERT INTO t VALUES (8); INSERT INTO t VALUES (1)",
    );
    assert_eq!(answer.code(), "23505");
    assert_eq!(client.rows(count), json!([{"n": 6}]));
    for (sql, code) in [
        ("INSERT INTO t VALUES (9); BEGIN READ ONLY; COMMIT", "25001"),
        ("INSERT INTO t VALUES (9); SAVEPOINT a; SELECT 1", "25P01"),
        ("INSERT INTO t VALUES (9); BEGIN; SELECT 1", "25000"),
    ] {
        assert_eq!(client.sql(sql).code(), code, "{sql}");
    }
    assert_eq!(client.rows(count), json!([{"n": 6}]));
    // With what can be in no transaction, each is by itself.
    let answer =
        client.sql("INSERT INTO t VALUES (9); CREATE TABLE u (n BIGINT); INSERT INTO t VALUES (9)");
    assert_eq!(answer.code(), "23505");
    assert_eq!(client.rows(count), json!([{"n": 7}]));
}
