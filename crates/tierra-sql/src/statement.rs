//! From text to statements: splitting, parsing, and what the planner could not keep taken out.
//!
//! The text is tokenised once. At the level of tokens a list of literals costs next to nothing, so
//! that is where long ones are recognised and replaced by a mark (see [`crate::in_set`]); the parser
//! and the planner then see a short statement. Numbers with more digits than a double become calls
//! that carry their text (see [`crate::rules`]).

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{self, Expr, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::SqlError;
use crate::in_set::{InSet, Literals};
use crate::rules::{LONG_NUMBER, is_long, may_be_long};
use crate::tier_statement::TierStatement;

/// Lists shorter than this are left to the planner.
const LONG_LIST: usize = 64;
/// How deeply expressions may nest.
const RECURSION_LIMIT: usize = 128;
/// Begins the literal that stands for a list; no text a user types contains it.
const MARK: &str = "\u{1}tierra_in_set_";
/// Characters of a statement that an error quotes.
const QUOTED: usize = 60;

/// One statement of a text.
pub(crate) struct Parsed {
    tokens: Vec<TokenWithSpan>,
}

/// A statement ready for planning, with the functions that its long lists became.
pub(crate) struct Compact {
    pub(crate) statement: Statement,
    pub(crate) sets: Vec<Arc<ScalarUDF>>,
}

/// Split `sql` into its statements.
pub(crate) fn split(sql: &str) -> Result<Vec<Parsed>, SqlError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| SqlError::Syntax(error.to_string()))?;
    let mut statements = Vec::new();
    let mut current = Vec::new();
    for token in tokens {
        if token.token == Token::SemiColon {
            statements.push(Parsed {
                tokens: std::mem::take(&mut current),
            });
        } else {
            current.push(token);
        }
    }
    statements.push(Parsed { tokens: current });
    statements.retain(|statement| statement.tokens.iter().any(|token| !is_space(&token.token)));
    Ok(statements)
}

impl Parsed {
    /// The statement's beginning, for messages.
    pub(crate) fn quoted(&self) -> String {
        let mut text = String::new();
        for token in &self.tokens {
            match &token.token {
                Token::Whitespace(_) if text.is_empty() || text.ends_with(' ') => {}
                Token::Whitespace(_) => text.push(' '),
                token => text.push_str(&token.to_string()),
            }
            if let Some((end, _)) = text.char_indices().nth(QUOTED) {
                text.truncate(end);
                return text + "..";
            }
        }
        text.trim_end().to_string()
    }

    /// The statement, if it is about a tier.
    pub(crate) fn tier_statement(&self) -> Result<Option<TierStatement>, SqlError> {
        TierStatement::parse(&self.tokens)
    }

    /// Parse the statement, every long list as it is written.
    pub(crate) fn parse(&self) -> Result<Statement, SqlError> {
        let mut statement = parse(self.tokens.clone())?;
        self.keep_digits(&mut statement);
        Ok(statement)
    }

    /// Make what planning would lose part of the statement: the digits of long numbers, and that a
    /// value of INSERT was cast by hand.
    fn keep_digits(&self, statement: &mut Statement) {
        let Some(inner) = sql_of(statement) else {
            return;
        };
        if let ast::Statement::Insert(insert) = prepared(inner) {
            mark_casts(insert);
            if let Some(source) = &mut insert.source {
                name_twins(source.body.as_mut());
            }
        }
        let is_suspect = |token: &TokenWithSpan| match &token.token {
            Token::Number(digits, _) => may_be_long(digits),
            _ => false,
        };
        if self.tokens.iter().any(is_suspect) {
            let _ = inner.visit(&mut KeepNumbers);
        }
    }

    /// Parse the statement with its long lists replaced.
    pub(crate) fn parse_compact(&self) -> Result<Compact, SqlError> {
        let (tokens, lists) = take_long_lists(&self.tokens);
        let mut statement = parse(tokens)?;
        // A stored plan reads the arguments of EXECUTE as they are written.
        if !matches!(sql_of(&mut statement), Some(ast::Statement::Execute { .. })) {
            self.keep_digits(&mut statement);
        }
        if lists.is_empty() {
            return Ok(Compact {
                statement,
                sets: Vec::new(),
            });
        }
        let Some(inner) = sql_of(&mut statement) else {
            return Ok(Compact {
                statement: self.parse()?,
                sets: Vec::new(),
            });
        };
        let _ = inner.visit(&mut CallSets);
        let sets = lists.into_iter().enumerate();
        let sets = sets
            .map(|(n, list)| Arc::new(ScalarUDF::from(InSet::new(set_name(n), list))))
            .collect();
        Ok(Compact { statement, sets })
    }
}

fn parse(tokens: Vec<TokenWithSpan>) -> Result<Statement, SqlError> {
    let mut parser = DFParserBuilder::new(tokens)
        .with_dialect(&GenericDialect {})
        .with_recursion_limit(RECURSION_LIMIT)
        .build()?;
    let statement = parser.parse_statement()?;
    let rest = parser.parser.peek_token();
    if rest.token != Token::EOF {
        let error = format!(
            "Expected: end of statement, found: {}{}",
            rest.token, rest.span.start
        );
        return Err(SqlError::Syntax(
            ParserError::ParserError(error).to_string(),
        ));
    }
    Ok(statement)
}

/// The statement of SQL's own, where it is one or the explanation of one.
/// What a PREPARE prepares; any other statement itself.
fn prepared(statement: &mut ast::Statement) -> &mut ast::Statement {
    match statement {
        ast::Statement::Prepare { statement, .. } => prepared(statement),
        other => other,
    }
}

fn sql_of(statement: &mut Statement) -> Option<&mut ast::Statement> {
    match statement {
        Statement::Statement(inner) => Some(inner),
        Statement::Explain(explain) => sql_of(&mut explain.statement),
        _ => None,
    }
}

/// The planner casts every value to its column's type, after which nothing tells its casts from those
/// that are written. Written twice, the inner one is the user's.
fn mark_casts(insert: &mut ast::Insert) {
    let Some(source) = &mut insert.source else {
        return;
    };
    let ast::SetExpr::Values(values) = source.body.as_mut() else {
        return;
    };
    for mut cell in values.rows.iter_mut().flat_map(|row| &mut row.content) {
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

/// Names every expression of a select list that stands there twice: the planner wants its columns to
/// differ by name, and nobody sees the names of what is inserted.
fn name_twins(source: &mut ast::SetExpr) {
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
            name_twins(left);
            name_twins(right);
        }
        _ => {}
    }
}

/// Turns numbers with more digits than a double into calls that carry their text.
struct KeepNumbers;

impl VisitorMut for KeepNumbers {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let text = match expr {
            Expr::UnaryOp {
                op: ast::UnaryOperator::Minus,
                expr,
            } => digits(expr).map(|digits| format!("-{digits}")),
            ref number => digits(number).map(str::to_string),
        };
        if let Some(text) = text.filter(|text| is_long(text)) {
            let text = Expr::Value(ast::Value::SingleQuotedString(text).into());
            *expr = call(LONG_NUMBER.to_string(), text);
        }
        ControlFlow::Continue(())
    }
}

fn digits(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(digits, _),
            ..
        }) => Some(digits),
        _ => None,
    }
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

fn set_name(number: usize) -> String {
    format!("tierra_in_set_{number}")
}

/// Replace every `IN (long list of literals)` by `IN ('mark')`.
fn take_long_lists(tokens: &[TokenWithSpan]) -> (Vec<TokenWithSpan>, Vec<Literals>) {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len().min(1024));
    let mut lists = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        kept.push(token.clone());
        at += 1;
        let Token::Word(word) = &token.token else {
            continue;
        };
        if word.keyword != Keyword::IN || word.quote_style.is_some() {
            continue;
        }
        let Some(open) = (at..tokens.len()).find(|&next| !is_space(&tokens[next].token)) else {
            break;
        };
        if tokens[open].token != Token::LParen {
            continue;
        }
        if let Some((literals, close)) = literals(tokens, open + 1)
            && literals.len() >= LONG_LIST
        {
            kept.extend_from_slice(&tokens[at..=open]);
            let mark = Token::SingleQuotedString(format!("{MARK}{}", lists.len()));
            kept.push(TokenWithSpan {
                token: mark,
                span: tokens[open].span,
            });
            lists.push(literals);
            at = close;
        }
    }
    (kept, lists)
}

/// The literals from `at` up to the closing parenthesis, whose place is returned; `None` where there
/// is anything but integers or anything but strings.
fn literals(tokens: &[TokenWithSpan], at: usize) -> Option<(Literals, usize)> {
    let mut integers = Vec::new();
    let mut strings = Vec::new();
    let mut negative = false;
    let mut expects_value = true;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::Minus if expects_value && !negative => negative = true,
            Token::Number(digits, false) if expects_value => {
                let value: i64 = digits.parse().ok()?;
                integers.push(if negative { -value } else { value });
                (negative, expects_value) = (false, false);
            }
            Token::SingleQuotedString(text) if expects_value && !negative => {
                strings.push(text.clone());
                expects_value = false;
            }
            Token::Comma if !expects_value => expects_value = true,
            Token::RParen if !expects_value => {
                return match (integers.is_empty(), strings.is_empty()) {
                    (false, true) => Some((Literals::Integers(integers), place)),
                    (true, false) => Some((Literals::Strings(strings), place)),
                    _ => None,
                };
            }
            _ => return None,
        }
    }
    None
}

/// Turns `x IN ('mark')` into a call of the set's function.
struct CallSets;

impl VisitorMut for CallSets {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::InList {
            expr: value,
            list,
            negated,
        } = expr
        else {
            return ControlFlow::Continue(());
        };
        let [
            Expr::Value(ast::ValueWithSpan {
                value: ast::Value::SingleQuotedString(mark),
                ..
            }),
        ] = list.as_slice()
        else {
            return ControlFlow::Continue(());
        };
        let Some(number) = mark
            .strip_prefix(MARK)
            .and_then(|number| number.parse().ok())
        else {
            return ControlFlow::Continue(());
        };
        let null = Expr::Value(ast::Value::Null.into());
        let value = std::mem::replace(value.as_mut(), null);
        let call = call(set_name(number), value);
        *expr = if *negated {
            Expr::Nested(Box::new(Expr::UnaryOp {
                op: ast::UnaryOperator::Not,
                expr: Box::new(call),
            }))
        } else {
            call
        };
        ControlFlow::Continue(())
    }
}

fn call(name: String, argument: Expr) -> Expr {
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(
                argument,
            ))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> String {
        (0..n).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn statements_end_at_semicolons_outside_strings() {
        let statements = split(" select ';' ;; -- nothing; here\n select 2;\n").unwrap();
        let quoted: Vec<_> = statements.iter().map(Parsed::quoted).collect();
        assert_eq!(quoted, ["select ';'", "select 2"]);
    }

    #[test]
    fn a_long_list_becomes_one_call() {
        let sql = format!(
            "select 1 where x not in ({}) and y in (1, 2)",
            numbers(1000)
        );
        let compact = split(&sql).unwrap()[0].parse_compact().unwrap();
        assert_eq!(
            compact.statement.to_string(),
            "SELECT 1 WHERE (NOT tierra_in_set_0(x)) AND y IN (1, 2)"
        );
        assert_eq!(compact.sets.len(), 1);
    }

    #[test]
    fn lists_of_anything_else_stay() {
        for list in [
            numbers(LONG_LIST - 1),
            format!("{}, 'a'", numbers(100)),
            format!("{}, 1.5", numbers(100)),
        ] {
            let sql = format!("select 1 where x in ({list})");
            let compact = split(&sql).unwrap()[0].parse_compact().unwrap();
            assert!(compact.sets.is_empty(), "{list}");
        }
    }

    #[test]
    fn long_numbers_keep_their_text() {
        let parsed = |sql: &str| {
            let statement = split(sql).unwrap()[0].parse().unwrap();
            statement.to_string()
        };
        assert_eq!(
            parsed("select 0.1, -123456789012345678.12"),
            "SELECT 0.1, tierra_number('-123456789012345678.12')"
        );
    }

    #[test]
    fn text_after_a_statement_is_an_error() {
        assert!(split("select 1 2 3").unwrap()[0].parse().is_err());
    }
}
