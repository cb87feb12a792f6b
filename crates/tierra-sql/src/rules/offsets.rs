//! A limit with OFFSET skips rows of its own, and none of those that it should yield.
//!
//! DataFusion moves an order that is asked of such a limit into the sort below, if that is the same order with more keys. With it
//! goes the number of rows that the limit yields, without those that it skips. So `(SELECT x, y .. ORDER BY x LIMIT 3 OFFSET 1)
//! EXCEPT ALL ..`, whose windows want an order by x and y, took two rows. While the rule works, an operator above the limit
//! lets no order pass.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;

use crate::pass::{Pass, below_kept_order};

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
    Ok(match limit.is_some_and(|limit| limit.skip() > 0) {
        true => Transformed::yes(Pass::Order(Vec::new()).above(plan)),
        false => Transformed::no(plan),
    })
}

fn release(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match below_kept_order(plan.as_ref()) {
        Some(input) => Transformed::yes(Arc::clone(input)),
        None => Transformed::no(plan),
    })
}
