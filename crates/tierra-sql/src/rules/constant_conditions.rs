//! A condition that names no column stays above an aggregation of all rows.
//!
//! DataFusion hands conditions on what GROUP BY says down below it, and with them those that name nothing at all:
//! `HAVING $1 = $2`, `HAVING (SELECT ..) > 1`. But an aggregation without GROUP BY has a row for no rows. Such a condition
//! becomes a table of one row or none that is joined with the result.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Aggregate, EmptyRelation, Filter};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's rule that hands conditions down.
pub(super) const PUSHED_DOWN: &str = "push_down_filter";

/// Keeps conditions where they are that name no column.
#[derive(Debug)]
pub(super) struct ConstantConditions;

impl OptimizerRule for ConstantConditions {
    fn name(&self) -> &str {
        "constant_conditions"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Filter(filter) => apart(filter),
            other => Ok(Transformed::no(other)),
        })
    }
}

fn apart(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    if !has_row_of_no_rows(&filter.input)? {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let conditions = split_conjunction_owned(filter.predicate.clone());
    let (constant, others): (Vec<Expr>, Vec<Expr>) = conditions
        .into_iter()
        .partition(|condition| !condition.any_column_refs() && !condition.contains_outer());
    let Some(condition) = conjunction(constant) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let schema = filter.input.schema();
    if let Expr::Literal(ScalarValue::Boolean(None) | ScalarValue::Null, _) = &condition {
        return Ok(Transformed::yes(LogicalPlan::EmptyRelation(
            EmptyRelation {
                produce_one_row: false,
                schema: schema.clone(),
            },
        )));
    }
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::from).collect();
    let row = LogicalPlanBuilder::empty(true).filter(condition)?.build()?;
    let mut joined = LogicalPlanBuilder::from((*filter.input).clone());
    if let Some(others) = conjunction(others) {
        joined = joined.filter(others)?;
    }
    let joined = joined.cross_join(row)?.project(columns)?.build()?;
    Ok(Transformed::yes(joined))
}

/// Whether `plan` is made of an aggregation that has a row where there are none to aggregate.
fn has_row_of_no_rows(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|plan| {
        Ok(match plan {
            LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => {
                matches!(group_expr.as_slice(), [] | [Expr::GroupingSet(_)])
            }
            _ => false,
        })
    })
}
