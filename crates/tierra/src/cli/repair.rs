//! `tierra repair`: makes and repairs copies, or returns the database to an older version of itself.

use clap::Args;
use tierra_engine::{Database, DatabaseOptions};

use super::status::Status;
use super::units::Count;
use super::{CommandError, scrub};
use crate::cli::output::tell;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct RepairArguments {
    #[command(flatten)]
    scrub: scrub::ScrubArguments,
    /// Go back to this version if a newer one is lost; shows what that gives up, and does it with --yes
    #[arg(long, value_name = "N")]
    to_version: Option<u64>,
    /// Give up what --to-version shows
    #[arg(long, requires = "to_version")]
    yes: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &RepairArguments) -> Result<Status, CommandError> {
    match arguments.to_version {
        Some(version) => go_back(arguments, version),
        None => scrub::run(&arguments.scrub, scrub::Task::Repair),
    }
}

fn go_back(arguments: &RepairArguments, version: u64) -> Result<Status, CommandError> {
    let db = arguments.scrub.db();
    let open = |read_only| {
        let options = DatabaseOptions {
            near_memory_bytes: Some(0),
            scrub_bytes_per_s: Some(0),
            to_version: Some(version),
            degraded: true,
            read_only,
            ..DatabaseOptions::default()
        };
        Database::open(db, &options).map_err(|error| CommandError::Check(error.to_string()))
    };
    let database = open(true)?;
    tell!("version {version} of {}:", db.display());
    for name in database.tables() {
        let rows = database
            .table(&name)
            .map_or(0, |table| table.snapshot().rows());
        tell!("{name}: {} rows", Count(rows));
    }
    for (name, commits) in database.given_up() {
        tell!("given up: {name}: {} later commits", Count(*commits));
    }
    tell!("also given up: every later load, CREATE and DROP");
    drop(database);
    if !arguments.yes {
        return Err(CommandError::Check(format!(
            "{}: nothing was changed; to go back to version {version} add --yes",
            db.display()
        )));
    }
    open(false)?;
    Ok(Status::Repaired)
}
