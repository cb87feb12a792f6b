//! Running the built binary, and what it said.

#![allow(dead_code, reason = "each test program uses a part")]

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Looks again and again until there is something. Fails if the process ends before.
#[track_caller]
pub(crate) fn wait_for<T>(
    child: &mut Child,
    what: &str,
    mut found: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        let ended = child.try_wait().expect("it is our child");
        assert!(ended.is_none(), "no {what}, but {ended:?}");
        assert!(start.elapsed() < PATIENCE, "no {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A connection to a process that is about to listen.
#[track_caller]
pub(crate) fn connect(child: &mut Child, socket: &Path) -> UnixStream {
    wait_for(child, "socket", || UnixStream::connect(socket).ok())
}

/// How long a process has been on a processor: when it began to work shows in that, also where the machine is busy.
pub(crate) fn busy(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it is our child");
    // Behind the name, which is in parentheses, 11 words and then hundredths of seconds, in the process and in the kernel.
    let (_, words) = stat.rsplit_once(')').expect("a name in parentheses");
    let times = words.split_whitespace().skip(11).take(2);
    let times = times.map(|time| time.parse::<u64>().expect("a number"));
    Duration::from_millis(10 * times.sum::<u64>())
}

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
