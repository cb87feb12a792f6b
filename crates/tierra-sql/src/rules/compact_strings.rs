//! Copies strings together before and after a sort and after a window
//! ([`with_compact_strings`](crate::memory::with_compact_strings)).
//!
//! A window's batches reference what the operator kept of earlier batches, including buffers of rows that are gone.

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

/// The rule. It runs last: other rules recognise sorts by the operators above and below them.
pub(super) const RULE: EachOperator = EachOperator {
    name: "compact_strings",
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
        // A sort for the first few rows copies their strings itself.
        Some(sort) if sort.fetch().is_none() => Pass::Texts.above(Arc::clone(sort.input())),
        _ => return Ok(Transformed::no(plan)),
    };
    let sort = replace_children_if_necessary(plan, vec![input])?;
    Ok(Transformed::yes(Pass::Texts.above(sort)))
}
