//! Expiry of keys: reading it, setting it, and removing keys that are due.

use super::db::Db;
use super::entry::LiveEntry;
use super::heap::MemoryFull;
use super::key::Key;
use super::table::Table;

impl Db {
    /// When an entry expires, in milliseconds since 1970.
    pub fn expiry(&self, entry: LiveEntry) -> Option<u64> {
        self.store.heap.expiry(entry.record)
    }

    /// Sets or removes the expiry of a key. False if there is no such key.
    ///
    /// # Errors
    /// If there is no memory for it; nothing has changed then.
    pub fn set_expiry(&mut self, key: &Key<'_>, at_ms: Option<u64>) -> Result<bool, MemoryFull> {
        let Some(mut entry) = self.peek(key) else {
            return Ok(false);
        };
        let before = self.store.heap.expiry(entry.record);
        let record = self.store.heap.set_expiry(entry.record, at_ms)?;
        self.replace(key, &mut entry, record);
        self.note_expiry(&entry, before, at_ms);
        Ok(true)
    }

    /// Updates the queue after a change of an entry's expiry.
    pub(super) fn note_expiry(
        &mut self,
        entry: &LiveEntry,
        before: Option<u64>,
        at_ms: Option<u64>,
    ) {
        let table = self.table_mut();
        table.expiring += usize::from(at_ms.is_some());
        table.expiring -= usize::from(before.is_some());
        // If it is postponed, its entry in the queue suffices.
        if let Some(at_ms) = at_ms.filter(|&at_ms| before.is_none_or(|before| at_ms < before)) {
            table.expiries.push((at_ms, entry.handle.hash()));
        }
        self.prune_expiries();
    }

    /// While most of the queue is stale, checks a few of its entries: more than one change can make stale.
    pub(super) fn prune_expiries(&mut self) {
        const FEW: usize = 1024;
        const LOOKS: usize = 3;
        let Table {
            records,
            expiries,
            expiring,
        } = &mut self.store.tables[self.selected];
        if expiries.len() <= 2 * *expiring + FEW {
            return;
        }
        let heap = &self.store.heap;
        expiries.sweep(LOOKS, |(at_ms, hash)| {
            let mut first = None;
            records.find_hash(hash, heap, |record| {
                let at = heap.expiry(record).filter(|&at| at >= at_ms);
                first = earlier(first, at);
                false
            });
            first
        });
    }

    /// Checks up to `limit` keys that may be due and removes those that are. Returns how many that were, and whether there
    /// may be more.
    pub fn expire_some(&mut self, limit: usize) -> (usize, bool) {
        let mut removed = 0;
        for _ in 0..limit {
            let now_ms = self.now_ms;
            let Some((_, hash)) = self.table_mut().expiries.pop_due(now_ms) else {
                return (removed, false);
            };
            let (table, heap) = (&self.table().records, &self.store.heap);
            let mut later = None;
            let due = table.find_hash(hash, heap, |record| {
                let at_ms = heap.expiry(record);
                let is_due = at_ms.is_some_and(|at_ms| at_ms <= now_ms);
                later = earlier(later, at_ms.filter(|_| !is_due));
                is_due
            });
            if let Some((handle, record)) = due {
                self.unlink_entry(LiveEntry { handle, record });
                removed += 1;
            } else if let Some(at_ms) = later {
                // It was postponed meanwhile.
                self.table_mut().expiries.push((at_ms, hash));
            }
        }
        (removed, true)
    }
}

/// The earlier of two times, where there are any.
fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}
