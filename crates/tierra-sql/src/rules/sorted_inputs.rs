//! Inputs that have to be sorted are.
//!
//! DataFusion hands a sort down below projections and UNION ALL, and leaves out of it what is constant there. Above, it does not
//! know that any more, and refused the plan that it had made. Such an input is sorted once more.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// DataFusion's rule that refuses such plans.
const CHECK: &str = "SanityCheckPlan";

pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    let check = rules.iter().position(|rule| rule.name() == CHECK);
    rules.insert(check.unwrap_or(rules.len()), Arc::new(SortedInputs));
}

/// The rule.
#[derive(Debug)]
struct SortedInputs;

impl PhysicalOptimizerRule for SortedInputs {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(rewrite).data()
    }

    fn name(&self) -> &str {
        "sorted_inputs"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut is_changed = false;
    let inputs = plan
        .children()
        .into_iter()
        .zip(plan.required_input_ordering());
    let inputs = inputs.map(|(input, required)| {
        let required = required.map(|required| required.into_single());
        let Some(required) = required else {
            return Ok(Arc::clone(input));
        };
        let known = input.equivalence_properties();
        if known.ordering_satisfy_requirement(required.clone())? {
            return Ok(Arc::clone(input));
        }
        is_changed = true;
        let sorted = SortExec::new(LexOrdering::from(required), Arc::clone(input));
        let parts = input.output_partitioning().partition_count();
        Ok(Arc::new(sorted.with_preserve_partitioning(parts > 1)) as _)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    match is_changed {
        true => replace_children_if_necessary(plan, inputs).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}
