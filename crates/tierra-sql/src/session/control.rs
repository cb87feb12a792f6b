//! Statements about transactions: BEGIN, COMMIT, ROLLBACK and savepoints.
//!
//! ```text
//! BEGIN           --> the first statement that reads takes a view: all tables as of one moment
//! each change     --> kept in memory, by table; the view shows it, to this session alone
//! COMMIT          --> one commit of all tables, unless another session changed one of the rows first
//! ```
//! Invariant: until COMMIT no other session sees anything of it, and after a failed statement nothing runs in it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast;
use tierra_engine::{Change as TableChange, CommitError, Snapshot, StorageError, Table};

use super::Session;
use super::run::done;
use crate::activity::Commit;
use crate::error::{ChangeError, DefinitionError, SqlError};
use crate::memory::Collected;
use crate::names::identifier;
use crate::outcome::Outcome;

/// A change of more rows is made on a thread that may block.
pub(super) const PROMPT_ROWS_MOST: usize = 1_000;

impl Session {
    /// Runs a statement that begins, ends or marks a transaction; `None` for another.
    pub(super) async fn run_control(
        &self,
        statement: &ast::Statement,
    ) -> Result<Option<Outcome>, SqlError> {
        Ok(Some(match statement {
            ast::Statement::StartTransaction {
                modes,
                begin,
                transaction: _,
                modifier,
                statements,
                exception,
                has_end_keyword,
            } => {
                if modifier.is_some()
                    || !statements.is_empty()
                    || exception.is_some()
                    || *has_end_keyword
                {
                    return Err(unsupported(
                        "BEGIN with more than the modes of a transaction",
                    ));
                }
                self.transactions
                    .begin(&self.database, is_read_only(modes)?)?;
                done(if *begin { "BEGIN" } else { "START TRANSACTION" })
            }
            ast::Statement::Commit {
                chain,
                end: _,
                modifier,
            } => {
                if *chain || modifier.is_some() {
                    return Err(unsupported("COMMIT AND CHAIN"));
                }
                Box::pin(self.commit_transaction()).await?
            }
            ast::Statement::Rollback { chain: true, .. } => {
                return Err(unsupported("ROLLBACK AND CHAIN"));
            }
            ast::Statement::Rollback {
                savepoint: None, ..
            } => {
                self.transactions.end()?;
                done("ROLLBACK")
            }
            ast::Statement::Rollback {
                savepoint: Some(name),
                ..
            } => {
                let _turn = self.transactions.turn().await;
                self.transactions.go_back(&identifier(name))?;
                done("ROLLBACK")
            }
            ast::Statement::Savepoint { name } => {
                let _turn = self.transactions.turn().await;
                self.transactions.mark(identifier(name))?;
                done("SAVEPOINT")
            }
            ast::Statement::ReleaseSavepoint { name } => {
                self.transactions.unmark(&identifier(name))?;
                done("RELEASE")
            }
            _ => return Ok(None),
        }))
    }

    async fn commit_transaction(&self) -> Result<Outcome, SqlError> {
        let _turn = self.transactions.turn().await;
        Commit::of_statement().begin()?;
        let transaction = self.transactions.end()?;
        if transaction.has_failed() {
            return Ok(done("ROLLBACK"));
        }
        let (changes, upserted) = transaction.into_changes();
        let committed = self.committed(changes).await?;
        committed.map_err(|error| commit_error(error, &upserted))?;
        Ok(done("COMMIT"))
    }

    /// Adds a change to the open transaction. The caller has had the turn of changes since before it read the rows.
    pub(super) async fn add_to_transaction(
        &self,
        change: TableChange,
        account: Option<Collected>,
    ) -> Result<(), SqlError> {
        let TableChange {
            snapshot,
            deleted,
            appended,
        } = change;
        let mut pending = self.transactions.pending(snapshot.table())?;
        let rows =
            deleted.len() as usize + appended.iter().map(RecordBatch::num_rows).sum::<usize>();
        let is_prompt = rows <= PROMPT_ROWS_MOST && pending.finds_keys();
        let apply = move || {
            pending.apply(&deleted, &appended)?;
            Ok::<_, CommitError>(pending)
        };
        let applied = match is_prompt {
            true => apply(),
            false => {
                let applied = tokio::task::spawn_blocking(apply).await;
                applied.map_err(SqlError::engine)?
            }
        };
        let pending = applied.map_err(|error| match error {
            CommitError::TooManyRows { table, most } => {
                ChangeError::TooManyRows { table, most }.into()
            }
            error => SqlError::of_commit(error, "transaction"),
        })?;
        Ok(self.transactions.put(pending, account)?)
    }

    /// The snapshot of `table` that a statement reads now.
    pub(super) fn snapshot_of(&self, table: &Arc<Table>) -> Result<Snapshot, SqlError> {
        match self.transactions.view() {
            Some(view) => Ok(view.of(table)?),
            None => Ok(table.snapshot()),
        }
    }

    /// Refuses what cannot be undone.
    pub(super) fn refuse_in_transaction(&self, what: &'static str) -> Result<(), SqlError> {
        match self.transactions.is_open() {
            true => Err(DefinitionError::UnsupportedFor {
                what,
                instead: "COMMIT or ROLLBACK before it",
            }
            .into()),
            false => Ok(()),
        }
    }
}

/// The error of a transaction's commit. Each statement has compared its keys with those that it saw, so a key that is taken at the
/// commit is another session's. ON CONFLICT, of the tables `upserted`, would have heeded it: run again, the transaction does.
fn commit_error(error: CommitError, upserted: &[Arc<Table>]) -> SqlError {
    match error {
        CommitError::DuplicateKey(taken)
            if upserted
                .iter()
                .any(|table| table.spec().name == taken.table) =>
        {
            let (table, what) = (taken.table, "transaction");
            ChangeError::Conflict { table, what }.into()
        }
        CommitError::Storage(StorageError::Dropped { table }) => {
            ChangeError::Dropped { table }.into()
        }
        error => SqlError::of_commit(error, "transaction"),
    }
}

/// Whether a transaction of these modes only reads.
fn is_read_only(modes: &[ast::TransactionMode]) -> Result<bool, SqlError> {
    let mut is_read_only = false;
    for mode in modes {
        match mode {
            ast::TransactionMode::AccessMode(access) => {
                is_read_only = *access == ast::TransactionAccessMode::ReadOnly;
            }
            ast::TransactionMode::IsolationLevel(ast::TransactionIsolationLevel::Serializable) => {
                return Err(DefinitionError::UnsupportedFor {
                    what: "ISOLATION LEVEL SERIALIZABLE",
                    instead: "every transaction has its own snapshot (REPEATABLE READ); two may still write what \
                              each depends on in the other's rows",
                }
                .into());
            }
            // A snapshot is stronger than the others.
            ast::TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(is_read_only)
}

fn unsupported(what: &str) -> SqlError {
    DefinitionError::Unsupported(what.to_string()).into()
}
