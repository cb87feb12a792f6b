//! A limit with OFFSET skips rows of its own, and none of those that it should yield.
//!
//! DataFusion moves an order that is asked of such a limit into the sort below, if that is the same order with more keys. With it
//! goes the number of rows that the limit yields, without those that it skips. So `(SELECT x, y .. ORDER BY x LIMIT 3 OFFSET 1)
//! EXCEPT ALL ..`, whose windows want an order by x and y, took two rows. While the rule works, an operator above the limit
//! lets no order pass.
//!
//! And it takes a sort away whose keys a projection between them and the limit leaves out, for nobody seems to ask for it. With
//! LIMIT the sort yields only so many rows, and stays. With OFFSET alone, `SELECT sum(x) FROM (SELECT x .. ORDER BY y OFFSET 2)`
//! skipped any two rows. So such a limit goes below the projection, which yields a row for each row.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::pass::{Pass, below_kept_order};
use crate::tree::TreeNode;

/// DataFusion's rule.
pub(super) const SORTS: &str = "EnsureRequirements";

/// The rule, which asks no order of limits with OFFSET.
pub(super) fn with_offsets(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let held = plan.transform_up(hold)?;
    let plan = rule.optimize(held.data, config)?;
    match held.transformed {
        true => plan.transform_up(release).data(),
        false => Ok(plan),
    }
}

fn hold(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let limit = plan.downcast_ref::<GlobalLimitExec>();
    let Some(limit) = limit.filter(|limit| limit.skip() > 0) else {
        return Ok(Transformed::no(plan));
    };
    let input = Arc::clone(limit.input());
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else {
        return Ok(Transformed::yes(Pass::Order(Vec::new()).above(plan)));
    };
    let rows = Arc::clone(projection.input());
    let held = hold(replace_children_if_necessary(plan, vec![rows])?)?.data;
    replace_children_if_necessary(input, vec![held]).map(Transformed::yes)
}

fn release(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match below_kept_order(plan.as_ref()) {
        Some(input) => Transformed::yes(Arc::clone(input)),
        None => Transformed::no(plan),
    })
}
