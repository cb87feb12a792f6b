//! Tierra as a contender: a database in a folder, filled by the product's loader and queried through its session, with
//! two threads like all contenders.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use tierra_engine::{Database, DatabaseOptions, TierInfo};
use tierra_interleave::{Execution, Scheduling};
use tierra_sql::load::{LoadOptions, load_file};
use tierra_sql::{Outcome, Session, SessionOptions, Work};

use crate::dataset::TableFile;
use crate::error::{Context, LabError};
use crate::lab;
use crate::row::Row;

/// A database and a session on it.
pub struct Tierra {
    database: Arc<Database>,
    session: Session,
}

impl Tierra {
    /// The engine's name in results.
    pub const ENGINE: &str = "Tierra";

    /// Creates a database in a new folder, its far pool in the same folder or elsewhere.
    pub fn create(folder: &Path, pool_path: Option<PathBuf>) -> Result<Tierra, LabError> {
        Tierra::create_with(
            folder,
            DatabaseOptions {
                pool_path,
                ..DatabaseOptions::default()
            },
        )
    }

    /// Creates a database in a new folder, of which no chunk is copied near.
    pub fn create_far(folder: &Path) -> Result<Tierra, LabError> {
        Tierra::create_with(folder, Tierra::far_options())
    }

    /// Opens a database.
    pub fn open(folder: &Path) -> Result<Tierra, LabError> {
        let options = DatabaseOptions {
            threads: NonZeroUsize::new(lab::threads()),
            ..DatabaseOptions::default()
        };
        let database = Database::open(folder, &options).by(Tierra::ENGINE, "opening a database")?;
        Tierra::with_session(database)
    }

    /// Opens a database that was made by [`Tierra::create_far`].
    pub fn open_far(folder: &Path) -> Result<Tierra, LabError> {
        let options = Tierra::far_options();
        let database = Database::open(folder, &options).by(Tierra::ENGINE, "opening a database")?;
        Tierra::with_session(database)
    }

    fn far_options() -> DatabaseOptions {
        DatabaseOptions {
            near_memory_bytes: Some(0),
            threads: NonZeroUsize::new(lab::threads()),
            ..DatabaseOptions::default()
        }
    }

    fn create_with(folder: &Path, options: DatabaseOptions) -> Result<Tierra, LabError> {
        let options = DatabaseOptions {
            threads: NonZeroUsize::new(lab::threads()),
            ..options
        };
        let database =
            Database::create(folder, &options).by(Tierra::ENGINE, "creating a database")?;
        Tierra::with_session(database)
    }

    fn with_session(database: Arc<Database>) -> Result<Tierra, LabError> {
        let options = SessionOptions {
            threads: Some(lab::threads()),
            execution: Some(Execution::Interleaved.into()),
            ..SessionOptions::default()
        };
        let session = Session::new(Arc::clone(&database), &options)
            .by(Tierra::ENGINE, "opening a session")?;
        Ok(Tierra { database, session })
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Another session on the same database, with this scheduling of lookups.
    pub fn another_session(&self, scheduling: impl Into<Scheduling>) -> Result<Session, LabError> {
        let options = SessionOptions {
            threads: Some(lab::threads()),
            execution: Some(scheduling.into()),
            ..SessionOptions::default()
        };
        Session::new(Arc::clone(&self.database), &options).by(Tierra::ENGINE, "opening a session")
    }

    /// Loads a file into a new table of its name: committed on return. Blocks.
    pub fn load(&self, file: &TableFile) -> Result<(), LabError> {
        let doing = || format!("loading {}", file.table);
        let report = load_file(
            &self.database,
            &file.table,
            &file.path,
            &LoadOptions::default(),
        )
        .by(Tierra::ENGINE, doing())?;
        if report.rows == file.rows {
            return Ok(());
        }
        Err(LabError::AnswersDiffer {
            what: doing(),
            left: Tierra::ENGINE.to_owned(),
            right: "the file".to_owned(),
            detail: format!("{} rows against {}", report.rows, file.rows),
        })
    }

    /// Waits for the background work of a load, so that it disturbs no measurement.
    pub fn settle(&self) -> Result<(), LabError> {
        let settled = self.database.wait_for_near_copies();
        settled.by(Tierra::ENGINE, "copying rows near")
    }

    /// Runs a query and collects its rows.
    pub async fn query(&self, sql: &str) -> Result<Vec<RecordBatch>, LabError> {
        self.session
            .query(sql)
            .await
            .by(Tierra::ENGINE, format!("running {sql}"))
    }

    /// Runs a query, collects its rows, and says what its scans did.
    pub async fn query_with_work(&self, sql: &str) -> Result<(Vec<RecordBatch>, Work), LabError> {
        let doing = || format!("running {sql}");
        match self.session.sql(sql).await.by(Tierra::ENGINE, doing())? {
            Outcome::Rows(mut rows) => {
                let batches = rows.collect().await.by(Tierra::ENGINE, doing())?;
                Ok((batches, rows.work()))
            }
            Outcome::Done(_) => Err("it has no rows").by(Tierra::ENGINE, doing()),
        }
    }

    /// Bytes that the far pool holds: chunks, dictionaries, tails and manifests, one copy of each.
    pub fn stored_bytes(&self) -> u64 {
        self.far().map_or(0, |far| far.used_bytes)
    }

    /// The medium of the far pool, and what it survives.
    pub fn describe(&self) -> Row {
        let Some(far) = self.far() else {
            return Row::new();
        };
        let shown = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        Row::new()
            .text(
                "far_medium",
                shown(far.medium.map(|medium| format!("{medium:?}"))),
            )
            .text(
                "far_durability",
                shown(far.durability.map(|durability| format!("{durability:?}"))),
            )
    }

    /// The far tier: the one with a medium.
    fn far(&self) -> Option<TierInfo> {
        self.database
            .tiers()
            .into_iter()
            .find(|tier| tier.medium.is_some())
    }
}
