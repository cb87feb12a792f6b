//! Goes back to an older version of the database, on request, because the newest is lost.
//!
//! Invariant: the logs are cut where that version's records end before a manifest is published that continues from it. So no
//! record that was given up is ever taken for a later one. After an interruption it can be done again.

use std::path::Path;

use super::state::Writer;
use crate::error::OpenError;
use crate::manifest::lineage_mark;

impl Writer {
    /// Tables with records that are given up, and their number.
    pub(crate) fn given_up(&self) -> Vec<(String, u64)> {
        let tables = self.published.manifest().tables.iter();
        let given_up = tables.filter_map(|table| {
            let count = self.logs.get(&table.id)?.given_up();
            (count > 0).then(|| (table.spec.name.clone(), count))
        });
        given_up.collect()
    }

    /// Gives up everything after the version that was read.
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
        // Missing tiers may hold what is given up: the mark keeps them from being joined with this state.
        next.lineage.push(lineage_mark());
        self.publish(next, Vec::new()).map_err(failed)?;
        self.note_lineage().map_err(failed)
    }
}
