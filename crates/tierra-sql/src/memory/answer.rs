//! Rows of an answer that are collected before anybody looks at them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

/// The account of the rows collected so far. Batches may share their buffers: each counts once.
pub(crate) struct Collected {
    reservation: MemoryReservation,
    /// Where the buffers begin that have been counted.
    seen: HashSet<usize>,
}

impl Collected {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Self {
            reservation: MemoryConsumer::new("the answer").register(pool),
            seen: HashSet::new(),
        }
    }

    /// Counts a batch.
    ///
    /// # Errors
    /// If queries may not fill so much.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut bytes = 0;
        for column in batch.columns() {
            self.count(&column.to_data(), &mut bytes);
        }
        self.reservation.try_grow(bytes)
    }

    fn count(&mut self, data: &ArrayData, bytes: &mut usize) {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        for buffer in data.buffers().iter().chain(nulls) {
            // What other arrays have of the same allocation is not allocated again.
            if self.seen.insert(buffer.data_ptr().as_ptr() as usize) {
                *bytes += buffer.capacity();
            }
        }
        for child in data.child_data() {
            self.count(child, bytes);
        }
    }
}
