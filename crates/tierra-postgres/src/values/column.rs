//! A column of a batch, ready to be written value by value as text or binary.
//!
//! Arrow has several types for one of PostgreSQL's. They are brought to one of these first, a batch at a time.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array,
    Int16Array, Int32Array, Int64Array, ListArray, PrimitiveArray, RecordBatch, StringArray,
    StringViewArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{BufMut, BytesMut};
use tierra_catalog::{Answer, Cell};
use tierra_sql::moment_texts;

use super::number::{Decimal, put_float};
use super::{Format, array, moment, oid, oid_of};
use crate::error::Fault;

/// The values of a column.
pub(crate) enum Column {
    Null,
    Boolean(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    Float4(PrimitiveArray<Float32Type>),
    Float8(PrimitiveArray<Float64Type>),
    Decimal128(Decimal128Array, i8),
    Decimal256(Decimal256Array, i8),
    Date(PrimitiveArray<Date32Type>),
    Time(PrimitiveArray<Time64MicrosecondType>),
    Timestamp(PrimitiveArray<TimestampMicrosecondType>, bool),
    Interval(PrimitiveArray<IntervalMonthDayNanoType>),
    Text(StringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
    /// Values of the system catalog, which are written already.
    Cells(Vec<Option<Cell>>),
    List {
        lists: ListArray,
        items: Box<Column>,
        /// The type of the items, unless the lists are sent as text.
        item_oid: Option<u32>,
    },
}

impl Column {
    /// The columns of a batch.
    ///
    /// # Errors
    /// If a value cannot be brought to the type that PostgreSQL has for it.
    pub(crate) fn all(batch: &RecordBatch) -> Result<Vec<Self>, Fault> {
        batch.columns().iter().map(Self::of).collect()
    }

    /// The columns of rows of the system catalog.
    pub(crate) fn of_answer(answer: Answer, count: usize) -> Vec<Self> {
        let mut columns: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        for row in answer.rows {
            for (column, cell) in columns.iter_mut().zip(row) {
                column.push(cell);
            }
        }
        columns.into_iter().map(Self::Cells).collect()
    }

    pub(super) fn of(array: &ArrayRef) -> Result<Self, Fault> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(array.as_boolean().clone()),
            DataType::Int16 => Self::Int2(array.as_primitive().clone()),
            DataType::Int32 => Self::Int4(array.as_primitive().clone()),
            DataType::Int64 => Self::Int8(array.as_primitive().clone()),
            DataType::Float32 => Self::Float4(array.as_primitive().clone()),
            DataType::Float64 => Self::Float8(array.as_primitive().clone()),
            DataType::Decimal128(_, scale) => {
                Self::Decimal128(array.as_primitive().clone(), *scale)
            }
            DataType::Decimal256(_, scale) => {
                Self::Decimal256(array.as_primitive().clone(), *scale)
            }
            DataType::Date32 => Self::Date(array.as_primitive().clone()),
            DataType::Time64(TimeUnit::Microsecond) => Self::Time(array.as_primitive().clone()),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                Self::Timestamp(array.as_primitive().clone(), zone.is_some())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Self::Interval(array.as_primitive().clone())
            }
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            DataType::Utf8View => Self::TextView(array.as_string_view().clone()),
            DataType::Binary => Self::Bytes(array.as_binary().clone()),
            DataType::List(item) => Self::List {
                item_oid: match oid_of(array.data_type()) {
                    oid::TEXT => None,
                    _ => Some(oid_of(item.data_type())),
                },
                items: Box::new(Self::of(array.as_list::<i32>().values())?),
                lists: array.as_list().clone(),
            },
            DataType::Duration(unit) => Self::Interval(intervals(array, *unit)?),
            other => match one_of_these(other) {
                Some(ty) => {
                    // Otherwise what is out of range becomes NULL.
                    let options = CastOptions {
                        safe: false,
                        ..CastOptions::default()
                    };
                    let cast = cast_with_options(array, &ty, &options);
                    return Self::of(&cast.map_err(|error| beyond(&error))?);
                }
                None => {
                    let shown = shown(array);
                    Self::Text(shown.map_err(|error| Fault::new("XX000", error.to_string()))?)
                }
            },
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Boolean(values) => values.is_null(row),
            Self::Int2(values) => values.is_null(row),
            Self::Int4(values) => values.is_null(row),
            Self::Int8(values) => values.is_null(row),
            Self::Float4(values) => values.is_null(row),
            Self::Float8(values) => values.is_null(row),
            Self::Decimal128(values, _) => values.is_null(row),
            Self::Decimal256(values, _) => values.is_null(row),
            Self::Date(values) => values.is_null(row),
            Self::Time(values) => values.is_null(row),
            Self::Timestamp(values, _) => values.is_null(row),
            Self::Interval(values) => values.is_null(row),
            Self::Text(values) => values.is_null(row),
            Self::TextView(values) => values.is_null(row),
            Self::Bytes(values) => values.is_null(row),
            Self::Cells(values) => values[row].is_none(),
            Self::List { lists, .. } => lists.is_null(row),
        }
    }

    /// Writes a value with its length before it; -1 for NULL.
    #[inline]
    pub(crate) fn put(&self, row: usize, format: Format, output: &mut BytesMut) {
        if self.is_null(row) {
            return output.put_i32(-1);
        }
        let start = output.len();
        output.put_i32(0);
        match format {
            Format::Text => self.put_text(row, output),
            Format::Binary => self.put_binary(row, output),
        }
        let len = (output.len() - start - 4) as u32;
        output[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// Writes a value as text; `false` for NULL.
    pub(crate) fn put_text_or_null(&self, row: usize, output: &mut BytesMut) -> bool {
        if self.is_null(row) {
            return false;
        }
        self.put_text(row, output);
        true
    }

    fn put_text(&self, row: usize, output: &mut BytesMut) {
        match self {
            Self::Null => {}
            Self::Cells(values) => {
                let text = values[row].as_ref().map(|cell| cell.text.as_bytes());
                output.put_slice(text.unwrap_or_default());
            }
            Self::Boolean(values) => output.put_u8(if values.value(row) { b't' } else { b'f' }),
            Self::Int2(values) => put_integer(values.value(row), output),
            Self::Int4(values) => put_integer(values.value(row), output),
            Self::Int8(values) => put_integer(values.value(row), output),
            Self::Float4(values) => put_float(values.value(row), output),
            Self::Float8(values) => put_float(values.value(row), output),
            Self::Decimal128(values, scale) => {
                Decimal::of_128(values.value(row), *scale, |decimal| {
                    decimal.put_text(output)
                });
            }
            Self::Decimal256(values, scale) => {
                Decimal::of_256(values.value(row), *scale, |decimal| {
                    decimal.put_text(output)
                });
            }
            Self::Date(values) => moment_texts::put_date(values.value(row), output),
            Self::Time(values) => moment_texts::put_time(values.value(row), output),
            Self::Timestamp(values, is_instant) => {
                moment_texts::put_timestamp(values.value(row), *is_instant, output);
            }
            Self::Interval(values) => moment_texts::put_interval(values.value(row), output),
            Self::Text(values) => output.put_slice(values.value(row).as_bytes()),
            Self::TextView(values) => output.put_slice(values.value(row).as_bytes()),
            Self::Bytes(values) => {
                output.put_slice(b"\\x");
                for byte in values.value(row) {
                    for half in [byte >> 4, byte & 15] {
                        output.put_u8(b"0123456789abcdef"[usize::from(half)]);
                    }
                }
            }
            Self::List { lists, items, .. } => {
                let offsets = lists.value_offsets();
                array::put_text(
                    items,
                    offsets[row] as usize..offsets[row + 1] as usize,
                    output,
                );
            }
        }
    }

    fn put_binary(&self, row: usize, output: &mut BytesMut) {
        match self {
            Self::Null => {}
            Self::Cells(values) => {
                let binary = values[row].as_ref().map(|cell| cell.binary.as_slice());
                output.put_slice(binary.unwrap_or_default());
            }
            Self::Boolean(values) => output.put_u8(values.value(row).into()),
            Self::Int2(values) => output.put_i16(values.value(row)),
            Self::Int4(values) => output.put_i32(values.value(row)),
            Self::Int8(values) => output.put_i64(values.value(row)),
            Self::Float4(values) => output.put_f32(values.value(row)),
            Self::Float8(values) => output.put_f64(values.value(row)),
            Self::Decimal128(values, scale) => {
                Decimal::of_128(values.value(row), *scale, |decimal| {
                    decimal.put_binary(output)
                });
            }
            Self::Decimal256(values, scale) => {
                Decimal::of_256(values.value(row), *scale, |decimal| {
                    decimal.put_binary(output)
                });
            }
            Self::Date(values) => {
                output.put_i32(values.value(row).saturating_sub(moment::EPOCH_DAYS));
            }
            Self::Time(values) => output.put_i64(values.value(row)),
            Self::Timestamp(values, _) => {
                output.put_i64(values.value(row).saturating_sub(moment::EPOCH_US));
            }
            Self::Interval(values) => {
                let value = values.value(row);
                output.put_i64(value.nanoseconds / 1_000);
                output.put_i32(value.days);
                output.put_i32(value.months);
            }
            Self::Bytes(values) => output.put_slice(values.value(row)),
            Self::List {
                lists,
                items,
                item_oid: Some(oid),
            } => {
                let offsets = lists.value_offsets();
                let rows = offsets[row] as usize..offsets[row + 1] as usize;
                array::put_binary(items, rows, *oid, output);
            }
            Self::Text(_) | Self::TextView(_) | Self::List { .. } => self.put_text(row, output),
        }
    }

    /// Whether a value is NULL, of a list's items.
    pub(super) fn has_null(&self, mut rows: std::ops::Range<usize>) -> bool {
        rows.any(|row| self.is_null(row))
    }
}

fn put_integer(value: impl itoa::Integer, output: &mut BytesMut) {
    output.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The type above that has all values of `ty`.
fn one_of_these(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::LargeUtf8 => DataType::Utf8View,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => DataType::List(Arc::clone(item)),
        _ => return None,
    })
}

/// A value that the type on the wire does not have: types have all values of those that become them, except moments.
fn beyond(error: &ArrowError) -> Fault {
    Fault::new("22008", format!("timestamp out of range: {error}"))
}

/// Spans of time as intervals, with whole days of their own: as PostgreSQL has the difference of two timestamps.
fn intervals(
    array: &ArrayRef,
    unit: TimeUnit,
) -> Result<PrimitiveArray<IntervalMonthDayNanoType>, Fault> {
    let (in_a_second, ns) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    let day = 86_400 * in_a_second;
    let spans = cast(array, &DataType::Int64).map_err(|error| beyond(&error))?;
    let spans: &PrimitiveArray<Int64Type> = spans.as_primitive();
    spans.try_unary(|span| {
        let days = i32::try_from(span / day);
        let days = days.map_err(|_| Fault::new("22008", "interval out of range"))?;
        Ok(IntervalMonthDayNano::new(0, days, span % day * ns))
    })
}

/// Values of a type that PostgreSQL does not have, as texts.
fn shown(array: &ArrayRef) -> Result<StringArray, ArrowError> {
    let options = FormatOptions::default().with_display_error(false);
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let texts = (0..array.len()).map(|row| match array.is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some),
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        DurationMicrosecondArray, DurationMillisecondArray, DurationSecondArray, Int8Array,
        ListArray, StructArray, TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::{Field, Int32Type};

    fn texts(array: impl Array + 'static) -> Vec<Option<String>> {
        let array: ArrayRef = Arc::new(array);
        let column = Column::of(&array).unwrap();
        let rows = 0..array.len();
        rows.map(|row| {
            let mut output = BytesMut::new();
            let is_there = column.put_text_or_null(row, &mut output);
            is_there.then(|| String::from_utf8(output.to_vec()).unwrap())
        })
        .collect()
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn types_that_postgresql_lacks_become_wider_ones() {
        assert_eq!(
            texts(Int8Array::from(vec![Some(-128), None])),
            [Some("-128".to_owned()), None]
        );
        assert_eq!(
            texts(UInt64Array::from(vec![u64::MAX])),
            some(&["18446744073709551615"])
        );
        assert_eq!(
            texts(DurationMillisecondArray::from(vec![1_500])),
            some(&["00:00:01.5"])
        );
        let field = Arc::new(Field::new("a", DataType::Int8, true));
        let inner: ArrayRef = Arc::new(Int8Array::from(vec![1]));
        assert_eq!(
            texts(StructArray::from(vec![(field, inner)])),
            some(&["{a: 1}"])
        );
    }

    #[test]
    fn spans_of_time_have_days() {
        let hour = 3_600_000_000;
        let spans = vec![
            Some(49 * hour),
            Some(-49 * hour),
            None,
            Some(i64::MAX),
            Some(i64::MIN),
        ];
        let shown = texts(DurationMicrosecondArray::from(spans));
        let expected = [
            Some("2 days 01:00:00"),
            Some("-2 days -01:00:00"),
            None,
            Some("106751991 days 04:00:54.775807"),
            Some("-106751991 days -04:00:54.775808"),
        ];
        assert_eq!(shown, expected.map(|text| text.map(str::to_owned)));
        for beyond in [
            Arc::new(DurationSecondArray::from(vec![i64::MAX])) as ArrayRef,
            Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
        ] {
            let fault = Column::of(&beyond).map(drop).unwrap_err();
            assert_eq!(fault.code, "22008", "{}", fault.message);
        }
    }

    #[test]
    fn lists_are_arrays() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![
            Some(vec![Some(1), None]),
            Some(vec![]),
            None,
        ]);
        let expected = [Some("{1,NULL}".to_owned()), Some("{}".to_owned()), None];
        assert_eq!(texts(lists.clone()), expected);
        let array: ArrayRef = Arc::new(lists);
        let column = Column::of(&array).unwrap();
        let mut output = BytesMut::new();
        column.put(0, Format::Binary, &mut output);
        assert_eq!(
            &output[..],
            b"\0\0\0\x20\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff"
        );
    }
}
