//! A server with a database of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tierra_engine::{Database, DatabaseOptions, OpenError};
use tierra_http::{Handle, Options, Server};
use tierra_postgres::{Tls, Users, verifier};
use tierra_sql::SessionOptions;
use tokio::runtime::Builder;

use crate::client::Client;

/// Held by tests that take much memory or measure it: all run in one process.
pub(crate) static MEMORY: Mutex<()> = Mutex::new(());

/// Longer than anything takes on a busy machine, and shorter than what would go on by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What is stopped ends within a second, and within so long while other tests keep all processors busy.
pub(crate) const STOPPED: Duration = Duration::from_secs(5);

/// Runs for hours unless it is stopped. Its batches are short, so that it stops soon.
pub(crate) const LONG: &str = "SELECT count(*) AS n FROM generate_series(1, 100) a(x), generate_series(1, 10000000000) b(y) WHERE x * y % 7 = 3";

/// A running server. Dropping it stops it.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    pub(crate) scratch: TempDir,
    thread: Option<JoinHandle<()>>,
}

/// The options of a server that everybody on this machine may use.
pub(crate) fn open_to_all() -> Options {
    Options {
        address: "127.0.0.1:0".parse().unwrap(),
        names: Vec::new(),
        users: None,
        tls: None,
        connections_most: 100,
    }
}

/// A certificate and its key.
pub(crate) fn tls() -> Tls {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tierra-postgres/tests/wire");
    Tls::read(&dir.join("certificate.pem"), &dir.join("key.pem")).unwrap()
}

/// One user, alice.
pub(crate) fn alice(password: &str) -> Users {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("users.toml");
    std::fs::write(
        &file,
        format!("alice = \"{}\"\n", verifier(password).unwrap()),
    )
    .unwrap();
    Users::read(&file).unwrap()
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::with(open_to_all())
    }

    pub(crate) fn with(options: Options) -> Self {
        let session = SessionOptions {
            threads: Some(2),
            ..SessionOptions::default()
        };
        Self::of_sessions(options, session)
    }

    /// Whose sessions begin with these settings.
    pub(crate) fn of_sessions(options: Options, session: SessionOptions) -> Self {
        let scratch = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let database =
            Database::create(&scratch.path().join("db"), &DatabaseOptions::default()).unwrap();
        let (told, tell) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_multi_thread()
                .worker_threads(4)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let server = Server::bind(options).unwrap();
                told.send((server.address().unwrap(), server.handle()))
                    .unwrap();
                server.serve_database(database, session).await.unwrap();
            });
            runtime.shutdown_background();
        });
        let (address, handle) = tell.recv().unwrap();
        Self {
            address,
            handle,
            scratch,
            thread: Some(thread),
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Waits until so many statements of other clients run.
    #[track_caller]
    pub(crate) fn wait_for_running(&self, count: usize) {
        let (start, mut client) = (Instant::now(), self.connect());
        loop {
            let state = client.get("/api/state").json();
            if state["running"].as_array().unwrap().len() == count {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "still {state}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has stopped.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Its database, once it has stopped: threads that are about to end may have it for a moment longer.
    pub(crate) fn open_again(&self) -> Arc<Database> {
        let path = self.scratch.path().join("db");
        let start = Instant::now();
        loop {
            match Database::open(&path, &DatabaseOptions::default()) {
                Err(OpenError::Locked { .. }) if start.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                opened => return opened.unwrap(),
            }
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.handle.stop();
        if !std::thread::panicking() {
            self.join();
        }
    }
}

/// The anonymous memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon"))
        .unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}
