//! A condition that names no column stays above an aggregation of all rows.
//!
//! DataFusion hands conditions on what GROUP BY says down below it, and with them those that name nothing at all:
//! `HAVING $1 = $2`, and `FALSE`, which it makes of `n = 1 AND n = 2` on the way. But an aggregation without GROUP BY has a row for
//! no rows. Nothing is handed down below such a one.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::logical_plan::Aggregate;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

/// DataFusion's rule that hands conditions down.
const PUSHED_DOWN: &str = "push_down_filter";

pub(super) fn add_to(builder: &mut SessionStateBuilder) {
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    for rule in rules {
        if rule.name() == PUSHED_DOWN {
            *rule = Arc::new(AboveAggregations(Arc::clone(rule)));
        }
    }
}

/// The rule but for conditions on an aggregation of all rows.
#[derive(Debug)]
struct AboveAggregations(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for AboveAggregations {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match has_row_of_no_rows(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Whether `plan` is a condition on an aggregation that has a row where there are none to aggregate.
fn has_row_of_no_rows(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else {
        return false;
    };
    match filter.input.as_ref() {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => {
            matches!(group_expr.as_slice(), [] | [Expr::GroupingSet(_)])
        }
        below => has_row_of_no_rows(below),
    }
}
