//! `tierra salvage`: copies all readable data of a damaged database into a new one.

use std::path::PathBuf;

use clap::Args;
use tierra_engine::{Database, DatabaseOptions, SalvagedTable};

use super::CommandError;
use super::units::Count;
use crate::cli::output::tell;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct SalvageArguments {
    /// Directory of the database, which is only read
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Directory of the new database, which must be missing or empty, or have been left by a salvage that was interrupted
    #[arg(value_name = "OUT")]
    to: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &SalvageArguments) -> Result<(), CommandError> {
    let SalvageArguments { from, to } = arguments;
    let failed = |error: &dyn std::fmt::Display| CommandError::Check(error.to_string());
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        scrub_bytes_per_s: Some(0),
        ..DatabaseOptions::default()
    };
    let damaged = DatabaseOptions {
        read_only: true,
        degraded: true,
        ..options.clone()
    };
    let damaged = Database::open(from, &damaged).map_err(|error| failed(&error))?;
    let report = tierra_engine::salvage(&damaged, to, &options, print);
    let report = report.map_err(|error| failed(&error))?;
    match report.is_complete() {
        true => Ok(()),
        false => Err(CommandError::Lost(format!(
            "{}: what is listed as lost could not be copied; everything else is in {}",
            from.display(),
            to.display()
        ))),
    }
}

fn print(table: &SalvagedTable) {
    let name = &table.table;
    tell!("{name}: {} rows copied", Count(table.rows));
    for problem in &table.problems {
        tell!("lost: {name}: {problem}");
    }
}
