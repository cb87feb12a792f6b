//! An INSERT's source as the planner reads it, and what it would lose of it.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{self, Expr};

/// Keeps the explicit casts of values, and gives every selected column a name of its own. DEFAULT is NULL: columns have no other.
pub(crate) fn keep(insert: &mut ast::Insert) {
    write_defaults(insert);
    mark_casts(insert);
    if let Some(source) = &mut insert.source {
        name_duplicates(source.body.as_mut());
    }
}

fn cells(insert: &mut ast::Insert) -> impl Iterator<Item = &mut Expr> {
    let values = insert.source.iter_mut();
    let values = values.filter_map(|source| match source.body.as_mut() {
        ast::SetExpr::Values(values) => Some(values),
        _ => None,
    });
    values.flat_map(|values| values.rows.iter_mut().flat_map(|row| &mut row.content))
}

fn write_defaults(insert: &mut ast::Insert) {
    for cell in cells(insert) {
        if matches!(cell, Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
        {
            *cell = Expr::Value(ast::Value::Null.into());
        }
    }
}

/// The planner casts every value to its column's type. After that its casts cannot be told from explicit ones. So explicit
/// casts are written twice: the inner one is the user's.
fn mark_casts(insert: &mut ast::Insert) {
    for mut cell in cells(insert) {
        while let Expr::Nested(inner) = cell {
            cell = inner;
        }
        if let Expr::Cast { expr, .. } = cell {
            let value = std::mem::replace(expr.as_mut(), Expr::Value(ast::Value::Null.into()));
            let mut inner = cell.clone();
            if let Expr::Cast { expr, .. } = &mut inner {
                **expr = value;
            }
            if let Expr::Cast { expr, .. } = cell {
                **expr = inner;
            }
        }
    }
}

/// Names every expression that occurs twice in a select list: the planner requires different names, and the names of
/// inserted columns are not visible.
fn name_duplicates(source: &mut ast::SetExpr) {
    match source {
        ast::SetExpr::Select(select) => {
            let mut seen = HashSet::new();
            for (place, item) in select.projection.iter_mut().enumerate() {
                if let ast::SelectItem::UnnamedExpr(expr) = item
                    && !seen.insert(expr.to_string())
                {
                    *item = ast::SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: ast::Ident::new(format!("column {place}")),
                    };
                }
            }
        }
        ast::SetExpr::SetOperation { left, right, .. } => {
            name_duplicates(left);
            name_duplicates(right);
        }
        _ => {}
    }
}
