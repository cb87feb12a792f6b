//! The keys of the databases: found, made, removed, gone through.

use std::collections::VecDeque;

use tierra_index::{Carried, RecordTable, Records, Resolved, Slot};
use tierra_interleave::{Cx, Execution, GroupSize, for_each};
use tierra_memory::{MemoryGate, Speed, in_mode};

use super::DATABASES;
use super::expiry::ExpiryQueue;
use super::hash::scan_table;
use super::heap::Heap;
use super::key::{Found, Key};
use super::large::{Large, Larges};
use super::migration::Migration;
use super::record::Form;
use super::window::{Arriving, Windows};
use crate::random::Random;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// Fields with values.
    Hash,
    /// Members with scores.
    SortedSet,
}

/// What becomes of the time at which a key expires when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It never expires.
    Clear,
    /// It stays what it was.
    Keep,
    /// It expires at this time, in milliseconds since 1970.
    At(u64),
}

/// A live entry, valid until something changes in its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub(super) carried: Carried,
    pub(super) record: u64,
}

/// The keys of one database.
pub(super) struct Table {
    pub(super) records: RecordTable,
    pub(super) expiries: ExpiryQueue,
    /// Keys that expire.
    pub(super) expiring: usize,
}

impl Table {
    fn new(records: RecordTable) -> Table {
        Table {
            records,
            expiries: ExpiryQueue::default(),
            expiring: 0,
        }
    }
}

/// What goes by and by.
enum Leaving {
    /// The fields or members of a large value.
    Value(Large),
    /// The keys of a database, large values among them.
    Keys(RecordTable),
}

impl Leaving {
    fn table(&self) -> &RecordTable {
        match self {
            Leaving::Value(large) => large.table(),
            Leaving::Keys(table) => table,
        }
    }

    fn table_mut(&mut self) -> &mut RecordTable {
        match self {
            Leaving::Value(large) => large.table_mut(),
            Leaving::Keys(table) => table,
        }
    }

    /// The memory that it takes, records not included.
    fn bytes(&self) -> usize {
        match self {
            Leaving::Value(large) => large.bytes(),
            Leaving::Keys(table) => table.bytes(),
        }
    }
}

/// A database, of those that share one memory: the one that was selected.
pub struct Db {
    pub(super) heap: Heap,
    pub(super) tables: [Table; DATABASES],
    pub(super) larges: Larges,
    pub(super) selected: usize,
    /// Raised where everything that was found before is void.
    epoch: u32,
    pub(super) now_ms: u64,
    /// Whether keys whose time has come stay until somebody may remove them: they are not found, and not removed.
    keeps_expired: bool,
    pub(super) migration: Migration,
    pub(super) gate: MemoryGate,
    pub(super) windows: Windows,
    pub(super) arriving: Arriving,
    pub(super) has_window: bool,
    /// What nobody names any more, whose records are freed by and by, and how far the first has come.
    leaving: VecDeque<Leaving>,
    leaving_point: usize,
    /// Bytes of their tables and orders.
    leaving_bytes: usize,
    /// Keys removed because somebody met them when their time had come.
    pub(super) expired: u64,
    /// Where packed values are made anew; kept for its memory.
    pub(super) scratch: Vec<u8>,
}

impl Db {
    /// Databases whose tables are like this one, which is empty.
    pub(super) fn new(heap: Heap, table: RecordTable) -> Db {
        Db {
            heap,
            tables: std::array::from_fn(|_| Table::new(table.empty_like())),
            larges: Larges::default(),
            selected: 0,
            epoch: 0,
            now_ms: 0,
            keeps_expired: false,
            migration: Migration::new(),
            gate: MemoryGate::default(),
            windows: Windows::default(),
            arriving: Arriving::default(),
            has_window: true,
            leaving: VecDeque::new(),
            leaving_point: 0,
            leaving_bytes: 0,
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
        &self.tables[self.selected]
    }

    #[inline(always)]
    pub(super) fn table_mut(&mut self) -> &mut Table {
        &mut self.tables[self.selected]
    }

    #[inline(always)]
    pub(super) fn found(&self, carried: Carried) -> Found {
        Found::new(carried, self.selected, self.epoch)
    }

    /// An empty table in the memory that tables are in.
    pub(super) fn new_table(&self) -> RecordTable {
        self.table().records.empty_like()
    }

    /// How much of [`table_bytes`](Self::table_bytes) is far memory.
    pub(super) fn far_table_bytes(&self) -> u64 {
        let tables = self.tables.iter().map(|table| &table.records);
        let leaving = self.leaving.iter().map(Leaving::table);
        let far = tables.chain(self.larges.tables()).chain(leaving);
        far.map(RecordTable::far_bytes).sum::<usize>() as u64
    }

    pub(super) fn table_bytes(&self) -> u64 {
        let table = |table: &Table| table.records.bytes() + table.expiries.bytes();
        let tables = self.tables.iter().map(table).sum::<usize>();
        (tables + self.larges.bytes() + self.leaving_bytes) as u64
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let memory = &self.heap.memory;
        let [near, far] = [Speed::Near, Speed::Far].map(|speed| memory.used(speed));
        near.held_bytes + far.held_bytes + self.table_bytes()
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        let memory = &self.heap.memory;
        let [near, far] = [Speed::Near, Speed::Far].map(|speed| memory.used(speed));
        near.object_bytes + far.object_bytes + self.table_bytes()
    }

    /// How many keys there are, expired ones that nobody has met since among them.
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

    /// Where a key is, by what is known of it or by looking it up.
    #[inline]
    fn locate(&mut self, key: &Key<'_>) -> (Carried, Resolved) {
        let table = &self.table().records;
        let found = key.found.get();
        if let Some(carried) = found.of(self.selected, self.epoch) {
            let resolved = table.resolve(&carried);
            match resolved {
                Resolved::Record(record) => {
                    self.arriving.wait_for(record);
                    if !found.is_likely() {
                        return (carried, resolved);
                    }
                    if self.heap.has_key(record, key.bytes) {
                        key.found.set(self.found(carried));
                        return (carried, resolved);
                    }
                }
                Resolved::Absent => return (carried, resolved),
                Resolved::Changed => {}
            }
        }
        let hash = found.hash().unwrap_or_else(|| self.heap.hash_of(key.bytes));
        let carried = self.look_up(hash, key.bytes);
        key.found.set(self.found(carried));
        (carried, self.table().records.resolve(&carried))
    }

    fn look_up(&self, hash: u64, key: &[u8]) -> Carried {
        look_up_one(&self.table().records, &self.heap, hash, key)
    }

    /// The live entry of a key, not counted as a use. An expired one is removed when it is met.
    #[inline]
    pub fn peek(&mut self, key: &Key<'_>) -> Option<Entry> {
        let (carried, resolved) = self.locate(key);
        let Resolved::Record(record) = resolved else {
            return None;
        };
        let entry = Entry { carried, record };
        if self.heap.header(record).expires && self.is_due(record) {
            if !self.keeps_expired {
                self.unlink_entry(entry);
                self.expired += 1;
            }
            return None;
        }
        Some(entry)
    }

    pub(super) fn is_due(&self, record: u64) -> bool {
        self.heap.expiry(record).is_some_and(|at| at <= self.now_ms)
    }

    /// The live entry of a key. An expired one is removed when it is met.
    #[inline]
    pub fn find(&mut self, key: &Key<'_>) -> Option<Entry> {
        let mut entry = self.peek(key)?;
        self.use_entry(key, &mut entry, 1);
        Some(entry)
    }

    /// The live entries of several keys, which hold as long as nothing is changed and no other key is found.
    pub fn find_each(&mut self, keys: &[Key<'_>]) -> Vec<Option<Entry>> {
        // Each use may move any record, so entries are asked for when all keys have been used.
        for key in keys {
            self.find(key);
        }
        keys.iter().map(|key| self.peek(key)).collect()
    }

    /// Counts uses of an entry, which may be moved for it.
    #[inline]
    pub(super) fn use_entry(&mut self, key: &Key<'_>, entry: &mut Entry, uses: u32) {
        let table = &mut self.tables[self.selected].records;
        if self.migration.note_use(table, &mut self.heap, entry, uses) {
            key.found.set(self.found(entry.carried));
        }
    }

    /// The type of a value.
    #[inline]
    pub fn kind(&self, entry: Entry) -> Kind {
        self.kind_of(entry.record)
    }

    fn kind_of(&self, record: u64) -> Kind {
        match self.heap.header(record).form {
            Form::Bytes => Kind::String,
            Form::PackedHash => Kind::Hash,
            Form::PackedSet => Kind::SortedSet,
            Form::Large => match self.larges.get(self.heap.large_number(record)) {
                Large::Hash(_) => Kind::Hash,
                Large::Set(..) => Kind::SortedSet,
            },
        }
    }

    pub(super) fn large(&self, entry: Entry) -> &Large {
        self.larges.get(self.heap.large_number(entry.record))
    }

    /// The key of an entry.
    pub fn key_of(&self, entry: Entry) -> &[u8] {
        self.heap.key(entry.record)
    }

    /// Removes a key. False where there is none.
    pub fn remove(&mut self, key: &Key<'_>) -> bool {
        let entry = self.peek(key);
        entry.inspect(|&entry| self.remove_entry(entry)).is_some()
    }

    /// Removes a key at once, and the fields or members of a large value by and by ([`free_some`](Self::free_some)).
    /// False where there is none.
    pub fn unlink(&mut self, key: &Key<'_>) -> bool {
        let entry = self.peek(key);
        entry.inspect(|&entry| self.unlink_entry(entry)).is_some()
    }

    pub(super) fn unlink_entry(&mut self, entry: Entry) {
        /// As many records are freed in the time of some requests.
        const FEW: usize = 1024;
        if self.heap.header(entry.record).form != Form::Large
            || self.large(entry).table().len() <= FEW
        {
            return self.remove_entry(entry);
        }
        self.forget(entry);
        let large = self.larges.take(self.heap.large_number(entry.record));
        self.heap.free(entry.record);
        self.leave(Leaving::Value(large));
    }

    fn leave(&mut self, leaving: Leaving) {
        self.leaving_bytes += leaving.bytes();
        self.leaving.push_back(leaving);
    }

    /// Frees some records of large values that were unlinked, or of keys that were ([`clear_by_and_by`](Self::clear_by_and_by)),
    /// some microseconds' worth. Whether there are more.
    pub fn free_some(&mut self) -> bool {
        const GROUPS: usize = 64;
        let mut named = Vec::new();
        if let Some(leaving) = self.leaving.front_mut() {
            let heap = &mut self.heap;
            let are_keys = matches!(leaving, Leaving::Keys(_));
            let free = |slot: Slot<'_>| {
                let record = slot.record();
                if are_keys && heap.header(record).form == Form::Large {
                    named.push(heap.large_number(record));
                }
                heap.free(record);
            };
            self.leaving_point = leaving.table_mut().visit(self.leaving_point, GROUPS, free);
            if self.leaving_point == 0 {
                self.leaving_bytes -= leaving.bytes();
                self.leaving.pop_front();
            }
        }
        for number in named {
            let large = self.larges.take(number);
            self.leave(Leaving::Value(large));
        }
        self.has_leaving()
    }

    /// Whether there are such records.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    pub(super) fn remove_entry(&mut self, entry: Entry) {
        self.forget(entry);
        self.free(entry.record);
    }

    /// Removes an entry, whose record the caller frees or names again.
    pub(super) fn forget(&mut self, entry: Entry) {
        let table = &mut self.tables[self.selected];
        table.records.remove(&entry.carried, &self.heap);
        if self.heap.header(entry.record).expires {
            table.expiring -= 1;
            self.tidy_expiries();
        }
    }

    /// Frees a record that no table names any more, and what it names.
    pub(super) fn free(&mut self, record: u64) {
        if self.heap.header(record).form == Form::Large {
            for part in self
                .larges
                .take(self.heap.large_number(record))
                .table()
                .iter()
            {
                self.heap.free(part);
            }
        }
        self.heap.free(record);
    }

    /// Adds a record whose key is not there.
    pub(super) fn put(&mut self, key: &Key<'_>, record: u64) -> Entry {
        let hash = key
            .found
            .get()
            .hash()
            .unwrap_or_else(|| self.heap.hash_of(key.bytes));
        let note = self.migration.rounds.birth_heat().bits();
        let expiry = self.heap.expiry(record);
        let table = &mut self.tables[self.selected];
        let carried = table.records.insert(hash, record, note, &self.heap);
        if let Some(at_ms) = expiry {
            table.expiring += 1;
            table.expiries.push((at_ms, hash));
            self.tidy_expiries();
        }
        key.found.set(self.found(carried));
        Entry { carried, record }
    }

    /// Names another record for an entry, whose own is freed by the caller or was moved.
    pub(super) fn replace(&mut self, key: &Key<'_>, entry: &mut Entry, record: u64) {
        if record != entry.record {
            self.table_mut().records.replace(&mut entry.carried, record);
            entry.record = record;
            key.found.set(self.found(entry.carried));
        }
    }

    /// Tells about `count` keys, from a cursor on, and where to go on: 0 once all were told. A key that
    /// is there all the time is told at least once.
    pub fn scan(&mut self, cursor: u64, count: usize, mut each: impl FnMut(&[u8], Kind)) -> u64 {
        scan_table(&self.table().records, &self.heap, cursor, count, |record| {
            if !self.is_due(record) {
                each(self.heap.key(record), self.kind_of(record));
            }
        })
    }

    /// Some key, chosen by a random number.
    pub fn random(&mut self, random: u64) -> Option<Entry> {
        /// Where keys that expired stay, all of those looked at may be such.
        const LOOKS: usize = 100;
        let mut random = Random::seeded(random);
        for look in 0.. {
            let table = &self.table().records;
            let record = table.some(|| random.next())?;
            let key = self.heap.key(record).to_vec();
            // An expired one is removed on the way.
            let entry = self.peek(&Key::new(&key));
            if entry.is_some() || (self.keeps_expired && look >= LOOKS) {
                return entry;
            }
        }
        None
    }

    /// Whether keys whose time has come stay from here on: they are not found, and not removed.
    pub(super) fn keep_expired(&mut self, keeps: bool) {
        self.keeps_expired = keeps;
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        if let Some(table) = self.cleared() {
            table.iter().for_each(|record| self.free(record));
        }
    }

    /// Removes all keys at once, and what they take by and by ([`free_some`](Self::free_some)).
    pub fn clear_by_and_by(&mut self) {
        if let Some(table) = self.cleared() {
            self.leave(Leaving::Keys(table));
        }
    }

    /// Removes all keys. Their table, if records of other databases are among those that it names.
    fn cleared(&mut self) -> Option<RecordTable> {
        let empty = Table::new(self.new_table());
        let table = std::mem::replace(self.table_mut(), empty);
        self.forget_found();
        let are_all = self.tables.iter().all(|table| table.records.is_empty());
        if are_all {
            self.forget_records();
        }
        (!are_all).then_some(table.records)
    }

    /// Removes all keys of all databases.
    pub(super) fn clear_all(&mut self) {
        let empty = self.new_table();
        self.tables = std::array::from_fn(|_| Table::new(empty.empty_like()));
        self.forget_records();
        self.forget_found();
    }

    /// Frees all records, which no table names any more, at once.
    fn forget_records(&mut self) {
        self.heap.memory.clear();
        self.larges = Larges::default();
        self.leaving.clear();
        self.leaving_point = 0;
        self.leaving_bytes = 0;
        self.arriving = Arriving::default();
    }

    /// Bytes taken by a key and its value.
    pub fn memory_usage(&self, entry: Entry) -> usize {
        let own = size_of::<u64>() + self.heap.capacity(entry.record);
        if self.heap.header(entry.record).form != Form::Large {
            return own;
        }
        let large = self.large(entry);
        let parts = large.table().iter().map(|part| self.heap.capacity(part));
        own + large.bytes() + parts.sum::<usize>()
    }

    /// How often an entry is used, as OBJECT FREQ tells it: a logarithm, 0 to 127.
    pub fn heat(&self, entry: Entry) -> u64 {
        u64::from(self.table().records.note(&entry.carried))
    }

    /// Says how often a key is used, as [`heat`](Self::heat) tells it; what is more counts as 127.
    pub fn set_heat(&mut self, key: &Key<'_>, heat: u64) {
        if let Some(entry) = self.peek(key) {
            let note = heat.min(RecordTable::NOTE_MAX.into()) as u8;
            let records = &mut self.table_mut().records;
            records.update_note(&entry.carried, |_| note);
        }
    }

    /// The tier that an entry's record lies in.
    pub fn tier(&self, entry: Entry) -> Speed {
        self.heap.speed(entry.record)
    }
}

/// Where a key of a table is, found by itself.
#[inline]
pub(super) fn look_up_one(table: &RecordTable, heap: &Heap, hash: u64, key: &[u8]) -> Carried {
    let mut found = None;
    in_mode!(Execution::Plain, M => for_each(
        GroupSize::DEFAULT,
        [()],
        |cx: Cx<M>, ()| table.find(cx, hash, key, heap),
        |_, carried| found = Some(carried),
    ));
    found.expect("one lookup, one answer")
}
