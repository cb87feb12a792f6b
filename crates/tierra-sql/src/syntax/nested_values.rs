//! VALUES inside the query of an INSERT: `INSERT INTO t SELECT x, x + 1 FROM (VALUES (1), (2)) AS v(x)`.
//!
//! DataFusion's planner gives every VALUES of an INSERT the types of the table's columns, those inside its query, too, and refuses them
//! if they have another width. Here such a one becomes `SELECT .. UNION ALL SELECT ..`, which has its own columns.
//!
//! Invariant: the query means the same. VALUES that are inserted themselves are left.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement,
    Values, VisitorMut,
};

use crate::error::SqlError;
use crate::statement::of_text;
use crate::visit::visit_mut;

/// The most rows: each is planned as a query.
const ROWS_MOST: usize = 1_000;

/// Settles the VALUES inside the query of an INSERT.
pub(crate) fn settle(insert: &mut Insert) -> Result<(), SqlError> {
    let Some(source) = &mut insert.source else {
        return Ok(());
    };
    let select = select_of_one()?;
    let mut nested = NestedValues { select };
    // It never breaks.
    let _ = visit_mut(&mut source.with, &mut nested);
    let _ = match inserted(source.body.as_mut()) {
        SetExpr::Values(values) => visit_mut(&mut values.rows, &mut nested),
        query => visit_mut(query, &mut nested),
    };
    Ok(())
}

/// The query without its parentheses.
fn inserted(mut body: &mut SetExpr) -> &mut SetExpr {
    while let SetExpr::Query(query) = body {
        body = query.body.as_mut();
    }
    body
}

/// `SELECT 1`, which a row's expressions are put into.
fn select_of_one() -> Result<Select, SqlError> {
    match of_text("SELECT 1")? {
        Statement::Query(query) => match *query.body {
            SetExpr::Select(select) => Ok(*select),
            other => Err(SqlError::Syntax(other.to_string())),
        },
        other => Err(SqlError::Syntax(other.to_string())),
    }
}

struct NestedValues {
    select: Select,
}

impl VisitorMut for NestedValues {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut()
            && has_one_width(values)
        {
            let rows: Vec<Vec<Expr>> = values.rows.drain(..).map(|row| row.content).collect();
            *query.body = self.union(rows);
        }
        ControlFlow::Continue(())
    }
}

/// Rows of different widths are the planner's to refuse.
fn has_one_width(values: &Values) -> bool {
    let mut widths = values.rows.iter().map(|row| row.content.len());
    let width = widths.next();
    !values.value_keyword
        && values.rows.len() <= ROWS_MOST
        && width.is_some()
        && widths.all(|other| Some(other) == width)
}

impl NestedValues {
    /// `SELECT .. UNION ALL SELECT ..`, as a tree that is as flat as can be.
    fn union(&self, mut rows: Vec<Vec<Expr>>) -> SetExpr {
        if rows.len() <= 1 {
            let row = rows.pop().unwrap_or_default();
            let named = row.into_iter().zip(1..).map(|(expr, number)| {
                let alias = Ident::new(format!("column{number}"));
                SelectItem::ExprWithAlias { expr, alias }
            });
            let mut select = self.select.clone();
            select.projection = named.collect();
            return SetExpr::Select(Box::new(select));
        }
        let right = rows.split_off(rows.len() / 2);
        SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::All,
            left: Box::new(self.union(rows)),
            right: Box::new(self.union(right)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(sql: &str) -> String {
        let Statement::Insert(mut insert) = of_text(sql).unwrap() else {
            panic!("{sql}");
        };
        settle(&mut insert).unwrap();
        insert.to_string()
    }

    #[test]
    fn values_inside_become_queries() {
        let one = "(SELECT 1 AS column1 UNION ALL SELECT 2 AS column1)";
        for (from, to) in [
            ("(VALUES (1), (2)) AS v (x)", format!("{one} AS v (x)")),
            (
                "(SELECT * FROM (VALUES (1), (2))) AS v (x)",
                format!("(SELECT * FROM {one}) AS v (x)"),
            ),
        ] {
            let sql = |from: &str| format!("INSERT INTO t SELECT x, x + 1 FROM {from}");
            assert_eq!(settled(&sql(from)), sql(&to));
        }
        let sql = "INSERT INTO t WITH v (x) AS (VALUES (1)) SELECT x, x FROM v";
        assert!(settled(sql).contains("AS (SELECT 1 AS column1)"));
    }

    #[test]
    fn values_that_are_inserted_are_left() {
        let sql = "INSERT INTO t VALUES (1), (2)";
        assert_eq!(settled(sql), sql);
        let sql = "INSERT INTO t VALUES ((SELECT max(x) FROM (VALUES (1)) AS v (x)), 2)";
        assert!(settled(sql).contains("(SELECT 1 AS column1)"));
    }
}
