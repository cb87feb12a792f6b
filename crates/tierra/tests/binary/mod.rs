//! Running the built binary, and what it said.

#![allow(dead_code, reason = "each test program uses a part")]

use std::{
    ffi::OsStr,
    io::Write,
    process::{Command, Output, Stdio},
};

/// How a run of the binary ended.
pub(crate) struct Ended {
    /// The exit status.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Ended {
    /// The same, if the status was 0.
    #[track_caller]
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.status, 0, "out: {}\nerr: {}", self.out, self.err);
        self
    }

    /// The same, if the status was 1 and standard error names all of `parts`.
    #[track_caller]
    pub(crate) fn with_error(self, parts: &[&str]) -> Self {
        self.with_status(1, parts)
    }

    /// The same, if it ended with this status.
    #[track_caller]
    pub(crate) fn with_status(self, status: i32, parts: &[&str]) -> Self {
        assert_eq!(self.status, status, "out: {}\nerr: {}", self.out, self.err);
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in: {}", self.err);
        }
        self
    }
}

/// Runs `tierra` with `arguments` and nothing on standard input.
pub(crate) fn tierra<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    tierra_reading("", arguments)
}

/// Runs `tierra` with `arguments` and `input` on standard input.
pub(crate) fn tierra_reading<S: AsRef<OsStr>>(
    input: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tierra"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A command that does not read its input closes it early.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("the binary ends");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ended {
        status: status.code().unwrap_or(-1),
        out: text(stdout),
        err: text(stderr),
    }
}
