//! Functions in FROM, as in PostgreSQL: their alias names their column, too, and their arguments may be columns of what stands before.
//!
//! ```text
//! FROM generate_series(1, 3) AS g         FROM generate_series(1, 3) AS g(g)
//! FROM t, generate_series(1, t.n) AS g    FROM t, LATERAL (SELECT unnest(generate_series(1, t.n)) AS g) AS g
//! ```
//! DataFusion calls the column of a series `value`, and that of `unnest` by its whole expression, and knows no other name for them. A
//! function of constants without an alias keeps DataFusion's name. It takes no columns for arguments.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, SelectItem, SetExpr, Statement,
    TableAlias, TableAliasColumnDef, TableFactor, VisitMut, VisitorMut,
};

use crate::list::call;
use crate::statement::of_text;
use crate::visit::{visit_expressions, visit_mut};

/// Functions of one column.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// Whether a statement with this word may call one of the functions.
pub(crate) fn is_named(word: &str) -> bool {
    let mut names = SERIES.iter().chain(&["unnest"]);
    names.any(|name| word.eq_ignore_ascii_case(name))
}

/// Names the columns of the functions of `statement` that have an alias.
pub(crate) fn name(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut FunctionColumns);
}

struct FunctionColumns;

impl VisitorMut for FunctionColumns {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(lateral) = of_columns(factor) {
            *factor = lateral;
        } else if let Some(alias) = alias_of(factor)
            && alias.columns.is_empty()
        {
            alias.columns.push(TableAliasColumnDef {
                name: alias.name.clone(),
                data_type: None,
            });
        }
        ControlFlow::Continue(())
    }
}

/// The alias of a function of one column.
fn alias_of(factor: &mut TableFactor) -> Option<&mut TableAlias> {
    match factor {
        TableFactor::Table {
            name,
            args: Some(_),
            alias,
            with_ordinality: false,
            ..
        }
        | TableFactor::Function {
            name,
            alias,
            with_ordinality: false,
            ..
        } if is_series(name) => alias.as_mut(),
        TableFactor::UNNEST {
            alias,
            array_exprs,
            with_offset: false,
            with_ordinality: false,
            ..
        } if array_exprs.len() == 1 => alias.as_mut(),
        _ => None,
    }
}

fn is_series(name: &ObjectName) -> bool {
    let called = match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    };
    called.is_some_and(|called| {
        let mut names = SERIES.iter();
        names.any(|name| called.value.eq_ignore_ascii_case(name))
    })
}

/// The subquery in place of a function of one column whose arguments name columns.
fn of_columns(factor: &TableFactor) -> Option<TableFactor> {
    let (name, list) = match factor {
        TableFactor::Table {
            name,
            args: Some(args),
            with_ordinality: false,
            ..
        } if is_series(name) => (name.to_string(), series(name, &args.args)?),
        TableFactor::Function {
            name,
            args,
            with_ordinality: false,
            ..
        } if is_series(name) => (name.to_string(), series(name, args)?),
        TableFactor::UNNEST {
            array_exprs,
            with_offset: false,
            with_ordinality: false,
            ..
        } => match array_exprs.as_slice() {
            [list] => ("unnest".to_owned(), list.clone()),
            _ => return None,
        },
        _ => return None,
    };
    let names_column = visit_expressions(&list, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if names_column.is_continue() {
        return None;
    }
    let alias = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.clone(),
        _ => None,
    };
    let alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name),
        columns: Vec::new(),
        at: None,
    });
    let column = match alias.columns.as_slice() {
        [] => alias.name.clone(),
        [column, ..] => column.name.clone(),
    };
    let Ok(Statement::Query(mut subquery)) = of_text("SELECT 1") else {
        return None;
    };
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.projection = vec![SelectItem::ExprWithAlias {
            expr: call("unnest".to_owned(), [list]),
            alias: column,
        }];
    }
    Some(TableFactor::Derived {
        lateral: true,
        subquery,
        alias: Some(alias),
        sample: None,
    })
}

/// A call of the function of this name that makes a list.
fn series(name: &ObjectName, arguments: &[FunctionArg]) -> Option<Expr> {
    let arguments = arguments.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let arguments: Vec<Expr> = arguments.collect::<Option<_>>()?;
    Some(call(name.to_string().to_lowercase(), arguments))
}
