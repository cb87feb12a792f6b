//! `tierra backup`: writes a closed database into one file. A process that has the database open writes it by BACKUP DATABASE.

use std::path::PathBuf;

use clap::Args;
use tierra::engine::{BackupError, BackupOptions, BackupProgress, BackupSummary, Compression};
use tierra_engine::OpenError;
use tierra_memory::faults::Stop;

use super::interrupt::Interrupt;
use super::open::OpenOptions;
use super::units::{Bytes, Count};
use super::{CommandError, progress};

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct BackupArguments {
    /// Directory of the database, which is only read, and must not be open elsewhere to write
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
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

/// Runs the command.
pub(crate) fn run(arguments: &BackupArguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::watch()?;
    let open = arguments.open.clone().without_scrubber().or_near_memory(0);
    let opened = open.options().read_only(true).open(&arguments.db);
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
    let watched = Watched::new("writing", &interrupt, &options.stop);
    let written = database
        .engine()
        .backup(&arguments.file, &options, |told| watched.show(told));
    let written = watched.ended(written)?;
    println!("{}: {}", arguments.file.display(), told(&written));
    Ok(())
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
