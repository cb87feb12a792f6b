//! A prepared statement: planned once, called with its arguments.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::to_schema_pycapsule;
use tierra::arrow::array::Datum;
use tierra::sql;

use crate::error::{InterfaceError, of_sql};
use crate::open::Open;
use crate::parameters;
use crate::result::Answer;
use crate::runtime::{OfProcess, wait};
use crate::types;

/// A statement that was planned once. Call it with one argument for each parameter.
#[pyclass(frozen, module = "tierra")]
pub(crate) struct Prepared {
    open: Arc<Open>,
    prepared: OfProcess<sql::Prepared>,
}

impl Prepared {
    pub(crate) fn new(py: Python<'_>, open: Arc<Open>, text: &str) -> PyResult<Self> {
        let session = open.session()?;
        let prepared = wait(py, async { session.prepare(text).await })?.map_err(of_sql)?;
        Ok(Self {
            open,
            prepared: OfProcess::new(prepared),
        })
    }

    /// Runs it with these arguments.
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        arguments: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Answer> {
        let session = self.open.session()?;
        let arguments = parameters::all(arguments)?;
        let arguments: Vec<&dyn Datum> = arguments.iter().map(|one| one as &dyn Datum).collect();
        let outcome = self.prepared.get().run(&session, &arguments);
        let outcome = wait(py, outcome)?.map_err(of_sql)?;
        Ok(Answer::new(Arc::clone(&self.open), None, outcome))
    }
}

#[pymethods]
impl Prepared {
    #[pyo3(signature = (*arguments))]
    fn __call__(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<Answer> {
        self.run(py, Some(arguments.as_any()))
    }

    /// The types of the parameters, as SQL writes them; NULL where any type will do.
    #[getter]
    fn parameters(&self) -> Vec<String> {
        self.prepared
            .get()
            .parameters()
            .iter()
            .map(types::name_of)
            .collect()
    }

    /// Names and types of the columns; None if the statement is no query.
    #[getter]
    fn schema(&self) -> Option<Vec<(String, String)>> {
        let schema = self.prepared.get().schema()?;
        let columns = schema.fields().iter();
        let columns =
            columns.map(|field| (field.name().clone(), types::name_of(field.data_type())));
        Some(columns.collect())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        match self.prepared.get().schema() {
            Some(schema) => Ok(to_schema_pycapsule(py, schema.as_ref())?),
            None => Err(InterfaceError::new_err("the statement is no query")),
        }
    }

    fn __repr__(&self) -> String {
        let prepared = self.prepared.get();
        format!("<tierra.Prepared {}>", prepared.text())
    }
}
