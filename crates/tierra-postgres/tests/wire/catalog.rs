//! Queries of the system catalog are answered as PostgreSQL would, or refused; in both ways to send them, as text and as binary.

use crate::client::{bind, code_of, describe, execute, kinds, parse, rows_of, values};
use crate::server::TestServer;

const TABLES: &str =
    "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relnamespace = 2200 AND c.relkind = 'r'";

fn server() -> TestServer {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT PRIMARY KEY, \"S s\" VARCHAR, d DECIMAL(9, 2))");
    client.rows("CREATE TABLE u (n INTEGER)");
    server
}

#[test]
fn every_clause_counts() {
    let server = server();
    let mut client = server.connect();
    let none: [[&str; 1]; 0] = [];
    for (clause, expected) in [
        ("", &[["t"], ["u"]][..]),
        ("ORDER BY 1 DESC", &[["u"], ["t"]]),
        ("AND c.relhasindex", &[["t"]]),
        ("EXCEPT SELECT 't'", &[["u"]]),
        ("ORDER BY 1 OFFSET 1", &[["u"]]),
        ("FETCH FIRST 0 ROWS ONLY", &none),
        ("AND c.relname ~ '^(t)$'", &[["t"]]),
        ("AND c.relname = E'\\x74'", &[["t"]]),
        ("AND c.oid = 'public.t'::regclass", &[["t"]]),
    ] {
        let mut rows = client.rows(&format!("{TABLES} {clause}"));
        if !clause.contains("ORDER") {
            rows.sort();
        }
        assert_eq!(rows, expected, "{clause}");
    }
    for (wrong, code) in [
        ("SELECT nosuch FROM pg_class", "42703"),
        ("SELECT pg_nosuch()", "42883"),
        ("SELECT * FROM pg_catalog.pg_nosuch", "42P01"),
        ("SELECT * FROM pg_stat_database", "0A000"),
        ("SELECT * FROM pg_class, t", "0A000"),
        ("SELECT 'nosuch'::regclass", "42P01"),
        ("SELECT relname FROM pg_class WHERE oid = $1", "42P02"),
    ] {
        assert_eq!(client.code(wrong), code, "{wrong}");
    }
    assert_eq!(
        client.rows("SELECT reltuples FROM pg_class WHERE relname = 't'"),
        [["0"]]
    );
}

/// A query that reads other tables as well is one of SQL, whose information_schema is another.
#[test]
fn both_ways_name_the_types_of_columns_alike() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (a BIGINT PRIMARY KEY, b INTEGER, c BOOLEAN, d DOUBLE, e DECIMAL(9, 2), f DATE, g TIMESTAMP, h VARCHAR)");
    client.rows("CREATE TABLE one (n INTEGER)");
    client.rows("INSERT INTO one VALUES (1)");
    let columns = |others: &str| {
        format!(
            "SELECT column_name, data_type, numeric_precision, numeric_scale FROM information_schema.columns{others} \
             WHERE table_name = 't' ORDER BY ordinal_position"
        )
    };
    let rows = client.rows(&columns(""));
    assert_eq!(rows.len(), 8);
    assert_eq!(client.rows(&columns(", one")), rows);
}

#[test]
fn keys_and_types_are_told() {
    let server = server();
    let mut client = server.connect();
    let columns = "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute \
        WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum";
    let expected = [
        ["n", "bigint", "t"],
        ["S s", "text", "f"],
        ["d", "numeric(9,2)", "f"],
    ];
    assert_eq!(client.rows(columns), expected);
    let key = "SELECT pg_get_constraintdef(oid), conkey FROM pg_constraint WHERE conrelid = 't'::regclass";
    assert_eq!(client.rows(key), [["PRIMARY KEY (n)", "{1}"]]);
    // What is created is there at once, in the transaction of the query, too.
    client.rows("BEGIN; COMMIT");
    client.rows("CREATE TABLE v (n BIGINT)");
    assert_eq!(
        client.rows(&format!("{TABLES} ORDER BY 1")),
        [["t"], ["u"], ["v"]]
    );
}

#[test]
fn parameters_have_the_types_that_they_are_compared_with() {
    let server = server();
    let mut client = server.connect();
    let sql = "SELECT oid, relname, relkind, relhasindex, relnatts, reltuples FROM pg_class \
        WHERE relname = $1 AND relnatts > $2 AND oid <> $3 AND relkind = ANY($4)";
    let messages = client.run(&[parse("q", sql, &[]), describe(b'S', "q")]);
    assert_eq!(kinds(&messages), "1tTZ");
    let types: Vec<u32> = messages[1].1[2..]
        .chunks(4)
        .map(|oid| u32::from_be_bytes(oid.try_into().unwrap()))
        .collect();
    assert_eq!(types, [19, 21, 26, 1002]);
    let arguments = [
        Some(&b"t"[..]),
        Some(&b"2"[..]),
        Some(&b"7"[..]),
        Some(&b"{r,v}"[..]),
    ];
    let bound = bind("", "q", 0, &arguments, &[1]);
    let messages = client.run(&[bound, execute("", 0)]);
    assert_eq!(code_of(&messages), None);
    assert_eq!(kinds(&messages), "2DCZ");
    let row = values(&messages[1].1);
    assert_eq!(row[0].as_ref().map(Vec::len), Some(4));
    assert_eq!(row[1].as_deref(), Some(&b"t"[..]));
    assert_eq!(row[2].as_deref(), Some(&b"r"[..]));
    assert_eq!(row[3].as_deref(), Some(&[1][..]));
    assert_eq!(row[4].as_deref(), Some(&[0, 3][..]));
    assert_eq!(row[5].as_deref(), Some(&[0; 4][..]));
    let wrong = [Some(&b"t"[..]), Some(&b"x"[..]), None, None];
    let messages = client.run(&[bind("", "q", 0, &wrong, &[]), execute("", 0)]);
    assert_eq!(code_of(&messages).as_deref(), Some("22P02"));
    let sql = "SELECT relname FROM pg_class WHERE relnatts = $1 AND oid = $2::oid";
    client.run(&[parse("b", sql, &[])]);
    let binary = [Some(&[0, 3][..]), row[0].as_deref()];
    let messages = client.run(&[bind("", "b", 1, &binary, &[]), execute("", 0)]);
    assert_eq!(rows_of(&messages), [["t"]]);
}

#[test]
fn rows_come_in_parts_and_through_cursors() {
    let server = server();
    let mut client = server.connect();
    client.rows("BEGIN");
    client.rows(&format!(
        "DECLARE c CURSOR WITH HOLD FOR {TABLES} ORDER BY 1"
    ));
    assert_eq!(client.rows("FETCH c"), [["t"]]);
    client.rows("COMMIT");
    assert_eq!(client.rows("FETCH ALL c"), [["u"]]);
    let open = [parse("", TABLES, &[]), bind("p", "", 0, &[], &[])].concat();
    client.rows("BEGIN");
    let messages = client.run(&[open, execute("p", 1), execute("p", 1), execute("p", 1)]);
    assert_eq!(kinds(&messages), "12DsDsCZ");
    assert_eq!(rows_of(&messages).len(), 2);
    client.rows("ROLLBACK");
    client.rows("BEGIN");
    assert_eq!(client.code("SELECT nosuch FROM pg_class"), "42703");
    assert_eq!(client.code(TABLES), "25P02");
}

#[test]
fn no_query_takes_the_server_along() {
    let server = server();
    let mut client = server.connect();
    let endless = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c";
    assert_eq!(client.code(endless), "54000");
    for (left, right) in [("(", ")"), ("- ", ""), ("1 + ", ""), ("NOT ", "")] {
        let sql = format!(
            "SELECT {}1{}, version()",
            left.repeat(20_000),
            right.repeat(20_000)
        );
        let code = client.code(&sql);
        assert!(
            ["54001", "42601", "54000", "42804"].contains(&code.as_str()),
            "{left}: {code}"
        );
    }
    assert_eq!(client.rows(TABLES).len(), 2);
}
