//! Checks that incoming batches fit a table, and converts them to one form.
//!
//! Invariant: a batch that [`Input::accept`] returned has exactly the table's arrow types, no NULL in a NOT NULL column, no
//! DECIMAL with more digits than its column, and each DOUBLE in its [canonical](canonical_double) form. Later steps do not check
//! again.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, SchemaRef};
use arrow::error::ArrowError;

use crate::error::InputError;
use crate::spec::TableSpec;

/// Checks batches against one table.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    spec: Arc<TableSpec>,
    schema: SchemaRef,
}

impl Input {
    pub(crate) fn new(spec: Arc<TableSpec>, schema: SchemaRef) -> Self {
        Self { spec, schema }
    }

    /// The batch in the table's schema, or the first rule that it breaks.
    pub(crate) fn accept(&self, batch: &RecordBatch) -> Result<RecordBatch, InputError> {
        let table = || self.spec.name.clone();
        if batch.num_columns() != self.spec.columns.len() {
            return Err(InputError::ColumnCount {
                table: table(),
                expected: self.spec.columns.len(),
                found: batch.num_columns(),
            });
        }
        let columns = (0..batch.num_columns())
            .map(|at| self.accept_column(at, batch.column(at), 0))
            .collect::<Result<Vec<_>, _>>()?;
        self.batch(columns)
    }

    /// Joins accepted columns to a batch.
    pub(crate) fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch, InputError> {
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|source| self.arrow(source))
    }

    /// Joins accepted arrays of one column.
    pub(crate) fn joined(&self, arrays: &[ArrayRef]) -> Result<ArrayRef, InputError> {
        match arrays {
            [array] => Ok(array.clone()),
            _ => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
                concat(&arrays).map_err(|source| self.arrow(source))
            }
        }
    }

    fn arrow(&self, source: ArrowError) -> InputError {
        InputError::Arrow {
            table: self.spec.name.clone(),
            source,
        }
    }

    /// Checks and converts one column's values. `first_row` is the number of the first one in error messages.
    pub(crate) fn accept_column(
        &self,
        at: usize,
        values: &ArrayRef,
        first_row: usize,
    ) -> Result<ArrayRef, InputError> {
        let column = &self.spec.columns[at];
        let expected = self.schema.field(at).data_type();
        let values = if values.data_type() == expected {
            values.clone()
        } else if *expected == DataType::Utf8View && is_text(values.data_type()) {
            cast(values, expected).map_err(|source| self.arrow(source))?
        } else {
            return Err(InputError::Type {
                table: self.spec.name.clone(),
                column: column.name.clone(),
                expected: column.ty.to_string(),
                found: values.data_type().clone(),
            });
        };
        if !column.nullable
            && let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0)
        {
            let row = nulls.iter().position(|valid| !valid).unwrap_or(0);
            return Err(InputError::Null {
                table: self.spec.name.clone(),
                column: column.name.clone(),
                row: first_row + row,
            });
        }
        if let DataType::Decimal128(precision, _) = *expected {
            self.check_digits(at, &values, precision, first_row)?;
        }
        Ok(canonical(values))
    }

    /// Checks that a column has as many values as rows were asked for.
    pub(crate) fn check_rows(
        &self,
        at: usize,
        expected: u64,
        found: u64,
    ) -> Result<(), InputError> {
        if found == expected {
            return Ok(());
        }
        Err(InputError::RowCount {
            table: self.spec.name.clone(),
            column: self.spec.columns[at].name.clone(),
            expected,
            found,
        })
    }

    fn check_digits(
        &self,
        at: usize,
        values: &ArrayRef,
        precision: u8,
        first_row: usize,
    ) -> Result<(), InputError> {
        let limit = 10_u128.pow(u32::from(precision));
        let decimals = values.as_primitive::<Decimal128Type>();
        // Slots under a NULL hold arbitrary values. The bare values are checked first, which compiles to one pass; rows are
        // checked only if that fails.
        if decimals
            .values()
            .iter()
            .all(|value| value.unsigned_abs() < limit)
        {
            return Ok(());
        }
        match (0..decimals.len())
            .find(|row| decimals.is_valid(*row) && decimals.value(*row).unsigned_abs() >= limit)
        {
            None => Ok(()),
            Some(row) => Err(InputError::DecimalOverflow {
                table: self.spec.name.clone(),
                column: self.spec.columns[at].name.clone(),
                expected: self.spec.columns[at].ty.to_string(),
                row: first_row + row,
                value: decimal_text(decimals.value(row), decimals.scale()),
            }),
        }
    }
}

/// The one form in which a DOUBLE is stored and looked up: -0.0 becomes 0.0, and every NaN becomes one NaN, which is greater than
/// all numbers. Values that SQL calls equal thus have the same bits, so keys, groups, joins and packed codes agree.
pub fn canonical_double(value: f64) -> f64 {
    if value.is_nan() {
        f64::from_bits(0x7ff8_0000_0000_0000)
    } else {
        // Adding zero changes no number except -0.0.
        value + 0.0
    }
}

/// The column with every DOUBLE in its canonical form. Nearly all columns are canonical already: one pass without branches tells.
pub(crate) fn canonical(values: ArrayRef) -> ArrayRef {
    let Some(doubles) = values.as_primitive_opt::<Float64Type>() else {
        return values;
    };
    let differs = |value: &f64| canonical_double(*value).to_bits() != value.to_bits();
    let any = doubles.values().iter();
    if !any.fold(false, |any, value| any | differs(value)) {
        return values;
    }
    Arc::new(doubles.unary::<_, Float64Type>(canonical_double))
}

/// The number with all its digits: arrow's own text stops at the type's precision.
fn decimal_text(value: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// Whether the type becomes VARCHAR without loss.
fn is_text(found: &DataType) -> bool {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Float64Array;

    #[test]
    fn equal_doubles_have_equal_bits() {
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(1.5)]));
        let zeros = canonical(zeros);
        assert!(zeros.is_null(1));
        let zeros = zeros.as_primitive::<Float64Type>();
        assert_eq!(zeros.value(0).to_bits(), 0);
        assert_eq!(zeros.value(2), 1.5);
        let payload = f64::from_bits(0x7ff8_0000_0000_0001);
        for nan in [f64::NAN, -f64::NAN, payload] {
            let bits = canonical_double(nan).to_bits();
            assert_eq!(bits, 0x7ff8_0000_0000_0000);
        }
        for kept in [
            f64::INFINITY,
            f64::NEG_INFINITY,
            5e-324,
            -5e-324,
            f64::MAX,
            f64::MIN,
        ] {
            assert_eq!(canonical_double(kept).to_bits(), kept.to_bits());
        }
    }
}
