//! A store of YCSB's records in this process, with a server's windows but without its protocol.

use std::time::{Duration, Instant};

use tierra_data::ycsb::{
    FIELD_BYTES, FIELD_NAMES, FIELDS, Operation, Requests, SCAN_MAX, check_record, fnv,
    write_field, write_name,
};
use tierra_kv::keyspace::{Found, Key, Keyspace, KeyspaceOptions, LiveEntry, Report, Settings};

use super::driver::{Run, Target, drive};
use super::{INDEX, WHO, record_of};
use crate::error::{Context, LabError};

/// Requests of a window.
pub(super) const WINDOW: usize = 16;
/// How often a server runs the background work, with or without requests.
const TICK_EVERY: Duration = Duration::from_millis(100);

/// A store of YCSB's records.
pub(super) struct Store {
    pub(super) keyspace: Keyspace,
    pub(super) records: u64,
    /// Uses of near and of far records when measuring began.
    pub(super) uses_before: (u64, u64),
    version: u64,
    names: Vec<String>,
    found: Vec<Found>,
    scanned: Vec<String>,
    reply: Vec<u8>,
    /// Whether there is an [`INDEX`].
    is_indexed: bool,
    /// The time given to the keyspace.
    now_ms: u64,
    /// If time passes by itself: its start, and the last run of the background work.
    clock: Option<(Instant, Instant)>,
}

impl Store {
    /// An empty store under a policy with that much near memory.
    pub(super) fn new(settings: Settings) -> Result<Store, LabError> {
        let options = KeyspaceOptions {
            settings,
            ..KeyspaceOptions::default()
        };
        Ok(Store {
            keyspace: Keyspace::new(&options).by(WHO, "reserving memory")?,
            records: 0,
            uses_before: (0, 0),
            version: 0,
            names: vec![String::new(); WINDOW],
            found: Vec::with_capacity(WINDOW),
            scanned: Vec::new(),
            reply: Vec::new(),
            is_indexed: false,
            now_ms: 1,
            clock: None,
        })
    }

    /// A store with that many records.
    pub(super) fn load(settings: Settings, records: u64) -> Result<Store, LabError> {
        const TICK_EVERY_RECORDS: u64 = 4096;
        let mut store = Store::new(settings)?;
        while store.records < records {
            store.tick();
            store.insert_up_to(records.min(store.records + TICK_EVERY_RECORDS))?;
        }
        Ok(store)
    }

    /// Adds records, in windows as for all requests, until there are so many.
    pub(super) fn insert_up_to(&mut self, records: u64) -> Result<(), LabError> {
        let mut window = Vec::with_capacity(WINDOW);
        while self.records < records {
            let end = records.min(self.records + WINDOW as u64);
            window.clear();
            window.extend((self.records..end).map(|record| Operation::Insert { record }));
            self.serve_window(&window)?;
            self.records = end;
        }
        Ok(())
    }

    /// Gives the store memory for that many more records, as if that many had been removed. Then inserts do not wait for the
    /// system to find and clear pages.
    pub(super) fn make_room(&mut self, records: u64) -> Result<(), LabError> {
        // Few enough not to matter. So many that in every page of the store, and of the allocator for what lies outside it, one is
        // left: an empty page is returned to the system.
        const KEPT: u64 = 64;
        const FIRST: u64 = 1 << 41;
        let mut name = String::new();
        for record in FIRST..FIRST + records {
            write_name(&mut name, record);
            self.insert(&Key::new(name.as_bytes()), record)?;
        }
        self.remove((FIRST..FIRST + records).filter(|record| !record.is_multiple_of(KEPT)));
        Ok(())
    }

    /// Removes records.
    pub(super) fn remove(&mut self, records: impl Iterator<Item = u64>) {
        let mut name = String::new();
        for record in records {
            write_name(&mut name, record);
            self.keyspace.db(0).remove(&Key::new(name.as_bytes()));
        }
    }

    /// Gives the store the index of its records, for scans.
    pub(super) fn index(&mut self, records: u64) -> Result<(), LabError> {
        let mut name = String::new();
        for record in 0..records {
            write_name(&mut name, record);
            self.add_to_index(record, name.as_bytes())?;
        }
        self.is_indexed = true;
        Ok(())
    }

    fn add_to_index(&mut self, record: u64, name: &[u8]) -> Result<(), LabError> {
        let db = self.keyspace.db(0);
        db.zset_set(&Key::new(INDEX), name, fnv(record) as f64)
            .by(WHO, "indexing")
    }

    /// Removes the index.
    pub(super) fn drop_index(&mut self) {
        self.keyspace.db(0).remove(&Key::new(INDEX));
        self.is_indexed = false;
    }

    fn insert(&mut self, key: &Key<'_>, record: u64) -> Result<(), LabError> {
        let mut contents = [[0; FIELD_BYTES]; FIELD_NAMES.len()];
        for (field, content) in contents.iter_mut().enumerate() {
            write_field(content, record, field, 0);
        }
        let pairs = FIELD_NAMES
            .iter()
            .zip(&contents)
            .map(|(name, content)| (name.as_bytes(), &content[..]));
        let db = self.keyspace.db(0);
        db.hash_set(key, pairs).by(WHO, "inserting a record")?;
        if self.is_indexed {
            self.add_to_index(record, key.bytes)?;
        }
        Ok(())
    }

    /// Runs the background work, as a server does between its waits.
    pub(super) fn tick(&mut self) {
        self.now_ms += 5;
        self.keyspace.set_now(self.now_ms);
        self.keyspace.tick();
    }

    /// From now on time passes by itself, and the background work runs as in a server, ten times a second.
    pub(super) fn start_clock(&mut self) {
        let now = Instant::now();
        self.clock = Some((now, now));
    }

    /// Lets time pass, if it passes by itself. It runs the background work that is due; `true` if there is more.
    pub(super) fn let_time_pass(&mut self) -> bool {
        let Some((started, ticked)) = &mut self.clock else {
            return false;
        };
        let now = Instant::now();
        if now - *ticked < TICK_EVERY {
            return false;
        }
        *ticked = now;
        self.keyspace
            .set_now(self.now_ms + (now - *started).as_millis() as u64);
        self.keyspace.tick()
    }

    /// Waits as a server without requests: runs the background work, while there is some and time is left.
    pub(super) fn idle(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if !self.let_time_pass() && !self.keyspace.tick() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Serves that many requests, in windows, and returns the time.
    pub(super) fn serve(
        &mut self,
        requests: &mut Requests,
        operations: usize,
    ) -> Result<u64, LabError> {
        Ok(self.run(requests, operations)?.time_ns)
    }

    /// Serves that many requests before a measurement. The background work runs once per as many requests as a later turn
    /// has.
    pub(super) fn settle(
        &mut self,
        requests: &mut Requests,
        operations: usize,
        turn: usize,
    ) -> Result<(), LabError> {
        for first in (0..operations).step_by(turn) {
            self.tick();
            self.serve(requests, turn.min(operations - first))?;
        }
        Ok(())
    }

    /// Serves that many requests, in windows, and records the time of each.
    pub(super) fn run(
        &mut self,
        requests: &mut Requests,
        operations: usize,
    ) -> Result<Run, LabError> {
        drive(self, requests, operations)
    }

    /// Looks up the keys of at most [`WINDOW`] records together, then runs an action on each.
    pub(super) fn in_window(
        &mut self,
        records: impl Iterator<Item = u64>,
        mut each: impl FnMut(&mut Store, usize, &Key<'_>) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut names = std::mem::take(&mut self.names);
        let mut found = std::mem::take(&mut self.found);
        let written = names.iter_mut().zip(records);
        let count = written
            .map(|(name, record)| write_name(name, record))
            .count();
        let keys: [&[u8]; WINDOW] = std::array::from_fn(|at| names[at].as_bytes());
        found.clear();
        let db = self.keyspace.db(0);
        db.find_many(&keys[..count], &mut found);
        let carried = keys.iter().zip(&found).enumerate();
        let done = carried.map(|(at, (key, found))| (at, Key::with_found(key, *found)));
        let mut results = done.map(|(at, key)| each(self, at, &key));
        let result = results.try_for_each(|result| result);
        (self.names, self.found) = (names, found);
        result
    }

    fn execute(&mut self, operation: Operation, key: &Key<'_>) -> Result<(), LabError> {
        match operation {
            Operation::Read { record } => self.read(key, record),
            Operation::Update { record, field } => self.update(key, record, field),
            Operation::ReadModifyWrite { record, field } => {
                self.read(key, record)?;
                self.update(key, record, field)
            }
            Operation::Insert { record } => self.insert(key, record),
            Operation::Scan { record, records } => self.scan(record, records as usize),
        }
    }

    fn read(&mut self, key: &Key<'_>, record: u64) -> Result<(), LabError> {
        let db = self.keyspace.db(0);
        let entry = db.find(key).ok_or_else(|| wrong(record))?;
        let reply = &mut self.reply;
        reply.clear();
        let fields = db.hash_iter(entry);
        let copied = fields.inspect(|(_, content)| reply.extend_from_slice(content));
        if check_record(copied, record) {
            Ok(())
        } else {
            Err(wrong(record))
        }
    }

    /// Copies a record of a scan out, as a reply would. Its name does not give its number, so only its length is checked.
    fn reply_with(&mut self, entry: LiveEntry, first: u64) -> Result<(), LabError> {
        let db = self.keyspace.db(0);
        self.reply.clear();
        for (_, content) in db.hash_iter(entry) {
            self.reply.extend_from_slice(content);
        }
        if self.reply.len() == FIELDS * FIELD_BYTES {
            Ok(())
        } else {
            Err(wrong(first))
        }
    }

    fn update(&mut self, key: &Key<'_>, record: u64, field: usize) -> Result<(), LabError> {
        self.version += 1;
        let mut content = [0; FIELD_BYTES];
        write_field(&mut content, record, field, self.version);
        let pair = std::iter::once((FIELD_NAMES[field].as_bytes(), &content[..]));
        self.keyspace
            .db(0)
            .hash_set(key, pair)
            .by(WHO, "updating a record")?;
        Ok(())
    }

    fn scan(&mut self, record: u64, records: usize) -> Result<(), LabError> {
        let db = self.keyspace.db(0);
        let index = db.find(&Key::new(INDEX)).ok_or_else(|| wrong(record))?;
        let first = db.zset_below_score(index, fnv(record) as f64, false);
        let mut names = std::mem::take(&mut self.scanned);
        names.resize(SCAN_MAX as usize, String::new());
        let mut found_names = 0;
        for ((member, _), name) in db.zset_range(index, first..first + records).zip(&mut names) {
            name.clear();
            name.push_str(std::str::from_utf8(member).unwrap_or_default());
            found_names += 1;
        }
        // It begins with the requested record.
        let mut asked = String::new();
        write_name(&mut asked, record);
        if names.first() != Some(&asked) {
            return Err(wrong(record));
        }
        let keys: Vec<&[u8]> = names[..found_names].iter().map(String::as_bytes).collect();
        let mut found = Vec::with_capacity(found_names);
        db.find_many(&keys, &mut found);
        let mut result = Ok(());
        for (key, found) in keys.iter().zip(found) {
            let entry = self
                .keyspace
                .db(0)
                .find(&Key::with_found(key, found))
                .ok_or_else(|| wrong(record))?;
            result = result.and_then(|()| self.reply_with(entry, record));
        }
        self.scanned = names;
        result
    }

    pub(super) fn report(&self) -> Report {
        self.keyspace.report()
    }
}

impl Target for Store {
    fn window(&self) -> usize {
        WINDOW
    }

    fn serve_window(&mut self, window: &[Operation]) -> Result<(), LabError> {
        self.let_time_pass();
        let records = window.iter().map(|&operation| record_of(operation));
        self.in_window(records, |store, at, key| store.execute(window[at], key))
    }
}

fn wrong(record: u64) -> LabError {
    super::wrong(WHO, record)
}
