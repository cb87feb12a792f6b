//! The alias of a function in FROM names its column, too: `SELECT g + 1 FROM generate_series(1, 3) AS g`, as in PostgreSQL.
//!
//! DataFusion calls the column of a series `value`, and that of `unnest` by its whole expression, and knows no other name for them. So
//! the alias is written once more, as that of the column. A function without an alias keeps DataFusion's name.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ObjectName, TableAlias, TableAliasColumnDef, TableFactor, VisitMut, VisitorMut,
};

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
    let _ = statement.visit(&mut FunctionColumns);
}

struct FunctionColumns;

impl VisitorMut for FunctionColumns {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(alias) = alias_of(factor)
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
