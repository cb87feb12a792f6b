//! Keys of rows whose lists are unnested are no keys of the elements.
//!
//! DataFusion takes a key of the rows below UNNEST for one of the rows above, of which there is one for each element. So ORDER BY lost
//! what stands behind such a key, and a join with the elements found one match instead of many. Above UNNEST the rules that rely on
//! keys are skipped. Groups have names of their own there ([`super::group_keys`]).

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::plan::LogicalRule;

/// DataFusion's rules that leave out keys of ORDER BY, and joins.
pub(super) const BY_KEYS: [&str; 2] = ["eliminate_duplicated_expr", "eliminate_join"];

/// One of these rules, for plans without UNNEST.
#[derive(Debug)]
pub(super) struct OfWholeRows(pub(super) LogicalRule);

impl OptimizerRule for OfWholeRows {
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
        match unnests(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// Whether `plan`, or a subquery of it, unnests lists.
pub(super) fn unnests(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        found |= matches!(plan, LogicalPlan::Unnest(_));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
