//! What the server answers itself: settings, the edges of transactions, what it cancels; cursors and COPY have files of their own.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{Field as ArrowField, Schema};
use tierra_sql::{Outcome, Statement, TransactionState};

use crate::cancel::Asked;
use crate::command::Tag;
use crate::connection::{Connection, Stop};
use crate::error::Fault;
use crate::own::{Modes, Own};
use crate::statement::{Cursor, Formats};
use crate::values::{Field, fields_of};

/// The code of what SQL has and Tierra has not.
const UNSUPPORTED: &str = "0A000";

impl Connection {
    /// The columns of a statement of this kind.
    pub(crate) fn fields_of_own(&self, own: &Own) -> Result<Option<Arc<[Field]>>, Fault> {
        match own {
            Own::Show(name) => Ok(Some(fields_of(&self.shown(name)?.schema()))),
            Own::Cancel { name, .. } => Ok(Some(fields_of(&cancelled(name, false)?.schema()))),
            Own::Fetch(fetch) if !fetch.moves => self.fields_of_cursor(&fetch.name),
            _ => Ok(None),
        }
    }

    /// Answers `own`, which is `statement`. If it has rows they are sent as text, behind their columns.
    pub(crate) async fn answer(&mut self, own: &Own, statement: &Statement) -> Result<(), Stop> {
        if !own.ends_transaction() {
            self.check_transaction()?;
        }
        match own {
            Own::Begin { reads_only } if self.session.transaction() == TransactionState::Open => {
                if *reads_only && !self.session.is_read_only() {
                    return Err(Fault::new(
                        "25001",
                        "READ ONLY must be said before the transaction's first statement",
                    )
                    .into());
                }
                if !std::mem::take(&mut self.of_text) {
                    self.warn("25001", "there is already a transaction in progress");
                }
                let is_start = statement.begins(&["start"]);
                self.complete(if is_start {
                    "START TRANSACTION"
                } else {
                    "BEGIN"
                });
            }
            Own::Abort => {
                let rollback = tierra_sql::statements("ROLLBACK")?.remove(0);
                self.end_with("ROLLBACK", &rollback).await?;
            }
            Own::End(command) => self.end_with(command, statement).await?,
            Own::Begin { .. } => {
                let tag = self.run_control(statement).await?;
                self.complete(&tag);
            }
            Own::SetTransaction(modes) => {
                self.set_transaction(*modes)?;
                self.complete("SET");
            }
            Own::Set {
                name,
                values,
                is_local,
            } => {
                let in_none = self.session.transaction() == TransactionState::None;
                if *is_local && in_none {
                    self.warn("25P01", "SET LOCAL can only be used in transaction blocks");
                } else {
                    let told = self.settings.set(name, values.as_deref(), *is_local)?;
                    self.tell(told.as_slice());
                }
                self.complete("SET");
            }
            Own::Catalog(question) => self.answer_catalog(question).await?,
            Own::Show(_) | Own::Cancel { .. } => {
                if let Some(batch) = self.batch_of(own)? {
                    let mut cursor = Cursor::of_batch(batch);
                    self.put_fields(&cursor.fields, &Formats::TEXT)?;
                    let sent = self.send_rows(&mut cursor, &Formats::TEXT, None).await?;
                    self.complete(&own.tag().after(sent));
                }
            }
            Own::Reset(name) => {
                let told = match name {
                    Some(name) => self.settings.set(name, None, false)?.into_iter().collect(),
                    None => self.settings.reset_all(),
                };
                self.tell(&told);
                self.complete("RESET");
            }
            Own::Discard => {
                if self.session.transaction() != TransactionState::None {
                    return Err(Fault::new(
                        "25001",
                        "DISCARD ALL cannot run inside a transaction block",
                    )
                    .into());
                }
                self.portals.clear();
                self.statements.clear();
                let told = self.settings.reset_all();
                self.tell(&told);
                self.session.sql("DEALLOCATE ALL").await?;
                self.complete("DISCARD ALL");
            }
            Own::Deallocate(name) => self.deallocate(name.as_deref(), statement).await?,
            Own::Declare {
                name,
                is_held,
                query,
            } => {
                let planned = self.plan_query(query, &[]).await?;
                if !planned.parameters.is_empty() {
                    return Err(Fault::new("42P02", "there is no parameter $1").into());
                }
                self.declare(name, *is_held, Arc::new(planned), Vec::new())
                    .await?;
            }
            Own::Fetch(fetch) => {
                let passed = self.fetch(fetch, &Formats::TEXT, None).await?;
                self.complete(&fetch.tag().after(passed));
            }
            Own::Close(name) => self.close(name.as_deref())?,
            Own::CopyOut(copy) => self.copy_out(copy).await?,
            Own::CopyIn(copy) => self.copy_in(copy).await?,
            Own::Accepted(tag) => self.complete(tag),
        }
        Ok(())
    }

    /// Answers the end of a transaction.
    async fn end_with(&mut self, command: &str, statement: &Statement) -> Result<(), Stop> {
        let in_none = self.session.transaction() == TransactionState::None;
        if self.of_text || in_none {
            self.warn("25P01", "there is no transaction in progress");
        }
        let tag = match in_none {
            true => command.to_owned(),
            false => self.ended(command, statement).await?,
        };
        self.of_text = false;
        self.complete(&tag);
        Ok(())
    }

    /// Ends the transaction; returns the tag. If that fails it is rolled back, unless SQL here does not have such an end.
    pub(crate) async fn ended(
        &mut self,
        command: &str,
        statement: &Statement,
    ) -> Result<String, Stop> {
        let is_commit = command == "COMMIT" && self.session.transaction() == TransactionState::Open;
        let kept = match is_commit {
            true => self.keep_held().await,
            false => Ok(()),
        };
        let ended = match kept {
            Ok(()) => self.run_control(statement).await,
            Err(stop) => Err(stop),
        };
        if let Err(Stop::Fault(fault)) = &ended
            && fault.code != UNSUPPORTED
            && self.session.transaction() != TransactionState::None
        {
            self.session.sql("ROLLBACK").await?;
        }
        if self.session.transaction() == TransactionState::None {
            let is_committed = ended.as_deref().is_ok_and(|tag| tag == "COMMIT");
            self.end_of_transaction(is_committed);
        }
        ended
    }

    /// SET TRANSACTION: what the open transaction is already, is accepted.
    fn set_transaction(&mut self, modes: Modes) -> Result<(), Fault> {
        if self.session.transaction() == TransactionState::None {
            self.warn(
                "25P01",
                "SET TRANSACTION can only be used in transaction blocks",
            );
            return Ok(());
        }
        match modes.reads_only {
            Some(true) if !self.session.is_read_only() => Err(Fault::unsupported(
                "READ ONLY for a transaction that has begun",
            )
            .with_hint("BEGIN READ ONLY")),
            Some(false) if self.session.is_read_only() => Err(Fault::new(
                "25001",
                "cannot set transaction read-write mode inside a read-only transaction",
            )),
            _ => Ok(()),
        }
    }

    /// Begins or ends a transaction; returns the tag.
    async fn run_control(&mut self, statement: &Statement) -> Result<String, Stop> {
        let session = Arc::clone(&self.session);
        match self.watched(session.run_statement(statement)).await? {
            Outcome::Done(done) => Ok(Tag::of_done(&done)),
            Outcome::Rows(_) => Err(Fault::new("XX000", "a transaction's edge has rows").into()),
        }
    }

    async fn deallocate(&mut self, name: Option<&str>, statement: &Statement) -> Result<(), Stop> {
        let tag = match name {
            None => {
                self.statements.clear();
                self.session.run_statement(statement).await?;
                "DEALLOCATE ALL"
            }
            // Statements of Parse and of PREPARE have the same names.
            Some(name) => {
                if self.statements.remove(name).is_none() {
                    self.session.run_statement(statement).await?;
                }
                "DEALLOCATE"
            }
        };
        self.complete(tag);
        Ok(())
    }

    /// The rows of a statement that is answered here.
    pub(crate) fn batch_of(&self, own: &Own) -> Result<Option<RecordBatch>, Fault> {
        match own {
            Own::Show(name) => self.shown(name).map(Some),
            Own::Cancel { name, process } => {
                cancelled(name, self.cancel_other(*process)?).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A setting as a row.
    fn shown(&self, name: &str) -> Result<RecordBatch, Fault> {
        let (name, value) = self.settings.show(name)?;
        let value = match name {
            "transaction_read_only" if self.session.is_read_only() => "on".to_owned(),
            _ => value,
        };
        row(vec![(
            name.to_owned(),
            Arc::new(StringArray::from(vec![value])),
        )])
    }

    /// Cancels what another connection runs; `false` if there is none. Who may only read may cancel statements of the same user.
    fn cancel_other(&self, process: i32) -> Result<bool, Fault> {
        let may = |user: &str| !self.session.reads_only() || user == self.user();
        match self.key.cancel_other(process, may) {
            Asked::Done => Ok(true),
            Asked::NotThere => Ok(false),
            Asked::Denied => Err(Fault::new("42501", "permission denied to cancel query")
                .with_hint("a user who may only read may cancel what the same user runs")),
        }
    }
}

/// Whether a statement was cancelled, as a row.
fn cancelled(name: &str, is_cancelled: bool) -> Result<RecordBatch, Fault> {
    let value = Arc::new(BooleanArray::from(vec![is_cancelled]));
    row(vec![(name.to_owned(), value)])
}

/// Values as a row.
fn row(values: Vec<(String, ArrayRef)>) -> Result<RecordBatch, Fault> {
    let fields = values
        .iter()
        .map(|(name, value)| ArrowField::new(name, value.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = values.iter().map(|(_, value)| Arc::clone(value));
    RecordBatch::try_new(schema, columns.collect())
        .map_err(|error| Fault::new("XX000", error.to_string()))
}
