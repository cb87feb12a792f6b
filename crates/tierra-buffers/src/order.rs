//! Where the values of a buffer lie, in the order of their positions.
//!
//! ```text
//! positions   0 ........ 65535 | 65536 .. 69999 | 70000 .. 70003
//! pieces      segment 3        | segment 1      | a batch of the tail
//! ```
//! The engine may join segments and moves rows when it does, and what is staged may be older than a segment. So the order is read from the
//! column of positions: once for each segment, whose rows never change.
//!
//! Invariant: pieces are in order, and have each position from 0 up to the number of values once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use tierra_column::bits::BLOCK_LEN;
use tierra_engine::{RowId, Snapshot};

use crate::columns::{POSITION, VALUE};
use crate::error::Error;

/// Neighbouring rows of a segment with neighbouring positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Position of the first.
    pub(crate) first: u64,
    /// Its row.
    pub(crate) row: usize,
    /// Rows.
    pub(crate) rows: usize,
}

/// A run of positions, and where their values lie.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) first: u64,
    pub(crate) rows: usize,
    pub(crate) place: Place,
    /// Blocks of the pieces before it.
    pub(crate) blocks_before: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A segment, by its place among those of the snapshot, and a row of it.
    Segment { at: usize, row: usize },
    /// The values of a batch of the tail, and the id of the first.
    Tail { values: Int64Array, id: RowId },
}

impl Piece {
    pub(crate) fn end(&self) -> u64 {
        self.first + self.rows as u64
    }

    /// Blocks that it has values of.
    pub(crate) fn blocks(&self) -> u64 {
        let start = match self.place {
            Place::Segment { row, .. } => row % BLOCK_LEN,
            Place::Tail { .. } => 0,
        };
        (start + self.rows).div_ceil(BLOCK_LEN) as u64
    }
}

/// What was read of segments, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Orders(Mutex<HashMap<u32, Arc<[Run]>>>);

impl Orders {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Arc<[Run]>>> {
        // Entries are whole, and may be forgotten.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pieces of a snapshot.
pub(crate) fn pieces(orders: &Orders, snapshot: &Snapshot) -> Result<Vec<Piece>, Error> {
    let mut pieces = Vec::new();
    let mut piece = |first, rows, place| {
        pieces.push(Piece {
            first,
            rows,
            place,
            blocks_before: 0,
        });
    };
    for at in 0..snapshot.segments().len() {
        for run in &*runs(orders, snapshot, at)? {
            let row = run.row;
            piece(run.first, run.rows, Place::Segment { at, row });
        }
    }
    for (id, batch) in snapshot.tail_batches() {
        let (positions, values) = (numbers(batch, POSITION), numbers(batch, VALUE));
        let mut found = Vec::new();
        extend(&mut found, 0, positions.values());
        for Run { first, row, rows } in found {
            let values = values.slice(row, rows);
            let id = RowId::from_number(id.get() + row as u64);
            piece(first, rows, Place::Tail { values, id });
        }
    }
    pieces.sort_unstable_by_key(|piece| piece.first);
    let (mut next, mut blocks) = (0, 0);
    for piece in &mut pieces {
        if piece.first != next {
            return Err(out_of_order(snapshot));
        }
        next = piece.end();
        piece.blocks_before = blocks;
        blocks += piece.blocks();
    }
    match next == snapshot.rows() {
        true => Ok(pieces),
        false => Err(out_of_order(snapshot)),
    }
}

fn out_of_order(snapshot: &Snapshot) -> Error {
    Error::Order {
        name: snapshot.table().spec().name.clone(),
    }
}

fn numbers(batch: &RecordBatch, column: usize) -> &Int64Array {
    batch.column(column).as_primitive::<Int64Type>()
}

/// The runs of a segment, in the order of its rows.
fn runs(orders: &Orders, snapshot: &Snapshot, at: usize) -> Result<Arc<[Run]>, Error> {
    let segment = &snapshot.segments()[at];
    if let Some(known) = orders.lock().get(&segment.id()) {
        return Ok(known.clone());
    }
    let mut runs = Vec::new();
    for block in 0..segment.blocks() {
        let positions = snapshot.block_values(at, POSITION, block)?;
        let positions = positions.as_primitive::<Int64Type>();
        extend(&mut runs, block * BLOCK_LEN, positions.values());
    }
    let runs: Arc<[Run]> = runs.into();
    let mut known = orders.lock();
    // Segments that were joined are gone.
    known.retain(|id, _| {
        snapshot
            .segments()
            .iter()
            .any(|segment| segment.id() == *id)
    });
    known.insert(segment.id(), runs.clone());
    Ok(runs)
}

/// Adds the rows from `row` on, which have these positions.
fn extend(runs: &mut Vec<Run>, row: usize, positions: &[i64]) {
    for (at, position) in positions.iter().enumerate() {
        let (first, row) = (*position as u64, row + at);
        match runs.last_mut() {
            Some(run) if run.first + run.rows as u64 == first && run.row + run.rows == row => {
                run.rows += 1;
            }
            _ => runs.push(Run {
                first,
                row,
                rows: 1,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_positions_do_not_follow_each_other() {
        let mut runs = Vec::new();
        extend(&mut runs, 0, &[5, 6, 7, 0, 1]);
        extend(&mut runs, 5, &[2, 9]);
        let run = |first, row, rows| Run { first, row, rows };
        assert_eq!(runs, [run(5, 0, 3), run(0, 3, 3), run(9, 6, 1)]);
    }
}
