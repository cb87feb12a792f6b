//! Operators, clauses and names of functions whose meaning is PostgreSQL's, not the planner's.
//!
//! ```text
//! x ^ y                        power(x, y), which binds tighter than * and looser than a sign
//! (a, b) = (c, d)              a = c AND b = d; other comparisons, IN of a list, BETWEEN and IS NULL alike
//! (a, b) IN (SELECT ..)        EXISTS (SELECT 1 FROM (SELECT ..) AS r(c, d) WHERE a = c AND b = d), or NULL if a row may be it
//! ~x                           x # -1
//! s COLLATE "C"                s: texts are ordered by their bytes
//! s LIKE 'a!%' ESCAPE '!'      s LIKE 'a\%'
//! mod(x, y)                    x % y
//! every(x), sign(x), variance(x)    bool_and(x), signum(x), var_samp(x)
//! FETCH FIRST 3 ROWS ONLY      LIMIT 3
//! ```
//! The planner compares rows as structures, of which two with a NULL are equal or not. It takes ^ for an exclusive OR, which is #.
//!
//! A condition of WHERE that a row is in a list of literals stays one of structures, for keys are looked up by it: what is NULL or
//! false is left out alike there. So it is with a subquery there, which then becomes a join by these values.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CaseWhen, CastKind, DataType, Expr, Fetch, FunctionArg, FunctionArgExpr,
    FunctionArguments, LimitClause, Query, SetExpr, Statement, TableFactor, UnaryOperator, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::is_space;
use crate::list::call;
use crate::visit::visit_mut;

/// Whether a statement of these tokens may have one of them.
pub(crate) fn are_in(tokens: &[TokenWithSpan]) -> bool {
    let mut is_closed = false;
    tokens.iter().any(|TokenWithSpan { token, .. }| {
        if is_space(token) {
            return false;
        }
        // A comparison of rows stands behind a row.
        let compares = match token {
            Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq => is_closed,
            Token::Word(word) => {
                use Keyword::{BETWEEN, IN, IS, NOT};
                is_closed && matches!(word.keyword, IN | NOT | BETWEEN | IS)
            }
            _ => false,
        };
        is_closed = *token == Token::RParen;
        let is_named = match token {
            Token::Word(word) => {
                matches!(
                    word.keyword,
                    Keyword::ESCAPE | Keyword::FETCH | Keyword::COLLATE
                ) || is_mod(&word.value)
                    || planners_name(&word.value).is_some()
            }
            Token::Caret | Token::Tilde => true,
            _ => false,
        };
        compares || is_named
    })
}

/// Gives the operators and clauses of `statement` their meaning.
pub(crate) fn settle(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut Operators);
}

const MOD: &str = "mod";
/// Names of functions, and what the planner calls them.
const NAMES: [(&str, &str); 3] = [
    ("every", "bool_and"),
    ("sign", "signum"),
    ("variance", "var_samp"),
];

fn is_mod(name: &str) -> bool {
    name.eq_ignore_ascii_case(MOD)
}

/// What the planner calls a function of this name.
fn planners_name(name: &str) -> Option<&'static str> {
    let mut names = NAMES.iter();
    let found = names.find(|(other, _)| name.eq_ignore_ascii_case(other));
    found.map(|(_, name)| *name)
}

struct Operators;

impl VisitorMut for Operators {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        let condition = match statement {
            Statement::Update(update) => &mut update.selection,
            Statement::Delete(delete) => &mut delete.selection,
            _ => return ControlFlow::Continue(()),
        };
        condition.iter_mut().for_each(keep_lists);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        keep_lists_of(&mut query.body);
        if let Some(fetch) = &query.fetch
            && let Some(limit) = rows_of(fetch)
        {
            match &mut query.limit_clause {
                None => {
                    query.limit_clause = Some(LimitClause::LimitOffset {
                        limit: Some(limit),
                        offset: None,
                        limit_by: Vec::new(),
                    });
                    query.fetch = None;
                }
                Some(LimitClause::LimitOffset {
                    limit: all @ None, ..
                }) => {
                    *all = Some(limit);
                    query.fetch = None;
                }
                Some(_) => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // The sign was read as that of the power.
        if let Expr::UnaryOp {
            op: op @ (UnaryOperator::Minus | UnaryOperator::Plus),
            expr: of,
        } = expr
            && let Some(base) = base_of(of)
        {
            *base = Expr::UnaryOp {
                op: *op,
                expr: Box::new(base.clone()),
            };
            *expr = of.as_ref().clone();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(other) = settled(expr) {
            *expr = Expr::Nested(Box::new(other));
        }
        ControlFlow::Continue(())
    }
}

fn keep_lists_of(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let conditions = select.selection.iter_mut().chain(&mut select.having);
            conditions.for_each(keep_lists);
        }
        SetExpr::SetOperation { left, right, .. } => {
            keep_lists_of(left);
            keep_lists_of(right);
        }
        _ => {}
    }
}

/// Makes structures of rows that a condition looks for in lists of literals, and joins of those that it looks for in subqueries.
fn keep_lists(condition: &mut Expr) {
    match condition {
        Expr::Nested(inner) => keep_lists(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And | BinaryOperator::Or,
            right,
        } => {
            keep_lists(left);
            keep_lists(right);
        }
        Expr::InList {
            expr,
            list,
            negated: false,
        } => {
            let structure = |expr: &Expr| row(expr).map(|row| call("struct".to_owned(), row));
            let of_literals =
                |item: &Expr| row(item)?.iter().all(is_literal).then(|| structure(item))?;
            let items = list.iter().map(of_literals).collect::<Option<Vec<Expr>>>();
            if let (Some(looked_for), Some(items)) = (structure(expr), items) {
                (**expr, *list) = (looked_for, items);
            }
        }
        Expr::InSubquery {
            expr,
            subquery,
            negated: false,
        } => {
            if let Some(row) = row(expr)
                && let Some(found) = rows_where(&row, subquery, |equal| equal)
            {
                *condition = found;
            }
        }
        _ => {}
    }
}

/// Whether it is a literal, and not NULL.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => {
            !matches!(value, Value::Null | Value::Placeholder(_))
        }
        Expr::TypedString(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_literal(expr),
        _ => false,
    }
}

/// The number of rows, if it is one.
fn rows_of(fetch: &Fetch) -> Option<Expr> {
    let is_plain = !fetch.with_ties && !fetch.percent;
    let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
    is_plain.then(|| fetch.quantity.clone().unwrap_or_else(one))
}

fn settled(expr: &mut Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::BitwiseXor,
            right,
        } => Some(power(left, right)),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (row(left)?, row(right)?);
            compared(op, &left, &right)
        }
        Expr::InList {
            expr,
            list,
            negated,
        } => {
            let left = row(expr)?;
            let equal = list
                .iter()
                .map(|item| compared(&BinaryOperator::Eq, &left, &row(item)?));
            let any = joined(BinaryOperator::Or, equal.collect::<Option<Vec<Expr>>>()?)?;
            Some(negated_if(*negated, any))
        }
        Expr::InSubquery {
            expr,
            subquery,
            negated,
        } => {
            let row = row(expr)?;
            let when = |condition, result| CaseWhen { condition, result };
            let is_unknown = |equal| Expr::IsNull(Box::new(Expr::Nested(Box::new(equal))));
            let found = Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![
                    when(rows_where(&row, subquery, |equal| equal)?, truth(true)),
                    when(rows_where(&row, subquery, is_unknown)?, null()),
                ],
                else_result: Some(Box::new(truth(false))),
            };
            Some(negated_if(*negated, found))
        }
        Expr::UnaryOp {
            op: UnaryOperator::BitwiseNot,
            expr,
        } => {
            let ones = Expr::Value(Value::Number("-1".to_owned(), false).into());
            Some(binary(
                expr.as_ref().clone(),
                BinaryOperator::PGBitwiseXor,
                ones,
            ))
        }
        Expr::Collate { expr, collation } if is_of_bytes(collation) => Some(expr.as_ref().clone()),
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } => {
            let (middle, low, high) = (row(expr)?, row(low)?, row(high)?);
            let bounds = vec![
                compared(&BinaryOperator::GtEq, &middle, &low)?,
                compared(&BinaryOperator::LtEq, &middle, &high)?,
            ];
            Some(negated_if(*negated, joined(BinaryOperator::And, bounds)?))
        }
        Expr::IsNull(of) => {
            let all = row(of)?.into_iter();
            joined(
                BinaryOperator::And,
                all.map(|it| Expr::IsNull(Box::new(it))).collect(),
            )
        }
        Expr::IsNotNull(of) => {
            let all = row(of)?.into_iter();
            joined(
                BinaryOperator::And,
                all.map(|it| Expr::IsNotNull(Box::new(it))).collect(),
            )
        }
        Expr::Like {
            pattern,
            escape_char,
            ..
        }
        | Expr::ILike {
            pattern,
            escape_char,
            ..
        } => {
            if let (Some(text), Some(escape)) = (text(pattern), escape_char.as_ref())
                && let ValueWithSpan {
                    value: Value::SingleQuotedString(escape),
                    ..
                } = escape
                && let Some(other) = with_backslashes(text, escape)
            {
                **pattern = Expr::Value(Value::SingleQuotedString(other).into());
                *escape_char = None;
            }
            None
        }
        Expr::Function(function) if is_mod(&function.name.to_string()) => {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
            ] = list.args.as_slice()
            else {
                return None;
            };
            let nested = |operand: &Expr| Box::new(Expr::Nested(Box::new(operand.clone())));
            Some(Expr::BinaryOp {
                left: nested(left),
                op: BinaryOperator::Modulo,
                right: nested(right),
            })
        }
        Expr::Function(function) => {
            if let Some(name) = planners_name(&function.name.to_string()) {
                function.name = ast::ObjectName::from(vec![ast::Ident::new(name)]);
            }
            None
        }
        _ => None,
    }
}

/// `EXISTS (SELECT 1 FROM (subquery) AS r(..) WHERE condition)`, where the condition is made of that the row equals that of `r`.
fn rows_where(
    row: &[Expr],
    subquery: &Query,
    condition: impl FnOnce(Expr) -> Expr,
) -> Option<Expr> {
    let names: Vec<String> = (0..row.len())
        .map(|place| format!("tierra_row_{place}"))
        .collect();
    let text = format!(
        "SELECT 1 FROM (SELECT 1) AS tierra_rows({})",
        names.join(", ")
    );
    let parsed = Parser::parse_sql(&GenericDialect {}, &text).ok()?.pop()?;
    let Statement::Query(mut query) = parsed else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let TableFactor::Derived { subquery: rows, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    **rows = subquery.clone();
    let columns: Vec<Expr> = names
        .iter()
        .map(|name| Expr::Identifier(ast::Ident::new(name)))
        .collect();
    select.selection = Some(condition(compared(&BinaryOperator::Eq, row, &columns)?));
    Some(Expr::Exists {
        subquery: query,
        negated: false,
    })
}

fn truth(is_true: bool) -> Expr {
    Expr::Value(Value::Boolean(is_true).into())
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// Whether a collation orders texts by their bytes, as all are.
fn is_of_bytes(collation: &ast::ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident());
    let names = ["C", "POSIX", "ucs_basic", "C.UTF-8", "C.utf8"];
    name.is_some_and(|name| {
        names
            .iter()
            .any(|of_bytes| name.value.eq_ignore_ascii_case(of_bytes))
    })
}

/// A power of doubles.
fn power(base: &Expr, exponent: &Expr) -> Expr {
    let double = |expr: &Expr| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr.clone()),
        data_type: DataType::Double(ast::ExactNumberInfo::None),
        array: false,
        format: None,
    };
    call("power".to_owned(), [double(base), double(exponent)])
}

/// The first operand of a power that stands without parentheses: `-2 ^ 2` is 4.
fn base_of(power: &mut Expr) -> Option<&mut Expr> {
    let Expr::BinaryOp {
        left,
        op: BinaryOperator::BitwiseXor,
        ..
    } = power
    else {
        return None;
    };
    match matches!(
        left.as_ref(),
        Expr::BinaryOp {
            op: BinaryOperator::BitwiseXor,
            ..
        }
    ) {
        true => base_of(left),
        false => Some(left),
    }
}

/// The values of a row of at least two.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(values) if values.len() > 1 => Some(values.clone()),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let values = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            });
            let values = values.collect::<Option<Vec<Expr>>>()?;
            (values.len() > 1).then_some(values)
        }
        _ => None,
    }
}

/// How two rows of the same length compare, value by value.
fn compared(op: &BinaryOperator, left: &[Expr], right: &[Expr]) -> Option<Expr> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    if left.len() != right.len() {
        return None;
    }
    let pairs = || left.iter().zip(right);
    let of = |op: &BinaryOperator, (left, right): (&Expr, &Expr)| {
        // A value may be a row itself.
        let rows = row(left).zip(row(right));
        rows.and_then(|(left, right)| compared(op, &left, &right))
            .unwrap_or_else(|| binary(left.clone(), op.clone(), right.clone()))
    };
    let strict = match op {
        Eq => return joined(And, pairs().map(|pair| of(&Eq, pair)).collect()),
        NotEq => return joined(Or, pairs().map(|pair| of(&NotEq, pair)).collect()),
        Lt | LtEq => Lt,
        Gt | GtEq => Gt,
        _ => return None,
    };
    let mut behind: Option<Expr> = None;
    for pair in pairs().rev() {
        behind = Some(match behind {
            None => of(op, pair),
            Some(behind) => binary(of(&strict, pair), Or, binary(of(&Eq, pair), And, behind)),
        });
    }
    behind
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let nested = |operand| Box::new(Expr::Nested(Box::new(operand)));
    Expr::BinaryOp {
        left: nested(left),
        op,
        right: nested(right),
    }
}

/// All of them joined, half with half, so that many are not deep.
fn joined(op: BinaryOperator, mut all: Vec<Expr>) -> Option<Expr> {
    if all.len() < 2 {
        return all.pop();
    }
    let behind = all.split_off(all.len() / 2);
    let (left, right) = (joined(op.clone(), all)?, joined(op.clone(), behind)?);
    Some(binary(left, op, right))
}

fn negated_if(is_negated: bool, expr: Expr) -> Expr {
    match is_negated {
        false => expr,
        true => Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(Expr::Nested(Box::new(expr))),
        },
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// A pattern with a backslash in place of the character that takes their meaning from others; `None` if that is no character, or the
/// pattern ends with it.
fn with_backslashes(pattern: &str, escape: &str) -> Option<String> {
    let mut escapes = escape.chars();
    let (escape, None) = (escapes.next(), escapes.next()) else {
        return None;
    };
    let mut other = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(mut at) = rest.next() {
        let is_escaped = Some(at) == escape;
        if is_escaped {
            at = rest.next()?;
        }
        if at == '\\' || is_escaped {
            other.push('\\');
        }
        other.push(at);
    }
    Some(other)
}
