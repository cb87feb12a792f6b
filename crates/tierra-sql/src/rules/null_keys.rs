//! Joins on `a IS NOT DISTINCT FROM b` keep their keys apart from those of joins on `a = b`.
//!
//! DataFusion keeps in a join whether NULL equals NULL, for all of its keys. But it adds keys to such a join from equalities
//! (`WHERE a.y = b.y`), and it orders the keys of adjoining joins anew, all with the property of the uppermost join. So NULL was
//! equal to NULL where it is not, and the other way round.

use std::sync::Arc;

use crate::tree::transform_up_with_subqueries;
use datafusion::common::NullEquality;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Join, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's rule that makes keys of a join's condition.
pub(super) const EXTRACTED: &str = "extract_equijoin_predicate";
/// DataFusion's rule that orders inner joins by their keys.
pub(super) const ORDERED: &str = "eliminate_cross_join";

/// The first rule, except for joins with keys that match NULL.
pub(super) fn extracted(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match &plan {
        LogicalPlan::Join(join) if matches_nulls(join) => Ok(Transformed::no(plan)),
        _ => rule.rewrite(plan, config),
    }
}

/// The second rule. It sees no inner join directly above or below one with keys that match NULL: a projection of all columns is
/// between them, which a later rule removes.
pub(super) fn ordered(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let apart = transform_up_with_subqueries(plan, |plan| {
        Ok(match plan {
            LogicalPlan::Join(join)
                if join.join_type == JoinType::Inner && matches_nulls(&join) =>
            {
                Transformed::yes(set_apart(join))
            }
            other => Transformed::no(other),
        })
    })?;
    rule.rewrite(apart.data, config)
}

fn matches_nulls(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// The join with a projection above it and above each join that it joins.
fn set_apart(mut join: Join) -> LogicalPlan {
    for side in [&mut join.left, &mut join.right] {
        if matches!(side.as_ref(), LogicalPlan::Join(_)) {
            *side = Arc::new(all_columns(Arc::clone(side)));
        }
    }
    all_columns(Arc::new(LogicalPlan::Join(join)))
}

fn all_columns(plan: Arc<LogicalPlan>) -> LogicalPlan {
    let schema = Arc::clone(plan.schema());
    LogicalPlan::Projection(Projection::new_from_schema(plan, schema))
}
