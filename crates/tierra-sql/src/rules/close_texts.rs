//! Texts lie close before and behind a sort, and behind a window, as [`with_close_texts`](crate::memory::with_close_texts) says.
//!
//! Each batch of a window holds what the operator has kept of the batches before, buffers of rows that are long gone among it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::plan::EachOperator;
use crate::pass::Pass;

/// The rule. It is the last: others look for sorts by what stands above and below them.
pub(super) const RULE: EachOperator = EachOperator {
    name: "close_texts",
    rewrite,
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let has_views = plan
        .schema()
        .fields()
        .iter()
        .any(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView));
    if !has_views {
        return Ok(Transformed::no(plan));
    }
    if plan.is::<BoundedWindowAggExec>() || plan.is::<WindowAggExec>() {
        return Ok(Transformed::yes(Pass::Texts.above(plan)));
    }
    let input = match plan.downcast_ref::<SortExec>() {
        // The first few rows are copied together by the operator itself.
        Some(sort) if sort.fetch().is_none() => Pass::Texts.above(Arc::clone(sort.input())),
        _ => return Ok(Transformed::no(plan)),
    };
    let sort = replace_children_if_necessary(plan, vec![input])?;
    Ok(Transformed::yes(Pass::Texts.above(sort)))
}
