//! If a query yields few of many rows, columns that are only output are read last.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::fetch::FetchExec;
use super::narrow::narrow;
use crate::scan::TierraScanExec;
use crate::settings;
use crate::statistics::value_bytes;
use crate::tree::TreeNode;
use crate::types::logical_type;

/// Rows of a scan per row of the result. Reading single cells costs several times as much as decoding blocks, and the
/// filter that a TopK gives its scan soon leaves few rows to decode. With one row of 256, reading late is 1.04 to 1.6
/// times as fast if the order is random or descending in the table. If the first rows are the result, it takes 1.7 to
/// 2.6 times as long, a millisecond or two (`examples/late_rows.rs`, 1 M rows, two threads).
const SCANNED_PER_FETCHED: usize = 256;
/// The size of a row id in the operators that carry it.
const ROW_ID_BYTES: usize = 8;

/// Puts a [`FetchExec`] above the operators that keep only some rows: TopK and LIMIT.
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
            // Every scan below that can yield row ids already does.
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

/// Whether reading the columns `late` of `scan` only for the `rows` rows of the result costs less.
fn pays(scan: &TierraScanExec, late: &[usize], rows: usize) -> Result<bool> {
    let schema = scan.source().snapshot.table().schema();
    let bytes: usize = late
        .iter()
        .map(|column| value_bytes(logical_type(&schema, *column)))
        .sum();
    let scanned = scan.estimated_rows();
    Ok(bytes > ROW_ID_BYTES && rows.saturating_mul(SCANNED_PER_FETCHED) <= scanned)
}
