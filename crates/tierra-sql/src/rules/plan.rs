//! Helpers of several rules for plans and for DataFusion's own rules.

use std::sync::Arc;

use crate::tree::{TreeNode, apply_expressions, map_expressions};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// What is done in place of a logical rule, which it is given.
pub(super) type Guard =
    fn(&dyn OptimizerRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>;

/// What is done in place of a physical rule, which it is given.
pub(crate) type PhysicalGuard =
    fn(&dyn PhysicalOptimizerRule, Operator, &ConfigOptions) -> Result<Operator>;

/// Puts `guard` in place of DataFusion's logical rule of that name.
pub(super) fn guard(builder: &mut SessionStateBuilder, name: &str, guard: Guard) {
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    for rule in rules.iter_mut().filter(|rule| rule.name() == name) {
        let guarded = Arc::clone(rule);
        *rule = Arc::new(Guarded { guarded, guard });
    }
}

/// Puts `guard` in place of DataFusion's physical rules whose names begin so.
pub(crate) fn guard_physical(builder: &mut SessionStateBuilder, name: &str, guard: PhysicalGuard) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    for rule in rules
        .iter_mut()
        .filter(|rule| rule.name().starts_with(name))
    {
        let guarded = Arc::clone(rule);
        *rule = Arc::new(PhysicalGuarded { guarded, guard });
    }
}

#[derive(Debug)]
struct Guarded {
    guarded: LogicalRule,
    guard: Guard,
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.guarded.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.guarded.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.guard)(self.guarded.as_ref(), plan, config)
    }
}

#[derive(Debug)]
struct PhysicalGuarded {
    guarded: PhysicalRule,
    guard: PhysicalGuard,
}

impl PhysicalOptimizerRule for PhysicalGuarded {
    fn optimize(&self, plan: Operator, config: &ConfigOptions) -> Result<Operator> {
        (self.guard)(self.guarded.as_ref(), plan, config)
    }

    fn name(&self) -> &str {
        self.guarded.name()
    }

    fn schema_check(&self) -> bool {
        self.guarded.schema_check()
    }
}

/// The schema for names in a plan's expressions: columns of its inputs, or of the table if filters were pushed to a scan.
pub(crate) fn schema_below(plan: &LogicalPlan) -> Result<DFSchema> {
    if let LogicalPlan::TableScan(scan) = plan {
        return DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema());
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::Join(join) = plan {
        schema.merge(&join.schema);
    }
    Ok(schema)
}

/// Whether an expression of the node `plan` has a part for which `is` is true.
pub(crate) fn uses(plan: &LogicalPlan, is: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    apply_expressions(plan, |expr| {
        expr.apply(|expr| {
            found |= is(expr);
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })
    })?;
    Ok(found)
}

/// `plan` with its expressions as changed by `change`, under their old names.
pub(crate) fn map_under_names(
    plan: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    map_expressions(plan, |expr| {
        let mut is_changed = false;
        let named = under_its_name(expr, &names, &mut |expr| {
            let changed = change(expr)?;
            is_changed |= changed.transformed;
            Ok(changed.data)
        })?;
        Ok(Transformed::new(
            named,
            is_changed,
            TreeNodeRecursion::Continue,
        ))
    })
}

/// `expr` as changed by `change`, under its old name. `names` are those of the operator of `expr`. A grouping set has no
/// name, but its expressions have.
pub(crate) fn under_its_name(
    expr: Expr,
    names: &NamePreserver,
    change: &mut dyn FnMut(Expr) -> Result<Expr>,
) -> Result<Expr> {
    let mut all = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
        let exprs = exprs.into_iter();
        exprs
            .map(|expr| under_its_name(expr, names, change))
            .collect()
    };
    Ok(Expr::GroupingSet(match expr {
        Expr::GroupingSet(GroupingSet::Rollup(exprs)) => GroupingSet::Rollup(all(exprs)?),
        Expr::GroupingSet(GroupingSet::Cube(exprs)) => GroupingSet::Cube(all(exprs)?),
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
            GroupingSet::GroupingSets(sets.into_iter().map(all).collect::<Result<_>>()?)
        }
        expr => {
            let name = names.save(&expr);
            return Ok(name.restore(change(expr)?));
        }
    }))
}

/// An operator of a plan.
type Operator = Arc<dyn ExecutionPlan>;

/// A logical rule that changes the nodes of a plan one by one.
#[derive(Debug)]
pub(super) struct EachNode {
    pub(super) name: &'static str,
    pub(super) order: ApplyOrder,
    pub(super) rewrite: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
}

impl OptimizerRule for EachNode {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(self.order)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan)
    }
}

/// A physical rule that changes operators one by one, bottom-up.
#[derive(Debug)]
pub(crate) struct EachOperator {
    pub(crate) name: &'static str,
    pub(crate) rewrite: fn(Operator) -> Result<Transformed<Operator>>,
}

impl PhysicalOptimizerRule for EachOperator {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(self.rewrite).data()
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}
