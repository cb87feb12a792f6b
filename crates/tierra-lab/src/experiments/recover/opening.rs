//! From a kill to the first answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use tierra_column::{Filter, Value, ordinal};
use tierra_engine::{Database, RowId, ScanSpec, Snapshot};
use tierra_interleave::{Lookups, Scheduling};

use super::super::database::start;
use super::CHILD;
use super::fill::{APPEND_ROWS, Filled, Shape, kill_when_filled, number, options, rows};
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::row::Row;

const WHO: &str = "a database after a kill";

/// The first question, and whether it needs a key.
pub(super) const ANSWERS: [(&str, bool); 3] = [
    ("a row by its key", true),
    ("a row by a condition", false),
    ("an append", false),
];

/// Makes a database in a child, kills the child, and opens the database `rounds` times for each kind of answer.
pub(super) fn measure(
    lab: &Lab,
    shape: Shape,
    mebibytes: u64,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let folder = lab.folder_in_memory()?;
    let child = start(CHILD, folder.path(), shape.number(mebibytes))?;
    let mut filled = kill_when_filled(child)?;
    let db = folder.path().join("db");
    let mut samples = [const { (Vec::new(), Vec::new()) }; ANSWERS.len()];
    for _ in 0..rounds {
        for (which, (_, needs_key)) in ANSWERS.iter().enumerate() {
            if *needs_key && !shape.key {
                continue;
            }
            let (opened_ns, until_ns) = first_answer(&db, which, shape, &mut filled)?;
            samples[which].0.push(opened_ns);
            samples[which].1.push(until_ns);
        }
    }
    let rows = ANSWERS
        .iter()
        .zip(samples)
        .filter_map(|((name, _), samples)| {
            let (opened, until) = samples;
            let row = Row::new()
                .text("measured", "first answer")
                .text("size", format!("{mebibytes} MiB, {}", shape.name()))
                .text(
                    "size_mib",
                    if shape == Shape::ALL {
                        mebibytes.to_string()
                    } else {
                        String::new()
                    },
                )
                .text("shape", shape.name())
                .text("answer", *name)
                .count("rows", filled.rows as u64)
                .samples("opened", "ns", opened.clone())
                .samples("until", "ns", until);
            (!opened.is_empty()).then_some(row)
        });
    Ok(rows.collect())
}

/// Opens the database and asks. Returns the time of opening and the time to the answer, which is checked.
fn first_answer(
    db: &Path,
    which: usize,
    shape: Shape,
    filled: &mut Filled,
) -> Result<(u64, u64), LabError> {
    let began = Instant::now();
    let database = Database::open(db, &options()).by(WHO, "opening it")?;
    let opened_ns = began.elapsed().as_nanos() as u64;
    let table = database.table("t");
    let table = table.ok_or("it is gone").by(WHO, "finding its table")?;
    let snapshot = table.snapshot();
    let (id, before) = (filled.loaded / 3, snapshot.rows() as i64);
    let (found, expected) = match which {
        0 => (by_key(&snapshot, id)?, number(id, 0)),
        1 => (by_condition(&snapshot, id)?, number(id, 0)),
        _ => {
            let row = rows(&table, shape, before..before + 1);
            table.append(&[row]).by(WHO, "appending to it")?;
            (table.snapshot().rows() as i64, before + 1)
        }
    };
    let until_ns = began.elapsed().as_nanos() as u64;
    // Acknowledged rows are present; the last append may have completed without its report.
    let is_kept = (filled.rows..=filled.rows + APPEND_ROWS).contains(&before);
    if found != expected || !is_kept {
        return Err(LabError::AnswersDiffer {
            what: ANSWERS[which].0.to_owned(),
            left: format!("{found} was found, in {before} rows"),
            right: format!("{expected} was written, in {} rows", filled.rows),
            detail: "after a kill".to_owned(),
        });
    }
    filled.rows = table.snapshot().rows() as i64;
    Ok((opened_ns, until_ns))
}

fn by_key(snapshot: &Snapshot, id: i64) -> Result<i64, LabError> {
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![id]));
    let mut lookups = Lookups::new(Scheduling::Auto);
    let found = snapshot.rows_by_key(&[keys], &mut lookups);
    let found = found.by(WHO, "looking a key up")?;
    let rows: Vec<RowId> = found.into_iter().flatten().collect();
    let row = snapshot.reconstruct(&rows, &snapshot.table().projection(&[1]), &mut lookups);
    let row = row.by(WHO, "reading a row")?;
    first_number(row.column(0))
}

fn by_condition(snapshot: &Snapshot, id: i64) -> Result<i64, LabError> {
    let scan = snapshot.scan(ScanSpec {
        projection: vec![1],
        filters: vec![(0, Filter::eq(Value::Ordinal(ordinal::of_i64(id))))],
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let batch = scan.cursor().next(&[], 0).by(WHO, "scanning it")?;
    let batch = batch.ok_or("there is none").by(WHO, "scanning it")?;
    first_number(batch.column(0))
}

fn first_number(values: &ArrayRef) -> Result<i64, LabError> {
    let numbers = values.as_primitive_opt::<Int64Type>();
    let first = numbers.filter(|numbers| !numbers.is_empty());
    let first = first.map(|numbers| numbers.value(0));
    first.ok_or("there is none").by(WHO, "reading a number")
}
