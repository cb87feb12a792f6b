//! The rows of a statement on their way to Python: batch by batch, as they are asked for.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use futures::StreamExt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use tierra::sql::{Rows, Work};

use crate::error::{InterfaceError, of_sql};
use crate::runtime::{OfProcess, runtime, slice};

/// The rows of a statement, which a result and the Arrow streams made of it read together.
pub(crate) struct Reading {
    schema: SchemaRef,
    state: Mutex<OfProcess<State>>,
}

struct State {
    /// `None` once the rows have ended.
    rows: Option<Rows>,
    /// Batches that were looked at and not handed out.
    ahead: VecDeque<RecordBatch>,
    /// Rows handed out.
    rows_read: u64,
    work: Work,
    end: End,
}

/// How the rows ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// They have not, or all were read.
    Whole,
    /// An error, which was raised.
    Failed,
    /// Ctrl-C, or another signal whose handler raises.
    Interrupted,
    /// The connection was closed.
    Closed,
}

impl End {
    fn check(self) -> PyResult<()> {
        match self {
            Self::Whole => Ok(()),
            Self::Failed => Err(InterfaceError::new_err(
                "the query failed: its rows have ended",
            )),
            Self::Interrupted => Err(InterfaceError::new_err(
                "the query was interrupted: its rows have ended",
            )),
            Self::Closed => Err(InterfaceError::new_err("the connection is closed")),
        }
    }
}

/// What one slice of waiting brought.
enum Step {
    Batch,
    End(End),
    Nothing,
}

impl Reading {
    pub(crate) fn new(rows: Rows) -> Self {
        let state = State {
            work: rows.work(),
            rows: Some(rows),
            ahead: VecDeque::new(),
            rows_read: 0,
            end: End::Whole,
        };
        Self {
            schema: state
                .rows
                .as_ref()
                .expect("it was just put there")
                .schema()
                .clone(),
            state: Mutex::new(OfProcess::new(state)),
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn lock(&self) -> MutexGuard<'_, OfProcess<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next rows; `None` at their end.
    ///
    /// # Errors
    /// That of the query, KeyboardInterrupt, or that the connection was closed.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            let next = py.detach(|| {
                let mut state = self.lock();
                let state = state.get_mut();
                let batch = state.ahead.pop_front()?;
                state.rows_read += batch.num_rows() as u64;
                Some(batch)
            });
            if next.is_some() || !self.read_ahead(py)? {
                return Ok(next);
            }
        }
    }

    /// Takes back rows that were handed out last.
    pub(crate) fn put_back(&self, py: Python<'_>, rows: RecordBatch) {
        py.detach(|| {
            let mut state = self.lock();
            let state = state.get_mut();
            state.rows_read -= rows.num_rows() as u64;
            state.ahead.push_front(rows);
        });
    }

    /// At most `most` of the rows that are next, which stay there, and whether there are more.
    ///
    /// # Errors
    /// As [`Reading::next`].
    pub(crate) fn peek(&self, py: Python<'_>, most: usize) -> PyResult<(Vec<RecordBatch>, bool)> {
        loop {
            let ahead =
                || -> Vec<RecordBatch> { self.lock().get().ahead.iter().cloned().collect() };
            let mut ahead = py.detach(ahead);
            let rows: usize = ahead.iter().map(RecordBatch::num_rows).sum();
            if rows <= most && self.read_ahead(py)? {
                continue;
            }
            let mut left = most;
            for batch in &mut ahead {
                let taken = batch.num_rows().min(left);
                *batch = batch.slice(0, taken);
                left -= taken;
            }
            return Ok((ahead, rows > most));
        }
    }

    /// Reads one batch more; `false` if the rows have ended.
    fn read_ahead(&self, py: Python<'_>) -> PyResult<bool> {
        let runtime = runtime()?;
        loop {
            let step = py.detach(|| {
                let mut state = self.lock();
                let state = state.get_mut();
                let Some(rows) = &mut state.rows else {
                    return Ok(Step::End(state.end));
                };
                match slice(runtime, pin!(rows.next())) {
                    None => Ok(Step::Nothing),
                    Some(Some(Ok(batch))) => {
                        state.ahead.push_back(batch);
                        Ok(Step::Batch)
                    }
                    Some(Some(Err(error))) => {
                        state.stop(End::Failed);
                        Err(error)
                    }
                    Some(None) => {
                        state.stop(End::Whole);
                        Ok(Step::End(End::Whole))
                    }
                }
            });
            match step.map_err(of_sql)? {
                Step::Batch => return Ok(true),
                Step::End(end) => return end.check().map(|()| false),
                Step::Nothing => {
                    if let Err(interrupted) = py.check_signals() {
                        py.detach(|| self.lock().get_mut().stop(End::Interrupted));
                        return Err(interrupted);
                    }
                }
            }
        }
    }

    /// The number of rows, once all were read.
    pub(crate) fn count(&self, py: Python<'_>) -> Option<u64> {
        py.detach(|| {
            let state = self.lock();
            let state = state.get();
            let has_ended = state.rows.is_none() && state.ahead.is_empty();
            (has_ended && state.end == End::Whole).then_some(state.rows_read)
        })
    }

    /// The work of the query so far.
    pub(crate) fn work(&self, py: Python<'_>) -> Work {
        py.detach(|| {
            let state = self.lock();
            let state = state.get();
            state.rows.as_ref().map_or(state.work, Rows::work)
        })
    }

    /// Whether a signal ended the rows. Who reads them through an Arrow stream reports that as an error of its own.
    pub(crate) fn was_interrupted(&self, py: Python<'_>) -> bool {
        py.detach(|| self.lock().get().end == End::Interrupted)
    }

    /// Ends the rows with the connection. The thread is detached.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let state = state.get_mut();
        if state.rows.is_some() || !state.ahead.is_empty() {
            state.ahead.clear();
            state.stop(End::Closed);
        }
    }

    /// An Arrow stream of the rows that are left.
    pub(crate) fn capsule<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        requested: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let fields = self.schema.fields().clone();
        let metadata = self.schema.metadata().clone();
        let field = Field::new_struct("", fields, false).with_metadata(metadata);
        let stream = Stream(Arc::clone(self));
        Ok(to_stream_pycapsule(
            py,
            Box::new(ArrayIterator::new(stream, Arc::new(field))),
            requested,
        )?)
    }
}

impl State {
    fn stop(&mut self, end: End) {
        if let Some(rows) = self.rows.take() {
            self.work = rows.work();
        }
        self.end = end;
    }
}

/// The rows as whoever has an Arrow stream asks for them, with the interpreter or without.
struct Stream(Arc<Reading>);

impl Iterator for Stream {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::try_attach(|py| {
            let next = self.0.next(py);
            next.map_err(|error| ArrowError::ExternalError(error.value(py).to_string().into()))
        });
        match next {
            Some(Ok(batch)) => {
                batch.map(|batch| Ok(Arc::new(StructArray::from(batch)) as ArrayRef))
            }
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(ArrowError::ExternalError(
                "the interpreter has ended".into(),
            ))),
        }
    }
}
