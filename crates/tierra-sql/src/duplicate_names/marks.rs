//! Marks in expressions: they make names differ if expressions differ.
//!
//! The planner names a computed column after its expression, but leaves out casts, parentheses and the text of subqueries.
//! `max(CAST(a AS VARCHAR))` and `max(a)` have one name, and so have `sum((a + b) * c)` and `sum(a + b * c)`. Here each such
//! part becomes the argument of [`Mark`], which adds a number to its name. Equal expressions have equal numbers. The marks
//! are removed when the statement is planned ([`removed`]); the names stay.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, internal_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr as Planned, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Query, Select, Value, VisitorMut,
};

use super::invisible::{MARK, digits, visible};
use crate::rules::{LONG_NUMBER, under_its_name, uses};
use crate::tree::{TreeNode, map_expressions, transform_down_with_subqueries};
use crate::visit::visit_mut;

/// The depth in an expression down to which marks are set: each adds a level to the planner's recursion.
const MARKED_LEVELS: usize = 32;

/// `state` with the function of marks.
pub(super) fn marking(state: &SessionState) -> Result<SessionState> {
    let mut state = state.clone();
    state.register_udf(Arc::new(ScalarUDF::from(Mark::new())))?;
    Ok(state)
}

/// Marks the expressions of `select` that named operators may compute, but not those of its subqueries.
pub(super) fn mark_select(select: &mut Select) {
    let mut marks = Marks::default();
    // The visitor never breaks.
    let _ = visit_mut(&mut select.distinct, &mut marks);
    let _ = visit_mut(&mut select.projection, &mut marks);
    let _ = visit_mut(&mut select.group_by, &mut marks);
    let _ = visit_mut(&mut select.having, &mut marks);
    let _ = visit_mut(&mut select.qualify, &mut marks);
}

/// Marks the expressions of ORDER BY in `query`.
pub(super) fn mark_order(query: &mut Query) {
    let _ = visit_mut(&mut query.order_by, &mut Marks::default());
}

/// The visitor that sets marks.
#[derive(Default)]
struct Marks {
    /// For each expression around the visited one, and for that one, whether it is more than a constant.
    varies: Vec<bool>,
    /// The depth of queries.
    queries: usize,
}

impl VisitorMut for Marks {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries == 0 {
            self.varies.push(match expr {
                Expr::Function(call) => !is_number(call),
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Cast { .. } => true,
                other => holds_query(other),
            });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        let varies = self.varies.pop().unwrap_or(false);
        if let Some(around) = self.varies.last_mut() {
            *around |= varies;
        }
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr {
            unmark(right);
        }
        // Constants stay unmarked: the planner needs to see them before it plans the enclosing expression.
        if varies && self.varies.len() < MARKED_LEVELS && is_named_in_part(expr) {
            let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = marked(inner);
        }
        ControlFlow::Continue(())
    }
}

/// Whether the call stands for a number in the statement.
fn is_number(call: &Function) -> bool {
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == LONG_NUMBER))
}

fn holds_query(expr: &Expr) -> bool {
    match expr {
        Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Subquery(_) => true,
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => is_query(right),
        _ => false,
    }
}

fn is_query(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_query(inner),
        _ => matches!(expr, Expr::Subquery(_)),
    }
}

/// Whether the planner's name for `expr` omits a part of it, or where it begins and ends.
fn is_named_in_part(expr: &Expr) -> bool {
    holds_query(expr)
        || matches!(
            expr,
            Expr::Cast { .. }
                | Expr::BinaryOp { .. }
                | Expr::UnaryOp { .. }
                | Expr::AnyOp { .. }
                | Expr::AllOp { .. }
                | Expr::IsFalse(_)
                | Expr::IsNotFalse(_)
                | Expr::IsTrue(_)
                | Expr::IsNotTrue(_)
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::IsUnknown(_)
                | Expr::IsNotUnknown(_)
                | Expr::IsDistinctFrom(_, _)
                | Expr::IsNotDistinctFrom(_, _)
                | Expr::InList { .. }
                | Expr::Between { .. }
                | Expr::Like { .. }
                | Expr::ILike { .. }
                | Expr::SimilarTo { .. }
        )
}

fn marked(expr: Expr) -> Expr {
    let text = holds_query(&expr).then(|| {
        let mut hasher = DefaultHasher::new();
        expr.to_string().hash(&mut hasher);
        // FILTER is named after its text, from which the planner leaves out subqueries.
        let number = digits(hasher.finish() as usize | 1);
        Expr::Value(Value::SingleQuotedString(number).into())
    });
    let args = [Some(expr), text].into_iter().flatten();
    let args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(MARK)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Removes the mark from a subquery whose values are compared: such a subquery is not a value.
fn unmark(expr: &mut Expr) {
    if let Expr::Nested(inner) = expr {
        return unmark(inner);
    }
    let Expr::Function(call) = expr else { return };
    if let FunctionArguments::List(list) = &mut call.args
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner)), ..] = list.args.as_mut_slice()
        && matches!(inner, Expr::Subquery(_))
    {
        *expr = std::mem::replace(inner, Expr::Value(Value::Null.into()));
    }
}

/// `plan` without marks, but with the names that they gave.
pub(super) fn removed(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Top-down: a name contains the whole subquery, so it is made before the subquery's marks are removed.
    transform_down_with_subqueries(plan, |plan| {
        if !uses(&plan, |expr| argument(expr).is_some())? {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        map_expressions(plan, |expr| {
            under_its_name(expr, &names, &mut without).map(Transformed::yes)
        })?
        .map_data(LogicalPlan::recompute_schema)
    })
    .data()
}

fn without(expr: Planned) -> Result<Planned> {
    let bare = expr.transform_up(|expr| {
        Ok(match argument(&expr) {
            Some(inner) => Transformed::yes(inner.clone()),
            None => Transformed::no(expr),
        })
    });
    bare.data()
}

/// The marked expression, if `expr` is a mark.
fn argument(expr: &Planned) -> Option<&Planned> {
    match expr {
        Planned::ScalarFunction(ScalarFunction { func, args })
            if func.inner().downcast_ref::<Mark>().is_some() =>
        {
            args.first()
        }
        _ => None,
    }
}

/// A function that returns its first argument under another name. A second argument stands for the text of the first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    signature: Signature,
}

impl Mark {
    fn new() -> Self {
        Self {
            signature: Signature::one_of(
                vec![TypeSignature::Any(1), TypeSignature::Any(2)],
                Volatility::Immutable,
            ),
        }
    }
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        MARK
    }

    fn schema_name(&self, args: &[Planned]) -> Result<String> {
        let [argument, ..] = args else {
            return internal_err!("{MARK} takes an argument");
        };
        let mut hasher = DefaultHasher::new();
        argument.hash(&mut hasher);
        // The number also covers all marks within the argument. Zero has no digits.
        let number = hasher.finish() as usize | 1;
        let name = visible(&argument.schema_name().to_string());
        Ok(format!("{name}{}", digits(number)))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [ty, ..] => Ok(ty.clone()),
            _ => internal_err!("{MARK} takes an argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [field, ..] => Ok(Arc::clone(field)),
            _ => internal_err!("{MARK} takes an argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("{MARK} takes an argument"),
        }
    }
}
