//! The lists of keys that a hash join hands over if its build side is short, as filters of columns.
//!
//! ```text
//! column IN (..)                                        -- the column's set
//! CAST(column) IN (..)                                  -- the values of the list that the column can have
//! CASE hash(key) % 2 WHEN 0 THEN bounds AND key IN (..) -- the union of the lists: a key that is in the
//!                    WHEN 1 THEN bounds AND key IN (..)    list of its partition is in one of them
//! ```
//! The last form may pass rows that the expression does not pass. So it serves only filters that save work and decide
//! nothing. NULL passes none of them. If a key has several columns, it is one structure, and only its bounds are used.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, Literal,
};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use tierra_column::Filter;

use super::pushable::keeps_apart;
use super::translate;
use crate::list::List;

/// A filter that every row passes for which `predicate` is true; `None` if it is not a list of keys.
pub(super) fn of_lists(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Option<(usize, Filter)> {
    let lists = lists(predicate)?;
    let key = lists.first()?.expr();
    if lists.iter().any(|list| list.expr() != key) {
        return None;
    }
    let values = translate::literals(lists.iter().flat_map(|list| list.list()))?;
    of_column(key, values, schema)
}

/// The lists one of which contains the key of every row for which `predicate` is true.
fn lists(predicate: &Arc<dyn PhysicalExpr>) -> Option<Vec<&InListExpr>> {
    if let Some(list) = predicate.downcast_ref::<InListExpr>() {
        return (!list.negated()).then(|| vec![list]);
    }
    if let Some(both) = predicate.downcast_ref::<BinaryExpr>() {
        let either = || lists(both.right()).or_else(|| lists(both.left()));
        return (*both.op() == Operator::And).then(either)?;
    }
    if let Some(case) = predicate.downcast_ref::<CaseExpr>() {
        let branches = case.when_then_expr().iter().map(|(_, then)| then);
        let branches = branches.chain(case.else_expr()).map(lists);
        return branches.collect::<Option<Vec<_>>>().map(|all| all.concat());
    }
    // A partition without rows has the predicate `false`.
    let literal = predicate.downcast_ref::<Literal>()?;
    (*literal.value() == ScalarValue::Boolean(Some(false))).then(Vec::new)
}

/// A filter for `values` on a column, or on a column under a cast that maps no two values to one.
fn of_column(
    compared: &Arc<dyn PhysicalExpr>,
    values: ArrayRef,
    schema: &Schema,
) -> Option<(usize, Filter)> {
    let (column, cast) = match compared.downcast_ref::<CastExpr>() {
        Some(cast) => (cast.expr(), Some(cast.cast_type())),
        None => (compared, None),
    };
    let column = column.downcast_ref::<Column>()?.index();
    let ty = schema.field(column).data_type();
    if !cast.is_none_or(|to| keeps_apart(ty, to)) {
        return None;
    }
    let list = List::typed(values);
    if !list.is_comparable(ty) {
        return None;
    }
    Some((column, Filter::in_set(list.set(ty).ok()?.values)))
}
