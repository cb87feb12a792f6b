//! Conditions that stay where they are: on an aggregation of all rows, and on columns of one name.
//!
//! DataFusion pushes conditions on GROUP BY columns below the aggregation, and with them conditions without columns:
//! `HAVING $1 = $2`, and `FALSE`, which it makes of `n = 1 AND n = 2`. But an aggregation without GROUP BY yields a row even for
//! no rows. So nothing is pushed below such an aggregation.
//!
//! It finds columns by their name, and does not tell the column `c` of table `t` from a column with the name `t.c`: the name of
//! `CAST(CAST(t.c AS BIGINT) AS VARCHAR)`. So nothing is pushed below a projection that yields both.

use std::collections::HashSet;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::Aggregate;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::plan::LogicalRule;

/// DataFusion's rule that pushes conditions down.
pub(super) const PUSHED_DOWN: &str = "push_down_filter";

/// The rule, except for conditions on an aggregation of all rows, and on columns of one name.
#[derive(Debug)]
pub(super) struct Held(pub(super) LogicalRule);

impl OptimizerRule for Held {
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
        match is_held(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Whether `plan` is a condition on an aggregation that yields a row for an empty input, or on a projection with ambiguous names.
fn is_held(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else {
        return false;
    };
    match filter.input.as_ref() {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => {
            matches!(group_expr.as_slice(), [] | [Expr::GroupingSet(_)])
        }
        LogicalPlan::Projection(projection) => {
            let mut seen = HashSet::new();
            let mut names = projection.schema.field_names().into_iter();
            !names.all(|name| seen.insert(name))
        }
        below => is_held(below),
    }
}
