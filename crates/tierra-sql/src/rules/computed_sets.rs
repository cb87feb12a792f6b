//! Expressions in grouping sets are computed below: `GROUP BY CUBE (d + 1)`, of a DATE.
//!
//! DataFusion's type coercion gives what it changes its old name, and with it all sets as if they were one expression. Then the
//! columns of the groups were not found.
//!
//! Of `CUBE (e.x, CAST(e.x AS VARCHAR))` the first group is column `x` of `e`, and the second a column "e.x" of no table. Where the
//! optimiser adds a projection below an operator, it takes one for the other and leaves out the second. So the second keeps another name
//! up to the select list, as with other groups ([`super::group_keys`]). `grouping(x)` is computed directly above the aggregation, below
//! these names, so it is given the columns for its arguments.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Aggregate, Projection};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::group_keys::{APART, is_whole_name, with_apart_names};
use super::shifted_sums::unaliased;
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct ComputedSets;

impl AnalyzerRule for ComputedSets {
    fn name(&self) -> &str {
        "computed_sets"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    with_apart_names(plan)?.transform_data(computed_below)
}

fn computed_below(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else {
        return Ok(Transformed::no(plan));
    };
    let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() else {
        return Ok(Transformed::no(plan));
    };
    let computed = sets.distinct_expr().into_iter();
    let computed = computed.filter(|expr| !matches!(expr, Expr::Column(_)));
    let computed: Vec<Expr> = computed.cloned().collect();
    if computed.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let name = |place: usize| format!("tierra_set_{place}");
    let columns = aggregate.input.schema().columns().into_iter();
    let below = computed.iter().enumerate();
    let below = below.map(|(place, expr)| expr.clone().alias(name(place)));
    let below = columns.map(Expr::Column).chain(below).collect();
    let below = Projection::try_new(below, Arc::clone(&aggregate.input))?;
    let column = |expr: &Expr| {
        let place = computed.iter().position(|computed| computed == expr);
        place.map_or(expr.clone(), |place| {
            Expr::Column(Column::new_unqualified(name(place)))
        })
    };
    let columns = |exprs: &Vec<Expr>| exprs.iter().map(column).collect();
    let sets = match sets {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(columns(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(columns(exprs)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(columns).collect())
        }
    };
    // Rules before this one may have changed a set's expression under its old name.
    let argument = |arg: Expr| {
        let place = computed
            .iter()
            .position(|computed| unaliased(computed) == unaliased(&arg));
        place.map_or(arg, |place| {
            Expr::Column(Column::new_unqualified(name(place)))
        })
    };
    let aggregates = aggregate.aggr_expr.iter().cloned();
    let aggregates = aggregates.map(|expr| with_arguments(expr, argument));
    let groups = Aggregate::try_new(
        Arc::new(LogicalPlan::Projection(below)),
        vec![Expr::GroupingSet(sets)],
        aggregates.collect::<Result<_>>()?,
    )?;
    let columns = groups.schema.columns().into_iter();
    let named = columns.zip(aggregate.schema.iter());
    // Only `grouping(x)` reads which set a group is of, and it does so below.
    let named = named.filter(|(column, _)| column.name != Aggregate::INTERNAL_GROUPING_ID);
    let named = named.map(|(column, (table, field))| {
        let has_its_name = column.relation.as_ref() == table && column.name == *field.name();
        let column = Expr::Column(column);
        match has_its_name {
            true => column,
            false if table.is_none() && is_whole_name(field.name(), &aggregate.schema) => {
                column.alias(format!("{APART}{}", field.name()))
            }
            false => column.alias_qualified(table.cloned(), field.name()),
        }
    });
    let named = named.collect();
    let named = Projection::try_new(named, Arc::new(LogicalPlan::Aggregate(groups)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(named)))
}

/// An aggregate, under its name, with other arguments if it is a call of `grouping`.
fn with_arguments(expr: Expr, argument: impl Fn(Expr) -> Expr) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(&expr);
    let changed = expr.transform_up(|expr| match expr {
        Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
            call.params.args = call.params.args.into_iter().map(&argument).collect();
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        expr => Ok(Transformed::no(expr)),
    });
    Ok(name.restore(changed.data()?))
}
