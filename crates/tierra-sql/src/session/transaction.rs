//! The transaction of a session: its view of the tables, and its changes, which are kept in memory by table.
//!
//! Invariant: the view shows the changes so far, to this session alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tierra_engine::{Change, Database, Pending, Snapshot, Table};

use crate::error::{ChangeError, SqlError};
use crate::memory::Collected;
use crate::outcome::Outcome;
use crate::view::View;

/// Where a session is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// In none.
    None,
    /// In one.
    Open,
    /// In one of which a statement has failed: nothing runs in it.
    Failed,
}

/// The place of a session's transaction.
#[derive(Default)]
pub(super) struct Transactions {
    open: Mutex<Option<Transaction>>,
    /// Whether a statement outside a transaction begins one.
    is_implicit: AtomicBool,
    /// Held by a statement that changes rows: the next one reads what it has changed.
    writing: tokio::sync::Mutex<()>,
}

/// An open transaction.
pub(super) struct Transaction {
    view: Arc<View>,
    pending: Vec<Pending>,
    savepoints: Vec<Savepoint>,
    /// The accounts of all rows in `pending`, in the order of the statements.
    accounts: Vec<Collected>,
    /// The tables of its ON CONFLICTs, in the order of the first statements.
    upserted: Vec<Arc<Table>>,
    is_read_only: bool,
    /// Set by a statement that fails, be it while its rows are read.
    has_failed: Arc<AtomicBool>,
}

struct Savepoint {
    name: String,
    view: Arc<View>,
    pending: Vec<Pending>,
    /// How many accounts there were.
    accounts: usize,
    /// How many tables of ON CONFLICTs there were.
    upserted: usize,
}

impl Transactions {
    fn lock(&self) -> MutexGuard<'_, Option<Transaction>> {
        // Changes are put in as a whole, so a panic elsewhere leaves no partial one.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    pub(super) fn state(&self) -> TransactionState {
        match &*self.lock() {
            None => TransactionState::None,
            Some(open) if open.has_failed() => TransactionState::Failed,
            Some(_) => TransactionState::Open,
        }
    }

    pub(super) fn set_implicit(&self, is_implicit: bool) {
        self.is_implicit.store(is_implicit, Ordering::Relaxed);
    }

    pub(super) fn is_implicit(&self) -> bool {
        self.is_implicit.load(Ordering::Relaxed)
    }

    /// Begins a transaction for a statement that is in none, if statements do that.
    pub(super) fn begin_implicitly(&self, database: &Arc<Database>) {
        if self.is_implicit() {
            self.lock()
                .get_or_insert_with(|| Transaction::new(database, false));
        }
    }

    /// What the statements of the transaction see; `None` outside of one.
    pub(super) fn view(&self) -> Option<Arc<View>> {
        let open = self.lock();
        open.as_ref()
            .map(|transaction| Arc::clone(&transaction.view))
    }

    /// # Errors
    /// If an earlier statement of the transaction failed.
    pub(super) fn check(&self) -> Result<(), ChangeError> {
        let failed = self.lock().as_ref().is_some_and(Transaction::has_failed);
        match failed {
            true => Err(ChangeError::Aborted),
            false => Ok(()),
        }
    }

    /// Notes that a statement failed.
    pub(super) fn fail(&self, error: &SqlError) {
        if let SqlError::Change(ChangeError::NoTransaction | ChangeError::Nested) = error {
            return;
        }
        self.fail_now();
    }

    pub(super) fn fail_now(&self) {
        if let Some(transaction) = &*self.lock() {
            transaction.has_failed.store(true, Ordering::Relaxed);
        }
    }

    /// The outcome of a statement, whose rows may still fail.
    pub(super) fn watch(&self, outcome: Outcome) -> Outcome {
        match (outcome, &*self.lock()) {
            (Outcome::Rows(rows), Some(transaction)) => {
                Outcome::Rows(rows.failing(Arc::clone(&transaction.has_failed)))
            }
            (outcome, _) => outcome,
        }
    }

    /// Waits for the statement that changes rows now; until the guard is dropped no other one does.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    /// # Errors
    /// If the transaction only reads.
    pub(super) fn check_writable(&self, command: &'static str) -> Result<(), ChangeError> {
        match &*self.lock() {
            Some(Transaction {
                is_read_only: true, ..
            }) => Err(ChangeError::ReadOnly { command }),
            _ => Ok(()),
        }
    }

    pub(super) fn begin(
        &self,
        database: &Arc<Database>,
        is_read_only: bool,
    ) -> Result<(), ChangeError> {
        let mut open = self.lock();
        if open.is_some() {
            return Err(ChangeError::Nested);
        }
        *open = Some(Transaction::new(database, is_read_only));
        Ok(())
    }

    pub(super) fn end(&self) -> Result<Transaction, ChangeError> {
        self.lock().take().ok_or(ChangeError::NoTransaction)
    }

    fn with<T>(
        &self,
        change: impl FnOnce(&mut Transaction) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        change(self.lock().as_mut().ok_or(ChangeError::NoTransaction)?)
    }

    /// Marks a place to go back to.
    pub(super) fn mark(&self, name: String) -> Result<(), ChangeError> {
        self.with(|transaction| {
            transaction.savepoints.push(Savepoint {
                name,
                view: Arc::clone(&transaction.view),
                pending: transaction.pending.clone(),
                accounts: transaction.accounts.len(),
                upserted: transaction.upserted.len(),
            });
            Ok(())
        })
    }

    /// Goes back to a mark, which stays.
    pub(super) fn go_back(&self, name: &str) -> Result<(), ChangeError> {
        self.with(|transaction| {
            let place = transaction.place_of(name)?;
            transaction.savepoints.truncate(place + 1);
            let point = &transaction.savepoints[place];
            transaction.view = Arc::clone(&point.view);
            transaction.pending = point.pending.clone();
            transaction.accounts.truncate(point.accounts);
            transaction.upserted.truncate(point.upserted);
            // Rows that were asked for before no longer matter.
            transaction.has_failed = Arc::default();
            Ok(())
        })
    }

    /// Forgets a mark, and those behind it.
    pub(super) fn unmark(&self, name: &str) -> Result<(), ChangeError> {
        self.with(|transaction| {
            let place = transaction.place_of(name)?;
            transaction.savepoints.truncate(place);
            Ok(())
        })
    }

    /// The changes of `table` so far.
    pub(super) fn pending(&self, table: &Arc<Table>) -> Result<Pending, ChangeError> {
        self.with(|transaction| {
            let mut known = transaction.pending.iter();
            let known = known.find(|pending| is_of(pending.snapshot(), table));
            Ok(match known {
                Some(known) => known.clone(),
                None => Pending::new(transaction.view.of(table)?),
            })
        })
    }

    /// Puts `pending` in place of the changes of its table.
    pub(super) fn put(
        &self,
        pending: Pending,
        account: Option<Collected>,
    ) -> Result<(), ChangeError> {
        self.with(|transaction| {
            let snapshot = pending.snapshot().clone();
            let others = &mut transaction.pending;
            others.retain(|other| !is_of(other.snapshot(), snapshot.table()));
            others.push(pending);
            transaction.view = Arc::new(transaction.view.with(snapshot));
            transaction.accounts.extend(account);
            Ok(())
        })
    }

    /// Notes that an INSERT .. ON CONFLICT has looked for keys of `table`.
    pub(super) fn note_upsert(&self, table: &Arc<Table>) -> Result<(), ChangeError> {
        self.with(|transaction| {
            let upserted = &mut transaction.upserted;
            if !upserted.iter().any(|known| Arc::ptr_eq(known, table)) {
                upserted.push(Arc::clone(table));
            }
            Ok(())
        })
    }
}

fn is_of(snapshot: &Snapshot, table: &Arc<Table>) -> bool {
    Arc::ptr_eq(snapshot.table(), table)
}

impl Transaction {
    fn new(database: &Arc<Database>, is_read_only: bool) -> Self {
        Self {
            view: Arc::new(View::of_transaction(database)),
            pending: Vec::new(),
            savepoints: Vec::new(),
            accounts: Vec::new(),
            upserted: Vec::new(),
            is_read_only,
            has_failed: Arc::default(),
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// The changes to commit, and the tables of its ON CONFLICTs.
    pub(super) fn into_changes(self) -> (Vec<Change>, Vec<Arc<Table>>) {
        let pending = self.pending.into_iter();
        let pending = pending.filter(|pending| !pending.is_empty());
        let changes = pending.map(Pending::into_change);
        (changes.collect(), self.upserted)
    }

    fn place_of(&self, name: &str) -> Result<usize, ChangeError> {
        let place = self.savepoints.iter().rposition(|point| point.name == name);
        place.ok_or_else(|| ChangeError::NoSavepoint(name.to_string()))
    }
}
