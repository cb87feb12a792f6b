//! Translates the structure of a predicate into ranges and sets.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::{PhysicalExpr, is_volatile};
use tierra_column::{Dictionary, Filter, FilterKind, LogicalType, Value};
use tierra_engine::{Snapshot, canonical_double};

use super::{domain, ranges};
use crate::list::{InSet, List, ListSet};
use crate::tree::TreeNode;
use crate::types::logical_type;

/// What is known about the values of a column before a scan.
pub(crate) struct ColumnDomain {
    pub(crate) ty: LogicalType,
    /// Least and greatest value of any row, if there is one.
    pub(crate) bounds: Option<(Value, Value)>,
    /// The dictionary that has a code for every stored row.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// Rows that a scan would visit: the cost of evaluating per row.
    pub(crate) rows: u64,
}

impl ColumnDomain {
    /// The snapshot's knowledge of a column.
    pub(crate) fn of(snapshot: &Snapshot, schema: &SchemaRef, column: usize) -> ColumnDomain {
        let statistics = snapshot.statistics(column);
        ColumnDomain {
            ty: logical_type(schema, column),
            bounds: statistics.min.zip(statistics.max),
            dictionary: snapshot.coded_dictionary(column),
            rows: snapshot.rows(),
        }
    }
}

/// The index of the one column that a deterministic predicate refers to.
pub(crate) fn single_column(predicate: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if is_volatile(predicate) {
        return None;
    }
    let mut columns = collect_columns(predicate).into_iter();
    match (columns.next(), columns.next()) {
        (Some(column), None) => Some(column.index()),
        _ => None,
    }
}

/// The filter that passes exactly the rows for which `predicate`, which refers to one column only, is true; `None` if no
/// filter expresses it at a reasonable cost.
pub(crate) fn on_column(
    predicate: &Arc<dyn PhysicalExpr>,
    domain: &ColumnDomain,
) -> Result<Option<Filter>> {
    if let Some(filter) = structural(predicate, domain.ty) {
        return Ok(Some(filter));
    }
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new(
        "value",
        domain.ty.arrow(),
        true,
    )]));
    let alone = Arc::clone(predicate)
        .transform_up(|expr| {
            Ok(if expr.downcast_ref::<Column>().is_some() {
                Transformed::yes(Arc::new(Column::new("value", 0)) as Arc<dyn PhysicalExpr>)
            } else {
                Transformed::no(expr)
            })
        })?
        .data;
    let Some(kind) = domain::evaluate(&alone, &schema, domain)? else {
        return Ok(None);
    };
    let matches_null = is_true(&alone, &schema, new_null_array(&domain.ty.arrow(), 1))?[0];
    Ok(Some(Filter { kind, matches_null }))
}

/// For each of `values` whether `predicate`, on column 0, is true.
pub(super) fn is_true(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    values: ArrayRef,
) -> Result<Vec<bool>> {
    let rows = values.len();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), vec![values], &options)?;
    let result = predicate.evaluate(&batch)?.into_array(rows)?;
    let Some(result) = result.as_boolean_opt() else {
        return Ok(vec![false; rows]);
    };
    Ok((0..rows)
        .map(|row| result.is_valid(row) && result.value(row))
        .collect())
}

/// The filter that follows from the form of the predicate.
fn structural(predicate: &Arc<dyn PhysicalExpr>, ty: LogicalType) -> Option<Filter> {
    if let Some(binary) = predicate.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::And => structural(binary.left(), ty)?.and(structural(binary.right(), ty)?),
            Operator::Or => ranges::or(
                structural(binary.left(), ty)?,
                structural(binary.right(), ty)?,
            ),
            op => comparison(binary.left(), *op, binary.right(), ty)
                .or_else(|| comparison(binary.right(), op.swap()?, binary.left(), ty)),
        };
    }
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        is_column(list.expr())?;
        return in_list(list, ty);
    }
    if let Some(call) = predicate.downcast_ref::<ScalarFunctionExpr>() {
        return Some(Filter::in_set(set_of(call, ty)?.values));
    }
    if let Some(is_null) = predicate.downcast_ref::<IsNullExpr>() {
        return is_column(is_null.arg()).map(|()| Filter::is_null());
    }
    if let Some(is_not_null) = predicate.downcast_ref::<IsNotNullExpr>() {
        return is_column(is_not_null.arg()).map(|()| Filter::is_not_null());
    }
    if let Some(not) = predicate.downcast_ref::<NotExpr>() {
        return negated(not, ty);
    }
    if let Some(like) = predicate.downcast_ref::<LikeExpr>() {
        return prefix(like);
    }
    if let Some(literal) = predicate.downcast_ref::<Literal>() {
        return match literal.value() {
            ScalarValue::Boolean(Some(true)) => Some(Filter::everything()),
            ScalarValue::Boolean(_) => Some(Filter::nothing()),
            _ => None,
        };
    }
    if ty == LogicalType::Boolean && is_column(predicate).is_some() {
        return Some(Filter::eq(Value::Ordinal(1)));
    }
    None
}

fn is_column(expr: &Arc<dyn PhysicalExpr>) -> Option<()> {
    expr.downcast_ref::<Column>().map(|_| ())
}

/// `NOT column`, and `NOT (column = ANY(list))`.
fn negated(not: &NotExpr, ty: LogicalType) -> Option<Filter> {
    if ty == LogicalType::Boolean && is_column(not.arg()).is_some() {
        return Some(Filter::eq(Value::Ordinal(0)));
    }
    let set = set_of(not.arg().downcast_ref::<ScalarFunctionExpr>()?, ty)?;
    let filter = Filter::not_in_set(set.values, set.has_null);
    // NOT IN of an empty list is true, even for NULL. If the list has items, but none fits the column, it is unknown for
    // NULL.
    Some(Filter {
        matches_null: set.is_empty,
        ..filter
    })
}

/// The list that `call` compares the column with.
fn set_of(call: &ScalarFunctionExpr, ty: LogicalType) -> Option<ListSet> {
    let set = call.fun().inner().downcast_ref::<InSet>()?;
    is_column(call.args().first()?)?;
    set.values(&ty.arrow()).ok()
}

/// A literal as a value of the column. `Some(None)` is NULL; `None` if the type differs.
fn literal(expr: &Arc<dyn PhysicalExpr>, ty: LogicalType) -> Option<Option<Value>> {
    value_of(expr.downcast_ref::<Literal>()?.value(), ty)
}

/// A scalar as a value of a column of type `ty`. `Some(None)` is NULL; `None` if the type differs.
pub(crate) fn value_of(scalar: &ScalarValue, ty: LogicalType) -> Option<Option<Value>> {
    if scalar.is_null() {
        return Some(None);
    }
    let scalar = match (scalar, ty) {
        (
            ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)),
            LogicalType::Varchar,
        ) => &ScalarValue::Utf8View(Some(text.clone())),
        (ScalarValue::Float64(Some(value)), _) => {
            &ScalarValue::Float64(Some(canonical_double(*value)))
        }
        _ => scalar,
    };
    if scalar.data_type() != ty.arrow() {
        return None;
    }
    let array = scalar.to_array().ok()?;
    Some(Value::of_array(array.as_ref(), 0))
}

fn comparison(
    column: &Arc<dyn PhysicalExpr>,
    op: Operator,
    other: &Arc<dyn PhysicalExpr>,
    ty: LogicalType,
) -> Option<Filter> {
    is_column(column)?;
    let value = literal(other, ty)?;
    let Some(value) = value else {
        return match op {
            Operator::IsDistinctFrom => Some(Filter::is_not_null()),
            Operator::IsNotDistinctFrom => Some(Filter::is_null()),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq => Some(Filter::nothing()),
            _ => None,
        };
    };
    Some(match op {
        Operator::Eq | Operator::IsNotDistinctFrom => Filter::eq(value),
        Operator::NotEq => Filter::not_eq(value),
        Operator::IsDistinctFrom => Filter {
            matches_null: true,
            ..Filter::not_eq(value)
        },
        Operator::Lt => Filter::less(value),
        Operator::LtEq => Filter::less_or_equal(value),
        Operator::Gt => Filter::greater(value),
        Operator::GtEq => Filter::greater_or_equal(value),
        _ => return None,
    })
}

fn in_list(list: &InListExpr, ty: LogicalType) -> Option<Filter> {
    let list_set = List::typed(literals(list.list())?);
    if !list_set.is_comparable(&ty.arrow()) {
        return None;
    }
    let set = list_set.set(&ty.arrow()).ok()?;
    Some(match (list.negated(), set.values.is_empty()) {
        (false, _) => Filter::in_set(set.values),
        // It is true for every value that is not NULL.
        (true, true) if !set.has_null => Filter::is_not_null(),
        (true, _) => Filter::not_in_set(set.values, set.has_null),
    })
}

/// The values of literals of one type, as an array; `None` if there are none, or other expressions.
pub(super) fn literals<'a>(
    literals: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
) -> Option<ArrayRef> {
    let mut is_complete = true;
    let values = literals.into_iter().map_while(|item| {
        let literal = item.downcast_ref::<Literal>();
        is_complete &= literal.is_some();
        Some(literal?.value().clone())
    });
    let values = ScalarValue::iter_to_array(values).ok()?;
    is_complete.then_some(values)
}

/// `LIKE 'abc%'`: from 'abc' to the first string that begins otherwise.
fn prefix(like: &LikeExpr) -> Option<Filter> {
    if like.negated() || like.case_insensitive() {
        return None;
    }
    is_column(like.expr())?;
    let pattern = match literal(like.pattern(), LogicalType::Varchar)? {
        Some(Value::Bytes(pattern)) => pattern,
        Some(_) => return None,
        None => return Some(Filter::nothing()),
    };
    let (last, prefix) = pattern.split_last()?;
    if *last != b'%'
        || prefix
            .iter()
            .any(|byte| matches!(byte, b'%' | b'_' | b'\\'))
    {
        return None;
    }
    if prefix.is_empty() {
        return Some(Filter::is_not_null());
    }
    let low = Bound::Included(Value::Bytes(prefix.into()));
    // Strings order by their bytes: raise the last byte that can be raised.
    let end = prefix.iter().rposition(|byte| *byte < u8::MAX);
    let high = match end {
        Some(place) => {
            let mut next = prefix[..=place].to_vec();
            next[place] += 1;
            Bound::Excluded(Value::Bytes(next.into()))
        }
        None => Bound::Unbounded,
    };
    Some(Filter {
        kind: FilterKind::Ranges(vec![(low, high)]),
        matches_null: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use datafusion::common::DFSchema;
    use datafusion::prelude::{SessionContext, col, lit};

    fn filter(ty: LogicalType, expr: datafusion::logical_expr::Expr) -> Option<Filter> {
        let schema = Schema::new(vec![Field::new("x", ty.arrow(), true)]);
        let schema = DFSchema::try_from(schema).unwrap();
        let physical = SessionContext::new()
            .create_physical_expr(expr, &schema)
            .unwrap();
        let domain = ColumnDomain {
            ty,
            bounds: Some((
                Value::Ordinal(tierra_column::ordinal::of_i32(-10)),
                Value::Ordinal(tierra_column::ordinal::of_i32(10)),
            )),
            dictionary: None,
            rows: 1000,
        };
        on_column(&physical, &domain).unwrap()
    }

    fn integer(value: i32) -> Value {
        Value::Ordinal(tierra_column::ordinal::of_i32(value))
    }

    #[test]
    fn comparisons_with_null_never_hold_and_distinct_from_sees_null() {
        let null = lit(ScalarValue::Int32(None));
        assert_eq!(
            filter(LogicalType::Integer, col("x").lt(null)),
            Some(Filter::nothing())
        );
        assert_eq!(
            filter(LogicalType::Integer, col("x").not_eq(lit(3))),
            Some(Filter::not_eq(integer(3)))
        );
        assert_eq!(
            filter(LogicalType::Integer, lit(3).lt(col("x"))),
            Some(Filter::greater(integer(3)))
        );
    }

    #[test]
    fn not_in_with_null_in_the_list_passes_nothing() {
        let list = vec![lit(1), lit(ScalarValue::Int32(None))];
        assert_eq!(
            filter(LogicalType::Integer, col("x").in_list(list.clone(), true)),
            Some(Filter::nothing())
        );
        let kind = filter(LogicalType::Integer, col("x").in_list(list, false))
            .unwrap()
            .kind;
        let FilterKind::Set {
            values,
            negated: false,
        } = kind
        else {
            panic!("{kind:?}")
        };
        assert_eq!(values.values(), vec![integer(1)]);
    }

    #[test]
    fn a_prefix_becomes_a_range_and_other_patterns_do_not() {
        let bytes = |text: &[u8]| Value::Bytes(text.into());
        let expected = FilterKind::Ranges(vec![(
            Bound::Included(bytes(b"ab")),
            Bound::Excluded(bytes(b"ac")),
        )]);
        let like = |pattern: &str| {
            let pattern = lit(ScalarValue::Utf8View(Some(pattern.to_string())));
            filter(LogicalType::Varchar, col("x").like(pattern))
        };
        assert_eq!(like("ab%").unwrap().kind, expected);
        assert_eq!(like("%ab"), None);
        assert_eq!(like("a_b%"), None);
        assert_eq!(like("%"), Some(Filter::is_not_null()));
    }

    #[test]
    fn an_expression_on_integers_is_evaluated_over_their_range() {
        let wide = datafusion::logical_expr::cast(col("x"), DataType::Int64);
        let kind = filter(LogicalType::Integer, (wide % lit(7_i64)).eq(lit(0_i64)))
            .unwrap()
            .kind;
        let FilterKind::Set {
            values,
            negated: false,
        } = kind
        else {
            panic!("{kind:?}")
        };
        assert_eq!(values.values(), vec![integer(-7), integer(0), integer(7)]);
    }
}
