//! A LIMIT above another one, or above another sort, keeps its number of rows.
//!
//! A sort with a limit is left out where the rows below have its order already. Where there is a limit of their own below, as in
//! `SELECT x FROM (SELECT x .. ORDER BY x LIMIT 10 OFFSET 1) ORDER BY x LIMIT 1`, or a sort, as in `SELECT * FROM (SELECT x, min(x) OVER
//! (ORDER BY x) .. ORDER BY y OFFSET 0) ORDER BY x LIMIT 1`, DataFusion forgets that of the sort. So such a sort gets a limit above it,
//! which later rules combine with what is below.

use std::sync::Arc;

use crate::tree::TreeNode;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// DataFusion's rule.
pub(super) const SORTS: &str = "EnsureRequirements";

/// The rule, after limits have been set.
pub(super) fn with_limits(
    rule: &dyn PhysicalOptimizerRule,
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(with_limit).data()?;
    rule.optimize(plan, config)
}

fn with_limit(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let fetch = plan.downcast_ref::<SortExec>().and_then(SortExec::fetch);
    let has_one_partition = plan.output_partitioning().partition_count() == 1;
    let Some(fetch) = fetch.filter(|_| has_one_partition) else {
        return Ok(Transformed::no(plan));
    };
    let may_be_forgotten = |plan: &Arc<dyn ExecutionPlan>| {
        plan.is::<SortExec>()
            || plan.is::<GlobalLimitExec>()
            || plan.is::<LocalLimitExec>()
            || plan.fetch().is_some()
    };
    match plan.children()[0].exists(|plan| Ok(may_be_forgotten(plan)))? {
        true => {
            let limited = GlobalLimitExec::new(plan, 0, Some(fetch));
            Ok(Transformed::yes(Arc::new(limited)))
        }
        false => Ok(Transformed::no(plan)),
    }
}
