//! `LATERAL`: a subquery in FROM that refers to the rows of what stands before it.
//!
//! ```text
//! FROM a LEFT JOIN LATERAL (S) AS l ON c
//!      FROM a LEFT JOIN S' AS l ON c AND S'.d IS NOT DISTINCT FROM a.k      S' as in super
//! ```
//! DataFusion moves conditions out of S. That is right for those that [`is_plain_lateral`] describes, which are left to it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinType, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Join, Subquery, SubqueryAlias};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::domain::{Domain, Numbers, same, value};
use super::plain::is_plain_lateral;
use super::references::outer_columns;
use super::repeatable::repeatable;
use super::with_columns;
use crate::tree::TreeNode;

/// The plan with joins in place of those that are not plain, or of all of them. In subqueries all are joined: what they refer to
/// would be taken for the row outside of the subquery.
pub(super) fn joined(
    plan: LogicalPlan,
    keeps_plain: bool,
    numbers: &mut Numbers,
) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        let node = node.map_subqueries(|node| match node {
            LogicalPlan::Subquery(subquery) => {
                let plan = joined(Arc::unwrap_or_clone(subquery.subquery), false, numbers)?;
                Ok(Transformed::yes(LogicalPlan::Subquery(Subquery {
                    subquery: Arc::new(plan),
                    ..subquery
                })))
            }
            other => Ok(Transformed::no(other)),
        })?;
        match node.data {
            LogicalPlan::Join(join) => in_join(join, keeps_plain, numbers),
            other => Ok(Transformed::yes(other)),
        }
    })
    .data()
}

/// The subquery on the right of a join.
fn lateral(join: &Join) -> Option<&Subquery> {
    match join.right.as_ref() {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}

fn in_join(
    mut join: Join,
    keeps_plain: bool,
    numbers: &mut Numbers,
) -> Result<Transformed<LogicalPlan>> {
    let lateral = lateral(&join);
    let is_marked = lateral.is_some();
    let rows = lateral.map_or(&join.right, |lateral| &lateral.subquery);
    let rows = Arc::clone(rows);
    let outside = join.left.schema();
    let columns = outer_columns(&rows, outside)?;
    let is_known = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    // One that refers only in subqueries of its own has no mark.
    if !is_known || !is_marked && columns.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    // DataFusion loses columns of the outer row between two.
    let is_other = |node: &LogicalPlan| Ok(matches!(node, LogicalPlan::Subquery(_)));
    if join.left.exists(is_other)? {
        let left = Arc::unwrap_or_clone(join.left);
        join.left = Arc::new(joined(left, false, numbers)?);
    }
    let outside = join.left.schema();
    if keeps_plain && is_marked && !columns.is_empty() && is_plain_lateral(&rows, outside)? {
        // DataFusion's join has more columns than it had, which a window above it would not expect.
        let columns = join.schema.columns().into_iter().map(Expr::from);
        let columns: Vec<Expr> = columns.collect();
        let plan = LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?;
        return plan.build().map(Transformed::yes);
    }
    let rows = Arc::new(joined(Arc::unwrap_or_clone(rows), false, numbers)?);
    let schema = Arc::clone(&join.schema);
    let mut right_columns = Vec::new();
    let names = rows
        .schema()
        .columns()
        .into_iter()
        .zip(join.right.schema().iter());
    for (column, (table, field)) in names {
        right_columns.push(renamed(column.into(), table, field.name()));
    }
    let mut terms: Vec<Expr> = Vec::new();
    let right = match columns.is_empty() {
        true => rows.as_ref().clone(),
        false => {
            let all = Domain {
                outside: &repeatable(join.left.as_ref().clone())?,
                columns: &columns,
                numbers,
            }
            .for_all(&rows)?;
            for (place, column) in columns.iter().enumerate() {
                let inner = Expr::Column(value(all.number, place));
                right_columns.push(inner.clone());
                terms.push(same(column.clone().into(), inner));
            }
            all.plan
        }
    };
    let pairs = join.on.into_iter();
    terms.extend(pairs.map(|(one, other)| one.eq(other)));
    terms.extend(join.filter);
    let right = LogicalPlanBuilder::from(right).project(right_columns)?;
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(join.left))
        .join_on(right.build()?, join.join_type, terms)?
        .build()?;
    with_columns(plan, &schema).map(Transformed::yes)
}

fn renamed(column: Expr, table: Option<&TableReference>, name: &str) -> Expr {
    match &column {
        Expr::Column(it) if it.relation.as_ref() == table && it.name == name => column,
        _ => column.alias_qualified(table.cloned(), name),
    }
}

/// The rule for a subquery that refers to nothing any more, because the condition that did is always false: it is a plain input.
#[derive(Debug, Default)]
pub(crate) struct PlainInputs;

impl OptimizerRule for PlainInputs {
    fn name(&self) -> &str {
        "plain_inputs"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else {
            return Ok(Transformed::no(plan));
        };
        match lateral(&join) {
            Some(lateral) if lateral.subquery.all_out_ref_exprs().is_empty() => {
                let rows = lateral.subquery.as_ref().clone();
                let right = match join.right.as_ref() {
                    LogicalPlan::SubqueryAlias(alias) => LogicalPlan::SubqueryAlias(
                        SubqueryAlias::try_new(Arc::new(rows), alias.alias.clone())?,
                    ),
                    _ => rows,
                };
                let right = Arc::new(right);
                Ok(Transformed::yes(LogicalPlan::Join(Join { right, ..join })))
            }
            _ => Ok(Transformed::no(LogicalPlan::Join(join))),
        }
    }
}
