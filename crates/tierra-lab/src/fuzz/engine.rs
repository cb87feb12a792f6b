//! The engines: Tierra, in its own process and through its own session, and a peer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tierra_sql::Outcome;
use tierra_sql::load::{LoadOptions, load_file};
use tokio::runtime::Runtime;

use super::cells::{Rows, rows_of};
use super::sql::Dialect;
use super::table::Table;
use crate::contender;
use crate::dataset::{TableFile, write_parquet};
use crate::error::{Context, LabError};

/// An answer, or the engine's message why there is none.
pub type Answer = Result<Rows, String>;

/// The time limit of a query.
const MOST_TIME: Duration = Duration::from_secs(60);
/// The beginning of the message after the time limit.
pub(crate) const NO_ANSWER: &str = "no answer after";

/// Another engine over the same tables.
pub trait Peer {
    /// The dialect that it understands.
    fn dialect(&self) -> Dialect;

    /// Drops all tables and loads these, each in several files.
    ///
    /// # Errors
    /// The peer's error.
    fn load(&mut self, tables: &[(&Table, Vec<TableFile>)]) -> Result<(), LabError>;

    /// Starts to answer queries.
    ///
    /// # Errors
    /// The peer is gone.
    fn ask(&mut self, queries: &[&str]) -> Result<(), LabError>;

    /// The answers to the queries that were started.
    ///
    /// # Errors
    /// The peer is gone.
    fn answers(&mut self) -> Result<Vec<Answer>, LabError>;

    /// The answer without the peer's optimiser; `None` if it cannot be turned off.
    ///
    /// # Errors
    /// The peer is gone.
    fn answer_plainly(&mut self, _query: &str) -> Result<Option<Answer>, LabError> {
        Ok(None)
    }
}

/// Tierra over the tables of one set.
pub(crate) struct Tierra<'r> {
    runtime: &'r Runtime,
    database: Option<(contender::Tierra, TempDir)>,
    names: Vec<String>,
}

impl<'r> Tierra<'r> {
    pub(crate) fn new(runtime: &'r Runtime) -> Tierra<'r> {
        Tierra {
            runtime,
            database: None,
            names: Vec::new(),
        }
    }

    /// Drops the database, if there is one; the next load makes another. Fails if a query that has ended holds it still.
    pub(crate) fn forget(&mut self) -> Result<(), LabError> {
        self.names.clear();
        let Some((tierra, place)) = self.database.take() else {
            return Ok(());
        };
        let held = Arc::downgrade(tierra.database());
        drop((tierra, place));
        let dropped = Instant::now();
        while held.strong_count() > 0 {
            if dropped.elapsed() > MOST_TIME {
                return Err("a query that has ended holds it").by("Tierra", "closing a database");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Drops all tables, loads these, and resets the settings. Returns the files for the peer.
    pub(crate) fn load<'t>(
        &mut self,
        tables: &'t [Table],
        settings: &[String],
        folder: &Path,
    ) -> Result<Vec<(&'t Table, Vec<TableFile>)>, LabError> {
        if self.database.is_none() {
            let place = TempDir::new_in(folder).by("the fuzzer", "making a folder")?;
            let database = contender::Tierra::create(&place.path().join("db"), None)?;
            self.database = Some((database, place));
        }
        let (tierra, place) = self.database.as_ref().expect("made above");
        let run = |sql: &str| {
            self.runtime
                .block_on(tierra.session().execute(sql))
                .by("Tierra", format!("running {sql}"))
        };
        for name in std::mem::take(&mut self.names) {
            run(&format!("DROP TABLE {name}"))?;
        }
        for setting in settings {
            run(setting)?;
        }
        let mut loaded = Vec::new();
        for table in tables {
            run(&table.create(Dialect::Tierra))?;
            self.names.push(table.name.clone());
            let stored = tierra
                .database()
                .table(&table.name)
                .expect("it was created");
            let mut files = Vec::new();
            for (number, (part, sealed)) in table.parts.iter().zip(&table.sealed).enumerate() {
                let name = format!("{}_{number}", table.name);
                let file = write_parquet(
                    place.path(),
                    &name,
                    &table.schema(),
                    std::iter::once(table.batch(part)),
                )?;
                load_file(
                    tierra.database(),
                    &table.name,
                    &file.path,
                    &LoadOptions::default(),
                )
                .by("Tierra", format!("loading {}", table.name))?;
                if *sealed {
                    stored.seal().by("Tierra", "sealing")?;
                }
                files.push(file);
            }
            loaded.push((table, files));
        }
        Ok(loaded)
    }

    /// The rows of a statement; none if it is not a query.
    pub(crate) fn answer(&self, statement: &str) -> Answer {
        let Some((tierra, _)) = &self.database else {
            return Err("no database".to_owned());
        };
        let run = async {
            let answered = async {
                match tierra
                    .session()
                    .sql(statement)
                    .await
                    .map_err(|error| error.to_string())?
                {
                    Outcome::Rows(mut rows) => {
                        let batches = rows.collect().await.map_err(|error| error.to_string())?;
                        rows_of(&batches).map_err(|error| error.to_string())
                    }
                    Outcome::Done(_) => Ok(Rows::new()),
                }
            };
            match tokio::time::timeout(MOST_TIME, answered).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("{NO_ANSWER} {} s", MOST_TIME.as_secs())),
            }
        };
        catch_unwind(AssertUnwindSafe(|| self.runtime.block_on(run))).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
            Err(format!("panic: {}", said.unwrap_or_default()))
        })
    }
}
