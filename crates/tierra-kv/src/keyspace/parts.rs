//! Fields of large hashes and members of large sorted sets, many at a time: as keys are found in windows, so are
//! these, in the table of their value.
//!
//! Invariant: what a window has found is used only while nothing there has changed; a name that comes twice in one is
//! looked up again.

use tierra_index::{EntryHandle, RecordStore, RecordTable, Resolved};

use super::db::Db;
use super::entry::LiveEntry;
use super::heap::{Heap, MemoryFull};
use super::key::Key;
use super::large::Large;
use super::lookup::look_up_one;
use super::member::{compare, score_of};
use super::window::{InFlightRecords, Prefetcher, WINDOW_KEYS, look_up_many};

/// What a window has found of the names that it was given.
enum FoundParts {
    One(EntryHandle),
    Many(Box<[Option<EntryHandle>]>),
}

impl FoundParts {
    /// The handle of a name now, and its record if there is one.
    fn at(
        &self,
        at: usize,
        name: &[u8],
        table: &RecordTable,
        heap: &Heap,
    ) -> (EntryHandle, Option<u64>) {
        let mut handle = match self {
            FoundParts::One(handle) => *handle,
            FoundParts::Many(found) => found[at].expect("every name of a window is looked up"),
        };
        match table.resolve(&handle) {
            Resolved::Record(record) if heap.has_key(record, name) => {
                return (handle, Some(record));
            }
            Resolved::Absent => return (handle, None),
            // Another's, or no longer there.
            _ => handle = look_up_one(table, heap, handle.hash(), name),
        }
        match table.resolve(&handle) {
            Resolved::Record(record) => (handle, Some(record)),
            _ => (handle, None),
        }
    }
}

/// Calls `each` with items in windows, as long as it returns `true`.
fn in_windows<T: Copy>(mut all: impl Iterator<Item = T>, mut each: impl FnMut(&[T]) -> bool) {
    let Some(first) = all.next() else { return };
    // Most requests name one, which needs no room for others.
    let Some(second) = all.next() else {
        each(&[first]);
        return;
    };
    let mut group = [first; WINDOW_KEYS];
    let mut all = [first, second].into_iter().chain(all);
    loop {
        let slots = group.iter_mut().zip(&mut all);
        let len = slots.map(|(slot, one)| *slot = one).count();
        if len == 0 || !each(&group[..len]) {
            return;
        }
    }
}

impl Large {
    /// Removes a field or member, found to be this record.
    pub(super) fn remove(&mut self, handle: &EntryHandle, record: u64, heap: &mut Heap) {
        if let Large::Set(_, order) = self {
            let score = score_of(heap.value(record));
            let removed = order.remove(compare(heap, score, heap.key(record)));
            debug_assert!(removed, "a member has its place");
        }
        self.table_mut().remove(handle, heap);
        heap.free(record);
    }
}

impl Db {
    /// Looks up names in a large value: one by itself, more as one group.
    fn find_parts<'n>(
        &mut self,
        number: u32,
        mut names: impl ExactSizeIterator<Item = &'n [u8]>,
    ) -> FoundParts {
        let (table, heap) = (self.store.larges.get(number).table(), &self.store.heap);
        let len = names.len();
        if len == 1 {
            let name = names.next().expect("one name");
            return FoundParts::One(look_up_one(table, heap, heap.hash_of(name), name));
        }
        let mut hashes = [0; WINDOW_KEYS];
        for (hash, name) in hashes.iter_mut().zip(names) {
            *hash = heap.hash_of(name);
        }
        let mut found = vec![None; len].into_boxed_slice();
        let prefetcher = Prefetcher::new(heap, InFlightRecords::default());
        look_up_many(
            table,
            &self.gate,
            &prefetcher,
            &hashes[..len],
            |at, handle| {
                found[at] = Some(handle);
            },
        );
        let (fetched, in_flight) = prefetcher.end();
        in_flight.wait_for_all();
        self.windows.note(len, fetched);
        FoundParts::Many(found)
    }

    /// Tells the values of names in a large value, in their order.
    fn each_part<'n>(
        &mut self,
        entry: LiveEntry,
        names: impl Iterator<Item = &'n [u8]>,
        mut each: impl FnMut(Option<&[u8]>),
    ) {
        let number = self.store.heap.large_number(entry.record);
        in_windows(names, |names| {
            let parts = self.find_parts(number, names.iter().copied());
            let table = self.store.larges.get(number).table();
            for (at, name) in names.iter().enumerate() {
                let (_, record) = parts.at(at, name, table, &self.store.heap);
                each(record.map(|record| self.store.heap.value(record)));
            }
            true
        });
    }

    /// Tells the values of fields, in their order.
    pub fn hash_get_many<'n>(
        &mut self,
        entry: LiveEntry,
        fields: impl Iterator<Item = &'n [u8]>,
        mut each: impl FnMut(Option<&[u8]>),
    ) {
        if self.is_packed(entry) {
            return fields.for_each(|field| each(self.hash_get(entry, field)));
        }
        self.each_part(entry, fields, each);
    }

    /// Tells the scores of members, in their order.
    pub fn zset_scores<'n>(
        &mut self,
        entry: LiveEntry,
        members: impl Iterator<Item = &'n [u8]>,
        mut each: impl FnMut(Option<f64>),
    ) {
        if self.is_packed(entry) {
            return members.for_each(|member| each(self.zset_score(entry, member)));
        }
        self.each_part(entry, members, |value| each(value.map(score_of)));
    }

    /// Sets fields of a large hash; how many of them are new.
    pub(super) fn large_hash_set<'n>(
        &mut self,
        record: u64,
        pairs: impl Iterator<Item = (&'n [u8], &'n [u8])>,
    ) -> Result<usize, MemoryFull> {
        let number = self.store.heap.large_number(record);
        let mut result = Ok(0);
        in_windows(pairs, |pairs| {
            let parts = self.find_parts(number, pairs.iter().map(|(field, _)| *field));
            let (table, heap) = (
                self.store.larges.get_mut(number).table_mut(),
                &mut self.store.heap,
            );
            for (at, (field, value)) in pairs.iter().enumerate() {
                let (mut handle, found) = parts.at(at, field, table, heap);
                let set = match found {
                    Some(record) => heap.resize(record, value.len()).map(|resized| {
                        if resized != record {
                            table.replace(&mut handle, resized);
                        }
                        heap.value_mut(resized).copy_from_slice(value);
                        heap.wrote(resized, 0, heap.header(resized).bytes());
                        0
                    }),
                    None => heap.create_field(field, value).map(|record| {
                        table.insert(handle.hash(), record, 0, heap);
                        1
                    }),
                };
                result = result.and_then(|before: usize| Ok(before + set?));
                if result.is_err() {
                    return false;
                }
            }
            true
        });
        result
    }

    /// Removes fields of a hash, and it with its last one; how many that were.
    pub fn hash_remove_many<'n>(
        &mut self,
        key: &Key<'_>,
        fields: impl Iterator<Item = &'n [u8]>,
    ) -> usize {
        match self.peek(key) {
            Some(entry) if !self.is_packed(entry) => self.remove_parts(entry, fields),
            Some(_) => fields.filter(|field| self.hash_remove(key, field)).count(),
            None => 0,
        }
    }

    /// Removes members of a sorted set, and it with its last one; how many that were.
    pub fn zset_remove_many<'n>(
        &mut self,
        key: &Key<'_>,
        members: impl Iterator<Item = &'n [u8]>,
    ) -> usize {
        match self.peek(key) {
            Some(entry) if !self.is_packed(entry) => self.remove_parts(entry, members),
            Some(_) => members
                .filter(|member| self.zset_remove(key, member))
                .count(),
            None => 0,
        }
    }

    /// Removes names of a large value, and it with its last one; how many that were.
    pub(super) fn remove_parts<'n>(
        &mut self,
        entry: LiveEntry,
        names: impl Iterator<Item = &'n [u8]>,
    ) -> usize {
        let number = self.store.heap.large_number(entry.record);
        let mut removed = 0;
        in_windows(names, |names| {
            let parts = self.find_parts(number, names.iter().copied());
            let large = self.store.larges.get_mut(number);
            for (at, name) in names.iter().enumerate() {
                if let (handle, Some(record)) = parts.at(at, name, large.table(), &self.store.heap)
                {
                    large.remove(&handle, record, &mut self.store.heap);
                    removed += 1;
                }
            }
            true
        });
        if self.store.larges.get(number).table().is_empty() {
            self.remove_entry(entry);
        }
        removed
    }
}
