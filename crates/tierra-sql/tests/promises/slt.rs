//! The answers in `tests/slt/*.slt`: read them to see what SQL means here.
//!
//! `TIERRA_SLT=complete cargo test --release -p tierra-sql --test promises slt` writes the answers anew;
//! then read the difference. Every file is run twice: with rows in the tail, and with packed rows. `TIERRA_SLT=NAME` runs the files whose name contains NAME.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sqllogictest::{
    AsyncDB, DBOutput, DefaultColumnType, Runner, default_validator, strict_column_validator,
};
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{Outcome, Session, SessionOptions, SqlError};

use crate::twins::memory;

/// Where the rows of a file's tables lie while its answers are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rows {
    /// Few rows: unpacked in the tail.
    InTail,
    /// Sealed after every statement: packed codes, dictionaries and their deltas, many segments.
    Packed,
}

/// A session on a database of its own.
struct Tierra {
    session: Session,
    rows: Rows,
    _dir: Arc<tempfile::TempDir>,
}

impl Tierra {
    fn new(rows: Rows) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database =
            Database::create(&dir.path().join("db"), &DatabaseOptions::default()).unwrap();
        let options = SessionOptions {
            threads: Some(2),
            ..SessionOptions::default()
        };
        Self {
            session: Session::new(database, &options).unwrap(),
            rows,
            _dir: Arc::new(dir),
        }
    }
}

#[async_trait::async_trait]
impl AsyncDB for Tierra {
    type Error = SqlError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, SqlError> {
        let outcome = self.session.sql(sql).await?;
        if self.rows == Rows::Packed {
            let database = Arc::clone(self.session.database());
            let seal = move || {
                for name in database.tables() {
                    database.table(&name).unwrap().seal().unwrap();
                }
            };
            tokio::task::spawn_blocking(seal).await.unwrap();
        }
        match outcome {
            Outcome::Rows(mut rows) => {
                let types = rows
                    .schema()
                    .fields()
                    .iter()
                    .map(|field| column_type(field.data_type()))
                    .collect();
                let batches = rows.collect().await?;
                Ok(DBOutput::Rows {
                    types,
                    rows: batches.iter().flat_map(cells).collect(),
                })
            }
            Outcome::Done(done) => Ok(DBOutput::StatementComplete(done.rows.unwrap_or(0))),
        }
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "tierra"
    }
}

fn column_type(ty: &DataType) -> DefaultColumnType {
    match ty {
        DataType::Int32 | DataType::Int64 | DataType::UInt64 | DataType::Boolean => {
            DefaultColumnType::Integer
        }
        DataType::Float64 | DataType::Decimal128(_, _) => DefaultColumnType::FloatingPoint,
        _ => DefaultColumnType::Text,
    }
}

fn cells(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
        .collect();
    let cell = |column: usize, row: usize| {
        let is_text =
            batch.column(column).data_type().is_string() && batch.column(column).is_valid(row);
        let text = columns[column].value(row).to_string();
        match text.as_str() {
            "" if is_text => "(empty)".to_string(),
            _ => text
                .escape_debug()
                .to_string()
                .replace("\\'", "'")
                .replace("\\\"", "\""),
        }
    };
    (0..batch.num_rows())
        .map(|row| (0..columns.len()).map(|column| cell(column, row)).collect())
        .collect()
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir("tests/slt")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "slt"));
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_is_as_written() {
    let wish = std::env::var("TIERRA_SLT").unwrap_or_default();
    for file in files() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let _memory = match name.as_str() {
            "limits" => Some(memory().await),
            _ => None,
        };
        let mut runner = Runner::new(|| async { Ok(Tierra::new(Rows::InTail)) });
        if wish == "complete" {
            runner
                .update_test_file(
                    &file,
                    " ",
                    default_validator,
                    sqllogictest::default_normalizer,
                    strict_column_validator,
                )
                .await
                .unwrap();
        } else if wish.is_empty() || name.contains(&wish) {
            for rows in [Rows::InTail, Rows::Packed] {
                let mut runner = Runner::new(|| async move { Ok(Tierra::new(rows)) });
                runner
                    .run_file_async(&file)
                    .await
                    .unwrap_or_else(|error| panic!("{rows:?}: {}", error.display(false)));
            }
        }
    }
}
