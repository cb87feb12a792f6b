//! The lab's command line: `list`, `run`, `show`, `draw`, `bars`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tierra_lab::error::{Context, LabError};
use tierra_lab::experiments::{Experiment, Needs};
use tierra_lab::lab::{self, Lab, Scale};
use tierra_lab::machine::{self, Machine, QUIET_LOAD};
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
    /// Lists the experiments, with the most that each takes at full scale on two cores.
    List,
    /// Runs experiments and writes NAME.json, NAME.csv and NAME.svg.
    Run {
        /// The experiments to run.
        #[arg(required_unless_present = "all", value_name = "NAME")]
        names: Vec<String>,
        /// All experiments.
        #[arg(long, conflicts_with = "names")]
        all: bool,
        /// Small data and few repetitions: seconds instead of minutes, every step still taken.
        #[arg(long)]
        quick: bool,
        /// The folder for results.
        #[arg(long, value_name = "DIR", default_value_os_t = results())]
        out: PathBuf,
        /// The folder for data sets and databases while running; `list` shows how much they take.
        #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
        scratch: PathBuf,
        /// Minutes to wait, at most, before each experiment that measures time, for a load below 0.5. A result that began with more
        /// says so, does not count, and replaces none that does. Quick runs do not wait.
        #[arg(long, value_name = "MINUTES", default_value_t = 15)]
        wait: u64,
        /// Threads of each side of a comparison. Bars and the results in the source are for two; processes that an experiment
        /// starts beside itself keep two.
        #[arg(long, value_name = "N", default_value = "2")]
        threads: NonZeroUsize,
        /// Leave out peers that do not start, and the bars that need them. Without it an experiment fails at once, if it is not quick.
        #[arg(long)]
        without_peers: bool,
        #[command(flatten)]
        scale: Scale,
    },
    /// Prints the tables of a results folder again, without their bars.
    Show {
        /// The experiments to show; by default, all in the folder.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The folder.
        #[arg(long, value_name = "DIR", default_value_os_t = results())]
        out: PathBuf,
    },
    /// Writes NAME.csv and NAME.svg of a results folder again, from NAME.json.
    Draw {
        /// The experiments to draw; by default, all in the folder.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The folder.
        #[arg(long, value_name = "DIR", default_value_os_t = results())]
        out: PathBuf,
    },
    /// Recomputes every bar of a results folder from its raw samples; fails if one is missed.
    Bars {
        /// The folder.
        #[arg(value_name = "DIR", default_value_os_t = results())]
        folder: PathBuf,
    },
    /// The server of records, with its settings, that experiments start as a separate process.
    #[command(hide = true)]
    Serve {
        /// The settings of `tierra kv`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        settings: Vec<String>,
    },
    /// The child that experiments start and kill: it changes a database until it is killed.
    #[cfg(feature = "engine")]
    #[command(hide = true)]
    Child {
        /// The kind of work.
        work: String,
        /// The database's directory.
        dir: PathBuf,
        /// The seed, or the amount of work.
        number: u64,
    },
    /// The child whose misses cachegrind counts: it runs or explains one query.
    #[cfg(feature = "sql")]
    #[command(hide = true)]
    Query {
        /// The database's directory.
        dir: PathBuf,
        /// The query of TPC-H.
        name: String,
        /// How it reads; it is explained if nothing says so.
        access: Option<String>,
    },
}

/// Stack of an experiment's thread: as much as the main thread of a process has.
const STACK_BYTES: usize = 8 << 20;

/// The default folder of results: within the source if the lab runs there, independent of where it was built.
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
static ALLOCATOR: tierra_allocator::Allocator = tierra_allocator::Allocator;

/// Freed memory is kept as in the `tierra` binary: by commands that run queries, not by the server of records.
fn keep_freed_memory() {
    tierra_allocator::keep_freed_memory();
    #[cfg(feature = "sql")]
    tierra_sql::release_memory_with(tierra_allocator::release_freed_memory);
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    if !matches!(command, Command::Serve { .. }) {
        keep_freed_memory();
    }
    let done = match command {
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
            wait,
            threads,
            without_peers,
            scale,
        } => chosen(&names, all, scale).map(|chosen| {
            let wait = Duration::from_secs(if quick { 0 } else { 60 * wait });
            lab::choose_threads(threads);
            let needs_peers = !quick && !without_peers;
            run_all(&chosen, (quick, wait), needs_peers, scale, &out, &scratch)
        }),
        Command::Show { names, out } => show(&names, &out).map(|()| true),
        Command::Draw { names, out } => draw(&names, &out).map(|()| true),
        Command::Bars { folder } => bars(&folder),
        Command::Serve { settings } => experiments::serve(settings).map(|()| true),
        #[cfg(feature = "engine")]
        Command::Child { work, dir, number } => {
            experiments::child(&work, &dir, number).map(|()| true)
        }
        #[cfg(feature = "sql")]
        Command::Query { dir, name, access } => {
            experiments::query(&dir, &name, access.as_deref()).map(|()| true)
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
    // Sentences are aligned to the left.
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

/// The experiments of those names. All names are checked before the first one runs.
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

/// Runs one after the other; `true` if none failed. One that fails does not keep the next from running.
fn run_all(
    chosen: &[&'static dyn Experiment],
    (quick, wait): (bool, Duration),
    needs_peers: bool,
    scale: Scale,
    out: &Path,
    scratch: &Path,
) -> bool {
    let near_page_bytes = near_page_bytes();
    let mut failed = Vec::new();
    for &experiment in chosen {
        // Each has its own lab: everything that one leaves, on disk or in memory, is gone before the next one starts.
        let lab = Lab::new(quick, scratch).map(|lab| lab.scaled(scale));
        let ran = lab.and_then(|lab| {
            if needs_peers {
                run::check_peers(experiment, &lab)?;
            }
            // Other work disturbs only times.
            if experiment.is_timed() {
                wait_until_quiet(wait);
            }
            let machine = Machine::record(near_page_bytes, machine::busy_processors());
            run_apart(experiment, &lab, &machine, out)
        });
        if let Err(error) = ran {
            eprintln!("error: {}: {error}", experiment.name());
            failed.push(experiment.name());
        }
    }
    if !failed.is_empty() && chosen.len() > 1 {
        let of = chosen.len();
        eprintln!(
            "error: {} of {of} failed: {}",
            failed.len(),
            failed.join(", ")
        );
    }
    failed.is_empty()
}

fn wait_until_quiet(most: Duration) {
    let load = machine::load().filter(|load| *load >= QUIET_LOAD);
    if let Some(load) = load.filter(|_| !most.is_zero()) {
        println!("Waiting for a load below {QUIET_LOAD}; it is {load:.2}.");
    }
    machine::wait_until_quiet(most);
}

/// Runs it in a thread of its own, which is gone afterwards, with the CPU to which it may be pinned.
fn run_apart(
    experiment: &'static dyn Experiment,
    lab: &Lab,
    machine: &Machine,
    out: &Path,
) -> Result<(), LabError> {
    std::thread::scope(|scope| {
        let run = || run::run(experiment, lab, machine, out);
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, run);
        let thread = thread.by("the lab", "starting a thread")?;
        match thread.join() {
            Ok(ran) => ran.map(drop),
            // The panic was printed.
            Err(_) => Err("it panicked").by("the lab", "running it"),
        }
    })
}

/// The experiments of those names, or all with results in a folder.
fn with_results(names: &[String], out: &Path) -> Result<Vec<&'static dyn Experiment>, LabError> {
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
    Ok(chosen)
}

/// Prints the tables of those names, or all of a folder.
fn show(names: &[String], out: &Path) -> Result<(), LabError> {
    for experiment in with_results(names, out)? {
        println!("{}", run::show(experiment, out)?);
    }
    Ok(())
}

/// Draws the results of those names, or all of a folder.
fn draw(names: &[String], out: &Path) -> Result<(), LabError> {
    for experiment in with_results(names, out)? {
        run::draw(experiment, out)?;
        println!(
            "{} drawn",
            Results::path(out, experiment.name(), "svg").display()
        );
    }
    Ok(())
}

/// The page size that near memory obtains here.
fn near_page_bytes() -> Option<u64> {
    let mut region = Region::near(LARGE_PAGE_BYTES).ok()?;
    region.populate().ok()?;
    Some(region.page_size_bytes() as u64)
}

/// Prints the bars of a folder; `true` if all are met.
fn bars(folder: &Path) -> Result<bool, LabError> {
    let verdicts = verdict::verdicts(folder, experiments::all())?;
    for verdict in &verdicts {
        println!("{} ({})", verdict.name, verdict.origin);
        if let Some(why) = &verdict.why_not_counted {
            println!("Does not count: {why}.");
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
