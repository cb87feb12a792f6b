//! A server to talk to, and what it replies.

use std::io::{BufRead, BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::os::unix::thread::JoinHandleExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tierra_kv::{Config, Handle, Server};

/// Longer than any reply takes on a loaded machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reply of either protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Double(String),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
    /// Keys and values in turn.
    Map(Vec<Reply>),
    Set(Vec<Reply>),
}

pub(crate) fn error(text: &str) -> Reply {
    Reply::Error(text.into())
}

pub(crate) fn ok() -> Reply {
    Reply::Simple("OK".into())
}

pub(crate) fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

/// The text that a reply has to be.
pub(crate) fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("expected text, got {other:?}"),
    }
}

/// A connection to a server.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    pub(crate) fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends requests without waiting for replies.
    pub(crate) fn send(&mut self, requests: &[Vec<Vec<u8>>]) {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(format!("*{}\r\n", request.len()).into_bytes());
            for arg in request {
                bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
                bytes.extend(arg);
                bytes.extend(b"\r\n");
            }
        }
        self.send_bytes(&bytes);
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8_lossy(&line).into_owned()
    }

    pub(crate) fn receive(&mut self) -> Reply {
        let line = self.line();
        let (kind, text) = line.split_at(1);
        let count = || text.parse::<i64>().unwrap();
        let mut many = |count: i64| (0..count).map(|_| self.receive()).collect();
        match kind {
            "+" => Reply::Simple(text.into()),
            "-" => Reply::Error(text.into()),
            ":" => Reply::Integer(count()),
            "," => Reply::Double(text.into()),
            "_" => Reply::Null,
            "$" | "*" if count() < 0 => Reply::Null,
            "$" | "=" => {
                let mut bytes = vec![0; count() as usize + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            "*" => Reply::Array(many(count())),
            "%" => Reply::Map(many(2 * count())),
            "~" => Reply::Set(many(count())),
            _ => panic!("no reply: {line:?}"),
        }
    }

    /// Whether something has arrived already.
    pub(crate) fn has_reply(&mut self) -> bool {
        self.stream.get_ref().set_nonblocking(true).unwrap();
        let arrived = self.stream.fill_buf();
        let has_reply = arrived.is_ok_and(|bytes| !bytes.is_empty());
        self.stream.get_ref().set_nonblocking(false).unwrap();
        has_reply
    }

    /// The number that the server has given the connection.
    pub(crate) fn id(&mut self) -> i64 {
        match self.ask("CLIENT ID") {
            Reply::Integer(id) => id,
            other => panic!("an id is a number: {other:?}"),
        }
    }

    /// The reply to a request of words.
    pub(crate) fn ask(&mut self, request: &str) -> Reply {
        self.send(&[request
            .split(' ')
            .map(|word| word.as_bytes().to_vec())
            .collect()]);
        self.receive()
    }

    /// Everything until the server ends the connection.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }
}

/// A server of ours in a thread of its own.
pub(crate) struct Tierra {
    pub(crate) path: PathBuf,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Tierra {
    pub(crate) fn start(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tierra.sock");
        let mut config = Config {
            port: 0,
            unixsocket: Some(path.clone()),
            ..Config::default()
        };
        config
            .add_arguments(settings.split_whitespace().map(String::from))
            .unwrap();
        let mut server = Server::bind(config).unwrap();
        let handle = server.handle();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Self {
            path,
            handle,
            thread,
            _folder: folder,
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.path)
    }

    /// How long its thread has been on a processor.
    pub(crate) fn busy(&self) -> Duration {
        let thread = self.thread.as_ref().expect("it runs until it is dropped");
        let (mut clock, mut time) = (0, MaybeUninit::<libc::timespec>::zeroed());
        // SAFETY: the thread was not joined, both calls fill in what they are given, and zeros are a time.
        let (failed, time) = unsafe {
            let failed = libc::pthread_getcpuclockid(thread.as_pthread_t(), &mut clock)
                | libc::clock_gettime(clock, time.as_mut_ptr());
            (failed, time.assume_init())
        };
        assert_eq!(failed, 0, "the server has ended");
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

impl Drop for Tierra {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Looks again and again until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The server still answers.
pub(crate) fn assert_alive(server: &Tierra) {
    assert_eq!(server.connect().ask("PING"), Reply::Simple("PONG".into()));
}

/// Debian's redis-server on a socket of its own.
pub(crate) struct Redis {
    process: Child,
    pub(crate) folder: tempfile::TempDir,
}

impl Redis {
    /// None where there is no redis-server 7.0 on the path.
    pub(crate) fn start() -> Option<Self> {
        let version = Command::new("redis-server")
            .arg("--version")
            .output()
            .ok()?;
        if !String::from_utf8_lossy(&version.stdout).contains("v=7.0.") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(folder.path().join("redis.sock"))
            // SORT ALPHA goes by the language of the process that starts it.
            .env("LC_ALL", "C")
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Self { process, folder };
        let socket = redis.folder.path().join("redis.sock");
        until("Redis listens", || UnixStream::connect(&socket).is_ok());
        Some(redis)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.folder.path().join("redis.sock"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Where it has ended already there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
