//! From text to statements: splitting, parsing, and removing what the planner could not keep.
//!
//! The text is tokenised once. Long lists of literals are taken out of the tokens (see [`crate::list`]), so that the parser
//! and the planner see a short statement. Numbers with more digits than a double become calls that carry their text (see
//! [`crate::rules`]).

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{self, VisitMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};

use crate::dialect::{TierraDialect, may_nest_joins, renames_target};
use crate::error::SqlError;
use crate::limits::{Depth, LimitError, balance, check_references};
use crate::list::{
    InSet, List, marked_array, replace_lists, set_name, settle_quantified, take_long_lists,
    write_arrays,
};
use crate::names::identifier;
use crate::placeholders;
use crate::rules::may_be_long;
use crate::syntax::{
    arrays_of_queries, column_names, constant_groups, function_columns, grouping_tuples, inserted,
    intervals, is_space, long_numbers, operators, ordered_items, plain_forms, result_names,
    windows,
};
use crate::tier_statement::TierStatement;
use crate::time::{left_out, zone};

/// The parser's recursion limit. It is higher than what [`Depth`] accepts, whose errors are clearer.
const RECURSION_LIMIT: usize = 10_000;
/// The most characters of a statement that an error quotes.
const QUOTED: usize = 60;

/// One statement of a text.
pub(crate) struct Parsed {
    tokens: Vec<TokenWithSpan>,
}

/// A statement without its long lists.
pub(crate) struct Compact {
    pub(crate) statement: Statement,
    /// The lists taken out, by the number in the mark.
    pub(crate) lists: Vec<Arc<List>>,
    /// The functions for the lists, except for arguments of EXECUTE.
    pub(crate) sets: Vec<Arc<ScalarUDF>>,
    /// Whether [`Parsed::settle`] was applied.
    pub(crate) is_settled: bool,
}

/// Splits `sql` into its statements.
pub(crate) fn split(sql: &str) -> Result<Vec<Parsed>, SqlError> {
    let tokens = Tokenizer::new(&TierraDialect::default(), sql)
        .tokenize_with_location()
        .map_err(|error| SqlError::Syntax(error.to_string()))?;
    let tokens = placeholders::numbered(tokens)?;
    let mut statements = Vec::new();
    let mut current = Vec::new();
    for mut token in tokens {
        if let Token::Number(digits, _) = &mut token.token {
            digits.retain(|digit| digit != '_');
        }
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
    /// The statement of these tokens.
    pub(crate) fn of(tokens: Vec<TokenWithSpan>) -> Self {
        Self { tokens }
    }

    pub(crate) fn tokens(&self) -> &[TokenWithSpan] {
        &self.tokens
    }

    /// The beginning of the statement, for messages.
    pub(crate) fn quoted(&self) -> String {
        self.beginning(QUOTED)
    }

    /// The statement, or its first `most` characters.
    pub(crate) fn beginning(&self, most: usize) -> String {
        let mut text = String::new();
        for token in &self.tokens {
            match &token.token {
                Token::Whitespace(_) if text.is_empty() || text.ends_with(' ') => {}
                Token::Whitespace(_) => text.push(' '),
                token => text.push_str(&token.to_string()),
            }
            if text.len() > most
                && let Some((end, _)) = text.char_indices().nth(most)
            {
                text.truncate(end);
                return text + "..";
            }
        }
        text.trim_end().to_string()
    }

    /// How deeply the statement nests.
    ///
    /// # Errors
    /// If the statement exceeds the limits of the parser and the planner.
    pub(crate) fn depth(&self) -> Result<Depth, LimitError> {
        Depth::of(&self.tokens)
    }

    /// The statement, if it creates or drops a tier.
    pub(crate) fn tier_statement(&self) -> Result<Option<TierStatement>, SqlError> {
        TierStatement::parse(&self.tokens)
    }

    /// Whether it ends a transaction, or a part of one. It may also be no statement at all.
    pub(crate) fn ends_transaction(&self) -> bool {
        let mut tokens = self.tokens.iter().map(|token| &token.token);
        match tokens.find(|token| !is_space(token)) {
            Some(Token::Word(word)) => matches!(
                word.keyword,
                Keyword::COMMIT | Keyword::END | Keyword::ROLLBACK
            ),
            _ => false,
        }
    }

    /// Whether it begins as `COPY table FROM`, which the parser does not know.
    pub(crate) fn is_copy_from(&self) -> bool {
        let tokens = self.tokens.iter().map(|token| &token.token);
        let mut words = tokens.filter(|token| !is_space(token));
        let is = |token: Option<&Token>, keyword| matches!(token, Some(Token::Word(word)) if word.keyword == keyword);
        is(words.next(), Keyword::COPY) && {
            let mut words = words.skip_while(
                |token| !matches!(token, Token::Word(word) if word.keyword != Keyword::NoKeyword),
            );
            is(words.next(), Keyword::FROM)
        }
    }

    /// The keyword that the statement begins with, after parentheses.
    pub(crate) fn first_keyword(&self) -> Keyword {
        let tokens = self.tokens.iter().map(|token| &token.token);
        let mut tokens = tokens.filter(|token| !is_space(token) && **token != Token::LParen);
        match tokens.next() {
            Some(Token::Word(word)) => word.keyword,
            _ => Keyword::NoKeyword,
        }
    }

    /// Whether it reads or changes rows, rather than the session or what tables there are.
    pub(crate) fn is_about_rows(&self) -> bool {
        matches!(
            self.first_keyword(),
            Keyword::SELECT
                | Keyword::WITH
                | Keyword::VALUES
                | Keyword::FROM
                | Keyword::TABLE
                | Keyword::INSERT
                | Keyword::UPDATE
                | Keyword::DELETE
                | Keyword::MERGE
                | Keyword::EXECUTE
        )
    }

    /// How many tokens it has, without white space.
    pub(crate) fn count(&self) -> usize {
        count(&self.tokens)
    }

    /// The name in `PREPARE name AS ..`.
    pub(crate) fn prepared_name(&self) -> Option<String> {
        let tokens = self.tokens.iter().map(|token| &token.token);
        let mut tokens = tokens.filter(|token| !is_space(token));
        match (tokens.next(), tokens.next()) {
            (Some(Token::Word(first)), Some(Token::Word(name)))
                if first.keyword == Keyword::PREPARE =>
            {
                Some(identifier(&ast::Ident {
                    value: name.value.clone(),
                    quote_style: name.quote_style,
                    span: Span::empty(),
                }))
            }
            _ => None,
        }
    }

    /// The statement for parameters of these types, if it has intervals, or dates, timestamps or instants beside `+` or `-`: there each is
    /// written as `CAST($1 AS type)`. The planner would take `$1 - INTERVAL '1 day'` for a difference of two intervals, and `ts - $1` for
    /// one of two timestamps.
    pub(crate) fn with_moments(&self, types: &[Option<DataType>]) -> Option<Self> {
        if types
            .iter()
            .flatten()
            .all(|ty| type_of_moment(ty).is_none())
        {
            return None;
        }
        let is_sum =
            |place: &usize| matches!(self.tokens[*place].token, Token::Plus | Token::Minus);
        let is_there = |place: &usize| !is_space(&self.tokens[*place].token);
        let mut all = Vec::with_capacity(self.tokens.len());
        let mut is_changed = false;
        for (place, token) in self.tokens.iter().enumerate() {
            let ty = match &token.token {
                Token::Placeholder(name) => declared(name, types).and_then(type_of_moment),
                _ => None,
            };
            let is_operand = || {
                let before = (0..place).rev().find(is_there);
                let behind = (place + 1..self.tokens.len()).find(is_there);
                before.is_some_and(|at| is_sum(&at)) || behind.is_some_and(|at| is_sum(&at))
            };
            match ty {
                Some(ty) if ty == INTERVAL || is_operand() => {
                    is_changed = true;
                    let cast = [
                        Token::make_keyword("CAST"),
                        Token::LParen,
                        token.token.clone(),
                    ];
                    let words = std::iter::once("AS").chain(ty.iter().copied());
                    let words = words.map(Token::make_keyword).chain([Token::RParen]);
                    let cast = cast.into_iter().chain(words);
                    all.extend(cast.map(|cast| TokenWithSpan::new(cast, token.span)));
                }
                _ => all.push(token.clone()),
            }
        }
        is_changed.then_some(Self { tokens: all })
    }

    /// Whether one of its words is one of `keywords`.
    pub(crate) fn has(&self, keywords: &[Keyword]) -> bool {
        has(&self.tokens, keywords)
    }

    /// Whether it has parameters.
    pub(crate) fn has_placeholders(&self) -> bool {
        let is_placeholder = |token: &TokenWithSpan| matches!(token.token, Token::Placeholder(_));
        self.tokens.iter().any(is_placeholder)
    }

    /// `PREPARE "name" AS` this statement.
    pub(crate) fn prepare_as(&self, name: &str) -> Self {
        let words = [
            Token::make_keyword("PREPARE"),
            Token::make_word(name, Some('"')),
            Token::make_keyword("AS"),
        ];
        let words = words.into_iter().map(TokenWithSpan::wrap);
        Self {
            tokens: words.chain(self.tokens.iter().cloned()).collect(),
        }
    }

    /// Parses the statement with every long list as written.
    pub(crate) fn parse(&self) -> Result<Statement, SqlError> {
        let mut statement = parse(self.tokens.clone())?;
        self.settle(&mut statement);
        Ok(statement)
    }

    /// Keeps what planning would lose: the digits of long numbers, and explicit casts of INSERT's values. It also rewrites
    /// comparisons with arrays for the planner.
    pub(crate) fn settle(&self, statement: &mut Statement) {
        match statement {
            Statement::Explain(explain) => self.settle(&mut explain.statement),
            Statement::Statement(inner) => {
                if let ast::Statement::Insert(insert) = prepared(inner) {
                    inserted::keep(insert);
                }
                self.settle_expressions(inner.as_mut());
            }
            Statement::CopyTo(copy) => {
                if let CopyToSource::Query(query) = &mut copy.source {
                    self.settle_expressions(query.as_mut());
                }
            }
            _ => {}
        }
    }

    fn settle_expressions(&self, inner: &mut impl VisitMut) {
        let is_suspect = |token: &TokenWithSpan| match &token.token {
            Token::Number(digits, _) => may_be_long(digits),
            _ => false,
        };
        if self.tokens.iter().any(is_suspect) {
            long_numbers::keep(inner);
        }
        if operators::are_in(&self.tokens) {
            operators::settle(inner);
        }
        let quantifies = |token: &TokenWithSpan| match &token.token {
            Token::Word(word) => {
                matches!(word.keyword, Keyword::ANY | Keyword::SOME | Keyword::ALL)
            }
            _ => false,
        };
        if self.tokens.iter().any(quantifies) {
            settle_quantified(inner);
        }
        let opens = |token: &TokenWithSpan| token.token == Token::LBracket;
        if self.tokens.iter().any(opens) {
            write_arrays(inner);
        }
        let names = |is_named: fn(&str) -> bool| {
            let mut tokens = self.tokens.iter().map(|token| &token.token);
            tokens.any(|token| matches!(token, Token::Word(word) if is_named(&word.value)))
        };
        if names(function_columns::is_named) {
            function_columns::name(inner);
        }
        if names(left_out::is_named) {
            left_out::write_out(inner);
        }
        if self.has(&[Keyword::ARRAY]) {
            arrays_of_queries::write_out(inner);
        }
        if self.has(&[Keyword::ROLLUP, Keyword::CUBE]) {
            grouping_tuples::write_out(inner);
        }
        if self.has(&[Keyword::GROUP]) {
            constant_groups::leave_out(inner);
        }
        if self.has(&[Keyword::ORDER]) {
            ordered_items::number(inner);
        }
        if self.has(&[Keyword::ZONE]) {
            zone::write_calls(inner);
        }
        if self.has(&[Keyword::INTERVAL]) {
            intervals::write_in_units(inner);
        }
    }

    /// Parses the statement with its long lists replaced. PREPARE and EXECUTE are not settled: a stored plan reads them as
    /// written. `account` is told how many tokens are parsed, before they are.
    pub(crate) fn parse_compact(
        &self,
        account: impl Fn(usize) -> Result<(), SqlError>,
    ) -> Result<Compact, SqlError> {
        let (tokens, lists) = take_long_lists(&self.tokens);
        account(count(&tokens))?;
        let mut statement = parse(tokens)?;
        let replaced = match sql_of(&mut statement) {
            Some(ast::Statement::Execute { parameters, .. }) => {
                let arrays = parameters.iter().map(marked_array);
                arrays.flatten().count()
            }
            Some(inner) if !lists.is_empty() => replace_lists(inner),
            _ => 0,
        };
        let lists = if replaced == lists.len() {
            lists
        } else {
            // One list is in a place where it cannot be replaced.
            account(self.count())?;
            statement = parse(self.tokens.clone())?;
            Vec::new()
        };
        let (is_execute, is_prepare) = match sql_of(&mut statement) {
            Some(inner) => (
                matches!(inner, ast::Statement::Execute { .. }),
                matches!(inner, ast::Statement::Prepare { .. }),
            ),
            None => (false, false),
        };
        let is_settled = !is_execute && !is_prepare;
        if is_settled {
            self.settle(&mut statement);
        }
        let functions = lists.iter().enumerate().filter(|_| !is_execute);
        let functions = functions.map(|(n, list)| InSet::new(set_name(n), Arc::clone(list)).into());
        Ok(Compact {
            sets: functions.map(Arc::new).collect(),
            statement,
            lists,
            is_settled,
        })
    }
}

/// `SELECT * FROM name`.
pub(crate) fn every_row(name: &ast::ObjectName) -> Result<ast::Statement, SqlError> {
    of_text(&format!("SELECT * FROM {name}"))
}

/// The one statement of a text.
pub(crate) fn of_text(text: &str) -> Result<ast::Statement, SqlError> {
    let statements = split(text)?;
    match statements.first().map(Parsed::parse).transpose()? {
        Some(Statement::Statement(statement)) => Ok(*statement),
        _ => Err(SqlError::Syntax(text.to_string())),
    }
}

fn parse(mut tokens: Vec<TokenWithSpan>) -> Result<Statement, SqlError> {
    column_names::quote(&mut tokens);
    plain_forms::write_tokens(&mut tokens);
    let again = may_nest_joins(&tokens).then(|| tokens.clone());
    let from_the_left = TierraDialect {
        renames_target: renames_target(&tokens),
        from_the_right: false,
    };
    let from_the_right = TierraDialect {
        from_the_right: true,
        ..from_the_left
    };
    let statement = parse_as(tokens, &from_the_left);
    match (statement, again) {
        (Err(error), Some(tokens)) => parse_as(tokens, &from_the_right).map_err(|_| error),
        (statement, _) => statement,
    }
}

fn parse_as(tokens: Vec<TokenWithSpan>, dialect: &TierraDialect) -> Result<Statement, SqlError> {
    let has_windows = has(&tokens, &[Keyword::OVER]);
    let has_other_forms = has(&tokens, &[Keyword::VALUES]) || has(&tokens, &[Keyword::INSERT]);
    let mut parser = DFParserBuilder::new(tokens)
        .with_dialect(dialect)
        .with_recursion_limit(RECURSION_LIMIT)
        .build()?;
    let mut statement = parser.parse_statement()?;
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
    result_names::write(&mut statement);
    if has_other_forms {
        plain_forms::write(&mut statement)?;
    }
    if has_windows {
        write_windows(&mut statement)?;
    }
    flatten(&mut statement)?;
    Ok(statement)
}

fn write_windows(statement: &mut Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Explain(explain) => write_windows(&mut explain.statement),
        Statement::Statement(inner) => windows::write_out(inner.as_mut()),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => windows::write_out(query.as_mut()),
            CopyToSource::Relation(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Balances long chains of conditions, and refuses statements that would be planned too often.
fn flatten(statement: &mut Statement) -> Result<(), LimitError> {
    match statement {
        Statement::Statement(inner) => {
            balance(inner.as_mut());
            check_references(inner.as_ref())
        }
        Statement::Explain(explain) => flatten(&mut explain.statement),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => {
                balance(query.as_mut());
                check_references(query.as_ref())
            }
            CopyToSource::Relation(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The statement in a PREPARE; otherwise the statement itself.
pub(crate) fn prepared(statement: &mut ast::Statement) -> &mut ast::Statement {
    match statement {
        ast::Statement::Prepare { statement, .. } => prepared(statement),
        other => other,
    }
}

/// The SQL statement, or the one in an EXPLAIN.
fn sql_of(statement: &mut Statement) -> Option<&mut ast::Statement> {
    match statement {
        Statement::Statement(inner) => Some(inner),
        Statement::Explain(explain) => sql_of(&mut explain.statement),
        _ => None,
    }
}

/// The type that is declared for the parameter of this name.
fn declared<'a>(name: &str, types: &'a [Option<DataType>]) -> Option<&'a DataType> {
    let number: usize = name.strip_prefix('$')?.parse().ok()?;
    types.get(number.checked_sub(1)?)?.as_ref()
}

/// The words for intervals.
const INTERVAL: &[&str] = &["INTERVAL"];

/// The words for a type of moments or intervals; `None` for any other type.
fn type_of_moment(ty: &DataType) -> Option<&'static [&'static str]> {
    match ty {
        DataType::Date32 => Some(&["DATE"]),
        DataType::Timestamp(_, None) => Some(&["TIMESTAMP"]),
        DataType::Timestamp(_, Some(_)) => Some(&["TIMESTAMP", "WITH", "TIME", "ZONE"]),
        DataType::Interval(_) => Some(INTERVAL),
        _ => None,
    }
}

fn has(tokens: &[TokenWithSpan], keywords: &[Keyword]) -> bool {
    let mut tokens = tokens.iter().map(|token| &token.token);
    tokens.any(|token| matches!(token, Token::Word(word) if keywords.contains(&word.keyword)))
}

fn count(tokens: &[TokenWithSpan]) -> usize {
    tokens
        .iter()
        .filter(|token| !is_space(&token.token))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;

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
            "select a where x not in ({}) and y in (1, 2)",
            numbers(1000)
        );
        let compact = split(&sql).unwrap()[0].parse_compact(|_| Ok(())).unwrap();
        assert_eq!(
            compact.statement.to_string(),
            "SELECT a WHERE (NOT tierra_in_set_0(x)) AND y IN (1, 2)"
        );
        assert_eq!(compact.sets.len(), 1);
    }

    #[test]
    fn lists_of_anything_else_stay() {
        for list in [
            numbers(63),
            format!("{}, 'a'", numbers(100)),
            format!("{}, 1 + 1", numbers(100)),
        ] {
            let sql = format!("select a where x in ({list})");
            let compact = split(&sql).unwrap()[0].parse_compact(|_| Ok(())).unwrap();
            assert!(compact.sets.is_empty(), "{list}");
        }
    }

    #[test]
    fn arrays_are_compared_like_lists() {
        let settled = |sql: &str| {
            let compact = split(sql).unwrap()[0].parse_compact(|_| Ok(())).unwrap();
            (compact.statement.to_string(), compact.sets.len())
        };
        let long = numbers(100);
        for (array, lists) in [
            ("ARRAY[1, 2]".to_string(), 0),
            ("make_array(1, 2)".to_string(), 0),
            (format!("[{long}, NULL]"), 1),
            (format!("make_array({long}, 1.5)"), 1),
        ] {
            let any = settled(&format!(
                "select a where x = any({array}) or x != all({array})"
            ));
            let expected = match lists {
                0 => "SELECT a WHERE x IN (1, 2) OR x NOT IN (1, 2)",
                _ => "SELECT a WHERE tierra_in_set_0(x) OR (NOT tierra_in_set_1(x))",
            };
            assert_eq!(any, (expected.to_string(), 2 * lists), "{array}");
        }
        assert_eq!(
            settled("select x = any($1) as a, x <> all($2) as b").0,
            "SELECT (x = ANY $1) AS a, (NOT (x = ANY $2)) AS b"
        );
        // A list stays where no function can replace it.
        let kept = settled(&format!(
            "select [{long}], x < any([{long}]), x in ({long})"
        ));
        assert_eq!(kept.1, 0);
        assert!(kept.0.contains(&format!("x IN ({long})")), "{}", kept.0);
    }

    #[test]
    fn long_numbers_keep_their_text() {
        let parsed = |sql: &str| {
            let statement = split(sql).unwrap()[0].parse().unwrap();
            statement.to_string()
        };
        assert_eq!(
            parsed("select 0.1 as a, -123456789012345678.12 as b"),
            "SELECT 0.1 AS a, tierra_number('-123456789012345678.12') AS b"
        );
    }

    #[test]
    fn a_query_that_is_copied_keeps_them_too() {
        for sql in [
            "copy (select 123456789012345678.12) to 'a.parquet'",
            "explain copy (select 123456789012345678.12) to 'a.parquet'",
        ] {
            let statement = split(sql).unwrap()[0].parse().unwrap().to_string();
            assert!(statement.contains("tierra_number("), "{statement}");
        }
    }

    #[test]
    fn declared_moments_beside_signs_are_cast() {
        let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        let types = [
            Some(DataType::Date32),
            None,
            Some(instant),
            Some(DataType::Int64),
        ];
        let written = |sql: &str| {
            let typed = split(sql).unwrap()[0].with_moments(&types);
            typed.map(|typed| typed.parse().unwrap().to_string())
        };
        assert_eq!(
            written("values ($1 - interval '1 day', $2 + 1, x - $3, $4 + 1, $1)").unwrap(),
            "VALUES (CAST($1 AS DATE) - INTERVAL '1 day', $2 + 1, x - CAST($3 AS TIMESTAMP WITH TIME ZONE), $4 + 1, $1)"
        );
        assert_eq!(written("select $1, x = $3, $4 - 1, $9 + 1"), None);
    }

    #[test]
    fn text_after_a_statement_is_an_error() {
        assert!(split("select 1 2 3").unwrap()[0].parse().is_err());
    }
}
