//! `tierra backup`: writes a closed database, or that of a server, into one file. A process that has a database open also writes it by
//! BACKUP DATABASE.

use std::path::{Path, PathBuf};

use clap::Args;
use tierra::engine::{
    Backup, BackupError, BackupOptions, BackupProgress, BackupSummary, Compression,
};
use tierra_engine::OpenError;
use tierra_http::client::{Remote, fetch_backup};
use tierra_memory::faults::Stop;

use super::interrupt::Interrupt;
use super::open::OpenOptions;
use super::units::{Bytes, Count};
use super::{CommandError, progress};
use crate::cli::output::tell;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct BackupArguments {
    /// Directory of the database, which is only read, and must not be open elsewhere to write
    #[arg(long, value_name = "DIR", required_unless_present = "server")]
    db: Option<PathBuf>,
    /// URL of a server (`tierra serve --http`), whose database is backed up while it is used: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["db", "since"])]
    server: Option<String>,
    /// User of the server; the password is that of the environment variable TIERRA_PASSWORD
    #[arg(long, value_name = "NAME", requires = "server")]
    user: Option<String>,
    /// Certificates in PEM format that are trusted; by default those that the system trusts
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,
    /// The file to be written, which must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How the file is compressed: none, zstd; none by default
    #[arg(long, value_name = "METHOD", default_value_t)]
    compression: Compression,
    /// An older backup of the database: what it has is not written again, and a restore needs both
    #[arg(long, value_name = "OLDER")]
    since: Option<PathBuf>,
    #[command(flatten)]
    open: OpenOptions,
}

/// The variable with the password of a server's user. What stands in arguments everybody on this machine can read.
const PASSWORD: &str = "TIERRA_PASSWORD";

/// Runs the command.
pub(crate) async fn run(arguments: &BackupArguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::watch()?;
    let written = match (&arguments.db, &arguments.server) {
        (_, Some(url)) => receive(arguments, url, &interrupt).await?,
        (Some(dir), None) => write(arguments, dir, &interrupt)?,
        (None, None) => unreachable!("one of the two is required"),
    };
    tell!("{}: {}", arguments.file.display(), told(&written));
    Ok(())
}

/// Fetches the backup of a server.
async fn receive(
    arguments: &BackupArguments,
    url: &str,
    interrupt: &Interrupt,
) -> Result<BackupSummary, CommandError> {
    let check = CommandError::Check;
    let login = match &arguments.user {
        None => None,
        Some(user) => {
            let password = std::env::var(PASSWORD);
            let password =
                password.map_err(|_| check(format!("set {PASSWORD} to the password of {user}")))?;
            Some((user.clone(), password))
        }
    };
    let remote = Remote {
        url: url.to_owned(),
        login,
        authorities: arguments.ca.clone(),
    };
    let stop = Stop::default();
    let watched = Watched::new("receiving", interrupt, &stop);
    let fetched = fetch_backup(&remote, arguments.compression).await;
    let mut download = fetched.map_err(|error| check(error.to_string()))?;
    let received = tokio::task::block_in_place(|| {
        Backup::receive(&mut download, &arguments.file, &stop, |told| {
            watched.show(told)
        })
    });
    watched.ended(received)
}

/// Writes the backup of a closed database.
fn write(
    arguments: &BackupArguments,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<BackupSummary, CommandError> {
    let open = arguments.open.clone().without_scrubber().or_near_memory(0);
    let opened = open.options().read_only(true).open(dir);
    let database = opened.map_err(|error| match error {
        tierra::Error::Open(error @ OpenError::Locked { .. }) => CommandError::Check(format!(
            "{error}, or let it write the backup: BACKUP DATABASE TO '{}'",
            arguments.file.display()
        )),
        error => error.into(),
    })?;
    let options = BackupOptions {
        compression: arguments.compression,
        since: arguments.since.clone(),
        ..BackupOptions::default()
    };
    let watched = Watched::new("writing", interrupt, &options.stop);
    let written = database
        .engine()
        .backup(&arguments.file, &options, |told| watched.show(told));
    watched.ended(written)
}

/// What is in a backup.
pub(crate) fn told(summary: &BackupSummary) -> String {
    let tables = match summary.tables {
        1 => "1 table".to_owned(),
        tables => format!("{} tables", Count(tables)),
    };
    format!(
        "{tables}, {} rows, {} in {}",
        Count(summary.rows),
        Bytes(summary.table_bytes),
        Bytes(summary.file_bytes)
    )
}

/// A bar that shows how far a backup is; Ctrl-C ends it.
pub(crate) struct Watched<'a> {
    bar: indicatif::ProgressBar,
    interrupt: &'a Interrupt,
    stop: &'a Stop,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(doing: &str, interrupt: &'a Interrupt, stop: &'a Stop) -> Self {
        Self {
            bar: progress::bytes_bar(doing, 0),
            interrupt,
            stop,
        }
    }

    pub(crate) fn show(&self, told: BackupProgress) {
        self.bar.set_length(told.of_bytes);
        self.bar.set_position(told.bytes);
        if self.interrupt.check().is_err() {
            self.stop.stop();
        }
    }

    /// The result, without the bar.
    pub(crate) fn ended<T>(&self, result: Result<T, BackupError>) -> Result<T, CommandError> {
        self.bar.finish_and_clear();
        result.map_err(|error| match error {
            BackupError::Stopped => CommandError::Interrupted,
            error => CommandError::Check(error.to_string()),
        })
    }
}
