//! What SQL means that DataFusion's own rules do not say: numbers keep their digits, INSERT assigns
//! and does not convert, an integer that overflows is an error, conditions have three values, and EXCEPT
//! ALL counts.
//!
//! ```text
//! group keys, computed, outer values, set operations, assignment, numbers, seconds --> DataFusion's type coercion
//!     --> microseconds, arithmetic, doubles --> subqueries --> lists --> DataFusion's optimiser --> casts
//! ```
//! The first seven read a plan as it was written, before casts are added; the next three need its types
//! settled, and must see sums of constants before the optimiser folds them. Subqueries and lists need
//! types as well, and must see conditions before the optimiser takes NULL for false. Casts are hidden from estimates
//! when nothing else looks at them. Where a rule of the optimiser is wrong it is kept from that ([`constant_conditions`],
//! [`distinct_sums`], [`known_aggregates`], [`tried`], [`window_orders`]), and put right behind it ([`sorted_inputs`],
//! [`sorted_texts`], [`unasked_partitions`]).

mod arithmetic;
mod assigned;
mod assignment;
mod casts;
mod computed;
mod constant_conditions;
mod csv_source;
mod distinct_sums;
mod doubles;
mod group_keys;
mod known_aggregates;
mod lists;
mod number;
mod numbers;
mod outer_values;
mod set_operations;
mod sorted_inputs;
mod sorted_texts;
mod subquery;
mod tried;
mod unasked_partitions;
mod window_orders;

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan, ScalarUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use crate::time::{Microseconds, Seconds};

pub(crate) use assignment::{argument, name_of, shown};
pub(crate) use doubles::{CANONICAL, is_double, one_zero};
pub(crate) use number::{LONG_NUMBER, exactly, is_long, may_be_long};

/// DataFusion's rule for comparisons with ANY and ALL, in whose place ours is.
const SET_COMPARISONS: &str = "rewrite_set_comparison";
/// DataFusion's rule that merges lists.
const SIMPLIFIED: &str = "simplify_expressions";

type LogicalRule = Arc<dyn OptimizerRule + Send + Sync>;
pub(crate) type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A session whose statements mean what this module says.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = before_coercion();
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(Microseconds));
    rules.push(Arc::new(arithmetic::CheckArithmetic));
    rules.push(Arc::new(doubles::OneZero));
    *builder.analyzer() = Some(Analyzer::with_rules(rules));
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    rules.retain(|rule| rule.name() != SET_COMPARISONS);
    rules.insert(0, Arc::new(subquery::SubqueryPredicates));
    let simplified = rules.iter().position(|rule| rule.name() == SIMPLIFIED);
    rules.insert(simplified.unwrap_or(1), Arc::new(lists::ListsApart));
    rules.push(Arc::new(casts::LossyCasts));
    wrap(&mut builder, constant_conditions::PUSHED_DOWN, |rule| {
        Arc::new(constant_conditions::AboveAggregations(rule))
    });
    wrap(&mut builder, distinct_sums::BY_GROUPS, |rule| {
        Arc::new(distinct_sums::OfOneType(rule))
    });
    wrap_physical(&mut builder, known_aggregates::KNOWN, |rule| {
        Arc::new(known_aggregates::WithoutFilter(rule))
    });
    wrap_physical(&mut builder, tried::PROJECTIONS, |rule| {
        Arc::new(tried::Tried(rule))
    });
    sorted_inputs::add_to(&mut builder);
    window_orders::add_to(&mut builder);
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    rules.push(Arc::new(unasked_partitions::UnaskedPartitions));
    rules.push(Arc::new(sorted_texts::SortedTexts));
    builder
        .expr_planners()
        .get_or_insert_with(Vec::new)
        .insert(0, Arc::new(numbers::ExactNumbers));
    builder
        .scalar_functions()
        .get_or_insert_with(Vec::new)
        .push(Arc::new(ScalarUDF::from(number::LongNumber::new())));
    builder
}

/// Puts `wrapped` in the place of DataFusion's logical rule of that name.
fn wrap(
    builder: &mut SessionStateBuilder,
    name: &str,
    wrapped: impl Fn(LogicalRule) -> LogicalRule,
) {
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    let rules = rules.iter_mut().filter(|rule| rule.name() == name);
    rules.for_each(|rule| *rule = wrapped(Arc::clone(rule)));
}

/// Puts `wrapped` in the place of DataFusion's physical rules whose names begin so.
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

/// What the names in a plan's own expressions mean: columns of its inputs, or of the table where filters were pushed to a scan.
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

fn before_coercion() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(group_keys::GroupKeys),
        Arc::new(computed::ComputedBelow),
        Arc::new(outer_values::OuterValues),
        Arc::new(set_operations::CountedCopies),
        Arc::new(assignment::Assignment),
        Arc::new(numbers::ExactNumbers),
        Arc::new(Seconds),
    ]
}

/// Whether an expression of the node `plan` has a part that `is` so.
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

/// What `change` makes of `expr`, under the name that it had. `names` are those of the operator that `expr` belongs to. Not a
/// grouping set has a name, but its expressions have.
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

/// A plan that says of its parameters what is known of their types.
pub(crate) fn settle(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    before_coercion()
        .iter()
        .try_fold(plan, |plan, rule| rule.analyze(plan, config))
}
