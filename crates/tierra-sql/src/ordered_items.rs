//! ORDER BY of an expression that is in the select list orders by that column.
//!
//! DataFusion refuses it for `SELECT DISTINCT f(x) .. ORDER BY f(x)`. In `SELECT -x AS x .. ORDER BY -x` it takes the column that is
//! called `x` for the operand. As in PostgreSQL, a name in an expression is that of a column of FROM. So the number of the column is
//! written instead.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderByKind, Query, Select, SelectItem, SetExpr, Value, VisitMut, VisitorMut,
    visit_expressions,
};

use crate::names::identifier;

/// Writes numbers for the expressions in the ORDER BYs of `statement` that need it.
pub(crate) fn number(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = statement.visit(&mut OrderedItems);
}

struct OrderedItems;

impl VisitorMut for OrderedItems {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_ref()
            && !matches!(select.distinct, Some(Distinct::On(_)))
            && let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            for key in keys {
                if let Some(number) = number_of(&key.expr, select) {
                    key.expr = Expr::value(Value::Number(number.to_string(), false));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The number of the column that `key` is, if it is to be written. A name alone is the planner's to find.
fn number_of(key: &Expr, select: &Select) -> Option<usize> {
    let key = bare(key);
    if matches!(key, Expr::Identifier(_) | Expr::Value(_)) {
        return None;
    }
    let items = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(bare(expr)),
        _ => None,
    });
    // How many columns `*` has is not known.
    let mut items = items.take_while(Option::is_some);
    let place = items.position(|item| item == Some(key))?;
    let is_needed =
        matches!(select.distinct, Some(Distinct::Distinct)) || uses_new_name(key, select);
    is_needed.then_some(place + 1)
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        expr => expr,
    }
}

/// Whether `key` uses a name that `select` gives a column.
fn uses_new_name(key: &Expr, select: &Select) -> bool {
    let new = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(identifier(alias)),
        _ => None,
    });
    let new: HashSet<String> = new.collect();
    let used = visit_expressions(key, |expr| match expr {
        Expr::Identifier(name) if new.contains(&identifier(name)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    used.is_break()
}
