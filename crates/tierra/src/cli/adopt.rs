//! `tierra adopt`: a copied, restored or moved directory becomes a database of its own.

use std::path::PathBuf;

use clap::Args;
use tierra_engine::AdoptOptions;

use super::CommandError;
use super::open::OpenOptions;
use crate::cli::output::tell;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct AdoptArguments {
    /// Directory of the copy; the original must not be open
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Keep pools that belong to a directory that no longer exists, because this directory is that one, moved
    #[arg(long)]
    take: bool,
    /// Continue from the version that is here, although a newer one is known to be missing and is lost
    #[arg(long)]
    stale: bool,
    /// Where the pool of a tier is now, if it was moved
    #[arg(long, value_name = "TIER=FILE", value_parser = pool)]
    moved: Vec<(String, PathBuf)>,
    #[command(flatten)]
    open: OpenOptions,
}

/// A tier's name and a path.
pub(crate) fn pool(text: &str) -> Result<(String, PathBuf), String> {
    let (tier, path) = text
        .split_once('=')
        .ok_or("expected a tier's name, = and a file")?;
    Ok((tier.to_owned(), PathBuf::from(path)))
}

/// Runs the command.
pub(crate) fn run(arguments: &AdoptArguments) -> Result<(), CommandError> {
    let how = AdoptOptions {
        take: arguments.take,
        stale: arguments.stale,
        pools: arguments.moved.clone(),
    };
    let adopted = arguments.open.options().adopt(&arguments.dir, &how)?;
    for (tier, path) in &adopted.copied {
        tell!("tier {tier}: copied to {}", path.display());
    }
    for (tier, path) in &adopted.taken {
        tell!("tier {tier}: keeps {}", path.display());
    }
    tell!("{} is a database of its own", arguments.dir.display());
    Ok(())
}
