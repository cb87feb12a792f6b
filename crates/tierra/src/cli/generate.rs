//! `tierra generate ssb|tpch`: generates a benchmark's tables into a database or Parquet files.
//!
//! Either all tables or files are complete, or none exists: a command that fails or is interrupted removes what it made. An
//! existing file is replaced only on request.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use arrow::{
    array::RecordBatch,
    datatypes::{FieldRef, SchemaRef},
};
use clap::{Args, ValueEnum};
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use tierra::engine::{ColumnSpec, LoadReport, Table, TableSpec};
use tierra_column::{Encoding, LogicalType};
use tierra_data::{Part, Scale, Source, ssb, tpch};

use super::{
    CommandError,
    interrupt::Interrupt,
    load::{print_encodings, stored},
    open::OpenOptions,
    produce, progress,
    units::{Bytes, Count, Time, rows_per_second},
};

/// Rows in a generated batch.
const BATCH_ROWS: usize = 8_192;

/// The arguments of `tierra generate`.
#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// Which benchmark
    benchmark: Benchmark,
    /// Scale factor: 1 is about 6,000,000 rows in the largest table
    #[arg(long, value_name = "N")]
    scale: Scale,
    #[command(flatten)]
    target: Target,
    /// Replace existing Parquet files
    #[arg(long, requires = "parquet")]
    force: bool,
    #[command(flatten)]
    open: OpenOptions,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// Database directory; created if there is none
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Directory for one Parquet file per table
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Benchmark {
    /// Star Schema Benchmark
    Ssb,
    /// TPC-H
    Tpch,
}

/// Runs the command.
pub(crate) async fn run(arguments: &GenerateArguments) -> Result<(), CommandError> {
    match arguments.benchmark {
        Benchmark::Ssb => generate(arguments, &ssb::Table::ALL),
        Benchmark::Tpch => generate(arguments, &tpch::Table::ALL),
    }
}

fn generate(arguments: &GenerateArguments, tables: &[impl Source]) -> Result<(), CommandError> {
    let interrupt = Interrupt::watch()?;
    let scale = arguments.scale;
    if let Some(&first) = tables.first() {
        // Making the texts that all tables of a benchmark share takes most of a second. It is not counted as time of the first
        // table.
        drop(first.generate(scale, Part::WHOLE, 1).next());
    }
    if let Some(dir) = &arguments.target.parquet {
        into_files(dir, tables, scale, arguments.force, &interrupt)?;
    }
    if let Some(dir) = &arguments.target.db {
        let database = arguments.open.open_or_create(dir)?;
        into_tables(&database, tables, scale, &interrupt)?;
    }
    Ok(())
}

fn into_tables(
    database: &tierra::Database,
    tables: &[impl Source],
    scale: Scale,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let engine = database.engine();
    let there = tables.iter().map(|source| source.name());
    let there: Vec<_> = there.filter(|name| engine.table(name).is_some()).collect();
    if !there.is_empty() {
        return Err(CommandError::TablesExist(these_are("table", &there)));
    }
    let mut made = Vec::new();
    let result = tables.iter().try_for_each(|&source| {
        let (name, schema) = (source.name(), source.schema());
        let table = begin_table(database, name, &schema, source.primary_key(), &[])?;
        let report = load(&table, source, scale, interrupt)?;
        made.push(name);
        print_encodings(&report);
        Ok(())
    });
    if result.is_err() {
        engine.drop_tables(&made).map_err(tierra::Error::from)?;
    }
    result
}

/// `table a is`, `tables a, b are`.
fn these_are(what: &str, names: &[impl AsRef<str>]) -> String {
    let listed = names.iter().map(AsRef::as_ref).collect::<Vec<_>>();
    match listed[..] {
        [name] => format!("{what} {name} is"),
        _ => format!("{what}s {} are", listed.join(", ")),
    }
}

/// Begins the table for rows of `schema`, with the given encodings for some columns. It appears with its first rows.
pub(crate) fn begin_table(
    database: &tierra::Database,
    name: &str,
    schema: &SchemaRef,
    primary_key: Option<&str>,
    encodings: &[(&str, Encoding)],
) -> Result<Arc<Table>, CommandError> {
    let column = |field: &FieldRef| {
        let ty = LogicalType::of_arrow(field.data_type())
            .expect("generators make only types that Tierra has");
        let given = encodings.iter().find(|(name, _)| name == field.name());
        let mut column = ColumnSpec::new(field.name(), ty).not_null();
        column.encoding = given.map(|(_, encoding)| *encoding);
        column
    };
    let spec = TableSpec {
        name: name.to_owned(),
        columns: schema.fields().iter().map(column).collect(),
        primary_key: primary_key
            .into_iter()
            .filter_map(|key| schema.index_of(key).ok())
            .collect(),
    };
    let begun = database.engine().begin_table(spec);
    Ok(begun.map_err(tierra::Error::from)?)
}

/// Generates `source` into `table`.
pub(crate) fn load(
    table: &Arc<Table>,
    source: impl Source,
    scale: Scale,
    interrupt: &Interrupt,
) -> Result<LoadReport, CommandError> {
    let rows = source.expected_rows(scale);
    let batches = produce::in_order(rows, BATCH_ROWS, move |part, batch_rows| {
        source.generate(scale, part, batch_rows)
    });
    load_batches(table, rows, batches, interrupt)
}

/// Loads about `rows` rows into `table`, with a progress bar.
pub(crate) fn load_batches(
    table: &Arc<Table>,
    rows: u64,
    batches: impl Iterator<Item = RecordBatch>,
    interrupt: &Interrupt,
) -> Result<LoadReport, CommandError> {
    let name = &table.spec().name;
    let start = Instant::now();
    let bar = progress::rows_bar(name, rows);
    let mut loader = table.loader();
    for batch in batches {
        interrupt.check()?;
        let rows = batch.num_rows() as u64;
        loader.push(batch)?;
        bar.inc(rows);
    }
    let report = loader.finish()?;
    bar.finish_and_clear();
    let time = start.elapsed();
    eprintln!(
        "{name:<12} {:>12} rows in {:>7}, {:>20}, {:>10} {}",
        Count(report.rows),
        Time(time),
        rows_per_second(report.rows, time),
        Bytes(report.stored_bytes),
        stored(&report.encodings),
    );
    Ok(report)
}

/// Writes one file per table. The files get their names when the last one is written.
fn into_files(
    dir: &Path,
    tables: &[impl Source],
    scale: Scale,
    force: bool,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let finished = tables.iter();
    let finished = finished.map(|source| dir.join(format!("{}.parquet", source.name())));
    let finished: Vec<PathBuf> = finished.collect();
    let there = finished.iter().filter(|file| file.exists());
    let there: Vec<_> = there.map(|file| file.display().to_string()).collect();
    if !there.is_empty() && !force {
        return Err(CommandError::FilesExist(these_are("file", &there)));
    }
    fs::create_dir_all(dir).map_err(|e| CommandError::file("create", dir, e))?;
    let unfinished = |file: &PathBuf| file.with_extension("parquet.unfinished");
    let mut files = tables.iter().zip(&finished);
    let written = files.try_for_each(|(&source, file)| {
        write_parquet(&unfinished(file), file, source, scale, interrupt)
    });
    let made = written.and_then(|()| {
        finished.iter().try_for_each(|file| {
            let unfinished = unfinished(file);
            let synced = fs::File::open(&unfinished).and_then(|file| file.sync_all());
            let named = synced.and_then(|()| fs::rename(&unfinished, file));
            named.map_err(|e| CommandError::file("write", file, e))
        })?;
        let synced = fs::File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|e| CommandError::file("write", dir, e))
    });
    if made.is_err() {
        for file in &finished {
            // Some files may not exist. The first error is the one to report.
            let _ = fs::remove_file(unfinished(file));
        }
    }
    made
}

fn write_parquet(
    unfinished: &Path,
    file: &Path,
    source: impl Source,
    scale: Scale,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let start = Instant::now();
    let rows = write_rows(unfinished, source, scale, interrupt)?;
    let time = start.elapsed();
    eprintln!(
        "{:<12} {:>12} rows in {:>7}, {:>20}, {}",
        source.name(),
        Count(rows),
        Time(time),
        rows_per_second(rows, time),
        file.display(),
    );
    Ok(())
}

/// Writes all rows of `source` to a Parquet file and returns their number.
fn write_rows(
    path: &Path,
    source: impl Source,
    scale: Scale,
    interrupt: &Interrupt,
) -> Result<u64, CommandError> {
    let parquet = |source| CommandError::Parquet {
        path: path.to_owned(),
        source,
    };
    let expected = source.expected_rows(scale);
    let bar = progress::rows_bar(source.name(), expected);
    let file = File::create(path).map_err(|e| CommandError::file("create", path, e))?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut writer =
        ArrowWriter::try_new(file, source.schema(), Some(properties.build())).map_err(parquet)?;
    let batches = produce::in_order(expected, BATCH_ROWS, move |part, batch_rows| {
        source.generate(scale, part, batch_rows)
    });
    let mut rows = 0;
    for batch in batches {
        interrupt.check()?;
        writer.write(&batch).map_err(parquet)?;
        rows += batch.num_rows() as u64;
        bar.set_position(rows);
    }
    writer.close().map_err(parquet)?;
    bar.finish_and_clear();
    Ok(rows)
}
