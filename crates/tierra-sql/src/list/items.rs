//! A list, and its items as values of the type they are compared with.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array,
    StringArray, new_null_array,
};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{CastOptions, cast_with_options, filter, is_not_null};
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use tierra_engine::canonical_double;

use crate::rules::exactly;
use crate::text_values::{lenient, strict};

/// The source of a list's values. It decides which types they can be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Integers written in the statement, as BIGINT.
    Integers,
    /// Numbers written in the statement, at least one with a point, as text.
    Numbers,
    /// Strings written in the statement, which can be cast to other types.
    Texts,
    /// Values of the array's type.
    Typed,
}

/// A list of values, written in a statement or bound.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(super) kind: ListKind,
    pub(super) values: ArrayRef,
}

/// The values of a list that values of a certain type can equal.
pub(crate) struct Items {
    /// The values without NULL.
    pub(crate) values: ArrayRef,
    pub(crate) has_null: bool,
}

impl List {
    /// A list of values with a type.
    pub(crate) fn typed(values: ArrayRef) -> Self {
        Self {
            kind: ListKind::Typed,
            values,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn kind(&self) -> ListKind {
        self.kind
    }

    pub(crate) fn values(&self) -> &ArrayRef {
        &self.values
    }

    /// Whether its values can be compared with type `ty` without an explicit cast.
    pub(crate) fn is_comparable(&self, ty: &DataType) -> bool {
        use DataType::{Date32, Decimal128, Float64, Int32, Int64, Timestamp};
        match self.kind {
            ListKind::Integers | ListKind::Numbers => {
                matches!(ty, Int32 | Int64 | Float64 | Decimal128(_, _))
            }
            ListKind::Texts => is_text(ty) || matches!(ty, Date32 | Timestamp(_, None)),
            ListKind::Typed => are_comparable(self.values.data_type(), ty),
        }
    }

    /// The items that a value of type `ty` can equal, as values of that type.
    ///
    /// # Errors
    /// If a string cannot be parsed as the type.
    pub(crate) fn items(&self, ty: &DataType) -> Result<Items, ArrowError> {
        let has_null = self.values.null_count() > 0;
        let values = match self.kind {
            ListKind::Numbers => of_numbers(self.values.as_string(), ty)?,
            // A string that is not a date is an error, as in a comparison.
            ListKind::Texts => cast(&self.values, ty, true)?,
            ListKind::Integers | ListKind::Typed => equal_values(&self.values, ty)?,
        };
        let values = if values.null_count() > 0 {
            filter(&values, &is_not_null(&values)?)?
        } else {
            values
        };
        Ok(Items {
            values: stored_doubles(values),
            has_null,
        })
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.values, &other.values);
        self.kind == other.kind && (is_same || self.values.as_ref() == other.values.as_ref())
    }
}

/// Doubles as tables store them.
pub(super) fn stored_doubles(values: ArrayRef) -> ArrayRef {
    match values.as_primitive_opt::<Float64Type>() {
        Some(doubles) => Arc::new(doubles.unary::<_, Float64Type>(canonical_double)),
        None => values,
    }
}

/// `values` as values of type `ty`. What is none is an error if `checked`, and else NULL.
pub(super) fn cast(
    values: &ArrayRef,
    ty: &DataType,
    checked: bool,
) -> Result<ArrayRef, ArrowError> {
    if values.data_type().is_string() && matches!(ty, DataType::Date32 | DataType::Timestamp(_, _))
    {
        return match checked {
            true => strict(values, ty),
            false => lenient(values, ty),
        };
    }
    let options = CastOptions {
        safe: !checked,
        ..CastOptions::default()
    };
    cast_with_options(values, ty, &options)
}

/// `values` as values of type `ty`; NULL if no value of the type is equal.
fn equal_values(values: &ArrayRef, ty: &DataType) -> Result<ArrayRef, ArrowError> {
    let from = values.data_type();
    if from == ty {
        return Ok(Arc::clone(values));
    }
    if from.is_null() {
        return Ok(new_null_array(ty, values.len()));
    }
    let converted = cast(values, ty, false)?;
    // Every type is compared with doubles as double. A cast to text loses nothing.
    if *ty == DataType::Float64 || is_text(ty) {
        return Ok(converted);
    }
    let back = cast(&converted, from, false)?;
    let is_equal = not_distinct(&back, values)?;
    arrow::compute::nullif(&converted, &not(&is_equal))
}

fn not(mask: &BooleanArray) -> BooleanArray {
    BooleanArray::new(!mask.values(), mask.nulls().cloned())
}

/// Numbers as written, as values of type `ty`; NULL if no value of the type is equal.
fn of_numbers(texts: &StringArray, ty: &DataType) -> Result<ArrayRef, ArrowError> {
    let exact = |precision: u8, scale: u8| {
        let texts = texts.iter();
        texts.map(move |text| exactly(text?, precision, scale))
    };
    Ok(match ty {
        DataType::Int32 => Arc::new(Int32Array::from_iter(
            exact(38, 0).map(|value| i32::try_from(value?).ok()),
        )),
        DataType::Int64 => Arc::new(Int64Array::from_iter(
            exact(38, 0).map(|value| i64::try_from(value?).ok()),
        )),
        DataType::Decimal128(precision, scale) => {
            let values = exact(*precision, scale.unsigned_abs());
            let values = Decimal128Array::from_iter(values);
            Arc::new(values.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Float64 => Arc::new(Float64Array::from_iter(
            texts.iter().map(|text| text?.parse().ok()),
        )),
        other => {
            return Err(ArrowError::CastError(format!(
                "numbers cannot be compared with {other}"
            )));
        }
    })
}

pub(super) fn is_text(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Whether values of the two types can be compared without an explicit cast.
pub(super) fn are_comparable(a: &DataType, b: &DataType) -> bool {
    let is_time = |ty: &DataType| matches!(ty, DataType::Date32 | DataType::Timestamp(_, None));
    a == b
        || a.is_null()
        || a.is_numeric() && b.is_numeric()
        || is_text(a) && is_text(b)
        || is_time(a) && is_time(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Date32Array, TimestampMicrosecondArray};

    fn items(list: &List, ty: &DataType) -> ArrayRef {
        list.items(ty).unwrap().values
    }

    #[test]
    fn only_items_that_a_value_can_equal_are_left() {
        let wide = List::typed(Arc::new(Int64Array::from(vec![
            Some(7),
            Some(1 << 40),
            None,
            Some(-3),
        ])));
        let found = wide.items(&DataType::Int32).unwrap();
        assert!(found.has_null);
        assert_eq!(
            found.values.as_ref(),
            &Int32Array::from(vec![7, -3]) as &dyn Array
        );

        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.1, 1.005, 2.0, f64::NAN, 1e30]));
        let doubles = List::typed(doubles);
        let cents = DataType::Decimal128(9, 2);
        let expected = Decimal128Array::from(vec![10, 200]);
        let expected = expected.with_precision_and_scale(9, 2).unwrap();
        assert_eq!(items(&doubles, &cents).as_ref(), &expected as &dyn Array);
        assert_eq!(
            items(&doubles, &DataType::Int32).as_ref(),
            &Int32Array::from(vec![2]) as &dyn Array
        );

        let midnight = 86_400_000_000;
        let times = TimestampMicrosecondArray::from(vec![midnight, midnight + 1]);
        let times = List::typed(Arc::new(times));
        assert_eq!(
            items(&times, &DataType::Date32).as_ref(),
            &Date32Array::from(vec![1]) as &dyn Array
        );
    }

    #[test]
    fn written_numbers_count_digit_by_digit() {
        let texts = StringArray::from(vec![
            Some("0.1"),
            Some("-12.50"),
            Some("0.005"),
            None,
            Some("3"),
        ]);
        let list = List {
            kind: ListKind::Numbers,
            values: Arc::new(texts),
        };
        let expected = Decimal128Array::from(vec![10, -1250, 300]);
        let expected = expected.with_precision_and_scale(9, 2).unwrap();
        let cents = DataType::Decimal128(9, 2);
        assert_eq!(items(&list, &cents).as_ref(), &expected as &dyn Array);
        assert_eq!(
            items(&list, &DataType::Int64).as_ref(),
            &Int64Array::from(vec![3]) as &dyn Array
        );
        let doubles = Float64Array::from(vec![0.1, -12.5, 0.005, 3.0]);
        assert_eq!(
            items(&list, &DataType::Float64).as_ref(),
            &doubles as &dyn Array
        );
    }

    #[test]
    fn both_zeros_and_all_nans_are_stored_as_one() {
        let doubles = List::typed(Arc::new(Float64Array::from(vec![-0.0])));
        let stored = items(&doubles, &DataType::Float64);
        let stored = stored.as_primitive::<Float64Type>().value(0);
        assert_eq!(stored.to_bits(), 0.0_f64.to_bits());
    }
}
