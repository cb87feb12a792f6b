//! The lab's command line: `list`, `run`, `draw`, `bars`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tierra_lab::error::{Context, LabError};
use tierra_lab::experiments::{Experiment, Needs};
use tierra_lab::lab::{Lab, Scale};
use tierra_lab::machine::{self, Machine};
use tierra_lab::results::Results;
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
    /// Names the experiments, with what they take at full scale on two cores, at most.
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
        /// Where data sets and databases are put while running; `list` says how much that is.
        #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
        scratch: PathBuf,
        #[command(flatten)]
        scale: Scale,
    },
    /// Writes NAME.csv and NAME.svg of a results folder again, from NAME.json.
    Draw {
        /// Which ones; without a name, all that are there.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The folder.
        #[arg(long, value_name = "DIR", default_value_os_t = results())]
        out: PathBuf,
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

/// Stack of an experiment's thread: as much as the main thread of a process has.
const STACK_BYTES: usize = 8 << 20;

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
        Command::Draw { names, out } => draw(&names, &out).map(|()| true),
        Command::Bars { folder } => bars(&folder),
        Command::Serve { settings } => experiments::serve(settings).map(|()| true),
        #[cfg(feature = "engine")]
        Command::Child { work, dir, number } => {
            experiments::child(&work, &dir, number).map(|()| true)
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
    let headings = ["name", "minutes", "memory", "scratch", "answers"];
    let mut lines = vec![headings.map(str::to_owned).to_vec()];
    let most = |amount: Option<u32>, unit: &str| match amount {
        Some(0) => "-".to_owned(),
        Some(amount) => format!("{amount}{unit}"),
        None => "?".to_owned(),
    };
    lines.extend(experiments::all().iter().map(|one| {
        let needs = Needs::of(one.name());
        vec![
            one.name().to_owned(),
            most(needs.map(|needs| needs.minutes), ""),
            most(needs.map(|needs| needs.memory_gib), " GiB"),
            most(needs.map(|needs| needs.scratch_gib), " GiB"),
            one.about().to_owned(),
        ]
    }));
    // Sentences read from the left.
    let about = headings.len() - 1;
    let widest = lines
        .iter()
        .map(|line| line[about].chars().count())
        .max()
        .unwrap_or(0);
    for line in &mut lines {
        line[about] = format!("{:<widest$}", line[about]);
    }
    print!("{}", aligned(&lines));
    println!("\nMinutes, memory and --scratch: at full scale on two cores, at most.");
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
    for one in &chosen {
        if let Some(option) = scale.given().find(|option| !one.heeds().contains(option)) {
            return Err(LabError::NoScale {
                name: one.name(),
                option: option.name(),
            });
        }
    }
    Ok(chosen)
}

fn run_all(
    chosen: &[&'static dyn Experiment],
    quick: bool,
    scale: Scale,
    out: &Path,
    scratch: &Path,
) -> Result<(), LabError> {
    let near_page_bytes = near_page_bytes();
    for experiment in chosen {
        // A bench of its own for each: what one leaves behind, on disk or in memory, is gone before
        // the next one starts. So is its thread, with the CPU that it may have chosen.
        let machine = Machine::record(near_page_bytes, machine::busy_processors());
        let lab = Lab::new(quick, scratch)?.scaled(scale);
        std::thread::scope(|scope| {
            let run = || run::run(*experiment, &lab, &machine, out);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, run);
            let thread = thread.by("the lab", "starting a thread")?;
            match thread.join() {
                Ok(ran) => ran.map(drop),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })?;
    }
    Ok(())
}

/// Draws the results of those names, or all of a folder.
fn draw(names: &[String], out: &Path) -> Result<(), LabError> {
    let is_there = |one: &&'static dyn Experiment| Results::path(out, one.name(), "json").exists();
    let chosen: Vec<_> = if names.is_empty() {
        let all = experiments::all().iter().copied();
        all.filter(is_there).collect()
    } else {
        let named = names.iter().map(|name| experiments::named(name));
        named.collect::<Result<_, _>>()?
    };
    if chosen.is_empty() {
        return Err(LabError::NoResults {
            path: out.to_owned(),
        });
    }
    for experiment in chosen {
        run::draw(experiment, out)?;
        println!(
            "{} drawn",
            Results::path(out, experiment.name(), "svg").display()
        );
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
            println!("{}", run::QUICK);
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
    use clap::CommandFactory;
    use tierra_lab::lab::ScaleOption;

    use super::*;

    #[test]
    fn an_option_of_size_names_who_heeds_it() {
        let mut arguments = Arguments::command();
        let run = arguments.find_subcommand_mut("run").unwrap();
        for option in ScaleOption::ALL {
            let mut found = run.get_arguments();
            let found = found.find(|one| one.get_long() == Some(option.name()));
            let help = found.unwrap().get_help().unwrap().to_string();
            let (_, heeding) = help.split_once(" For ").unwrap();
            for experiment in experiments::all() {
                let heeds = experiment.heeds().contains(&option);
                let name = experiment.name();
                let mut words =
                    heeding.split(|letter| !(letter == '-' || char::is_alphanumeric(letter)));
                let is_named = words.any(|word| word == name);
                assert_eq!(is_named, heeds, "{name}, --{}", option.name());
            }
        }
        let runs = Scale {
            runs: Some(2),
            ..Scale::default()
        };
        let names = ["kv-memory".to_owned()];
        let refused = chosen(&names, false, runs).map(|_| ()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`kv-memory` has no --runs; run it without"
        );
        let small = Arguments::try_parse_from(["lab", "run", "kv-memory", "--records", "5"]);
        assert!(small.err().unwrap().to_string().contains("at least 1000"));
    }

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
