//! Texts lie close before and behind a sort, as [`with_close_texts`](crate::memory::with_close_texts) says.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::plan::EachOperator;
use crate::pass::Pass;

/// The rule. It is the last: others look for sorts by what stands above and below them.
pub(super) const RULE: EachOperator = EachOperator {
    name: "sorted_texts",
    rewrite,
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let has_views = plan
        .schema()
        .fields()
        .iter()
        .any(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView));
    let input = match plan.downcast_ref::<SortExec>() {
        // The first few rows are copied together by the operator itself.
        Some(sort) if has_views && sort.fetch().is_none() => {
            Pass::Texts.above(Arc::clone(sort.input()))
        }
        _ => return Ok(Transformed::no(plan)),
    };
    let sort = replace_children_if_necessary(plan, vec![input])?;
    Ok(Transformed::yes(Pass::Texts.above(sort)))
}
