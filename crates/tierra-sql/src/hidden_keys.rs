//! Statements are planned as if tables had no keys.
//!
//! To GROUP BY a key DataFusion's planner adds the columns of its table, so that they can be selected. Of the groups of a join it takes the
//! key of one table for the key of all columns, counts among them. So in `SELECT b, count(*) FROM (SELECT x.id AS a, y.id AS b FROM x JOIN y
//! .. GROUP BY 1, 2) GROUP BY b` it added `a`, and `b` had a row for each. A statement that is refused without keys, since it may select
//! what only a key determines, is planned again with them, and stays refused if it groups what the planner misjudges: groups of joined
//! rows, and elements of lists.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;

use crate::merged_columns;

tokio::task_local! {
    /// Set while a statement is planned without keys.
    static WITHOUT_KEYS: ();
}

/// Whether tables are to be found without their keys.
pub(crate) fn are_hidden() -> bool {
    WITHOUT_KEYS.try_with(|()| ()).is_ok()
}

/// The plan of a statement. It may be planned twice.
///
/// # Errors
/// If the statement cannot be planned.
pub(crate) async fn planned(state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    let without = merged_columns::planned(state, statement.clone());
    match WITHOUT_KEYS.scope((), without).await {
        Err(error) if error.to_string().contains("GROUP BY") => {
            let plan = merged_columns::planned(state, statement).await?;
            match misjudges_keys(&plan)? {
                true => Err(error),
                false => Ok(plan),
            }
        }
        planned => planned,
    }
}

/// Whether the planner may have taken wrong columns for keys, by which `plan` groups.
fn misjudges_keys(plan: &LogicalPlan) -> Result<bool> {
    let is_join = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Join(_)));
    let is_misjudged = |plan: &LogicalPlan| match plan {
        LogicalPlan::Aggregate(groups) if groups.group_expr.len() > 1 => {
            groups.input.exists(is_join)
        }
        plan => Ok(matches!(plan, LogicalPlan::Unnest(_))),
    };
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Aggregate(groups) = plan {
            found |= groups.input.exists(is_misjudged)?;
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
