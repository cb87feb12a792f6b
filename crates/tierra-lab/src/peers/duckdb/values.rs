//! DuckDB's answers, every value with all its digits. Nothing here is timed.

use serde_json::{Value, json};

use super::{DuckDbError, Process};
use crate::dataset::TableFile;

const PROGRAM: &str = include_str!("values.py");

/// Rows of values, each with a letter of its kind before it (`values.py`); none is NULL.
pub type LetteredRows = Vec<Vec<Option<String>>>;

/// A running DuckDB.
#[derive(Debug)]
pub struct DuckDb {
    process: Process,
}

impl DuckDb {
    /// The engine's name in results.
    pub const ENGINE: &str = "DuckDB";

    /// Starts DuckDB with that many threads; `None` if there is no Python or it has no module `duckdb`.
    pub fn with_threads(threads: usize) -> Option<DuckDb> {
        let process = Process::start(PROGRAM, threads, None)?;
        Some(DuckDb { process })
    }

    /// DuckDB's version.
    pub fn version(&self) -> &str {
        &self.process.version
    }

    /// Reads several files into a table of that name.
    pub fn load_parts(&mut self, table: &str, files: &[TableFile]) -> Result<(), DuckDbError> {
        let paths: Vec<_> = files
            .iter()
            .map(|file| file.path.to_string_lossy())
            .collect();
        let request = json!({"load": table, "path": paths});
        self.process.ask(&request).map(drop)
    }

    /// Ends its process, as some queries do.
    #[cfg(test)]
    pub(crate) fn kill(&mut self) {
        self.process.child.kill().unwrap();
        self.process.child.wait().unwrap();
    }

    /// Drops a table.
    pub fn drop_table(&mut self, table: &str) -> Result<(), DuckDbError> {
        self.process.ask(&json!({"drop": table})).map(drop)
    }

    /// Starts to answer queries.
    pub fn begin(&mut self, queries: &[&str]) -> Result<(), DuckDbError> {
        self.process.send(&json!({"queries": queries}))
    }

    /// The answers to the queries that were started: rows, or DuckDB's message.
    pub fn finish(&mut self) -> Result<Vec<Result<LetteredRows, String>>, DuckDbError> {
        let mut reply = self.process.reply()?;
        let answers: Vec<Value> = serde_json::from_value(reply["answers"].take())?;
        let answers = answers
            .into_iter()
            .map(|mut answer| match answer["error"].as_str() {
                Some(error) => Ok(Err(error.to_owned())),
                None => Ok(Ok(serde_json::from_value(answer["rows"].take())?)),
            });
        answers.collect()
    }
}
