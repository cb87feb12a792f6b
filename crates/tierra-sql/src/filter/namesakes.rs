//! Filters do not pass an operator that yields two columns of their column's name.
//!
//! DataFusion hands filters down from operator to operator, those that joins and TopKs know at run time too, and finds
//! their columns in an operator's input by name. Of two tables that both have a column `id` it takes the first one. So a
//! [`Fence`] is set above whatever has namesakes while filters are handed down, and taken away behind that.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
};

/// DataFusion's rules that hand filters down.
const FILTERS_PUSHED: &str = "FilterPushdown";

/// A session whose filters stay with their columns.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    for rule in rules {
        if rule.name().starts_with(FILTERS_PUSHED) {
            *rule = Arc::new(Fenced(Arc::clone(rule)));
        }
    }
    builder
}

/// A rule that sees fences.
#[derive(Debug)]
struct Fenced(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Fenced {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = plan.transform_up(|plan| match has_namesakes(&plan.schema()) {
            true => Ok(Transformed::yes(Arc::new(Fence(plan)) as _)),
            false => Ok(Transformed::no(plan)),
        })?;
        let pushed = self.0.optimize(fenced.data, config)?;
        if !fenced.transformed {
            return Ok(pushed);
        }
        let bare = pushed.transform_up(|plan| match plan.downcast_ref::<Fence>() {
            Some(Fence(input)) => Ok(Transformed::yes(Arc::clone(input))),
            None => Ok(Transformed::no(plan)),
        });
        bare.data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// How often each name occurs.
fn names(schema: &Schema) -> HashMap<&str, usize> {
    let mut names = HashMap::with_capacity(schema.fields().len());
    for field in schema.fields() {
        *names.entry(field.name().as_str()).or_default() += 1;
    }
    names
}

fn has_namesakes(schema: &Schema) -> bool {
    names(schema).len() < schema.fields().len()
}

/// What stands above an operator, of whose columns some have one name.
#[derive(Debug)]
struct Fence(Arc<dyn ExecutionPlan>);

impl DisplayAs for Fence {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Fence {
    fn name(&self) -> &str {
        "TierraFence"
    }

    /// The very ones of the input, so that no operator takes it for another one.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(Self(input))),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let schema = self.schema();
        let names = names(&schema);
        let fields = schema.fields().iter().enumerate();
        let alone = fields.filter(|(_, field)| names[field.name().as_str()] == 1);
        let passed = ChildFilterDescription::from_child_with_allowed_indices(
            &filters,
            alone.map(|(index, _)| index).collect(),
            &self.0,
        )?;
        Ok(FilterDescription::new().with_child(passed))
    }
}
