//! A damaged file ends in rows or in an error that names it: in a load, in FROM and in COPY. No length that
//! it tells makes the process end, take memory or time.
//!
//! Small good files of every codec are damaged by a seed: bits flipped, bytes overwritten with extremes, cut
//! short, bytes put in or taken out. A child process reads them one after the other with limited memory, so that what ends it
//! is found; `TIERRA_FORGED=3000` reads as many of each kind.

use std::fs::{self, File};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use futures::{FutureExt, StreamExt};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use rustix::process::{Resource, Rlimit, setrlimit};
use tierra_sql::load::{LoadError, LoadOptions, load_file};
use tierra_sql::{Outcome, Session};

use crate::random::Random;
use crate::twins::Twins;

/// Rows of a good file.
const ROWS: usize = 300;
/// Address space of the child: threads and tables take a part of it.
const ADDRESS_BYTES: u64 = 16 << 30;
/// Memory that reading one file may add.
const GROWTH_BYTES: u64 = 256 << 20;
/// Time for one file on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Set in the child: which kind of file, and which of the forged ones is read first.
const KIND: &str = "TIERRA_FORGED_KIND";

fn batch(is_nested: bool) -> RecordBatch {
    let n = ROWS as i64;
    let names = (0..n).map(|row| format!("name {}", row % 7));
    let names: Vec<String> = names.collect();
    let notes = (0..n).map(|row| (row % 3 > 0).then(|| format!("note \"{row}\", and more of it")));
    let prices = Decimal128Array::from_iter_values((0..n).map(i128::from));
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..n))),
        ("name", Arc::new(StringArray::from(names.clone()))),
        ("note", Arc::new(StringArray::from_iter(notes))),
        (
            "price",
            Arc::new(prices.with_precision_and_scale(20, 2).unwrap()),
        ),
        ("day", Arc::new(Date32Array::from_iter_values(0..n as i32))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(0..n)),
        ),
        (
            "weight",
            Arc::new(Float64Array::from_iter(
                (0..n).map(|row| (row % 5 > 0).then_some(row as f64)),
            )),
        ),
    ];
    if is_nested {
        let lists =
            (0..n).map(|row| (row % 4 > 0).then(|| (0..row % 5).map(Some).collect::<Vec<_>>()));
        let inner: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n));
        let field = Arc::new(Field::new("inner", DataType::Int64, false));
        let codes: DictionaryArray<Int32Type> = names.iter().map(String::as_str).collect();
        columns.push((
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
        ));
        columns.push(("whole", Arc::new(StructArray::from(vec![(field, inner)]))));
        columns.push(("codes", Arc::new(codes)));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Good files of a kind.
fn good(kind: &str, dir: &Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for is_nested in [false, true] {
        let batch = batch(is_nested);
        let mut add = |write: &dyn Fn(File)| {
            let path = dir.join("good");
            write(File::create(&path).unwrap());
            files.push(fs::read(&path).unwrap());
        };
        match kind {
            "parquet" => {
                for codec in [
                    Compression::UNCOMPRESSED,
                    Compression::SNAPPY,
                    Compression::GZIP(GzipLevel::default()),
                    Compression::LZ4_RAW,
                    Compression::ZSTD(ZstdLevel::default()),
                ] {
                    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                        let properties = WriterProperties::builder()
                            .set_compression(codec)
                            .set_writer_version(version)
                            .set_data_page_row_count_limit(100)
                            .set_max_row_group_row_count(Some(200))
                            .build();
                        add(&|file| {
                            let properties = Some(properties.clone());
                            let mut writer =
                                ArrowWriter::try_new(file, batch.schema(), properties).unwrap();
                            writer.write(&batch).unwrap();
                            writer.close().unwrap();
                        });
                    }
                }
            }
            "arrow" => {
                for codec in [
                    None,
                    Some(CompressionType::LZ4_FRAME),
                    Some(CompressionType::ZSTD),
                ] {
                    let options = || {
                        IpcWriteOptions::default()
                            .try_with_compression(codec)
                            .unwrap()
                    };
                    add(&|file| {
                        let mut writer =
                            FileWriter::try_new_with_options(file, &batch.schema(), options())
                                .unwrap();
                        writer.write(&batch).unwrap();
                        writer.write(&batch).unwrap();
                        writer.finish().unwrap();
                    });
                    add(&|file| {
                        let mut writer =
                            StreamWriter::try_new_with_options(file, &batch.schema(), options())
                                .unwrap();
                        writer.write(&batch).unwrap();
                        writer.finish().unwrap();
                    });
                }
            }
            _ if is_nested => {}
            _ => {
                let mut text = String::from("id,name,note,price,day\n");
                for row in 0..ROWS {
                    let note = ["", "\"\"", "\"a \"\"b\"\", c\n\"", "plain"][row % 4];
                    text += &format!(
                        "{row},name {},{note},{row}.25,2026-11-2{}\n",
                        row % 7,
                        row % 9
                    );
                }
                files.push(text.into_bytes());
            }
        }
    }
    files
}

fn forge(bytes: &mut Vec<u8>, random: &mut Random) {
    const EXTREMES: [u8; 4] = [0, 0x7f, 0x80, 0xff];
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            return;
        }
        // Metadata is where the lengths are.
        let from = match random.below(2) {
            0 => bytes.len().saturating_sub(1_500),
            _ => 0,
        };
        let at = from + random.below((bytes.len() - from) as u64) as usize;
        match random.below(10) {
            0..4 => bytes[at] ^= 1 << random.below(8),
            4 => bytes[at] = random.one_of(&EXTREMES),
            5 => {
                let width = (2 + random.below(7) as usize).min(bytes.len() - at);
                let extreme = random.one_of(&EXTREMES);
                bytes[at..at + width].fill(extreme);
            }
            6 => bytes[at] = random.next() as u8,
            7 => bytes.insert(at, random.next() as u8),
            8 => drop(bytes.remove(at)),
            _ => bytes.truncate(at + 1),
        }
    }
}

/// The most memory that the process has had.
fn memory_most() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

/// The query to its end, panics included: those of operators that run are the session's to catch.
async fn run(session: &Session, sql: &str, seed: u64) {
    let ended = AssertUnwindSafe(session.execute(sql)).catch_unwind().await;
    let Ok(Ok(outcomes)) = ended else { return };
    for outcome in outcomes {
        if let Outcome::Rows(mut rows) = outcome {
            let mut count = 0;
            while let Ok(Some(batch)) = AssertUnwindSafe(rows.next())
                .catch_unwind()
                .await
                .map(|next| next.and_then(Result::ok))
            {
                count += batch.num_rows();
            }
            assert!(count <= 100 * ROWS, "{seed}: {count} rows");
        }
    }
}

/// Reads the forged files of a kind from one on, each named in a file before it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the other tests, in a process of its own"]
async fn child() {
    let Ok(kind) = std::env::var(KIND) else {
        return;
    };
    let [kind, first, end, progress] = kind.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{kind}");
    };
    let limit = Some(ADDRESS_BYTES);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    setrlimit(Resource::As, limit).unwrap();
    let twins = Twins::new();
    let dir = twins.dir.path();
    let good = good(kind, dir);
    let path = dir.join(format!("forged file.{kind}"));
    let session = &twins.tierra;
    for seed in first.parse::<u64>().unwrap()..end.parse().unwrap() {
        let mut random = Random(seed);
        let mut bytes = good[random.below(good.len() as u64) as usize].clone();
        forge(&mut bytes, &mut random);
        fs::write(&path, &bytes).unwrap();
        fs::write(progress, seed.to_string()).unwrap();
        let before = memory_most();
        let start = Instant::now();
        match load_file(session.database(), "t", &path, &LoadOptions::default()) {
            Ok(_) => drop(session.sql("DROP TABLE t").await.unwrap()),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("forged file"), "{seed}: {text}");
                let is_of_file = !matches!(error, LoadError::Table { .. });
                assert!(is_of_file || text.len() < 1_000, "{seed}: {text}");
            }
        }
        let name = path.display();
        let query = format!("SELECT * FROM '{name}'");
        let copy = format!(
            "COPY (SELECT * FROM '{name}') TO '{}'",
            dir.join("copy.csv").display()
        );
        for sql in [query, copy] {
            run(session, &sql, seed).await;
        }
        assert!(start.elapsed() < PATIENCE, "{seed}: {:?}", start.elapsed());
        let grown = memory_most().saturating_sub(before);
        assert!(grown < GROWTH_BYTES, "{seed}: {grown} bytes");
    }
}

/// All forged files of a kind, by as many children as it takes; those that end a child are faults.
fn read_all(kind: &str) {
    let count = std::env::var("TIERRA_FORGED").map_or(300, |count| count.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let progress: PathBuf = dir.path().join("progress");
    let mut faults = Vec::new();
    let mut first = 0;
    while first < count {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "forged::child", "--ignored"])
            .env(
                KIND,
                format!("{kind} {first} {count} {}", progress.display()),
            )
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        if child.status.success() {
            break;
        }
        let seed: u64 = fs::read_to_string(&progress).unwrap().parse().unwrap();
        let said = String::from_utf8_lossy(&child.stdout).into_owned()
            + &String::from_utf8_lossy(&child.stderr);
        let said: Vec<&str> = said.lines().rev().take(12).collect();
        faults.push(format!(
            "{kind} {seed}: {}: {}",
            child.status,
            said.join(" | ")
        ));
        first = seed + 1;
    }
    assert!(
        faults.is_empty(),
        "{} of {count}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn damaged_parquet_is_rows_or_an_error() {
    read_all("parquet");
}

#[test]
fn damaged_arrow_is_rows_or_an_error() {
    read_all("arrow");
}

#[test]
fn damaged_csv_is_rows_or_an_error() {
    read_all("csv");
}
