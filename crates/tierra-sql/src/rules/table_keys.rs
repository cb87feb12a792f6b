//! Tells the optimiser the keys of tables, which were hidden from the planner ([`crate::hidden_keys`]).
//!
//! It groups by fewer columns where it knows keys. [`super::group_keys`] keeps it from the planner's mistake.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::{TableScan, TableScanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::table::TierraTable;
use crate::tree::transform_up_with_subqueries;

/// The rule.
#[derive(Debug)]
pub(super) struct TableKeys;

impl AnalyzerRule for TableKeys {
    fn name(&self) -> &str {
        "table_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_changed = false;
        let plan = transform_up_with_subqueries(plan, |plan| match plan {
            LogicalPlan::TableScan(scan) => {
                let scan = with_key(scan)?;
                is_changed |= scan.transformed;
                Ok(scan.update_data(LogicalPlan::TableScan))
            }
            plan if is_changed => plan.recompute_schema().map(Transformed::yes),
            plan => Ok(Transformed::no(plan)),
        });
        plan.data()
    }
}

/// The scan of a table that has its key, if it was found without.
fn with_key(scan: TableScan) -> Result<Transformed<TableScan>> {
    let Ok(provider) = source_as_provider(&scan.source) else {
        return Ok(Transformed::no(scan));
    };
    let Some(keyed) = provider
        .downcast_ref::<TierraTable>()
        .and_then(TierraTable::with_key)
    else {
        return Ok(Transformed::no(scan));
    };
    let source = provider_as_source(Arc::new(keyed));
    let keyed = TableScanBuilder::new(scan.table_name, source)
        .with_projection(scan.projection)
        .with_filters(scan.filters)
        .with_fetch(scan.fetch)
        .with_statistics_requests(scan.statistics_requests);
    keyed.build().map(Transformed::yes)
}
