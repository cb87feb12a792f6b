//! A parameter that is compared keeps the value that the client sent; one that is stored is assigned to its column.

use crate::client::{bind, code_of, execute, parse, rows_of};
use crate::server::TestServer;

const INT8: u32 = 20;
const FLOAT8: u32 = 701;
const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;
const NUMERIC: u32 = 1700;
const FLOAT8S: u32 = 1022;
const NUMERICS: u32 = 1231;

fn server() -> TestServer {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER, d DECIMAL(9, 2), day DATE)");
    client.rows(
        "INSERT INTO t VALUES (1, 1, 1.50, DATE '2024-01-01'), (2, 2, 1.51, DATE '2024-01-02'),
         (3, 3, NULL, NULL)",
    );
    server
}

/// What PostgreSQL 15 answers, parameter for parameter.
#[test]
fn what_is_compared_is_not_rounded() {
    let server = server();
    let mut client = server.connect();
    for (sql, ty, argument, expected) in [
        ("SELECT id FROM t WHERE id = $1", FLOAT8, "1.7", &[][..]),
        ("SELECT id FROM t WHERE id = $1", FLOAT8, "2", &["2"]),
        ("SELECT id FROM t WHERE id = $1", NUMERIC, "1.7", &[]),
        ("SELECT id FROM t WHERE id = $1", NUMERIC, "2.00", &["2"]),
        ("SELECT id FROM t WHERE id > $1", FLOAT8, "1.7", &["2", "3"]),
        ("SELECT id FROM t WHERE n = $1", FLOAT8, "1.7", &[]),
        ("SELECT id FROM t WHERE n = $1", INT8, "3000000000", &[]),
        (
            "SELECT id FROM t WHERE n < $1",
            INT8,
            "3000000000",
            &["1", "2", "3"],
        ),
        ("SELECT id FROM t WHERE n <= $1", NUMERIC, "1.9", &["1"]),
        (
            "SELECT id FROM t WHERE n BETWEEN 0 AND $1",
            FLOAT8,
            "1.9",
            &["1"],
        ),
        ("SELECT id FROM t WHERE n IN ($1, 3)", FLOAT8, "1.9", &["3"]),
        ("SELECT id FROM t WHERE d < $1", 0, "1.505", &["1"]),
        ("SELECT id FROM t WHERE d = $1", NUMERIC, "1.505", &[]),
        ("SELECT id FROM t WHERE d = $1", NUMERIC, "1.5000", &["1"]),
        (
            "SELECT id FROM t WHERE d > $1",
            NUMERIC,
            "12345678901.5",
            &[],
        ),
        ("SELECT id FROM t WHERE d = $1", FLOAT8, "1.5", &["1"]),
        (
            "SELECT id FROM t WHERE day < $1",
            TIMESTAMP,
            "2024-01-02 12:00:00",
            &["1", "2"],
        ),
        (
            "SELECT id FROM t WHERE day < $1",
            DATE,
            "2024-01-02",
            &["1"],
        ),
        (
            "SELECT id FROM t WHERE d = ANY($1)",
            NUMERICS,
            "{1.505}",
            &[],
        ),
        (
            "SELECT id FROM t WHERE d = ANY($1)",
            0,
            "{1.505,1.50}",
            &["1"],
        ),
        (
            "SELECT id FROM t WHERE d = ANY($1)",
            NUMERICS,
            "{12345678.5,1.51}",
            &["2"],
        ),
        (
            "SELECT id FROM t WHERE d <> ALL($1)",
            NUMERICS,
            "{1.505}",
            &["1", "2"],
        ),
        (
            "SELECT id FROM t WHERE id = ANY($1)",
            FLOAT8S,
            "{1.7,3}",
            &["3"],
        ),
        (
            "SELECT id FROM t WHERE id = ANY($1) AND n > 0",
            FLOAT8S,
            "{1.7,3}",
            &["3"],
        ),
        (
            "SELECT id FROM t WHERE id < 3 AND id * $1 > 3.2",
            FLOAT8,
            "1.7",
            &["2"],
        ),
    ] {
        let messages = client.run(&[
            parse("", &format!("{sql} ORDER BY id"), &[ty]),
            bind("", "", 0, &[Some(argument.as_bytes())], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages), None, "{sql} with {argument} as {ty}");
        assert_eq!(
            rows_of(&messages).concat(),
            expected,
            "{sql} with {argument} as {ty}"
        );
        // By the primary key, without a sort, another plan.
        let messages = client.run(&[
            parse("", sql, &[ty]),
            bind("", "", 0, &[Some(argument.as_bytes())], &[]),
            execute("", 0),
        ]);
        let mut found = rows_of(&messages).concat();
        found.sort_unstable();
        assert_eq!(found, expected, "{sql} with {argument} as {ty}");
    }
}

#[test]
fn what_is_computed_keeps_its_type() {
    let server = server();
    let mut client = server.connect();
    for (sql, ty, argument, expected) in [
        ("SELECT n + $1 FROM t WHERE id = 1", FLOAT8, "1.5", "2.5"),
        ("SELECT n + $1 FROM t WHERE id = 1", NUMERIC, "1.5", "2.5"),
        ("SELECT n + $1 FROM t WHERE id = 1", 0, "2", "3"),
        (
            "SELECT d + $1 FROM t WHERE id = 1",
            NUMERIC,
            "0.005",
            "1.505",
        ),
    ] {
        let messages = client.run(&[
            parse("", sql, &[ty]),
            bind("", "", 0, &[Some(argument.as_bytes())], &[]),
            execute("", 0),
        ]);
        let found = rows_of(&messages)[0][0].parse::<f64>().unwrap();
        assert_eq!(found, expected.parse::<f64>().unwrap(), "{sql} with {ty}");
    }
}

#[test]
fn a_write_by_key_changes_the_rows_that_are_equal() {
    let server = server();
    let mut client = server.connect();
    for sql in [
        "DELETE FROM t WHERE id = $1",
        "UPDATE t SET n = 9 WHERE id = $1",
        "DELETE FROM t WHERE id = $1 AND n > 0",
    ] {
        let messages = client.run(&[
            parse("", sql, &[FLOAT8]),
            bind("", "", 0, &[Some(b"1.7")], &[]),
            execute("", 0),
        ]);
        assert!(crate::client::tags(&messages)[0].ends_with(" 0"), "{sql}");
    }
    // What is stored is rounded, as always.
    for sql in [
        "UPDATE t SET n = $1 WHERE id = 3",
        "INSERT INTO t (id, n) VALUES (4, $1)",
        "INSERT INTO t (id, n) SELECT 5, $1",
    ] {
        let messages = client.run(&[
            parse("", sql, &[FLOAT8]),
            bind("", "", 0, &[Some(b"7.5")], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages), None, "{sql}");
    }
    assert_eq!(
        client.rows("SELECT id, n FROM t ORDER BY id"),
        [["1", "1"], ["2", "2"], ["3", "8"], ["4", "8"], ["5", "8"]]
    );
}
