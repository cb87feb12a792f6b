//! Files that a query reads and writes: what COPY writes is what was there, and a file is what a load takes it for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::ipc::writer::StreamWriter;
use futures::StreamExt;
use tierra_sql::Outcome;

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

/// Another program has written a file with both zeros, a NaN with its sign set, and nanoseconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_files_are_as_stored_ones() {
    let twins = Twins::new();
    let doubles = Float64Array::from(vec![-0.0, 0.0, -f64::NAN, f64::NAN]);
    let instants = TimestampNanosecondArray::from(vec![-1, 0, 1_999, 1]);
    let columns = [
        ("f", Arc::new(doubles) as _),
        ("n", Arc::new(instants) as _),
        ("id", Arc::new(Int64Array::from_iter_values(0..4)) as _),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let path = twins.dir.path().join("other.arrow").display().to_string();
    write(Path::new(&path), &batch.schema(), &[batch]);
    let ask = async |sql: String| rows(&twins.tierra.query(&sql).await.unwrap());
    for (sql, expected) in [
        (
            format!("SELECT f, count(*) FROM '{path}' GROUP BY f ORDER BY f"),
            "0.000000000000e0|2, NaN|2",
        ),
        (
            format!("SELECT count(*) FROM '{path}' WHERE f = 0 OR f > 1e300"),
            "4",
        ),
        (
            format!("SELECT max(f), min(n) FROM '{path}'"),
            "NaN|1969-12-31T23:59:59.999999",
        ),
        (
            format!(
                "SELECT id FROM '{path}' WHERE n < TIMESTAMP '1500-01-01' OR n = TIMESTAMP '1970-01-01 00:00:00.000001'"
            ),
            "2",
        ),
        (
            format!(
                "SELECT (SELECT count(*) FROM '{path}' p WHERE p.f = x.f) FROM '{path}' x WHERE id = 0"
            ),
            "2",
        ),
    ] {
        let found = ask(sql.clone()).await;
        assert_eq!(found.join(", "), expected, "{sql}");
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
async fn a_copy_takes_the_place_of_a_file_and_nothing_else_of_it() {
    let twins = Twins::new();
    let dir = twins.dir.path();
    let copy = async |name: &str| {
        let path = dir.join(name).display().to_string();
        let copy = format!("COPY (SELECT 1 AS a) TO '{path}' STORED AS CSV");
        twins.tierra.sql(&copy).await.map(drop)
    };
    let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
    fs::write(dir.join("secret"), "as it was").unwrap();
    fs::set_permissions(dir.join("secret"), PermissionsExt::from_mode(0o604)).unwrap();
    fs::write(dir.join("usual"), "").unwrap();
    copy("secret").await.unwrap();
    copy("new").await.unwrap();
    assert_eq!(mode("secret"), 0o604);
    assert_eq!(mode("new"), mode("usual"));

    // A link stays one, wherever it leads.
    symlink("secret", dir.join("link")).unwrap();
    symlink("link", dir.join("to link")).unwrap();
    symlink("later/there", dir.join("dangling")).unwrap();
    fs::write(dir.join("secret"), "as it was").unwrap();
    for (name, file) in [("to link", "secret"), ("dangling", "later/there")] {
        copy(name).await.unwrap();
        assert!(dir.join(name).is_symlink(), "{name}");
        assert_eq!(fs::read_to_string(dir.join(file)).unwrap(), "a\n1\n");
    }

    // A program that runs cannot be written to, not even by root.
    let program = dir.join("program");
    fs::copy("/bin/sh", &program).unwrap();
    let there = fs::read(&program).unwrap();
    let mut running = Command::new(&program)
        .arg0("sh")
        .args(["-c", "read it"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let refused = copy("program").await;
    running.kill().unwrap();
    running.wait().unwrap();
    let error = refused.unwrap_err().to_string();
    assert!(error.starts_with("cannot write "), "{error}");
    assert!(fs::read(&program).unwrap() == there, "it is another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn digits_are_copied_to_every_kind_of_file() {
    let twins = Twins::new();
    let number = "12345678901234567.89";
    for name in ["d.csv", "d.json", "d.parquet", "d.arrow"] {
        let path = twins.dir.path().join(name).display().to_string();
        let copy = format!("COPY (SELECT CAST({number} AS DECIMAL(20, 2)) AS d) TO '{path}'");
        twins.tierra.sql(&copy).await.unwrap();
        let found = match name {
            // What is read of text is a guess.
            "d.csv" | "d.json" => fs::read_to_string(&path).unwrap(),
            _ => {
                let query = format!("SELECT d FROM '{path}'");
                rows(&twins.tierra.query(&query).await.unwrap()).join("")
            }
        };
        assert!(found.contains(number), "{name}: {found}");
    }
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

/// Rows, and bytes of texts, of each batch of a query's first column.
async fn batches(twins: &Twins, query: &str) -> Vec<(usize, usize)> {
    let Outcome::Rows(mut rows) = twins.tierra.sql(query).await.unwrap() else {
        panic!("{query} is a query");
    };
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        let batch = batch.unwrap();
        let texts = batch.column(0).as_string_view_opt();
        let bytes = texts.map_or(0, |texts| texts.total_buffer_bytes_used());
        batches.push((batch.num_rows(), bytes));
    }
    batches
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_wide_records_has_few() {
    const MIB: usize = 1 << 20;
    let twins = Twins::new();
    let path = twins.dir.path().join("wide.csv");
    let text = "x".repeat(MIB);
    let records = (0..40).map(|id| format!("{id},{text}\n"));
    fs::write(&path, format!("id,text\n{}", records.collect::<String>())).unwrap();
    let path = path.display();
    let wide = batches(&twins, &format!("SELECT text FROM '{path}'")).await;
    assert_eq!(wide.iter().map(|(rows, _)| rows).sum::<usize>(), 40);
    assert!(wide.iter().all(|(_, bytes)| *bytes <= 5 * MIB), "{wide:?}");
    // What is not read does not count.
    let narrow = batches(&twins, &format!("SELECT id FROM '{path}'")).await;
    assert_eq!(narrow, [(40, 0)]);
    let insert = format!("CREATE TABLE wide AS SELECT * FROM '{path}'");
    twins.tierra.sql(&insert).await.unwrap();
    let found = "SELECT count(*), sum(id), min(length(text)), max(length(text)) FROM wide";
    let found = twins.tierra.query(found).await.unwrap();
    assert_eq!(rows(&found), [format!("40|780|{MIB}|{MIB}")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_copy_leaves_the_old_file() {
    let twins = Twins::new();
    let path = twins.dir.path().join("t.csv");
    fs::write(&path, "as it was").unwrap();
    let names = || fs::read_dir(twins.dir.path()).unwrap().count();
    let endless = format!(
        "COPY (SELECT value FROM generate_series(1, 9000000000000) AS t(value)) TO '{}'",
        path.display()
    );
    let began = async {
        while names() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        copied = twins.tierra.sql(&endless) => panic!("{copied:?}"),
        () = began => {}
    }
    // A batch may still be on its way.
    for _ in 0..60_000 {
        if names() > 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(names(), 2);
    assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
}
