//! Rows that are bound to a statement: each is the arguments of one run.

use adbc_core::error::{Error, Result, Status};
use arrow::array::{
    Array, ArrayRef, AsArray, Datum, RecordBatch, RecordBatchReader, Scalar, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::error;

/// Bound rows, of which some were taken.
pub(crate) struct Bound {
    reader: Box<dyn RecordBatchReader + Send>,
    batch: Option<RecordBatch>,
    /// The next row of `batch`.
    row: usize,
    /// Rows taken.
    taken: u64,
}

/// An argument of a statement.
pub(crate) enum Argument {
    Value(Scalar<ArrayRef>),
    /// For `= ANY($1)`.
    List(ArrayRef),
}

impl Argument {
    pub(crate) fn as_datum(&self) -> &dyn Datum {
        match self {
            Self::Value(value) => value,
            Self::List(values) => values,
        }
    }
}

impl Bound {
    /// `reader`'s rows, which were checked.
    pub(crate) fn new(reader: Box<dyn RecordBatchReader + Send>) -> Self {
        Self {
            reader,
            batch: None,
            row: 0,
            taken: 0,
        }
    }

    /// All rows, for a table.
    pub(crate) fn into_reader(self) -> Box<dyn RecordBatchReader + Send> {
        self.reader
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    /// Rows taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// The next row; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<Argument>>> {
        loop {
            if let Some(batch) = self
                .batch
                .as_ref()
                .filter(|batch| self.row < batch.num_rows())
            {
                let arguments = batch.columns().iter();
                let arguments = arguments.map(|column| argument(column, self.row));
                let arguments = arguments.collect::<std::result::Result<_, _>>();
                self.row += 1;
                self.taken += 1;
                return arguments.map(Some).map_err(|error| of_arrow(&error));
            }
            match self.reader.next() {
                None => return Ok(None),
                Some(batch) => self.batch = Some(batch.map_err(|error| of_arrow(&error))?),
            }
            self.row = 0;
        }
    }
}

/// The types of columns as those of parameters; `None` where the value says more.
pub(crate) fn types(schema: &Schema) -> Vec<Option<DataType>> {
    let types = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    });
    let types = types.map(|ty| (!ty.is_nested() && ty != DataType::Null).then_some(ty));
    types.collect()
}

fn argument(column: &ArrayRef, row: usize) -> std::result::Result<Argument, ArrowError> {
    if column.is_null(row) {
        let null = match column.data_type() {
            ty if ty.is_nested() => new_null_array(&DataType::Null, 1),
            DataType::Dictionary(_, value) => new_null_array(value, 1),
            ty => new_null_array(ty, 1),
        };
        return Ok(Argument::Value(Scalar::new(null)));
    }
    Ok(match column.data_type() {
        DataType::List(_) => Argument::List(column.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Argument::List(column.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Argument::List(column.as_fixed_size_list().value(row)),
        DataType::ListView(_) => Argument::List(column.as_list_view::<i32>().value(row)),
        DataType::LargeListView(_) => Argument::List(column.as_list_view::<i64>().value(row)),
        DataType::Dictionary(_, value) => {
            Argument::Value(Scalar::new(cast(&column.slice(row, 1), value)?))
        }
        _ => Argument::Value(Scalar::new(column.slice(row, 1))),
    })
}

/// The error of the producer of the rows.
pub(crate) fn of_arrow(error: &ArrowError) -> Error {
    error::new(
        Status::InvalidData,
        "22000",
        format!("the bound rows: {error}"),
    )
}
