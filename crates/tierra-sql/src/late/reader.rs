//! Reads rows of a table by their ids: first the columns of the filters, then the other columns of the rows that pass.
//!
//! Every cell is a separate lookup, so that the engine interleaves their cache misses. A group takes less than about a
//! millisecond; callers with more rows read [`RowReader::group_rows`] at a time.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{filter, prep_null_mask_filter};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use tierra_engine::{LookupError, Projection, ReadPattern, RowId, Snapshot, row_id_field};
use tierra_interleave::{GroupReport, Lookups, Scheduling};

use crate::replicas;

/// Cells of a group: at some tens of nanoseconds each, about a millisecond.
const GROUP_CELLS: usize = 1 << 15;
/// The most rows of a group, even if they have few columns.
const GROUP_ROWS: usize = 8192;

/// The table, at one snapshot, whose rows are read.
#[derive(Clone, Debug)]
pub(crate) struct RowSource {
    pub(crate) snapshot: Snapshot,
    pub(crate) execution: Scheduling,
}

impl RowSource {
    pub(crate) fn table(&self) -> &str {
        &self.snapshot.table().spec().name
    }
}

/// The source of a column of the result.
enum Origin {
    Tested(usize),
    Late(usize),
    RowId,
}

/// Reads rows of one table.
pub(crate) struct RowReader {
    source: RowSource,
    /// The conjunction of the predicates, on `tested`.
    predicate: Option<Arc<dyn PhysicalExpr>>,
    tested: Projection,
    late: Projection,
    output: Vec<Origin>,
    schema: SchemaRef,
}

impl RowReader {
    /// Yields the columns `projection` of rows that meet all `predicates`, which refer to the table's columns. The column
    /// behind the table's last is the row id.
    pub(crate) fn new(
        source: RowSource,
        projection: &[usize],
        predicates: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Self> {
        let table = source.snapshot.table().schema();
        let columns = |mut places: Vec<usize>| {
            places.sort_unstable();
            places.dedup();
            source.snapshot.table().projection(&places)
        };
        let refers = predicates.iter().flat_map(collect_columns);
        let tested = columns(refers.map(|column| column.index()).collect());
        let row_id = table.fields().len();
        let is_late =
            |place: &usize| *place != row_id && tested.columns().binary_search(place).is_err();
        let late = columns(projection.iter().copied().filter(is_late).collect());
        let output = projection
            .iter()
            .map(|place| match tested.columns().binary_search(place) {
                _ if *place == row_id => Origin::RowId,
                Ok(at) => Origin::Tested(at),
                Err(_) => Origin::Late(late.columns().partition_point(|other| other < place)),
            })
            .collect();
        let predicate = match predicates {
            [] => None,
            all => Some(reassign_expr_columns(
                conjunction(all.to_vec()),
                tested.schema(),
            )?),
        };
        Ok(Self {
            predicate,
            tested,
            late,
            output,
            schema: schema_of(&table, projection),
            source,
        })
    }

    pub(crate) fn source(&self) -> &RowSource {
        &self.source
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Writes which replicas it reads, for EXPLAIN.
    pub(crate) fn write_replicas(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.tested.columns().iter().chain(self.late.columns());
        let columns: BTreeSet<usize> = columns.copied().collect();
        replicas::write_read(f, &self.source.snapshot, columns, ReadPattern::Random)
    }

    /// The predicate that rows must meet.
    pub(crate) fn predicate(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        self.predicate.as_ref()
    }

    /// The number of rows to read as one group.
    pub(crate) fn group_rows(&self) -> usize {
        let columns = self.tested.columns().len() + self.late.columns().len();
        (GROUP_CELLS / columns.max(1)).clamp(1, GROUP_ROWS)
    }

    /// The rows that pass, in the order of `rows`, and their indices; `None` if all pass.
    pub(crate) fn read(
        &self,
        rows: &[RowId],
        work: &mut LookupWork,
    ) -> Result<(RecordBatch, Option<BooleanArray>)> {
        let Some(predicate) = &self.predicate else {
            let late = work.reconstruct(&self.source.snapshot, rows, &self.late)?;
            return Ok((self.assemble(&[], &late, rows)?, None));
        };
        let tested = work.reconstruct(&self.source.snapshot, rows, &self.tested)?;
        let passing = predicate.evaluate(&tested)?.into_array(rows.len())?;
        let passing = as_boolean_array(&passing)?;
        let passing = match passing.null_count() {
            0 => passing.clone(),
            _ => prep_null_mask_filter(passing),
        };
        let passed = rows.iter().zip(passing.values());
        let passed: Vec<RowId> = passed
            .filter_map(|(row, passes)| passes.then_some(*row))
            .collect();
        let late = work.reconstruct(&self.source.snapshot, &passed, &self.late)?;
        let tested = tested.columns().iter();
        let tested = tested.map(|values| Ok(filter(values, &passing)?));
        let tested = tested.collect::<Result<Vec<_>>>()?;
        Ok((self.assemble(&tested, &late, &passed)?, Some(passing)))
    }

    fn assemble(
        &self,
        tested: &[ArrayRef],
        late: &RecordBatch,
        rows: &[RowId],
    ) -> Result<RecordBatch> {
        let columns = self.output.iter().map(|origin| match origin {
            Origin::RowId => Arc::new(UInt64Array::from_iter_values(
                rows.iter().map(|row| row.get()),
            )) as ArrayRef,
            Origin::Tested(at) => Arc::clone(&tested[*at]),
            Origin::Late(at) => Arc::clone(late.column(*at)),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(late.num_rows()));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(
            schema,
            columns.collect(),
            &options,
        )?)
    }
}

/// The columns `projection` of `table`, of which the one behind the last is the row id.
fn schema_of(table: &Schema, projection: &[usize]) -> SchemaRef {
    let row_id = row_id_field(table);
    let fields = projection
        .iter()
        .map(|place| match table.fields().get(*place) {
            Some(field) => Arc::clone(field),
            None => Arc::clone(&row_id),
        });
    Arc::new(Schema::new(fields.collect::<Vec<Arc<Field>>>()))
}

impl fmt::Debug for RowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowReader")
            .field("table", &self.source.table())
            .finish_non_exhaustive()
    }
}

/// The lookups of one partition of an operator, and their metrics in EXPLAIN ANALYZE.
pub(crate) struct LookupWork {
    lookups: Lookups,
    keys: Count,
    cells_near: Count,
    cells_far: Count,
    looked_up: Count,
    suspensions: Count,
    /// The part that the last two already include.
    counted: GroupReport,
}

impl LookupWork {
    pub(crate) fn new(
        execution: Scheduling,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            lookups: Lookups::new(execution),
            keys: count("keys"),
            cells_near: count("cells_near"),
            cells_far: count("cells_far"),
            looked_up: count("lookups"),
            suspensions: count("suspensions"),
            counted: GroupReport::default(),
        }
    }

    /// The row of each key; `keys` has one array per key column.
    pub(crate) fn find(
        &mut self,
        snapshot: &Snapshot,
        keys: &[ArrayRef],
    ) -> Result<Vec<Option<RowId>>> {
        let rows = snapshot.rows_by_key(keys, &mut self.lookups);
        let rows = rows.map_err(external)?;
        self.keys.add(rows.len());
        self.count();
        Ok(rows)
    }

    fn reconstruct(
        &mut self,
        snapshot: &Snapshot,
        rows: &[RowId],
        columns: &Projection,
    ) -> Result<RecordBatch> {
        let cells = snapshot.cells_by_tier(rows, columns.columns());
        add(&self.cells_near, cells.near);
        add(&self.cells_far, cells.far);
        let batch = snapshot.reconstruct(rows, columns, &mut self.lookups);
        self.count();
        batch.map_err(external)
    }

    fn count(&mut self) {
        let report = self.lookups.report();
        add(&self.looked_up, report.lookups - self.counted.lookups);
        add(
            &self.suspensions,
            report.suspensions - self.counted.suspensions,
        );
        self.counted = report;
    }
}

fn add(count: &Count, more: u64) {
    count.add(usize::try_from(more).unwrap_or(usize::MAX));
}

fn external(error: LookupError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
