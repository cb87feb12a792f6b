//! The rows of a statement on their way out, a batch at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use adbc_core::error::{Error, Result, Status};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use futures::StreamExt;
use tierra::sql::{Canceller, Outcome, Prepared, Rows, Session};

use crate::bound::{Argument, Bound};
use crate::error::{code, state};
use crate::guard::{OfProcess, call, wait};

/// Runs a statement once for each row that is bound to it.
pub(crate) struct Runs {
    pub(crate) session: Arc<Session>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) bound: Bound,
}

impl Runs {
    /// The outcome for the next row; `None` if there is no row left.
    pub(crate) fn next(&mut self, canceller: &Canceller) -> Result<Option<Outcome>> {
        let Some(arguments) = self.bound.next()? else {
            return Ok(None);
        };
        let arguments: Vec<_> = arguments.iter().map(Argument::as_datum).collect();
        let run = self.prepared.run(&self.session, &arguments);
        let number = self.bound.taken();
        match wait(canceller, run) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(mut error) if number > 1 => {
                error.message = format!("bound row {number}: {}", error.message);
                Err(error)
            }
            Err(error) => Err(error),
        }
    }
}

/// What is left of a statement's rows.
struct Left {
    canceller: Canceller,
    /// The rows that are read now, and those of runs after them.
    rows: VecDeque<Rows>,
    /// Runs whose rows come last.
    runs: Option<Runs>,
    /// A batch that was read ahead.
    first: Option<RecordBatch>,
    /// Its tables are open as long as rows are left.
    _session: Arc<Session>,
}

/// The rows of a statement. They are computed as they are asked for, a few batches ahead. Dropping it stops the query.
pub(crate) struct Answer {
    schema: SchemaRef,
    left: OfProcess<Option<Left>>,
}

impl Answer {
    /// The rows of `rows`, one after the other, then those of `runs`. The first batch is read: what fails at once is an error that has
    /// a code, which the errors of a stream have not.
    pub(crate) fn new(
        session: Arc<Session>,
        canceller: Canceller,
        schema: SchemaRef,
        rows: VecDeque<Rows>,
        runs: Option<Runs>,
    ) -> Result<Self> {
        check_names(&schema)?;
        let mut answer = Self {
            schema,
            left: OfProcess::new(Some(Left {
                canceller,
                rows,
                runs,
                first: None,
                _session: session,
            })),
        };
        let first = answer.advance()?;
        if let Some(left) = answer.left.get_mut() {
            left.first = first;
        }
        Ok(answer)
    }

    /// No rows of no columns: the answer of what is no query.
    pub(crate) fn nothing() -> Self {
        Self {
            schema: Arc::new(Schema::empty()),
            left: OfProcess::new(None),
        }
    }

    /// The next rows; `None` at their end.
    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        let Some(left) = self.left.get_mut() else {
            return Ok(None);
        };
        let next = left.next(&self.schema);
        if !matches!(next, Ok(Some(_))) {
            *self.left.get_mut() = None;
        }
        next
    }

    /// Reads all rows, and returns their number.
    pub(crate) fn drain(&mut self) -> Result<u64> {
        let mut count = 0;
        while let Some(batch) = self.advance()? {
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }
}

impl Left {
    fn next(&mut self, schema: &Schema) -> Result<Option<RecordBatch>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        loop {
            if let Some(rows) = self.rows.front_mut() {
                let next = async { rows.next().await.transpose() };
                match wait(&self.canceller, next)? {
                    Some(batch) if batch.num_rows() == 0 => continue,
                    Some(batch) => return Ok(Some(batch)),
                    None => drop(self.rows.pop_front()),
                }
                continue;
            }
            let next = match &mut self.runs {
                Some(runs) => runs.next(&self.canceller)?,
                None => None,
            };
            match next {
                None => return Ok(None),
                Some(Outcome::Done(_)) => {}
                Some(Outcome::Rows(rows)) => {
                    check_same(schema, rows.schema())?;
                    self.rows.push_back(rows);
                }
            }
        }
    }
}

/// Fails if rows are not of the stream's types.
pub(crate) fn check_same(stream: &Schema, rows: &Schema) -> Result<()> {
    let types = |schema: &Schema| -> Vec<_> {
        let fields = schema.fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    match types(stream) == types(rows) {
        true => Ok(()),
        false => Err(state(
            "the rows for one of the bound rows have other types than those for the first: cast them in the statement",
        )),
    }
}

/// In C a zero would end a name, and nothing could be said about it.
pub(crate) fn check_names(schema: &Schema) -> Result<()> {
    let mut names = schema.fields().iter().map(|field| field.name());
    match names.find(|name| name.contains('\0')) {
        None => Ok(()),
        Some(name) => Err(state(format!(
            "the column {name:?} has a zero in its name: give it another with AS"
        ))),
    }
}

impl Iterator for Answer {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = call(|| self.advance());
        next.map_err(|error| of_stream(&error)).transpose()
    }
}

impl RecordBatchReader for Answer {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// An error in the middle of a stream, which has a number of the system and a text.
fn of_stream(error: &Error) -> ArrowError {
    let text = match code(error) {
        Some(code) => format!("{} (SQLSTATE {code})", error.message),
        None => error.message.clone(),
    };
    match error.status {
        Status::NotImplemented => ArrowError::NotYetImplemented(text),
        Status::IO if code(error).as_deref() == Some("53200") => ArrowError::MemoryError(text),
        // Of the system's numbers that Arrow tells, it is the one that does not blame the caller.
        Status::IO | Status::Cancelled => {
            ArrowError::IoError(text, std::io::ErrorKind::Other.into())
        }
        _ => ArrowError::ExternalError(text.into()),
    }
}
