//! Conditions on several columns that the scan of a change tests: columns that only new rows need are read for the rows that pass.

use std::error::Error;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::{PhysicalExpr, is_volatile};
use tierra_engine::{RowTest, ScanError};

/// Predicates on a table, whose conjunction is tested.
#[derive(Debug)]
pub(crate) struct TestedPredicates {
    /// On the table's columns.
    pub(super) predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// Their conjunction, on the columns that it needs.
    conjunction: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl TestedPredicates {
    pub(super) fn new(
        predicates: Vec<Arc<dyn PhysicalExpr>>,
        table: &SchemaRef,
    ) -> Result<TestedPredicates> {
        let columns = predicates.iter().flat_map(collect_columns);
        let mut columns: Vec<usize> = columns.map(|column| column.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        let schema = Arc::new(table.project(&columns)?);
        let all = conjunction(predicates.iter().cloned());
        Ok(TestedPredicates {
            conjunction: reassign_expr_columns(all, &schema)?,
            predicates,
            columns,
            schema,
        })
    }
}

impl RowTest for TestedPredicates {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn test(&self, values: Vec<ArrayRef>) -> Result<BooleanBuffer, Box<dyn Error + Send + Sync>> {
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), values)?;
        let passing = self.conjunction.evaluate(&rows)?;
        let passing = passing.into_array(rows.num_rows())?;
        let passing = as_boolean_array(&passing)?;
        Ok(match passing.null_count() {
            0 => passing.values().clone(),
            _ => prep_null_mask_filter(passing).values().clone(),
        })
    }
}

/// Whether a predicate on the output of a scan, of which the first `columns` columns are the table's, can be tested.
pub(super) fn is_testable(predicate: &Arc<dyn PhysicalExpr>, columns: usize) -> bool {
    let needed = collect_columns(predicate);
    !needed.is_empty()
        && needed.iter().all(|column| column.index() < columns)
        && !is_volatile(predicate)
        && !DynamicFilterTracking::classify(predicate).contains_dynamic_filter()
}

/// The error of a scan; that of a test as it was.
pub(super) fn failed(error: ScanError) -> DataFusionError {
    match error {
        ScanError::Test(source) => match source.downcast::<DataFusionError>() {
            Ok(error) => *error,
            Err(source) => DataFusionError::External(source),
        },
        error => DataFusionError::External(Box::new(error)),
    }
}
