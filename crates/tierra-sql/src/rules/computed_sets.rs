//! Expressions in grouping sets are computed below: `GROUP BY CUBE (d + 1)`, of a DATE.
//!
//! DataFusion's type coercion gives what it changes its old name, and with it all sets as if they were one expression. Then the
//! columns of the groups were not found.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Aggregate, Projection};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub(super) struct ComputedSets;

impl AnalyzerRule for ComputedSets {
    fn name(&self) -> &str {
        "computed_sets"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
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
    let groups = Aggregate::try_new(
        Arc::new(LogicalPlan::Projection(below)),
        vec![Expr::GroupingSet(sets)],
        aggregate.aggr_expr.clone(),
    )?;
    let columns = groups.schema.columns().into_iter();
    let named = columns.zip(aggregate.schema.iter());
    let named = named.map(|(column, (table, field))| {
        let has_its_name = column.relation.as_ref() == table && column.name == *field.name();
        let column = Expr::Column(column);
        match has_its_name {
            true => column,
            false => column.alias_qualified(table.cloned(), field.name()),
        }
    });
    let named = named.collect();
    let named = Projection::try_new(named, Arc::new(LogicalPlan::Aggregate(groups)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(named)))
}
