//! IN, EXISTS, and comparisons with ANY and ALL of a subquery: in three-valued logic, and anywhere in an expression.
//!
//! ```text
//! WHERE x [NOT] IN (..) AND [NOT] EXISTS (..)  --> left to DataFusion: semi and anti joins
//! everything else                              --> here: mark joins that distinguish NULL from false
//! ```
//! `x op ANY (S)` is true if a row of S compares true, else NULL if one compares NULL, else false
//! ([`marks`]). `x op ALL (S)` is `NOT x negated-op ANY (S)`. A predicate that cannot be evaluated is an error.

mod apart;
mod correlation;
mod marks;
mod predicate;

use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, not_impl_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Filter, Join};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use self::marks::{Marks, Unknown};
use self::predicate::Predicate;
use crate::tree::{TreeNode, apply_expressions, transform_up_with_subqueries};

/// Replaces predicates of subqueries by executable plans.
#[derive(Debug)]
pub(super) struct SubqueryPredicates;

impl OptimizerRule for SubqueryPredicates {
    fn name(&self) -> &str {
        "subquery_predicates"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let aliases = config.alias_generator();
        apart::named_apart(plan, aliases)?.transform_data(|plan| {
            transform_up_with_subqueries(plan, |plan| rewrite(plan, aliases))
        })
    }
}

fn has_predicate(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
            Expr::InList(list) => matches!(list.list.as_slice(), [Expr::ScalarSubquery(_)]),
            _ => false,
        })
    })
}

fn holds_predicate(plan: &LogicalPlan) -> Result<bool> {
    let mut holds = false;
    apply_expressions(plan, |expr| {
        holds = has_predicate(expr)?;
        Ok(match holds {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(holds)
}

fn rewrite(plan: LogicalPlan, aliases: &Arc<AliasGenerator>) -> Result<Transformed<LogicalPlan>> {
    if !holds_predicate(&plan)? {
        return Ok(Transformed::no(plan));
    }
    match plan {
        LogicalPlan::Filter(filter) => in_filter(filter, aliases).map(Transformed::yes),
        LogicalPlan::Join(join) => in_join(join, aliases).map(Transformed::yes),
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            in_expressions(&plan, aliases).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// `plan` with only the columns of `schema`.
fn with_columns(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(plan);
    }
    let columns = schema.columns().into_iter().map(Expr::from);
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

fn in_filter(filter: Filter, aliases: &Arc<AliasGenerator>) -> Result<LogicalPlan> {
    let schema = Arc::clone(filter.input.schema());
    let mut marks = Marks::over(Arc::unwrap_or_clone(filter.input), aliases);
    let conditions = split_conjunction_owned(filter.predicate).into_iter();
    let conditions = conditions.map(|condition| in_condition(condition, true, &mut marks));
    let conditions: Vec<Expr> = conditions.collect::<Result<_>>()?;
    let input = LogicalPlanBuilder::from(marks.finish());
    let filtered = match conjunction(conditions) {
        Some(condition) => input.filter(condition)?,
        None => input,
    };
    with_columns(filtered.build()?, &schema)
}

/// `condition` with NULL counted as false. `is_whole` if it is the whole condition on a row, or a term of a conjunction.
fn in_condition(condition: Expr, is_whole: bool, marks: &mut Marks<'_>) -> Result<Expr> {
    if !has_predicate(&condition)? {
        return Ok(condition);
    }
    if let Some(mut predicate) = Predicate::of(&condition)? {
        if let Some((value, _)) = &mut predicate.subject {
            let inner = std::mem::take(value);
            *value = in_expression(inner, marks)?;
        }
        return in_place(predicate, is_whole, marks);
    }
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::And | Operator::Or) =>
        {
            let is_whole = is_whole && op == Operator::And;
            let left = in_condition(*left, is_whole, marks)?;
            let right = in_condition(*right, is_whole, marks)?;
            Ok(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                op,
                Box::new(right),
            )))
        }
        other => in_expression(other, marks),
    }
}

/// A predicate with NULL counted as false. DataFusion's joins answer it if they can.
fn in_place(mut predicate: Predicate, is_whole: bool, marks: &mut Marks<'_>) -> Result<Expr> {
    let rows = predicate.rows.subquery.as_ref();
    let is_correlated = correlation::refers_outside(rows);
    let is_joined = match &predicate.subject {
        _ if !is_whole => false,
        None => true,
        // An anti join handles NULL if it has one key.
        Some((value, Operator::Eq)) => {
            value.any_column_refs() && !(predicate.is_negated && is_correlated)
        }
        Some(_) => false,
    };
    if is_joined
        && predicate.is_negated
        && let Some((value, _)) = &mut predicate.subject
    {
        *value = marks.anti_join_key(std::mem::take(value))?;
    }
    match is_joined.then(|| predicate.joined()).flatten() {
        Some(joined) => joined,
        None => marks.value(predicate, Unknown::IsFalse),
    }
}

/// `expr` with NULL distinguished from false.
fn in_expression(expr: Expr, marks: &mut Marks<'_>) -> Result<Expr> {
    let replaced = expr.transform_up(|expr| match &expr {
        Expr::Not(_) => Ok(Transformed::no(expr)),
        other => match Predicate::of(other)? {
            Some(predicate) => marks.value(predicate, Unknown::Told).map(Transformed::yes),
            None => Ok(Transformed::no(expr)),
        },
    });
    replaced.data()
}

fn in_expressions(plan: &LogicalPlan, aliases: &Arc<AliasGenerator>) -> Result<LogicalPlan> {
    let [input] = plan.inputs()[..] else {
        return plan_err!("an operator with one input has another");
    };
    let names = NamePreserver::new(plan);
    let mut marks = Marks::over(input.clone(), aliases);
    let exprs = plan.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        Ok(name.restore(in_expression(expr, &mut marks)?))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let rewritten = plan.with_new_exprs(exprs, vec![marks.finish()])?;
    with_columns(rewritten, plan.schema())
}

/// An inner join becomes a filtered cross join. An outer join gets the marks of each side's rows.
fn in_join(mut join: Join, aliases: &Arc<AliasGenerator>) -> Result<LogicalPlan> {
    let is_key = |(left, right): &(Expr, Expr)| Ok(has_predicate(left)? || has_predicate(right)?);
    let in_keys = join.on.iter().map(is_key).collect::<Result<Vec<_>>>()?;
    if in_keys.contains(&true) {
        let on = std::mem::take(&mut join.on).into_iter();
        let equal = on.map(|(left, right)| left.eq(right));
        join.filter = conjunction(join.filter.take().into_iter().chain(equal));
    }
    let Some(condition) = join.filter.take() else {
        return Ok(LogicalPlan::Join(join));
    };
    if join.join_type == JoinType::Inner {
        let all = Arc::new(LogicalPlan::Join(join));
        return in_filter(Filter::try_new(condition, all)?, aliases);
    }
    let schema = Arc::clone(&join.schema);
    let schemas = [
        Arc::clone(join.left.schema()),
        Arc::clone(join.right.schema()),
    ];
    let mut left = Marks::over(Arc::unwrap_or_clone(join.left), aliases);
    let mut right = Marks::over(Arc::unwrap_or_clone(join.right), aliases);
    let condition = condition.transform_up(|expr| {
        if matches!(expr, Expr::Not(_)) {
            return Ok(Transformed::no(expr));
        }
        let Some(predicate) = Predicate::of(&expr)? else {
            return Ok(Transformed::no(expr));
        };
        let is_of = |schema: &DFSchema| predicate.refers_only_to(schema);
        let side = if is_of(&schemas[0]) {
            &mut left
        } else if is_of(&schemas[1]) {
            &mut right
        } else {
            return not_impl_err!(
                "a subquery in the ON of an outer join cannot be compared with both sides, or \
                 refer to both: compute the comparison in a subquery of one side"
            );
        };
        side.value(predicate, Unknown::Told).map(Transformed::yes)
    });
    let joined = Join::try_new(
        Arc::new(left.finish()),
        Arc::new(right.finish()),
        join.on,
        Some(condition.data()?),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    with_columns(LogicalPlan::Join(joined), &schema)
}
