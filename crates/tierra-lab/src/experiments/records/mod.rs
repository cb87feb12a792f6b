//! Records in two tiers: the placement study (Antão et al.) on Tierra's own store, in process.
//!
//! YCSB's records, a hash of ten fields of a hundred bytes each. Requests come in windows of sixteen, as a client
//! that pipelines sends them: their keys are looked up together, then each is executed, every field read
//! is checked and copied out. Far memory is emulated Optane.

mod dynamic;
mod peers;
mod shift;
mod window;

pub(super) use dynamic::YcsbDynamic;
pub(super) use peers::KvPeers;
pub(super) use shift::KvShift;
pub(super) use window::KvWindow;

use std::time::Instant;

use tierra_data::ycsb::{
    FIELD_BYTES, FIELD_NAMES, Operation, Requests, SCAN_MAX, check_field, fnv, write_field,
    write_name,
};
use tierra_kv::keyspace::{Entry, Key, Keyspace, Options, Report, Settings};

use crate::error::{Context, LabError};

/// Who works, for messages.
const WHO: &str = "Tierra";
/// Requests of a window.
const WINDOW: usize = 16;
/// The sorted set that knows the order of records, for scans.
const INDEX: &[u8] = b"_indices";

/// A store of YCSB's records.
struct Store {
    keyspace: Keyspace,
    records: u64,
    /// Uses of near and of far records when measuring began.
    uses_before: (u64, u64),
    version: u64,
    names: Vec<String>,
    scanned: Vec<String>,
    reply: Vec<u8>,
    /// Whether there is an [`INDEX`].
    is_indexed: bool,
    /// The clock that the keyspace is told.
    now_ms: u64,
}

impl Store {
    /// As many records, made under a policy with as much near memory.
    fn load(settings: Settings, records: u64) -> Result<Store, LabError> {
        let options = Options {
            settings,
            ..Options::default()
        };
        let mut store = Store {
            keyspace: Keyspace::new(&options).by(WHO, "reserving memory")?,
            records,
            uses_before: (0, 0),
            version: 0,
            names: vec![String::new(); WINDOW],
            scanned: Vec::new(),
            reply: Vec::new(),
            is_indexed: false,
            now_ms: 1,
        };
        let mut name = String::new();
        for record in 0..records {
            write_name(&mut name, record);
            store.insert(record, &name)?;
            if record % 4096 == 0 {
                store.tick();
            }
        }
        Ok(store)
    }

    /// Gives the store the order of its records, for scans.
    fn index(&mut self, records: u64) -> Result<(), LabError> {
        let mut name = String::new();
        for record in 0..records {
            write_name(&mut name, record);
            self.add_to_index(record, &name)?;
        }
        self.is_indexed = true;
        Ok(())
    }

    fn add_to_index(&mut self, record: u64, name: &str) -> Result<(), LabError> {
        let db = self.keyspace.db(0);
        db.zset_set(&Key::new(INDEX), name.as_bytes(), fnv(record) as f64)
            .by(WHO, "indexing")
    }

    /// Takes the order away again.
    fn drop_index(&mut self) {
        self.keyspace.db(0).remove(&Key::new(INDEX));
        self.is_indexed = false;
    }

    fn insert(&mut self, record: u64, name: &str) -> Result<(), LabError> {
        let mut contents = [[0; FIELD_BYTES]; FIELD_NAMES.len()];
        for (field, content) in contents.iter_mut().enumerate() {
            write_field(content, record, field, 0);
        }
        let pairs = FIELD_NAMES
            .iter()
            .zip(&contents)
            .map(|(name, content)| (name.as_bytes(), &content[..]));
        let db = self.keyspace.db(0);
        db.hash_set(&Key::new(name.as_bytes()), pairs)
            .by(WHO, "inserting a record")?;
        if self.is_indexed {
            self.add_to_index(record, name)?;
        }
        Ok(())
    }

    /// Lets the background have its turn, as a server does between its waits.
    fn tick(&mut self) {
        self.now_ms += 5;
        self.keyspace.set_now(self.now_ms);
        self.keyspace.tick();
    }

    /// Serves as many requests, in windows; the time it took.
    fn serve(&mut self, requests: &mut Requests, operations: usize) -> Result<u64, LabError> {
        let start = Instant::now();
        let mut left = operations;
        let mut window = Vec::with_capacity(WINDOW);
        let mut found = Vec::with_capacity(WINDOW);
        while left > 0 {
            window.clear();
            window.extend((0..WINDOW.min(left)).map(|_| requests.next()));
            left -= window.len();
            let mut names = std::mem::take(&mut self.names);
            for (name, operation) in names.iter_mut().zip(&window) {
                write_name(name, record_of(*operation));
            }
            let keys: [&[u8]; WINDOW] = std::array::from_fn(|at| names[at].as_bytes());
            found.clear();
            self.keyspace
                .db(0)
                .find_many(&keys[..window.len()], &mut found);
            let mut served = Ok(());
            for ((operation, name), found) in window.iter().zip(&names).zip(&found) {
                let key = Key::carried(name.as_bytes(), *found);
                served = served.and_then(|()| self.execute(*operation, &key, name));
            }
            self.names = names;
            served?;
        }
        Ok(start.elapsed().as_nanos() as u64)
    }

    fn execute(&mut self, operation: Operation, key: &Key<'_>, name: &str) -> Result<(), LabError> {
        match operation {
            Operation::Read { record } => self.read(key, record),
            Operation::Update { record, field } => self.update(key, record, field),
            Operation::ReadModifyWrite { record, field } => {
                self.read(key, record)?;
                self.update(key, record, field)
            }
            Operation::Insert { record } => self.insert(record, name),
            Operation::Scan { record, records } => self.scan(record, records as usize),
        }
    }

    fn read(&mut self, key: &Key<'_>, record: u64) -> Result<(), LabError> {
        let db = self.keyspace.db(0);
        let entry = db.find(key).ok_or_else(|| wrong(record))?;
        self.reply_with(entry, Some(record))
    }

    /// Copies a record out, as a reply would; checks it if it is known whose it is.
    fn reply_with(&mut self, entry: Entry, record: Option<u64>) -> Result<(), LabError> {
        let db = self.keyspace.db(0);
        self.reply.clear();
        let mut fields = 0;
        for (field, (_, content)) in db.hash_iter(entry).enumerate() {
            if record.is_some_and(|record| !check_field(content, record, field)) {
                return Err(wrong(record.unwrap_or_default()));
            }
            self.reply.extend_from_slice(content);
            fields += 1;
        }
        if fields == FIELD_NAMES.len() {
            Ok(())
        } else {
            Err(wrong(record.unwrap_or_default()))
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
        let keys: Vec<&[u8]> = names[..found_names].iter().map(String::as_bytes).collect();
        let mut found = Vec::with_capacity(found_names);
        db.find_many(&keys, &mut found);
        let mut result = Ok(());
        for (key, found) in keys.iter().zip(found) {
            let entry = self
                .keyspace
                .db(0)
                .find(&Key::carried(key, found))
                .ok_or_else(|| wrong(record))?;
            result = result.and_then(|()| self.reply_with(entry, None));
        }
        self.scanned = names;
        result
    }

    fn report(&self) -> Report {
        self.keyspace.report()
    }
}

fn record_of(operation: Operation) -> u64 {
    match operation {
        Operation::Read { record }
        | Operation::Update { record, .. }
        | Operation::Insert { record }
        | Operation::Scan { record, .. }
        | Operation::ReadModifyWrite { record, .. } => record,
    }
}

fn wrong(record: u64) -> LabError {
    LabError::WrongAnswer {
        who: WHO.to_owned(),
        what: format!("record {record}"),
    }
}
