//! Helpers of several rules for plans and for DataFusion's own rules.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;

pub(super) type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
pub(crate) type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Replaces DataFusion's logical rule of that name by `wrapped`.
pub(super) fn wrap(
    builder: &mut SessionStateBuilder,
    name: &str,
    wrapped: impl Fn(LogicalRule) -> LogicalRule,
) {
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    let rules = rules.iter_mut().filter(|rule| rule.name() == name);
    rules.for_each(|rule| *rule = wrapped(Arc::clone(rule)));
}

/// Replaces DataFusion's physical rules whose names begin so by `wrapped`.
pub(crate) fn wrap_physical(
    builder: &mut SessionStateBuilder,
    name: &str,
    wrapped: impl Fn(PhysicalRule) -> PhysicalRule,
) {
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    let rules = rules
        .iter_mut()
        .filter(|rule| rule.name().starts_with(name));
    rules.for_each(|rule| *rule = wrapped(Arc::clone(rule)));
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
    plan.apply_expressions(|expr| {
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
    plan.map_expressions(|expr| {
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
    change: &mut impl FnMut(Expr) -> Result<Expr>,
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
