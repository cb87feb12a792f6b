//! An optimiser rule that fails leaves the plan unchanged.
//!
//! DataFusion's projection pushdown loses count of columns below a filter that yields some of them in another order. It
//! refused a plan that can be executed.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::plan::PhysicalRule;

/// DataFusion's rule.
pub(super) const PROJECTIONS: &str = "ProjectionPushdown";

/// The rule; its errors are ignored.
#[derive(Debug)]
pub(super) struct FallibleRule(pub(super) PhysicalRule);

impl PhysicalOptimizerRule for FallibleRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let optimized = self.0.optimize(Arc::clone(&plan), config);
        Ok(optimized.unwrap_or_else(|error| {
            tracing::warn!("the rule {} failed and was left out: {error}", self.name());
            plan
        }))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
