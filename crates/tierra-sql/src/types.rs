//! Maps SQL's and Arrow's types to Tierra's eight, and converts values.
//!
//! A declared type that would be stored wider than it says is refused. Narrow integers of files are widened; unsigned and zoned
//! types are converted with a check. Any other value is an error: a conversion never yields NULL for a value that was not NULL.
//! Values of files and streams are assigned to columns as INSERT assigns them.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Float64Type,
    Schema, SchemaRef, TimeUnit,
};
use arrow::error::ArrowError;
use datafusion::sql::sqlparser::ast;
use tierra_column::LogicalType;

use crate::error::DefinitionError;
use crate::text_values::strict;

/// Digits, and digits after the point, of a `DECIMAL` without parameters.
const DEFAULT_DECIMAL: (u8, u8) = (38, 10);
/// Digits of a second's fraction that a TIMESTAMP keeps.
const MICROSECONDS: u64 = 6;
/// The most digits that 16 bytes hold.
const MAX_PRECISION: u8 = 38;

/// The column type for a type in CREATE TABLE.
pub(crate) fn from_sql(column: &str, ty: &ast::DataType) -> Result<LogicalType, DefinitionError> {
    use ast::DataType as Sql;
    Ok(match ty {
        Sql::Boolean | Sql::Bool => LogicalType::Boolean,
        Sql::Int(_) | Sql::Int4(_) | Sql::Integer(_) | Sql::Int32 => LogicalType::Integer,
        Sql::BigInt(_) | Sql::Int8(_) | Sql::Int64 => LogicalType::BigInt,
        Sql::Decimal(info) | Sql::Numeric(info) | Sql::Dec(info) => decimal(column, info)?,
        Sql::Real
        | Sql::Float(_)
        | Sql::Float4
        | Sql::Float8
        | Sql::Float64
        | Sql::Double(_)
        | Sql::DoublePrecision => LogicalType::Double,
        Sql::Date => LogicalType::Date,
        Sql::Timestamp(
            None | Some(MICROSECONDS),
            ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone,
        )
        | Sql::Datetime(None | Some(MICROSECONDS)) => LogicalType::Timestamp,
        Sql::Varchar(None)
        | Sql::CharVarying(None)
        | Sql::CharacterVarying(None)
        | Sql::Nvarchar(None)
        | Sql::Text
        | Sql::String(None) => LogicalType::Varchar,
        other => {
            // A type that would be stored wider, without its limit, is refused.
            if let Some(instead) = wider(other) {
                return Err(DefinitionError::UnenforcedType {
                    column: column.to_string(),
                    ty: other.to_string(),
                    instead,
                });
            }
            return Err(DefinitionError::UnsupportedType {
                column: column.to_string(),
                ty: other.to_string(),
            });
        }
    })
}

/// The type to use instead of one whose limit is not enforced.
fn wider(ty: &ast::DataType) -> Option<LogicalType> {
    use ast::DataType as Sql;
    match ty {
        Sql::TinyInt(_) | Sql::SmallInt(_) | Sql::Int2(_) => Some(LogicalType::Integer),
        Sql::Timestamp(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone)
        | Sql::Datetime(_) => Some(LogicalType::Timestamp),
        Sql::Varchar(_)
        | Sql::CharVarying(_)
        | Sql::CharacterVarying(_)
        | Sql::Char(_)
        | Sql::Character(_)
        | Sql::Nvarchar(_)
        | Sql::String(_) => Some(LogicalType::Varchar),
        _ => None,
    }
}

fn decimal(column: &str, info: &ast::ExactNumberInfo) -> Result<LogicalType, DefinitionError> {
    let (precision, scale) = match *info {
        ast::ExactNumberInfo::None => (i64::from(DEFAULT_DECIMAL.0), i64::from(DEFAULT_DECIMAL.1)),
        ast::ExactNumberInfo::Precision(p) => (i64::try_from(p).unwrap_or(i64::MAX), 0),
        ast::ExactNumberInfo::PrecisionAndScale(p, s) => (i64::try_from(p).unwrap_or(i64::MAX), s),
    };
    let fits =
        (1..=i64::from(MAX_PRECISION)).contains(&precision) && (0..=precision).contains(&scale);
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if fits => Ok(LogicalType::Decimal { precision, scale }),
        _ => Err(DefinitionError::DecimalBounds {
            column: column.to_string(),
            precision,
            scale,
        }),
    }
}

/// The column type that stores values of an Arrow type.
pub(crate) fn from_arrow(column: &str, ty: &DataType) -> Result<LogicalType, DefinitionError> {
    Ok(match ty {
        DataType::Boolean => LogicalType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            LogicalType::Integer
        }
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => LogicalType::BigInt,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => LogicalType::Double,
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s)
            if *p <= MAX_PRECISION && (0..=*p as i8).contains(s) =>
        {
            LogicalType::Decimal {
                precision: *p,
                scale: s.unsigned_abs(),
            }
        }
        DataType::Date32 | DataType::Date64 => LogicalType::Date,
        DataType::Timestamp(_, _) => LogicalType::Timestamp,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => LogicalType::Varchar,
        DataType::Dictionary(_, values) => from_arrow(column, values)?,
        other => {
            return Err(DefinitionError::UnsupportedType {
                column: column.to_string(),
                ty: other.to_string(),
            });
        }
    })
}

/// `array` as `to`; an error if a value would be lost.
pub(crate) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(ArrayRef::clone(array));
    }
    let checked = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    // A timestamp with a zone keeps its instant, in UTC.
    if let DataType::Timestamp(unit, Some(_)) = array.data_type() {
        let plain = DataType::Timestamp(*unit, None);
        let utc = cast_with_options(
            array,
            &DataType::Timestamp(*unit, Some("UTC".into())),
            &checked,
        )?;
        let plain = cast_with_options(&utc, &plain, &checked)?;
        return convert(&plain, to);
    }
    // Nanoseconds are rounded down to microseconds. The truncation of a cast would move instants before 1970 towards it.
    if let (
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ) = (array.data_type(), to)
    {
        use arrow::datatypes::{TimestampMicrosecondType, TimestampNanosecondType};
        let nanoseconds = array.as_primitive::<TimestampNanosecondType>();
        let micros = nanoseconds.unary::<_, TimestampMicrosecondType>(|ns| ns.div_euclid(1_000));
        return Ok(std::sync::Arc::new(micros));
    }
    match array.data_type().is_string() {
        true => strict(array, to),
        false => cast_with_options(array, to, &checked),
    }
}

/// Whether values of type `from` are assigned to a column of type `to`: the rule of INSERT for values that are no literals.
pub(crate) fn is_assigned(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Dictionary, Null, Timestamp, Utf8View};
    match (from, to) {
        (Dictionary(_, values), _) => is_assigned(values, to),
        (Null, _) | (_, Utf8View) => true,
        (Date32 | Date64 | Timestamp(_, _), Date32 | Timestamp(_, _)) => true,
        _ => from == to || from.is_numeric() && to.is_numeric(),
    }
}

/// `array` as values of a column of type `to`: numbers are rounded half away from zero. An error if a value does not fit, or
/// if the types need a cast.
pub(crate) fn assign(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let from = array.data_type();
    match to {
        _ if from == to => Ok(ArrayRef::clone(array)),
        _ if !is_assigned(from, to) => Err(ArrowError::CastError(format!(
            "it is {} but the values are {}: cast them",
            name_of(to),
            name_of(from)
        ))),
        DataType::Int32 | DataType::Int64 => convert(&rounded(array)?, to),
        _ => convert(array, to),
    }
}

/// Numbers rounded to integers, half away from zero: a cast of doubles to integers truncates.
fn rounded(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float16, Float32, Float64};
    let checked = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let from = match array.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        ty => ty,
    };
    let whole = match from {
        Float16 | Float32 | Float64 => {
            let doubles = cast_with_options(array, &Float64, &checked)?;
            let doubles = doubles.as_primitive::<Float64Type>();
            return Ok(std::sync::Arc::new(
                doubles.unary::<_, Float64Type>(f64::round),
            ));
        }
        Decimal32(_, 1..) | Decimal64(_, 1..) | Decimal128(_, 1..) => {
            Decimal128(DECIMAL128_MAX_PRECISION, 0)
        }
        Decimal256(_, 1..) => Decimal256(DECIMAL256_MAX_PRECISION, 0),
        _ => return Ok(ArrayRef::clone(array)),
    };
    cast_with_options(array, &whole, &checked)
}

/// The first column of `schema` that may not be NULL and is, somewhere in `batch`; `source[i]` is the index of column `i`.
pub(crate) fn null_column<'a>(
    batch: &RecordBatch,
    schema: &'a Schema,
    source: &[usize],
) -> Option<&'a Field> {
    let mut fields = schema.fields().iter().zip(source);
    let lacks_value = |(field, place): &(&FieldRef, &usize)| {
        !field.is_nullable() && batch.column(**place).logical_null_count() > 0
    };
    fields.find(lacks_value).map(|(field, _)| field.as_ref())
}

/// `batch`, of which [`null_column`] found none, with its columns in the order and types of `schema`; `source[i]` is the index of
/// column `i`. The error names the column.
pub(crate) fn conform(
    batch: &RecordBatch,
    schema: &SchemaRef,
    source: &[usize],
) -> Result<RecordBatch, ColumnError> {
    let mut columns = Vec::with_capacity(source.len());
    for (field, &place) in schema.fields().iter().zip(source) {
        let array = batch.column(place);
        let array = assign(array, field.data_type()).map_err(|error| ColumnError {
            column: field.name().clone(),
            message: text(&error),
        })?;
        columns.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options).map_err(
        |error| ColumnError {
            column: String::new(),
            message: text(&error),
        },
    )
}

/// A value that does not fit the type of its column.
#[derive(Debug)]
pub(crate) struct ColumnError {
    pub(crate) column: String,
    pub(crate) message: String,
}

/// Arrow's message without its prefix.
pub(crate) fn text(error: &ArrowError) -> String {
    match error {
        ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::InvalidArgumentError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The type of a table's column.
pub(crate) fn logical_type(schema: &SchemaRef, column: usize) -> LogicalType {
    LogicalType::of_arrow(schema.field(column).data_type())
        .expect("a table's schema has only the types of columns")
}

/// SQL's name of a type, if it has one.
pub(crate) fn name_of(ty: &DataType) -> String {
    from_arrow("", ty).map_or_else(|_| ty.to_string(), |ty| ty.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int8Array,
        Int64Array, StringArray, TimestampNanosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Int8Type, Int32Type, Int64Type, TimestampMicrosecondType};
    use std::sync::Arc;

    #[test]
    fn narrow_types_widen_and_wide_ones_are_checked() {
        let narrow: ArrayRef = Arc::new(Int8Array::from(vec![Some(-128), None]));
        let wide = convert(&narrow, &DataType::Int32).unwrap();
        assert_eq!(wide.as_primitive::<Int32Type>().value(0), -128);
        assert!(wide.is_null(1));
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        assert!(convert(&unsigned, &DataType::Int64).is_err());
    }

    #[test]
    fn nanoseconds_before_1970_round_down() {
        let ns: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1, 1_999]));
        let us = convert(&ns, &DataType::Timestamp(TimeUnit::Microsecond, None)).unwrap();
        assert_eq!(
            us.as_primitive::<TimestampMicrosecondType>().values(),
            &[-1, 1]
        );
    }

    #[test]
    fn numbers_are_rounded_half_away_from_zero() {
        let doubles = Float64Array::from(vec![1.5, 2.5, -1.5, -2.5, 2.4, 0.49999999999999994]);
        let expected = [2, 3, -2, -3, 2, 0];
        let decimals = Decimal128Array::from(vec![15, 25, -15, -25, 24, 4]);
        let decimals = decimals.with_precision_and_scale(9, 1).unwrap();
        let values = Arc::new(doubles.clone()) as ArrayRef;
        let keys = Int8Array::from_iter_values(0..6);
        let coded = DictionaryArray::<Int8Type>::new(keys, values);
        for numbers in [
            Arc::new(doubles) as ArrayRef,
            Arc::new(decimals),
            Arc::new(coded),
        ] {
            let whole = assign(&numbers, &DataType::Int64).unwrap();
            assert_eq!(whole.as_primitive::<Int64Type>().values(), &expected);
        }
        for lost in [f64::NAN, 1e300, 2147483647.5] {
            let lost: ArrayRef = Arc::new(Float64Array::from(vec![lost]));
            assign(&lost, &DataType::Int32).unwrap_err();
        }
    }

    #[test]
    fn what_needs_a_cast_is_refused() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let truths: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
        for (values, to) in [
            (&texts, LogicalType::Integer),
            (&texts, LogicalType::Date),
            (&numbers, LogicalType::Boolean),
            (&numbers, LogicalType::Timestamp),
            (&truths, LogicalType::BigInt),
        ] {
            let error = assign(values, &to.arrow()).unwrap_err().to_string();
            assert!(error.contains("cast them"), "{error}");
        }
        for values in [&texts, &numbers, &truths] {
            assign(values, &LogicalType::Varchar.arrow()).unwrap();
        }
        let halves: ArrayRef = Arc::new(Float32Array::from(vec![0.5]));
        assign(&halves, &LogicalType::Double.arrow()).unwrap();
    }
}
