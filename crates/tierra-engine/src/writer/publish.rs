//! Publication: the next manifest becomes the newest, and extents change hands.
//!
//! Invariant: the extents held here are exactly those that the newest published manifest names,
//! and the manifest's own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tierra_memory::{Extent, Pool, PoolError};

use crate::manifest::{Manifest, TableEntry};
use crate::space::{OwnedExtent, Owner};

/// The newest manifest and what it names.
pub(crate) struct Published {
    manifest: Manifest,
    root: Option<Arc<OwnedExtent>>,
    /// By offset.
    extents: HashMap<u64, Arc<OwnedExtent>>,
}

impl Published {
    pub(crate) fn new(
        manifest: Manifest,
        root: Option<Arc<OwnedExtent>>,
        extents: impl IntoIterator<Item = Arc<OwnedExtent>>,
    ) -> Self {
        let by_offset = |extent: Arc<OwnedExtent>| (extent.extent().offset, extent);
        Self {
            manifest,
            root,
            extents: extents.into_iter().map(by_offset).collect(),
        }
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The entry of a table.
    pub(crate) fn table(&self, id: u64) -> Option<&Arc<TableEntry>> {
        self.manifest.tables.iter().find(|table| table.id == id)
    }

    /// An extent that the newest manifest names.
    pub(crate) fn extent(&self, extent: Extent) -> Arc<OwnedExtent> {
        self.extents
            .get(&extent.offset)
            .cloned()
            .expect("every extent of the manifest is held here")
    }

    /// The newest manifest with another entry for one table, or one more table.
    pub(crate) fn with_table(&self, entry: TableEntry) -> Manifest {
        let mut next = self.manifest.clone();
        next.next_table_id = next.next_table_id.max(entry.id + 1);
        match next.tables.iter_mut().find(|table| table.id == entry.id) {
            Some(slot) => *slot = Arc::new(entry),
            None => next.tables.push(Arc::new(entry)),
        }
        next
    }

    /// Makes `next` the newest manifest. `fresh` are the extents that it names and the one before
    /// did not; those that it names no longer are let go. On an error nothing has changed.
    pub(crate) fn publish(
        &mut self,
        pool: &Arc<Pool>,
        mut next: Manifest,
        fresh: Vec<Arc<OwnedExtent>>,
    ) -> Result<(), PoolError> {
        next.version = self.manifest.version + 1;
        let bytes = next.encode();
        let mut writer = pool.allocate(bytes.len() as u64, Owner::Manifest.tag())?;
        writer.copy_from_slice(&bytes);
        let finished = writer.finish()?;
        let root = OwnedExtent::of(pool, &finished);
        let published = pool.publish(&finished);
        // After a failure it is not known which manifest the device holds, so what both name stays.
        root.keep();
        fresh.iter().for_each(|extent| extent.keep());
        published?;
        self.extents.extend(
            fresh
                .into_iter()
                .map(|extent| (extent.extent().offset, extent)),
        );
        let named: HashSet<u64> = next.extents().iter().map(|extent| extent.offset).collect();
        self.extents.retain(|offset, extent| {
            let stays = named.contains(offset);
            if !stays {
                extent.release();
            }
            stays
        });
        if let Some(old) = self.root.replace(root) {
            old.release();
        }
        self.manifest = next;
        Ok(())
    }
}
