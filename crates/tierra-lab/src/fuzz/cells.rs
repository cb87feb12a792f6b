//! Answers in a form common to all engines: cells without details of types, rows in any order.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The largest difference of two DOUBLEs, relative to the larger one: sums depend on the order of rows.
const TOLERANCE: f64 = 1e-9;

/// One value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// NULL.
    Null,
    /// A number with all its digits, without trailing zeros after the point; TRUE is 1.
    Exact(String),
    /// A DOUBLE.
    Double(f64),
    /// A text; a date as `YYYY-MM-DD`, a timestamp with six digits of a second's fraction.
    Text(String),
}

/// The rows of an answer.
pub type Rows = Vec<Vec<Cell>>;

impl Cell {
    /// A number from its digits.
    pub fn exact(digits: &str) -> Cell {
        let digits = match digits.split_once('.') {
            Some(_) => digits.trim_end_matches('0').trim_end_matches('.'),
            None => digits,
        };
        Cell::Exact(if digits == "-0" { "0" } else { digits }.to_owned())
    }

    /// The key by which cells are sorted; equal cells of an answer share it.
    fn key(&self) -> Key<'_> {
        let number = |x: f64| {
            let bits = x.to_bits() as i64;
            // As `f64::total_cmp` orders them.
            bits ^ (((bits >> 63) as u64) >> 1) as i64
        };
        match self {
            Cell::Null => (0, 0, ""),
            Cell::Double(_) => (1, self.number().map_or(0, number), ""),
            Cell::Exact(digits) => (1, self.number().map_or(0, number), digits),
            Cell::Text(text) => (2, 0, text),
        }
    }

    /// As a DOUBLE with one NaN and one zero.
    fn number(&self) -> Option<f64> {
        match self {
            Cell::Double(x) if x.is_nan() => Some(f64::NAN),
            Cell::Double(x) => Some(x + 0.0),
            Cell::Exact(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Whether it is the same value, up to differences between engines.
    fn agrees_with(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Exact(one), Cell::Exact(another)) => one == another,
            (Cell::Double(_), Cell::Double(_) | Cell::Exact(_))
            | (Cell::Exact(_), Cell::Double(_)) => match (self.number(), other.number()) {
                (Some(one), Some(another)) => {
                    one == another
                        || (one.is_nan() && another.is_nan())
                        || (one - another).abs() <= TOLERANCE * one.abs().max(another.abs())
                }
                _ => false,
            },
            _ => self == other,
        }
    }

    /// The cell in a report.
    pub fn shown(&self) -> String {
        match self {
            Cell::Null => "NULL".to_owned(),
            Cell::Exact(digits) => digits.clone(),
            Cell::Double(x) => format!("{x:?}"),
            Cell::Text(text) => format!("'{text}'"),
        }
    }
}

/// The rows of some batches.
pub(crate) fn rows_of(batches: &[RecordBatch]) -> Result<Rows, ArrowError> {
    let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.6f"));
    let mut rows = Vec::new();
    for batch in batches {
        let start = rows.len();
        rows.resize_with(start + batch.num_rows(), Vec::new);
        for column in batch.columns() {
            let text = ArrayFormatter::try_new(column, &options)?;
            for row in 0..batch.num_rows() {
                rows[start + row].push(cell(column, &text, row));
            }
        }
    }
    Ok(rows)
}

fn cell(column: &dyn Array, text: &ArrayFormatter<'_>, row: usize) -> Cell {
    if column.is_null(row) || column.data_type() == &DataType::Null {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Boolean => Cell::exact(if column.as_boolean().value(row) {
            "1"
        } else {
            "0"
        }),
        DataType::Float64 => Cell::Double(column.as_primitive::<Float64Type>().value(row)),
        ty if ty.is_numeric() => Cell::exact(&text.value(row).to_string()),
        _ => Cell::Text(text.value(row).to_string()),
    }
}

/// Kind, number, text.
type Key<'a> = (u8, i64, &'a str);

/// The rows with their keys, sorted on request.
fn keyed(rows: &Rows, sorted: bool) -> Vec<(Vec<Key<'_>>, &[Cell])> {
    let mut keyed: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.iter().map(Cell::key).collect::<Vec<_>>(),
                row.as_slice(),
            )
        })
        .collect();
    if sorted {
        keyed.sort_by(|(one, _), (another, _)| one.cmp(another));
    }
    keyed
}

/// The first difference between two answers, `None` where they agree.
pub(crate) fn difference(left: &Rows, right: &Rows, ordered: bool) -> Option<String> {
    if left.len() != right.len() {
        return Some(format!("{} rows against {}", left.len(), right.len()));
    }
    let (left, right) = (keyed(left, !ordered), keyed(right, !ordered));
    let agree = |one: &[Cell], another: &[Cell]| {
        one.len() == another.len()
            && one
                .iter()
                .zip(another)
                .all(|(one, another)| one.agrees_with(another))
    };
    let shown = |row: &[Cell]| row.iter().map(Cell::shown).collect::<Vec<_>>().join(" | ");
    let mut pairs = left.iter().zip(&right);
    let ((_, one), (_, another)) = pairs.find(|((_, one), (_, another))| !agree(one, another))?;
    Some(format!("({}) against ({})", shown(one), shown(another)))
}

/// The rows without duplicates.
pub(crate) fn without_repeats(rows: Rows) -> Rows {
    let mut rows = keyed(&rows, true);
    rows.dedup_by(|(one, _), (another, _)| one == another);
    rows.into_iter().map(|(_, row)| row.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digit_is_a_difference_and_a_sums_last_bit_is_not() {
        let rows = |cell: Cell| vec![vec![Cell::Null, cell]];
        let differ = |one, another| difference(&rows(one), &rows(another), false).is_some();
        assert!(differ(Cell::exact("1.50"), Cell::exact("1.51")));
        assert!(differ(
            Cell::exact("9007199254740993"),
            Cell::exact("9007199254740992")
        ));
        assert!(!differ(Cell::exact("1.50"), Cell::exact("1.5")));
        assert!(!differ(Cell::Double(0.1 + 0.2), Cell::Double(0.3)));
        assert!(!differ(Cell::Double(f64::NAN), Cell::Double(-f64::NAN)));
        assert!(differ(Cell::Double(1.0), Cell::Null));
        assert!(differ(Cell::Text("1".to_owned()), Cell::exact("1")));
    }

    #[test]
    fn rows_come_in_any_order_unless_it_was_asked_for() {
        let row = |digits: &str| vec![Cell::exact(digits)];
        let (one, another) = (vec![row("10"), row("9")], vec![row("9"), row("10")]);
        assert_eq!(difference(&one, &another, false), None);
        assert!(difference(&one, &another, true).is_some());
        assert!(difference(&one, &vec![row("9"), row("9")], false).is_some());
    }
}
