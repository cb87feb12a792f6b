//! Filters that become known while a query runs: from the build side of a hash join, or from the worst row that a top-k
//! still holds.
//!
//! The partitions of a scan share one [`DynamicFilters`]. Before each batch a partition checks whether the expressions have
//! changed. The first one that sees a change translates them; the others take the result.
//! These filters only save work: the operator that made them drops rows that they pass wrongly.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr_common::physical_expr::{
    PhysicalExpr, snapshot_generation, snapshot_physical_expr,
};
use tierra_column::{Filter, FilterKind, Value};
use tierra_engine::Snapshot;

use super::{ColumnDomain, ColumnFilters, build_side, on_column, single_column};

/// The dynamic filters of one scan.
#[derive(Debug, Default)]
pub(crate) struct DynamicFilters {
    /// Each with its columns as indices of the table.
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    current: Mutex<Current>,
}

#[derive(Debug, Default, Clone)]
struct Current {
    generation: u64,
    version: u64,
    filters: Arc<ColumnFilters>,
}

impl DynamicFilters {
    pub(crate) fn new(expressions: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self {
            expressions,
            current: Mutex::default(),
        }
    }

    pub(crate) fn expressions(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.expressions
    }

    /// The filters known so far, and a version that grows with every change.
    pub(crate) fn known(
        &self,
        snapshot: &Snapshot,
        schema: &SchemaRef,
    ) -> Result<(u64, Arc<ColumnFilters>)> {
        if self.expressions.is_empty() {
            return Ok((0, Arc::default()));
        }
        let generation = self
            .expressions
            .iter()
            .map(snapshot_generation)
            .fold(0, u64::wrapping_add);
        // A partition that panicked left a complete filter.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.generation != generation {
            current.filters = Arc::new(self.translate(snapshot, schema)?);
            current.generation = generation;
            current.version += 1;
        }
        Ok((current.version, Arc::clone(&current.filters)))
    }

    fn translate(&self, snapshot: &Snapshot, schema: &SchemaRef) -> Result<ColumnFilters> {
        let mut filters: ColumnFilters = Vec::new();
        for expression in &self.expressions {
            let expression = snapshot_physical_expr(Arc::clone(expression))?;
            for conjunct in split_conjunction(&expression) {
                if let Some((column, filter)) = build_side::of_lists(conjunct, schema) {
                    add(&mut filters, column, filter);
                    continue;
                }
                let Some(column) = single_column(conjunct) else {
                    continue;
                };
                let mut domain = ColumnDomain::of(snapshot, schema, column);
                // The bounds of a build side precede its lookup and narrow the values to evaluate.
                let narrower = filters.iter().filter(|(other, _)| *other == column);
                domain.bounds =
                    narrower.fold(domain.bounds, |bounds, (_, filter)| narrow(bounds, filter));
                if let Some(filter) = on_column(conjunct, &domain)? {
                    add(&mut filters, column, filter);
                }
            }
        }
        Ok(filters)
    }
}

/// Adds a filter. It is merged with the column's filter if one filter can express both.
fn add(filters: &mut ColumnFilters, column: usize, filter: Filter) {
    if let Some((_, known)) = filters.iter_mut().find(|(other, _)| *other == column)
        && let Some(both) = known.clone().and(filter.clone())
    {
        *known = both;
        return;
    }
    filters.push((column, filter));
}

/// The part of `bounds` that `filter` leaves.
fn narrow(bounds: Option<(Value, Value)>, filter: &Filter) -> Option<(Value, Value)> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let (mut low, mut high) = bounds?;
    if let FilterKind::Ranges(ranges) = &filter.kind
        && let (Some(first), Some(last)) = (ranges.first(), ranges.last())
    {
        // An excluded end is kept: evaluating one more value changes nothing.
        match &first.0 {
            Included(value) | Excluded(value) if *value > low => low = value.clone(),
            Included(_) | Excluded(_) | Unbounded => {}
        }
        match &last.1 {
            Included(value) | Excluded(value) if *value < high => high = value.clone(),
            Included(_) | Excluded(_) | Unbounded => {}
        }
    }
    Some((low, high))
}
