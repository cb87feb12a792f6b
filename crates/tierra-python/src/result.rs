//! The result of a statement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::Schema;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use pyo3_arrow::ffi::to_schema_pycapsule;
use tierra::sql::{Done, Outcome};

use crate::error::{InterfaceError, NotSupportedError, of_sql};
use crate::fetch::Reading;
use crate::open::Open;
use crate::runtime::{refuse_fork, wait};
use crate::values::Tuples;
use crate::{show, types};

/// The result of a statement: rows, read as they are asked for, or that it is done.
///
/// Its methods that hand the rows to other libraries are in Python (`_frames.py`).
#[pyclass(frozen, name = "Result", module = "tierra")]
pub(crate) struct Answer {
    open: Arc<Open>,
    /// The statement's text, for `explain`; `None` if it had parameters, or was one of several.
    text: Option<String>,
    body: Body,
    /// The batch whose rows are being fetched one by one.
    current: Mutex<Option<Tuples>>,
}

enum Body {
    Rows(Arc<Reading>),
    Done(Done),
}

impl Answer {
    pub(crate) fn new(open: Arc<Open>, text: Option<String>, outcome: Outcome) -> Self {
        let body = match outcome {
            Outcome::Rows(rows) => {
                let reading = Arc::new(Reading::new(rows));
                open.add(&reading);
                Body::Rows(reading)
            }
            Outcome::Done(done) => Body::Done(done),
        };
        Self {
            open,
            text,
            body,
            current: Mutex::new(None),
        }
    }

    /// Rows written by the statement.
    pub(crate) fn written(&self) -> Option<u64> {
        match &self.body {
            Body::Rows(_) => None,
            Body::Done(done) => done.rows,
        }
    }

    fn rows(&self) -> PyResult<&Arc<Reading>> {
        refuse_fork()?;
        match &self.body {
            Body::Rows(reading) => Ok(reading),
            Body::Done(done) => Err(InterfaceError::new_err(format!(
                "{} has no rows to fetch",
                done.command
            ))),
        }
    }

    fn schema(&self) -> Option<&Schema> {
        match &self.body {
            Body::Rows(reading) => Some(reading.schema()),
            Body::Done(_) => None,
        }
    }

    /// The batch that is being fetched row by row. A call that waits for it is detached.
    fn current(&self, py: Python<'_>) -> MutexGuard<'_, Option<Tuples>> {
        let current = self.current.lock_py_attached(py);
        current.unwrap_or_else(PoisonError::into_inner)
    }

    /// The next row.
    fn next_row<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let reading = self.rows()?;
        let mut current = self.current(py);
        loop {
            if let Some(tuples) = current.as_mut()
                && let Some(row) = tuples.next(py)?
            {
                return Ok(Some(row));
            }
            // The batch is given up before the next one is waited for.
            *current = None;
            match reading.next(py)? {
                None => return Ok(None),
                Some(batch) => *current = Some(Tuples::new(&batch)?),
            }
        }
    }

    /// The rows, with those of a batch that was fetched in part before them.
    fn whole(&self, py: Python<'_>) -> PyResult<&Arc<Reading>> {
        let reading = self.rows()?;
        let current = self.current(py).take();
        if let Some(rest) = current.and_then(|current| current.rest()) {
            reading.put_back(py, rest);
        }
        Ok(reading)
    }

    /// The number of rows, once all were fetched.
    fn count(&self, py: Python<'_>, reading: &Reading) -> Option<u64> {
        let current = self.current(py);
        let is_read = current
            .as_ref()
            .is_none_or(|tuples| tuples.rest().is_none());
        drop(current);
        reading.count(py).filter(|_| is_read)
    }
}

#[pymethods]
impl Answer {
    /// The Arrow C stream of the rows that are left, without a copy.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.whole(py)?.capsule(py, requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.rows()?.schema().as_ref())?)
    }

    /// Whether Ctrl-C ended the rows.
    fn _interrupted(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.rows()?.was_interrupted(py))
    }

    /// The next row, or None at the end.
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.next_row(py)
    }

    /// The next `size` rows, or fewer at the end.
    #[pyo3(signature = (size=1))]
    fn fetchmany<'py>(&self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        while rows.len() < size {
            match self.next_row(py)? {
                Some(row) => rows.append(row)?,
                None => break,
            }
        }
        Ok(rows)
    }

    /// All rows that are left.
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        while let Some(row) = self.next_row(py)? {
            rows.append(row)?;
        }
        Ok(rows)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.next_row(py)
    }

    /// The number of rows, once all were read.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let count = self.count(py, self.rows()?);
        // A TypeError, so that list(result) goes on without.
        let count = count.ok_or_else(|| {
            PyTypeError::new_err("the number of rows is known when all were read")
        })?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn __bool__(&self) -> bool {
        true
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema().map(|schema| schema.fields().iter());
        let names = fields
            .into_iter()
            .flatten()
            .map(|field| field.name().clone());
        names.collect()
    }

    /// The types of the columns, as SQL writes them.
    #[getter]
    fn types(&self) -> Vec<String> {
        let fields = self.schema().map(|schema| schema.fields().iter());
        let types = fields.into_iter().flatten();
        types
            .map(|field| types::name_of(field.data_type()))
            .collect()
    }

    /// PEP 249's seven items for each column; None if the statement has no rows.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(schema) = self.schema() else {
            return Ok(None);
        };
        let columns = schema.fields().iter().map(|field| {
            let ty = types::name_of(field.data_type());
            let digits = types::digits(field.data_type());
            let (precision, scale) = (digits.map(|(all, _)| all), digits.map(|(_, point)| point));
            (
                field.name().clone(),
                ty,
                None::<u32>,
                None::<u32>,
                precision,
                scale,
                field.is_nullable(),
            )
        });
        PyList::new(py, columns.collect::<Vec<_>>()).map(Some)
    }

    /// Rows written; for a query the number of its rows, or -1 before all were read.
    #[getter]
    fn rowcount(&self, py: Python<'_>) -> i64 {
        let count = match &self.body {
            Body::Rows(reading) => self.count(py, reading),
            Body::Done(done) => done.rows,
        };
        count.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// What the query has read so far: bytes from near and far memory and copied into frames, blocks and rows of tails.
    #[getter]
    fn work<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let work = match &self.body {
            Body::Rows(reading) => reading.work(py),
            Body::Done(_) => Default::default(),
        };
        let read = PyDict::new(py);
        read.set_item("bytes_near", work.bytes_near)?;
        read.set_item("bytes_far", work.bytes_far)?;
        read.set_item("bytes_copied", work.bytes_copied)?;
        read.set_item("blocks_read", work.blocks_read)?;
        read.set_item("blocks_skipped", work.blocks_skipped)?;
        read.set_item("blocks_decoded", work.blocks_decoded)?;
        read.set_item("tail_rows", work.tail_rows)?;
        Ok(read)
    }

    /// The plan of the statement.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let Some(text) = &self.text else {
            return Err(NotSupportedError::new_err(
                "explain() of a statement with parameters, or of one of several: write it as one, with its values",
            ));
        };
        let session = self.open.session()?;
        let text = format!("EXPLAIN {text}");
        let plan = wait(py, async { session.query(&text).await })?.map_err(of_sql)?;
        let mut told = String::new();
        for batch in &plan {
            for row in 0..batch.num_rows() {
                let line = arrow::util::display::array_value_to_string(batch.column(1), row);
                told.push_str(&line.unwrap_or_default());
                told.push('\n');
            }
        }
        Ok(told)
    }

    /// Prints the first rows that are left.
    fn show(&self, py: Python<'_>) -> PyResult<()> {
        let text = self.__repr__(py)?;
        py.import("builtins")?.call_method1("print", (text,))?;
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match &self.body {
            Body::Done(done) => Ok(done.to_string()),
            Body::Rows(_) => {
                let reading = self.whole(py)?;
                let (rows, has_more) = reading.peek(py, show::ROWS)?;
                show::text(reading.schema(), &rows, has_more)
            }
        }
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        match &self.body {
            Body::Done(done) => Ok(format!("<p>{done}</p>")),
            Body::Rows(_) => {
                let reading = self.whole(py)?;
                let (rows, has_more) = reading.peek(py, show::ROWS)?;
                show::html(reading.schema(), &rows, has_more)
            }
        }
    }
}
