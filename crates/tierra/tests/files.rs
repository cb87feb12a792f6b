//! The promise of `tierra generate` and `tierra load`: every row of a file or none, and a message
//! that leads to the fault.
#![cfg(feature = "cli")]

mod binary;

use std::fs;

use binary::{Ended, tierra};
use tempfile::TempDir;

struct Scratch {
    dir: TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn load(&self, table: &str, file: &str) -> Ended {
        tierra(["load", table, file, "--db", &self.path("db")])
    }

    fn csv(&self, query: &str) -> String {
        tierra(["sql", "--db", &self.path("db"), "--format=csv", "-c", query])
            .well()
            .out
    }
}

#[test]
fn csv_creates_a_table_and_then_fills_it() {
    let scratch = Scratch::new();
    let first = scratch.file(
        "a.csv",
        "id,day,price,note\n1,2026-11-20,1.5,first\n2,2026-11-21,,\"two\nlines\"\n",
    );
    let loaded = scratch.load("t", &first).well();
    for part in ["2 rows", "rows/s", "in the tail", "new table"] {
        assert!(loaded.err.contains(part), "{}", loaded.err);
    }
    let more = scratch.file("b.csv", "note,id,price,day\nthird,3,2.5,2026-11-22\n");
    scratch.load("t", &more).well();
    assert_eq!(
        scratch.csv("SELECT id, day, price, note FROM t ORDER BY id"),
        "id,day,price,note\n1,2026-11-20,1.5,first\n2,2026-11-21,,\"two\nlines\"\n3,2026-11-22,2.5,third\n"
    );
}

#[test]
fn nothing_of_a_malformed_file_is_loaded() {
    let scratch = Scratch::new();
    let good = scratch.file("good.csv", "id,price\n1,1.5\n2,2.5\n");
    scratch.load("t", &good).well();
    let before = scratch.csv("SELECT * FROM t ORDER BY id");
    let cases: [(&str, &[u8], &[&str]); 7] = [
        (
            "quote.csv",
            b"id,price\n3,3.5\n4,\"4.5\n5,5.5\n",
            &["quote.csv:3", "'price'", "never closed"],
        ),
        (
            "few.csv",
            b"id,price\n3,3.5\n4\n",
            &["few.csv:3", "1 field", "2"],
        ),
        (
            "many.csv",
            b"id,price\n3,3.5,9\n",
            &["many.csv:2", "3 fields", "2"],
        ),
        (
            "number.csv",
            b"id,price\n3,3.5\n4,cheap\n",
            &["number.csv:3", "'price'", "'cheap'", "DOUBLE"],
        ),
        (
            "range.csv",
            b"id,price\n99999999999999999999,1\n",
            &["range.csv:2", "'id'", "99999999999999999999"],
        ),
        (
            "utf8.csv",
            b"id,price\n\xff\xfe,1\n",
            &["utf8.csv:2", "'id'"],
        ),
        (
            "columns.csv",
            b"id,cost\n3,3.5\n",
            &["columns.csv", "'price'", "id, cost"],
        ),
    ];
    for (name, content, parts) in cases {
        let file = scratch.file(name, content);
        scratch.load("t", &file).with_error(parts);
        assert_eq!(scratch.csv("SELECT * FROM t ORDER BY id"), before, "{name}");
        // Nor does a table appear for it.
        if name != "columns.csv" {
            let typed = scratch.file("typed.csv", content);
            let _ = scratch.load("new", &typed);
        }
    }
    for (name, content, parts) in [
        ("empty.csv", &b""[..], &["empty.csv", "header"][..]),
        ("cut.parquet", b"PAR1 and no more", &["cut.parquet"]),
        ("picture.png", b"\x89PNG", &["picture.png", "Parquet"]),
    ] {
        let file = scratch.file(name, content);
        scratch.load("t", &file).with_error(parts);
    }
    assert_eq!(scratch.csv("SELECT * FROM t ORDER BY id"), before);
    scratch
        .load("t", "nowhere.csv")
        .with_error(&["nowhere.csv", "No such file"]);
}

#[test]
fn an_export_is_loaded_as_it_was() {
    let scratch = Scratch::new();
    let first = scratch.file(
        "first.csv",
        "id,note,price\n1,,1.5\n2,\"\",\n3,\"a \"\"b\"\", c\r\n\",-0.25\n4,\" x \",NaN\n5,-,inf\n",
    );
    let create = "CREATE TABLE t (id INTEGER, note VARCHAR, price DOUBLE);
        CREATE TABLE again (id INTEGER, note VARCHAR, price DOUBLE);
        CREATE TABLE notes (note VARCHAR)";
    let db = scratch.path("db");
    tierra(["sql", "--create", "--db", &db, "-c", create]).well();
    scratch.load("t", &first).well();
    let exported = scratch.csv("SELECT * FROM t ORDER BY id");
    scratch
        .load("again", &scratch.file("export.csv", &exported))
        .well();
    assert_eq!(scratch.csv("SELECT * FROM again ORDER BY id"), exported);
    let nulls = "SELECT id FROM again WHERE note IS NULL OR note = '' ORDER BY note IS NULL, id";
    assert_eq!(scratch.csv(nulls), "id\n2\n1\n");
    // One column of NULLs and empty strings keeps its rows, too.
    let exported = scratch.csv("SELECT note FROM t ORDER BY id");
    scratch
        .load("notes", &scratch.file("notes.csv", &exported))
        .well();
    let counts = "SELECT count(*) AS n, count(note) AS known FROM notes";
    assert_eq!(scratch.csv(counts), "n,known\n5,4\n");
}

#[test]
fn the_bytes_of_a_small_load_are_those_of_the_tail() {
    let scratch = Scratch::new();
    let file = scratch.file("a.csv", "id,name\n1,one\n2,two\n3,\n");
    let loaded = scratch.load("t", &file).well().err;
    let (_, became) = loaded.split_once("became ").expect(&loaded);
    let (bytes, _) = became.split_once(" in the tail").expect(&loaded);
    assert!(bytes.ends_with(" B"), "less than a KiB: {loaded}");
    let db = scratch.path("db");
    let tables = tierra(["sql", "--db", &db, "-c", ".tables"]).well().out;
    assert!(
        tables.ends_with(&format!("3  {bytes}\n")),
        "{tables}, {bytes}"
    );
}

#[test]
fn several_files_are_one_load() {
    let scratch = Scratch::new();
    let good = scratch.file("good.csv", "id,name\n1,one\n2,two\n");
    let more = scratch.file("more.csv", "name,id\nthree,3\n");
    let bad = scratch.file("bad.csv", "id,name\n4,four\nfive,5\n");
    let db = scratch.path("db");
    let load = |files: &[&String]| {
        let files = files.iter().map(|file| file.as_str());
        tierra(["load", "t", "--db", &db].into_iter().chain(files))
    };
    let tables = || tierra(["sql", "--db", &db, "-c", ".tables"]).well().out;
    load(&[&good, &more, &bad]).with_error(&["bad.csv:3", "'id'", "'five'"]);
    assert_eq!(tables().lines().count(), 2, "{}", tables());
    let loaded = load(&[&good, &more]).well().err;
    assert!(loaded.contains("2 files: 3 rows"), "{loaded}");
    load(&[&more, &bad]).with_error(&["bad.csv:3"]);
    let query = "SELECT id, name FROM t ORDER BY id";
    assert_eq!(scratch.csv(query), "id,name\n1,one\n2,two\n3,three\n");
}

#[test]
fn a_load_that_is_killed_leaves_no_table() {
    let scratch = Scratch::new();
    let many = scratch.file("n.csv", format!("n\n{}", "12345\n".repeat(1 << 20)));
    let db = scratch.path("db");
    tierra(["sql", "--create", "--db", &db, "-c", ".tables"]).well();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_tierra"))
        .args(["load", "t", "--db", &db])
        .args(vec![&many; 1_000])
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none(), "it cannot be done yet");
    child.kill().unwrap();
    child.wait().unwrap();
    let tables = tierra(["sql", "--db", &db, "-c", ".tables"]).well().out;
    assert_eq!(tables.lines().count(), 2, "{tables}");
}

#[test]
fn files_are_replaced_only_by_force() {
    let scratch = Scratch::new();
    let dir = scratch.path("parquet");
    fs::create_dir(&dir).unwrap();
    let precious = format!("{dir}/part.parquet");
    fs::write(&precious, "years of work").unwrap();
    let generate = ["generate", "ssb", "--scale", "0.001", "--parquet", &dir];
    tierra(generate).with_error(&["part.parquet is there", "--force"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "years of work");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    tierra(generate.iter().chain(&["--force"])).well();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 5);
    scratch.load("part", &precious).well();
}

#[test]
fn a_missing_file_makes_no_database() {
    let scratch = Scratch::new();
    scratch
        .load("t", "nowhere.csv")
        .with_error(&["nowhere.csv"]);
    assert!(!scratch.dir.path().join("db").exists());
}

#[test]
fn a_benchmark_reads_the_same_from_files_and_from_the_generator() {
    let scratch = Scratch::new();
    let generate = ["generate", "ssb", "--scale", "0.001"];
    let (files, direct) = (scratch.path("parquet"), scratch.path("direct"));
    tierra(generate.iter().chain(&["--parquet", &files])).well();
    tierra(generate.iter().chain(&["--db", &direct])).well();
    for table in ["date", "supplier", "customer", "part", "lineorder"] {
        scratch
            .load(table, &format!("{files}/{table}.parquet"))
            .well();
        let query = format!("SELECT * FROM {table} ORDER BY 1, 2");
        let loaded = scratch.csv(&query);
        let generated = tierra(["sql", "--db", &direct, "--format=csv", "-c", &query]).well();
        assert_eq!(loaded, generated.out, "{table}");
    }
    // Once more would give every row twice: refused, and nothing is lost by it.
    tierra(generate.iter().chain(&["--db", &direct])).with_error(&[
        "tables date, supplier, customer, part, lineorder are there",
        "drop",
    ]);
    let count = "SELECT count(*) AS n FROM lineorder";
    let count = tierra(["sql", "--db", &direct, "--format=csv", "-c", count]).well();
    assert_eq!(count.out, "n\n6000\n");
}

#[test]
fn tpch_is_generated_whole() {
    let scratch = Scratch::new();
    let db = scratch.path("db");
    tierra(["generate", "tpch", "--scale", "0.001", "--db", &db]).well();
    let query = "SELECT (SELECT count(*) FROM orders) AS orders,
        (SELECT count(*) FROM nation) AS nations, (SELECT count(*) FROM partsupp) AS partsupps";
    assert_eq!(
        scratch.csv(query),
        "orders,nations,partsupps\n1500,25,800\n"
    );
}

#[test]
fn what_is_no_file_of_columns_is_said() {
    let scratch = Scratch::new();
    let semicolons = scratch.file("s.csv", "id;name\n1;one\n");
    scratch
        .load("t", &semicolons)
        .with_error(&["s.csv:1", "'id;name'", "';'", "in quotes"]);
    let quoted = scratch.file("q.csv", "\"id;name\"\n1\n");
    scratch.load("t", &quoted).well();
    let exported = scratch.csv("SELECT * FROM t");
    assert_eq!(exported, "\"id;name\"\n1\n");
    let header = scratch.file("h.tsv", "id\tname\n");
    let loaded = scratch.load("u", &header).well().err;
    assert!(
        loaded.contains("h.tsv: no rows; the new table is empty"),
        "{loaded}"
    );
    scratch.load("tierra_tiers", &quoted).with_error(&[
        "q.csv",
        "'tierra_tiers'",
        "the database's own",
    ]);
}

#[test]
fn a_new_database_is_asked_for() {
    let scratch = Scratch::new();
    let db = scratch.path("db");
    let query = ["sql", "--db", &db, "-c", "SELECT 1"];
    let advice = format!("tierra sql --create --db {db}");
    tierra(query).with_error(&[&advice]);
    fs::create_dir(&db).unwrap();
    tierra(query).with_error(&[&advice]);
    tierra(["sql", "--create", "--db", &db, "-c", "SELECT 1"]).well();
    tierra(query).well();
}

#[test]
fn a_copy_to_standard_output_goes_on_where_that_is() {
    let scratch = Scratch::new();
    let db = scratch.path("db");
    tierra(["sql", "--create", "--db", &db, "-c", "SELECT 1"]).well();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let path = scratch.file("out", "");
        let copy = format!("COPY (SELECT 2 AS b) TO '{name}' STORED AS CSV");
        let script = format!("SELECT 1 AS a; {copy}; SELECT 3 AS c");
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_tierra"))
            .args(["sql", "--db", &db, "--format=csv", "-c", &script])
            .stdout(fs::File::options().write(true).open(&path).unwrap())
            .status();
        assert!(ended.unwrap().success(), "{name}");
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written, "a\n1\nb\n2\nc\n3\n", "{name}");
    }
}
