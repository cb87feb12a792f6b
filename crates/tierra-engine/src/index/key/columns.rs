//! The columns of a primary key, and the normalized keys of their values.

use arrow::array::{ArrayRef, RecordBatch};
use tierra_column::{Cell, LogicalType, Physical, Value};
use tierra_memory::MemoryGate;

use super::normalized::{mix, normalize_column};
use crate::cells::{cell_of, value_of};
use crate::spec::TableSpec;

/// The primary key of a table.
#[derive(Debug)]
pub(crate) struct KeyColumns {
    columns: Vec<usize>,
    types: Vec<LogicalType>,
    /// For lookups of keys.
    gate: MemoryGate,
}

impl KeyColumns {
    /// `None` without a primary key. `gate` is used for its lookups.
    pub(crate) fn of(spec: &TableSpec, gate: MemoryGate) -> Option<Self> {
        let columns = spec.primary_key.clone();
        let types = columns
            .iter()
            .map(|column| spec.columns[*column].ty)
            .collect();
        (!columns.is_empty()).then_some(Self {
            columns,
            types,
            gate,
        })
    }

    pub(crate) fn types(&self) -> &[LogicalType] {
        &self.types
    }

    /// Whether equal normalized keys mean equal keys.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(&self.types[..], [ty] if ty.physical() == Physical::Ordinal)
    }

    /// A batch's key columns.
    pub(crate) fn arrays<'a>(&self, batch: &'a RecordBatch) -> Vec<&'a ArrayRef> {
        self.columns
            .iter()
            .map(|column| batch.column(*column))
            .collect()
    }

    /// The columns of the key.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The normalized keys of a batch's keys, row by row.
    pub(crate) fn normalize_batch(&self, batch: &RecordBatch) -> Vec<u64> {
        self.normalize(&self.arrays(batch))
    }

    /// The normalized keys of keys given by column. Those of NULLs are meaningless.
    pub(crate) fn normalize(&self, columns: &[&ArrayRef]) -> Vec<u64> {
        let mut normalized_keys = normalize_column(self.types[0], columns[0]);
        for (ty, values) in self.types.iter().zip(columns).skip(1) {
            for (normalized_key, more) in normalized_keys
                .iter_mut()
                .zip(normalize_column(*ty, values))
            {
                *normalized_key = mix(*normalized_key, more);
            }
        }
        normalized_keys
    }

    /// The gate for lookups of keys in near memory.
    pub(crate) fn gate(&self) -> &MemoryGate {
        &self.gate
    }

    pub(crate) fn cells<'a>(&self, arrays: &[&'a ArrayRef], row: usize) -> Vec<Cell<'a>> {
        self.types
            .iter()
            .zip(arrays)
            .map(|(ty, values)| cell_of(*ty, values, row))
            .collect()
    }

    /// The key in a row of arrays without NULLs in that row.
    pub(crate) fn values(&self, arrays: &[&ArrayRef], row: usize) -> Vec<Value> {
        self.cells(arrays, row)
            .into_iter()
            .filter_map(|cell| value_of(cell).expect("arrays hold strings as they are"))
            .collect()
    }
}
