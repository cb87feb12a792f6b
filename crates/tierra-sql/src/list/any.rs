//! `x = ANY(array)` if the array is not known yet, or differs from row to row.
//!
//! [`super::settle_quantified`] writes the comparison as a binary operator, which is planned here. A parameter gets the
//! type of a list of x's type, so that a statement can be prepared and bound with one array. Once the array is a
//! constant, the call becomes an [`InSet`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::in_set::InSet;
use super::items::{List, are_comparable};

/// The operator for `= ANY` until it is planned.
pub(super) const OPERATOR: &str = "= ANY";
const NAME: &str = "tierra_any";

/// Plans the operator.
#[derive(Debug)]
pub(super) struct QuantifiedPlanner;

impl ExprPlanner for QuantifiedPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if !matches!(&expr.op, BinaryOperator::Custom(name) if name == OPERATOR) {
            return Ok(PlannerResult::Original(expr));
        }
        let RawBinaryExpr { left, right, .. } = expr;
        let list = typed_parameter(right, &left, schema)?;
        let any = Arc::new(ScalarUDF::from(AnyOf::new()));
        let call = ScalarFunction::new_udf(any, vec![left, list]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
    }
}

/// The type of a list of values of type `item`.
pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// A parameter without a type becomes a list of the compared value's type. A parameter under a cast gets the cast's
/// type.
fn typed_parameter(list: Expr, compared: &Expr, schema: &DFSchema) -> Result<Expr> {
    let typed = |id: String, ty: DataType| {
        let field = Arc::new(Field::new("", ty, true));
        Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))
    };
    Ok(match list {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            typed(id, list_of(compared.get_type(schema)?))
        }
        Expr::Cast(Cast { expr, field }) => match *expr {
            Expr::Placeholder(Placeholder { id, field: None }) => {
                typed(id, field.data_type().clone())
            }
            other => Expr::Cast(Cast {
                expr: Box::new(other),
                field,
            }),
        },
        other => other,
    })
}

/// Whether `function` is `= ANY`.
pub(crate) fn is_any(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<AnyOf>().is_some()
}

/// The function `(x, array) -> x = ANY(array)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnyOf {
    signature: Signature,
}

impl AnyOf {
    fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

/// The items of a constant array; `None` if the array is NULL.
pub(super) fn items(array: &ScalarValue) -> Option<ArrayRef> {
    if array.is_null() {
        return None;
    }
    match array {
        ScalarValue::List(list) => Some(list.value(0)),
        ScalarValue::LargeList(list) => Some(list.value(0)),
        ScalarValue::FixedSizeList(list) => Some(list.value(0)),
        _ => None,
    }
}

fn item_type(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

impl ScalarUDFImpl for AnyOf {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value, Expr::Literal(list, _)] => {
                let count = items(list).map_or(0, |items| items.len());
                Ok(format!("{} IN ({count} values)", value.schema_name()))
            }
            [value, list] => Ok(format!(
                "{} = ANY ({})",
                value.schema_name(),
                list.schema_name()
            )),
            _ => internal_err!("= ANY has two sides"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, list] = types else {
            return internal_err!("= ANY has two sides");
        };
        match item_type(list) {
            _ if list.is_null() => {}
            None => return plan_err!("= ANY and <> ALL need an array, not {list}"),
            Some(item) if are_comparable(item, value) || value.is_null() => {}
            Some(item) => {
                return plan_err!(
                    "{value} cannot be compared with ANY or ALL of {item}: cast one of them"
                );
            }
        }
        Ok(types.to_vec())
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn simplify(&self, args: Vec<Expr>, _context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [value, Expr::Literal(list, _)] = args.as_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let Some(items) = items(list) else {
            let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
            return Ok(ExprSimplifyResult::Simplified(unknown));
        };
        let set = InSet::new(NAME.to_string(), Arc::new(List::typed(items)));
        let call = ScalarFunction::new_udf(Arc::new(set.into()), vec![value.clone()]);
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values, lists] = args.args.as_slice() else {
            return internal_err!("= ANY has two sides");
        };
        let values = values.to_array(args.number_rows)?;
        if let ColumnarValue::Scalar(list) = lists {
            let Some(items) = items(list) else {
                let unknown = ScalarValue::Boolean(None);
                return Ok(ColumnarValue::Scalar(unknown));
            };
            let set = InSet::new(NAME.to_string(), Arc::new(List::typed(items)));
            return Ok(ColumnarValue::Array(Arc::new(set.holds(values)?)));
        }
        let found = row_by_row(&values, &lists.to_array(args.number_rows)?)?;
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

/// Compares each value with the list of its row.
fn row_by_row(values: &ArrayRef, lists: &ArrayRef) -> Result<BooleanArray> {
    let mut found = BooleanBuilder::with_capacity(values.len());
    for row in 0..values.len() {
        let items = match lists.data_type() {
            _ if lists.is_null(row) => None,
            DataType::List(_) => Some(lists.as_list::<i32>().value(row)),
            DataType::LargeList(_) => Some(lists.as_list::<i64>().value(row)),
            DataType::FixedSizeList(_, _) => Some(lists.as_fixed_size_list().value(row)),
            _ => None,
        };
        found.append_option(match items {
            None => None,
            Some(items) => {
                let set = InSet::new(NAME.to_string(), Arc::new(List::typed(items)));
                let held = set.holds(values.slice(row, 1))?;
                held.is_valid(0).then(|| held.value(0))
            }
        });
    }
    Ok(found.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, ListArray};
    use arrow::datatypes::Int64Type;

    #[test]
    fn each_row_is_compared_with_its_own_list() {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![
            Some(1),
            Some(1),
            Some(1),
            Some(1),
            None,
            None,
            Some(1),
        ]));
        let list = |items: &[Option<i64>]| Some(items.to_vec());
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
            list(&[Some(2), Some(1), None]),
            list(&[Some(2), None]),
            list(&[Some(2), Some(1 << 40)]),
            list(&[]),
            list(&[Some(1)]),
            list(&[]),
            None,
        ]));
        let found: Vec<Option<bool>> = row_by_row(&values, &lists).unwrap().iter().collect();
        let expected = [
            Some(true),
            None,
            Some(false),
            Some(false),
            None,
            Some(false),
            None,
        ];
        assert_eq!(found, expected);
    }
}
