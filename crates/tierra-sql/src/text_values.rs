//! Arrays of texts as values of other types, where Arrow's casts are not SQL's.
//!
//! Arrow's cast makes `'1e400'` infinite and `'1e-400'` 0. As in PostgreSQL, and as when a file is read, both are errors here. It refuses
//! dates and times that PostgreSQL reads ([`moments`]), and takes a number without a unit for an interval of months.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Float64Array, IntervalMonthDayNanoArray,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;

use crate::double_text::is_out_of_range;
use crate::moments;
use crate::rules::is_double;

/// What a text is cast to.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    Double,
    Date,
    Timestamp,
    Interval,
}

impl Target {
    /// What texts become where Arrow's cast is not SQL's; `None` for other types.
    pub(crate) fn of(ty: &DataType) -> Option<Self> {
        match ty {
            ty if is_double(ty) => Some(Self::Double),
            DataType::Date32 => Some(Self::Date),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Some(Self::Timestamp),
            DataType::Interval(IntervalUnit::MonthDayNano) => Some(Self::Interval),
            _ => None,
        }
    }
}

/// `texts` as values of type `to`.
///
/// # Errors
/// A text is no value of the type.
pub(crate) fn strict(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let arrow = |texts: &ArrayRef| {
        let checked = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(texts, to, &checked)
    };
    if Target::of(to).is_none() {
        return arrow(texts);
    }
    let values = lenient(texts, to)?;
    let is_refused = |at: &usize| values.is_null(*at) && texts.is_valid(*at);
    let Some(at) = (0..texts.len()).find(is_refused) else {
        return Ok(values);
    };
    // Its error says what is wrong with the text.
    arrow(&texts.slice(at, 1))?;
    let text = array_value_to_string(texts, at)?;
    Err(match Target::of(to) {
        Some(Target::Double) => {
            ArrowError::ArithmeticOverflow(format!("'{text}' is out of the range of DOUBLE"))
        }
        _ => ArrowError::ParseError(format!("'{text}' is no {to}")),
    })
}

/// `texts` as values of type `to`. Texts that are no values of the type become NULL.
///
/// # Errors
/// Arrow casts no texts to the type.
pub(crate) fn lenient(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let views = || cast(texts, &DataType::Utf8View);
    match Target::of(to) {
        None => cast(texts, to),
        Some(Target::Double) => doubles(texts, to),
        Some(Target::Interval) => {
            let texts = views()?;
            let read = |text: Option<&str>| text.and_then(moments::interval);
            let values = texts.as_string_view().iter().map(read);
            Ok(Arc::new(IntervalMonthDayNanoArray::from_iter(values)))
        }
        Some(Target::Date) => {
            let read = cast(texts, to)?;
            if read.null_count() == texts.null_count() {
                return Ok(read);
            }
            let read = read.as_primitive::<Date32Type>();
            let texts = views()?;
            let values = read.iter().zip(texts.as_string_view());
            let values = values.map(|(read, text)| read.or_else(|| text.and_then(moments::date)));
            Ok(Arc::new(values.collect::<Date32Array>()))
        }
        Some(Target::Timestamp) => {
            let read = cast(texts, to)?;
            if read.null_count() == texts.null_count() {
                return Ok(read);
            }
            let read = read.as_primitive::<TimestampMicrosecondType>();
            let texts = views()?;
            let values = read.iter().zip(texts.as_string_view());
            // As Arrow, which heeds an offset.
            let values =
                values.map(|(read, text)| read.or_else(|| text.and_then(moments::in_four_digits)));
            let values: TimestampMicrosecondArray = values.collect();
            Ok(Arc::new(values.with_data_type(to.clone())))
        }
    }
}

fn doubles(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let values = cast(texts, to)?;
    let doubles = cast(&values, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let is_suspect = |value: f64| value == 0.0 || value.is_infinite();
    if !doubles.iter().flatten().any(is_suspect) {
        return Ok(values);
    }
    let texts = cast(texts, &DataType::Utf8View)?;
    let texts: &StringViewArray = texts.as_string_view();
    let is_read = |value: &f64, text: Option<&str>| {
        !is_suspect(*value) || text.is_some_and(|text| !is_out_of_range(text, *value))
    };
    let read = doubles.iter().zip(texts);
    let read = read.map(|(value, text)| value.filter(|value| is_read(value, text)));
    cast(&read.collect::<Float64Array>(), to)
}
