//! `tierra load TABLE FILE...`: loads files into a table, all of them or none.

use std::{path::PathBuf, time::Instant};

use clap::Args;
use tierra::{
    Database,
    engine::LoadReport,
    printable,
    sql::load::{LoadError, LoadOptions, Progress, load_files},
};
use tierra_column::Encoding;

use super::{
    CommandError,
    interrupt::Interrupt,
    open::OpenOptions,
    progress,
    units::{Bytes, Count, Time, rows_per_second},
};

/// The arguments of `tierra load`.
#[derive(Args)]
pub(crate) struct LoadArguments {
    /// Table to load into; created from the first file if it does not exist
    table: String,
    /// Parquet, Arrow IPC, .csv or .tsv files; CSV and TSV have a header, and types of the table or inferred ones
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Database directory; created if there is none
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) async fn run(arguments: &LoadArguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::watch()?;
    for file in &arguments.files {
        // Checked first, so that no database is created for a missing file.
        std::fs::metadata(file).map_err(|e| CommandError::file("read", file, e))?;
    }
    let database = arguments.open.open_or_create(&arguments.db)?;
    load(&database, &arguments.table, &arguments.files, &interrupt)
}

fn load(
    database: &Database,
    table: &str,
    files: &[PathBuf],
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let start = Instant::now();
    let bar = progress::bytes_bar(table, 0);
    let show = |progress: Progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes);
        bar.set_message(rows_per_second(progress.rows, start.elapsed()));
    };
    let flag = interrupt.flag();
    let options = LoadOptions {
        progress: Some(&show),
        cancel: Some(&flag),
        ..LoadOptions::default()
    };
    let report =
        load_files(database.engine(), table, files, &options).map_err(|error| match error {
            LoadError::Cancelled { .. } => CommandError::Interrupted,
            error => tierra::Error::from(tierra::sql::SqlError::from(error)).into(),
        })?;
    bar.finish_and_clear();
    let time = start.elapsed();
    let what = match files {
        [file] => printable(&file.display().to_string()).into_owned(),
        _ => format!("{} files", files.len()),
    };
    if report.rows == 0 {
        let made = if report.created {
            "; the new table is empty"
        } else {
            ""
        };
        eprintln!("{what}: no rows{made}");
        return Ok(());
    }
    eprintln!(
        "{what}: {} rows in {}, {}; {} of file became {} {}{}",
        Count(report.rows),
        Time(time),
        rows_per_second(report.rows, time),
        Bytes(report.file_bytes),
        Bytes(report.stored_bytes),
        stored(&report.encodings),
        match (report.created, report.encodings.is_empty()) {
            (false, _) => "",
            (true, true) => " of a new table",
            (true, false) => " into a new table",
        },
    );
    print_encoded_columns(&report.encodings);
    Ok(())
}

/// How a load's rows are stored: few rows go to the tail, which has no encodings.
pub(crate) fn stored(encodings: &[(String, Encoding)]) -> &'static str {
    match encodings {
        [] => "in the tail",
        _ => "packed",
    }
}

/// Prints the encodings that a load chose.
pub(crate) fn print_encodings(report: &LoadReport) {
    print_encoded_columns(&report.encodings);
}

/// Prints one line per encoding, so that a thousand columns stay readable.
fn print_encoded_columns(encodings: &[(String, Encoding)]) {
    const NAMED: usize = 12;
    let mut seen: Vec<Encoding> = Vec::new();
    for (_, encoding) in encodings {
        if !seen.contains(encoding) {
            seen.push(*encoding);
        }
    }
    for encoding in seen {
        let columns = encodings.iter().filter(|(_, of)| *of == encoding);
        let mut names: Vec<&str> = columns.map(|(name, _)| name.as_str()).collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        eprintln!("  {encoding:<10} {}{more}", printable(&names.join(", ")));
    }
}
