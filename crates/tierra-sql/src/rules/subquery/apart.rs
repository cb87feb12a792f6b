//! Gives columns of a subquery that are compared with the outer row names that no other column of it has.
//!
//! The planner moves such a comparison into the condition of a join and finds its column there by name alone. In
//! `a.x IN (SELECT b.id FROM b JOIN c ON .. WHERE c.id > a.y)` it compared `b.id`. If several columns of a subquery have one
//! name, the compared one gets another:
//! ```text
//! Projection: b.id, .., c.id, ..
//!   Filter: tierra_inner_1 > outer_ref(a.y)
//!     Projection: b.id, .., c.id, .., c.id AS tierra_inner_1
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Filter, SubqueryAlias};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::correlation::refers_outside;
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// `plan` with such names in its subqueries.
pub(super) fn named_apart(
    plan: LogicalPlan,
    aliases: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    transform_up_with_subqueries(plan, |plan| match plan {
        LogicalPlan::Subquery(subquery) if refers_outside(&subquery.subquery) => {
            let sources = sources(&subquery.subquery)?;
            let rows = Arc::unwrap_or_clone(Arc::clone(&subquery.subquery));
            let rows = rows.transform_up(|plan| match plan {
                LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
                    renamed(filter, &sources, aliases)
                }
                // A table alias cannot carry an added column below it; a projection can.
                LogicalPlan::SubqueryAlias(alias) if refers_outside(&alias.input) => {
                    projected(alias).map(Transformed::yes)
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(rows.update_data(|rows| LogicalPlan::Subquery(subquery.with_plan(Arc::new(rows)))))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The number of columns of each name in `rows`.
fn sources(rows: &LogicalPlan) -> Result<HashMap<String, usize>> {
    let mut sources = HashMap::new();
    rows.apply(|plan| {
        let is_leaf = plan.inputs().is_empty();
        let computes = matches!(
            plan,
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
        );
        if is_leaf || computes {
            let taken: Vec<String> = match is_leaf {
                true => Vec::new(),
                false => plan
                    .expressions()
                    .iter()
                    .filter_map(|expr| Some(expr.try_as_col()?.name.clone()))
                    .collect(),
            };
            for field in plan.schema().fields() {
                if !taken.contains(field.name()) {
                    *sources.entry(field.name().clone()).or_default() += 1;
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(sources)
}

fn projected(alias: SubqueryAlias) -> Result<LogicalPlan> {
    let columns = alias.input.schema().columns().into_iter();
    let columns = columns.map(|column| {
        let name = column.name.clone();
        Expr::Column(column).alias_qualified(Some(alias.alias.clone()), name)
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(alias.input))
        .project(columns)?
        .build()
}

fn renamed(
    filter: Filter,
    sources: &HashMap<String, usize>,
    aliases: &AliasGenerator,
) -> Result<Transformed<LogicalPlan>> {
    let mut names: HashMap<Column, String> = HashMap::new();
    let terms = split_conjunction_owned(filter.predicate.clone()).into_iter();
    let terms = terms.map(|term| {
        if !term.contains_outer() {
            return Ok(term);
        }
        let apart = term.transform_up(|expr| match expr {
            Expr::Column(column) if sources.get(&column.name).is_some_and(|count| *count > 1) => {
                let name = names
                    .entry(column)
                    .or_insert_with(|| aliases.next("tierra_inner"));
                let column = Column::new_unqualified(name.clone());
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        });
        apart.data()
    });
    let terms = terms.collect::<Result<Vec<_>>>()?;
    let Some(condition) = conjunction(terms).filter(|_| !names.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let columns = filter.input.schema().columns();
    let columns: Vec<Expr> = columns.into_iter().map(Expr::from).collect();
    let more = names
        .into_iter()
        .map(|(column, name)| Expr::Column(column).alias(name));
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(filter.input))
        .project(columns.iter().cloned().chain(more))?
        .filter(condition)?
        .project(columns)?
        .build()?;
    Ok(Transformed::yes(plan))
}
