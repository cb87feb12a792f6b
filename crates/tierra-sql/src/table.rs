//! A table in DataFusion's plans: the predicates it takes over, and the operators that read and write it.
//!
//! Every predicate on one column that can be evaluated on any value is declared exact. Nearly all become filters on codes.
//! The rest (a pattern on strings that have no dictionary) are evaluated by an operator directly above the scan. So the
//! declaration holds in every snapshot.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, internal_err, not_impl_err};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use tierra_column::{Encoding, LogicalType, Value};
use tierra_engine::{Snapshot, Table, row_id_field};

use crate::change::{HeldRows, HeldSink};
use crate::error::SqlError;
use crate::filter::{
    ColumnDomain, ColumnFilters, is_pushable, on_column, single_column, unqualified,
    with_stored_doubles,
};
use crate::hidden_keys;
use crate::keys::{KeyLookup, KeyPredicates, PointExec, key_tuples};
use crate::late::{RowReader, RowSource};
use crate::scan::{ScanPlan, TierraScanExec};
use crate::settings;
use crate::sink::TableSink;
use crate::view::View;

/// One table, for the duration of a statement.
pub(crate) struct TierraTable {
    table: Arc<Table>,
    /// The table's columns, and if `row_ids` the row id behind them.
    schema: SchemaRef,
    row_ids: bool,
    /// Its primary key, unless that is hidden from the planner.
    constraints: Constraints,
    hides_key: bool,
}

impl std::fmt::Debug for TierraTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TierraTable")
            .field("name", &self.table.spec().name)
            .finish_non_exhaustive()
    }
}

impl TierraTable {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let schema = table.schema();
        let key = table.spec().primary_key.clone();
        let hides_key = !key.is_empty() && hidden_keys::are_hidden();
        let constraints = match key.is_empty() || hides_key {
            true => Constraints::default(),
            false => Constraints::new_unverified(vec![Constraint::PrimaryKey(key)]),
        };
        Self {
            table,
            schema,
            row_ids: false,
            constraints,
            hides_key,
        }
    }

    /// The same with its key, if that was hidden.
    pub(crate) fn with_key(&self) -> Option<Self> {
        let key = || self.table.spec().primary_key.clone();
        self.hides_key.then(|| Self {
            table: self.table.clone(),
            schema: self.schema.clone(),
            row_ids: self.row_ids,
            constraints: Constraints::new_unverified(vec![Constraint::PrimaryKey(key())]),
            hides_key: false,
        })
    }

    /// The table with one more column, the row id: the target of a statement that changes rows.
    pub(crate) fn with_row_ids(table: Arc<Table>) -> Self {
        let mut with = Self::new(table);
        let mut fields = with.schema.fields().to_vec();
        fields.push(row_id_field(&with.schema));
        with.schema = Arc::new(Schema::new(fields));
        with.row_ids = true;
        with
    }

    /// The stored table.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The index of the row id, if there is one.
    fn row_id(&self) -> Option<usize> {
        self.row_ids.then(|| self.table.spec().columns.len())
    }

    /// The snapshot that the statement reads.
    fn snapshot(&self, state: &dyn Session) -> Result<Snapshot> {
        match state.config().get_extension::<View>() {
            Some(view) => {
                let snapshot = view.of(&self.table);
                snapshot.map_err(|error| DataFusionError::External(Box::new(SqlError::from(error))))
            }
            None => Ok(self.table.snapshot()),
        }
    }

    /// The predicates as filters on columns, and those that must be evaluated row by row.
    fn translate(
        &self,
        state: &dyn Session,
        snapshot: &Snapshot,
        predicates: &[Expr],
    ) -> Result<Predicates> {
        let schema = unqualified(&self.schema)?;
        let mut translated = Predicates::default();
        for predicate in predicates {
            let predicate = &with_stored_doubles(predicate)?;
            let physical = state.create_physical_expr(predicate.clone(), &schema)?;
            let filter = match single_column(&physical) {
                Some(column) => {
                    let domain = ColumnDomain::of(snapshot, &self.schema, column);
                    on_column(&physical, &domain)?.map(|filter| (column, filter))
                }
                None => None,
            };
            match filter {
                Some(filter) => {
                    translated.filters.push(filter);
                    translated.shown.push(physical);
                }
                None => {
                    let key = &self.table.spec().primary_key;
                    let place = translated.residual.len();
                    if let Some(keys) = key_tuples(predicate, key, &self.schema) {
                        translated.tuples.push((place, keys));
                    }
                    translated.residual.push(physical);
                }
            }
        }
        Ok(translated)
    }
}

/// The predicates of a scan, by where they are evaluated.
#[derive(Default)]
struct Predicates {
    filters: ColumnFilters,
    /// The predicates of `filters`, one by one.
    shown: Vec<Arc<dyn PhysicalExpr>>,
    residual: Vec<Arc<dyn PhysicalExpr>>,
    /// The predicates in `residual` that list whole keys: their indices there, and the keys.
    tuples: Vec<(usize, Vec<Vec<Value>>)>,
}

impl Predicates {
    /// The lookup for the predicates, if they restrict the key and a scan would cost more, and the predicates that remain for
    /// the rows found.
    fn lookup(
        &self,
        table: &Table,
        snapshot: &Snapshot,
    ) -> Option<(KeyLookup, Vec<Arc<dyn PhysicalExpr>>)> {
        let asked = KeyPredicates {
            filters: &self.filters,
            tuples: &self.tuples,
        };
        let lookup = KeyLookup::find(table, snapshot, &asked)?;
        let shown = self.shown.iter().enumerate();
        let shown = shown.filter(|(place, _)| !lookup.stands_for_filter(*place));
        let residual = self.residual.iter().enumerate();
        let residual = residual.filter(|(place, _)| !lookup.stands_for_tuples(*place));
        let others = shown.chain(residual).map(|(_, other)| Arc::clone(other));
        let others = others.collect();
        Some((lookup, others))
    }
}

#[async_trait]
impl TableProvider for TierraTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let schema = unqualified(&self.schema)?;
        let row_id = self.row_id().map(|place| self.schema.field(place).name());
        let reads_row_id = |filter: &Expr| {
            let mut columns = filter.column_refs().into_iter();
            columns.any(|column| Some(&column.name) == row_id)
        };
        let support = |filter: &&Expr| {
            let key = &self.table.spec().primary_key;
            if reads_row_id(filter) {
                TableProviderFilterPushDown::Unsupported
            } else if is_pushable(filter, &schema)
                || key_tuples(filter, key, &self.schema).is_some()
            {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // It is checked before rows are counted.
        let is_there = self.table.check_available();
        is_there.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let snapshot = self.snapshot(state)?;
        let settings = settings::of(state.config_options());
        let projection = projection
            .cloned()
            .unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let predicates = self.translate(state, &snapshot, filters)?;

        if let Some((lookup, others)) = predicates.lookup(&self.table, &snapshot) {
            let source = RowSource {
                snapshot,
                execution: settings.execution,
            };
            let reader = RowReader::new(source, &projection, &others)?;
            return Ok(Arc::new(PointExec::new(lookup, reader, settings.threads)));
        }

        let mut read = with_columns_of(&projection, &predicates.residual);
        let row_ids = self.row_id().is_some_and(|row_id| read.contains(&row_id));
        // The scan yields row ids last.
        read.retain(|column| Some(*column) != self.row_id());
        let plan = ScanPlan {
            batch_rows: rows_of_batch(&snapshot, &read, settings.batch_rows),
            table: self.table.spec().name.clone(),
            snapshot,
            schema: Arc::clone(&self.schema),
            projection: read.clone(),
            filters: predicates.filters,
            shown: predicates.shown,
            threads: settings.threads,
            execution: settings.execution,
            row_ids,
            fetch: limit.filter(|_| predicates.residual.is_empty()),
        };
        let exec = TierraScanExec::new(plan)?;
        read.extend(self.row_id().filter(|_| row_ids));
        residual(Arc::new(exec), &read, &projection, &predicates.residual)
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if insert_op != InsertOp::Append {
            return not_impl_err!("{insert_op} is not supported; use INSERT INTO");
        }
        let table = Arc::clone(&self.table);
        let sink: Arc<dyn DataSink> = match state.config().get_extension::<HeldRows>() {
            Some(held) => Arc::new(HeldSink::new(table, held)),
            None => Arc::new(TableSink::new(table)),
        };
        Ok(Arc::new(DataSinkExec::new(input, sink, None)))
    }
}

/// The most bytes of strings in a batch.
const BATCH_BYTES: u64 = 16 << 20;

/// The rows per batch of these columns: fewer than `most` if their strings are long.
fn rows_of_batch(snapshot: &Snapshot, columns: &[usize], most: usize) -> usize {
    let spec = snapshot.table().spec();
    let is_text = |column: &&usize| spec.columns[**column].ty == LogicalType::Varchar;
    let mut row_bytes = 0;
    for column in columns.iter().filter(is_text) {
        let segments = snapshot.segments().iter();
        // Values of a dictionary are not copied.
        let plain = segments.filter(|part| {
            !part
                .encoding(*column)
                .is_some_and(Encoding::uses_dictionary)
        });
        let widths = plain.map(|part| part.stored_bytes(*column) / (part.rows() as u64).max(1));
        row_bytes += widths.max().unwrap_or(0);
    }
    match usize::try_from(BATCH_BYTES / row_bytes.max(1)) {
        Ok(rows) => most.min(rows.max(1)),
        Err(_) => most,
    }
}

/// `projection`, followed by the columns that only `predicates` need.
fn with_columns_of(projection: &[usize], predicates: &[Arc<dyn PhysicalExpr>]) -> Vec<usize> {
    let mut read = projection.to_vec();
    for column in predicates.iter().flat_map(collect_columns) {
        if !read.contains(&column.index()) {
            read.push(column.index());
        }
    }
    read
}

/// `input`, which yields the columns `read`, filtered by `predicates` and cut to `projection`.
fn residual(
    input: Arc<dyn ExecutionPlan>,
    read: &[usize],
    projection: &[usize],
    predicates: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let filtered: Arc<dyn ExecutionPlan> = match predicates {
        [] => input,
        all => {
            let predicate = reassign_expr_columns(conjunction(all.to_vec()), &schema)?;
            Arc::new(FilterExec::try_new(predicate, input)?)
        }
    };
    if read == projection {
        return Ok(filtered);
    }
    let columns = projection.iter().map(|column| {
        let Some(place) = read.iter().position(|other| other == column) else {
            return internal_err!("column {column} is not read");
        };
        let name = schema.field(place).name();
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, place));
        Ok((column, name.clone()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, filtered)?))
}
