//! The memory of rows that are collected before they are used: those of an answer, and those of a change.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, RecordBatch};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

/// Accounts for the rows collected so far. Batches may share buffers; each buffer counts once.
pub(crate) struct Collected {
    reservation: MemoryReservation,
    /// The addresses of the buffers that were counted.
    seen: HashSet<usize>,
}

impl Collected {
    /// `what` names the rows in the error that there are too many.
    pub(crate) fn new(what: &str, pool: &Arc<dyn MemoryPool>) -> Self {
        Self {
            reservation: MemoryConsumer::new(what).register(pool),
            seen: HashSet::new(),
        }
    }

    /// Counts a batch.
    ///
    /// # Errors
    /// If queries may not use so much memory.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut bytes = 0;
        for column in batch.columns() {
            self.count(&column.to_data(), &mut bytes);
        }
        self.reservation.try_grow(bytes)
    }

    /// Counts `bytes` beside the batches.
    ///
    /// # Errors
    /// If queries may not use so much memory.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<()> {
        self.reservation.try_grow(bytes)
    }

    fn count(&mut self, data: &ArrayData, bytes: &mut usize) {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        for buffer in data.buffers().iter().chain(nulls) {
            // Other arrays in the same allocation do not allocate it again.
            if self.seen.insert(buffer.data_ptr().as_ptr() as usize) {
                *bytes += buffer.capacity();
            }
        }
        for child in data.child_data() {
            self.count(child, bytes);
        }
    }
}
