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
    self, Expr, Query, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
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
    let first = tokens.iter().find(|token| !is_space(&token.token));
    let first = first.and_then(keyword_of);
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Places in `written` of the last two words or signs.
    let (mut before, mut last) = (None, None);
    for (at, token) in tokens.iter().enumerate() {
        let follows = |keyword: Keyword, place: Option<usize>| {
            place.is_some_and(|place| keyword_of(&written[place]) == Some(keyword))
        };
        match keyword_of(token) {
            Some(Keyword::TABLE)
                if is_query(first, last.map(|place| &written[place]))
                    || first == Some(Keyword::INSERT)
                        && (follows(Keyword::INTO, before)
                            || before
                                .is_some_and(|place| written[place].token == Token::Period)) =>
            {
                let words = [
                    Token::make_keyword("SELECT"),
                    Token::Mul,
                    Token::make_keyword("FROM"),
                ];
                written.extend(words.map(|word| TokenWithSpan::new(word, token.span)));
            }
            Some(Keyword::MATERIALIZED)
                if follows(Keyword::AS, last) && opens_query(&tokens[at + 1..]) =>
            {
                continue;
            }
            Some(Keyword::MATERIALIZED)
                if follows(Keyword::NOT, last)
                    && follows(Keyword::AS, before)
                    && opens_query(&tokens[at + 1..]) =>
            {
                written.truncate(last.unwrap_or_default());
                continue;
            }
            _ => written.push(token.clone()),
        }
        if !is_space(&token.token) {
            (before, last) = (last, Some(written.len() - 1));
        }
    }
    *tokens = written;
}

/// Whether TABLE begins a query behind `last`, in a statement that begins with `first`; behind the name in INSERT INTO it does as well.
fn is_query(first: Option<Keyword>, last: Option<&TokenWithSpan>) -> bool {
    let Some(last) = last else {
        return true;
    };
    match &last.token {
        Token::LParen | Token::RParen => true,
        Token::Word(word) => match word.keyword {
            Keyword::AS
            | Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::ALL
            | Keyword::DISTINCT
            | Keyword::EXPLAIN => true,
            Keyword::ANALYZE | Keyword::VERBOSE => first == Some(Keyword::EXPLAIN),
            _ => false,
        },
        _ => false,
    }
}

fn keyword_of(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    }
}

/// Whether a query in parentheses follows.
fn opens_query(tokens: &[TokenWithSpan]) -> bool {
    let mut next = tokens.iter().filter(|token| !is_space(&token.token));
    next.next().is_some_and(|next| next.token == Token::LParen)
        && next.next().is_some_and(|next| {
            next.token == Token::LParen
                || matches!(
                    keyword_of(next),
                    Some(Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::TABLE)
                )
        })
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
        && let Some(with) = query.with.take()
    {
        if source.with.is_some() {
            let inner = Query {
                with: None,
                ..source.as_ref().clone()
            };
            let inner = std::mem::replace(source.as_mut(), inner);
            *source.body = SetExpr::Query(Box::new(inner));
            (source.order_by, source.limit_clause, source.fetch) = (None, None, None);
        }
        source.with = Some(with);
        if let SetExpr::Insert(insert) = std::mem::replace(
            query.body.as_mut(),
            SetExpr::Values(ast::Values {
                explicit_row: false,
                value_keyword: false,
                rows: Vec::new(),
            }),
        ) {
            *statement = insert;
        }
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
    match query.body.as_mut() {
        SetExpr::Select(select) => match select.from.as_mut_slice() {
            [
                TableWithJoins {
                    relation: TableFactor::Derived { subquery, .. },
                    ..
                },
            ] => **subquery = values.clone(),
            _ => return Err(SqlError::Syntax(query.to_string())),
        },
        _ => return Err(SqlError::Syntax(query.to_string())),
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
                "INSERT INTO t WITH a AS (SELECT x FROM t) (WITH b AS (SELECT x FROM a) SELECT x FROM b)",
            ),
            (
                "select x from t where x in (values (1), (2))",
                "SELECT x FROM t WHERE x IN (SELECT * FROM (VALUES (1), (2)) AS rows)",
            ),
            ("create table t (a int)", "CREATE TABLE t (a INT)"),
            (
                "create table u as table t",
                "CREATE TABLE u AS SELECT * FROM t",
            ),
            ("insert into u table t", "INSERT INTO u SELECT * FROM t"),
            (
                "with a as (table t) table a",
                "WITH a AS (SELECT * FROM t) SELECT * FROM a",
            ),
            (
                "select x from (values (1)) as materialized(x)",
                "SELECT x FROM (VALUES (1)) AS materialized (x)",
            ),
        ] {
            let statement = split(sql).unwrap()[0].parse().unwrap();
            assert_eq!(statement.to_string(), expected);
        }
    }
}
