//! Keys of rows whose lists are unnested are no keys of the elements.
//!
//! DataFusion takes a key of the rows below UNNEST for one of the rows above, of which there is one for each element. So ORDER BY lost
//! what stands behind such a key, and a join with the elements found one match instead of many. Above UNNEST the rules that rely on
//! keys are skipped ([`super::group_keys`] has the one about ORDER BY), and groups have names of their own.

use crate::tree::apply_with_subqueries;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's rule that leaves out joins.
pub(super) const JOINS_ELIMINATED: &str = "eliminate_join";

/// The rule, for plans without UNNEST.
pub(super) fn of_whole_rows(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match unnests(&plan)? {
        true => Ok(Transformed::no(plan)),
        false => rule.rewrite(plan, config),
    }
}

/// Whether `plan`, or a subquery of it, unnests lists.
pub(super) fn unnests(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply_with_subqueries(plan, |plan| {
        found |= matches!(plan, LogicalPlan::Unnest(_));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
