//! Measured servers, each a process of its own: Tierra's, redis-server and valkey-server.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tierra_kv::{Config, Server};

use super::WHO;
use crate::children;
use crate::error::{At, Context, LabError};
use crate::process::processor_ns;

pub(super) const REDIS: &str = "redis-server";
pub(super) const VALKEY: &str = "valkey-server";
/// The processor of servers; clients have the other one.
const CPU: usize = 1;

/// Serves until the process ends, with settings of `tierra kv`. `ServerProcess::tierra` starts this.
///
/// # Errors
/// If the settings are wrong, or it cannot listen.
pub fn serve(settings: Vec<String>) -> Result<(), LabError> {
    let config = Config::from_arguments(settings).by(WHO, "reading settings")?;
    let mut server = Server::bind(config).by(WHO, "starting the server")?;
    server.run().by(WHO, "serving")
}

/// The version of a peer's program, as it says; `None` if it is not installed.
pub(super) fn version(program: &str) -> Option<String> {
    let said = Command::new(program).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="));
    Some(version.unwrap_or("unknown").to_owned())
}

/// A measured server.
pub(super) struct ServerProcess {
    /// Its name, for messages.
    pub(super) who: &'static str,
    pub(super) port: u16,
    child: Child,
}

impl ServerProcess {
    /// Tierra's, with settings: `--name value`.
    pub(super) fn tierra(settings: &[(&str, &str)]) -> Result<ServerProcess, LabError> {
        let program = std::env::current_exe().by(WHO, "finding the lab's own program")?;
        let mut command = Command::new(program);
        command.arg("serve");
        ServerProcess::start(WHO, command, settings).by(WHO, "starting the server")
    }

    /// Redis's; `None` if it is not installed.
    pub(super) fn redis(settings: &[(&str, &str)]) -> Option<ServerProcess> {
        ServerProcess::peer(REDIS, settings)
    }

    /// A peer's, of that program, without persistence, with one thread for all connections, as Tierra's; `None` if it is not
    /// installed.
    pub(super) fn peer(program: &'static str, settings: &[(&str, &str)]) -> Option<ServerProcess> {
        let mut command = Command::new(program);
        command.args(["--save", "", "--appendonly", "no", "--io-threads", "1"]);
        ServerProcess::start(program, command, settings).ok()
    }

    fn start(
        who: &'static str,
        mut command: Command,
        settings: &[(&str, &str)],
    ) -> Result<ServerProcess, std::io::Error> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        for (name, value) in settings {
            command.args([&format!("--{name}"), *value]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = children::start(&mut command, Some(CPU))?;
        Ok(ServerProcess { who, port, child })
    }

    /// CPU time of the serving thread, user and system.
    pub(super) fn cpu_ns(&self) -> Result<u64, LabError> {
        let process = format!("/proc/{}", self.child.id());
        // Nanoseconds on a processor are the first field. Not every kernel counts them.
        let counted = std::fs::read_to_string(format!("{process}/schedstat"));
        let first = |text: String| text.split_whitespace().next()?.parse().ok();
        if let Some(ns) = counted.ok().and_then(first) {
            return Ok(ns);
        }
        processor_ns(&process)
    }

    /// The resident bytes of the process.
    pub(super) fn resident_bytes(&self) -> Result<u64, LabError> {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = std::fs::read_to_string(&path).at(&path)?;
        let pages = text
            .split_whitespace()
            .nth(1)
            .and_then(|pages| pages.parse().ok());
        Ok(pages.unwrap_or(0) * tierra_memory::base_page_bytes() as u64)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
