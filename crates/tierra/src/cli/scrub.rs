//! `tierra verify`, `tierra scrub` and `tierra repair`: every copy of everything read and compared with its checksum.

use std::path::PathBuf;

use clap::Args;
use tierra_engine::{Lost, ScrubOptions, ScrubReport};
use tierra_memory::Size;

use super::open::OpenOptions;
use super::{CommandError, progress};

/// What the three commands take.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory of the database, which must not be open elsewhere
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Read no more than this a second, such as 500M; by default as fast as memory goes
    #[arg(long, value_name = "SIZE")]
    pace: Option<Size>,
    #[command(flatten)]
    open: OpenOptions,
}

/// What is done about damage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// It is told, and fails the command.
    Verify,
    /// It is put right from other copies.
    Scrub,
    /// The same, after copies that tables should have and lack were made.
    Repair,
}

/// Runs one of the commands.
pub(crate) fn run(arguments: &Arguments, task: Task) -> Result<(), CommandError> {
    // What is checked is checked by the command, and changed only if it is to change something.
    let open = arguments.open.clone().without_scrubber();
    let database = open.open(&arguments.db)?;
    let engine = database.engine();
    let failed = |error: tierra_engine::TableError| CommandError::Check(error.to_string());
    for (tier, why) in engine.missing_tiers() {
        eprintln!("warning: tier {tier} is missing: {why}");
    }
    if task == Task::Repair {
        engine.make_copies().map_err(failed)?;
    }
    let bar = progress::bytes_bar("checking", engine.scrub_bytes().map_err(failed)?);
    let options = ScrubOptions {
        bytes_per_s: arguments.pace.map(|size| size.0),
        only_verify: task == Task::Verify,
        ..ScrubOptions::default()
    };
    let report = engine.scrub(&options, |bytes| bar.set_position(bytes));
    bar.finish_and_clear();
    let report = report.map_err(failed)?;
    println!(
        "{} extents, {} read: {} copies damaged, {} repaired",
        report.extents,
        Size(report.bytes),
        report.damaged_copies,
        report.repaired_copies,
    );
    report.lost.iter().for_each(print_lost);
    verdict(&report, task, arguments)
}

fn print_lost(lost: &Lost) {
    match &lost.column {
        Some(column) => println!(
            "lost: table {}, column {column}, segment {}, rows {} to {}",
            lost.table,
            lost.segment,
            lost.rows.start,
            lost.rows.end - 1,
        ),
        None => println!("lost: an index or a dictionary of table {}", lost.table),
    }
}

fn verdict(report: &ScrubReport, task: Task, arguments: &Arguments) -> Result<(), CommandError> {
    let db = arguments.db.display();
    if !report.lost.is_empty() {
        return Err(CommandError::Check(format!(
            "{db}: no copy is left of what is listed as lost; everything else can be read"
        )));
    }
    let left = report.damaged_copies - report.repaired_copies;
    match (left, task) {
        (0, _) => Ok(()),
        (left, Task::Verify) => Err(CommandError::Check(format!(
            "{db}: {left} copies are damaged, and others are whole: run `tierra repair --db {db}`"
        ))),
        (left, _) => Err(CommandError::Check(format!(
            "{db}: {left} copies could not be repaired where they are: give the table other tiers"
        ))),
    }
}
