//! Python's values as arguments of statements.
//!
//! A list, a tuple or a set is a list for `= ANY(?)`, and so is an Arrow or NumPy array, which is not copied. Anything else is one
//! value.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Datum, Decimal128Array,
    Decimal256Array, DurationMicrosecondArray, Float64Array, Int64Array, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Date32Type, i256};
use arrow::error::ArrowError;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyFrozenSet, PyInt,
    PyList, PyRange, PySet, PyString, PyTime, PyTuple,
};
use pyo3_arrow::input::AnyArray;
use tierra_adbc::foreign;

use crate::arrow_in;
use crate::error::{DataError, ProgrammingError};

/// One argument.
pub(crate) struct Parameter {
    array: ArrayRef,
    is_list: bool,
}

impl Datum for Parameter {
    fn get(&self) -> (&dyn Array, bool) {
        (&self.array, !self.is_list)
    }
}

impl Parameter {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(items) = list(value)? {
            return Ok(Self {
                array: items,
                is_list: true,
            });
        }
        Ok(Self {
            array: scalar(value)?,
            is_list: false,
        })
    }
}

/// The arguments of a call: a sequence of values; `None` is an empty one.
pub(crate) fn all(values: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Parameter>> {
    let Some(values) = values.filter(|values| !values.is_none()) else {
        return Ok(Vec::new());
    };
    let is_text = values.is_instance_of::<PyString>() || values.is_instance_of::<PyBytes>();
    if is_text || values.is_instance_of::<PyDict>() {
        return Err(ProgrammingError::new_err(
            "parameters are a sequence, one value for each ? or $1, as in execute(sql, (1, 'x'))",
        ));
    }
    let values = values.try_iter().map_err(|_| {
        ProgrammingError::new_err("parameters are a sequence of values, as in execute(sql, (1,))")
    })?;
    values.map(|value| Parameter::of(&value?)).collect()
}

/// The items of a list; `None` if `value` is none.
fn list(value: &Bound<'_, PyAny>) -> PyResult<Option<ArrayRef>> {
    let is_list = value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>()
        || value.is_instance_of::<PyRange>();
    if is_list {
        return items(value).map(Some);
    }
    let is_array = arrow_in::is_rows(value)?
        || value.hasattr("__array_interface__")?
            && value
                .getattr("ndim")
                .is_ok_and(|ndim| ndim.eq(1).unwrap_or(false));
    if !is_array {
        return Ok(None);
    }
    let Ok(array) = value.extract::<AnyArray>() else {
        // NumPy's arrays of objects, texts and dates have no buffer that Arrow knows.
        return items(value).map(Some);
    };
    let chunks = array.into_chunked_array()?;
    let (chunks, field) = chunks.into_inner();
    let checked = chunks.iter().try_for_each(foreign::check);
    checked.map_err(wrong)?;
    let array = match chunks.as_slice() {
        [only] => only.clone(),
        [] => new_null_array(field.data_type(), 0),
        several => {
            let several: Vec<&dyn Array> = several.iter().map(AsRef::as_ref).collect();
            concat(&several).map_err(wrong)?
        }
    };
    // Pandas and polars number repeated texts.
    match array.data_type() {
        DataType::Dictionary(_, value) => cast(&array, value).map(Some).map_err(wrong),
        _ => Ok(Some(array)),
    }
}

/// The values of an iterable as one array.
fn items(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let values: Vec<Bound<'_, PyAny>> = values.try_iter()?.collect::<PyResult<_>>()?;
    // Nearly all lists are of numbers or of texts alone.
    if values
        .iter()
        .all(|value| value.is_exact_instance_of::<PyInt>())
        && let Ok(numbers) = values
            .iter()
            .map(|value| value.extract())
            .collect::<PyResult<Vec<i64>>>()
    {
        return Ok(Arc::new(Int64Array::from(numbers)));
    }
    if values
        .iter()
        .all(|value| value.is_instance_of::<PyString>())
    {
        let texts = values.iter().map(|value| value.extract::<String>());
        return Ok(Arc::new(StringArray::from(
            texts.collect::<PyResult<Vec<_>>>()?,
        )));
    }
    let items = values.iter().map(scalar).collect::<PyResult<Vec<_>>>()?;
    let mut types = items.iter().map(|item| item.data_type());
    let ty = types
        .find(|ty| !ty.is_null())
        .cloned()
        .unwrap_or(DataType::Null);
    let same = items.iter().map(|item| match item.data_type() {
        found if *found == ty => Ok(item.clone()),
        DataType::Null => Ok(new_null_array(&ty, 1)),
        found => Err(DataError::new_err(format!(
            "a list with values of types {ty} and {found}: make them one type"
        ))),
    });
    let same = same.collect::<PyResult<Vec<_>>>()?;
    if same.is_empty() {
        return Ok(new_null_array(&DataType::Null, 0));
    }
    let same: Vec<&dyn Array> = same.iter().map(AsRef::as_ref).collect();
    concat(&same).map_err(wrong)
}

/// One value as an array.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    // The order matters: bool is an int, and a datetime a date.
    if value.is_none() {
        return Ok(new_null_array(&DataType::Null, 1));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Arc::new(BooleanArray::from(vec![value.extract::<bool>()?])));
    }
    if value.is_instance_of::<PyInt>() {
        return integer(value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Arc::new(Float64Array::from(vec![value.extract::<f64>()?])));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Arc::new(StringArray::from(vec![
            value.extract::<String>()?,
        ])));
    }
    if value.is_instance_of::<PyDateTime>() {
        return datetime(value);
    }
    if value.is_instance_of::<PyDate>() {
        let date: NaiveDate = value.extract()?;
        return Ok(Arc::new(Date32Array::from(vec![
            Date32Type::from_naive_date(date),
        ])));
    }
    if value.is_instance_of::<PyTime>() {
        let time: NaiveTime = value.extract()?;
        let seconds = i64::from(time.num_seconds_from_midnight());
        let micros = seconds * 1_000_000 + i64::from(time.nanosecond() / 1_000);
        return Ok(Arc::new(Time64MicrosecondArray::from(vec![micros])));
    }
    if value.is_instance_of::<PyDelta>() {
        let delta: TimeDelta = value.extract()?;
        let micros = delta.num_microseconds().ok_or_else(|| beyond(value))?;
        return Ok(Arc::new(DurationMicrosecondArray::from(vec![micros])));
    }
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        let bytes: Vec<u8> = value.extract()?;
        return Ok(Arc::new(BinaryArray::from(vec![bytes.as_slice()])));
    }
    other(value)
}

/// A value of a class that is not built in.
fn other(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let class = value.get_type();
    let name = class.name()?.to_string();
    let module = class.module()?.to_string();
    match (module.as_str(), name.as_str()) {
        ("decimal", "Decimal") => decimal(value),
        ("uuid", "UUID") => Ok(Arc::new(StringArray::from(vec![value.str()?.to_string()]))),
        // NumPy's own scalars have Python's as `item()`.
        ("numpy", _) if value.hasattr("item")? => {
            let item = value.call_method0("item")?;
            match item.get_type().is(&class) {
                true => Err(unknown(&module, &name)),
                false => scalar(&item),
            }
        }
        ("pandas._libs.missing", "NAType") | ("pandas._libs.tslibs.nattype", "NaTType") => {
            Ok(new_null_array(&DataType::Null, 1))
        }
        _ => Err(unknown(&module, &name)),
    }
}

fn unknown(module: &str, name: &str) -> PyErr {
    ProgrammingError::new_err(format!(
        "{module}.{name} is no type of a parameter: give None, bool, int, float, str, Decimal, date, datetime, or a list or array \
         of these"
    ))
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(number) = value.extract::<i64>() {
        return Ok(Arc::new(Int64Array::from(vec![number])));
    }
    let text = value.str()?.to_string();
    digits(&text, 0, value)
}

/// A number written without a point, `scale` of whose digits follow it.
fn digits(text: &str, scale: usize, value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let count = text
        .trim_start_matches(['-', '+', '0'])
        .len()
        .max(scale)
        .max(1);
    let (Ok(precision), Ok(scale)) = (u8::try_from(count), i8::try_from(scale)) else {
        return Err(beyond(value));
    };
    if precision <= 38
        && let Ok(number) = text.parse::<i128>()
    {
        let array = Decimal128Array::from(vec![number]);
        let array = array
            .with_precision_and_scale(precision, scale)
            .map_err(wrong)?;
        return Ok(Arc::new(array));
    }
    // No column has so many digits, but a comparison may say so.
    match i256::from_string(text) {
        Some(number) if precision <= 76 => {
            let array = Decimal256Array::from(vec![number]);
            let array = array
                .with_precision_and_scale(precision, scale)
                .map_err(wrong)?;
            Ok(Arc::new(array))
        }
        _ => Err(beyond(value)),
    }
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let parts = value.call_method0("as_tuple")?;
    let Ok(exponent) = parts.getattr("exponent")?.extract::<i64>() else {
        return Err(DataError::new_err(format!("{value} is no number")));
    };
    let written: Vec<u8> = parts.getattr("digits")?.extract()?;
    let mut text = String::with_capacity(written.len() + 1);
    if parts.getattr("sign")?.extract::<u8>()? == 1 {
        text.push('-');
    }
    text.extend(written.iter().map(|digit| char::from(b'0' + digit)));
    // More than that is refused below, and must not be written out.
    let zeros = usize::try_from(exponent.max(0)).unwrap_or(usize::MAX);
    if zeros > 76 || exponent < -76 {
        return Err(beyond(value));
    }
    text.extend(std::iter::repeat_n('0', zeros));
    digits(&text, usize::try_from(-exponent.min(0)).unwrap_or(0), value)
}

/// A naive one is a TIMESTAMP. One with a time zone is an instant.
fn datetime(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if value.getattr("tzinfo")?.is_none() {
        let at: NaiveDateTime = value.extract()?;
        let micros = at.and_utc().timestamp_micros();
        return Ok(Arc::new(TimestampMicrosecondArray::from(vec![micros])));
    }
    let utc = value
        .py()
        .import("datetime")?
        .getattr("timezone")?
        .getattr("utc")?;
    let at: DateTime<Utc> = value.call_method1("astimezone", (utc,))?.extract()?;
    let array = TimestampMicrosecondArray::from(vec![at.timestamp_micros()]);
    Ok(Arc::new(array.with_timezone("+00:00")))
}

fn beyond(value: &Bound<'_, PyAny>) -> PyErr {
    DataError::new_err(format!("{value} has more digits than any type of Tierra"))
}

fn wrong(error: ArrowError) -> PyErr {
    DataError::new_err(error.to_string())
}
