//! Hides from sorts which columns are unique, once rows were sorted.
//!
//! DataFusion knows the keys of an aggregation to be unique, and leaves out what follows a unique column in a sort. A projection tells it
//! the places of unique columns, but they are those that the columns had below: in `SELECT count(*), k .. GROUP BY k` the count
//! counts as unique. Then `ORDER BY count, k` of rows that are sorted by their count is left out. Rows are sorted by a count only above the
//! aggregation, by a sort or for a window function, so unique columns are hidden above these, wherever something further up is sorted.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::pass::Pass;

/// Adds the first of all rules, so that later rules leave out no sort for such a column.
pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    rules.insert(0, Arc::new(UniqueKeys));
}

#[derive(Debug)]
struct UniqueKeys;

impl PhysicalOptimizerRule for UniqueKeys {
    fn name(&self) -> &str {
        "unique_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        hidden(plan, false)
    }
}

/// `plan` with what is unique hidden above what sorts; `is_below` is whether what is above it may need an order.
fn hidden(plan: Arc<dyn ExecutionPlan>, is_below: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let sorts =
        plan.is::<SortExec>() || plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>();
    let needs_order = sorts
        || plan.is::<AggregateExec>()
        || plan.required_input_ordering().iter().any(Option::is_some);
    let inputs = plan.children().into_iter();
    let inputs = inputs.map(|input| hidden(Arc::clone(input), is_below || needs_order));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let plan = replace_children_if_necessary(plan, inputs)?;
    let is_unique = || !plan.equivalence_properties().constraints().is_empty();
    Ok(match sorts && is_below && is_unique() {
        true => Pass::Unique.above(plan),
        false => plan,
    })
}
