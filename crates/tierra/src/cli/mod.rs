//! The command line: what each command takes, and how it ends.
//!
//! Results go to standard output, everything about them (progress, errors) to standard error.
//! Exit status: 0 if all went well, 1 on an error, 2 on a wrong command line, 130 after Ctrl-C.

mod calibrate;
mod demo;
mod error;
mod format;
mod generate;
mod interrupt;
mod json;
mod kv;
mod load;
mod open;
mod produce;
mod progress;
mod script;
mod scrub;
mod shell;
mod text_table;
mod tiers;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tierra::printable_lines;

use error::{CommandError, Place};

/// A database for machines with near and far memory.
#[derive(Parser)]
#[command(name = "tierra", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate, load, query and check benchmark data: the first thing to run
    Demo(demo::Arguments),
    /// Open a shell, or run a script
    Sql(shell::Arguments),
    /// Generate the tables of a benchmark into a database or Parquet files
    Generate(generate::Arguments),
    /// Load Parquet, Arrow IPC, CSV or TSV files into a table
    Load(load::Arguments),
    /// Show and measure the memory of this machine
    Tiers(tiers::Arguments),
    /// Compare every copy of everything with its checksum, and say what is damaged
    Verify(scrub::Arguments),
    /// The same, and put right what another copy has
    Scrub(scrub::Arguments),
    /// The same, after making copies that tables should have and lack
    Repair(scrub::Arguments),
    /// Serve records to clients of Redis
    Kv(kv::Arguments),
    /// Measure how many lookups should take turns on this machine, for a database
    Calibrate(calibrate::Arguments),
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let command = Cli::parse().command;
    // One thread more than cores: a query that was interrupted in the middle of a batch keeps its
    // thread for a while, and what comes next needs one.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get() + 1);
    let result = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| tierra::Error::Threads(error).into())
        .and_then(|runtime| {
            let result = runtime.block_on(async {
                match command {
                    Command::Demo(arguments) => demo::run(&arguments).await,
                    Command::Sql(arguments) => shell::run(&arguments).await,
                    Command::Generate(arguments) => generate::run(&arguments).await,
                    Command::Load(arguments) => load::run(&arguments).await,
                    Command::Tiers(arguments) => tiers::run(&arguments),
                    Command::Verify(arguments) => scrub::run(&arguments, scrub::Task::Verify),
                    Command::Scrub(arguments) => scrub::run(&arguments, scrub::Task::Scrub),
                    Command::Repair(arguments) => scrub::run(&arguments, scrub::Task::Repair),
                    Command::Calibrate(arguments) => calibrate::run(&arguments),
                    Command::Kv(arguments) => kv::run(arguments).await,
                }
            });
            // A query that was stopped may still be in the middle of a batch: no reason to wait.
            runtime.shutdown_background();
            result
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", printable_lines(&error.to_string()));
            error.exit_code()
        }
    }
}
