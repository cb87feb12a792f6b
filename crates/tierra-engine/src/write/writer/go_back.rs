//! Back to an older version of the database, on purpose, because the newest is lost.
//!
//! Invariant: the logs end where that version's records do before a manifest is published that counts on from it, so that no record of
//! what was given up is ever taken for one of what follows. Interrupted, it can be done again.

use std::path::Path;

use super::state::Writer;
use crate::error::OpenError;
use crate::manifest::lineage_mark;

impl Writer {
    /// Tables of whose logs records are given up, and how many.
    pub(crate) fn given_up(&self) -> Vec<(String, u64)> {
        let tables = self.published.manifest().tables.iter();
        let given_up = tables.filter_map(|table| {
            let count = self.logs.get(&table.id)?.given_up();
            (count > 0).then(|| (table.spec.name.clone(), count))
        });
        given_up.collect()
    }

    /// Gives up what came after the version that was read.
    pub(crate) fn go_back(&mut self, dir: &Path) -> Result<(), OpenError> {
        let failed = |source| OpenError::GoBack {
            dir: dir.to_owned(),
            source: Box::new(source),
        };
        for log in self.logs.values_mut() {
            let cut = log.cut(&self.storage.log_method);
            cut.map_err(|error| failed(error.into()))?;
        }
        let mut next = self.published.manifest().clone();
        // Tiers that are not there may have what is given up: they are not to be joined with this.
        next.lineage.push(lineage_mark());
        self.publish(next, Vec::new()).map_err(failed)?;
        self.note_lineage().map_err(failed)
    }
}
