//! The command line `tierra`: the arguments of each command, and its exit status. It is part of the library, so that other programs
//! than the binary can be the command.
//!
//! Results go to standard output. Progress, warnings and errors go to standard error.

mod adopt;
mod backup;
mod calibrate;
mod completions;
mod demo;
mod error;
mod export;
mod format;
mod generate;
mod import;
mod interrupt;
mod kv;
mod kv_records;
mod load;
mod log;
mod man;
mod open;
mod output;
mod password;
mod produce;
mod progress;
mod repair;
mod restore;
mod salvage;
mod script;
mod scrub;
mod serve;
mod shell;
mod status;
mod text_table;
mod tiers;
mod units;
mod user;

use std::ffi::OsString;

use clap::{Parser, Subcommand};
use tierra::printable_lines;
use tierra::sql::BlockingThread;

use error::{CommandError, ScriptPosition};
use status::Status;

/// The name of the program.
const NAME: &str = "tierra";

/// A database for machines with near and far memory.
#[derive(Parser)]
#[command(name = NAME, version, max_term_width = 100, after_help = status::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: log::LogArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Generate, load, query and check benchmark data: the first thing to run
    Demo(demo::DemoArguments),
    /// Open a shell, or run a script
    Sql(shell::ShellArguments),
    /// Generate the tables of a benchmark into a database or Parquet files
    Generate(generate::GenerateArguments),
    /// Load Parquet, Arrow IPC, CSV or TSV files into a table
    Load(load::LoadArguments),
    /// Show and measure the memory of this machine
    Tiers(tiers::TiersArguments),
    /// Compare every copy of all data with its checksum, and report damage
    Verify(scrub::ScrubArguments),
    /// Verify, and repair damage from other copies
    Scrub(scrub::ScrubArguments),
    /// Scrub, after making the copies that tables should have and lack
    Repair(repair::RepairArguments),
    /// Copy all readable data of a damaged database into a new one, and report what is lost
    Salvage(salvage::SalvageArguments),
    /// Turn a copied or moved directory into a separate database
    Adopt(adopt::AdoptArguments),
    /// Write a backup of a closed database into one file
    Backup(backup::BackupArguments),
    /// Make a new database of a backup, or check a backup
    Restore(restore::RestoreArguments),
    /// Write a database as a folder of SQL and Parquet, for other versions and systems
    Export(export::ExportArguments),
    /// Make the tables of an exported folder
    Import(import::ImportArguments),
    /// Serve a database to clients of PostgreSQL, and over HTTP
    Serve(serve::ServeArguments),
    /// Print the line of a user for `serve --users`; the password is asked for, or read from standard input
    User(user::UserArguments),
    /// Serve records to clients of Redis
    Kv(kv::KvArguments),
    /// Measure the best number of interleaved lookups on this machine, for a database
    Calibrate(calibrate::CalibrateArguments),
    /// Print the script by which a shell completes commands and flags
    Completions(completions::CompletionsArguments),
    /// Print a manual page
    Man(man::ManArguments),
}

/// Runs the command line `args`, whose first is the program's name, and returns the exit status of the process. Blocks, and is
/// called once in a process: it sets up the log and the handling of Ctrl-C.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let Cli { command, log } = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(told) => {
            // Help, the version, or a wrong argument.
            let _ = told.print();
            return u8::try_from(told.exit_code()).unwrap_or(1);
        }
    };
    if let Err(why) = log::listen(log) {
        eprintln!("error: {why}");
        return Status::Usage.into();
    }
    // A server of records frees what it will not need again.
    if !matches!(command, Command::Kv(_)) {
        tierra_allocator::keep_freed_memory();
        tierra::sql::release_memory_with(tierra_allocator::release_freed_memory);
    }
    // One thread more than cores: a query that was interrupted within a batch keeps its thread for a while, and the next
    // statement needs one.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get() + 1);
    let result = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .on_thread_start(BlockingThread::always)
        .enable_all()
        .build()
        .map_err(|error| tierra::Error::Threads(error).into())
        .and_then(|runtime| {
            let _blocks = BlockingThread::enter();
            let result = runtime.block_on(async {
                match command {
                    Command::Demo(arguments) => demo::run(&arguments).await.map(|()| Status::Clean),
                    Command::Sql(arguments) => shell::run(&arguments).await.map(|()| Status::Clean),
                    Command::Generate(arguments) => {
                        generate::run(&arguments).await.map(|()| Status::Clean)
                    }
                    Command::Load(arguments) => load::run(&arguments).await.map(|()| Status::Clean),
                    Command::Tiers(arguments) => tiers::run(&arguments).map(|()| Status::Clean),
                    Command::Verify(arguments) => scrub::run(&arguments, scrub::Task::Verify),
                    Command::Scrub(arguments) => scrub::run(&arguments, scrub::Task::Scrub),
                    Command::Repair(arguments) => repair::run(&arguments),
                    Command::Salvage(arguments) => salvage::run(&arguments).map(|()| Status::Clean),
                    Command::Adopt(arguments) => adopt::run(&arguments).map(|()| Status::Clean),
                    Command::Backup(arguments) => {
                        backup::run(&arguments).await.map(|()| Status::Clean)
                    }
                    Command::Restore(arguments) => restore::run(&arguments).map(|()| Status::Clean),
                    Command::Export(arguments) => export::run(&arguments).map(|()| Status::Clean),
                    Command::Import(arguments) => {
                        import::run(&arguments).await.map(|()| Status::Clean)
                    }
                    Command::Calibrate(arguments) => {
                        calibrate::run(&arguments).map(|()| Status::Clean)
                    }
                    Command::Serve(arguments) => {
                        serve::run(&arguments).await.map(|()| Status::Clean)
                    }
                    Command::User(arguments) => user::run(&arguments).map(|()| Status::Clean),
                    Command::Kv(arguments) => kv::run(arguments).await.map(|()| Status::Clean),
                    Command::Completions(arguments) => {
                        completions::run(&arguments).map(|()| Status::Clean)
                    }
                    Command::Man(arguments) => man::run(&arguments).map(|()| Status::Clean),
                }
            });
            // A query that was stopped may still be within a batch; the process does not wait for it.
            runtime.shutdown_background();
            result
        });
    let result = result.and_then(|status| match output::failure() {
        None => Ok(status),
        Some(error) => Err(CommandError::Output(error)),
    });
    match result {
        Ok(status) => status.into(),
        Err(error) if error.is_closed_output() => Status::Clean.into(),
        Err(error) => {
            eprintln!("error: {}", printable_lines(&error.to_string()));
            error.status().into()
        }
    }
}
