//! A connection to a database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use tempfile::TempDir;
use tierra::memory::{Size, emulation};
use tierra::sql::{Outcome, TransactionState};
use tierra::{Database, Options, Scheduling};

use crate::error::{NotSupportedError, OperationalError, ProgrammingError, of_database, of_sql};
use crate::open::Open;
use crate::prepared::Prepared;
use crate::result::Answer;
use crate::runtime::{runtime, wait};
use crate::{arrow_in, load, parameters};

/// Where databases without a name are, so that they take memory and no disk.
const SHARED_MEMORY: &str = "/dev/shm";

/// A number of bytes: an int, or a text such as "512M".
pub(crate) struct Bytes(u64);

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if value.is_instance_of::<PyString>() {
            let text: String = value.extract()?;
            let size: Result<Size, _> = text.parse();
            let size = size.map_err(|error| ProgrammingError::new_err(error.to_string()))?;
            return Ok(Self(size.0));
        }
        match value.extract() {
            Ok(bytes) => Ok(Self(bytes)),
            Err(_) => Err(PyTypeError::new_err(
                "expected a number of bytes, such as 1 << 30 or '1G'",
            )),
        }
    }
}

/// Opens the database in the directory `path`, which is created if there is none and `create` is set. Without a path the database
/// is a temporary one in shared memory. Connections of one process to one directory share the database. Without `autocommit` the
/// first statement that reads or changes rows begins a transaction, which `commit` and `rollback` end.
#[pyfunction]
#[pyo3(signature = (path=None, *, create=true, near_memory=None, threads=None, query_memory=None, execution=None, emulate=None, config=None, autocommit=true))]
#[expect(clippy::too_many_arguments, reason = "Python names them")]
pub(crate) fn connect(
    py: Python<'_>,
    path: Option<PathBuf>,
    create: bool,
    near_memory: Option<Bytes>,
    threads: Option<usize>,
    query_memory: Option<Bytes>,
    execution: Option<&str>,
    emulate: Option<&str>,
    config: Option<PathBuf>,
    autocommit: bool,
) -> PyResult<Connection> {
    runtime()?;
    let mut options = Options::new();
    if let Some(Bytes(bytes)) = near_memory {
        options = options.near_memory_bytes(bytes);
    }
    if let Some(threads) = threads {
        options = options.threads(threads);
    }
    if let Some(Bytes(bytes)) = query_memory {
        options = options.query_memory_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    if let Some(execution) = execution {
        let scheduling: Scheduling = execution.parse().map_err(|_| {
            ProgrammingError::new_err("execution is 'auto', 'plain' or 'interleaved'")
        })?;
        options = options.execution(scheduling);
    }
    if let Some(text) = emulate {
        let far = emulation::parse(text);
        let far = far.map_err(|error| ProgrammingError::new_err(error.to_string()))?;
        if let Some(far) = far {
            options = options.emulate(far);
        }
    }
    if let Some(config) = config {
        options = options.config(config);
    }
    let opened = py.detach(|| open(&options, path.as_deref(), create));
    let (database, scratch) = opened.map_err(|error| match error {
        Failure::Open(error) => of_database(*error),
        Failure::Scratch(error) => OperationalError::new_err(format!(
            "cannot make a directory for a temporary database: {error}"
        )),
    })?;
    let where_is = match &path {
        Some(path) => path.display().to_string(),
        None => "temporary".to_owned(),
    };
    let open = Open::new(database, scratch)?;
    open.session()?.set_autocommit(autocommit);
    Ok(Connection {
        open: Arc::new(open),
        where_is,
    })
}

/// The database in `path`, or in a temporary directory, which is removed when the second value is dropped.
fn open(
    options: &Options,
    path: Option<&Path>,
    create: bool,
) -> Result<(Database, Option<TempDir>), Failure> {
    match path {
        Some(path) if create => Ok((options.open_or_create_shared(path)?, None)),
        Some(path) => Ok((options.open_shared(path)?, None)),
        None => {
            let scratch = scratch()?;
            let database = options.create(scratch.path().join("db"))?;
            Ok((database, Some(scratch)))
        }
    }
}

enum Failure {
    Open(Box<tierra::Error>),
    Scratch(std::io::Error),
}

impl From<tierra::Error> for Failure {
    fn from(error: tierra::Error) -> Self {
        Self::Open(Box::new(error))
    }
}

fn scratch() -> Result<TempDir, Failure> {
    let prefix = format!("tierra-{}-", std::process::id());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    let there = builder.tempdir_in(SHARED_MEMORY);
    // Containers may have none.
    there
        .or_else(|_| builder.tempdir())
        .map_err(Failure::Scratch)
}

/// A connection to a database. Threads may share it.
#[pyclass(frozen, module = "tierra")]
pub(crate) struct Connection {
    open: Arc<Open>,
    where_is: String,
}

impl Connection {
    /// Ends the transaction, if there is one; returns the command that did.
    fn end(&self, py: Python<'_>, command: &str) -> PyResult<Option<&'static str>> {
        let session = self.open.session()?;
        if session.transaction() == TransactionState::None {
            return Ok(None);
        }
        match wait(py, async { session.sql(command).await })?.map_err(of_sql)? {
            Outcome::Done(done) => Ok(Some(done.command)),
            Outcome::Rows(_) => Ok(None),
        }
    }
}

#[pymethods]
impl Connection {
    /// Runs SQL and returns the result of the last statement. Parameters are ? or $1; then there is one statement.
    #[pyo3(signature = (query, params=None))]
    fn sql(
        &self,
        py: Python<'_>,
        query: &str,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Answer> {
        let session = self.open.session()?;
        if params.is_some_and(|params| !params.is_none() && params.len().unwrap_or(1) > 0) {
            let prepared = Prepared::new(py, Arc::clone(&self.open), query)?;
            return prepared.run(py, params);
        }
        parameters::all(params)?;
        let outcomes = wait(py, async { session.execute(query).await })?.map_err(of_sql)?;
        let is_one = outcomes.len() == 1;
        let Some(last) = outcomes.into_iter().next_back() else {
            return Err(ProgrammingError::new_err(
                "there is no statement in the text",
            ));
        };
        // EXPLAIN takes one statement.
        let text = is_one.then(|| query.to_owned());
        Ok(Answer::new(Arc::clone(&self.open), text, last))
    }

    /// As `sql`.
    #[pyo3(signature = (query, params=None))]
    fn execute(
        &self,
        py: Python<'_>,
        query: &str,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Answer> {
        self.sql(py, query, params)
    }

    /// Runs a statement once for each sequence of parameters, and returns how many rows were written in all.
    fn executemany(&self, py: Python<'_>, query: &str, params: &Bound<'_, PyAny>) -> PyResult<u64> {
        let prepared = Prepared::new(py, Arc::clone(&self.open), query)?;
        let mut written = 0;
        for arguments in params.try_iter()? {
            written += prepared.run(py, Some(&arguments?))?.written().unwrap_or(0);
        }
        Ok(written)
    }

    /// Plans one statement, to be called any number of times.
    fn prepare(&self, py: Python<'_>, query: &str) -> PyResult<Prepared> {
        Prepared::new(py, Arc::clone(&self.open), query)
    }

    /// A PEP 249 cursor.
    fn cursor<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().open.session()?;
        let module = slf.py().import("tierra._cursor")?;
        module.getattr("Cursor")?.call1((slf,))
    }

    /// Makes a frame of pandas or polars, a table of pyarrow, or any object with `__arrow_c_stream__` or `__arrow_c_array__` a table
    /// that this connection can read. Its values are not copied.
    fn register(&self, py: Python<'_>, name: &str, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let session = self.open.session()?;
        let (schema, batches) = arrow_in::rows(py, data)?;
        session.register(name, schema, &batches).map_err(of_sql)
    }

    /// Forgets a registered table.
    fn unregister(&self, name: &str) -> PyResult<()> {
        match self.open.session()?.unregister(name) {
            true => Ok(()),
            false => Err(ProgrammingError::new_err(format!(
                "no table '{name}' was registered"
            ))),
        }
    }

    /// Loads files (Parquet, Arrow IPC, CSV, TSV) or frames and tables with `__arrow_c_stream__` into a table, all or none, and
    /// returns the number of rows. The table is created if there is none. `progress` is called with rows, bytes and bytes in all.
    #[pyo3(signature = (table, *sources, progress=None))]
    fn load(
        &self,
        py: Python<'_>,
        table: String,
        sources: &Bound<'_, PyTuple>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let session = self.open.session()?;
        if session.transaction() != TransactionState::None {
            return Err(NotSupportedError::new_err(
                "load() commits by itself, so it is not part of a transaction: commit() or rollback() first",
            ));
        }
        let database = Arc::clone(session.database());
        Ok(load::load(py, database, table, sources, progress)?.rows)
    }

    /// The names of the tables.
    fn tables(&self) -> PyResult<Vec<String>> {
        Ok(self.open.session()?.database().tables())
    }

    /// Ends the statements that run on this connection, from another thread. They raise OperationalError.
    fn interrupt(&self) -> PyResult<()> {
        self.open.session()?.interrupt();
        Ok(())
    }

    /// Makes the changes of the transaction permanent, and ends it. Does nothing if there is none.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        match self.end(py, "COMMIT")? {
            // SQL's COMMIT says so in its answer, which this call does not return.
            Some("ROLLBACK") => Err(OperationalError::new_err(
                "nothing was committed: a statement of the transaction had failed, so it was rolled back",
            )),
            _ => Ok(()),
        }
    }

    /// Undoes the changes of the transaction, and ends it. Does nothing if there is none.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, "ROLLBACK").map(drop)
    }

    /// Whether every statement commits by itself, unless BEGIN was executed. If not, the first statement that reads or changes rows
    /// begins a transaction.
    #[getter]
    fn autocommit(&self) -> PyResult<bool> {
        Ok(self.open.session()?.autocommit())
    }

    #[setter]
    fn set_autocommit(&self, autocommit: bool) -> PyResult<()> {
        let session = self.open.session()?;
        if session.transaction() != TransactionState::None {
            return Err(ProgrammingError::new_err(
                "autocommit cannot change within a transaction: commit() or rollback() first",
            ));
        }
        session.set_autocommit(autocommit);
        Ok(())
    }

    /// Whether a transaction is open, also one that has failed.
    #[getter]
    fn in_transaction(&self) -> PyResult<bool> {
        Ok(self.open.session()?.transaction() != TransactionState::None)
    }

    /// Closes the connection and ends its results. The database is closed with its last connection.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.open.close(py)
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Commits, or rolls back after an exception, and closes.
    #[pyo3(signature = (*error))]
    fn __exit__(&self, py: Python<'_>, error: &Bound<'_, PyTuple>) -> PyResult<()> {
        let failed = error.get_item(0).is_ok_and(|class| !class.is_none());
        let ended = match (self.open.session(), failed) {
            // Closed within the block.
            (Err(_), _) => Ok(()),
            (Ok(_), false) => self.commit(py),
            (Ok(_), true) => self.rollback(py),
        };
        self.close(py)?;
        ended
    }

    fn __repr__(&self) -> String {
        let state = match self.open.session() {
            Ok(_) => "",
            Err(_) => ", closed",
        };
        format!("<tierra.Connection {}{state}>", self.where_is)
    }
}
