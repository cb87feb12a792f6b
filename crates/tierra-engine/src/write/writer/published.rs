//! Publication: the next manifest becomes the newest, and extents are taken over or released.
//!
//! Invariant: the extents held here are exactly those that the newest published manifest names, except those without any copy and
//! the manifest's own.

use std::collections::HashMap;
use std::sync::Arc;

use tierra_memory::{Pool, PoolError};

use crate::manifest::{ExtentId, Manifest, TableEntry};
use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::storage::tiers::Tiers;

/// The newest manifest and the extents that it names.
pub(crate) struct Published {
    manifest: Manifest,
    /// The manifest's own extents, one per tier.
    roots: Vec<Arc<ExtentCopy>>,
    extents: HashMap<ExtentId, Arc<OwnedExtent>>,
    /// Damaged copies of extents without any other copy: their space stays reserved while the manifest names them.
    lost: Vec<(ExtentId, Arc<ExtentCopy>)>,
}

impl Published {
    pub(crate) fn new(
        manifest: Manifest,
        roots: Vec<Arc<ExtentCopy>>,
        extents: impl IntoIterator<Item = Arc<OwnedExtent>>,
    ) -> Self {
        let by_id = |extent: Arc<OwnedExtent>| (extent.id(), extent);
        Self {
            manifest,
            roots,
            extents: extents.into_iter().map(by_id).collect(),
            lost: Vec::new(),
        }
    }

    /// The same, with the space of these copies reserved.
    pub(crate) fn with_lost(self, lost: Vec<(ExtentId, Arc<ExtentCopy>)>) -> Self {
        Self { lost, ..self }
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The manifest's copies, one per tier.
    pub(crate) fn roots(&self) -> &[Arc<ExtentCopy>] {
        &self.roots
    }

    /// A table's entry.
    pub(crate) fn table(&self, id: u64) -> Option<&Arc<TableEntry>> {
        self.manifest.tables.iter().find(|table| table.id == id)
    }

    /// An extent that the newest manifest names, unless all its copies are lost.
    pub(crate) fn extent(&self, id: ExtentId) -> Option<&Arc<OwnedExtent>> {
        self.extents.get(&id)
    }

    /// Chooses which copies of all extents are read, before anything reads them.
    pub(crate) fn choose_copies(&mut self) {
        for extent in self.extents.values_mut() {
            if let Some(other) = extent.read_elsewhere() {
                *extent = other;
            }
        }
    }

    /// The same extent, if it is to be read from another copy from now on.
    pub(crate) fn read_elsewhere(&mut self, id: ExtentId) -> Option<Arc<OwnedExtent>> {
        let extent = self.extents.get_mut(&id)?;
        *extent = extent.read_elsewhere()?;
        Some(extent.clone())
    }

    /// The newest manifest with a new entry for a table, which may be a new table.
    pub(crate) fn with_table(&self, entry: TableEntry) -> Manifest {
        self.with_tables([entry])
    }

    /// The newest manifest with new entries for tables, which may be new tables.
    pub(crate) fn with_tables(&self, entries: impl IntoIterator<Item = TableEntry>) -> Manifest {
        let mut next = self.manifest.clone();
        for entry in entries {
            next.next_table_id = next.next_table_id.max(entry.id + 1);
            match next.tables.iter_mut().find(|table| table.id == entry.id) {
                Some(slot) => *slot = Arc::new(entry),
                None => next.tables.push(Arc::new(entry)),
            }
        }
        next
    }

    /// Makes `next` the newest manifest. `fresh` are the extents that the current manifest does not name, or names with other
    /// copies; those that `next` no longer names are released. After an error `self` is unchanged.
    pub(crate) fn publish(
        &mut self,
        tiers: &Tiers,
        mut next: Manifest,
        fresh: Vec<Arc<OwnedExtent>>,
    ) -> Result<(), PoolError> {
        let fresh = fresh.into_iter().map(|extent| (extent.id(), extent));
        let fresh: HashMap<_, _> = fresh.collect();
        next.version = self.manifest.version + 1;
        next.tiers = tiers.entries();
        let entry_of = |id: &ExtentId| {
            let held = fresh.get(id).or_else(|| self.extents.get(id));
            let entry = held.map(|extent| extent.entry());
            // A lost extent is not held here: its entry is kept, because it may come back.
            let entry = entry.or_else(|| self.manifest.extents.get(id).cloned());
            (
                *id,
                entry.expect("every extent that a table names is known"),
            )
        };
        next.extents = next.named().iter().map(entry_of).collect();
        if let Some((id, _)) = next.extents.last_key_value() {
            next.next_extent_id = next.next_extent_id.max(id.0 + 1);
        }
        let bytes = next.encode();
        let mut finished = Vec::with_capacity(tiers.open.len());
        for tier in &tiers.open {
            let mut writer = tier
                .pool
                .allocate(bytes.len() as u64, Owner::Manifest.tag())?;
            writer.copy_from_slice(&bytes);
            finished.push((tier, writer.finish()?));
        }
        let roots = finished
            .iter()
            .map(|(tier, root)| ExtentCopy::of(tier, root));
        let roots: Vec<_> = roots.collect();
        let all = finished.iter().map(|(tier, root)| (&*tier.pool, root));
        let published = Pool::publish_all(&all.collect::<Vec<_>>(), next.version);
        let published = published.map_err(|error| error.source);
        // After a failure it is unknown which manifest the device holds, so the extents of both stay.
        roots.iter().for_each(|root| root.keep());
        fresh.values().for_each(|extent| extent.keep());
        published?;
        for (id, extent) in fresh {
            let before = self.extents.insert(id, extent.clone());
            if let Some(before) = before {
                before.release(Some(&extent));
            }
        }
        self.extents.retain(|id, extent| {
            let stays = next.extents.contains_key(id);
            if !stays {
                extent.release(None);
            }
            stays
        });
        self.lost.retain(|(id, copy)| {
            let stays = next.extents.contains_key(id);
            if !stays {
                copy.release();
            }
            stays
        });
        for old in std::mem::replace(&mut self.roots, roots) {
            old.release();
        }
        self.manifest = next;
        Ok(())
    }
}
