//! Columns of the row outside may be NULL where that row comes from grouping sets.
//!
//! `HAVING EXISTS (SELECT .. WHERE a.x IS NULL)` asks for the rows of the sets without `a.x`. DataFusion plans the subquery with the column of
//! the table, which has no NULL, and so took the condition for false.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::{map_under_names, uses};
use crate::tree::{TreeNode, apply_with_subqueries, transform_up_with_subqueries};

/// The rule, for plans with grouping sets.
#[derive(Debug)]
pub(super) struct GroupedOutside;

impl AnalyzerRule for GroupedOutside {
    fn name(&self) -> &str {
        "grouped_outside"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_sets(&plan)? {
            return Ok(plan);
        }
        let may_be_null = |plan: LogicalPlan| match uses(&plan, is_never_null)? {
            true => map_under_names(plan, |expr| expr.transform_up(may_be_null))?
                .map_data(LogicalPlan::recompute_schema),
            false => Ok(Transformed::no(plan)),
        };
        transform_up_with_subqueries(plan, may_be_null).data()
    }
}

fn has_sets(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    apply_with_subqueries(plan, |plan| {
        if let LogicalPlan::Aggregate(aggregate) = plan {
            has |= matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
        }
        Ok(match has {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(has)
}

fn is_never_null(expr: &Expr) -> bool {
    matches!(expr, Expr::OuterReferenceColumn(field, _) if !field.is_nullable())
}

fn may_be_null(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::OuterReferenceColumn(field, column) if !field.is_nullable() => {
            let field = Field::clone(&field).with_nullable(true);
            Transformed::yes(Expr::OuterReferenceColumn(Arc::new(field), column))
        }
        other => Transformed::no(other),
    })
}
