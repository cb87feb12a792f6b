//! What a statement sees: one snapshot of each table, all of one moment, however often the statement reads a table.
//!
//! A statement that changes rows names them by their ids in its view. The statements of a transaction share a view, to which
//! their own changes are added. A table that was created after its moment is an error there: to see its rows, or none, would be
//! to see two moments.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_engine::{Database, Snapshot, Table};

use crate::error::ChangeError;

/// The snapshots that a statement reads.
pub(crate) struct View {
    database: Arc<Database>,
    /// Empty until a table is read.
    taken: Mutex<Vec<Snapshot>>,
    /// Whether the statements of a transaction share it.
    is_shared: bool,
}

impl View {
    /// The state of `database` at the moment that a table is first read.
    pub(crate) fn new(database: &Arc<Database>) -> Self {
        Self {
            database: Arc::clone(database),
            taken: Mutex::default(),
            is_shared: false,
        }
    }

    /// That state, for all statements of a transaction.
    pub(crate) fn of_transaction(database: &Arc<Database>) -> Self {
        Self {
            is_shared: true,
            ..Self::new(database)
        }
    }

    /// The snapshot of `table`.
    ///
    /// # Errors
    /// If the view is a transaction's, and `table` was created since it was taken.
    pub(crate) fn of(&self, table: &Arc<Table>) -> Result<Snapshot, ChangeError> {
        let mut taken = self.lock();
        if taken.is_empty() {
            *taken = self.database.all_snapshots();
        }
        if let Some(snapshot) = taken.iter().find(|snapshot| is_of(snapshot, table)) {
            return Ok(snapshot.clone());
        }
        if self.is_shared {
            let table = table.spec().name.clone();
            return Err(ChangeError::Newer { table });
        }
        // It was created or dropped while the statement was planned.
        let snapshot = table.snapshot();
        taken.push(snapshot.clone());
        Ok(snapshot)
    }

    /// The same view with `snapshot` in place of that of its table.
    pub(crate) fn with(&self, snapshot: Snapshot) -> Self {
        let mut taken = self.lock().clone();
        taken.retain(|other| !is_of(other, snapshot.table()));
        taken.push(snapshot);
        Self {
            database: Arc::clone(&self.database),
            taken: Mutex::new(taken),
            is_shared: self.is_shared,
        }
    }

    /// Lets go of the snapshots: those of tables that no operator reads would keep space that these tables no longer need.
    /// Asking for one again gives a later one.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Snapshot>> {
        // A snapshot is added as a whole, so a panic elsewhere leaves no partial one.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_of(snapshot: &Snapshot, table: &Arc<Table>) -> bool {
    Arc::ptr_eq(snapshot.table(), table)
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}
