//! Publishing a manifest in every present tier.

use std::sync::Arc;

use super::losses::{self, PUBLISH_TRIES_MOST, is_lost};
use super::state::Writer;
use crate::error::StorageError;
use crate::manifest::{Manifest, lineage_mark};
use crate::storage::extent::OwnedExtent;
use crate::table::requests::Request;

impl Writer {
    /// Makes `next` the newest manifest in every present tier. A tier whose device fails is left behind, if there is another.
    pub(super) fn publish(
        &mut self,
        mut next: Manifest,
        fresh: Vec<Arc<OwnedExtent>>,
    ) -> Result<(), StorageError> {
        next.commit = self.commit + 1;
        self.note_reached(&mut next);
        let tiers = self.storage.tiers();
        tiers.check_known(&fresh)?;
        let mut tries = 0;
        let error = loop {
            match self.published.publish(&tiers, next.clone(), fresh.clone()) {
                Ok(()) => {
                    self.commit += 1;
                    self.release_superseded();
                    return Ok(());
                }
                // Pages that the publication needs were lost: they are rewritten.
                Err(error) if is_lost(&error) && tries < PUBLISH_TRIES_MOST => {
                    tries += 1;
                    losses::restore(&self.storage, &fresh);
                }
                Err(error) => break error,
            }
        };
        if !self.lose_failed_tiers() {
            return Err(error.into());
        }
        next.lineage.push(lineage_mark());
        let tiers = self.storage.tiers();
        self.published.publish(&tiers, next, fresh)?;
        self.commit += 1;
        self.release_superseded();
        if let Err(error) = self.note_lineage() {
            tracing::error!(%error, "the directory file could not record that a tier is behind");
        }
        // Once more when the version that belongs to this manifest is there: it may be read where the one before it was.
        self.requests.send(Request::ReadElsewhere);
        self.leave_lost_tiers()
    }

    pub(super) fn release_superseded(&mut self) {
        for copy in self.superseded.drain(..) {
            copy.release();
        }
    }
}
