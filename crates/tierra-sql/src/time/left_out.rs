//! Arguments that a call leaves out, as in PostgreSQL: `age(x)` counts from today, and `make_interval(days => 10)` has no years.
//!
//! DataFusion's functions take all of their arguments, and by name those that stand first.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value, VisitMut,
    VisitorMut,
};

use super::intervals::PARTS;
use crate::list::call;
use crate::visit::visit_mut;

const AGE: &str = "age";
const MAKE_INTERVAL: &str = "make_interval";

/// Whether a statement with this word may call one of the functions.
pub(crate) fn is_named(word: &str) -> bool {
    [AGE, MAKE_INTERVAL]
        .iter()
        .any(|name| word.eq_ignore_ascii_case(name))
}

/// Writes out what calls in `statement` leave out.
pub(crate) fn write_out(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut LeftOut);
}

struct LeftOut;

impl VisitorMut for LeftOut {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function {
            name,
            args: FunctionArguments::List(list),
            ..
        }) = expr
        {
            let name = name.to_string();
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if is(AGE) && list.args.len() == 1 {
                let today = call("current_date".to_owned(), []);
                list.args.insert(0, unnamed(today));
            } else if is(MAKE_INTERVAL)
                && let Some(all) = all_parts(&list.args)
            {
                list.args = all;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The parts of an interval in their order; `None` if these are none: the planner says so.
fn all_parts(args: &[FunctionArg]) -> Option<Vec<FunctionArg>> {
    let mut all: [Option<Expr>; PARTS.len()] = Default::default();
    let mut is_behind_name = false;
    for (at, arg) in args.iter().enumerate() {
        let (part, value) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if !is_behind_name => (at, value),
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (part_of(name)?, value),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (part_of(name)?, value),
            _ => return None,
        };
        is_behind_name = !matches!(arg, FunctionArg::Unnamed(_));
        let part = all.get_mut(part)?;
        if part.replace(value.clone()).is_some() {
            return None;
        }
    }
    let zero = || Expr::Value(Value::Number("0".to_owned(), false).into());
    let all = all.into_iter();
    Some(all.map(|part| unnamed(part.unwrap_or_else(zero))).collect())
}

fn part_of(name: &Ident) -> Option<usize> {
    let is_it = |part: &&str| match name.quote_style {
        Some(_) => name.value == **part,
        None => name.value.eq_ignore_ascii_case(part),
    };
    PARTS.iter().position(is_it)
}

fn unnamed(value: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
}
