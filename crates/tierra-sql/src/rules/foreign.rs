//! Which scans yield values that no table of the database has stored: doubles and timestamps may have other forms there.

use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::TableScan;

use crate::table::TierraTable;

/// Whether `scan` reads a file or what a table function makes. What a recursive query reads of itself is as it was made.
pub(crate) fn is_foreign(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|provider| {
        provider.downcast_ref::<TierraTable>().is_none()
            && provider.downcast_ref::<CteWorkTable>().is_none()
    })
}
