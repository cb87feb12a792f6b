//! A database in a directory, and the threads that run queries for its blocking calls.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use arrow::array::Datum;
use tokio::runtime::{Builder, Handle, Runtime};

use tierra_engine::VerifyReads;
use tierra_interleave::Scheduling;
use tierra_memory::emulation::{self, FarMemory};
use tierra_sql::BlockingThread;

use crate::{
    Answer, Error,
    config::Config,
    engine, shared,
    sql::{Session, SessionOptions},
};

/// How to open or create a database. `tierra.toml` in the database's directory gives the options that are not set here.
/// Everything has a default.
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
    emulate: Option<FarMemory>,
    degraded: Option<bool>,
    config: Option<PathBuf>,
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

    /// The file of a new database's far pool, if not in its directory: on a DAX file system or on tmpfs. The directory
    /// remembers it.
    pub fn pool(mut self, path: impl Into<PathBuf>) -> Self {
        self.engine.pool_path = Some(path.into());
        self
    }

    /// The most bytes of the far pool; by default the size of its file system.
    pub fn capacity_bytes(mut self, bytes: u64) -> Self {
        self.engine.capacity_bytes = Some(bytes);
        self
    }

    /// Threads of one query or load, from 1 to 1,024 (values beyond are clamped); by default all of the machine.
    pub fn threads(mut self, threads: usize) -> Self {
        let threads = threads.min(tierra_sql::THREADS_MOST);
        let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
        self.session.threads = Some(threads.get());
        self.engine.threads = Some(threads);
        self
    }

    /// Bytes that the queries of one session may use together; by default half of the memory that the process may have.
    pub fn query_memory_bytes(mut self, bytes: usize) -> Self {
        self.session.query_memory_bytes = Some(bytes);
        self
    }

    /// How lookups wait for memory: an [`Execution`](crate::Execution), or [`Scheduling::Auto`], the default, for the one that
    /// is measured to be faster.
    pub fn execution(mut self, execution: impl Into<Scheduling>) -> Self {
        self.session.execution = Some(execution.into());
        self
    }

    /// Bytes per second that are checked in the background; damage is repaired if another copy is intact. 0 turns this off.
    pub fn scrub_bytes_per_s(mut self, bytes: u64) -> Self {
        self.engine.scrub_bytes_per_s = Some(bytes);
        self
    }

    /// How often stored bytes are compared with their checksums on reading; by default before the first read of a block.
    pub fn verify_reads(mut self, reads: VerifyReads) -> Self {
        self.engine.verify_reads = Some(reads);
        self
    }

    /// Opens the database although some of its tiers are missing. Data that is only there cannot be read. The first write makes
    /// these tiers out of date; they are brought up to date when they are back.
    pub fn degraded(mut self, degraded: bool) -> Self {
        self.degraded = Some(degraded);
        self
    }

    /// Opens the database for reading only. This is also done if its directory cannot be written.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.engine.read_only = read_only;
        self
    }

    /// Emulates far memory over near, in the whole process.
    pub fn emulate(mut self, far: FarMemory) -> Self {
        self.emulate = Some(far);
        self
    }

    /// The file to read in place of `tierra.toml` in the database's directory.
    pub fn config(mut self, path: impl Into<PathBuf>) -> Self {
        self.config = Some(path.into());
        self
    }

    /// Opens the database in `dir`.
    ///
    /// # Errors
    /// If `tierra.toml` has an invalid value, if there is no database, if it is damaged or from a newer format, or if another
    /// process has it open. Then nothing is changed.
    pub fn open(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        let options = self.completed(dir.as_ref())?;
        options.start_in(
            dir.as_ref(),
            engine::Database::open(dir.as_ref(), &options.engine)?,
        )
    }

    /// Creates a database in `dir`, which is missing or empty.
    ///
    /// # Errors
    /// If `dir` is not empty, or the file system refuses.
    pub fn create(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        let options = self.completed(dir.as_ref())?;
        options.start_in(
            dir.as_ref(),
            engine::Database::create(dir.as_ref(), &options.engine)?,
        )
    }

    /// Opens the database in `dir`, or creates it if `dir` is missing or empty.
    ///
    /// # Errors
    /// Those of [`Options::open`] and [`Options::create`].
    pub fn open_or_create(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        let options = self.completed(dir.as_ref())?;
        options.start_in(
            dir.as_ref(),
            engine::Database::open_or_create(dir.as_ref(), &options.engine)?,
        )
    }

    /// Opens the database in `dir`, or shares it if this process has it open.
    ///
    /// # Errors
    /// Those of [`Options::open`], and [`Error::Shared`] if it is open with another value of an option that is set here.
    pub fn open_shared(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        let options = self.completed(dir.as_ref())?;
        let open = || engine::Database::open(dir.as_ref(), &options.engine);
        options.start(shared::find_or(dir.as_ref(), &options.engine, open)?)
    }

    /// As [`Options::open_shared`]; creates the database if `dir` is missing or empty.
    ///
    /// # Errors
    /// Those of [`Options::open_shared`] and [`Options::create`].
    pub fn open_or_create_shared(&self, dir: impl AsRef<Path>) -> Result<Database, Error> {
        let options = self.completed(dir.as_ref())?;
        let open = || engine::Database::open_or_create(dir.as_ref(), &options.engine);
        options.start(shared::find_or(dir.as_ref(), &options.engine, open)?)
    }

    /// Turns a copied, restored or moved directory into a separate database, as [`engine::Database::adopt`] does.
    ///
    /// # Errors
    /// If the original is open, or is incomplete. Then the copy is unchanged.
    pub fn adopt(
        &self,
        dir: impl AsRef<Path>,
        how: &engine::AdoptOptions,
    ) -> Result<engine::Adopted, Error> {
        let options = self.completed(dir.as_ref())?;
        Ok(engine::Database::adopt(dir.as_ref(), &options.engine, how)?)
    }

    /// Makes a database of a backup in `dir`, which is missing or empty, as [`engine::Backup::restore`] does.
    ///
    /// # Errors
    /// If `dir` is in use or not empty, or the backup is damaged. Then nothing is left in `dir`.
    pub fn restore(
        &self,
        backup: &engine::Backup,
        dir: impl AsRef<Path>,
        how: &engine::RestoreOptions,
        progress: impl FnMut(engine::BackupProgress),
    ) -> Result<engine::Restored, Error> {
        let options = self.completed(dir.as_ref())?;
        Ok(backup.restore(dir.as_ref(), &options.engine, how, progress)?)
    }

    /// These options, completed from the configuration file.
    fn completed(&self, dir: &Path) -> Result<Self, Error> {
        let config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::of_database(dir)?,
        };
        let mut options = self.clone();
        let Self {
            engine,
            session,
            emulate,
            ..
        } = &mut options;
        engine.near_memory_bytes = engine
            .near_memory_bytes
            .or(config.near_memory.map(|size| size.0));
        engine.pool_path = engine.pool_path.take().or(config.pool);
        engine.threads = engine.threads.or(config.threads);
        engine.scrub_bytes_per_s = engine
            .scrub_bytes_per_s
            .or(config.scrub_pace.map(|size| size.0));
        engine.verify_reads = engine.verify_reads.or(config.verify_reads);
        engine.degraded = self.degraded.or(config.degraded).unwrap_or(false);
        session.threads = session.threads.or(config.threads.map(NonZeroUsize::get));
        session.execution = session.execution.or(config.execution);
        session.query_memory_bytes = session
            .query_memory_bytes
            .or(config.query_memory.map(|size| size.0 as usize));
        *emulate = emulate.or(config.emulate);
        Ok(options)
    }

    /// A database that this process did not have open.
    fn start_in(&self, dir: &Path, engine: Arc<engine::Database>) -> Result<Database, Error> {
        shared::remember(dir, &engine, &self.engine);
        self.start(engine)
    }

    fn start(&self, engine: Arc<engine::Database>) -> Result<Database, Error> {
        let session = Session::new(Arc::clone(&engine), &self.session)?;
        if let Some(far) = self.emulate {
            emulation::set(Some(far))?;
            // It was opened for memory that is not emulated.
            engine.choose_replicas()?;
        }
        Ok(Database {
            engine,
            session,
            options: self.session.clone(),
            runtime: OnceLock::new(),
        })
    }
}

/// An open database. One process at a time can open it; any number of threads share it.
pub struct Database {
    session: Session,
    engine: Arc<engine::Database>,
    options: SessionOptions,
    /// Runs blocking calls; started by the first of them.
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

    /// Opens the database in `dir` with default options, or shares it if this process has it open: each has its own
    /// settings and prepared statements. It is closed when the last one is dropped.
    ///
    /// # Errors
    /// See [`Options::open_shared`].
    pub fn open_shared(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Options::new().open_shared(dir)
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
        let runtime = self.runtime()?;
        let _blocks = BlockingThread::enter();
        runtime.block_on(self.sql_async(statement))
    }

    /// Runs one statement to its end, on a multi-threaded tokio runtime. Dropping the future stops a query. A statement that
    /// writes has then written everything or nothing; it has written nothing unless it was about to commit.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn sql_async(&self, statement: &str) -> Result<Answer, Error> {
        let outcome = self.session.sql(statement).await?;
        Ok(Answer::of(outcome).await?)
    }

    /// Runs a prepared statement to its end: `PREPARE name AS ..` first, then any number of times with one argument per
    /// parameter. An arrow `Scalar` is a value. An array is a list, for parameters in `= ANY($1)` and `<> ALL($1)`, and stays
    /// one array. Blocks.
    ///
    /// ```
    /// use tierra::arrow::array::{Int32Array, StringArray};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let db = tierra::Database::create(scratch.path().join("db"))?;
    /// db.sql("CREATE TABLE t (id BIGINT, name VARCHAR)")?;
    /// db.sql("INSERT INTO t VALUES (1, 'anvil'), (2, 'rope'), (3, 'kite')")?;
    /// db.sql("PREPARE named AS SELECT id FROM t WHERE name = ANY($1) AND id > $2")?;
    /// let names = StringArray::from(vec!["anvil", "kite", "sail"]);
    /// let answer = db.run_prepared("named", &[&names, &Int32Array::new_scalar(1)])?;
    /// assert_eq!(answer.row_count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such statement, if an argument does not fit its parameter, if the statement fails,
    /// or on a thread of an async runtime.
    pub fn run_prepared(&self, name: &str, arguments: &[&dyn Datum]) -> Result<Answer, Error> {
        if Handle::try_current().is_ok() {
            return Err(Error::InsideRuntime);
        }
        let runtime = self.runtime()?;
        let _blocks = BlockingThread::enter();
        runtime.block_on(self.run_prepared_async(name, arguments))
    }

    /// As [`Database::run_prepared`], on a multi-threaded tokio runtime.
    ///
    /// # Errors
    /// If there is no such statement, if an argument does not fit its parameter, or if the statement
    /// fails.
    pub fn run_prepared_async<'a>(
        &'a self,
        name: &'a str,
        arguments: &[&dyn Datum],
    ) -> impl Future<Output = Result<Answer, Error>> + Send + use<'a> {
        let outcome = self.session.run_prepared(name, arguments);
        async move { Ok(Answer::of(outcome.await?).await?) }
    }

    /// A session with its own settings and prepared statements, whose results stream. Use it on a multi-threaded tokio
    /// runtime.
    ///
    /// # Errors
    /// If the database's options are invalid for a session.
    pub fn session(&self) -> Result<Session, Error> {
        Ok(Session::new(Arc::clone(&self.engine), &self.options)?)
    }

    /// The options that its sessions begin with.
    pub fn session_options(&self) -> &SessionOptions {
        &self.options
    }

    /// The engine below SQL, for bulk loads and scans.
    pub fn engine(&self) -> &Arc<engine::Database> {
        &self.engine
    }

    fn runtime(&self) -> Result<&Runtime, Error> {
        // The threads of a runtime are the parent's.
        if self.engine.is_forked() {
            return Err(Error::Forked);
        }
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
            .on_thread_start(BlockingThread::always)
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
        if self.engine.is_forked() {
            // Its threads are the parent's: they are not ended here.
            std::mem::forget(runtime);
        } else if Handle::try_current().is_ok() {
            // Async code must not block on a runtime's threads.
            runtime.shutdown_background();
        } else {
            // It waits until no thread reads a table, so that the directory can be opened again.
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
