//! The wanted columns of rows, and the schema of their batches: checked once, for any number of rows.
//!
//! ```text
//! values of n rows   | column 0, n values | column 1, n values | ...
//! offset of column   n * offset            a multiple of the width of its values, for every n
//! ```

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use tierra_column::LogicalType;

use super::width_bytes;
use crate::table::Table;

/// Columns of a table, and the schema of the batches that are made of them. Cloning costs a reference count.
///
/// Made by [`Table::projection`] or [`Projection::new`]; keep it while rows of it are read.
#[derive(Clone, Debug)]
pub struct Projection(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    columns: Vec<usize>,
    schema: SchemaRef,
    places: Vec<CellPlace>,
    row_bytes: usize,
}

/// The position of a column's values among those of all columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellPlace {
    pub(super) ty: LogicalType,
    /// For a single row; multiply by the number of rows.
    pub(super) offset_bytes: usize,
}

impl Projection {
    /// The `columns` of `table` as batches of `schema`, whose names and metadata are free.
    ///
    /// # Errors
    /// [`ArrowError::InvalidArgumentError`] if a column does not exist, or its type is not that of its field.
    pub fn new(
        table: &Table,
        columns: Vec<usize>,
        schema: SchemaRef,
    ) -> Result<Projection, ArrowError> {
        let (name, types) = (&table.spec().name, table.types());
        let types: Option<Vec<_>> = columns.iter().map(|at| types.get(*at).copied()).collect();
        let types = types.ok_or_else(|| {
            let (all, table) = (table.types().len(), name);
            let why = format!("table {table} has {all} columns, wanted are {columns:?}");
            ArrowError::InvalidArgumentError(why)
        })?;
        let fields = schema.fields();
        if fields.len() != types.len() {
            let (found, wanted) = (fields.len(), types.len());
            let why = format!("a schema of {found} fields for {wanted} columns of table {name}");
            return Err(ArrowError::InvalidArgumentError(why));
        }
        for (field, ty) in fields.iter().zip(&types) {
            let (as_field, found) = (field.name(), field.data_type());
            if *found != ty.arrow() {
                let why = format!("{as_field} of table {name} is {ty}, which is not {found}");
                return Err(ArrowError::InvalidArgumentError(why));
            }
        }
        Ok(Self::of_types(columns, &types, schema))
    }

    /// `schema` must be that of `types`.
    pub(super) fn of_types(
        columns: Vec<usize>,
        types: &[LogicalType],
        schema: SchemaRef,
    ) -> Projection {
        let mut row_bytes = 0;
        let place = |ty: &LogicalType| {
            let offset_bytes = usize::next_multiple_of(row_bytes, width_bytes(*ty));
            row_bytes = offset_bytes + width_bytes(*ty);
            CellPlace {
                ty: *ty,
                offset_bytes,
            }
        };
        let places = types.iter().map(place).collect();
        Projection(Arc::new(Parts {
            columns,
            schema,
            places,
            row_bytes,
        }))
    }

    /// The columns, in the order of the batches.
    pub fn columns(&self) -> &[usize] {
        &self.0.columns
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    pub(super) fn places(&self) -> &[CellPlace] {
        &self.0.places
    }

    /// Bytes of a row's values.
    pub(super) fn row_bytes(&self) -> usize {
        self.0.row_bytes
    }
}

impl Table {
    /// Some of the columns, by the names in the table.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn projection(&self, columns: &[usize]) -> Projection {
        let schema = self.schema();
        let fields = columns
            .iter()
            .map(|column| schema.fields()[*column].clone());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let types: Vec<_> = columns.iter().map(|column| self.types()[*column]).collect();
        Projection::of_types(columns.to_vec(), &types, schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_aligned_for_any_number_of_rows_and_do_not_overlap() {
        let types = [
            LogicalType::Boolean,
            LogicalType::Varchar,
            LogicalType::Integer,
            LogicalType::Boolean,
            LogicalType::BigInt,
        ];
        let it = Projection::of_types(vec![0; 5], &types, Arc::new(Schema::empty()));
        for rows in [1, 2, 3, 7, 1000] {
            let mut end = 0;
            for CellPlace { ty, offset_bytes } in it.places() {
                let offset = offset_bytes * rows;
                assert!(offset >= end && offset.is_multiple_of(width_bytes(*ty)));
                end = offset + rows * width_bytes(*ty);
            }
            assert!(end <= it.row_bytes() * rows);
        }
    }
}
