//! DuckDB, if Python's module `duckdb` is installed: a child process that answers one request at a time, so that turns can alternate.
//! Its tables are in memory, where no experiment is about its file.
//!
//! Where its time counts it is the library itself ([`Library`]): called through its C interface, timed in the child until the
//! complete answer lies there as Arrow arrays, as Tierra's does here. Python only makes the calls; what they cost is measured
//! ([`Library::call`]). Where only its answers count ([`DuckDb`]) they come with all digits.

mod library;
mod values;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

pub use self::library::{Library, TimedRows};
pub use self::values::{DuckDb, LetteredRows};

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

/// A running child.
#[derive(Debug)]
struct Process {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    version: String,
}

impl Process {
    /// Starts a program of this folder; `None` if there is no Python or it has no module `duckdb`. The environment variable
    /// `TIERRA_LAB_PYTHON` names another interpreter than `python3`.
    fn start(program: &str, threads: usize, file: Option<&Path>) -> Option<Process> {
        let python = std::env::var_os("TIERRA_LAB_PYTHON").unwrap_or_else(|| "python3".into());
        let mut child = Command::new(python)
            .args(["-c", program, &threads.to_string()])
            .args(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (requests, replies) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut process = Process {
            child,
            requests,
            replies,
            version: String::new(),
        };
        // Without the module the child ends immediately, and there is no greeting.
        process.version = process.reply().ok()?["version"].as_str()?.to_owned();
        Some(process)
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

impl Drop for Process {
    fn drop(&mut self) {
        // Its tables are in memory, or in a file of the lab, so nothing is lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
