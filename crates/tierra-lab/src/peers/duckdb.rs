//! DuckDB over tables in memory, if Python's module `duckdb` is installed: a child process that loads the same Parquet files and
//! answers one query at a time, so that turns can alternate.
//!
//! Its times are taken inside the child, around execution and the arrival of all rows.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::dataset::TableFile;
use crate::lab::THREADS;

const PROGRAM: &str = include_str!("duckdb.py");

/// Rows of values, each with a letter of its kind before it (`duckdb.py`); none is NULL.
pub type LetteredRows = Vec<Vec<Option<String>>>;

/// A running DuckDB.
#[derive(Debug)]
pub struct DuckDb {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    version: String,
}

/// An error of DuckDB.
#[derive(Debug, thiserror::Error)]
pub enum DuckDbError {
    /// DuckDB's own message.
    #[error("{0}")]
    Refused(String),
    /// The child is gone or sends malformed replies.
    #[error("the child process stopped answering: {0}")]
    Silent(String),
}

impl From<std::io::Error> for DuckDbError {
    fn from(error: std::io::Error) -> DuckDbError {
        DuckDbError::Silent(error.to_string())
    }
}

impl From<serde_json::Error> for DuckDbError {
    fn from(error: serde_json::Error) -> DuckDbError {
        DuckDbError::Silent(error.to_string())
    }
}

impl DuckDb {
    /// The engine's name in results.
    pub const ENGINE: &str = "DuckDB";

    /// Starts DuckDB; `None` if there is no Python or it has no module `duckdb`. The environment variable `TIERRA_LAB_PYTHON`
    /// names another interpreter than `python3`.
    pub fn start() -> Option<DuckDb> {
        DuckDb::with_threads(THREADS)
    }

    /// Likewise, with that many threads.
    pub fn with_threads(threads: usize) -> Option<DuckDb> {
        let python = std::env::var_os("TIERRA_LAB_PYTHON").unwrap_or_else(|| "python3".into());
        let mut child = Command::new(python)
            .args(["-c", PROGRAM, &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (requests, replies) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut duckdb = DuckDb {
            child,
            requests,
            replies,
            version: String::new(),
        };
        // Without the module the child ends immediately, and there is no greeting.
        duckdb.version = duckdb.reply().ok()?["version"].as_str()?.to_owned();
        Some(duckdb)
    }

    /// DuckDB's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Reads every file into a table of its name.
    pub fn load(&mut self, files: &[TableFile]) -> Result<(), DuckDbError> {
        for file in files {
            self.ask(&json!({"load": file.table, "path": file.path.to_string_lossy()}))?;
        }
        Ok(())
    }

    /// Runs a query: its time, and its rows as texts.
    pub fn query(&mut self, sql: &str) -> Result<(u64, Vec<Vec<String>>), DuckDbError> {
        let mut reply = self.ask(&json!({"query": sql}))?;
        let time_ns = reply["time_ns"]
            .as_u64()
            .ok_or_else(|| DuckDbError::Silent("no time".to_owned()))?;
        Ok((time_ns, serde_json::from_value(reply["rows"].take())?))
    }

    /// Reads several files into a table of that name.
    pub fn load_parts(&mut self, table: &str, files: &[TableFile]) -> Result<(), DuckDbError> {
        let paths: Vec<_> = files
            .iter()
            .map(|file| file.path.to_string_lossy())
            .collect();
        self.ask(&json!({"load": table, "path": paths})).map(drop)
    }

    /// Drops a table.
    pub fn drop_table(&mut self, table: &str) -> Result<(), DuckDbError> {
        self.ask(&json!({"drop": table})).map(drop)
    }

    /// Starts to answer queries.
    pub fn begin(&mut self, queries: &[&str]) -> Result<(), DuckDbError> {
        self.send(&json!({"queries": queries}))
    }

    /// The answers to the queries that were started: rows, or DuckDB's message.
    pub fn finish(&mut self) -> Result<Vec<Result<LetteredRows, String>>, DuckDbError> {
        let mut reply = self.reply()?;
        let answers: Vec<Value> = serde_json::from_value(reply["answers"].take())?;
        let answers = answers
            .into_iter()
            .map(|mut answer| match answer["error"].as_str() {
                Some(error) => Ok(Err(error.to_owned())),
                None => Ok(Ok(serde_json::from_value(answer["rows"].take())?)),
            });
        answers.collect()
    }

    fn send(&mut self, request: &Value) -> Result<(), DuckDbError> {
        writeln!(self.requests, "{request}")?;
        Ok(self.requests.flush()?)
    }

    fn ask(&mut self, request: &Value) -> Result<Value, DuckDbError> {
        self.send(request)?;
        let reply = self.reply()?;
        match reply["error"].as_str() {
            Some(error) => Err(DuckDbError::Refused(error.to_owned())),
            None => Ok(reply),
        }
    }

    fn reply(&mut self) -> Result<Value, DuckDbError> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // Its tables are in memory, so nothing is lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
