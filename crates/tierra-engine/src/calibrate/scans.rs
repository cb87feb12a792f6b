//! Threads that scan columns again and again for a while: what a calibration of levels measures, and the lab.
//!
//! A thread stops in time, amid a column if need be: threads that finish their columns would end one after the other, and the last
//! ones would have the memory for themselves. What it read until then is counted.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use tierra_column::bits::{BLOCK_LEN, Kernels, Level};
use tierra_column::{Filter, Value, ordinal};
use tierra_interleave::Scheduling;

use crate::error::ScanError;
use crate::read::scan::{Scan, ScanSpec};
use crate::storage::access::Reading;
use crate::table::snapshot::Snapshot;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// A column that one thread scans.
#[derive(Clone, Copy, Debug)]
pub struct ColumnScans<'a> {
    /// Its rows.
    pub snapshot: &'a Snapshot,
    /// The column, of 64-bit integers without NULL.
    pub column: usize,
    /// Only values up to this are returned; `None`: all.
    pub most: Option<i64>,
    /// The instructions; `None`: those that the machine's profile says.
    pub level: Option<Level>,
}

/// What one thread scanned.
#[derive(Clone, Copy, Debug)]
pub struct Scanned {
    /// Rows that were read: all of the column, as often as that was done, and then its first ones.
    pub rows: u64,
    /// The sum of the values that were returned. It wraps around.
    pub sum: i64,
    /// How long it took.
    pub time: Duration,
}

impl Scanned {
    /// Rows a second.
    pub fn rows_per_s(&self) -> f64 {
        self.rows as f64 / self.time.as_secs_f64()
    }
}

impl ColumnScans<'_> {
    /// Each of these in a thread of its own, all at once, for this long.
    ///
    /// # Errors
    /// [`ScanError`], of any of them.
    pub fn at_once(all: &[ColumnScans<'_>], lasts: Duration) -> Result<Vec<Scanned>, ScanError> {
        let begin = Barrier::new(all.len());
        thread::scope(|scope| {
            let threads = all.iter().map(|scans| {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    scans.run(lasts)
                })
            });
            let threads = Vec::from_iter(threads);
            let scanned = threads.into_iter().map(|thread| {
                let scanned = thread.join();
                scanned.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            scanned.collect()
        })
    }

    /// One of its scans.
    pub fn scan(&self) -> Arc<Scan> {
        let filter = self.most.map(|most| {
            let most = Value::Ordinal(ordinal::of_i64(most));
            (self.column, Filter::less_or_equal(most))
        });
        self.snapshot.scan(ScanSpec {
            projection: vec![self.column],
            filters: filter.into_iter().collect(),
            batch_rows: BATCH_ROWS,
            execution: Scheduling::Auto,
        })
    }

    fn run(&self, lasts: Duration) -> Result<Scanned, ScanError> {
        let reading = Reading {
            level: self.level,
            ..Reading::default()
        };
        let start = Instant::now();
        let (mut rows, mut sum) = (0, 0_i64);
        loop {
            let mut cursor = self.scan().cursor_by(reading)?;
            while let Some(batch) = cursor.next(&[], 0)? {
                let level = cursor.level();
                let kernels = Kernels::at(level).ok_or(ScanError::Level(level))?;
                let values = batch.column(0).as_primitive::<Int64Type>().values();
                let of_batch = kernels.compiled(|| {
                    values
                        .iter()
                        .fold(0, |sum: i64, value| sum.wrapping_add(*value))
                });
                sum = sum.wrapping_add(of_batch);
                if start.elapsed() >= lasts {
                    break;
                }
            }
            // Of one column, whose blocks are full but for the last: a select does not return what it reads.
            let counters = cursor.counters();
            let blocks = counters.blocks_read + counters.blocks_skipped;
            let read = blocks * BLOCK_LEN as u64 + counters.tail_rows;
            rows += read.min(self.snapshot.rows());
            let time = start.elapsed();
            if time >= lasts {
                return Ok(Scanned { rows, sum, time });
            }
        }
    }
}
