//! Files that a query reads and writes: what COPY writes is what was there, and a file is what a load takes it for.

use std::fs;
use std::path::Path;

use arrow::ipc::writer::StreamWriter;

use crate::twins::{Twins, rows, write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_copied_is_read_back() {
    let twins = Twins::new();
    let tierra = &twins.tierra;
    let columns =
        "id INTEGER, note VARCHAR, price DECIMAL(20, 2), of DOUBLE, at TIMESTAMP, \"a;b\" BOOLEAN";
    let create = format!(
        "CREATE TABLE t ({columns}); CREATE TABLE u ({columns}); CREATE TABLE v ({columns});
         INSERT INTO t VALUES (1, '', 1.10, 1e300, '2026-11-20 10:00:00.123456', true),
             (2, NULL, NULL, NULL, NULL, NULL), (3, 'a \"b\", c;' || chr(9) || chr(10), -0.01, 'NaN', '1969-01-01', false)"
    );
    tierra.execute(&create).await.unwrap();
    let all = |table: &str| format!("SELECT * FROM {table} ORDER BY id");
    let expected = rows(&tierra.query(&all("t")).await.unwrap());
    for (name, other) in [("new/t.csv", "u"), ("t.tsv", "v")] {
        let path = twins.dir.path().join(name).display().to_string();
        let copy = tierra.sql(&format!("COPY t TO '{path}'")).await.unwrap();
        assert!(format!("{copy:?}").contains("rows: Some(3)"), "{copy:?}");
        let insert = format!("INSERT INTO {other} SELECT * FROM '{path}'");
        tierra.sql(&insert).await.unwrap();
        assert_eq!(rows(&tierra.query(&all(other)).await.unwrap()), expected);
        // Over what it reads: the file is there until the new one is.
        let again = format!("COPY (SELECT note FROM '{path}' WHERE id < 3) TO '{path}'");
        tierra.sql(&again).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "note\n\"\"\n\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_leaves_what_was() {
    let twins = Twins::new();
    let path = twins.dir.path().join("t.csv");
    fs::write(&path, "as it was").unwrap();
    let failing = format!(
        "COPY (SELECT 9223372036854775800 + value AS n FROM generate_series(1, 100000) AS s(value)) TO '{}'",
        path.display()
    );
    twins.tierra.sql(&failing).await.unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
    let names = fs::read_dir(twins.dir.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["db", "t.csv"]);
    let into = |to: &Path| format!("COPY (SELECT 1) TO '{}' STORED AS CSV", to.display());
    let error = twins.tierra.sql(&into(twins.dir.path())).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot write "), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_that_a_load_takes_is_read() {
    let twins = Twins::new();
    let rows_there = twins.peer.sql("SELECT 1 AS n UNION ALL SELECT 2 AS n");
    let batches = rows_there.await.unwrap().collect().await.unwrap();
    let schema = batches[0].schema();
    let dir = twins.dir.path();
    for name in ["a.arrow", "a.feather", "a.ipc", "plain"] {
        write(&dir.join(name), &schema, &batches);
    }
    let stream = fs::File::create(dir.join("a.arrows")).unwrap();
    let mut stream = StreamWriter::try_new(stream, &schema).unwrap();
    batches
        .iter()
        .for_each(|batch| stream.write(batch).unwrap());
    stream.finish().unwrap();
    let parquet = dir.join("a.parquet");
    let copy = format!(
        "COPY (SELECT 1 AS n UNION ALL SELECT 2) TO '{}'",
        parquet.display()
    );
    twins.tierra.sql(&copy).await.unwrap();
    fs::copy(&parquet, dir.join("named otherwise.data")).unwrap();
    fs::write(dir.join("a.CSV"), "n\n1\n2\n").unwrap();
    for name in [
        "a.arrow",
        "a.feather",
        "a.ipc",
        "plain",
        "a.arrows",
        "a.parquet",
        "named otherwise.data",
        "a.CSV",
    ] {
        let query = format!("SELECT sum(n) FROM '{}'", dir.join(name).display());
        let found = twins.tierra.query(&query).await;
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(rows(&found), ["3"], "{name}");
    }
    fs::write(dir.join("cut.parquet"), "PAR1 and no more").unwrap();
    let query = format!("SELECT * FROM '{}'", dir.join("cut.parquet").display());
    let error = twins.tierra.query(&query).await.unwrap_err();
    assert!(error.to_string().contains("cut.parquet: "), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_reads_the_file_that_is_there() {
    let twins = Twins::new();
    let path = twins.dir.path().join("t.csv");
    fs::write(&path, "a,b\n1,2\n").unwrap();
    let sql = format!("PREPARE q AS SELECT a + $1 FROM '{}'", path.display());
    twins.tierra.sql(&sql).await.unwrap();
    let answer = async || rows(&twins.tierra.query("EXECUTE q(1)").await.unwrap());
    assert_eq!(answer().await, ["2"]);
    fs::write(&path, "a,b\n7,2\n").unwrap();
    assert_eq!(answer().await, ["8"]);
    fs::write(&path, "b,a\n7,2\n").unwrap();
    let error = twins.tierra.query("EXECUTE q(1)").await.unwrap_err();
    assert!(
        error.to_string().contains("its header is another"),
        "{error}"
    );
}
