//! `tierra import`: makes the tables of a folder that `tierra export` wrote.
//!
//! Invariant: no table that is there is changed. After an error no table of the folder is there; a kill leaves whole tables, and at
//! most one that is empty.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use tierra::sql::load::{LoadError, LoadOptions, Progress, load_file};
use tierra::sql::{self, Statement};

use super::export::{SCHEMA, file_of};
use super::interrupt::Interrupt;
use super::open::OpenOptions;
use super::units::Count;
use super::{CommandError, progress};
use crate::cli::output::tell;

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct ImportArguments {
    /// The folder, with schema.sql and a Parquet file for each of its tables
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Database directory; created if there is none
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) async fn run(arguments: &ImportArguments) -> Result<(), CommandError> {
    let interrupt = Interrupt::watch()?;
    let schema = arguments.folder.join(SCHEMA);
    let text =
        fs::read_to_string(&schema).map_err(|error| CommandError::file("read", &schema, error))?;
    let statements = sql::statements(&text)?;
    for statement in &statements {
        // Another statement could change what is there.
        if !statement.begins(&["create", "table"]) {
            return Err(CommandError::Check(format!(
                "{}: only CREATE TABLE is imported, not `{}`; run others by `tierra sql -f`",
                schema.display(),
                statement.text()
            )));
        }
    }
    let database = arguments.open.open_or_create(&arguments.db)?;
    let mut made = Vec::new();
    let imported = import(&database, &statements, arguments, &interrupt, &mut made).await;
    match imported {
        Ok(rows) => {
            tell!(
                "{}: {} tables, {} rows",
                arguments.db.display(),
                Count(made.len() as u64),
                Count(rows)
            );
            Ok(())
        }
        Err(error) => {
            let dropped = database.engine().drop_tables(&made);
            dropped.map_err(tierra::Error::from)?;
            Err(error)
        }
    }
}

/// Makes the tables one by one, with their rows, and returns the number of rows. `made` gets their names.
async fn import(
    database: &tierra::Database,
    statements: &[Statement],
    arguments: &ImportArguments,
    interrupt: &Interrupt,
    made: &mut Vec<String>,
) -> Result<u64, CommandError> {
    let engine = database.engine();
    let session = database.session()?;
    let mut rows = 0;
    for statement in statements {
        let before = engine.tables();
        session.run_statement(statement).await?;
        let new = engine.tables().into_iter();
        let new: Vec<String> = new.filter(|name| !before.contains(name)).collect();
        made.extend(new.iter().cloned());
        // None where it says IF NOT EXISTS and the table is there.
        let Some(name) = new.first() else {
            return Err(CommandError::Check(format!(
                "`{}` makes no table: it is there already",
                statement.text()
            )));
        };
        let file = arguments.folder.join(file_of(name));
        let bar = progress::bytes_bar(name, 0);
        let show = |progress: Progress| {
            bar.set_length(progress.bytes_total);
            bar.set_position(progress.bytes);
        };
        let flag = interrupt.flag();
        let options = LoadOptions {
            progress: Some(&show),
            cancel: Some(&flag),
            ..LoadOptions::default()
        };
        let report = load_file(engine, name, &file, &options).map_err(|error| match error {
            LoadError::Cancelled { .. } => CommandError::Interrupted,
            error => tierra::Error::from(sql::SqlError::from(error)).into(),
        })?;
        bar.finish_and_clear();
        rows += report.rows;
    }
    Ok(rows)
}
