//! A build side of several partitions begins when its join asks for it.
//!
//! `CoalescePartitionsExec` starts its input with the plan. The joins above collect their own build sides first, and then give
//! filters to the scans of this one. Started with the plan, a scan reads rows that these filters drop, as many as the machine
//! happens to read by then. [`Pass::Deferred`] starts it when the filters are known.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;

use super::hash_join;
use crate::pass::Pass;
use crate::rules::EachOperator;
use crate::scan::TierraScanExec;
use crate::tree::TreeNode;

/// The rule. It runs after filters were pushed down.
pub(super) const RULE: EachOperator = EachOperator {
    name: "deferred_build_sides",
    rewrite,
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let sides = match (hash_join(plan.as_ref()), plan.children().as_slice()) {
        (Some(_), [build, probe]) if build.is::<CoalescePartitionsExec>() && awaits(build)? => {
            vec![Pass::Deferred.above(Arc::clone(build)), Arc::clone(probe)]
        }
        _ => return Ok(Transformed::no(plan)),
    };
    replace_children_if_necessary(plan, sides).map(Transformed::yes)
}

/// Whether a scan of `plan` has filters that become known at run time.
fn awaits(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        let scan = node.downcast_ref::<TierraScanExec>();
        Ok(scan.is_some_and(TierraScanExec::awaits_filters))
    })
}
