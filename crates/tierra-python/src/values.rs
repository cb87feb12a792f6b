//! Values of Arrow arrays as Python's.
//!
//! BOOLEAN is bool, integers are int, DECIMAL is decimal.Decimal with all its digits, DOUBLE is float, DATE date, TIMESTAMP a naive
//! datetime, VARCHAR str, a list a list. NULL is None.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowTemporalType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, DecimalType, DurationMicrosecondType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::array_value_to_string;
use chrono::{DateTime, Utc};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::error::{DataError, NotSupportedError};

/// The value of one row; never asked for a row that is NULL.
type Value = Box<dyn for<'py> Fn(Python<'py>, usize) -> PyResult<Bound<'py, PyAny>> + Send + Sync>;

/// The values of one column.
pub(crate) struct Cells {
    array: ArrayRef,
    value: Value,
}

impl Cells {
    pub(crate) fn new(array: &ArrayRef) -> PyResult<Self> {
        Ok(Self {
            array: array.clone(),
            value: value_of(array)?,
        })
    }

    pub(crate) fn get<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        match self.array.is_null(row) {
            true => Ok(py.None().into_bound(py)),
            false => (self.value)(py, row),
        }
    }
}

/// The rows of one batch, as tuples.
pub(crate) struct Tuples {
    batch: RecordBatch,
    columns: Vec<Cells>,
    next: usize,
}

impl Tuples {
    pub(crate) fn new(batch: &RecordBatch) -> PyResult<Self> {
        let columns = batch.columns().iter().map(Cells::new);
        Ok(Self {
            columns: columns.collect::<PyResult<_>>()?,
            batch: batch.clone(),
            next: 0,
        })
    }

    pub(crate) fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if self.next == self.batch.num_rows() {
            return Ok(None);
        }
        let row = self.next;
        self.next += 1;
        let cells = self.columns.iter().map(|column| column.get(py, row));
        let cells = cells.collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, cells).map(Some)
    }

    /// The rows that were not asked for; `None` if there are none.
    pub(crate) fn rest(&self) -> Option<RecordBatch> {
        let left = self.batch.num_rows() - self.next;
        (left > 0).then(|| self.batch.slice(self.next, left))
    }
}

fn value_of(array: &ArrayRef) -> PyResult<Value> {
    macro_rules! integers {
        ($ty:ty) => {{
            let array = array.as_primitive::<$ty>().clone();
            Box::new(move |py, row| {
                let Ok(value) = array.value(row).into_pyobject(py);
                let value: Bound<'_, PyInt> = value;
                Ok(value.into_any())
            })
        }};
    }
    macro_rules! floats {
        ($ty:ty) => {{
            let array = array.as_primitive::<$ty>().clone();
            Box::new(move |py, row| Ok(PyFloat::new(py, f64::from(array.value(row))).into_any()))
        }};
    }
    macro_rules! texts {
        ($array:expr) => {{
            let array = $array.clone();
            Box::new(move |py, row| Ok(PyString::new(py, array.value(row)).into_any()))
        }};
    }
    macro_rules! bytes {
        ($array:expr) => {{
            let array = $array.clone();
            Box::new(move |py, row| Ok(PyBytes::new(py, array.value(row)).into_any()))
        }};
    }
    macro_rules! lists {
        ($array:expr) => {{
            let array = $array.clone();
            Box::new(move |py, row| list(py, &array.value(row)))
        }};
    }
    Ok(match array.data_type() {
        DataType::Null => Box::new(|py, _| Ok(py.None().into_bound(py))),
        DataType::Boolean => {
            let array = array.as_boolean().clone();
            Box::new(move |py, row| Ok(PyBool::new(py, array.value(row)).to_owned().into_any()))
        }
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float16 => floats!(Float16Type),
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        DataType::Decimal32(..) => decimals::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::Date32 => dates::<Date32Type>(array),
        DataType::Date64 => dates::<Date64Type>(array),
        DataType::Timestamp(_, zone) => timestamps(array, zone.is_some())?,
        DataType::Time32(_) | DataType::Time64(_) => {
            let array = converted(array, &DataType::Time64(TimeUnit::Nanosecond))?;
            let array = array.as_primitive::<Time64NanosecondType>().clone();
            Box::new(move |py, row| {
                let time = array.value_as_time(row).ok_or_else(beyond)?;
                Ok(time.into_pyobject(py)?.into_any())
            })
        }
        DataType::Duration(_) => {
            let array = converted(array, &DataType::Duration(TimeUnit::Microsecond))?;
            let array = array.as_primitive::<DurationMicrosecondType>().clone();
            Box::new(move |py, row| {
                let duration = chrono::TimeDelta::microseconds(array.value(row));
                Ok(duration.into_pyobject(py)?.into_any())
            })
        }
        // A span of months is no timedelta.
        DataType::Interval(_) => {
            let array = array.clone();
            Box::new(move |py, row| {
                let text = array_value_to_string(&array, row);
                let text = text.map_err(|error| DataError::new_err(error.to_string()))?;
                Ok(PyString::new(py, &text).into_any())
            })
        }
        DataType::Utf8 => texts!(array.as_string::<i32>()),
        DataType::LargeUtf8 => texts!(array.as_string::<i64>()),
        DataType::Utf8View => texts!(array.as_string_view()),
        DataType::Binary => bytes!(array.as_binary::<i32>()),
        DataType::LargeBinary => bytes!(array.as_binary::<i64>()),
        DataType::BinaryView => bytes!(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary()),
        DataType::List(_) => lists!(array.as_list::<i32>()),
        DataType::LargeList(_) => lists!(array.as_list::<i64>()),
        DataType::FixedSizeList(..) => lists!(array.as_fixed_size_list()),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(Cells::new);
            let columns = columns.collect::<PyResult<Vec<_>>>()?;
            let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
            Box::new(move |py, row| {
                let values = PyDict::new(py);
                for (name, column) in names.iter().zip(&columns) {
                    values.set_item(name, column.get(py, row)?)?;
                }
                Ok(values.into_any())
            })
        }
        DataType::Map(..) => {
            let array = array.as_map().clone();
            Box::new(move |py, row| list(py, &(std::sync::Arc::new(array.value(row)) as ArrayRef)))
        }
        DataType::Dictionary(_, value) => Cells::new(&converted(array, value)?)?.value,
        other => {
            return Err(NotSupportedError::new_err(format!(
                "values of type {other} have no counterpart in Python: CAST them"
            )));
        }
    })
}

fn list<'py>(py: Python<'py>, items: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let cells = Cells::new(items)?;
    let items = (0..items.len()).map(|row| cells.get(py, row));
    Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn decimals<T: DecimalType>(array: &ArrayRef) -> Value {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let array = array.as_primitive::<T>().clone();
    Box::new(move |py, row| {
        DECIMAL
            .import(py, "decimal", "Decimal")?
            .call1((array.value_as_string(row),))
    })
}

fn dates<T: ArrowTemporalType>(array: &ArrayRef) -> Value
where
    i64: From<T::Native>,
{
    let array = array.as_primitive::<T>().clone();
    Box::new(move |py, row| {
        let date = array.value_as_date(row).ok_or_else(beyond)?;
        Ok(date.into_pyobject(py).map_err(|_| beyond())?.into_any())
    })
}

/// Instants of a time zone are given in UTC.
fn timestamps(array: &ArrayRef, has_zone: bool) -> PyResult<Value> {
    let zone = has_zone.then(|| "+00:00".into());
    let array = converted(array, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    let array = array.as_primitive::<TimestampMicrosecondType>().clone();
    Ok(Box::new(move |py, row| {
        let at = array.value_as_datetime(row).ok_or_else(beyond)?;
        let at = match has_zone {
            true => DateTime::<Utc>::from_naive_utc_and_offset(at, Utc).into_pyobject(py),
            false => at.into_pyobject(py),
        };
        Ok(at.map_err(|_| beyond())?.into_any())
    }))
}

fn converted(array: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    cast(array, to).map_err(|error| DataError::new_err(error.to_string()))
}

fn beyond() -> PyErr {
    DataError::new_err(
        "a date or time beyond those of Python, whose years are 1 to 9999: read it as an Arrow array",
    )
}
