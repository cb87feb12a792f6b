//! ORDER BY of an expression that is in the select list orders by that column.
//!
//! DataFusion refuses it for `SELECT DISTINCT f(x) .. ORDER BY f(x)`. In `SELECT -x AS x .. ORDER BY -x` it takes the column that is
//! called `x` for the operand. As in PostgreSQL, a name in an expression is that of a column of FROM. So the number of the column is
//! written instead. Expressions that are not in the list are [`crate::ordered_keys`].

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, ObjectNamePart, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
};

use crate::merged_columns::merges;
use crate::names::identifier;
use crate::visit::{visit_expressions, visit_mut};

/// Writes numbers for the expressions in the ORDER BYs of `statement` that need it.
pub(crate) fn number(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut OrderedItems);
}

struct OrderedItems;

impl VisitorMut for OrderedItems {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some((select, keys)) = keys_of(query) {
            for key in keys {
                let is_needed = matches!(select.distinct, Some(Distinct::Distinct))
                    || uses_new_name(&key.expr, select);
                if is_needed && let Some(place) = place_of(&key.expr, select) {
                    key.expr = number_of(place);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The keys in ORDER BY of `query`, and the SELECT that they belong to. DISTINCT ON reads its keys itself.
pub(crate) fn keys_of(query: &mut Query) -> Option<(&Select, &mut Vec<OrderByExpr>)> {
    let select: &Select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        _ => return None,
    };
    match &mut query.order_by.as_mut()?.kind {
        OrderByKind::Expressions(keys) if !matches!(select.distinct, Some(Distinct::On(_))) => {
            Some((select, keys))
        }
        _ => None,
    }
}

/// The key that orders by the column at this place, from 0.
pub(crate) fn number_of(place: usize) -> Expr {
    Expr::value(Value::Number((place + 1).to_string(), false))
}

/// The place of the column that `key` is. A name alone is the planner's to find.
pub(crate) fn place_of(key: &Expr, select: &Select) -> Option<usize> {
    match is_alone(key) {
        true => None,
        false => same_item(key, select),
    }
}

/// The place of the first column with this expression.
pub(crate) fn same_item(expr: &Expr, select: &Select) -> Option<usize> {
    let wanted = form(expr, select);
    let items = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    // How many columns `*` has is not known.
    let mut items = items.map_while(|expr| expr);
    items.position(|expr| form(expr, select) == wanted)
}

/// Whether `key` is an expression with a name that `select` gives to something else than what FROM calls so.
pub(crate) fn uses_new_name(key: &Expr, select: &Select) -> bool {
    if is_alone(key) {
        return false;
    }
    let any_merged = || select.from.iter().any(merges);
    let is_new = |used: &Expr, name: &str| {
        let mut items = select.projection.iter().filter_map(given);
        items.any(|(new, expr)| {
            // A column under its own name is FROM's, or the name alone is ambiguous.
            let is_itself = || own_name(expr).is_some_and(|own| own == name) && !any_merged();
            new == name && !is_itself() && form(expr, select) != form(used, select)
        })
    };
    let used = visit_expressions(key, |expr| match own_name(expr) {
        Some(name) if is_new(expr, &name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    used.is_break()
}

/// The name that `item` gives to an expression.
fn given(item: &SelectItem) -> Option<(String, &Expr)> {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((identifier(alias), expr)),
        // A merged column may have this name, too.
        SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(_)) => {
            own_name(expr).map(|name| (name, expr))
        }
        _ => None,
    }
}

/// The name of a column.
pub(crate) fn own_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(identifier(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(identifier),
        _ => None,
    }
}

/// Whether `key` is a name alone, or a constant.
fn is_alone(key: &Expr) -> bool {
    matches!(bare(key), Expr::Identifier(_) | Expr::Value(_))
}

pub(crate) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        expr => expr,
    }
}

/// `expr` in the form that all its spellings in `select` have: names in one kind of letters, without brackets and, where there is only
/// one table, without its name.
pub(crate) fn form(expr: &Expr, select: &Select) -> Expr {
    let mut form = expr.clone();
    let mut forms = Forms {
        table: only_table(select),
        queries: 0,
    };
    let _ = visit_mut(&mut form, &mut forms);
    form
}

/// The name of the table, if FROM consists of one.
fn only_table(select: &Select) -> Option<String> {
    let [TableWithJoins { relation, joins }] = select.from.as_slice() else {
        return None;
    };
    match relation {
        _ if !joins.is_empty() => None,
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        } => Some(identifier(&alias.name)),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().map(identifier),
        _ => None,
    }
}

struct Forms {
    table: Option<String>,
    /// Queries around the visited expression, which may have other tables of that name.
    queries: usize,
}

impl VisitorMut for Forms {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Nested(inner) => {
                let inner = std::mem::replace(inner.as_mut(), Expr::value(Value::Null));
                *expr = inner;
            }
            Expr::Identifier(name) => fold(name),
            Expr::CompoundIdentifier(parts) => {
                parts.iter_mut().for_each(fold);
                if self.queries == 0
                    && let [table, column] = parts.as_slice()
                    && self.table.as_ref() == Some(&table.value)
                {
                    *expr = Expr::Identifier(column.clone());
                }
            }
            Expr::Function(call) => {
                for part in &mut call.name.0 {
                    if let ObjectNamePart::Identifier(name) = part {
                        fold(name);
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn fold(name: &mut Ident) {
    *name = Ident::with_quote('"', identifier(name));
}
