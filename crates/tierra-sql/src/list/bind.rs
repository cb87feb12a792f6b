//! Lists as arguments of prepared statements.
//!
//! A list that EXECUTE writes is assigned item by item, as INSERT assigns values to columns; an item that no value of a DECIMAL
//! equals is left out. An array that a program binds keeps its items, if they can be compared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

use super::any;
use super::items::{List, ListKind, are_comparable, cast, is_text};
use super::written::{MAKE_ARRAY, marked};
use crate::error::{PreparedError, SqlError};
use crate::{rules, types};

/// The most characters of an argument that an error quotes.
const QUOTED: usize = 60;

/// The parameter that a list is bound to.
pub(crate) struct ListParameter<'a> {
    pub(crate) statement: &'a str,
    /// From 1.
    pub(crate) number: usize,
    /// The type of an item.
    pub(crate) item: &'a DataType,
    /// Whether the list is only compared with values of that type.
    pub(crate) is_compared: bool,
    /// Whether a program binds it: then its items have a type.
    pub(crate) is_bound: bool,
}

impl ListParameter<'_> {
    fn refuse(&self, value: String) -> SqlError {
        let value = match value.char_indices().nth(QUOTED) {
            Some((end, _)) => format!("{}..", &value[..end]),
            None => value,
        };
        SqlError::from(PreparedError::Argument {
            name: self.statement.to_string(),
            parameter: self.number,
            value,
            expected: format!("{}[]", types::name_of(self.item)),
        })
    }

    /// `argument` as a list of the parameter's type. `lists` are those taken out of the statement. `constant` evaluates
    /// arguments that are not lists of literals.
    pub(crate) fn bind(
        &self,
        argument: Expr,
        lists: &[Arc<List>],
        constant: impl Fn(Expr) -> Option<ScalarValue>,
    ) -> Result<ScalarValue, SqlError> {
        let list = match argument {
            Expr::ScalarFunction(call)
                if self.is_compared
                    && call.func.name() == MAKE_ARRAY
                    && !call.args.is_empty()
                    && call
                        .args
                        .iter()
                        .all(|item| rules::has_more_digits(item, self.item)) =>
            {
                // No value equals an item, and yet there are some.
                let first = constant(rules::exact(call.args[0].clone()));
                let first = first.ok_or_else(|| self.refuse(rules::shown(&call.args[0])))?;
                return Ok(SingleRowListArrayBuilder::new(first.to_array()?).build_list_scalar());
            }
            Expr::ScalarFunction(call) if call.func.name() == MAKE_ARRAY => {
                match long_list(&call, lists) {
                    Some(list) => List::clone(list),
                    None => self.items(call, &constant)?,
                }
            }
            argument => {
                let shown = rules::shown(&argument);
                match constant(argument) {
                    Some(value) if value.is_null() => {
                        return Ok(ScalarValue::try_from(any::list_of(self.item.clone()))?);
                    }
                    Some(value) => match any::items(&value) {
                        Some(items)
                            if self.is_compared
                                && self.is_bound
                                && are_comparable(items.data_type(), self.item) =>
                        {
                            return Ok(SingleRowListArrayBuilder::new(items).build_list_scalar());
                        }
                        Some(items) => List::typed(items),
                        None => return Err(self.refuse(shown)),
                    },
                    None => return Err(self.refuse(shown)),
                }
            }
        };
        let values = match (list.kind, self.item) {
            (ListKind::Numbers, DataType::Decimal128(_, _)) if self.is_compared => {
                comparable(&list, self.item)?
            }
            _ => assigned(&list, self.item).map_err(|item| self.refuse(item))?,
        };
        Ok(SingleRowListArrayBuilder::new(values).build_list_scalar())
    }

    /// The items of an array literal, each assigned as if it stood alone: a number with a point counts digit by digit.
    fn items(
        &self,
        mut call: ScalarFunction,
        constant: impl Fn(Expr) -> Option<ScalarValue>,
    ) -> Result<List, SqlError> {
        if call.args.is_empty() {
            return Ok(List::typed(new_empty_array(self.item)));
        }
        let refuse = |item: &Expr| self.refuse(format!("a list with {}", rules::shown(item)));
        if self.is_compared {
            // No value equals an item with more digits.
            let args = &mut call.args;
            args.retain(|item| !rules::has_more_digits(item, self.item));
        }
        let written = call.args.clone();
        let items = call.args.into_iter().zip(&written);
        let items = items.map(|(item, written)| {
            let item = rules::argument(item, self.item)?;
            item.ok_or_else(|| refuse(written))
        });
        call.args = items.collect::<Result<_, _>>()?;
        let array = constant(Expr::ScalarFunction(call.clone()));
        if let Some(items) = array.as_ref().and_then(any::items) {
            return Ok(List::typed(items));
        }
        let mut items = call.args.into_iter().zip(&written);
        let wrong = items.find(|(item, _)| constant(item.clone()).is_none());
        Err(refuse(wrong.map_or(&written[0], |(_, written)| written)))
    }
}

/// The list that a mark in an array refers to.
fn long_list<'a>(call: &ScalarFunction, lists: &'a [Arc<List>]) -> Option<&'a Arc<List>> {
    match call.args.as_slice() {
        [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => lists.get(marked(text)?),
        _ => None,
    }
}

/// `argument` with its mark replaced by the list taken out of the statement, for a parameter of any type.
pub(crate) fn unfolded(argument: Expr, lists: &[Arc<List>]) -> Expr {
    let list = match &argument {
        Expr::ScalarFunction(call) if call.func.name() == MAKE_ARRAY => long_list(call, lists),
        _ => None,
    };
    let Some(list) = list else { return argument };
    let natural = match list.kind {
        ListKind::Numbers => cast(&list.values, &DataType::Float64, true).ok(),
        _ => None,
    };
    let values = natural.unwrap_or_else(|| Arc::clone(&list.values));
    let array = SingleRowListArrayBuilder::new(values).build_list_scalar();
    Expr::Literal(array, None)
}

/// The items of `list` that a value of type `to` can equal, and a NULL if it has one.
fn comparable(list: &List, to: &DataType) -> Result<ArrayRef, SqlError> {
    let items = list.items(to).map_err(DataFusionError::from)?;
    if items.has_null {
        let null = new_null_array(to, 1);
        return Ok(concat(&[&items.values, &null]).map_err(DataFusionError::from)?);
    }
    let is_none = items.values.is_empty() && list.len() > 0;
    // There are items all the same, which no value equals.
    let first = is_none.then(|| ScalarValue::try_from_array(&list.values, 0));
    match first.transpose()?.as_ref().and_then(rules::number_in) {
        Some(first) => Ok(first.to_array()?),
        None => Ok(items.values),
    }
}

/// The items of `list` as values of type `to`. The error describes what cannot be assigned.
pub(crate) fn assigned(list: &List, to: &DataType) -> Result<ArrayRef, String> {
    let (values, from) = (&list.values, list.values.data_type());
    if from == to {
        return Ok(Arc::clone(values));
    }
    if from.is_null() {
        return Ok(new_null_array(to, values.len()));
    }
    if !is_assigned(from, to) {
        return Err(format!("a list of {}", types::name_of(from)));
    }
    let refused = |array: &ArrayRef| {
        // The first item that the cast loses.
        let cast = cast(array, to, false).ok();
        let lost = |row: &usize| {
            let is_lost = |cast: &ArrayRef| cast.is_null(*row);
            array.is_valid(*row) && cast.as_ref().is_some_and(is_lost)
        };
        match (0..array.len()).find(lost) {
            Some(row) => {
                let item = array_value_to_string(values, row).unwrap_or_default();
                format!("a list with {item}")
            }
            None => format!("a list of {}", types::name_of(from)),
        }
    };
    let rounded = rounded(list, to).map_err(|_| refused(values))?;
    types::convert(&rounded, to).map_err(|_| refused(&rounded))
}

/// Whether INSERT would store values of type `from` in a column of type `to`.
fn is_assigned(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Timestamp};
    match to {
        to if is_text(to) => true,
        Date32 | Timestamp(_, _) => {
            matches!(from, Date32 | Date64 | Timestamp(_, _)) || is_text(from)
        }
        Boolean => is_text(from),
        to => to.is_numeric() && (from.is_numeric() || is_text(from)),
    }
}

/// Numbers rounded to integers if `to` is an integer type: half away from zero.
fn rounded(list: &List, to: &DataType) -> Result<ArrayRef, arrow::error::ArrowError> {
    let values = &list.values;
    if !to.is_integer() {
        return Ok(Arc::clone(values));
    }
    match values.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let doubles = cast(values, &DataType::Float64, true)?;
            let doubles = doubles.as_primitive::<Float64Type>();
            Ok(Arc::new(doubles.unary::<_, Float64Type>(f64::round)))
        }
        DataType::Decimal128(_, 1..) => cast(
            values,
            &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
            true,
        ),
        DataType::Decimal256(_, 1..) => cast(
            values,
            &DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0),
            true,
        ),
        _ if list.kind == ListKind::Numbers => cast(
            values,
            &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
            true,
        ),
        _ => Ok(Arc::clone(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
    };

    fn list(kind: ListKind, values: impl Array + 'static) -> List {
        List {
            kind,
            values: Arc::new(values),
        }
    }

    #[test]
    fn numbers_round_half_away_from_zero_and_must_fit() {
        let texts = StringArray::from(vec![Some("1.5"), Some("-1.5"), None, Some("2.4")]);
        let numbers = list(ListKind::Numbers, texts);
        let rounded = assigned(&numbers, &DataType::Int32).unwrap();
        let expected = Int32Array::from(vec![Some(2), Some(-2), None, Some(2)]);
        assert_eq!(rounded.as_ref(), &expected as &dyn Array);
        let doubles = list(ListKind::Typed, Float64Array::from(vec![-2.5, 7.0]));
        let rounded = assigned(&doubles, &DataType::Int64).unwrap();
        assert_eq!(
            rounded.as_ref(),
            &Int64Array::from(vec![-3, 7]) as &dyn Array
        );
        let cents = assigned(&numbers, &DataType::Decimal128(3, 1)).unwrap();
        let expected = Decimal128Array::from(vec![Some(15), Some(-15), None, Some(24)]);
        let expected = expected.with_precision_and_scale(3, 1).unwrap();
        assert_eq!(cents.as_ref(), &expected as &dyn Array);
        let wide = list(ListKind::Integers, Int64Array::from(vec![1, 3_000_000_000]));
        assert_eq!(
            assigned(&wide, &DataType::Int32).unwrap_err(),
            "a list with 3000000000"
        );
    }

    #[test]
    fn texts_are_read_and_other_types_refused() {
        let texts = list(ListKind::Texts, StringArray::from(vec!["1970-01-02", "x"]));
        assert_eq!(
            assigned(&texts, &DataType::Date32).unwrap_err(),
            "a list with x"
        );
        let texts = list(
            ListKind::Texts,
            StringArray::from(vec![Some("1970-01-02"), None]),
        );
        let dates = assigned(&texts, &DataType::Date32).unwrap();
        let expected = Date32Array::from(vec![Some(1), None]);
        assert_eq!(dates.as_ref(), &expected as &dyn Array);
        let integers = list(ListKind::Integers, Int64Array::from(vec![1]));
        assert_eq!(
            assigned(&integers, &DataType::Date32).unwrap_err(),
            "a list of BIGINT"
        );
    }
}
