//! ORDER BY keeps its columns.
//!
//! DataFusion leaves out of ORDER BY what a key before it determines. It takes the key of one table for the key of all
//! groups of a join by several tables' columns, so that `GROUP BY a.id, b.id ORDER BY a.id, b.id` lost `b.id`. Of its
//! rule only the other half is left: GROUP BY with a column twice.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule.
pub(super) const DUPLICATES: &str = "eliminate_duplicated_expr";

/// Leaves out what GROUP BY says twice.
#[derive(Debug, Default)]
pub(super) struct GroupedOnce(EliminateDuplicatedExpr);

impl OptimizerRule for GroupedOnce {
    fn name(&self) -> &str {
        "grouped_once"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(_) => self.0.rewrite(plan, config),
            other => Ok(Transformed::no(other)),
        }
    }
}
