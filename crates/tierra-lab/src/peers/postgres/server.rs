//! A server of PostgreSQL on a new cluster, with its defaults: it syncs its log at every commit.
//!
//! It does not run as root; then it runs as the user `postgres`, who must be able to enter the folder and all above it.

use std::fs::{self, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::client::{Client, ClientError};
use crate::children;
use crate::peers::Peer;

/// Everybody may enter a folder.
const ENTER: u32 = 0o001;
/// How long it may take to end.
const ENDS: Duration = Duration::from_secs(30);

/// A running server. It ends with this value.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    port: u16,
}

impl Postgres {
    /// The engine's name in results.
    pub const ENGINE: &str = "PostgreSQL";

    /// What bars need.
    pub const PEER: Peer = Peer {
        name: Postgres::ENGINE,
        start: |folder| Postgres::start_in(folder).map(drop),
    };

    /// The server's version; `None` if it is not installed.
    pub fn version() -> Option<String> {
        let said = Command::new("postgres").arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.split_whitespace().nth(2).map(str::to_owned)
    }

    /// Starts it on a new cluster in `folder`, which is in a folder of the lab; `None`, and a line, if that is not possible here.
    pub fn start(folder: &Path) -> Option<Postgres> {
        match Postgres::start_in(folder) {
            Ok(server) => Some(server),
            Err(why) => {
                println!("PostgreSQL is not measured: {why}.");
                None
            }
        }
    }

    fn start_in(folder: &Path) -> Result<Postgres, String> {
        let user = user()?;
        let cluster = folder.join("cluster");
        let enter = |path: &Path| {
            let mode = fs::metadata(path)?.permissions().mode();
            match mode & ENTER {
                0 => fs::set_permissions(path, Permissions::from_mode(mode | ENTER)),
                _ => Ok(()),
            }
        };
        let prepare = || -> io::Result<()> {
            fs::create_dir(&cluster)?;
            if let Some((user, group)) = user {
                chown(&cluster, Some(user), Some(group))?;
                enter(folder)?;
                folder.parent().map_or(Ok(()), enter)?;
            }
            Ok(())
        };
        prepare().map_err(|error| format!("{}: {error}", cluster.display()))?;
        // Folders that are not the lab's stay as they are.
        if let Some(closed) = user.and_then(|user| closed_above(folder, user)) {
            let closed = closed.display();
            return Err(format!(
                "the user `postgres` may not enter {closed}; --scratch names another folder"
            ));
        }
        let as_user = |command: &mut Command| {
            if let Some((user, group)) = user {
                command.uid(user).gid(group);
            }
            // Where it began may be closed to the user.
            command.current_dir("/").stdin(Stdio::null());
        };
        let mut initdb = Command::new("initdb");
        as_user(&mut initdb);
        initdb.args([
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-locale",
        ]);
        let made = initdb.arg("--pgdata").arg(&cluster).output();
        let made = made.map_err(|error| format!("initdb: {error}"))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            let last = said.lines().next_back().unwrap_or("no word").to_owned();
            return Err(format!("initdb: {last}"));
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.map_err(|error| error.to_string())?.port();
        let mut command = Command::new("postgres");
        as_user(&mut command);
        command.arg("-D").arg(&cluster);
        command.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k", ""]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = children::start(&mut command, None);
        let child = child.map_err(|error| format!("postgres: {error}"))?;
        let server = Postgres { child, port };
        server.connect().map_err(|error| error.to_string())?;
        Ok(server)
    }

    /// Another session.
    ///
    /// # Errors
    /// If it lets nobody in.
    pub fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Asked to end, it removes what it has in shared memory.
        if let Some(server) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(server, Signal::INT);
        }
        let give_up = Instant::now() + ENDS;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first folder above this one that a user with these numbers may not enter.
fn closed_above(folder: &Path, (user, group): (u32, u32)) -> Option<PathBuf> {
    let folder = fs::canonicalize(folder).ok()?;
    let may_enter = |path: &Path| {
        let Ok(found) = fs::metadata(path) else {
            return false;
        };
        let enter = match (found.uid() == user, found.gid() == group) {
            (true, _) => ENTER << 6,
            (false, true) => ENTER << 3,
            (false, false) => ENTER,
        };
        found.mode() & enter != 0
    };
    let mut above = folder.ancestors().skip(1);
    above.find(|path| !may_enter(path)).map(Path::to_owned)
}

/// The numbers of the user as whom it runs, and of its group; `None`: as this process does.
fn user() -> Result<Option<(u32, u32)>, String> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let found = users.lines().find_map(numbers);
    let found = found.ok_or("it does not run as root, and there is no user `postgres`");
    found.map(Some).map_err(str::to_owned)
}

/// User and group of a line of `/etc/passwd`, if it is that of PostgreSQL.
fn numbers(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':');
    if fields.next()? != "postgres" {
        return None;
    }
    let mut numbers = fields.skip(1).map(|field| field.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_told_apart() {
        assert_eq!(
            numbers("postgres:x:101:104:x:/var/lib:/bin/sh"),
            Some((101, 104))
        );
        assert_eq!(numbers("postgresql:x:101:104::/:/bin/sh"), None);
        assert_eq!(numbers("postgres:x"), None);
    }

    #[test]
    fn a_folder_is_closed_by_one_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let above = fs::canonicalize(folder.path()).unwrap();
        let inner = above.join("a");
        fs::create_dir(&inner).unwrap();
        let owner = fs::metadata(&above).unwrap();
        let set = |mode| fs::set_permissions(&above, Permissions::from_mode(mode)).unwrap();
        let other = (owner.uid() + 1, owner.gid() + 1);
        let closes = |user| closed_above(&inner, user).as_ref() == Some(&above);
        set(0o700);
        assert!(closes(other) && !closes((owner.uid(), other.1)));
        set(0o710);
        assert!(closes(other) && !closes((other.0, owner.gid())));
        set(0o711);
        assert!(!closes(other));
    }

    #[test]
    fn statements_are_executed_and_errors_have_codes() {
        if Postgres::version().is_none() {
            println!("left out: PostgreSQL is not installed");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let Some(server) = Postgres::start(folder.path()) else {
            return;
        };
        let mut client = server.connect().unwrap();
        client
            .query("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
            .unwrap();
        let lines = (0..3).map(|a| format!("{a}\tb{a}\n"));
        assert_eq!(client.copy_in("t", lines).unwrap(), 3);
        client
            .prepare("find", "SELECT a, b, NULL FROM t WHERE a >= $1 ORDER BY a")
            .unwrap();
        let found = client.execute("find", &["2"]).unwrap();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(found.rows, [[text("2"), text("b2"), None]]);
        let error = client.query("INSERT INTO t VALUES (1, '')").unwrap_err();
        assert!(error.to_string().contains("23505"), "{error}");
        let error = client.copy_in("t", ["x\ty\n".to_owned()].into_iter());
        assert!(error.unwrap_err().to_string().contains("22P02"));
        assert_eq!(client.query("DELETE FROM t").unwrap().count, 3);
        client.begin("SELECT pg_sleep(600)").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        client.cancel().unwrap();
        let error = client.wait().unwrap_err();
        assert!(error.to_string().contains("57014"), "{error}");
    }
}
