//! Records that grow: fields are added to hashes, far more to some than to others.

use tierra_data::ycsb::{FIELD_BYTES, FIELDS, check_field, check_record, write_field, write_name};
use tierra_kv::keyspace::Key;

use super::store::{Store, WINDOW};
use super::{WHO, wrong};
use crate::error::{Context, LabError};
use crate::lab::SEED;
use crate::random::Random;

/// The most fields added to a record. Then it is large, and each field is an object of its own.
const FIELDS_MAX: u16 = 200;
/// A bit that distinguishes added fields from YCSB's.
const ADDED: u64 = 1 << 40;
/// How unevenly records grow.
const SKEW: i32 = 3;

/// The fields added to each record.
pub(super) struct Growth {
    added: Vec<u16>,
    /// The records that grow next, and the numbers of their fields.
    next: Vec<(u64, u16)>,
    random: Random,
}

impl Growth {
    /// Nothing has been added.
    pub(super) fn of(records: u64) -> Growth {
        Growth {
            added: vec![0; records as usize],
            next: Vec::new(),
            random: Random::new(SEED),
        }
    }

    /// Adds that many fields, each to some record.
    pub(super) fn add_fields(&mut self, store: &mut Store, fields: u64) -> Result<(), LabError> {
        self.next.clear();
        for _ in 0..fields {
            let place = self.random.fraction().powi(SKEW) * self.added.len() as f64;
            let record = (place as usize).min(self.added.len() - 1);
            if self.added[record] < FIELDS_MAX {
                self.next.push((record as u64, self.added[record]));
                self.added[record] += 1;
            }
        }
        store.add_fields(&self.next)
    }

    /// Checks that every record has the fields added to it.
    pub(super) fn check(&self, store: &mut Store) -> Result<(), LabError> {
        for (record, &added) in self.added.iter().enumerate() {
            if !store.has_fields(record as u64, added)? {
                return Err(wrong(WHO, record as u64));
            }
        }
        Ok(())
    }
}

impl Store {
    /// Adds fields to records beside those of YCSB, in windows; `fields` are records and field numbers.
    fn add_fields(&mut self, fields: &[(u64, u16)]) -> Result<(), LabError> {
        self.let_time_pass();
        for window in fields.chunks(WINDOW) {
            let records = window.iter().map(|&(record, _)| record);
            self.in_window(records, |store, at, key| {
                let (record, number) = window[at];
                let field = format!("added{number}");
                let mut content = [0; FIELD_BYTES];
                write_field(&mut content, record | ADDED, usize::from(number), 0);
                let pair = std::iter::once((field.as_bytes(), &content[..]));
                let db = store.keyspace.db(0);
                db.hash_set(key, pair).by(WHO, "adding a field")?;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whether a record has YCSB's fields and the `added` ones, all with the right content, and no others.
    fn has_fields(&mut self, record: u64, added: u16) -> Result<bool, LabError> {
        let mut name = String::new();
        write_name(&mut name, record);
        let db = self.keyspace.db(0);
        let key = Key::new(name.as_bytes());
        let entry = db.find(&key).ok_or_else(|| wrong(WHO, record))?;
        let is_added = |name: &[u8]| name.starts_with(b"added");
        let own = db.hash_iter(entry).filter(|(name, _)| !is_added(name));
        let are_right = (0..added).all(|number| {
            let content = db.hash_get(entry, format!("added{number}").as_bytes());
            content.is_some_and(|content| check_field(content, record | ADDED, usize::from(number)))
        });
        let count = FIELDS + usize::from(added);
        Ok(are_right && db.hash_len(entry) == count && check_record(own, record))
    }
}
