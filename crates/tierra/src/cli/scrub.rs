//! `tierra verify`, `tierra scrub` and `tierra repair`: read every copy of all data and compare it with its checksum.

use std::path::{Path, PathBuf};

use clap::Args;
use tierra_engine::{LostRows, ScrubOptions, ScrubReport};
use tierra_memory::Size;

use super::open::OpenOptions;
use super::status::Status;
use super::units::{Bytes, Count};
use super::{CommandError, progress};
use crate::cli::output::tell;

/// The arguments of the three commands.
#[derive(Args)]
pub(crate) struct ScrubArguments {
    /// Directory of the database, which must not be open elsewhere
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Read at most this much per second, such as 500M; by default as fast as possible
    #[arg(long, value_name = "SIZE")]
    pace: Option<Size>,
    #[command(flatten)]
    open: OpenOptions,
}

impl ScrubArguments {
    /// The database's directory.
    pub(crate) fn db(&self) -> &Path {
        &self.db
    }
}

/// How damage is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// It is reported, and fails the command.
    Verify,
    /// It is repaired from other copies.
    Scrub,
    /// The same, after missing copies of tables were made.
    Repair,
}

/// Runs one of the commands.
pub(crate) fn run(arguments: &ScrubArguments, task: Task) -> Result<Status, CommandError> {
    // The command itself checks, and it changes data only if it is to repair.
    let open = arguments.open.clone().without_scrubber();
    let database = open.open(&arguments.db)?;
    let engine = database.engine();
    let failed = |error: tierra_engine::TableError| CommandError::Check(error.to_string());
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
    tell!(
        "{}, {} read: {} damaged, {} repaired",
        counted(report.extents, "extent", "extents"),
        Bytes(report.bytes),
        counted(report.damaged_copies, "copy", "copies"),
        Count(report.repaired_copies),
    );
    joined(&report.lost).iter().for_each(print_lost);
    let unavailable = engine.unavailable();
    for why in &unavailable {
        tell!("lost: {why}");
    }
    let is_lost = !report.lost.is_empty() || !unavailable.is_empty();
    verdict(&report, is_lost, &engine.missing_tiers(), task, arguments)
}

/// A count with its singular or plural.
fn counted(count: u64, one: &str, several: &str) -> String {
    let name = if count == 1 { one } else { several };
    format!("{} {name}", Count(count))
}

/// Lost data by table and column, with adjacent rows merged.
fn joined(lost: &[LostRows]) -> Vec<LostRows> {
    let mut sorted = lost.to_vec();
    sorted.sort_by(|a, b| {
        let place = |lost: &LostRows| (lost.segment, lost.rows.start);
        (&a.table, &a.column, place(a)).cmp(&(&b.table, &b.column, place(b)))
    });
    let mut joined: Vec<LostRows> = Vec::with_capacity(sorted.len());
    for next in sorted {
        match joined.last_mut() {
            Some(last)
                if (&last.table, &last.column, last.segment)
                    == (&next.table, &next.column, next.segment)
                    && last.rows.end >= next.rows.start =>
            {
                last.rows.end = last.rows.end.max(next.rows.end);
            }
            _ => joined.push(next),
        }
    }
    joined
}

fn print_lost(lost: &LostRows) {
    match &lost.column {
        Some(column) => tell!(
            "lost: table {}, column {column}, segment {}, rows {} to {}",
            lost.table,
            lost.segment,
            lost.rows.start,
            lost.rows.end - 1,
        ),
        None => tell!("lost: an index or a dictionary of table {}", lost.table),
    }
}

fn verdict(
    report: &ScrubReport,
    is_lost: bool,
    missing: &[(String, String)],
    task: Task,
    arguments: &ScrubArguments,
) -> Result<Status, CommandError> {
    let db = arguments.db.display();
    if is_lost {
        return Err(CommandError::Lost(format!(
            "{db}: what is listed as lost has no readable copy; everything else can be read"
        )));
    }
    let mut found = Vec::new();
    match (report.damaged_copies - report.repaired_copies, task) {
        (0, _) => {}
        (left, Task::Verify) => found.push(format!(
            "damaged, but another copy is intact: {}; run `tierra repair --db {db}`",
            counted(left, "copy", "copies")
        )),
        (left, _) => found.push(format!(
            "not to be repaired where they are: {}; give the table other tiers",
            counted(left, "copy", "copies")
        )),
    }
    found.extend(missing.iter().map(|(tier, why)| {
        format!(
            "tier {tier} is missing, and the copies in it are: {why}; bring it back, or drop it"
        )
    }));
    if !found.is_empty() {
        return Err(CommandError::Degraded(format!(
            "{db}: {}",
            found.join("; ")
        )));
    }
    Ok(match report.repaired_copies {
        0 => Status::Clean,
        _ => Status::Repaired,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_rows_next_to_each_other_are_said_once() {
        let lost = |column: Option<&str>, segment, rows| LostRows {
            table: "t".to_owned(),
            column: column.map(str::to_owned),
            segment,
            rows,
        };
        let found = [
            lost(Some("a"), 0, 0..1024),
            lost(Some("b"), 0, 0..1024),
            lost(Some("a"), 0, 1024..2048),
            lost(Some("a"), 0, 4096..5000),
            lost(Some("a"), 1, 0..1024),
            lost(None, 0, 0..0),
            lost(None, 0, 0..0),
        ];
        let expected = [
            lost(None, 0, 0..0),
            lost(Some("a"), 0, 0..2048),
            lost(Some("a"), 0, 4096..5000),
            lost(Some("a"), 1, 0..1024),
            lost(Some("b"), 0, 0..1024),
        ];
        assert_eq!(joined(&found), expected);
    }
}
