//! An operator that passes rows on, but hides some facts about them from the optimiser, moves their strings together, starts
//! its input late, or waits for all of them.

use std::fmt;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Constraints, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt};

use crate::memory::with_compact_strings;

/// What is hidden.
#[derive(Debug, Clone)]
pub(crate) enum Pass {
    /// Filters on columns of these names do not pass. All facts about the input stay visible.
    Fence(Vec<String>),
    /// The values of columns: they are NULL in rows without a partner of an outer join. The order of rows stays visible.
    OptionalSide,
    /// The order of rows by these columns, and by others within equal values of them.
    Order(Vec<usize>),
    /// All facts about values and their order.
    Rows,
    /// Which columns are unique.
    Unique,
    /// Nothing. Strings are copied out of buffers of which they use a small part ([`with_compact_strings`]).
    Texts,
    /// Nothing. The input is started when its first batch is asked for, and not with the plan.
    Deferred,
    /// Nothing. All rows of a partition come in one batch.
    Together,
}

impl Pass {
    /// The operator above `input`.
    pub(crate) fn above(self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let properties = match &self {
            // The same object, so that no operator sees a difference.
            Self::Fence(_) | Self::Texts | Self::Deferred | Self::Together => {
                Arc::clone(input.properties())
            }
            Self::Order(columns) => {
                let mut told = input.equivalence_properties().clone();
                let orderings: Vec<_> = told.oeq_class().iter().cloned().collect();
                told.clear_orderings();
                told.add_orderings(orderings.into_iter().filter_map(|keys| {
                    let is_free = |key: &PhysicalSortExpr| {
                        let used = collect_columns(&key.expr);
                        used.iter().all(|used| !columns.contains(&used.index()))
                    };
                    LexOrdering::new(keys.into_iter().take_while(is_free))
                }));
                Arc::new(input.properties().as_ref().clone().with_eq_properties(told))
            }
            Self::Unique => {
                let known = input.equivalence_properties().clone();
                let told = known.with_constraints(Constraints::default());
                Arc::new(input.properties().as_ref().clone().with_eq_properties(told))
            }
            Self::OptionalSide | Self::Rows => {
                let known = input.equivalence_properties();
                let mut told = EquivalenceProperties::new(Arc::clone(known.schema()));
                if matches!(self, Self::OptionalSide) {
                    told.add_orderings(known.oeq_class().iter().cloned());
                }
                Arc::new(input.properties().as_ref().clone().with_eq_properties(told))
            }
        };
        Arc::new(PassExec {
            pass: self,
            input,
            properties,
        })
    }
}

/// The input of the fence `plan`; `None` if it is not a fence.
pub(crate) fn below_fence(plan: &dyn ExecutionPlan) -> Option<&Arc<dyn ExecutionPlan>> {
    let exec = plan.downcast_ref::<PassExec>()?;
    matches!(exec.pass, Pass::Fence(_)).then_some(&exec.input)
}

/// The input of an operator that hides no order, but lets none be asked of its input; `None` if `plan` is another operator.
pub(crate) fn below_kept_order(plan: &dyn ExecutionPlan) -> Option<&Arc<dyn ExecutionPlan>> {
    let exec = plan.downcast_ref::<PassExec>()?;
    let keeps = matches!(&exec.pass, Pass::Order(columns) if columns.is_empty());
    keeps.then_some(&exec.input)
}

#[derive(Debug)]
struct PassExec {
    pass: Pass,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for PassExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for PassExec {
    fn name(&self) -> &str {
        match self.pass {
            Pass::Fence(_) => "TierraFenceExec",
            Pass::OptionalSide => "TierraOptionalSideExec",
            Pass::Order(_) => "TierraOrderExec",
            Pass::Rows => "TierraRowsExec",
            Pass::Unique => "TierraUniqueExec",
            Pass::Texts => "TierraTextsExec",
            Pass::Deferred => "TierraDeferredExec",
            Pass::Together => "TierraTogetherExec",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // The visible order is the input's own. If asked for another order, the input would say that it has it.
        vec![!matches!(self.pass, Pass::Order(_) | Pass::Rows)]
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
            Some(input) if children.is_empty() => Ok(self.pass.clone().above(input)),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = Arc::clone(&self.input);
        Ok(match self.pass {
            Pass::Texts => {
                let rows = input.execute(partition, context)?;
                Box::pin(RecordBatchStreamAdapter::new(
                    rows.schema(),
                    rows.map(|batch| with_compact_strings(batch?)),
                ))
            }
            Pass::Deferred => {
                let rows = async move { input.execute(partition, context) };
                let rows = futures::stream::once(rows).try_flatten();
                Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))
            }
            Pass::Together => {
                let held = MemoryConsumer::new(self.name()).register(context.memory_pool());
                let rows = together(input.execute(partition, context)?, held);
                Box::pin(RecordBatchStreamAdapter::new(
                    self.schema(),
                    futures::stream::once(rows),
                ))
            }
            Pass::Fence(_) | Pass::OptionalSide | Pass::Order(_) | Pass::Rows | Pass::Unique => {
                input.execute(partition, context)?
            }
        })
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
        let schema = self.schema();
        let fields = schema.fields().iter().enumerate();
        let free = fields.filter(|(_, field)| match &self.pass {
            Pass::Fence(names) => !names.contains(field.name()),
            Pass::OptionalSide
            | Pass::Order(_)
            | Pass::Rows
            | Pass::Unique
            | Pass::Texts
            | Pass::Deferred
            | Pass::Together => true,
        });
        let passed = ChildFilterDescription::from_child_with_allowed_indices(
            &filters,
            free.map(|(index, _)| index).collect(),
            &self.input,
        )?;
        Ok(FilterDescription::new().with_child(passed))
    }
}

/// All rows in one batch; `held` keeps their memory and that of the copy.
async fn together(
    mut rows: SendableRecordBatchStream,
    held: MemoryReservation,
) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        held.try_grow(2 * get_record_batch_memory_size(&batch))?;
        batches.push(batch);
    }
    Ok(concat_batches(&rows.schema(), &batches)?)
}
