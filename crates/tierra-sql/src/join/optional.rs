//! What holds of the optional side of an outer join does not hold of the join's rows.
//!
//! The rows of a side that finds no partner have NULL in all columns of the other, the optional one. DataFusion takes what
//! is known of that side's columns for known of the join's: `b.y` for 5 where `LEFT JOIN (.. WHERE y = 5) b`, so that
//! `ORDER BY b.y, a.x` did not sort by `b.y`. [`OptionalSide`] stands above such a side and tells nothing but how its rows
//! are ordered. Rows pass through it untouched.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties,
};

/// Sets an [`OptionalSide`] wherever one is needed.
#[derive(Debug)]
pub(super) struct OptionalSides;

impl PhysicalOptimizerRule for OptionalSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(rewrite).data()
    }

    fn name(&self) -> &str {
        "optional_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_optional = match join_type(plan.as_ref()) {
        Some(JoinType::Left) => [false, true],
        Some(JoinType::Right) => [true, false],
        Some(JoinType::Full) => [true, true],
        _ => return Ok(Transformed::no(plan)),
    };
    let mut is_changed = false;
    let sides = plan.children().into_iter().zip(is_optional);
    let sides = sides.map(|(side, is_optional)| {
        if !is_optional || !tells_values(side) {
            return Arc::clone(side);
        }
        is_changed = true;
        Arc::new(OptionalSide::new(Arc::clone(side)))
    });
    let sides = sides.collect();
    match is_changed {
        true => replace_children_if_necessary(plan, sides).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}

fn join_type(plan: &dyn ExecutionPlan) -> Option<JoinType> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        Some(*join.join_type())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        Some(*join.join_type())
    } else {
        let join = plan.downcast_ref::<SortMergeJoinExec>()?;
        Some(join.join_type())
    }
}

/// Whether something is known of the values of `side`, other than that columns are equal.
fn tells_values(side: &Arc<dyn ExecutionPlan>) -> bool {
    let known = side.equivalence_properties();
    let mut alike = known.eq_group().iter().flat_map(|class| class.iter());
    !known.constants().is_empty() || alike.any(|expr| !expr.is::<Column>())
}

/// The optional side of an outer join.
#[derive(Debug)]
struct OptionalSide {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OptionalSide {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = input.equivalence_properties();
        let mut told = EquivalenceProperties::new(Arc::clone(known.schema()));
        told.add_orderings(known.oeq_class().iter().cloned());
        let properties = input.properties().as_ref().clone();
        Self {
            properties: Arc::new(properties.with_eq_properties(told)),
            input,
        }
    }
}

impl DisplayAs for OptionalSide {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for OptionalSide {
    fn name(&self) -> &str {
        "TierraOptionalSideExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
            Some(input) if children.is_empty() => Ok(Arc::new(Self::new(input))),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
