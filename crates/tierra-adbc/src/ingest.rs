//! Rows for a table: a load, which is there as a whole or not at all, or a part of the open transaction.

use std::sync::atomic::{AtomicU64, Ordering};

use adbc_core::error::{Result, Status};
use adbc_core::options::IngestMode;
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use futures::FutureExt;
use tierra::sql::load::{LoadOptions, LoadTable, assigned, load_streams};
use tierra::sql::{Canceller, Listed, Outcome, Session, SqlError, TransactionState};

use crate::bound;
use crate::columns::{Renamed, places};
use crate::error::{self, not_implemented, state};
use crate::guard::wait;
use crate::objects::is_here;

/// Which table takes the rows.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) table: Option<String>,
    pub(crate) catalog: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) mode: IngestMode,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            table: None,
            catalog: None,
            schema: None,
            mode: IngestMode::Create,
        }
    }
}

/// Puts the rows of `reader` into the table, and returns their number.
pub(crate) fn ingest(
    session: &Session,
    canceller: &Canceller,
    target: &Target,
    reader: Box<dyn RecordBatchReader + Send>,
) -> Result<u64> {
    let Some(name) = &target.table else {
        return Err(state("no table is named"));
    };
    if !is_here(target.catalog.as_deref(), target.schema.as_deref()) {
        return Err(error::new(
            Status::NotFound,
            "3F000",
            "a database of Tierra has one catalog, 'tierra', with one schema, 'public'",
        ));
    }
    let table = session.database().table(name);
    match (target.mode, &table) {
        (IngestMode::Create, Some(_)) => {
            return Err(error::new(
                Status::AlreadyExists,
                "42P07",
                format!("table \"{name}\" already exists"),
            ));
        }
        (IngestMode::Append, None) => {
            return Err(error::new(
                Status::NotFound,
                "42P01",
                format!("table '{name}' not found"),
            ));
        }
        (IngestMode::Replace, Some(_)) => {
            return Err(not_implemented(format!(
                "replacing table '{name}' as a whole or not at all: DROP TABLE or TRUNCATE it, then create or append"
            )));
        }
        _ => {}
    }
    let is_open = session.transaction() != TransactionState::None;
    let Some(table) = table else {
        return match is_open {
            false => load(session, canceller, name, LoadTable::New, reader),
            true => Err(error::new(
                Status::InvalidState,
                "25001",
                format!(
                    "making table '{name}' is not part of a transaction, as CREATE TABLE is not: commit or roll back first"
                ),
            )),
        };
    };
    let schema = table.schema();
    let places = places(name, &schema, &reader.schema())?;
    match is_open || !session.autocommit() {
        true => insert(session, canceller, &schema, &places, name, reader),
        false => {
            let reader = Box::new(Renamed::new(reader, &schema, &places));
            load(session, canceller, name, LoadTable::Existing, reader)
        }
    }
}

/// Rows that are counted, and end once the load is cancelled.
struct Watched {
    rows: Box<dyn RecordBatchReader + Send>,
    listed: Listed,
    canceller: Canceller,
}

impl Iterator for Watched {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.listed.cancelled().now_or_never().is_some() {
            self.canceller.cancel();
            return Some(Err(ArrowError::ExternalError("cancelled".into())));
        }
        let next = self.rows.next();
        if let Some(Ok(batch)) = &next {
            self.listed.add_rows(batch.num_rows() as u64);
        }
        next
    }
}

impl RecordBatchReader for Watched {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// Loads the rows, and commits them.
fn load(
    session: &Session,
    canceller: &Canceller,
    name: &str,
    into: LoadTable,
    rows: Box<dyn RecordBatchReader + Send>,
) -> Result<u64> {
    if session.reads_only() {
        let what = format!("rows for table '{name}'");
        return Err(error::of_sql(&SqlError::Denied { what }));
    }
    let text = format!("LOAD {} (ADBC)", quoted(name));
    let listed = wait(canceller, async { Ok(session.list(&text)) })?;
    let rows = Watched {
        rows,
        listed,
        canceller: canceller.clone(),
    };
    let options = LoadOptions {
        cancel: Some(canceller.flag()),
        table: into,
        ..LoadOptions::default()
    };
    match load_streams(session.database(), name, vec![rows], &options) {
        Ok(report) => Ok(report.rows),
        Err(_) if canceller.flag().load(Ordering::Relaxed) => {
            Err(error::of_sql(&SqlError::Cancelled))
        }
        Err(error) => Err(error::of_sql(&SqlError::from(error))),
    }
}

/// Adds the rows to the open transaction, or to one that begins with them. They become values of the table as those of a load do.
fn insert(
    session: &Session,
    canceller: &Canceller,
    schema: &SchemaRef,
    places: &[usize],
    name: &str,
    rows: Box<dyn RecordBatchReader + Send>,
) -> Result<u64> {
    let source = Source::new(session);
    let text = insert_text(name, &source.name, schema);
    let mut written = 0;
    for batch in rows {
        let batch = batch.map_err(|error| bound::of_arrow(&error));
        let registered = batch.and_then(|batch| {
            let batch = assigned(&batch, schema, places);
            let batch = batch.map_err(|error| error::of_sql(&SqlError::from(error)))?;
            let registered = session.register(&source.name, SchemaRef::clone(schema), &[batch]);
            registered.map_err(|error| error::of_sql(&error))
        });
        if let Err(error) = registered {
            // Rows before these are in the transaction: it must not be committed as if they were all.
            session.fail_transaction();
            return Err(error);
        }
        match wait(canceller, session.sql(&text))? {
            Outcome::Done(done) => written += done.rows.unwrap_or(0),
            Outcome::Rows(_) => {}
        }
    }
    Ok(written)
}

/// The name of a batch among the session's tables. No two at a time are the same: a session may take rows for several tables at once.
struct Source<'a> {
    session: &'a Session,
    name: String,
}

impl<'a> Source<'a> {
    fn new(session: &'a Session) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            session,
            name: format!("rows of the session {} ({number})", session.id()),
        }
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        // There is none before the first batch.
        let _ = self.session.unregister(&self.name);
    }
}

/// `INSERT` of all columns of `source`, which are those of `table`.
fn insert_text(table: &str, source: &str, schema: &Schema) -> String {
    let columns = schema.fields().iter().map(|field| quoted(field.name()));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let (table, source) = (quoted(table), quoted(source));
    format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {source}")
}

/// A name as SQL takes it as it is.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
