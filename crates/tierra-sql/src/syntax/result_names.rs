//! Names for the computed columns of a result: what is computed, as it is written.
//!
//! The planner would call `1 + a` `Int64(1) + t.a`. A name is the text that the parser writes, folded as SQL folds names: `COUNT(*)`
//! and `count(*)` are called alike. Columns of subqueries keep the planner's names, which show where `*` selects them.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, Query, SelectItem, SetExpr};

use crate::names::last_name;
use crate::visit::visit_expressions;

/// What the names of functions begin with that stand for something that was written otherwise.
const OWN: &str = "tierra_";

/// Names the columns of the query that `statement` answers, copies, stores or prepares.
pub(crate) fn write(statement: &mut Statement) {
    match statement {
        Statement::Statement(inner) => write_inner(inner),
        Statement::Explain(explain) => write(&mut explain.statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                name_columns(query);
            }
        }
        _ => {}
    }
}

fn write_inner(statement: &mut ast::Statement) {
    match statement {
        ast::Statement::Query(query) => name_columns(query),
        ast::Statement::CreateTable(create) => {
            if let Some(query) = &mut create.query {
                name_columns(query);
            }
        }
        ast::Statement::Prepare { statement, .. } => write_inner(statement),
        ast::Statement::Insert(insert) => name_all(insert.returning.iter_mut().flatten()),
        ast::Statement::Update(update) => name_all(update.returning.iter_mut().flatten()),
        ast::Statement::Delete(delete) => name_all(delete.returning.iter_mut().flatten()),
        _ => {}
    }
}

/// Set operations have the names of their first query.
fn name_columns(query: &mut Query) {
    let mut body = query.body.as_mut();
    loop {
        match body {
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(query) => body = &mut query.body,
            SetExpr::Select(select) => {
                return name_all(select.projection.iter_mut());
            }
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) => {
                return write_inner(inner);
            }
            _ => return,
        }
    }
}

fn name_all<'a>(items: impl Iterator<Item = &'a mut SelectItem>) {
    for item in items {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(name) = name_of(expr)
        {
            *item = SelectItem::ExprWithAlias {
                expr: std::mem::replace(expr, Expr::Value(ast::Value::Null.into())),
                alias: Ident::with_quote('"', name),
            };
        }
    }
}

/// The name of a computed column; `None` if the planner's is right.
fn name_of(expr: &Expr) -> Option<String> {
    let mut bare = expr;
    while let Expr::Nested(inner) = bare {
        bare = inner;
    }
    if matches!(bare, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
        return None;
    }
    let stands_for_other = visit_expressions(expr, |part| match part {
        Expr::Function(call) if last_name(&call.name).starts_with(OWN) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let name = folded(&expr.to_string());
    (name != "count(*)" && stands_for_other.is_continue()).then_some(name)
}

/// `text` in lower case, but for what is in quotes.
fn folded(text: &str) -> String {
    let mut quote = None;
    let fold = |char: char| {
        match quote {
            Some(open) if open == char => quote = None,
            None if matches!(char, '\'' | '"') => quote = Some(char),
            _ => {}
        }
        match quote {
            None => char.to_ascii_lowercase(),
            Some(_) => char,
        }
    };
    text.chars().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use crate::statement::split;

    fn written(sql: &str) -> String {
        split(sql).unwrap()[0].parse().unwrap().to_string()
    }

    #[test]
    fn what_is_computed_is_called_as_it_is_written() {
        for (sql, expected) in [
            ("select 1+A", r#"SELECT 1 + A AS "1 + a""#),
            (
                "select SUM(a), COUNT(*), sum(b) AS s from t",
                r#"SELECT SUM(a) AS "sum(a)", COUNT(*), sum(b) AS s FROM t"#,
            ),
            (
                "select a, (t.a), *, 'It''s A' from t",
                r#"SELECT a, (t.a), *, 'It''s A' AS "'It''s A'" FROM t"#,
            ),
            (
                "select x+1 from (select 1+1) q union select 2+2",
                r#"SELECT x + 1 AS "x + 1" FROM (SELECT 1 + 1) q UNION SELECT 2 + 2"#,
            ),
            (
                "with w as (select 1+1) (select 2+2)",
                r#"WITH w AS (SELECT 1 + 1) (SELECT 2 + 2 AS "2 + 2")"#,
            ),
            (
                "create table t as select 1+1",
                r#"CREATE TABLE t AS SELECT 1 + 1 AS "1 + 1""#,
            ),
            ("insert into t select 1+1", "INSERT INTO t SELECT 1 + 1"),
        ] {
            assert_eq!(written(sql), expected);
        }
    }

    #[test]
    fn quoted_text_keeps_its_case_and_its_quotes() {
        assert_eq!(
            written(r#"select "A" || 'B'"#),
            r#"SELECT "A" || 'B' AS """A"" || 'B'""#
        );
    }
}
