//! GROUP BY the number of a column that is a constant: it makes no other groups, and is left out beside other keys.
//!
//! The planner takes every `1` of a select list for the key `1`, that of `lead(sum(x), 1) OVER ..` too, which has to be a constant.

use std::ops::ControlFlow;

use crate::visit::visit_mut;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Select, SelectItem, UnaryOperator, Value, VisitMut, VisitorMut,
};

/// Leaves such keys out of `statement`.
pub(crate) fn leave_out(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut ConstantGroups);
}

struct ConstantGroups;

impl VisitorMut for ConstantGroups {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(groups, modifiers) = &mut select.group_by
            && modifiers.is_empty()
            && !groups.iter().any(is_of_sets)
            && !groups
                .iter()
                .all(|key| is_constant(key, &select.projection))
        {
            groups.retain(|key| !is_constant(key, &select.projection));
        }
        ControlFlow::Continue(())
    }
}

/// Of no rows a set without keys has a group, and a constant has none.
fn is_of_sets(key: &Expr) -> bool {
    matches!(key, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_))
}

/// Whether `key` is the number of a constant in the select list.
fn is_constant(key: &Expr, items: &[SelectItem]) -> bool {
    let Expr::Value(value) = key else {
        return false;
    };
    let Value::Number(digits, _) = &value.value else {
        return false;
    };
    let place = digits.parse::<usize>().ok();
    let Some(place) = place.and_then(|number| number.checked_sub(1)) else {
        return false;
    };
    let expr = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(is_literal(expr))
        }
        // How many columns it has is not known.
        _ => None,
    };
    let known: Option<Vec<bool>> = items.iter().take(place + 1).map(expr).collect();
    known.is_some_and(|known| known.len() == place + 1 && known[place])
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::Nested(inner)
        | Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: inner,
        } => is_literal(inner),
        _ => false,
    }
}
