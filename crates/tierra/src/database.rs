//! A database in a directory, and the threads that its blocking calls run queries on.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::{
    Answer, Error, engine,
    sql::{Session, SessionOptions},
};

/// How to open or create a database.
///
/// ```
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path().join("db");
/// let db = tierra::Options::new().near_memory_bytes(1 << 30).threads(4).create(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until open or create"]
pub struct Options {
    engine: engine::DatabaseOptions,
    session: SessionOptions,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Near memory that copies of columns may take.
    pub fn near_memory_bytes(mut self, bytes: u64) -> Self {
        self.engine.near_memory_bytes = Some(bytes);
        self
    }

    /// Where a new database's far pool lies, if not in its directory: a file on a DAX file system
    /// or on tmpfs. The directory remembers it.
    pub fn pool(mut self, path: impl Into<PathBuf>) -> Self {
        self.engine.pool_path = Some(path.into());
        self
    }

    /// Threads that work on one query or load; all of the machine's if not given.
    pub fn threads(mut self, threads: usize) -> Self {
        let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        self.session.threads = Some(threads.get());
        self.engine.threads = Some(threads);
        self
    }

    /// Opens the database in `dir`.
    ///
    /// # Errors
    /// If there is none, if it is damaged or from a newer format, or if another process has it
    /// open. Nothing is touched then.
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        self.start(engine::Database::open(dir.as_ref(), &self.engine)?)
    }

    /// Creates a database in `dir`, which is missing or empty.
    ///
    /// # Errors
    /// If there is something in it, or the file system refuses.
    pub fn create(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        self.start(engine::Database::create(dir.as_ref(), &self.engine)?)
    }

    /// Opens the database in `dir`, or creates it where `dir` is missing or empty.
    ///
    /// # Errors
    /// Those of [`Options::open`] and [`Options::create`].
    pub fn open_or_create(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        self.start(engine::Database::open_or_create(
            dir.as_ref(),
            &self.engine,
        )?)
    }

    fn start(&self, engine: Arc<engine::Database>) -> Result<Database, Error> {
        let session = Session::new(Arc::clone(&engine), &self.session)?;
        Ok(Database {
            engine,
            session,
            options: self.session.clone(),
            runtime: OnceLock::new(),
        })
    }
}

/// An open database. One process at a time has it open; any number of threads share it.
pub struct Database {
    session: Session,
    engine: Arc<engine::Database>,
    options: SessionOptions,
    /// Where blocking calls run; started by the first.
    runtime: OnceLock<Runtime>,
}

impl Database {
    /// Opens the database in `dir` with default options.
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Options::new().open(dir)
    }

    /// Creates a database in `dir`, which is missing or empty, with default options.
    ///
    /// # Errors
    /// See [`Options::create`].
    pub fn create(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Options::new().create(dir)
    }

    /// Runs one statement to its end. Blocks; settings and prepared statements last as long as the
    /// database is open.
    ///
    /// # Errors
    /// If the statement fails, or on a thread of an async runtime.
    pub fn sql(&self, statement: &str) -> Result<Answer, Error> {
        if Handle::try_current().is_ok() {
            return Err(Error::InsideRuntime);
        }
        self.runtime()?.block_on(self.sql_async(statement))
    }

    /// Runs one statement to its end, on a multi-threaded tokio runtime. Dropping the future stops
    /// a query; a statement that writes has then written everything or nothing.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn sql_async(&self, statement: &str) -> Result<Answer, Error> {
        let outcome = self.session.sql(statement).await?;
        Ok(Answer::of(outcome).await?)
    }

    /// A session with settings and prepared statements of its own, whose results stream. Use it on
    /// a multi-threaded tokio runtime.
    ///
    /// # Errors
    /// If the database's options do not make a session.
    pub fn session(&self) -> Result<Session, Error> {
        Ok(Session::new(Arc::clone(&self.engine), &self.options)?)
    }

    /// The tables themselves, for bulk loads and scans without SQL.
    pub fn engine(&self) -> &Arc<engine::Database> {
        &self.engine
    }

    fn runtime(&self) -> Result<&Runtime, Error> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let mut builder = Builder::new_multi_thread();
        if let Some(threads) = self.options.threads {
            builder.worker_threads(threads);
        }
        let runtime = builder
            .enable_all()
            .thread_name("tierra-query")
            .build()
            .map_err(Error::Threads)?;
        Ok(self.runtime.get_or_init(|| runtime))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        if Handle::try_current().is_ok() {
            // In async code nobody may wait for a runtime's threads.
            runtime.shutdown_background();
        } else {
            // Waits until no thread reads a table, so that the directory can be opened again.
            drop(runtime);
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("tables", &self.engine.tables())
            .finish_non_exhaustive()
    }
}
