//! `tierra restore`: makes a database of a backup, or only checks the backup.

use std::path::PathBuf;

use clap::Args;
use tierra::Options;
use tierra::engine::{Backup, RestoreOptions};

use super::CommandError;
use super::adopt::pool;
use super::backup::{Watched, told};
use super::interrupt::Interrupt;
use crate::cli::output::tell;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct RestoreArguments {
    /// The backup, which is only read
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory of the new database, which must be missing or empty
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    db: Option<PathBuf>,
    /// Where the pool of a tier is made; in the directory by default
    #[arg(long, value_name = "TIER=FILE", value_parser = pool)]
    pool: Vec<(String, PathBuf)>,
    /// A backup on which FILE builds, if it is not beside it
    #[arg(long, value_name = "FILE")]
    older: Vec<PathBuf>,
    /// Compare all of the backup with its checksums, and restore nothing
    #[arg(long, conflicts_with_all = ["db", "pool"])]
    check: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &RestoreArguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::watch()?;
    let failed = |error: tierra::engine::BackupError| CommandError::Check(error.to_string());
    let backup = Backup::open_with(&arguments.file, &arguments.older).map_err(failed)?;
    let how = RestoreOptions {
        pools: arguments.pool.clone(),
        ..RestoreOptions::default()
    };
    let Some(dir) = &arguments.db else {
        let watched = Watched::new("checking", &interrupt, &how.stop);
        let checked = backup.check(&how.stop, |told| watched.show(told));
        watched.ended(checked)?;
        tell!(
            "{}: intact: {}",
            arguments.file.display(),
            told(&backup.summary())
        );
        return Ok(());
    };
    let watched = Watched::new("restoring", &interrupt, &how.stop);
    let options = Options::new().near_memory_bytes(0).scrub_bytes_per_s(0);
    let restored = options.restore(&backup, dir, &how, |told| watched.show(told));
    let restored = watched.ended(match restored {
        Err(tierra::Error::Backup(error)) => Err(error),
        restored => Ok(restored?),
    })?;
    for (tier, path) in &restored.pools {
        tell!("tier {tier}: {}", path.display());
    }
    for (tier, why) in &restored.in_place {
        eprintln!("warning: tier {tier} is read in place here: {why}");
    }
    tell!("{}: {}", dir.display(), told(&restored.backup));
    Ok(())
}
