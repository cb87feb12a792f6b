//! Hashes: packed into one record while they are small, a table of a record a field when they are not.

use std::iter::FusedIterator;

use tierra_index::RecordTable;

use super::db::{Db, WRITE_USES};
use super::entry::LiveEntry;
use super::heap::{Heap, MemoryFull};
use super::key::Key;
use super::large::Large;
use super::lookup::{look_up, scan_table};
use super::packed::{self, COUNT_BYTES, PACKED_BYTES_MAX, PairRange, Pairs};
use super::prefetch::Prefetched;
use super::record::Form;
use crate::random::Random;

/// The fields of a hash and their values.
pub struct HashIter<'a>(Fields<'a>);

enum Fields<'a> {
    Packed(Pairs<'a>),
    Large(&'a Heap, Box<dyn Iterator<Item = u64> + 'a>),
}

impl<'a> Iterator for HashIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Fields::Packed(pairs) => pairs.next(),
            Fields::Large(heap, records) => {
                let record = records.next()?;
                Some((heap.key(record), heap.value(record)))
            }
        }
    }
}

impl FusedIterator for HashIter<'_> {}

impl Db {
    /// Whether a hash or sorted set is one packed record.
    pub fn is_packed(&self, entry: LiveEntry) -> bool {
        matches!(
            self.store.heap.header(entry.record).form,
            Form::PackedHash | Form::PackedSet
        )
    }

    fn field_table(&self, entry: LiveEntry) -> &RecordTable {
        match self.store.large(entry) {
            Large::Hash(table) => table,
            Large::Set(..) => unreachable!("the caller has asked for the kind"),
        }
    }

    /// How many fields a hash has.
    pub fn hash_len(&self, entry: LiveEntry) -> usize {
        if self.is_packed(entry) {
            packed::count(self.store.heap.value(entry.record))
        } else {
            self.field_table(entry).len()
        }
    }

    /// The value of a field.
    pub fn hash_get(&self, entry: LiveEntry, field: &[u8]) -> Option<&[u8]> {
        if self.is_packed(entry) {
            let value = self.store.heap.value(entry.record);
            return Pairs::new(value)
                .find(field)
                .map(|range| &value[range.value_at..range.end]);
        }
        let (_, record) = look_up(self.field_table(entry), &self.store.heap, field)?;
        Some(self.store.heap.value(record))
    }

    /// All fields and their values.
    pub fn hash_iter(&self, entry: LiveEntry) -> HashIter<'_> {
        HashIter(if self.is_packed(entry) {
            Fields::Packed(Pairs::new(self.store.heap.value(entry.record)))
        } else {
            let records = self.field_table(entry).iter();
            Fields::Large(
                &self.store.heap,
                Box::new(Prefetched::new(&self.store.heap, records)),
            )
        })
    }

    fn field_may_be_packed(&self, field: &[u8], value: &[u8]) -> bool {
        field.len().max(value.len()) <= self.store.heap.chooser.settings.hash_packed_value_max
    }

    /// Sets fields of a hash, which is made where there is none; how many of them are new.
    ///
    /// # Errors
    /// Where there is no memory for them; the hash is what it was, or has some of them if it is large.
    pub fn hash_set<'f>(
        &mut self,
        key: &Key<'_>,
        pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<usize, MemoryFull> {
        let mut entry = self.peek(key);
        if let Some(entry) = &mut entry {
            self.use_entry(key, entry, WRITE_USES);
            if !self.is_packed(*entry) {
                return self.large_hash_set(entry.record, pairs);
            }
            if let Some(written) = self.overwrite_in_place(*entry, pairs.clone()) {
                return Ok(written);
            }
        }
        // Rebuilds all fields, old and new, beside the record; a failure before the end has changed nothing.
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        match entry {
            Some(entry) => scratch.extend_from_slice(self.store.heap.value(entry.record)),
            None => scratch.extend_from_slice(&[0; COUNT_BYTES]),
        }
        let mut count = packed::count(&scratch);
        let (before, mut fits) = (count, true);
        for (field, value) in pairs.clone() {
            fits = self.field_may_be_packed(field, value);
            if !fits {
                break;
            }
            match Pairs::new(&scratch).find(field) {
                Some(range) => put_value(&mut scratch, range, field, value),
                None => {
                    packed::push_pair(&mut scratch, field, value);
                    count += 1;
                }
            }
            fits = count <= self.store.heap.chooser.settings.hash_packed_entries_max
                && scratch.len() <= PACKED_BYTES_MAX;
            if !fits {
                break;
            }
        }
        let result = if fits {
            packed::set_count(&mut scratch, count);
            let written = self.write_packed(key, entry, Form::PackedHash, &scratch);
            written.map(|_| count - before)
        } else {
            let unpacked = self.unpack_hash(key, entry);
            let result = unpacked.and_then(|record| self.large_hash_set(record, pairs));
            self.remove_if_empty(key, result)
        };
        self.scratch = scratch;
        result
    }

    /// Where all fields are there with values as long, which is the common update, nothing has to move.
    fn overwrite_in_place<'f>(
        &mut self,
        entry: LiveEntry,
        pairs: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Option<usize> {
        let packed = self.store.heap.value(entry.record);
        let range = |field: &[u8], value: &[u8]| {
            let range = Pairs::new(packed).find(field)?;
            (range.end - range.value_at == value.len()).then_some(range)
        };
        let fits = |(field, value): (&[u8], &[u8])| range(field, value).is_some();
        if !pairs.clone().all(fits) {
            return None;
        }
        let value_at = self.store.heap.header(entry.record).value_at();
        for (field, value) in pairs {
            let packed = self.store.heap.value_mut(entry.record);
            let range = Pairs::new(packed).find(field)?;
            packed[range.value_at..range.end].copy_from_slice(value);
            self.store
                .heap
                .wrote(entry.record, value_at + range.value_at, value.len());
        }
        Some(0)
    }

    /// Makes `packed` the value of a key.
    pub(super) fn write_packed(
        &mut self,
        key: &Key<'_>,
        entry: Option<LiveEntry>,
        form: Form,
        packed: &[u8],
    ) -> Result<(), MemoryFull> {
        let record = match entry {
            Some(mut entry) => {
                let record = self.store.heap.resize(entry.record, packed.len())?;
                self.replace(key, &mut entry, record);
                record
            }
            None => {
                let record = self
                    .store
                    .heap
                    .create(form, key.bytes, packed.len(), None)?;
                self.put(key, record);
                record
            }
        };
        self.store.heap.value_mut(record).copy_from_slice(packed);
        self.store
            .heap
            .wrote(record, 0, self.store.heap.header(record).bytes());
        Ok(())
    }

    /// Makes a hash a large one, with the fields it has; the record that names it.
    fn unpack_hash(&mut self, key: &Key<'_>, entry: Option<LiveEntry>) -> Result<u64, MemoryFull> {
        let packed = entry
            .map(|entry| self.store.heap.value(entry.record).to_vec())
            .unwrap_or_default();
        let mut table = self.new_table();
        for (field, value) in Pairs::new(&packed) {
            let Ok(record) = self.store.heap.create_field(field, value) else {
                table.iter().for_each(|record| self.store.heap.free(record));
                return Err(MemoryFull);
            };
            table.insert(self.store.heap.hash_of(field), record, 0, &self.store.heap);
        }
        self.write_large(key, entry, Large::Hash(table))
    }

    /// After something was put into a value made for it: where that failed and there is nothing else in it, it goes again.
    pub(super) fn remove_if_empty<T>(
        &mut self,
        key: &Key<'_>,
        result: Result<T, MemoryFull>,
    ) -> Result<T, MemoryFull> {
        if result.is_err()
            && let Some(entry) = self.peek(key)
            && !self.is_packed(entry)
            && self.store.large(entry).table().is_empty()
        {
            self.remove_entry(entry);
        }
        result
    }

    /// Makes a large value that of a key; the record that names it.
    pub(super) fn write_large(
        &mut self,
        key: &Key<'_>,
        entry: Option<LiveEntry>,
        large: Large,
    ) -> Result<u64, MemoryFull> {
        let expiry = entry.and_then(|entry| self.store.heap.expiry(entry.record));
        let Ok(record) = self
            .store
            .heap
            .create(Form::Large, key.bytes, size_of::<u32>(), expiry)
        else {
            large
                .table()
                .iter()
                .for_each(|record| self.store.heap.free(record));
            return Err(MemoryFull);
        };
        let number = self.store.larges.add(large);
        self.store
            .heap
            .value_mut(record)
            .copy_from_slice(&number.to_le_bytes());
        match entry {
            Some(mut entry) => {
                let old = entry.record;
                self.replace(key, &mut entry, record);
                self.store.heap.free(old);
            }
            None => _ = self.put(key, record),
        }
        Ok(record)
    }

    /// Removes a field, and the hash with its last one. False where there is no such field.
    pub fn hash_remove(&mut self, key: &Key<'_>, field: &[u8]) -> bool {
        let Some(mut entry) = self.peek(key) else {
            return false;
        };
        if !self.is_packed(entry) {
            return self.remove_parts(entry, std::iter::once(field)) == 1;
        }
        let value = self.store.heap.value(entry.record);
        let Some(range) = Pairs::new(value).find(field) else {
            return false;
        };
        let (len, count) = (value.len(), packed::count(value) - 1);
        if count == 0 {
            self.remove_entry(entry);
            return true;
        }
        let packed = self.store.heap.value_mut(entry.record);
        packed.copy_within(range.end.., range.start);
        packed::set_count(packed, count);
        self.shrink(key, &mut entry, len - (range.end - range.start));
        true
    }

    /// Shortens a packed value whose kept bytes are at the beginning. Where there is no memory to move it, it
    /// stays where it is, which has room.
    pub(super) fn shrink(&mut self, key: &Key<'_>, entry: &mut LiveEntry, len: usize) {
        let record = self.store.heap.shrink(entry.record, len);
        self.replace(key, entry, record);
        self.store
            .heap
            .wrote(record, 0, self.store.heap.header(record).bytes());
    }

    /// Some field and its value, chosen by a random number.
    pub fn hash_random(&self, entry: LiveEntry, random: u64) -> (&[u8], &[u8]) {
        if self.is_packed(entry) {
            let value = self.store.heap.value(entry.record);
            let at = random as usize % packed::count(value);
            return Pairs::new(value)
                .nth(at)
                .expect("as many pairs as are counted");
        }
        let mut numbers = Random::seeded(random);
        let record = self.field_table(entry).some(|| numbers.next());
        let record = record.expect("a hash has fields");
        (self.store.heap.key(record), self.store.heap.value(record))
    }

    /// As [`Db::scan`], over fields and values.
    pub fn hash_scan(
        &self,
        entry: LiveEntry,
        cursor: u64,
        count: usize,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> u64 {
        if self.is_packed(entry) {
            self.hash_iter(entry)
                .for_each(|(field, value)| each(field, value));
            return 0;
        }
        scan_table(
            self.field_table(entry),
            &self.store.heap,
            cursor,
            count,
            |record| {
                each(self.store.heap.key(record), self.store.heap.value(record));
            },
        )
    }
}

/// Gives a field of a packed hash another value, in its place.
fn put_value(packed: &mut Vec<u8>, range: PairRange, field: &[u8], value: &[u8]) {
    if range.end - range.value_at == value.len() {
        packed[range.value_at..range.end].copy_from_slice(value);
        return;
    }
    let mut pair = Vec::with_capacity(10 + field.len() + value.len());
    packed::push_pair(&mut pair, field, value);
    packed.splice(range.start..range.end, pair);
}
