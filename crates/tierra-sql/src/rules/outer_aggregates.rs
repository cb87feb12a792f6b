//! Refuses an aggregate whose columns are all those of the query outside, as in `SELECT (SELECT max(t.a)) FROM t`: in SQL it is one of
//! that query, over all of its rows. DataFusion computes it for each row.

use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::tree::{TreeNode, apply_with_subqueries};

#[derive(Debug)]
pub(super) struct OuterAggregates;

impl AnalyzerRule for OuterAggregates {
    fn name(&self) -> &str {
        "outer_aggregates"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        apply_with_subqueries(&plan, |node| {
            if let LogicalPlan::Aggregate(aggregate) = node {
                aggregate.aggr_expr.iter().try_for_each(refuse)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

fn refuse(aggregate: &Expr) -> Result<()> {
    let (mut is_outside, mut is_inside) = (false, false);
    aggregate.apply(|expr| {
        is_outside |= matches!(expr, Expr::OuterReferenceColumn(..));
        is_inside |= matches!(expr, Expr::Column(_));
        Ok(TreeNodeRecursion::Continue)
    })?;
    match is_outside && !is_inside {
        true => plan_err!(
            "an aggregate of columns of the query outside alone is one of that query: compute it there, and use its result here"
        ),
        false => Ok(()),
    }
}
