//! The column store: an array of 4-byte integers, updated one by one. Each update is durable before the next, alone or in a
//! transaction of its own.

use std::time::Instant;

use tierra_memory::persist::Flush;
use tierra_memory::replication::{Composition, Method, ReplicaSet, ReplicatedUndo, Waits};

use super::{CHECKED, OURS};
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::replicas::{Copies, check, update};

const UNDO_BYTES: usize = 1 << 20;
/// The method of a program that does not calibrate.
const METHOD: Method = Method::Always(Composition {
    waits: Waits::Once,
    prefetch: true,
    ..Composition::BASIC
});

/// An array and the undo log of its transactions.
pub(super) struct Array {
    set: ReplicaSet,
    undo: ReplicatedUndo,
    /// Owns the log's pools.
    _logs: Copies,
}

impl Array {
    /// An array over the first copies, and a log for its transactions.
    pub(super) fn open(
        lab: &Lab,
        copies: &Copies,
        replicas: usize,
        flush: Flush,
    ) -> Result<Array, LabError> {
        let mut set = copies.set(replicas)?;
        let logs = Copies::create(lab, 1 + replicas, UNDO_BYTES, flush)?;
        let log = logs.set(replicas)?;
        let undo = ReplicatedUndo::open(log, &mut set).by(OURS, "opening the undo log")?;
        Ok(Array {
            set,
            undo,
            _logs: logs,
        })
    }

    pub(super) fn update(&mut self, positions: &[u32], value: u32) -> Result<u64, LabError> {
        let time_ns = update(&mut self.set, &METHOD, positions, value)?;
        self.check(positions, value)?;
        Ok(time_ns)
    }

    pub(super) fn update_in_transactions(
        &mut self,
        positions: &[u32],
        value: u32,
    ) -> Result<u64, LabError> {
        let bytes = value.to_ne_bytes();
        let start = Instant::now();
        for &position in positions {
            let mut transaction = self.undo.begin(&mut self.set);
            transaction
                .write(u64::from(position) * 4, &bytes)
                .and_then(|()| transaction.commit(&METHOD))
                .by(OURS, "updating in a transaction")?;
        }
        let time = start.elapsed();
        self.check(positions, value)?;
        Ok(time.as_nanos() as u64)
    }

    fn check(&self, positions: &[u32], value: u32) -> Result<(), LabError> {
        let places = positions[..CHECKED].iter().map(|&at| at as usize * 4);
        check(&self.set, OURS, places, &value.to_ne_bytes())
    }
}
