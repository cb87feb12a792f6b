//! DuckDB as a library: timed until the complete answer lies in its process as Arrow arrays.

use std::path::Path;

use serde_json::{Value, json};

use super::{DuckDb, DuckDbError, Process};
use crate::dataset::TableFile;
use crate::lab;
use crate::peers::Peer;

const PROGRAM: &str = include_str!("library.py");

/// A running DuckDB.
#[derive(Debug)]
pub struct Library {
    process: Process,
}

/// The time in nanoseconds, and the rows as texts. They were made from the arrays after the clock had stopped.
pub type TimedRows = (u64, Vec<Vec<String>>);

impl Library {
    /// The engine's name in results.
    pub const ENGINE: &str = DuckDb::ENGINE;

    /// What bars need.
    pub const PEER: Peer = Peer {
        name: Library::ENGINE,
        start: |_| match Library::start() {
            Some(_) => Ok(()),
            None => Err("Python has no module `duckdb`".to_owned()),
        },
    };

    /// Starts DuckDB with as many threads; `None` if there is no Python or it has no module `duckdb`.
    pub fn start() -> Option<Library> {
        Library::start_in(None)
    }

    /// The same with its tables in a new file, which it makes durable as is its default.
    pub fn start_on(file: &Path) -> Option<Library> {
        Library::start_in(Some(file))
    }

    fn start_in(file: Option<&Path>) -> Option<Library> {
        let process = Process::start(PROGRAM, lab::threads(), file)?;
        Some(Library { process })
    }

    /// DuckDB's version.
    pub fn version(&self) -> &str {
        &self.process.version
    }

    /// Reads every file into a table of its name.
    pub fn load(&mut self, files: &[TableFile]) -> Result<(), DuckDbError> {
        files.iter().try_for_each(|file| self.load_one(file, None))
    }

    /// Reads a file into a table of its name with that column as primary key.
    pub fn load_with_key(&mut self, file: &TableFile, key: &str) -> Result<(), DuckDbError> {
        self.load_one(file, Some(key))
    }

    fn load_one(&mut self, file: &TableFile, key: Option<&str>) -> Result<(), DuckDbError> {
        let path = file.path.to_string_lossy();
        let request = json!({"load": file.table, "path": path, "key": key});
        self.process.ask(&request).map(drop)
    }

    /// Runs a query.
    pub fn query(&mut self, sql: &str) -> Result<TimedRows, DuckDbError> {
        self.timed(&json!({"query": sql}))
    }

    /// Runs queries, one after the other.
    pub fn queries(&mut self, sql: &[String]) -> Result<TimedRows, DuckDbError> {
        self.timed(&json!({"queries": sql}))
    }

    /// Prepares a statement of one INTEGER parameter, in place of the one before.
    pub fn prepare(&mut self, sql: &str) -> Result<(), DuckDbError> {
        self.process.ask(&json!({"prepare": sql})).map(drop)
    }

    /// Executes the prepared statement with each value, one after the other.
    pub fn execute(&mut self, values: &[i32]) -> Result<TimedRows, DuckDbError> {
        self.timed(&json!({"run": values}))
    }

    /// The time of calling the library as often as that many executions do, without their work: what Python adds to them.
    pub fn call(&mut self, executions: usize) -> Result<u64, DuckDbError> {
        time_of(&self.process.ask(&json!({"calls": executions}))?)
    }

    fn timed(&mut self, request: &Value) -> Result<TimedRows, DuckDbError> {
        let mut reply = self.process.ask(request)?;
        let time_ns = time_of(&reply)?;
        Ok((time_ns, serde_json::from_value(reply["rows"].take())?))
    }
}

fn time_of(reply: &Value) -> Result<u64, DuckDbError> {
    let time_ns = reply["time_ns"].as_u64();
    time_ns.ok_or_else(|| DuckDbError::Silent("no time".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringArray,
    };

    use super::*;
    use crate::answer::Answer;
    use crate::dataset::write_parquet;

    /// Every type of the benchmarks, with a NULL in each column but the key.
    fn batch() -> RecordBatch {
        let decimals = Decimal128Array::from(vec![Some(-123), None, Some(i128::pow(10, 37))]);
        let decimals = decimals.with_precision_and_scale(38, 2).unwrap();
        let columns: [(&str, ArrayRef); 5] = [
            ("k", Arc::new(Int32Array::from(vec![7, 8, -9]))),
            ("d", Arc::new(decimals)),
            (
                "t",
                Arc::new(StringArray::from(vec![Some("é, \"b\""), Some(""), None])),
            ),
            (
                "at",
                Arc::new(Date32Array::from(vec![Some(-1), None, Some(20_000)])),
            ),
            (
                "f",
                Arc::new(Float64Array::from(vec![None, Some(0.1), Some(-2.5)])),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, array)| (name, array, name != "k")),
        )
        .unwrap()
    }

    #[test]
    fn arrays_are_read_as_what_they_are() {
        let Some(mut duckdb) = Library::start() else {
            println!("left out: Python has no module `duckdb`");
            return;
        };
        let (folder, batch) = (tempfile::tempdir().unwrap(), batch());
        let rows = std::iter::once(batch.clone());
        let file = write_parquet(folder.path(), "t", &batch.schema(), rows).unwrap();
        duckdb.load_with_key(&file, "k").unwrap();
        let (time_ns, rows) = duckdb.query("SELECT * FROM t ORDER BY k DESC").unwrap();
        assert!(time_ns > 0);
        let sorted = arrow::compute::take_record_batch(
            &batch,
            &arrow::array::UInt32Array::from(vec![1, 0, 2]),
        );
        let expected = Answer::of(&[sorted.unwrap()]).unwrap();
        let exact = crate::answer::Tolerance::EXACT_DECIMALS;
        let found = Answer::from_texts(rows);
        assert_eq!(found.difference(&expected, &[0], exact), None);

        duckdb.prepare("SELECT t FROM t WHERE k = $1").unwrap();
        let (_, rows) = duckdb.execute(&[8, 1, -9]).unwrap();
        assert_eq!(rows, [[""], ["NULL"]]);
        assert!(duckdb.call(2).unwrap() > 0);
        // The key is one.
        let refused = duckdb.query("INSERT INTO t (k) VALUES (7)").unwrap_err();
        assert!(refused.to_string().contains("primary key"), "{refused}");
        let refused = duckdb.query("SELEC").unwrap_err();
        assert!(refused.to_string().contains("syntax"), "{refused}");
        let (_, none) = duckdb.query("SELECT * FROM t WHERE k = 1").unwrap();
        assert!(none.is_empty());
    }
}
