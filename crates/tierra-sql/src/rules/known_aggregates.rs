//! Aggregates that statistics answer without reading rows, except in plans with FILTER.
//!
//! DataFusion searches below the aggregation to be replaced for one whose values are in the statistics, and passes over one with
//! FILTER. So `SELECT count(*) FILTER (WHERE m = 3) FROM (SELECT max(x) AS m FROM t)` became `max(x)`.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::plan::PhysicalRule;

/// DataFusion's rule.
pub(super) const KNOWN: &str = "aggregate_statistics";

/// The rule for plans without FILTER.
#[derive(Debug)]
pub(super) struct WithoutFilter(pub(super) PhysicalRule);

impl PhysicalOptimizerRule for WithoutFilter {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_filtered = plan.exists(|plan| {
            let aggregate = plan.downcast_ref::<AggregateExec>();
            Ok(aggregate
                .is_some_and(|aggregate| aggregate.filter_expr().iter().any(Option::is_some)))
        })?;
        match is_filtered {
            true => Ok(plan),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
