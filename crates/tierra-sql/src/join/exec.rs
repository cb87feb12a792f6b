//! The operator: a `HashJoinExec` with another execution.
//!
//! It keeps the join that it replaces and asks it for everything but the execution: keys, schema, partitioning, order,
//! statistics, and which filters may be pushed down.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::Statistics;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tierra_engine::{Calibration, LookupKind};
use tierra_memory::{MemoryGate, Speed};

use super::build::{BuildMetrics, BuildSide, Builder};
use super::filter;
use super::keys::JoinKeys;
use super::probe::{Probe, ProbeMetrics, Shape};
use crate::settings;

/// A build side that is being made; all probing partitions wait for it.
pub(super) type SharedBuild =
    Shared<BoxFuture<'static, Result<Arc<BuildSide>, Arc<DataFusionError>>>>;

/// Joins by interleaved lookups.
pub(crate) struct JoinExec {
    /// The join to execute. Its build side is one partition.
    join: HashJoinExec,
    keys: JoinKeys,
    build: Mutex<Option<SharedBuild>>,
    metrics: ExecutionPlanMetricsSet,
}

impl JoinExec {
    /// Replaces `join`, whose [keys](JoinKeys::of) are `keys` and whose build side is one partition.
    pub(super) fn new(join: HashJoinExec, keys: JoinKeys) -> Self {
        Self {
            join,
            keys,
            build: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The join to execute.
    pub(super) fn join(&self) -> &HashJoinExec {
        &self.join
    }

    /// The build side of this execution. The first partition that asks for it starts it.
    fn build(&self, partition: usize, context: &Arc<TaskContext>) -> Result<SharedBuild> {
        let mut build = self.build.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(build) = &*build {
            return Ok(build.clone());
        }
        let join = &self.join;
        let builder = Builder {
            input: join.left.execute(0, Arc::clone(context))?,
            on: join.on.iter().map(|(build, _)| Arc::clone(build)).collect(),
            keys: self.keys,
            gate: gate(context),
            scheduling: settings::of(context.session_config().options()).execution,
            threads: context.session_config().target_partitions(),
            marks: yields_build_rows_last(join.join_type),
            probing: join.right.output_partitioning().partition_count(),
            memory: MemoryConsumer::new("a join").register(context.memory_pool()),
            metrics: BuildMetrics::new(&self.metrics, partition),
        };
        let dynamic = self.dynamic_expressions_produced();
        let on_probe: Vec<_> = join.on.iter().map(|(_, probe)| Arc::clone(probe)).collect();
        let built = async move {
            let build = builder.build().await?;
            for expression in &dynamic {
                if let Some(dynamic) = expression.downcast_ref::<DynamicFilterPhysicalExpr>() {
                    dynamic.update(filter::of(&build, &on_probe)?)?;
                    dynamic.mark_complete();
                }
            }
            Ok(Arc::new(build))
        };
        let shared = built
            .map(|built: Result<_>| built.map_err(Arc::new))
            .boxed()
            .shared();
        *build = Some(shared.clone());
        Ok(shared)
    }

    /// The same operator for another join.
    fn with_join(&self, join: HashJoinExec) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(join, self.keys))
    }
}

/// The memory gate of lookups in a build side.
fn gate(context: &TaskContext) -> MemoryGate {
    let calibration = context.session_config().get_extension::<Calibration>();
    calibration.map_or_else(MemoryGate::default, |calibration| {
        calibration.gate(LookupKind::Join, Speed::Near)
    })
}

/// Whether a join of this type yields rows of its build side after the probe side has ended.
fn yields_build_rows_last(ty: JoinType) -> bool {
    matches!(
        ty,
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti
    )
}

impl fmt::Debug for JoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinExec")
            .field("join", &self.join)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for JoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = &self.join;
        let on: Vec<String> = join
            .on
            .iter()
            .map(|(build, probe)| format!("({build}, {probe})"))
            .collect();
        write!(
            f,
            "TierraJoinExec: join_type={:?}, on=[{}]",
            join.join_type,
            on.join(", ")
        )?;
        if let Some(filter) = &join.filter {
            write!(f, ", filter={}", filter.expression())?;
        }
        match join.fetch() {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for JoinExec {
    fn name(&self) -> &'static str {
        "TierraJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.join.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().recompute_properties();
        Ok(self.with_join(join.with_new_children(children)?.build()?))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.with_join(self.join.builder().reset_state().build()?))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let build = self.build(partition, &context)?;
        let input = self.join.right.execute(partition, Arc::clone(&context))?;
        let shape = Shape::new(&self.join, context.session_config().batch_size());
        let metrics = ProbeMetrics::new(&self.metrics, partition);
        Ok(Box::pin(Probe::new(shape, build, input, metrics)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().with_fetch(fetch).build().ok()?;
        Some(self.with_join(join))
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.join
            .gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut propagation = self
            .join
            .handle_child_pushdown_result(phase, result, config)?;
        if let Some(updated) = propagation.updated_node.take() {
            let Some(join) = updated.downcast_ref::<HashJoinExec>() else {
                return internal_err!("a hash join became {}", updated.name());
            };
            propagation.updated_node = Some(self.with_join(join.builder().build()?));
        }
        Ok(propagation)
    }
}
