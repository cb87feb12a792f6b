//! The dialect of statements: the parser's general one, except for the precedence of IS DISTINCT FROM and of operators, nested joins,
//! INSERT INTO t AS x, and numbers such as `1_000`.
//!
//! The parser reads everything after `IS [NOT] DISTINCT FROM` as its right side. As in PostgreSQL it binds as IS
//! does: looser than comparisons, tighter than NOT, AND and OR.
//!
//! Operators bind as in PostgreSQL. `^` binds tighter than `*`, for it is a power ([`operators`](crate::syntax::operators)). All but those of
//! arithmetic and comparison bind alike, between the two, from the left: `||`, `&`, `|`, `#`, `<<`, `>>`, `~`, `@>`. The parser takes
//! `'n' || 2 * 3` for `('n' || 2) * 3`.
//!
//! Joins are read from the left, `(a JOIN b ON ..) JOIN c ON ..`. Text that cannot be read so is read from the right, if every
//! join has its condition: `a JOIN (b JOIN c ON ..) ON ..` without the parentheses.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The precedence of `^`: between the parser's of `*` (40) and of `::` (50).
const POWER: u8 = 45;

/// The dialect of statements.
#[derive(Debug, Default)]
pub(crate) struct TierraDialect {
    /// Whether joins are read from the right.
    pub(crate) from_the_right: bool,
    /// Whether the target of an INSERT may have another name. The parser would also take `TABLE` of `INSERT INTO t TABLE u`
    /// for one.
    pub(crate) renames_target: bool,
}

/// Delegates to the general dialect.
macro_rules! as_general {
    ($($allowed:ident)*) => {
        $(fn $allowed(&self) -> bool {
            GenericDialect.$allowed()
        })*
    };
}

impl Dialect for TierraDialect {
    /// The parser compares the dialect's type in many places.
    fn dialect(&self) -> TypeId {
        GenericDialect.dialect()
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if !parser.consume_token(&Token::Tilde) {
            return None;
        }
        let precedence = self.prec_value(Precedence::Pipe);
        let of = parser.parse_subexpr(precedence).map(Box::new);
        Some(of.map(|expr| Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr,
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        if parser.consume_token(&Token::Sharp) {
            let left = Box::new(left.clone());
            let right = parser.parse_subexpr(precedence).map(Box::new);
            return Some(right.map(|right| Expr::BinaryOp {
                left,
                op: BinaryOperator::PGBitwiseXor,
                right,
            }));
        }
        let is_negated = if parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            false
        } else if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            true
        } else {
            return None;
        };
        let left = Box::new(left.clone());
        let right = parser.parse_subexpr(precedence).map(Box::new);
        Some(right.map(|right| match is_negated {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        }))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Caret => Some(Ok(POWER)),
            Token::StringConcat
            | Token::Ampersand
            | Token::Pipe
            | Token::Sharp
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk
            | Token::AtArrow
            | Token::ArrowAt => Some(Ok(self.prec_value(Precedence::Pipe))),
            _ => None,
        }
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_insert_table_alias(&self) -> bool {
        self.renames_target
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.from_the_right
    }

    as_general! {
        supports_unicode_string_literal
        supports_partition_by_after_order_by
        supports_array_join_syntax
        supports_group_by_expr
        supports_group_by_with_modifier
        supports_connect_by
        supports_match_recognize
        supports_pipe_operator
        supports_start_transaction_modifier
        supports_window_function_null_treatment_arg
        supports_dictionary_syntax
        supports_window_clause_named_window_reference
        supports_parenthesized_set_variables
        supports_select_wildcard_except
        support_map_literal_syntax
        allow_extract_custom
        allow_extract_single_quotes
        supports_extract_comma_syntax
        supports_create_view_comment_syntax
        supports_parens_around_table_factor
        supports_values_as_table_factor
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_limit_comma
        supports_update_order_by
        supports_from_first_select
        supports_projection_trailing_commas
        supports_asc_desc_in_column_definition
        supports_try_convert
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_assignment_operator
        supports_struct_literal
        supports_empty_projections
        supports_nested_comments
        supports_multiline_comment_hints
        supports_user_host_grantee
        supports_string_escape_constant
        supports_array_typedef_with_brackets
        supports_match_against
        supports_set_names
        supports_comma_separated_set_assignments
        supports_filter_during_aggregation
        supports_select_wildcard_exclude
        supports_data_type_signed_suffix
        supports_interval_options
        supports_quote_delimited_string
        supports_select_wildcard_replace
        supports_select_wildcard_ilike
        supports_select_wildcard_rename
        supports_optimize_table
        supports_install
        supports_detach
        supports_prewhere
        supports_with_fill
        supports_limit_by
        supports_interpolate
        supports_settings
        supports_select_format
        supports_comment_optimizer_hint
        supports_constraint_keyword_without_name
        supports_key_column_option
        supports_comma_separated_trim
        supports_cte_without_as
        supports_select_item_multi_column_alias
        supports_xml_expressions
    }
}

/// Whether the statement has a target with another name: `INTO t AS x`.
pub(crate) fn renames_target(tokens: &[TokenWithSpan]) -> bool {
    let is = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    let mut tokens = tokens
        .iter()
        .map(|token| &token.token)
        .filter(|token| !matches!(token, Token::Whitespace(_)));
    if !tokens.any(|token| is(token, Keyword::INTO)) {
        return false;
    }
    let mut after = tokens.skip(1);
    loop {
        match after.next() {
            Some(Token::Period) => drop(after.next()),
            Some(token) => return is(token, Keyword::AS),
            None => return false,
        }
    }
}

/// Whether joins may be read from the right: each but a CROSS JOIN has a condition. A NATURAL JOIN ends at the next join.
pub(crate) fn may_nest_joins(tokens: &[TokenWithSpan]) -> bool {
    let count = |wanted: &[Keyword]| {
        let is_wanted = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if wanted.contains(&word.keyword));
        tokens.iter().filter(is_wanted).count()
    };
    let joins = count(&[Keyword::JOIN]);
    joins > 1
        && count(&[Keyword::NATURAL]) == 0
        && count(&[Keyword::ON, Keyword::USING, Keyword::CROSS]) >= joins
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr, Statement};
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    /// `text` with a parenthesis around every operator.
    fn parsed(text: &str) -> String {
        let sql = format!("SELECT {text}");
        let mut statements = Parser::parse_sql(&TierraDialect::default(), &sql).unwrap();
        let Some(Statement::Query(query)) = statements.pop() else {
            panic!("no query");
        };
        let SetExpr::Select(select) = *query.body else {
            panic!("no select");
        };
        match select.projection.into_iter().next() {
            Some(SelectItem::UnnamedExpr(expr)) => grouped(&expr),
            other => panic!("{other:?}"),
        }
    }

    fn grouped(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                format!("({} {op} {})", grouped(left), grouped(right))
            }
            Expr::UnaryOp { op, expr } => format!("({op} {})", grouped(expr)),
            Expr::IsDistinctFrom(left, right) => {
                format!("({} <> {})", grouped(left), grouped(right))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                format!("({} == {})", grouped(left), grouped(right))
            }
            Expr::IsNull(inner) => format!("({} is null)", grouped(inner)),
            Expr::Nested(inner) => grouped(inner),
            other => other.to_string(),
        }
    }

    #[test]
    fn is_distinct_from_binds_as_is_does() {
        for (text, expected) in [
            (
                "a IS DISTINCT FROM TRUE AND c = 5",
                "((a <> true) AND (c = 5))",
            ),
            ("a IS DISTINCT FROM b OR c", "((a <> b) OR c)"),
            (
                "x AND a IS NOT DISTINCT FROM b OR c",
                "((x AND (a == b)) OR c)",
            ),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a <> b)) AND c)"),
            ("a IS DISTINCT FROM b IS NULL", "((a <> b) is null)"),
            (
                "a IS DISTINCT FROM b IS NOT DISTINCT FROM c",
                "((a <> b) == c)",
            ),
            ("a IS DISTINCT FROM b = c", "(a <> (b = c))"),
            ("a < b IS DISTINCT FROM c + 1", "((a < b) <> (c + 1))"),
            (
                "a IS DISTINCT FROM (b AND c) AND d",
                "((a <> (b AND c)) AND d)",
            ),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn operators_bind_as_in_postgresql() {
        for (text, expected) in [
            ("'n' || 2 * 3", "('n' || (2 * 3))"),
            ("'n' || a + b || c", "(('n' || (a + b)) || c)"),
            ("a | b & c", "((a | b) & c)"),
            ("a & b << c + 1 # d", "(((a & b) << (c + 1)) # d)"),
            ("a || b = c", "((a || b) = c)"),
            ("a = b ~ c", "(a = (b ~ c))"),
            ("a ~ b || c", "((a ~ b) || c)"),
            ("a < b @> c AND d", "((a < (b @> c)) AND d)"),
            ("2 * a ^ b", "(2 * (a ^ b))"),
            ("~ a + b & c", "((~ (a + b)) & c)"),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn a_target_has_another_name_behind_as_alone() {
        for (text, renames) in [
            ("INSERT INTO t AS x (a) SELECT 1", true),
            ("INSERT INTO tierra.public.t AS x VALUES (1)", true),
            ("INSERT INTO t (a) SELECT 1 AS x", false),
            ("INSERT INTO t SELECT 1 AS x", false),
            ("INSERT INTO public.t VALUES (1)", false),
            ("SELECT 1 AS x", false),
        ] {
            let tokens = Tokenizer::new(&GenericDialect, text).tokenize_with_location();
            let dialect = TierraDialect {
                renames_target: renames_target(&tokens.unwrap()),
                from_the_right: false,
            };
            assert_eq!(dialect.renames_target, renames, "{text}");
            let parsed = Parser::parse_sql(&dialect, text).unwrap();
            let Statement::Insert(insert) = &parsed[0] else {
                continue;
            };
            assert_eq!(insert.table_alias.is_some(), renames, "{text}");
        }
    }
}
