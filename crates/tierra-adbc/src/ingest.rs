//! Rows for a table: a load, which is there as a whole or not at all, or a part of the open transaction.

use std::sync::atomic::Ordering;

use adbc_core::error::{Result, Status};
use adbc_core::options::IngestMode;
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::FutureExt;
use tierra::sql::load::{LoadOptions, LoadTable, load_streams};
use tierra::sql::{Canceller, Listed, Outcome, Session, SqlError, TransactionState};

use crate::bound;
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
    let is_there = session.database().table(name).is_some();
    if is_there {
        check_columns(session, name, &reader.schema())?;
    }
    let into = match (target.mode, is_there) {
        (IngestMode::Create, _) | (IngestMode::Replace, false) => LoadTable::New,
        (IngestMode::Append, _) => LoadTable::Existing,
        (IngestMode::CreateAppend, _) => LoadTable::Any,
        (IngestMode::Replace, true) => {
            return Err(not_implemented(format!(
                "replacing table '{name}' as a whole or not at all: DROP TABLE or TRUNCATE it, then create or append"
            )));
        }
    };
    let is_alone = session.autocommit() && session.transaction() == TransactionState::None;
    let is_append = is_there && into != LoadTable::New;
    match (is_alone, is_append, session.transaction()) {
        (true, ..) | (false, false, TransactionState::None) => {
            load(session, canceller, name, into, reader)
        }
        (false, true, _) => insert(session, canceller, name, reader),
        (false, false, _) => Err(error::new(
            Status::InvalidState,
            "25001",
            format!(
                "making table '{name}' is not part of a transaction, as CREATE TABLE is not: commit or roll back first"
            ),
        )),
    }
}

/// Fails if there are columns that the table has not: their values would be lost.
fn check_columns(session: &Session, name: &str, rows: &SchemaRef) -> Result<()> {
    let Some(table) = session.database().table(name) else {
        return Ok(());
    };
    let columns = &table.spec().columns;
    let has = |name: &str| {
        let mut columns = columns.iter();
        columns.any(|column| column.name.eq_ignore_ascii_case(name))
    };
    let mut fields = rows.fields().iter();
    match fields.find(|field| !has(field.name())) {
        None => Ok(()),
        Some(field) => {
            let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
            Err(error::new(
                Status::AlreadyExists,
                "42703",
                format!(
                    "table '{name}' is there and has no column '{}'; its columns are {}",
                    field.name(),
                    names.join(", ")
                ),
            ))
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

/// Adds the rows to the open transaction, or to one that begins with them.
fn insert(
    session: &Session,
    canceller: &Canceller,
    name: &str,
    rows: Box<dyn RecordBatchReader + Send>,
) -> Result<u64> {
    let schema = rows.schema();
    let source = Source {
        session,
        name: format!("rows for the session {}", session.id()),
    };
    let text = insert_text(session, name, &source.name, &schema)?;
    let mut written = 0;
    for batch in rows {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                // Rows before these are in the transaction: it must not be committed as if they were all.
                session.fail_transaction();
                return Err(bound::of_arrow(&error));
            }
        };
        let registered = session.register(&source.name, SchemaRef::clone(&schema), &[batch]);
        registered.map_err(|error| {
            session.fail_transaction();
            error::of_sql(&error)
        })?;
        match wait(canceller, session.sql(&text))? {
            Outcome::Done(done) => written += done.rows.unwrap_or(0),
            Outcome::Rows(_) => {}
        }
    }
    Ok(written)
}

/// The name of a batch among the session's tables.
struct Source<'a> {
    session: &'a Session,
    name: String,
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        // There is none before the first batch.
        let _ = self.session.unregister(&self.name);
    }
}

/// `INSERT`, from columns with the names of the rows into those of the table, which may differ in case.
fn insert_text(session: &Session, table: &str, source: &str, rows: &SchemaRef) -> Result<String> {
    let gone = || {
        error::new(
            Status::NotFound,
            "42P01",
            format!("table '{table}' not found"),
        )
    };
    let spec = session.database().table(table).ok_or_else(gone)?;
    let (mut targets, mut sources) = (Vec::new(), Vec::new());
    for column in &spec.spec().columns {
        let mut names = rows.fields().iter().map(|field| field.name());
        let exact = names.clone().find(|name| *name == &column.name);
        let found = exact.or_else(|| names.find(|name| name.eq_ignore_ascii_case(&column.name)));
        let Some(found) = found else {
            return Err(error::new(
                Status::AlreadyExists,
                "42703",
                format!(
                    "the rows have no column '{}', which table '{table}' needs",
                    column.name
                ),
            ));
        };
        targets.push(quoted(&column.name));
        sources.push(quoted(found));
    }
    Ok(format!(
        "INSERT INTO {} ({}) SELECT {} FROM {}",
        quoted(table),
        targets.join(", "),
        sources.join(", "),
        quoted(source)
    ))
}

/// A name as SQL takes it as it is.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
