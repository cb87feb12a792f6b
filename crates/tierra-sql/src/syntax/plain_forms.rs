//! Forms of SQL that the planner lacks, as others that mean the same:
//!
//! | form | becomes |
//! |---|---|
//! | `TABLE t` | `SELECT * FROM t` |
//! | `WITH a AS [NOT] MATERIALIZED (query)` | `WITH a AS (query)` |
//! | `WITH a AS (query) INSERT INTO t query` | `INSERT INTO t WITH a AS (query) query` |
//! | `x IN (VALUES (1), (2))` | `x IN (SELECT * FROM (VALUES (1), (2)))` |

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Query, SetExpr, TableFactor, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::is_space;
use crate::error::SqlError;
use crate::statement::of_text;
use crate::visit::visit_mut;

/// Writes the forms that the parser does not read.
pub(crate) fn write_tokens(tokens: &mut Vec<TokenWithSpan>) {
    let has = |keyword| move |token: &TokenWithSpan| keyword_of(token) == Some(keyword);
    if !tokens
        .iter()
        .any(|token| has(Keyword::TABLE)(token) || has(Keyword::MATERIALIZED)(token))
    {
        return;
    }
    let (mut before_last, mut last) = (None, None);
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        if is_space(&token.token) {
            written.push(token.clone());
            continue;
        }
        let keyword = keyword_of(token);
        match (last, keyword) {
            (
                None
                | Some(Some(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::ALL)),
                Some(Keyword::TABLE),
            ) => {
                let words = [
                    Token::make_keyword("SELECT"),
                    Token::Mul,
                    Token::make_keyword("FROM"),
                ];
                written.extend(words.map(|word| TokenWithSpan::new(word, token.span)));
            }
            (Some(Some(Keyword::AS)), Some(Keyword::MATERIALIZED)) if opens(&tokens[at + 1..]) => {}
            (Some(Some(Keyword::NOT)), Some(Keyword::MATERIALIZED))
                if before_last == Some(Some(Keyword::AS)) && opens(&tokens[at + 1..]) =>
            {
                let not = written.iter().rposition(has(Keyword::NOT));
                written.truncate(not.unwrap_or(written.len()));
            }
            _ => written.push(token.clone()),
        }
        (before_last, last) = (last, Some(keyword));
    }
    *tokens = written;
}

fn keyword_of(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    }
}

/// Whether the next token is a parenthesis.
fn opens(tokens: &[TokenWithSpan]) -> bool {
    let next = tokens.iter().find(|token| !is_space(&token.token));
    next.is_some_and(|next| next.token == Token::LParen)
}

/// Writes the other forms of a statement.
pub(crate) fn write(statement: &mut Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Statement(inner) => {
            insert_with(inner);
            write_queries(inner.as_mut())
        }
        Statement::Explain(explain) => write(&mut explain.statement),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => write_queries(query.as_mut()),
            CopyToSource::Relation(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Moves WITH before an INSERT to the query of the INSERT.
fn insert_with(statement: &mut ast::Statement) {
    if let ast::Statement::Prepare { statement, .. } = statement {
        return insert_with(statement);
    }
    let ast::Statement::Query(query) = statement else {
        return;
    };
    if let SetExpr::Insert(ast::Statement::Insert(insert)) = query.body.as_mut()
        && let Some(source) = &mut insert.source
        && let Some(mut with) = query.with.take()
    {
        if let Some(inner) = source.with.take() {
            with.recursive |= inner.recursive;
            with.cte_tables.extend(inner.cte_tables);
        }
        source.with = Some(with);
        *statement = ast::Statement::Insert(insert.clone());
    }
}

fn write_queries(part: &mut impl VisitMut) -> Result<(), SqlError> {
    match visit_mut(part, &mut Queries) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Queries;

impl VisitorMut for Queries {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::InSubquery { subquery, .. } = expr
            && matches!(subquery.body.as_ref(), SetExpr::Values(_))
        {
            match rows_of(subquery) {
                Ok(rows) => **subquery = rows,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

/// `SELECT * FROM (query)`.
fn rows_of(values: &Query) -> Result<Query, SqlError> {
    let statement = of_text("SELECT * FROM (SELECT 1) AS rows")?;
    let ast::Statement::Query(mut query) = statement else {
        return Err(SqlError::Syntax(statement.to_string()));
    };
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [from] = select.from.as_mut_slice()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        **subquery = values.clone();
    }
    Ok(*query)
}

#[cfg(test)]
mod tests {
    use crate::statement::split;

    #[test]
    fn each_form_becomes_one_that_the_planner_has() {
        for (sql, expected) in [
            (" table t order by 1", "SELECT * FROM t ORDER BY 1"),
            (
                "table a union all table b",
                "SELECT * FROM a UNION ALL SELECT * FROM b",
            ),
            (
                "with a as materialized (select x from t) select x from a",
                "WITH a AS (SELECT x FROM t) SELECT x FROM a",
            ),
            (
                "with a as not  materialized (select x from t) select x from a",
                "WITH a AS (SELECT x FROM t) SELECT x FROM a",
            ),
            (
                "select materialized from t where not materialized",
                "SELECT materialized FROM t WHERE NOT materialized",
            ),
            (
                "with a as (select x from t) insert into t select x from a",
                "INSERT INTO t WITH a AS (SELECT x FROM t) SELECT x FROM a",
            ),
            (
                "with a as (select x from t) insert into t with b as (select x from a) select x from b",
                "INSERT INTO t WITH a AS (SELECT x FROM t), b AS (SELECT x FROM a) SELECT x FROM b",
            ),
            (
                "select x from t where x in (values (1), (2))",
                "SELECT x FROM t WHERE x IN (SELECT * FROM (VALUES (1), (2)) AS rows)",
            ),
            ("create table t (a int)", "CREATE TABLE t (a INT)"),
        ] {
            let statement = split(sql).unwrap()[0].parse().unwrap();
            assert_eq!(statement.to_string(), expected);
        }
    }
}
