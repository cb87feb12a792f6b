//! Values under other keys: renamed, or copied with all that they name.

use tierra_index::RecordStore;

use super::db::Db;
use super::entry::LiveEntry;
use super::heap::MemoryFull;
use super::key::Key;
use super::large::Large;
use super::member::score_of;
use super::order::Order;
use super::record::Form;

impl Db {
    /// Gives a value another key, whose own is replaced. False where there is nothing to rename.
    ///
    /// # Errors
    /// Where there is no memory for the new key.
    pub fn rename(&mut self, from: &Key<'_>, to: &Key<'_>) -> Result<bool, MemoryFull> {
        let Some(entry) = self.peek(from) else {
            return Ok(false);
        };
        if from.bytes == to.bytes {
            return Ok(true);
        }
        let record = self.store.heap.duplicate(entry.record, to.bytes)?;
        // A large value goes along, so only its old record is freed.
        self.forget(entry);
        self.store.heap.free(entry.record);
        self.remove(to);
        self.put(to, record);
        Ok(true)
    }

    /// A record with the value of another, and all that it names.
    pub(super) fn duplicate(&mut self, entry: LiveEntry, key: &[u8]) -> Result<u64, MemoryFull> {
        let copy = self.store.heap.duplicate(entry.record, key)?;
        if self.store.heap.header(copy).form == Form::Large {
            match self.duplicate_large(entry) {
                Ok(number) => self
                    .store
                    .heap
                    .value_mut(copy)
                    .copy_from_slice(&number.to_le_bytes()),
                Err(full) => {
                    self.store.heap.free(copy);
                    return Err(full);
                }
            }
        }
        Ok(copy)
    }

    fn duplicate_large(&mut self, entry: LiveEntry) -> Result<u32, MemoryFull> {
        let (parts, is_set): (Vec<u64>, bool) = match self.store.large(entry) {
            Large::Hash(table) => (table.iter().collect(), false),
            Large::Set(_, order) => (
                order
                    .range(0..order.len())
                    .map(|(_, record)| record)
                    .collect(),
                true,
            ),
        };
        let mut table = self.new_table();
        let mut ranked = Vec::new();
        for part in parts {
            let key = self.store.heap.key(part).to_vec();
            let Ok(copy) = self.store.heap.duplicate(part, &key) else {
                table.iter().for_each(|record| self.store.heap.free(record));
                return Err(MemoryFull);
            };
            table.insert(self.store.heap.hash(copy), copy, 0, &self.store.heap);
            if is_set {
                ranked.push((score_of(self.store.heap.value(copy)), copy));
            }
        }
        Ok(self.store.larges.add(if is_set {
            Large::Set(table, Box::new(Order::new(ranked.into_iter())))
        } else {
            Large::Hash(table)
        }))
    }
}
