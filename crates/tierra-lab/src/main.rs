//! The lab's command line: `list`, `run`, `bars`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tierra_lab::error::LabError;
use tierra_lab::experiments::Experiment;
use tierra_lab::lab::{Lab, Scale};
use tierra_lab::machine::Machine;
use tierra_lab::table::aligned;
use tierra_lab::{experiments, run, verdict};
use tierra_memory::{LARGE_PAGE_BYTES, Region};

/// Runs Tierra's experiments and judges their results.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Names the experiments.
    List,
    /// Runs experiments and writes NAME.json, NAME.csv and NAME.svg.
    Run {
        /// Which ones.
        #[arg(required_unless_present = "all", value_name = "NAME")]
        names: Vec<String>,
        /// All of them.
        #[arg(long, conflicts_with = "names")]
        all: bool,
        /// Small data and few repetitions: seconds instead of minutes, every step still taken.
        #[arg(long)]
        quick: bool,
        /// Where results go.
        #[arg(long, value_name = "DIR", default_value_os_t = results())]
        out: PathBuf,
        /// Where data sets and databases are put while running; they need a few gigabytes.
        #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
        scratch: PathBuf,
        #[command(flatten)]
        scale: Scale,
    },
    /// Recomputes every bar of a results folder from its raw samples; fails where one is missed.
    Bars {
        /// The folder.
        #[arg(value_name = "DIR", default_value_os_t = results())]
        folder: PathBuf,
    },
    /// What experiments start as a process of its own: the server of records, with its settings.
    #[command(hide = true)]
    Serve {
        /// As `tierra kv` takes them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        settings: Vec<String>,
    },
    /// What experiments start and kill: changes a database for ever.
    #[cfg(feature = "engine")]
    #[command(hide = true)]
    Child {
        /// What it does.
        work: String,
        /// Where.
        dir: PathBuf,
        /// By which seed, or how much.
        number: u64,
    },
}

/// Where results are kept by default: with the source, where the lab is run within it, whoever built it wherever.
fn results() -> PathBuf {
    std::env::current_dir().map_or_else(|_| "results".into(), |here| results_from(&here))
}

fn results_from(here: &Path) -> PathBuf {
    here.ancestors()
        .map(|folder| folder.join("crates/tierra-lab/results"))
        .find(|folder| folder.is_dir())
        .unwrap_or_else(|| here.join("results"))
}

/// The allocator of the `tierra` binary, for both sides of every comparison.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::List => {
            list();
            Ok(true)
        }
        Command::Run {
            names,
            all,
            quick,
            out,
            scratch,
            scale,
        } => chosen(&names, all, scale)
            .and_then(|chosen| run_all(&chosen, quick, scale, &out, &scratch))
            .map(|()| true),
        Command::Bars { folder } => bars(&folder),
        Command::Serve { settings } => experiments::serve(settings).map(|()| true),
        #[cfg(feature = "engine")]
        Command::Child { work, dir, number } => {
            experiments::database::child(&work, &dir, number).map(|()| true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    let mut lines = vec![["name", "answers"].map(str::to_owned).to_vec()];
    lines.extend(
        experiments::all()
            .iter()
            .map(|one| vec![one.name().to_owned(), one.about().to_owned()]),
    );
    // Sentences read from the left.
    let widest = lines
        .iter()
        .map(|line| line[1].chars().count())
        .max()
        .unwrap_or(0);
    for line in &mut lines {
        line[1] = format!("{:<widest$}", line[1]);
    }
    print!("{}", aligned(&lines));
}

/// The experiments of those names: all looked up before the first one spends minutes.
fn chosen(
    names: &[String],
    all: bool,
    scale: Scale,
) -> Result<Vec<&'static dyn Experiment>, LabError> {
    let chosen = if all {
        experiments::all().to_vec()
    } else {
        let named = names.iter().map(|name| experiments::named(name));
        named.collect::<Result<_, _>>()?
    };
    match chosen.iter().find(|one| !one.has_scale()) {
        Some(one) if scale != Scale::default() => Err(LabError::NoScale { name: one.name() }),
        _ => Ok(chosen),
    }
}

fn run_all(
    chosen: &[&'static dyn Experiment],
    quick: bool,
    scale: Scale,
    out: &Path,
    scratch: &Path,
) -> Result<(), LabError> {
    let machine = Machine::record(near_page_bytes());
    for experiment in chosen {
        // A bench of its own for each: what one leaves behind, on disk or in memory, is gone before
        // the next one starts.
        let lab = Lab::new(quick, scratch)?.scaled(scale);
        run::run(*experiment, &lab, &machine, out)?;
    }
    Ok(())
}

/// The page size that near memory really obtains here.
fn near_page_bytes() -> Option<u64> {
    let mut region = Region::near(LARGE_PAGE_BYTES).ok()?;
    region.populate().ok()?;
    Some(region.page_size_bytes() as u64)
}

/// Prints the bars of a folder; whether all are met.
fn bars(folder: &Path) -> Result<bool, LabError> {
    let verdicts = verdict::verdicts(folder, experiments::all())?;
    for verdict in &verdicts {
        println!("{} ({})", verdict.name, verdict.origin);
        if verdict.quick {
            println!("This was a quick run; its bars are stated for full scale.");
        }
        if !verdict.follows_from_samples {
            println!("The file's own bars do not follow from its raw samples.");
        }
        println!("{}", run::bars_table(&verdict.bars));
    }
    let unmeasured: Vec<&str> = experiments::all()
        .iter()
        .map(|experiment| experiment.name())
        .filter(|name| verdicts.iter().all(|verdict| verdict.name != *name))
        .collect();
    if !unmeasured.is_empty() {
        println!("No results of: {}", unmeasured.join(", "));
    }
    Ok(verdicts.iter().all(verdict::Verdict::is_met))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_go_where_the_lab_is_run() {
        let outside = tempfile::tempdir().unwrap();
        assert_eq!(results_from(outside.path()), outside.path().join("results"));
        let inside = outside.path().join("crates/tierra-lab/src");
        let kept = outside.path().join("crates/tierra-lab/results");
        for folder in [&inside, &kept] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for folder in [outside.path(), &inside, &kept] {
            assert_eq!(results_from(folder), kept);
        }
    }
}
