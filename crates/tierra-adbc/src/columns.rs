//! Which column of a table each column of the rows for it goes into.
//!
//! Invariant: each goes into one, and each of the table has one. A value that went nowhere would be lost without a word.

use adbc_core::error::{Result, Status};
use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use tierra::sql::load::is_assigned;

use crate::error;

/// For each column of the table, its place among the columns of the rows: the one with exactly its name, else one whose name differs
/// only in case. Fails unless each column of the rows goes into one of the table and the other way round, with a type that INSERT
/// would store in it: a value would be lost.
pub(crate) fn places(name: &str, table: &Schema, rows: &Schema) -> Result<Vec<usize>> {
    let refuse = |code: &str, why: String| {
        Err(error::new(
            Status::AlreadyExists,
            code,
            format!("table '{name}' is there, and {why}"),
        ))
    };
    let mut free: Vec<usize> = (0..rows.fields().len()).collect();
    let mut places: Vec<Option<usize>> = vec![None; table.fields().len()];
    for (place, column) in places.iter_mut().zip(table.fields()) {
        let found = free
            .iter()
            .position(|row| rows.field(*row).name() == column.name());
        *place = found.map(|found| free.remove(found));
    }
    for (place, column) in places.iter_mut().zip(table.fields()) {
        let is_it = |row: &usize| rows.field(*row).name().eq_ignore_ascii_case(column.name());
        if place.is_some() {
            continue;
        }
        if free.iter().filter(|row| is_it(row)).nth(1).is_some() {
            let why = format!(
                "the rows have several columns for its column '{}': name them as it does",
                column.name()
            );
            return refuse("42702", why);
        }
        let found = free.iter().position(is_it);
        *place = found.map(|found| free.remove(found));
    }
    let names = |schema: &Schema| {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    if let Some(extra) = free.first() {
        let why = format!(
            "column '{}' of the rows goes into none of its columns, which are {}",
            rows.field(*extra).name(),
            names(table)
        );
        return refuse("42703", why);
    }
    let mut found = Vec::with_capacity(places.len());
    for (place, column) in places.into_iter().zip(table.fields()) {
        let Some(place) = place else {
            let why = format!(
                "the rows have no column '{}' for it; their columns are {}",
                column.name(),
                names(rows)
            );
            return refuse("42703", why);
        };
        let (from, to) = (rows.field(place).data_type(), column.data_type());
        if !is_assigned(from, to) {
            let why = format!(
                "its column '{}' takes no values of Arrow's type {from}: cast them",
                column.name()
            );
            return refuse("42804", why);
        }
        found.push(place);
    }
    Ok(found)
}

/// Rows under the names of the table's columns, which a load looks for.
pub(crate) struct Renamed {
    rows: Box<dyn RecordBatchReader + Send>,
    schema: SchemaRef,
}

impl Renamed {
    pub(crate) fn new(
        rows: Box<dyn RecordBatchReader + Send>,
        table: &Schema,
        places: &[usize],
    ) -> Self {
        let given = rows.schema();
        let mut fields: Vec<Field> = given
            .fields()
            .iter()
            .map(|field| field.as_ref().clone())
            .collect();
        for (place, column) in places.iter().zip(table.fields()) {
            fields[*place].set_name(column.name().clone());
        }
        Self {
            rows,
            schema: Schema::new(fields).into(),
        }
    }
}

impl Iterator for Renamed {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rows.next()?;
        Some(next.and_then(|batch| {
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let schema = SchemaRef::clone(&self.schema);
            RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)
        }))
    }
}

impl RecordBatchReader for Renamed {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    fn schema(columns: &[(&str, DataType)]) -> Schema {
        let fields = columns.iter();
        let fields = fields.map(|(name, ty)| Field::new(*name, ty.clone(), true));
        Schema::new(fields.collect::<Vec<_>>())
    }

    fn of_numbers(names: &[&str]) -> Schema {
        let columns: Vec<_> = names.iter().map(|name| (*name, DataType::Int64)).collect();
        schema(&columns)
    }

    #[test]
    fn each_column_has_one_place() {
        for (table, rows, expected) in [
            (&["a", "b"][..], &["B", "a"][..], &[1, 0][..]),
            (&["a", "A"], &["A", "a"], &[1, 0]),
            (&["A", "a"], &["a", "A"], &[1, 0]),
            (&["a"], &["A"], &[0]),
            // The exact name is taken wherever it is.
            (&["A", "b", "a"], &["b", "a", "A"], &[2, 0, 1]),
        ] {
            let found = places("t", &of_numbers(table), &of_numbers(rows)).unwrap();
            assert_eq!(found, expected, "{table:?} {rows:?}");
        }
        for (table, rows, word) in [
            (&["a"][..], &["a", "A"][..], "column 'A' of the rows"),
            (&["a"], &["A", "a"], "column 'A' of the rows"),
            (&["a"], &["a", "a"], "column 'a' of the rows"),
            (&["a"], &["a", "b"], "column 'b' of the rows"),
            (&["a", "A"], &["a"], "no column 'A'"),
            (&["a", "b"], &["a"], "no column 'b'"),
            (&["aB", "Ab"], &["ab", "AB"], "several columns"),
        ] {
            let error = places("t", &of_numbers(table), &of_numbers(rows)).unwrap_err();
            assert_eq!(error.status, Status::AlreadyExists);
            assert!(error.message.contains(word), "{error}");
        }
    }

    #[test]
    fn types_are_those_that_insert_takes() {
        let table = of_numbers(&["a"]);
        places("t", &table, &schema(&[("a", DataType::Float64)])).unwrap();
        let error = places("t", &table, &schema(&[("a", DataType::Utf8)])).unwrap_err();
        assert_eq!(error.status, Status::AlreadyExists);
        assert!(error.message.contains("'a'"), "{error}");
    }
}
