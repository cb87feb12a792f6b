//! The promise of `tierra sql` to scripts: what goes to which stream, formats that programs can
//! read, statements that stay done, and an exit status that tells.
#![cfg(feature = "cli")]

mod binary;

use std::fs;

use binary::{Ended, tierra, tierra_reading};
use tempfile::TempDir;

/// A database with three rows, one of them full of NULLs.
fn database() -> (TempDir, String) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db").display().to_string();
    let script = "CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(9, 2));
        INSERT INTO t VALUES (1, 'a \"b\", c', 1.50), (2, '', -0.01), (3, NULL, NULL)";
    tierra(["sql", "--create", "--db", &dir, "-c", script]).well();
    (scratch, dir)
}

fn sql(dir: &str, arguments: &[&str]) -> Ended {
    tierra(["sql", "--db", dir].iter().chain(arguments))
}

#[test]
fn every_format_is_exact() {
    let (_scratch, dir) = database();
    let query = "SELECT * FROM t ORDER BY id";
    let table = sql(&dir, &["-c", query]).well();
    assert_eq!(
        table.out,
        "+----+----------+-------+\n\
         | id | name     | price |\n\
         +----+----------+-------+\n\
         | 1  | a \"b\", c | 1.50  |\n\
         | 2  |          | -0.01 |\n\
         | 3  | NULL     | NULL  |\n\
         +----+----------+-------+\n"
    );
    let csv = sql(&dir, &["--format", "csv", "-c", query]).well();
    assert_eq!(
        csv.out,
        "id,name,price\n1,\"a \"\"b\"\", c\",1.50\n2,\"\",-0.01\n3,,\n"
    );
    let json = sql(&dir, &["--format", "json", "-c", query]).well();
    let rows: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(rows[0]["name"], "a \"b\", c");
    assert_eq!(rows[1]["id"], 2);
    assert!(rows[2]["price"].is_null());
    assert_eq!(rows.as_array().unwrap().len(), 3);
    assert_eq!(format!("{}{}{}", table.err, csv.err, json.err), "");
}

#[test]
fn json_tells_what_is_no_number_from_null() {
    let query =
        "SELECT 0.0 / 0.0 AS nan, -1e0 / 0.0 AS least, CAST(NULL AS DOUBLE) AS missing, 1.5 AS x";
    let json = tierra(["sql", "--format=json", "-c", query]).well();
    assert_eq!(
        json.out,
        "[{\"nan\":\"NaN\",\"least\":\"-Infinity\",\"missing\":null,\"x\":1.5}]\n"
    );
}

#[test]
fn an_empty_result_still_has_its_columns() {
    let (_scratch, dir) = database();
    let query = "SELECT id, name FROM t WHERE id > 3";
    assert!(
        sql(&dir, &["-c", query])
            .well()
            .out
            .contains("| id | name |")
    );
    assert_eq!(
        sql(&dir, &["--format=csv", "-c", query]).well().out,
        "id,name\n"
    );
    assert_eq!(
        sql(&dir, &["--format=json", "-c", query]).well().out,
        "[]\n"
    );
}

#[test]
fn a_script_stops_at_its_first_error_and_says_where() {
    let (scratch, dir) = database();
    let script = scratch.path().join("script.sql");
    fs::write(
        &script,
        "-- two statements, the second wrong\nINSERT INTO t VALUES (4, 'd', 4);\n\n\
         INSERT INTO t\nVALUES (5, 'e', 5), (1, 'again', 1);\nINSERT INTO t VALUES (6, 'f', 6);\n",
    )
    .unwrap();
    let script = script.display().to_string();
    let place = format!("{script}:4");
    sql(&dir, &["-f", &script]).with_error(&["error: ", &place, "primary key"]);
    // The first statement stays done, the second left nothing, the third never ran.
    let ids = sql(
        &dir,
        &["--format=csv", "-c", "SELECT id FROM t ORDER BY id"],
    )
    .well();
    assert_eq!(ids.out, "id\n1\n2\n3\n4\n");
}

#[test]
fn a_script_may_begin_with_a_comment_and_quote_with_dollars() {
    let script = "-- only a comment";
    assert_eq!(tierra(["sql", "-c", script]).well().out, "");
    let script = "-- then\nSELECT $$a;b$$ AS x";
    let ended = tierra(["sql", "--format=csv", "-c", script]).well();
    assert_eq!(ended.out, "x\na;b\n");
}

#[test]
fn standard_input_is_a_script() {
    let (_scratch, dir) = database();
    let script = ".format csv\nSELECT ';' AS semicolon;\nSELECT count(*) AS n FROM t";
    let piped = tierra_reading(script, ["sql", "--db", &dir]).well();
    assert_eq!(piped.out, "semicolon\n;\nn\n3\n");
    let named = tierra_reading(script, ["sql", "--db", &dir, "-f", "-"]).well();
    assert_eq!(named.out, piped.out);
    let quit = tierra_reading(".quit\nnonsense;", ["sql", "--db", &dir]).well();
    assert_eq!(quit.out, "");
}

#[test]
fn commands_describe_the_database() {
    let (_scratch, dir) = database();
    let described = tierra_reading(".tables\n.schema t\n.help", ["sql", "--db", &dir]).well();
    for part in [
        "table  columns  rows  packed  tail rows   tail\n",
        "t            3     3     0 B          3  ",
        "CREATE TABLE t (\n  id INTEGER NOT NULL,\n  name VARCHAR,\n  price DECIMAL(9, 2),\n  PRIMARY KEY (id)\n);",
        ".format",
    ] {
        assert!(
            described.out.contains(part),
            "no {part:?} in: {}",
            described.out
        );
    }
    // What .schema says creates the same table again.
    let schema = tierra_reading(".schema", ["sql", "--db", &dir]).well().out;
    let again = tierra_reading(&format!("{schema}\n.schema"), ["sql"])
        .well()
        .out;
    assert!(again.contains(&schema), "{again}");
    tierra_reading("select 1;\n.schema u", ["sql", "--db", &dir]).with_error(&[
        "standard input:2",
        "no table 'u'",
        ".tables",
    ]);
}

#[test]
fn mistakes_are_explained() {
    let (_scratch, dir) = database();
    for (statement, parts) in [
        ("SELECT * FROM u", &["table 'u' not found"][..]),
        ("SELECT nam FROM t", &["nam"]),
        ("SELEC 1", &["SELEC"]),
        ("SELECT 'open", &["nterminated"]),
        ("INSERT INTO t VALUES (7, 'x', 12345678.00)", &["12345678"]),
        ("INSERT INTO t VALUES (2147483648, 'x', 1)", &["2147483648"]),
        (
            "INSERT INTO t (name) VALUES ('no key')",
            &["'id'", "NOT NULL"],
        ),
        ("CREATE TABLE t (id INTEGER)", &["t", "exists"]),
    ] {
        sql(&dir, &["-c", statement]).with_error(parts);
    }
    let count = sql(&dir, &["--format=csv", "-c", "SELECT count(*) FROM t"]).well();
    assert!(count.out.ends_with("\n3\n"), "{}", count.out);
}

#[test]
fn a_directory_that_is_no_database_is_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let missing = scratch.path().join("missing");
    let name = missing.display().to_string();
    sql(&name, &["-c", "SELECT 1"]).with_error(&[&name, "no such"]);
    assert!(!missing.exists());

    let foreign = scratch.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("letter.txt"), "dear").unwrap();
    let name = foreign.display().to_string();
    sql(&name, &["--create", "-c", "SELECT 1"]).with_error(&[&name]);
    assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    // A script that is not there is noticed before a database is made for it.
    let name = missing.display().to_string();
    sql(&name, &["--create", "-f", "nowhere.sql"]).with_error(&["nowhere.sql"]);
    assert!(!missing.exists());
}

#[test]
fn without_a_directory_the_database_is_temporary() {
    let script = "CREATE TABLE t AS SELECT 1 AS one; SELECT one + 1 AS two FROM t";
    let ended = tierra(["sql", "--format=csv", "-c", script]).well();
    assert_eq!(ended.out, "two\n2\n");
}

#[test]
fn a_wrong_command_line_is_status_2() {
    assert_eq!(tierra(["sql", "--format", "xml"]).status, 2);
    assert_eq!(tierra(["generate", "ssb", "--scale", "1"]).status, 2);
    let scale = tierra(["generate", "ssb", "--scale", "0", "--db", "x"]);
    assert_eq!(scale.status, 2);
    assert!(scale.err.contains("0.001 to 300"), "{}", scale.err);
    assert_eq!(tierra(["--version"]).well().err, "");
}

#[test]
fn the_words_of_other_shells_lead_to_ours() {
    for (typed, command) in [("quit", ".quit"), ("\\q", ".quit"), ("help;", ".help")] {
        let ended = tierra_reading(typed, ["sql"]);
        ended.with_error(&["is no SQL", command]);
    }
}
