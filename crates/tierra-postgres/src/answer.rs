//! What the server answers itself: settings, cursors, the edges of transactions, and COPY.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{Field as ArrowField, Schema};
use tierra_sql::{Outcome, Statement, TransactionState};

use crate::connection::{Connection, Stop};
use crate::copy::{CopyIn, CopyOut, CopyOutput, Loaded, Target, quoted};
use crate::error::Fault;
use crate::facts::Fact;
use crate::own::{Fetch, Own};
use crate::rows::put_row;
use crate::settings::SERVER_VERSION;
use crate::statement::{Cursor, Formats, Planned, Portal, State, Tag};
use crate::values::column::Column;
use crate::values::{Field, fields_of};
use crate::wire::frame::Message;
use crate::wire::messages::Put;

impl Connection {
    /// The columns of a statement of this kind.
    pub(crate) fn fields_of_own(&self, own: &Own) -> Result<Option<Vec<Field>>, Fault> {
        match own {
            Own::Show(name) => Ok(Some(fields_of(&self.shown(name)?.schema()))),
            Own::Facts(facts) => Ok(Some(fields_of(&self.facts(facts, false)?.schema()))),
            Own::Catalog(question) => Ok(Some(fields_of(&question.schema()))),
            Own::Fetch(fetch) if !fetch.moves => Ok(self.cursor(&fetch.name)?.fields.clone()),
            _ => Ok(None),
        }
    }

    /// Answers `own`, which is `statement`. Columns are told before rows if `describes`.
    pub(crate) async fn answer(
        &mut self,
        own: &Own,
        statement: &Statement,
        formats: &Formats,
        describes: bool,
    ) -> Result<(), Stop> {
        if !own.ends_transaction() {
            self.check_transaction()?;
        }
        match own {
            Own::Begin if self.session.transaction() == TransactionState::Open => {
                self.warn("25001", "there is already a transaction in progress");
                self.wire.output().complete("BEGIN");
            }
            Own::End(command) if self.session.transaction() == TransactionState::None => {
                self.warn("25P01", "there is no transaction in progress");
                self.wire.output().complete(command);
            }
            Own::Begin | Own::End(_) => self.run_control(statement).await?,
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
                self.wire.output().complete("SET");
            }
            Own::Show(name) => {
                let batch = self.shown(name)?;
                self.put_batch(&batch, formats, describes, "SHOW")?;
            }
            Own::Facts(facts) => {
                let batch = self.facts(facts, true)?;
                self.put_batch(&batch, formats, describes, "SELECT 1")?;
            }
            Own::Catalog(question) => {
                let batch = question.rows(self.session.database(), self.user())?;
                let tag = Tag::Select.after(batch.num_rows() as u64);
                self.put_batch(&batch, formats, describes, &tag)?;
            }
            Own::Reset(name) => {
                let told = match name {
                    Some(name) => self.settings.set(name, None, false)?.into_iter().collect(),
                    None => self.settings.reset_all(),
                };
                self.tell(&told);
                self.wire.output().complete("RESET");
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
                self.wire.output().complete("DISCARD ALL");
            }
            Own::Deallocate(name) => self.deallocate(name.as_deref(), statement).await?,
            Own::Declare {
                name,
                is_held,
                query,
            } => {
                let query = query.part(0..query.lexemes().len());
                let planned = self.plan(query, &[]).await?;
                if !planned.parameters.is_empty() {
                    return Err(Fault::new("42P02", "there is no parameter $1").into());
                }
                self.declare(
                    name,
                    *is_held,
                    Portal::new(Arc::new(planned), Vec::new(), Formats::TEXT),
                )?;
            }
            Own::Fetch(fetch) => self.fetch(fetch, formats, describes).await?,
            Own::Close(None) => {
                self.portals.clear();
                self.wire.output().complete("CLOSE CURSOR ALL");
            }
            Own::Close(Some(name)) => {
                self.cursor(name)?;
                self.portals.remove(name);
                self.wire.output().complete("CLOSE CURSOR");
            }
            Own::CopyOut(copy) => self.copy_out(copy).await?,
            Own::CopyIn(copy) => self.copy_in(copy).await?,
            Own::Accepted(tag) => self.wire.output().complete(tag),
        }
        Ok(())
    }

    /// Begins or ends a transaction.
    async fn run_control(&mut self, statement: &Statement) -> Result<(), Stop> {
        let session = Arc::clone(&self.session);
        let tag = match self.watched(session.run_statement(statement)).await? {
            Outcome::Done(done) => Tag::of_done(&done),
            Outcome::Rows(_) => {
                return Err(Fault::new("XX000", "a transaction's edge has rows").into());
            }
        };
        self.wire.output().complete(&tag);
        Ok(())
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
        self.wire.output().complete(tag);
        Ok(())
    }

    /// A setting as a row.
    fn shown(&self, name: &str) -> Result<RecordBatch, Fault> {
        let (name, value) = self.settings.show(name)?;
        row(vec![(
            name.to_owned(),
            Arc::new(StringArray::from(vec![value])),
        )])
    }

    /// Facts as a row. No query is cancelled unless it `runs`.
    fn facts(&self, facts: &[(String, Fact)], runs: bool) -> Result<RecordBatch, Fault> {
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        let values = facts.iter().map(|(name, fact)| {
            let value: ArrayRef = match fact {
                Fact::Version => text(&format!("PostgreSQL {SERVER_VERSION}")),
                Fact::Schema => text("public"),
                Fact::Database => text("tierra"),
                Fact::User => text(self.user()),
                Fact::Process => Arc::new(Int32Array::from(vec![self.key.process])),
                Fact::Setting(name) => text(&self.settings.show(name)?.1),
                Fact::Cancel(process) => {
                    let is_cancelled = runs && self.key.cancel_other(*process);
                    Arc::new(BooleanArray::from(vec![is_cancelled]))
                }
                Fact::Nothing => text(""),
                Fact::False => Arc::new(BooleanArray::from(vec![false])),
            };
            Ok((name.clone(), value))
        });
        row(values.collect::<Result<_, Fault>>()?)
    }

    fn put_batch(
        &mut self,
        batch: &RecordBatch,
        formats: &Formats,
        describes: bool,
        tag: &str,
    ) -> Result<(), Fault> {
        if describes {
            self.put_fields(&fields_of(&batch.schema()), formats)?;
        }
        let columns = Column::all(batch).map_err(|error| Fault::new("XX000", error.to_string()))?;
        let output = self.wire.output();
        for row in 0..batch.num_rows() {
            put_row(&columns, row, formats, output);
        }
        output.complete(tag);
        Ok(())
    }

    fn cursor(&self, name: &str) -> Result<&Planned, Fault> {
        match self.portals.get(name) {
            Some(portal) => Ok(&portal.planned),
            None => Err(Fault::new(
                "34000",
                format!("cursor \"{name}\" does not exist"),
            )),
        }
    }

    /// Opens a cursor.
    pub(crate) fn declare(
        &mut self,
        name: &str,
        is_held: bool,
        portal: Portal,
    ) -> Result<(), Fault> {
        if !is_held && self.session.transaction() == TransactionState::None {
            return Err(Fault::new(
                "25P01",
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if portal.planned.fields.is_none() {
            return Err(Fault::new("42P11", "the cursor's statement has no rows"));
        }
        if self.portals.contains_key(name) {
            return Err(Fault::new(
                "42P03",
                format!("cursor \"{name}\" already exists"),
            ));
        }
        self.portals
            .insert(name.to_owned(), Portal { is_held, ..portal });
        self.wire.output().complete("DECLARE CURSOR");
        Ok(())
    }

    async fn fetch(
        &mut self,
        fetch: &Fetch,
        formats: &Formats,
        describes: bool,
    ) -> Result<(), Stop> {
        let fields = self.cursor(&fetch.name)?.fields.clone().unwrap_or_default();
        if describes && !fetch.moves {
            self.put_fields(&fields, formats)?;
        }
        let Some(mut portal) = self.portals.remove(&fetch.name) else {
            return Ok(());
        };
        portal.formats = formats.clone();
        self.open(&mut portal).await?;
        let passed = match &mut portal.state {
            State::Rows(cursor) if fetch.moves => {
                self.pass_rows(cursor, fetch.most, |_, _, _| {}).await?
            }
            State::Rows(cursor) => self.send_rows(cursor, &portal.formats, fetch.most).await?,
            State::Ready | State::Done => 0,
        };
        self.portals.insert(fetch.name.clone(), portal);
        let command = if fetch.moves { "MOVE" } else { "FETCH" };
        self.wire
            .output()
            .complete(&Tag::Counted(command).after(passed));
        Ok(())
    }

    async fn copy_out(&mut self, copy: &CopyOut) -> Result<(), Stop> {
        let session = Arc::clone(&self.session);
        let Outcome::Rows(rows) = self.watched(session.run_statement(&copy.query)).await? else {
            return Err(Fault::new("42P11", "the statement of COPY has no rows").into());
        };
        let fields = fields_of(rows.schema());
        let mut output = CopyOutput::new(copy.layout.clone());
        self.wire
            .output()
            .copy_out(output.is_binary(), fields.len());
        output.put_header(&fields, self.wire.output());
        let mut cursor = Cursor::new(rows);
        let put = |columns: &[Column], row: usize, wire: &mut bytes::BytesMut| {
            output.put_row(columns, row, wire)
        };
        let rows = self.pass_rows(&mut cursor, None, put).await?;
        output.put_end(self.wire.output());
        self.wire
            .output()
            .complete(&Tag::Counted("COPY").after(rows));
        Ok(())
    }

    async fn copy_in(&mut self, copy: &CopyIn) -> Result<(), Stop> {
        let table = self.session.database().table(&copy.table);
        let table = table
            .ok_or_else(|| Fault::new("42P01", format!("table '{}' not found", copy.table)))?;
        let in_transaction = self.session.transaction() != TransactionState::None;
        // Cancelling and `tierra_queries` know of it while it lives.
        let listed = self.session.list(&copy.text);
        let mut target = Target::begin(&table, copy, in_transaction)?;
        self.wire
            .output()
            .copy_in(copy.layout == crate::copy::Layout::Binary, target.columns());
        self.wire.send().await?;
        loop {
            match self.next_of_copy(listed.cancelled()).await? {
                Message::CopyData(data) => {
                    if !self
                        .watched_for(target.push(data), listed.cancelled())
                        .await?
                    {
                        break;
                    }
                }
                Message::CopyDone => break,
                Message::CopyFail(why) => {
                    return Err(
                        Fault::new("57014", format!("COPY from stdin failed: {why}")).into(),
                    );
                }
                // Some clients send them behind Execute.
                Message::Flush | Message::Sync => {}
                Message::Terminate => return Err(Stop::Gone),
                _ => {
                    return Err(
                        Fault::protocol("unexpected message type during COPY from stdin").into(),
                    );
                }
            }
        }
        let rows = match target.finish().await? {
            Loaded::Rows(rows) => rows,
            Loaded::Kept(schema, batches) => self.insert(&copy.table, schema, &batches).await?,
        };
        listed.add_rows(rows);
        drop(listed);
        self.wire
            .output()
            .complete(&Tag::Counted("COPY").after(rows));
        Ok(())
    }

    /// Inserts rows in the open transaction.
    async fn insert(
        &mut self,
        table: &str,
        schema: arrow::datatypes::SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<u64, Stop> {
        let session = Arc::clone(&self.session);
        let name = format!("copy of connection {}", self.key.process);
        session.register(&name, schema, batches)?;
        let sql = format!(
            "INSERT INTO {} SELECT * FROM {}",
            quoted(table),
            quoted(&name)
        );
        let inserted = self.watched(session.sql(&sql)).await;
        session.unregister(&name);
        match inserted? {
            Outcome::Done(done) => Ok(done.rows.unwrap_or(0)),
            Outcome::Rows(_) => Ok(0),
        }
    }
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
