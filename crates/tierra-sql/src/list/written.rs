//! Lists in the text of a statement.
//!
//! A list of literals costs almost nothing as tokens. So long lists are recognised there and replaced by a mark. In the
//! parsed statement the mark becomes a call of an [`InSet`](super::InSet). The other `= ANY(..)` and `<> ALL(..)` become
//! IN if the array is written out, and otherwise an operator that [`super::any`] plans.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Int64Array, StringArray, StringViewArray};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, UnaryOperator, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::any;
use super::items::{List, ListKind};
use crate::visit::visit_mut;

/// The planner handles lists shorter than this.
const LONG_LIST: usize = 64;
/// The prefix of the literal that stands for a list; no text that a user types contains it.
const MARK: &str = "\u{1}tierra_list_";
/// The function that makes an array of its arguments.
pub(super) const MAKE_ARRAY: &str = "make_array";

/// The name of the function for a long list.
pub(crate) fn set_name(number: usize) -> String {
    format!("tierra_in_set_{number}")
}

/// The number of the list that a text stands for, if it is a mark.
pub(super) fn marked(text: &str) -> Option<usize> {
    text.strip_prefix(MARK)?.parse().ok()
}

/// Replaces every long list of literals by a mark: `IN (list)`, `[list]`, `make_array(list)`.
pub(crate) fn take_long_lists(tokens: &[TokenWithSpan]) -> (Vec<TokenWithSpan>, Vec<Arc<List>>) {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len().min(1024));
    let mut lists = Vec::new();
    let mut at = 0;
    // Whether a parenthesis at this token opens a list.
    let mut announced = false;
    while at < tokens.len() {
        let token = &tokens[at];
        kept.push(token.clone());
        at += 1;
        let closing = match &token.token {
            Token::LParen if announced => Token::RParen,
            Token::LBracket => Token::RBracket,
            Token::Whitespace(_) => continue,
            other => {
                announced = announces(other);
                continue;
            }
        };
        announced = false;
        if let Some((list, close)) = literals(tokens, at, &closing)
            && list.len() >= LONG_LIST
        {
            let mark = Token::SingleQuotedString(format!("{MARK}{}", lists.len()));
            kept.push(TokenWithSpan {
                token: mark,
                span: token.span,
            });
            lists.push(Arc::new(list));
            at = close;
        }
    }
    (kept, lists)
}

fn announces(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_none()
                && (word.keyword == Keyword::IN || word.value.eq_ignore_ascii_case(MAKE_ARRAY))
        }
        _ => false,
    }
}

/// The literals from `at` to the closing token, and the index of that token; `None` if there is anything but numbers and
/// NULL, or anything but strings and NULL.
fn literals(tokens: &[TokenWithSpan], at: usize, closing: &Token) -> Option<(List, usize)> {
    let mut numbers: Vec<Option<(bool, &str)>> = Vec::new();
    let mut texts: Vec<Option<&str>> = Vec::new();
    let mut nulls = 0;
    let mut negative = false;
    let mut expects_value = true;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::Minus if expects_value && !negative => negative = true,
            Token::Number(digits, false) if expects_value => {
                if texts.len() > nulls
                    || !digits.bytes().all(|at| at.is_ascii_digit() || at == b'.')
                {
                    return None;
                }
                numbers.push(Some((negative, digits)));
                (negative, expects_value) = (false, false);
            }
            Token::SingleQuotedString(text) if expects_value && !negative => {
                if numbers.len() > nulls {
                    return None;
                }
                texts.push(Some(text));
                expects_value = false;
            }
            Token::Word(word)
                if expects_value
                    && !negative
                    && word.keyword == Keyword::NULL
                    && word.quote_style.is_none() =>
            {
                // NULLs before the first value may be in a list of numbers or of strings.
                numbers.push(None);
                texts.push(None);
                nulls += 1;
                expects_value = false;
            }
            Token::Comma if !expects_value => expects_value = true,
            token if token == closing && !expects_value => {
                let list = match (numbers.len() > nulls, texts.len() > nulls) {
                    (true, false) => of_numbers(&numbers)?,
                    (false, true) => List {
                        kind: ListKind::Texts,
                        values: Arc::new(StringViewArray::from_iter(texts)),
                    },
                    _ => return None,
                };
                return Some((list, place));
            }
            _ => return None,
        }
    }
    None
}

/// Signs and digits as integers, or as text if one has a point.
fn of_numbers(numbers: &[Option<(bool, &str)>]) -> Option<List> {
    if numbers
        .iter()
        .flatten()
        .any(|(_, digits)| digits.contains('.'))
    {
        let texts = numbers.iter();
        let texts = texts.map(|number| {
            number.map(|(negative, digits)| match negative {
                true => format!("-{digits}"),
                false => digits.to_string(),
            })
        });
        return Some(List {
            kind: ListKind::Numbers,
            values: Arc::new(StringArray::from_iter(texts)),
        });
    }
    let integers = numbers.iter().map(|number| match number {
        None => Some(None),
        Some((negative, digits)) => {
            let value: i64 = digits.parse().ok()?;
            Some(Some(if *negative { -value } else { value }))
        }
    });
    let integers: Option<Vec<Option<i64>>> = integers.collect();
    Some(List {
        kind: ListKind::Integers,
        values: Arc::new(Int64Array::from(integers?)),
    })
}

/// Turns `x IN ('mark')`, `x = ANY(['mark'])` and `x <> ALL(['mark'])` into calls of the sets' functions. Returns the
/// number of marks.
pub(crate) fn replace_lists(statement: &mut ast::Statement) -> usize {
    let mut calls = CallSets::default();
    let _ = visit_mut(statement, &mut calls);
    calls.replaced
}

#[derive(Default)]
struct CallSets {
    replaced: usize,
}

impl VisitorMut for CallSets {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (items, negated) = match &*expr {
            Expr::InList { list, negated, .. } => (Some(list.iter().collect()), *negated),
            other => quantified(other).unwrap_or_default(),
        };
        let number = items.and_then(|items| mark_in(&items));
        if let Some(number) = number
            && let Some(value) = take_compared(expr)
        {
            self.replaced += 1;
            let set = call(set_name(number), [value]);
            *expr = if negated { negation(set) } else { set };
        }
        ControlFlow::Continue(())
    }
}

/// The list of a mark that is the only item.
fn mark_in(items: &[&Expr]) -> Option<usize> {
    match items {
        [
            Expr::Value(ast::ValueWithSpan {
                value: ast::Value::SingleQuotedString(text),
                ..
            }),
        ] => marked(text),
        _ => None,
    }
}

/// The long list of an argument of EXECUTE.
pub(crate) fn marked_array(argument: &Expr) -> Option<usize> {
    mark_in(&array_items(argument)?)
}

/// For `= ANY(..)` and `<> ALL(..)`: the items if the array is written out, and whether it is `<> ALL(..)`.
fn quantified(expr: &Expr) -> Option<(Option<Vec<&Expr>>, bool)> {
    let (right, negated) = match expr {
        Expr::AnyOp {
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } => (right, false),
        Expr::AllOp {
            compare_op: BinaryOperator::NotEq,
            right,
            ..
        } => (right, true),
        _ => return None,
    };
    match right.as_ref() {
        Expr::Subquery(_) => None,
        array => Some((array_items(array), negated)),
    }
}

/// The items of `ARRAY[..]`, `[..]` and `make_array(..)`.
pub(crate) fn array_items(array: &Expr) -> Option<Vec<&Expr>> {
    match array {
        Expr::Nested(inner) => array_items(inner),
        Expr::Array(array) => Some(array.elem.iter().collect()),
        Expr::Function(function) => {
            let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else {
                return None;
            };
            let ast::FunctionArguments::List(list) = &function.args else {
                return None;
            };
            if name.quote_style.is_some() || !name.value.eq_ignore_ascii_case(MAKE_ARRAY) {
                return None;
            }
            let items = list.args.iter().map(|item| match item {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(item)) => Some(item),
                _ => None,
            });
            items.collect()
        }
        _ => None,
    }
}

/// The left side of a comparison with a list.
fn take_compared(expr: &mut Expr) -> Option<Expr> {
    let (Expr::InList { expr: value, .. }
    | Expr::AnyOp { left: value, .. }
    | Expr::AllOp { left: value, .. }) = expr
    else {
        return None;
    };
    let null = Expr::Value(ast::Value::Null.into());
    Some(std::mem::replace(value.as_mut(), null))
}

fn negation(expr: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(expr),
    }))
}

/// Rewrites `= ANY(..)` and `<> ALL(..)` of arrays as `IN`, or as the operator that [`any`] plans. Comparisons with
/// subqueries stay with the planner.
pub(crate) fn settle_quantified(part: &mut impl VisitMut) {
    let _ = visit_mut(part, &mut Settle);
}

struct Settle;

impl VisitorMut for Settle {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Some((items, negated)) = quantified(expr) else {
            return ControlFlow::Continue(());
        };
        let items = items.map(|items| items.into_iter().cloned().collect());
        let Some(value) = take_compared(expr) else {
            return ControlFlow::Continue(());
        };
        let value = Box::new(value);
        *expr = match (items, &*expr) {
            (Some(list), _) => Expr::InList {
                expr: value,
                list,
                negated,
            },
            (None, Expr::AnyOp { right, .. } | Expr::AllOp { right, .. }) => {
                let any = Expr::Nested(Box::new(Expr::BinaryOp {
                    left: value,
                    op: BinaryOperator::Custom(any::OPERATOR.to_string()),
                    right: right.clone(),
                }));
                if negated { negation(any) } else { any }
            }
            (None, _) => return ControlFlow::Continue(()),
        };
        ControlFlow::Continue(())
    }
}

/// Rewrites `[x, y]` as `make_array(x, y)`, whose arguments the planner sees as those of any function: of what stands in brackets it
/// forgets the names of WITH, the row outside and the types of parameters.
pub(crate) fn write_arrays(part: &mut impl VisitMut) {
    let _ = visit_mut(part, &mut Arrays);
}

struct Arrays;

impl VisitorMut for Arrays {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Array(array) = expr {
            let items = std::mem::take(&mut array.elem);
            *expr = call(MAKE_ARRAY.to_string(), items);
        }
        ControlFlow::Continue(())
    }
}

/// `name(arguments, ..)`
pub(crate) fn call(name: String, arguments: impl IntoIterator<Item = Expr>) -> Expr {
    let arguments = arguments.into_iter();
    let arguments =
        arguments.map(|argument| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)));
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
