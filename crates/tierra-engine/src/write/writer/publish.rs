//! Publishing a manifest in every present tier.

use std::sync::Arc;

use super::losses::{self, PUBLISH_TRIES_MOST, is_lost};
use super::state::Writer;
use crate::error::StorageError;
use crate::manifest::{Manifest, lineage_mark};
use crate::storage::extent::{ExtentCopy, OwnedExtent};
use crate::table::requests::Request;

impl Writer {
    /// Makes `next` the newest manifest in every present tier. A tier whose device fails is left behind, if there is another. If `next`
    /// has something nowhere else, the manifest before it stays, without that tier, and the error is returned.
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
        let tiers = self.storage.tiers();
        let is_left = |copy: &Arc<ExtentCopy>| tiers.get(copy.tier()).is_some();
        if fresh
            .iter()
            .all(|extent| extent.copies().iter().any(is_left))
        {
            return self.publish_without_lost(next, fresh);
        }
        if let Err(error) = self.go_on_without_lost() {
            tracing::error!(%error, "the tiers that are left could not record that one is behind");
        }
        Err(error.into())
    }

    /// Goes on in the tiers that are left after one was lost.
    pub(super) fn go_on_without_lost(&mut self) -> Result<(), StorageError> {
        self.publish_without_lost(self.published.manifest().clone(), Vec::new())
    }

    /// Makes `next` the newest manifest of the tiers that are left. Those that are lost count as behind it.
    fn publish_without_lost(
        &mut self,
        mut next: Manifest,
        fresh: Vec<Arc<OwnedExtent>>,
    ) -> Result<(), StorageError> {
        next.lineage.push(lineage_mark());
        self.publish(next, fresh)?;
        match self.note_lineage() {
            Ok(()) => self.must_leave_lost = false,
            Err(error) => {
                tracing::error!(%error, "the directory file could not record that a tier is behind: nothing more is written before it can");
            }
        }
        // Once more when the version that belongs to this manifest is there: it may be read where the one before it was.
        self.requests.send(Request::ChooseReplicas { reply: None });
        self.leave_lost_tiers()
    }

    pub(super) fn release_superseded(&mut self) {
        for copy in self.superseded.drain(..) {
            copy.release();
        }
    }
}
