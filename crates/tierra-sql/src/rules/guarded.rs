//! `x = 0 OR 6 / x > 1` and `x <> 0 AND 6 / x > 1` divide only where the left side leaves the answer open.
//!
//! DataFusion computes both sides of AND and OR for every row, unless most rows need no more than one. So such conditions failed or not
//! by how many rows passed their guard. Whatever is below AND and OR becomes a CASE ([`Guarded`]), behind type coercion. The conditions of
//! a filter stay apart as long as rules move them. When all operators are placed, those that can fail come last, each in a filter of its
//! own ([`LAST`]).
//!
//! A condition can fail if it divides, or casts a text, or casts to fewer digits. Overflow is not guarded: its operands would be copied.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, and, lit, or,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::expressions::{self, CastExpr, Literal};
use datafusion::physical_expr::{
    PhysicalExpr, ScalarFunctionExpr, conjunction as all_of, split_conjunction,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

use super::plan::{EachOperator, map_under_names, schema_below, uses};
use super::text_casts::{is_strict, is_strict_cast};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule for conditions within expressions.
#[derive(Debug)]
pub(super) struct Guarded;

impl AnalyzerRule for Guarded {
    fn name(&self) -> &str {
        "guarded"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_junction = |expr: &Expr| matches!(expr, Expr::BinaryExpr(junction) if matches!(junction.op, Operator::And | Operator::Or));
    let may_fail = |expr: &Expr| {
        matches!(expr, Expr::BinaryExpr(binary) if divides(binary.op))
            || is_strict_cast(expr)
            || matches!(expr, Expr::Cast(_))
    };
    if !uses(&plan, is_junction)? || !uses(&plan, may_fail)? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    let stays_apart = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let mut lazy = Lazy { schema: &schema };
    map_under_names(plan, |expr| match stays_apart {
        false => expr.rewrite(&mut lazy),
        true => each_condition(expr, &mut lazy),
    })
}

/// Rewrites the conditions that are all true where `expr` is, each for itself.
fn each_condition(expr: Expr, lazy: &mut Lazy<'_>) -> Result<Transformed<Expr>> {
    let mut is_changed = false;
    let conditions = split_conjunction_owned(expr).into_iter().map(|condition| {
        let condition = condition.rewrite(lazy)?;
        is_changed |= condition.transformed;
        Ok(condition.data)
    });
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    let all = conjunction(conditions).unwrap_or_else(|| lit(true));
    Ok(Transformed::new(
        all,
        is_changed,
        TreeNodeRecursion::Continue,
    ))
}

struct Lazy<'a> {
    schema: &'a DFSchema,
}

impl TreeNodeRewriter for Lazy<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        // Their arguments are computed before.
        let jumps = matches!(
            expr,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
        );
        Ok(match jumps {
            true => Transformed::new(expr, false, TreeNodeRecursion::Jump),
            false => Transformed::no(expr),
        })
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let decides = match op {
            Operator::And => false,
            Operator::Or => true,
            _ => {
                let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
                return Ok(Transformed::no(expr));
            }
        };
        if !self.can_fail(&right) {
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            return Ok(Transformed::no(expr));
        }
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        let beside_unknown = match op {
            Operator::And => and(right.as_ref().clone(), unknown),
            _ => or(right.as_ref().clone(), unknown),
        };
        let decided = (Box::new(lit(decides)), Box::new(lit(decides)));
        let open = (Box::new(lit(!decides)), right);
        let case = Case::new(
            Some(left),
            vec![decided, open],
            Some(Box::new(beside_unknown)),
        );
        Ok(Transformed::yes(Expr::Case(case)))
    }
}

impl Lazy<'_> {
    /// Whether the value of `expr` for a row may be an error. One with a subquery or an aggregate is computed elsewhere.
    fn can_fail(&self, expr: &Expr) -> bool {
        let (mut fails, mut is_elsewhere) = (false, false);
        let applied = expr.apply(|expr| {
            match expr {
                Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_) => {
                    is_elsewhere = true;
                    return Ok(TreeNodeRecursion::Stop);
                }
                Expr::BinaryExpr(binary) if divides(binary.op) => {
                    let is_double = || expr.get_type(self.schema).is_ok_and(|ty| ty.is_floating());
                    fails |= !is_constant(&binary.right) && !is_double();
                }
                Expr::Cast(Cast { expr: value, field }) => {
                    let from = value.get_type(self.schema).ok();
                    fails |= from.is_some_and(|from| loses(&from, field.data_type()))
                        && !matches!(value.as_ref(), Expr::Literal(..));
                }
                expr => fails |= is_strict_cast(expr),
            }
            Ok(TreeNodeRecursion::Continue)
        });
        applied.is_ok() && fails && !is_elsewhere
    }
}

fn divides(op: Operator) -> bool {
    matches!(op, Operator::Divide | Operator::Modulo)
}

/// Whether a divisor is known, so that every row fails or none.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        _ => false,
    }
}

/// Whether a value of type `from` may be none of type `to`.
fn loses(from: &DataType, to: &DataType) -> bool {
    let bytes = |ty: &DataType| ty.is_integer().then(|| ty.primitive_width()).flatten();
    match (bytes(from), bytes(to)) {
        (Some(from), Some(to)) => to < from,
        _ => from.is_string() != to.is_string() && from.is_string(),
    }
}

/// The rule for the conditions of filters.
pub(super) const LAST: EachOperator = EachOperator {
    name: "guarded_filters",
    rewrite: last,
};

fn last(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else {
        return Ok(Transformed::no(plan));
    };
    let schema = filter.input().schema();
    let conditions = split_conjunction(filter.predicate());
    let (mut failing, sure): (Vec<_>, Vec<_>) = conditions
        .into_iter()
        .cloned()
        .partition(|condition| condition_can_fail(condition, &schema));
    if failing.is_empty() || failing.len() + sure.len() == 1 {
        return Ok(Transformed::no(plan));
    }
    let top = failing.pop().expect("one can fail");
    let below = (!sure.is_empty()).then(|| all_of(sure));
    let mut input = Arc::clone(filter.input());
    for condition in below.into_iter().chain(failing) {
        let lower = FilterExecBuilder::new(condition, input)
            .with_batch_size(filter.batch_size())
            .build()?;
        input = Arc::new(lower);
    }
    let filter = FilterExecBuilder::from(filter)
        .with_predicate(top)
        .with_input(input)
        .build()?;
    Ok(Transformed::yes(Arc::new(filter)))
}

/// Whether a condition may be an error for a row of `schema`.
fn condition_can_fail(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let fails = |expr: &Arc<dyn PhysicalExpr>| {
        if let Some(binary) = expr.downcast_ref::<expressions::BinaryExpr>() {
            return divides(*binary.op())
                && !binary.right().is::<Literal>()
                && !expr.data_type(schema).is_ok_and(|ty| ty.is_floating());
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let from = cast.expr().data_type(schema);
            return from.is_ok_and(|from| loses(&from, cast.cast_type()));
        }
        let function = expr.downcast_ref::<ScalarFunctionExpr>();
        function.is_some_and(|function| is_strict(function.fun()))
    };
    condition.exists(|expr| Ok(fails(expr))).unwrap_or(false)
}
