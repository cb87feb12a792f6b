//! Files are loaded whole or not at all, and errors say where they are.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int8Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tierra_sql::load::{LoadError, LoadOptions, load_file};

use crate::twins::{Twins, rows};

fn csv(twins: &Twins, text: &[u8]) -> PathBuf {
    let path = twins.dir.path().join("file.csv");
    File::create(&path).unwrap().write_all(text).unwrap();
    path
}

fn load(twins: &Twins, table: &str, path: &Path) -> Result<u64, LoadError> {
    load_file(
        twins.tierra.database(),
        table,
        path,
        &LoadOptions::default(),
    )
    .map(|report| report.rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csv_infers_types_and_takes_those_of_a_table() {
    let twins = Twins::new();
    let path = csv(
        &twins,
        b"id,price,day,name\n1,2.5,1998-01-02,\"a, \"\"b\"\"\"\n-2,,1998-01-03,\n",
    );
    assert_eq!(load(&twins, "t", &path).unwrap(), 2);
    let found = twins
        .tierra
        .query("SELECT * FROM t ORDER BY id")
        .await
        .unwrap();
    assert_eq!(
        rows(&found),
        [
            "-2|NULL|1998-01-03|NULL",
            "1|2.500000000000e0|1998-01-02|a, \"b\""
        ]
    );

    twins
        .tierra
        .sql("CREATE TABLE u (name VARCHAR, price DECIMAL(5, 2), id INTEGER)")
        .await
        .unwrap();
    assert_eq!(load(&twins, "u", &path).unwrap(), 2);
    let found = twins
        .tierra
        .query("SELECT * FROM u ORDER BY id")
        .await
        .unwrap();
    assert_eq!(rows(&found), ["NULL|NULL|-2", "a, \"b\"|2.50|1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotes_tell_the_empty_string_from_null() {
    let twins = Twins::new();
    twins
        .tierra
        .sql("CREATE TABLE t (id INTEGER, name VARCHAR, price DOUBLE)")
        .await
        .unwrap();
    twins
        .tierra
        .sql("CREATE TABLE named (name VARCHAR NOT NULL)")
        .await
        .unwrap();
    let text = b"id,name,price\n1,,\n2,\"\",\"\"\n3,\"x\",1.5\n";
    let query = "SELECT id, name IS NULL, name = '', price IS NULL FROM t ORDER BY id";
    let expected = [
        "1|true|NULL|true",
        "2|false|true|true",
        "3|false|false|false",
    ];
    assert_eq!(load(&twins, "t", &csv(&twins, text)).unwrap(), 3);
    assert_eq!(rows(&twins.tierra.query(query).await.unwrap()), expected);
    // Where types are inferred, the empty string makes a VARCHAR, as it is none of the others'.
    let inferred = b"a,b\n1,1\n\"\",\n";
    assert_eq!(load(&twins, "new", &csv(&twins, inferred)).unwrap(), 2);
    let query = "SELECT a, b + 1 FROM new WHERE a = '' OR b = 1 ORDER BY a";
    let found = twins.tierra.query(query).await.unwrap();
    assert_eq!(rows(&found), ["|NULL", "1|2"]);
    // A line without characters is a row where there is one column, and nothing where there are more.
    assert_eq!(
        load(&twins, "named", &csv(&twins, b"name\n\"\"\nx\n")).unwrap(),
        2
    );
    let error = load(&twins, "named", &csv(&twins, b"name\nx\n\n"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            ":3: column 'name': empty, which is NULL, but the column is NOT NULL; write \"\""
        ),
        "{error}"
    );
    assert_eq!(
        load(&twins, "t", &csv(&twins, b"\nid,name,price\n\n4,y,2\n\n")).unwrap(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_field_is_named_and_nothing_is_loaded() {
    let twins = Twins::new();
    twins
        .tierra
        .sql("CREATE TABLE t (id INTEGER NOT NULL, price DECIMAL(5, 2), name VARCHAR)")
        .await
        .unwrap();
    let good = "1,1.00,x\n".repeat(30_000);
    for (bad, message) in [
        (&b"2,1.00\n"[..], ":30002: 2 fields, expected 3"),
        (b"2,1.00,x,y\n", ":30002: 4 fields, expected 3"),
        (b"2x,1.00,x\n", ":30002: column 'id': '2x' is no INTEGER"),
        (
            b"3000000000,1.00,x\n",
            ":30002: column 'id': '3000000000' is no INTEGER",
        ),
        (
            b",1.00,x\n",
            ":30002: column 'id': empty, which is NULL, but the column is NOT NULL",
        ),
        (
            b"2,1000.00,x\n",
            ":30002: column 'price': '1000.00' is no DECIMAL(5, 2)",
        ),
        (
            b"2,1.001,x\n",
            ":30002: column 'price': '1.001' is no DECIMAL(5, 2)",
        ),
        (
            b"2,1.00,\xff\n",
            ":30002: column 'name': '\u{fffd}' is not UTF-8 (byte 0xFF)",
        ),
        (
            b"2,1.00,\"oops\n3,1.00,x\n",
            ":30002: column 'name': its opening quote is never closed",
        ),
        (
            b"2,1.00,\"oops\n3,1.00,\"x\"\n",
            ":30002: column 'name': text after its closing quote",
        ),
    ] {
        let mut text = format!("id,price,name\n{good}").into_bytes();
        text.extend_from_slice(bad);
        let error = load(&twins, "t", &csv(&twins, &text))
            .unwrap_err()
            .to_string();
        assert!(error.contains(message), "{error}");
        let left = twins.tierra.query("SELECT count(*) FROM t").await.unwrap();
        assert_eq!(rows(&left), ["0"]);
    }
    twins
        .tierra
        .sql("CREATE TABLE exact (at TIMESTAMP, of DOUBLE)")
        .await
        .unwrap();
    for (bad, message) in [
        (
            "2026-11-20 10:00:00.1234567,1",
            "column 'at': '2026-11-20 10:00:00.1234567' is no TIMESTAMP",
        ),
        ("2026-11-20,1e400", "column 'of': '1e400' is no DOUBLE"),
    ] {
        let text = format!("at,of\n2026-11-20 10:00:00.123456,1e300\n{bad}\n");
        let error = load(&twins, "exact", &csv(&twins, text.as_bytes()))
            .unwrap_err()
            .to_string();
        assert!(error.contains(&format!(":3: {message}")), "{error}");
    }
    let error = load(&twins, "t", &csv(&twins, b"id,name\n1,x\n"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has no column 'price', which table 't' needs; its columns are id, name"),
        "{error}"
    );
    assert!(load(&twins, "t", &csv(&twins, b"")).is_err());
    // A table made for a file that fails does not stay.
    let mut text = format!("id,price,name\n{good}").into_bytes();
    text.extend_from_slice(b"x,1.00,x\n");
    assert!(load(&twins, "new", &csv(&twins, &text)).is_err());
    assert!(twins.tierra.database().table("new").is_none());
}

fn batch(rows: i64) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("tiny", DataType::Int8, true),
        Field::new("unsigned", DataType::UInt32, true),
        Field::new("single", DataType::Float32, true),
        Field::new("text", DataType::Utf8, true),
        Field::new(
            "word",
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            true,
        ),
    ]);
    let words: DictionaryArray<Int32Type> = (0..rows)
        .map(|n| ["red", "green"][(n % 2) as usize])
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..rows)),
        Arc::new(Int8Array::from_iter(
            (0..rows).map(|n| (n % 3 > 0).then_some((n % 100) as i8)),
        )),
        Arc::new(UInt32Array::from_iter_values(
            (0..rows).map(|n| u32::MAX - n as u32),
        )),
        Arc::new(Float32Array::from_iter_values(
            (0..rows).map(|n| n as f32 / 4.0),
        )),
        Arc::new(StringArray::from_iter_values(
            (0..rows).map(|n| format!("text {n}")),
        )),
        Arc::new(words),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_compression_of_parquet_loads_in_order() {
    let twins = Twins::new();
    let batch = batch(10_000);
    for (name, compression) in [
        ("none", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("zstd", Compression::ZSTD(ZstdLevel::default())),
        ("lz4", Compression::LZ4_RAW),
        ("gzip", Compression::GZIP(GzipLevel::default())),
    ] {
        let path = twins.dir.path().join(format!("{name}.parquet"));
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(1_500))
            .build();
        let mut writer = ArrowWriter::try_new(
            File::create(&path).unwrap(),
            batch.schema(),
            Some(properties),
        )
        .unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let seen = AtomicU64::new(0);
        let progress =
            |progress: tierra_sql::load::Progress| seen.store(progress.rows, Ordering::Relaxed);
        let options = LoadOptions {
            progress: Some(&progress),
            ..LoadOptions::default()
        };
        let report = load_file(twins.tierra.database(), name, &path, &options).unwrap();
        assert_eq!(
            (report.rows, report.created, seen.load(Ordering::Relaxed)),
            (10_000, true, 10_000)
        );
        let sql = format!(
            "SELECT count(*), min(id), max(unsigned), sum(tiny), max(single), max(word) FROM {name} WHERE text <> ''"
        );
        let found = twins.tierra.query(&sql).await.unwrap();
        let tiny: i64 = (0..10_000).filter(|n| n % 3 > 0).map(|n| n % 100).sum();
        assert_eq!(
            rows(&found),
            [format!(
                "10000|0|{}|{tiny}|{:.12e}|red",
                u32::MAX,
                9_999.0 / 4.0
            )]
        );
        // SQL reads the file itself, too.
        let sql = format!("SELECT count(*) FROM '{}' WHERE id < 10", path.display());
        assert_eq!(rows(&twins.tierra.query(&sql).await.unwrap()), ["10"]);
        let sql = format!("INSERT INTO {name} SELECT * FROM '{}'", path.display());
        twins.tierra.sql(&sql).await.unwrap();
        assert_eq!(
            rows(
                &twins
                    .tierra
                    .query(&format!("SELECT count(*) FROM {name}"))
                    .await
                    .unwrap()
            ),
            ["20000"]
        );
    }
}

/// Segments begin and end inside row groups and pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_groups_need_not_match_segments() {
    const ROWS: usize = (1 << 20) + 70_001;
    for (name, group_rows) in [("many", 99_991), ("one", 2 * ROWS)] {
        let twins = Twins::new();
        let path = twins.dir.path().join(format!("{name}.parquet"));
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group_rows))
            .set_data_page_row_count_limit(777)
            .set_offset_index_disabled(name == "one")
            .build();
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("word", DataType::Utf8, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..ROWS as i64)),
            Arc::new(
                (0..ROWS)
                    .map(|n| (n % 5 > 0).then(|| format!("word {}", n % 1_000)))
                    .collect::<StringArray>(),
            ),
        ];
        let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        assert_eq!(load(&twins, "t", &path).unwrap(), ROWS as u64);
        // Every value stands beside the one it came with, NULLs included.
        let wrong = "SELECT count(*), count(DISTINCT n), count(word), \
             count(*) FILTER (WHERE word IS DISTINCT FROM \
             CASE WHEN n % 5 > 0 THEN concat('word ', n % 1000) END) FROM t";
        let words = ROWS - ROWS.div_ceil(5);
        assert_eq!(
            rows(&twins.tierra.query(wrong).await.unwrap()),
            [format!("{ROWS}|{ROWS}|{words}|0")]
        );
    }
}

/// A load of a typed file makes of each value what INSERT makes of it, and refuses what INSERT refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_values_are_assigned_as_by_insert() {
    let twins = Twins::new();
    let path = twins.dir.path().join("typed.parquet");
    let doubles = vec![Some(1.5), Some(2.5), Some(-1.5), Some(2.9), None];
    let decimals = Decimal128Array::from(vec![Some(15), Some(25), Some(-15), Some(-4), None]);
    let columns = [
        ("double", Arc::new(Float64Array::from(doubles)) as ArrayRef),
        (
            "decimal",
            Arc::new(decimals.with_precision_and_scale(9, 1).unwrap()),
        ),
        ("text", Arc::new(StringArray::from(vec!["7"; 5]))),
        ("truth", Arc::new(BooleanArray::from(vec![true; 5]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let sql = async |text: String| twins.tierra.sql(&text).await.map(drop);
    for (column, ty, expected) in [
        ("double", "INTEGER", Some("-2 2 3 3 NULL")),
        ("decimal", "BIGINT", Some("-2 0 2 3 NULL")),
        ("decimal", "DOUBLE", Some("")),
        ("truth", "VARCHAR", Some("")),
        ("text", "INTEGER", None),
        ("truth", "INTEGER", None),
        ("double", "BOOLEAN", None),
        ("decimal", "DATE", None),
    ] {
        let mut found = Vec::new();
        for table in ["loaded", "inserted"] {
            sql(format!("DROP TABLE IF EXISTS {table}")).await.unwrap();
            sql(format!("CREATE TABLE {table} ({column} {ty})"))
                .await
                .unwrap();
            let is_done = match table {
                "loaded" => load(&twins, table, &path).is_ok(),
                _ => {
                    let file = path.display();
                    let insert = format!("INSERT INTO {table} SELECT {column} FROM '{file}'");
                    sql(insert).await.is_ok()
                }
            };
            let query = format!("SELECT {column} FROM {table} ORDER BY {column}");
            let values = rows(&twins.tierra.query(&query).await.unwrap()).join(" ");
            found.push((is_done, values));
        }
        assert_eq!(found[0], found[1], "{column} {ty}");
        assert_eq!(found[0].0, expected.is_some(), "{column} {ty}");
        assert!(expected.is_none_or(|expected| found[0].1.starts_with(expected)));
    }
}

#[test]
fn a_cancelled_load_leaves_nothing() {
    let twins = Twins::new();
    let path = twins.dir.path().join("file.arrow");
    crate::twins::write(&path, &batch(1).schema(), &[batch(5_000)]);
    let cancel = AtomicBool::new(true);
    let options = LoadOptions {
        cancel: Some(&cancel),
        ..LoadOptions::default()
    };
    let error = load_file(twins.tierra.database(), "t", &path, &options).unwrap_err();
    assert!(matches!(error, LoadError::Cancelled { .. }), "{error}");
    assert!(twins.tierra.database().table("t").is_none());
}

#[test]
fn other_files_are_refused() {
    let twins = Twins::new();
    for (name, bytes) in [
        ("a.parquet", &b"PAR1 and then nothing"[..]),
        ("a.arrow", b"ARROW1xx"),
        ("a.txt", b"hello"),
        ("a.csv", b""),
    ] {
        let path = twins.dir.path().join(name);
        File::create(&path).unwrap().write_all(bytes).unwrap();
        let error = load(&twins, "t", &path).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
        assert!(twins.tierra.database().tables().is_empty());
    }
    assert!(matches!(
        load(&twins, "t", &twins.dir.path().join("absent.csv")),
        Err(LoadError::Io { .. })
    ));
}
