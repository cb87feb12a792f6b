//! An open database as the objects of Python share it: the session, the directory of one without a name, and the rows that are
//! still to be read.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::prelude::*;
use tempfile::TempDir;
use tierra::Database;
use tierra::sql::Session;

use crate::error::{InterfaceError, of_database};
use crate::fetch::Reading;
use crate::runtime::{self, OfProcess};

/// A connection's database, until the connection is closed.
pub(crate) struct Open {
    session: OfProcess<Mutex<Option<Parts>>>,
    /// Results whose rows are read from the database: they end with the connection.
    readings: Mutex<Vec<Weak<Reading>>>,
}

struct Parts {
    session: Arc<Session>,
    /// Closed after the session.
    _database: Database,
    /// Removed at last.
    _scratch: Option<TempDir>,
}

impl Open {
    /// # Errors
    /// If a session cannot be made.
    pub(crate) fn new(database: Database, scratch: Option<TempDir>) -> PyResult<Self> {
        let session = database.session().map_err(of_database)?;
        Ok(Self {
            session: OfProcess::new(Mutex::new(Some(Parts {
                session: Arc::new(session),
                _database: database,
                _scratch: scratch,
            }))),
            readings: Mutex::default(),
        })
    }

    /// The session.
    ///
    /// # Errors
    /// After `close`, and in a fork.
    pub(crate) fn session(&self) -> PyResult<Arc<Session>> {
        runtime::runtime()?;
        let parts = self.session.get().lock();
        let parts = parts.unwrap_or_else(PoisonError::into_inner);
        match parts.as_ref() {
            Some(parts) => Ok(Arc::clone(&parts.session)),
            None => Err(InterfaceError::new_err("the connection is closed")),
        }
    }

    /// Ends `reading` with the connection.
    pub(crate) fn add(&self, reading: &Arc<Reading>) {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        readings.retain(|other| other.strong_count() > 0);
        readings.push(Arc::downgrade(reading));
    }

    /// Stops what runs, and lets go of the database. Others may then open it.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if runtime::is_fork() {
            // The parent's database stays the parent's.
            return Ok(());
        }
        py.detach(|| {
            let parts = self.session.get().lock();
            let parts = parts.unwrap_or_else(PoisonError::into_inner).take();
            let Some(parts) = parts else { return };
            parts.session.interrupt();
            let readings = self.readings.lock();
            let readings = std::mem::take(&mut *readings.unwrap_or_else(PoisonError::into_inner));
            for reading in readings.iter().filter_map(Weak::upgrade) {
                reading.close();
            }
        });
        Ok(())
    }
}

impl Drop for Open {
    /// Closing waits for the writer: other threads of Python go on meanwhile.
    fn drop(&mut self) {
        if runtime::is_fork() {
            return;
        }
        let parts = self.session.get().lock();
        let mut parts = parts.unwrap_or_else(PoisonError::into_inner).take();
        // At the end of the interpreter it is dropped below.
        let _ = Python::try_attach(|py| py.detach(|| drop(parts.take())));
    }
}
