//! The keys of the databases: lookup, insertion, removal, scans.

use tierra_index::{EntryHandle, RecordStore, RecordTable, Resolved};
use tierra_memory::{MemoryGate, Speed};

use super::deferred::{Deferred, DeferredFrees};
use super::entry::{Kind, LiveEntry};
use super::heap::Heap;
use super::key::{Found, Key};
use super::large::Larges;
use super::lookup::{look_up_one, scan_table};
use super::migration::Migration;
use super::record::Form;
use super::store::Store;
use super::table::{DATABASES, Table};
use super::window::{InFlightRecords, Prefetcher, WINDOW_KEYS, WindowStats, look_up_many};
use crate::random::Random;

/// What a write counts as in uses: far memory is slower to write than to read.
pub(super) const WRITE_USES: u32 = 2;

/// A database, of those that share one memory: the one that was selected.
pub struct Db {
    pub(super) store: Store,
    pub(super) selected: usize,
    /// Incremented when all earlier lookup results become void.
    epoch: u32,
    pub(super) now_ms: u64,
    /// Whether expired keys stay until they may be removed: they are not found, and not removed.
    keeps_expired: bool,
    pub(super) migration: Migration,
    pub(super) gate: MemoryGate,
    pub(super) windows: WindowStats,
    pub(super) in_flight: InFlightRecords,
    pub(super) has_window: bool,
    pub(super) deferred: DeferredFrees,
    /// Expired keys removed on access.
    pub(super) expired: u64,
    /// A buffer in which packed values are rebuilt; kept for its memory.
    pub(super) scratch: Vec<u8>,
}

impl Db {
    /// Databases whose tables are like this one, which is empty.
    pub(super) fn new(heap: Heap, table: RecordTable) -> Db {
        Db {
            store: Store::new(heap, table),
            selected: 0,
            epoch: 0,
            now_ms: 0,
            keeps_expired: false,
            migration: Migration::new(),
            gate: MemoryGate::default(),
            windows: WindowStats::default(),
            in_flight: InFlightRecords::default(),
            has_window: true,
            deferred: DeferredFrees::default(),
            expired: 0,
            scratch: Vec::new(),
        }
    }

    #[inline(always)]
    pub(super) fn select(&mut self, id: usize) {
        assert!(id < DATABASES, "SELECT refuses others");
        self.selected = id;
    }

    pub(super) fn forget_found(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    #[inline(always)]
    pub(super) fn table(&self) -> &Table {
        &self.store.tables[self.selected]
    }

    #[inline(always)]
    pub(super) fn table_mut(&mut self) -> &mut Table {
        &mut self.store.tables[self.selected]
    }

    #[inline(always)]
    pub(super) fn found(&self, handle: EntryHandle) -> Found {
        Found::new(handle, self.selected, self.epoch)
    }

    /// An empty table in the memory that tables are in.
    pub(super) fn new_table(&self) -> RecordTable {
        self.table().records.empty_like()
    }

    /// How much of [`table_bytes`](Self::table_bytes) is far memory.
    pub(super) fn far_table_bytes(&self) -> u64 {
        let far = self.store.all_tables().chain(self.deferred.tables());
        far.map(RecordTable::far_bytes).sum::<usize>() as u64
    }

    pub(super) fn table_bytes(&self) -> u64 {
        (self.store.table_bytes() + self.deferred.bytes()) as u64
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.store.held_bytes() + self.table_bytes()
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        self.store.object_bytes() + self.table_bytes()
    }

    /// The number of keys, including expired ones that have not been accessed since.
    pub fn len(&self) -> usize {
        self.table().records.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.table().records.is_empty()
    }

    /// How many keys will expire.
    pub fn expiring(&self) -> usize {
        self.table().expiring
    }

    /// The location of a key, by its last lookup if that is still valid, or by a new one.
    #[inline]
    fn locate(&mut self, key: &Key<'_>) -> (EntryHandle, Resolved) {
        let table = &self.table().records;
        let found = key.found.get();
        if let Some(handle) = found.of(self.selected, self.epoch) {
            let resolved = table.resolve(&handle);
            match resolved {
                Resolved::Record(record) => {
                    self.in_flight.wait_for(record);
                    if !found.is_tag_match() {
                        return (handle, resolved);
                    }
                    if self.store.heap.has_key(record, key.bytes) {
                        key.found.set(self.found(handle));
                        return (handle, resolved);
                    }
                }
                Resolved::Absent => return (handle, resolved),
                Resolved::Changed => {}
            }
        }
        let hash = found
            .hash()
            .unwrap_or_else(|| self.store.heap.hash_of(key.bytes));
        let handle = look_up_one(&self.table().records, &self.store.heap, hash, key.bytes);
        key.found.set(self.found(handle));
        (handle, self.table().records.resolve(&handle))
    }

    /// Looks up at most [`WINDOW_KEYS`] keys as one group, fetches their records, and pushes
    /// what it found of each.
    pub fn find_many(&mut self, keys: &[&[u8]], found: &mut Vec<Found>) {
        assert!(
            keys.len() <= WINDOW_KEYS,
            "a window takes {WINDOW_KEYS} keys"
        );
        self.migration.before_window(&mut self.store, keys.len());
        let first = found.len();
        found.resize(first + keys.len(), Found::UNKNOWN);
        if keys.len() < 2 || !self.has_window {
            self.migration.continue_prefetch(&self.store.heap);
            return;
        }
        let mut hashes = [0; WINDOW_KEYS];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.store.heap.hash_of(key);
        }
        // Records of the last window that were not used will not be.
        self.in_flight.discard();
        let prefetcher = Prefetcher::new(&self.store.heap, std::mem::take(&mut self.in_flight));
        let table = &self.table().records;
        let (found, hashes) = (&mut found[first..], &hashes[..keys.len()]);
        look_up_many(table, &self.gate, &prefetcher, hashes, |at, handle| {
            found[at] = self.found(handle).by_tag();
        });
        let fetched;
        (fetched, self.in_flight) = prefetcher.end();
        self.windows.note(keys.len(), fetched);
        self.migration.continue_prefetch(&self.store.heap);
    }

    /// The periodic background work. Returns whether there is more to do.
    pub(super) fn tick(&mut self) -> bool {
        let heap = &mut self.store.heap;
        heap.chooser.check(self.now_ms, &heap.memory);
        self.migration.tick(&mut self.store)
    }

    /// The live entry of a key, not counted as a use. An expired one is removed.
    #[inline]
    pub fn peek(&mut self, key: &Key<'_>) -> Option<LiveEntry> {
        let (handle, resolved) = self.locate(key);
        let Resolved::Record(record) = resolved else {
            return None;
        };
        let entry = LiveEntry { handle, record };
        if self.store.heap.header(record).expires && self.is_due(record) {
            if !self.keeps_expired {
                self.unlink_entry(entry);
                self.expired += 1;
            }
            return None;
        }
        Some(entry)
    }

    pub(super) fn is_due(&self, record: u64) -> bool {
        self.store
            .heap
            .expiry(record)
            .is_some_and(|at| at <= self.now_ms)
    }

    /// The live entry of a key. An expired one is removed.
    #[inline]
    pub fn find(&mut self, key: &Key<'_>) -> Option<LiveEntry> {
        let mut entry = self.peek(key)?;
        self.use_entry(key, &mut entry, 1);
        Some(entry)
    }

    /// The live entries of several keys, valid as long as nothing is changed and no other key is found.
    pub fn find_each(&mut self, keys: &[Key<'_>]) -> Vec<Option<LiveEntry>> {
        // Each use may move any record, so entries are read after all keys have been used.
        for key in keys {
            self.find(key);
        }
        keys.iter().map(|key| self.peek(key)).collect()
    }

    /// Counts uses of an entry, which may be moved for it.
    #[inline]
    pub(super) fn use_entry(&mut self, key: &Key<'_>, entry: &mut LiveEntry, uses: u32) {
        let table = &mut self.store.tables[self.selected].records;
        if self
            .migration
            .mover
            .note_use(table, &mut self.store.heap, entry, uses)
        {
            key.found.set(self.found(entry.handle));
        }
    }

    /// The type of a value.
    #[inline]
    pub fn kind(&self, entry: LiveEntry) -> Kind {
        self.store.kind(entry.record)
    }

    /// The key of an entry.
    pub fn key_of(&self, entry: LiveEntry) -> &[u8] {
        self.store.heap.key(entry.record)
    }

    /// Removes a key. False where there is none.
    pub fn remove(&mut self, key: &Key<'_>) -> bool {
        let entry = self.peek(key);
        entry.inspect(|&entry| self.remove_entry(entry)).is_some()
    }

    /// Removes a key at once; the fields or members of a large value are freed later ([`free_some`](Self::free_some)).
    /// False where there is none.
    pub fn unlink(&mut self, key: &Key<'_>) -> bool {
        let entry = self.peek(key);
        entry.inspect(|&entry| self.unlink_entry(entry)).is_some()
    }

    pub(super) fn unlink_entry(&mut self, entry: LiveEntry) {
        /// As many records are freed in the time of some requests.
        const FEW: usize = 1024;
        if self.store.heap.header(entry.record).form != Form::Large
            || self.store.large(entry).table().len() <= FEW
        {
            return self.remove_entry(entry);
        }
        self.forget(entry);
        let large = self
            .store
            .larges
            .take(self.store.heap.large_number(entry.record));
        self.store.heap.free(entry.record);
        self.deferred.push(Deferred::Value(large));
    }

    /// Frees some records of large values that were unlinked, or of keys that were ([`clear_deferred`](Self::clear_deferred)),
    /// some microseconds' worth. Whether there are more.
    pub fn free_some(&mut self) -> bool {
        self.deferred.free_some(&mut self.store)
    }

    pub(super) fn remove_entry(&mut self, entry: LiveEntry) {
        self.forget(entry);
        self.store.free(entry.record);
    }

    /// Removes an entry, whose record the caller frees or reuses.
    pub(super) fn forget(&mut self, entry: LiveEntry) {
        let table = &mut self.store.tables[self.selected];
        table.records.remove(&entry.handle, &self.store.heap);
        if self.store.heap.header(entry.record).expires {
            table.expiring -= 1;
            self.prune_expiries();
        }
    }

    /// Adds a record whose key is absent.
    pub(super) fn put(&mut self, key: &Key<'_>, record: u64) -> LiveEntry {
        let hash = key
            .found
            .get()
            .hash()
            .unwrap_or_else(|| self.store.heap.hash_of(key.bytes));
        let note = self.migration.mover.rounds.initial_heat().bits();
        let expiry = self.store.heap.expiry(record);
        let table = &mut self.store.tables[self.selected];
        let handle = table.records.insert(hash, record, note, &self.store.heap);
        if let Some(at_ms) = expiry {
            table.expiring += 1;
            table.expiries.push((at_ms, hash));
            self.prune_expiries();
        }
        key.found.set(self.found(handle));
        LiveEntry { handle, record }
    }

    /// Replaces the record of an entry; the old one is freed by the caller or was moved.
    pub(super) fn replace(&mut self, key: &Key<'_>, entry: &mut LiveEntry, record: u64) {
        if record != entry.record {
            self.table_mut().records.replace(&mut entry.handle, record);
            entry.record = record;
            key.found.set(self.found(entry.handle));
        }
    }

    /// Calls back for about `count` keys, from a cursor on, and returns the next cursor: 0 at the end. A key that
    /// is there all the time is returned at least once.
    pub fn scan(&mut self, cursor: u64, count: usize, mut each: impl FnMut(&[u8], Kind)) -> u64 {
        scan_table(
            &self.table().records,
            &self.store.heap,
            cursor,
            count,
            |record| {
                if !self.is_due(record) {
                    each(self.store.heap.key(record), self.store.kind(record));
                }
            },
        )
    }

    /// Some key, chosen by a random number.
    pub fn random(&mut self, random: u64) -> Option<LiveEntry> {
        /// While expired keys are kept, all sampled keys may be expired.
        const LOOKS: usize = 100;
        let mut random = Random::seeded(random);
        for look in 0.. {
            let table = &self.table().records;
            let record = table.some(|| random.next())?;
            let key = self.store.heap.key(record).to_vec();
            // An expired one is removed on the way.
            let entry = self.peek(&Key::new(&key));
            if entry.is_some() || (self.keeps_expired && look >= LOOKS) {
                return entry;
            }
        }
        None
    }

    /// Whether expired keys are kept from here on: they are not found, and not removed.
    pub(super) fn keep_expired(&mut self, keeps: bool) {
        self.keeps_expired = keeps;
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        if let Some(table) = self.cleared() {
            table.iter().for_each(|record| self.store.free(record));
        }
    }

    /// Removes all keys at once; their memory is freed later ([`free_some`](Self::free_some)).
    pub fn clear_deferred(&mut self) {
        if let Some(table) = self.cleared() {
            self.deferred.push(Deferred::Keys(table));
        }
    }

    /// Removes all keys. Returns their table, unless all records could be freed at once.
    fn cleared(&mut self) -> Option<RecordTable> {
        let empty = Table::new(self.new_table());
        let table = std::mem::replace(self.table_mut(), empty);
        self.forget_found();
        let are_all = self
            .store
            .tables
            .iter()
            .all(|table| table.records.is_empty());
        if are_all {
            self.forget_records();
        }
        (!are_all).then_some(table.records)
    }

    /// Removes all keys of all databases.
    pub(super) fn clear_all(&mut self) {
        self.store.tables = Table::all_like(&self.new_table());
        self.forget_records();
        self.forget_found();
    }

    /// Frees all records, which no table names any more, at once.
    fn forget_records(&mut self) {
        self.store.heap.memory.clear();
        self.store.larges = Larges::default();
        self.deferred = DeferredFrees::default();
        self.in_flight = InFlightRecords::default();
    }

    /// Bytes taken by a key and its value.
    pub fn memory_usage(&self, entry: LiveEntry) -> usize {
        self.store.memory_usage(entry)
    }

    /// How often an entry is used, as OBJECT FREQ reports it: a logarithm, 0 to 127.
    pub fn heat(&self, entry: LiveEntry) -> u64 {
        u64::from(self.table().records.note(&entry.handle))
    }

    /// Sets how often a key is used, as [`heat`](Self::heat) returns it; more counts as 127.
    pub fn set_heat(&mut self, key: &Key<'_>, heat: u64) {
        if let Some(entry) = self.peek(key) {
            let note = heat.min(RecordTable::NOTE_MAX.into()) as u8;
            let records = &mut self.table_mut().records;
            records.update_note(&entry.handle, |_| note);
        }
    }

    /// The tier that an entry's record lies in.
    pub fn tier(&self, entry: LiveEntry) -> Speed {
        self.store.heap.speed(entry.record)
    }
}
