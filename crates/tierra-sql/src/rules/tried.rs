//! A rule of the optimiser that fails leaves the plan as it was.
//!
//! DataFusion's rule that hands projections down loses count of columns below a filter that yields some of them in another order,
//! and refused a plan that can be executed.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

/// DataFusion's rule.
const PROJECTIONS: &str = "ProjectionPushdown";

pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    for rule in rules {
        if rule.name() == PROJECTIONS {
            *rule = Arc::new(Tried(Arc::clone(rule)));
        }
    }
}

/// The rule, where it does not fail.
#[derive(Debug)]
struct Tried(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Tried {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let optimized = self.0.optimize(Arc::clone(&plan), config);
        Ok(optimized.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
