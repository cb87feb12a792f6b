//! A server with a database of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tierra_engine::{Database, DatabaseOptions, OpenError};
use tierra_postgres::{Handle, Options, Server, Tls, Users, verifier};
use tierra_sql::SessionOptions;
use tokio::runtime::Builder;

use crate::client::Client;

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
        users: None,
        tls: None,
        requires_tls: false,
        connections_most: 100,
        session: SessionOptions {
            threads: Some(2),
            ..SessionOptions::default()
        },
    }
}

/// A certificate and its key.
pub(crate) fn tls() -> Tls {
    tls_of("certificate.pem", "key.pem")
}

/// A certificate that is signed with Ed25519, and its key.
pub(crate) fn tls_of_ed25519() -> Tls {
    tls_of("ed25519-certificate.pem", "ed25519-key.pem")
}

fn tls_of(certificate: &str, key: &str) -> Tls {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    Tls::read(&dir.join(certificate), &dir.join(key)).unwrap()
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
        Self::of(options, &DatabaseOptions::default())
    }

    /// With a new database of these options.
    pub(crate) fn of(options: Options, database: &DatabaseOptions) -> Self {
        let scratch = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let database = Database::create(&scratch.path().join("db"), database).unwrap();
        let (told, tell) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_multi_thread()
                .worker_threads(4)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let server = Server::bind(database, options).unwrap();
                told.send((server.address().unwrap(), server.handle()))
                    .unwrap();
                server.run().await.unwrap();
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
                Err(OpenError::Locked { .. }) if start.elapsed() < Duration::from_secs(60) => {
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

/// Held by tests that take much memory or measure it: all run in one process.
pub(crate) fn memory() -> MutexGuard<'static, ()> {
    static MEMORY: Mutex<()> = Mutex::new(());
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The anonymous memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}
