//! A COPY through the connection, from its statement to its tag.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::BytesMut;
use tierra_sql::{Outcome, TransactionState};

use super::options::{CopyIn, CopyOut, Layout, quoted};
use super::output::CopyOutput;
use super::target::{Loaded, Target};
use crate::command::Tag;
use crate::connection::{Connection, Stop};
use crate::error::Fault;
use crate::rows::check_columns;
use crate::statement::Cursor;
use crate::values::column::Column;
use crate::wire::frame::Message;
use crate::wire::messages::Put;

impl Connection {
    pub(crate) async fn copy_out(&mut self, copy: &CopyOut) -> Result<(), Stop> {
        // It does not run before it is known that it has rows.
        let session = Arc::clone(&self.session);
        let query = copy.query.part(0..copy.query.lexemes().len());
        let prepared = self.watched(session.prepare_statement(query, &[])).await?;
        if !prepared.parameters().is_empty() {
            return Err(Fault::new("42P02", "there is no parameter $1").into());
        }
        let no_rows = || Fault::new("42P11", "the statement of COPY has no rows");
        check_columns(prepared.schema().ok_or_else(no_rows)?.fields().len())?;
        let Outcome::Rows(rows) = self.watched(prepared.run(&session, &[])).await? else {
            return Err(no_rows().into());
        };
        let mut cursor = Cursor::new(rows);
        let mut output = CopyOutput::new(copy.layout.clone());
        self.wire
            .output()
            .copy_out(output.is_binary(), cursor.fields.len());
        output.put_header(&cursor.fields, self.wire.output());
        let put = |columns: &[Column], row: usize, wire: &mut BytesMut| {
            output.put_row(columns, row, wire)
        };
        let rows = self.pass_rows(&mut cursor, None, put).await?;
        output.put_end(self.wire.output());
        self.complete(&Tag::Counted("COPY").after(rows));
        Ok(())
    }

    pub(crate) async fn copy_in(&mut self, copy: &CopyIn) -> Result<(), Stop> {
        self.session.check_writable("COPY FROM")?;
        let table = self.session.database().table(&copy.table);
        let table = table
            .ok_or_else(|| Fault::new("42P01", format!("table '{}' not found", copy.table)))?;
        let in_transaction = self.session.transaction() != TransactionState::None;
        // Cancelling and `tierra_queries` know of it while it lives.
        let listed = self.session.list(&copy.text);
        let mut target = Target::begin(&table, copy, in_transaction)?;
        check_columns(target.columns())?;
        self.wire
            .output()
            .copy_in(copy.layout == Layout::Binary, target.columns());
        self.wire.send().await?;
        loop {
            match self.next_of_copy(&listed).await? {
                Message::CopyData(data) => {
                    if !self.watched_for(&listed, target.push(data)).await? {
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
        let stop = target.stop();
        let loaded = self.watched_to_its_end(&listed, &stop, target.finish());
        let rows = match loaded.await? {
            Loaded::Rows(rows) => rows,
            Loaded::Kept(schema, batches) => self.insert(&copy.table, schema, &batches).await?,
        };
        listed.add_rows(rows);
        drop(listed);
        self.complete(&Tag::Counted("COPY").after(rows));
        Ok(())
    }

    /// Inserts rows in the open transaction.
    async fn insert(
        &mut self,
        table: &str,
        schema: SchemaRef,
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
