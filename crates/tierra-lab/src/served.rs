//! Tierra served over PostgreSQL's protocol by a process of its own: what PostgreSQL is compared with.

use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tierra_engine::{Database, DatabaseOptions};
use tierra_postgres::{Options, Server};
use tierra_sql::{BlockingThread, SessionOptions};

use crate::children;
use crate::error::{At, Context, LabError};
use crate::lab;
use crate::peers::postgres::{Client, ClientError};

/// The work of the child.
pub(crate) const CHILD: &str = "serve-sql";
/// More than any experiment has sessions.
const CONNECTIONS_MOST: usize = 100;

/// A running server. It is killed with this value.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Served {
    /// The engine's name in results.
    pub(crate) const ENGINE: &str = "Tierra, served";

    /// Serves the database in `dir`, which is made if there is none.
    pub(crate) fn start(dir: &Path) -> Result<Served, LabError> {
        let starting = || "starting the server";
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|one| one.local_addr());
        let port = free.by(Served::ENGINE, starting())?.port();
        let program = std::env::current_exe().by(Served::ENGINE, starting())?;
        let mut command = Command::new(program);
        command
            .args(["child", CHILD])
            .arg(dir)
            .arg(port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = children::start(&mut command, None).by(Served::ENGINE, starting())?;
        let dir = dir.to_owned();
        Ok(Served { child, port, dir })
    }

    /// Another session.
    pub(crate) fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(self.port)
    }

    /// The bytes that the server has in memory, and the most that it had since [`Served::forget_most_bytes`].
    pub(crate) fn resident_bytes(&self) -> Result<[u64; 2], LabError> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).at(&path)?;
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kibibytes =
                line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            kibibytes
                .map(|kibibytes| kibibytes << 10)
                .ok_or_else(|| format!("no {name}"))
                .by(Served::ENGINE, format!("reading {path}"))
        };
        Ok([bytes("VmRSS:")?, bytes("VmHWM:")?])
    }

    /// Has the system forget the most bytes that the server had in memory.
    pub(crate) fn forget_most_bytes(&self) -> Result<(), LabError> {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(&path, "5").at(&path)
    }

    /// Kills the server, and serves what it left.
    pub(crate) fn kill_and_start(mut self) -> Result<Served, LabError> {
        self.end();
        Served::start(&self.dir)
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves a database until this process is killed.
///
/// # Errors
/// [`LabError`]: it cannot be opened, or nobody can connect.
pub(crate) fn serve(dir: &Path, port: u64) -> Result<(), LabError> {
    let who = Served::ENGINE;
    let options = DatabaseOptions {
        threads: NonZeroUsize::new(lab::threads()),
        ..DatabaseOptions::default()
    };
    let database = Database::open_or_create(dir, &options).by(who, "opening a database")?;
    let port = u16::try_from(port).by(who, "reading the port")?;
    let options = Options {
        address: (Ipv4Addr::LOCALHOST, port).into(),
        users: None,
        tls: None,
        requires_tls: false,
        connections_most: CONNECTIONS_MOST,
        session: SessionOptions {
            threads: Some(lab::threads()),
            ..SessionOptions::default()
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(lab::threads())
        .on_thread_start(BlockingThread::always)
        .enable_all()
        .build();
    let runtime = runtime.by(who, "starting its threads")?;
    runtime.block_on(async {
        let server = Server::bind(database, options).by(who, "listening")?;
        server.run().await.by(who, "serving")
    })
}
