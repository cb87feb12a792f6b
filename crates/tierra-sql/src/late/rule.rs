//! When a query takes few rows of many, the columns that only travel to its result are read last.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::fetch::FetchExec;
use super::narrow::narrow;
use crate::scan::TierraScanExec;
use crate::settings;
use crate::statistics::value_bytes;
use crate::types::logical_type;

/// Rows of a scan for each row of the result. Reading cells one by one costs several times as much as decoding
/// them in blocks, and the filter that a TopK hands to its scan soon leaves few rows to decode: with one
/// row of 256 late is 1.04 to 1.6 times as fast where the order is random or descending in the table, and takes
/// 1.7 to 2.6 times as long, a millisecond or two, where the first rows are the result
/// (`examples/late_rows.rs`, 1 M rows, two threads).
const SCANNED_PER_FETCHED: usize = 256;
/// What a row's id costs the operators that carry it.
const ROW_ID_BYTES: usize = 8;

/// Puts a [`FetchExec`] above the operators that leave only some rows: TopK and LIMIT.
#[derive(Debug)]
pub(super) struct LateRows;

impl PhysicalOptimizerRule for LateRows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !settings::of(config).late_rows {
            return Ok(plan);
        }
        let late = plan.transform_down(|node| {
            let Some(rows) = node.fetch() else {
                return Ok(Transformed::no(node));
            };
            let wanted = vec![false; node.schema().fields().len()];
            let narrowed = narrow(&node, &wanted, &|scan, late| pays(scan, late, rows))?;
            if narrowed.sources.is_empty() {
                return Ok(Transformed::no(node));
            }
            let fetch: Arc<dyn ExecutionPlan> = Arc::new(FetchExec::new(narrowed, node.schema())?);
            // Below it every scan that could tell row ids does.
            Ok(Transformed::new(fetch, true, TreeNodeRecursion::Jump))
        })?;
        Ok(late.data)
    }

    fn name(&self) -> &str {
        "late_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the columns `late` of `scan` are better read of the `rows` rows that are left at the end.
fn pays(scan: &TierraScanExec, late: &[usize], rows: usize) -> Result<bool> {
    let schema = scan.source().snapshot.table().schema();
    let bytes: usize = late
        .iter()
        .map(|column| value_bytes(logical_type(&schema, *column)))
        .sum();
    let scanned = scan.estimated_rows();
    Ok(bytes > ROW_ID_BYTES && rows.saturating_mul(SCANNED_PER_FETCHED) <= scanned)
}
