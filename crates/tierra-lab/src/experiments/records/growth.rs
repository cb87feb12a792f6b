//! Records that grow: fields are added to hashes, to some far more than to others.

use super::WHO;
use super::store::Store;
use crate::error::LabError;
use crate::lab::SEED;
use crate::random::Random;

/// Fields that are added to a record at most: then it is large, each field an object of its own.
const FIELDS_MAX: u16 = 200;
/// How unevenly records grow.
const SKEW: i32 = 3;

/// What was added to each record.
pub(super) struct Growth {
    added: Vec<u16>,
    /// Those added next, and their numbers.
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

    /// Adds as many fields, each to some record.
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

    /// Whether every record has what was added to it.
    pub(super) fn check(&self, store: &mut Store) -> Result<(), LabError> {
        for (record, &added) in self.added.iter().enumerate() {
            if !store.has_fields(record as u64, added)? {
                return Err(super::wrong(WHO, record as u64));
            }
        }
        Ok(())
    }
}
