//! Loading files and Arrow streams into a table, all of them or none.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatchReader;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use tierra::engine;
use tierra::sql::SqlError;
use tierra::sql::load::{LoadError, LoadOptions, LoadReport, Progress, load_files, load_streams};

use crate::arrow_in;
use crate::error::{OperationalError, ProgrammingError, of_sql};
use crate::runtime::SLICE;

/// What is loaded.
enum Sources {
    Files(Vec<PathBuf>),
    Streams(Vec<Box<dyn RecordBatchReader + Send>>),
}

impl Sources {
    fn of(sources: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (mut files, mut streams) = (Vec::new(), Vec::new());
        for source in sources.iter() {
            if source.is_instance_of::<PyString>() || source.hasattr("__fspath__")? {
                files.push(source.extract()?);
            } else if arrow_in::is_rows(&source)? {
                streams.push(arrow_in::reader(&source)?);
            } else {
                let class = source.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "{class} is nothing to load: give paths, or frames and tables with __arrow_c_stream__"
                )));
            }
        }
        match (files.is_empty(), streams.is_empty()) {
            (true, true) => Err(ProgrammingError::new_err("there is nothing to load")),
            (false, true) => Ok(Self::Files(files)),
            (true, false) => Ok(Self::Streams(streams)),
            (false, false) => Err(ProgrammingError::new_err(
                "files and Arrow streams cannot be loaded in one call",
            )),
        }
    }
}

/// Loads `sources` into `table` of `database`, and tells `progress` every now and then: rows, bytes, and bytes in all. A signal
/// undoes the load.
pub(crate) fn load(
    py: Python<'_>,
    database: Arc<engine::Database>,
    table: String,
    sources: &Bound<'_, PyTuple>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<LoadReport> {
    let sources = Sources::of(sources)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let latest = Arc::new(Mutex::new(Progress::default()));
    let (done, end) = channel();
    let thread = std::thread::Builder::new().name("tierra-load".to_owned());
    let (flag, told) = (Arc::clone(&cancel), Arc::clone(&latest));
    let thread = thread.spawn(move || {
        let tell = |progress| *told.lock().unwrap_or_else(PoisonError::into_inner) = progress;
        let options = LoadOptions {
            progress: Some(&tell),
            cancel: Some(&flag),
            ..LoadOptions::default()
        };
        let report = match sources {
            Sources::Files(files) => load_files(&database, &table, &files, &options),
            Sources::Streams(streams) => load_streams(&database, &table, streams, &options),
        };
        drop(database);
        // The caller is there until this is sent.
        let _ = done.send(report);
    });
    let thread = thread.map_err(|error| OperationalError::new_err(error.to_string()))?;
    // A detached call shares what it uses.
    let end = Mutex::new(end);
    let mut raised = None;
    let report = loop {
        let slice = py.detach(|| {
            let end = end.lock().unwrap_or_else(PoisonError::into_inner);
            end.recv_timeout(SLICE)
        });
        match slice {
            Ok(report) => break Some(report),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {
                if raised.is_none()
                    && let Err(error) = py.check_signals().and_then(|()| tell(progress, &latest))
                {
                    raised = Some(error);
                    cancel.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    // It has ended, or is about to.
    let panicked = py.detach(|| thread.join()).is_err();
    match (raised, report) {
        (Some(error), Some(Err(LoadError::Cancelled { .. }))) => Err(error),
        (_, Some(Ok(report))) => tell(progress, &latest).map(|()| report),
        (_, Some(Err(error))) => Err(of_sql(SqlError::from(error))),
        (_, None) => Err(of_sql(SqlError::Defect(format!(
            "a load ended without a report, panicked: {panicked}"
        )))),
    }
}

fn tell(callback: Option<&Bound<'_, PyAny>>, latest: &Mutex<Progress>) -> PyResult<()> {
    let Some(callback) = callback else {
        return Ok(());
    };
    let latest = *latest.lock().unwrap_or_else(PoisonError::into_inner);
    callback.call1((latest.rows, latest.bytes, latest.bytes_total))?;
    Ok(())
}
