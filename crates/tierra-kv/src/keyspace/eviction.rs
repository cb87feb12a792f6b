//! Eviction of keys when more is stored than `maxmemory` allows.
//!
//! As in Redis a few keys are sampled, and the worst of them is evicted; the samples come from elsewhere. Samples of all keys
//! are those of some groups of a table, whose cache lines have each key's heat: no record is read but the evicted one. A group
//! is chosen in proportion to the keys it holds. With equal probability, keys would be added to all groups alike and evicted from
//! all alike, so that some groups would lose all but their hot keys, and then those: 75 of 300 in 100,000 evictions of a
//! simulation. Keys with an expiry are sampled from the queue of expiries, at some distance from each other and cyclically. The
//! first of the queue is the one that `volatile-ttl` evicts, without sampling.
//!
//! There is no room for a clock in an entry, so that `lru` and `lfu` both go by heat ([`Heat`](tierra_memory::placement::Heat)): uses
//! that count half as much after some rounds of the hand that halves them, one for `lru`, eight for `lfu`. A round takes as many uses and
//! evictions as there are keys, more or less.

use tierra_index::EntryHandle;

use super::Keyspace;
use super::db::Db;
use super::entry::LiveEntry;
use super::record::Form;
use super::store::Store;
use super::table::{DATABASES, Table};
use crate::random::Random;

/// The most work of one call of [`Keyspace::evict`], in evictions of small values: about half a millisecond.
const WORK_MAX: usize = 512;
/// The work of freeing some of a large value, or as many elements.
const FREEING_WORK: usize = 32;
const ELEMENTS_PER_WORK: usize = 32;
/// As many samples count as one more unit of work.
const SAMPLES_PER_WORK: usize = 16;
/// The most keys, and groups of a table, sampled for one eviction.
const SAMPLES_MAX: usize = 64;
const GROUPS_MAX: usize = 16;
/// One group may have lost all but its hot keys.
const GROUPS_MIN: usize = 2;
/// The most entries of the queue of expiries that are skipped between two samples, plus one.
const SKIPPED_MAX: usize = 16;
/// Up to two thirds of the queue of expiries may be of keys that are gone: they are no samples.
const LOOKS_PER_SAMPLE: usize = 8;

/// The values of `maxmemory-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// No key is evicted.
    #[default]
    None,
    /// The least recently used, of all keys.
    AllLru,
    /// The least frequently used, of all keys.
    AllLfu,
    /// Any key.
    AllRandom,
    /// The least recently used, of the keys with an expiry.
    VolatileLru,
    /// The least frequently used, of the keys with an expiry.
    VolatileLfu,
    /// Any key with an expiry.
    VolatileRandom,
    /// The key that expires first.
    VolatileTtl,
}

impl Eviction {
    /// All of them with their names, in Redis's order.
    pub const NAMES: [(&'static str, Eviction); 8] = [
        ("volatile-lru", Eviction::VolatileLru),
        ("volatile-lfu", Eviction::VolatileLfu),
        ("volatile-random", Eviction::VolatileRandom),
        ("volatile-ttl", Eviction::VolatileTtl),
        ("allkeys-lru", Eviction::AllLru),
        ("allkeys-lfu", Eviction::AllLfu),
        ("allkeys-random", Eviction::AllRandom),
        ("noeviction", Eviction::None),
    ];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, policy)| *policy == self);
        named.expect("each has a name").0
    }

    /// Whether uses are counted for long.
    pub fn is_lfu(self) -> bool {
        matches!(self, Eviction::AllLfu | Eviction::VolatileLfu)
    }

    /// The rounds after which uses have to count half as much; `None` if uses do not matter.
    pub(super) fn rounds_to_age(self) -> Option<u32> {
        match self {
            Eviction::AllLru | Eviction::VolatileLru => Some(1),
            Eviction::AllLfu | Eviction::VolatileLfu => Some(8),
            _ => None,
        }
    }
}

/// Whether there is room after an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The store is within its limit.
    Enough,
    /// Some room was made, and more can be: call again.
    Some,
    /// Nothing can be evicted.
    None,
}

/// A candidate: the one with the lowest rank is evicted.
struct Candidate {
    rank: u64,
    database: usize,
    entry: LiveEntry,
}

impl Candidate {
    /// Of entries that are as hot a random number decides: entries at one end of a group are often the youngest.
    fn rank(heat: u8, random: u64) -> u64 {
        u64::from(heat) << 32 | random >> 32
    }
}

impl Keyspace {
    /// Says which keys will go, so that what that takes is counted.
    pub fn set_eviction(&mut self, policy: Eviction) {
        let rounds = &mut self.db.migration.mover.rounds;
        rounds.set_eviction_aging(policy.rounds_to_age());
    }

    /// Evicts keys while more than `max_bytes` are stored, a bounded number; large values are freed later, and what is left of one
    /// is freed before another key is evicted. For each, `samples` keys are sampled by a random number. Returns the number evicted, and
    /// whether there is room now.
    pub fn evict(
        &mut self,
        policy: Eviction,
        samples: usize,
        max_bytes: u64,
        random: u64,
    ) -> (u64, Room) {
        let mut numbers = Random::seeded(random);
        let mut random = || numbers.next();
        let (mut evicted, mut work) = (0, 0);
        while self.stored_bytes() > max_bytes {
            if policy == Eviction::None {
                return (evicted, Room::None);
            }
            if work >= WORK_MAX {
                return (evicted, Room::Some);
            }
            if self.db.deferred.has_some() {
                self.db.free_some();
                work += FREEING_WORK;
                continue;
            }
            work += 1 + samples.min(SAMPLES_MAX) / SAMPLES_PER_WORK;
            match self.db.store.choose(policy, samples, &mut random) {
                Choice::Key(candidate) => {
                    work += self.db.evict_key(&candidate) / ELEMENTS_PER_WORK;
                    evicted += 1;
                }
                Choice::Stale => {}
                Choice::None => return (evicted, Room::None),
            }
        }
        (evicted, Room::Enough)
    }
}

enum Choice {
    Key(Candidate),
    /// All samples were of keys that are gone: another try will find others.
    Stale,
    /// There is no such key.
    None,
}

impl Db {
    /// Removes a key. Returns the number of elements freed for it.
    fn evict_key(&mut self, candidate: &Candidate) -> usize {
        self.select(candidate.database);
        let entry = candidate.entry;
        let elements = match self.store.heap.header(entry.record).form {
            Form::Large => self.store.large(entry).table().len(),
            _ => 0,
        };
        self.unlink_entry(entry);
        self.migration.mover.rounds.note_eviction();
        if self.deferred.has_some() {
            0
        } else {
            elements
        }
    }
}

impl Store {
    fn choose(
        &mut self,
        policy: Eviction,
        samples: usize,
        random: &mut impl FnMut() -> u64,
    ) -> Choice {
        let samples = samples.clamp(1, SAMPLES_MAX);
        match policy {
            Eviction::None => Choice::None,
            Eviction::AllLru | Eviction::AllLfu => self.choose_cold(samples, random),
            Eviction::AllRandom => self.choose_any(random),
            Eviction::VolatileLru | Eviction::VolatileLfu => self.choose_expiring(samples, random),
            Eviction::VolatileRandom => self.choose_expiring(1, random),
            Eviction::VolatileTtl => self.choose_first(),
        }
    }

    /// A database, the more likely the more it has of what is counted; none where none has any.
    fn some_database(&self, count: impl Fn(&Table) -> usize, random: u64) -> Option<usize> {
        let total: usize = self.tables.iter().map(&count).sum();
        let mut at = random as usize % Some(total).filter(|&total| total > 0)?;
        (0..DATABASES).find(|&database| {
            let here = count(&self.tables[database]);
            let is_here = at < here;
            at = at.saturating_sub(here);
            is_here
        })
    }

    /// Any key.
    fn choose_any(&self, random: &mut impl FnMut() -> u64) -> Choice {
        let database = self.some_database(|table| table.records.len(), random());
        let record = database.and_then(|database| {
            let record = self.tables[database].records.some(&mut *random)?;
            Some((database, record))
        });
        match record {
            Some((database, record)) => Choice::Key(self.candidate(0, database, record)),
            None => Choice::None,
        }
    }

    /// The coldest key of some groups that are neighbours.
    fn choose_cold(&mut self, samples: usize, random: &mut impl FnMut() -> u64) -> Choice {
        let Some(database) = self.some_database(|table| table.records.len(), random()) else {
            return Choice::None;
        };
        let records = &mut self.tables[database].records;
        // Of an entry, not of a group: groups that hold much lose the most, or some would lose all but their hot keys.
        let mut point = records.some_point(&mut *random).expect("it has a key");
        let (mut seen, mut groups) = (0, 0);
        let mut best: Option<(u64, u64)> = None;
        while groups < GROUPS_MIN || (seen < samples && groups < GROUPS_MAX) {
            point = records.visit(point, 1, |slot| {
                let rank = Candidate::rank(slot.note(), random());
                if best.is_none_or(|best| rank < best.0) {
                    best = Some((rank, slot.record()));
                }
                seen += 1;
            });
            groups += 1;
        }
        let (rank, record) = best.expect("the first group has an entry");
        Choice::Key(self.candidate(rank, database, record))
    }

    /// A record of a table with its entry.
    fn candidate(&self, rank: u64, database: usize, record: u64) -> Candidate {
        let (records, heap) = (&self.tables[database].records, &self.heap);
        let hash = heap.hash_of(heap.key(record));
        let (handle, record) = records
            .find_hash(hash, heap, |other| other == record)
            .expect("the table has just named it");
        Candidate {
            rank,
            database,
            entry: LiveEntry { handle, record },
        }
    }

    /// The coldest of some keys that expire.
    fn choose_expiring(&mut self, samples: usize, random: &mut impl FnMut() -> u64) -> Choice {
        let mut best: Option<Candidate> = None;
        let (mut seen, mut looks) = (0, 0);
        while seen < samples && looks < LOOKS_PER_SAMPLE * samples {
            looks += 1;
            let Some(database) = self.some_database(|table| table.expiring, random()) else {
                return Choice::None;
            };
            let table = &mut self.tables[database];
            let Some(due) = table.expiries.next(random() as usize % SKIPPED_MAX) else {
                return Choice::None;
            };
            let (at_ms, hash) = due;
            match self.find_expiring(database, hash, |expiry_ms| expiry_ms >= at_ms) {
                Some((handle, record)) => {
                    seen += 1;
                    let heat = self.tables[database].records.note(&handle);
                    let rank = Candidate::rank(heat, random());
                    if best.as_ref().is_none_or(|best| rank < best.rank) {
                        let entry = LiveEntry { handle, record };
                        best = Some(Candidate {
                            rank,
                            database,
                            entry,
                        });
                    }
                }
                // The entry of a key that is gone is removed.
                None => self.tables[database].expiries.remove(due),
            }
        }
        best.map_or(Choice::Stale, Choice::Key)
    }

    /// The key that expires first.
    fn choose_first(&mut self) -> Choice {
        let firsts = (0..DATABASES).filter_map(|database| {
            let table = &self.tables[database];
            let first = table.expiries.first().filter(|_| table.expiring > 0)?;
            Some((first, database))
        });
        let Some((_, database)) = firsts.min() else {
            return Choice::None;
        };
        let Some((at_ms, hash)) = self.tables[database].expiries.pop_due(u64::MAX) else {
            return Choice::None;
        };
        if let Some((handle, record)) =
            self.find_expiring(database, hash, |expiry_ms| expiry_ms <= at_ms)
        {
            let entry = LiveEntry { handle, record };
            return Choice::Key(Candidate {
                rank: 0,
                database,
                entry,
            });
        }
        // It is gone, or was postponed meanwhile.
        let later = self.find_expiring(database, hash, |_| true);
        let later_ms = later.and_then(|(_, record)| self.heap.expiry(record));
        if let Some(at_ms) = later_ms {
            self.tables[database].expiries.push((at_ms, hash));
        }
        Choice::Stale
    }

    /// A key of a hash that expires at a time which is wanted.
    fn find_expiring(
        &self,
        database: usize,
        hash: u64,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Option<(EntryHandle, u64)> {
        let (records, heap) = (&self.tables[database].records, &self.heap);
        records.find_hash(hash, heap, |record| {
            heap.expiry(record).is_some_and(&is_wanted)
        })
    }
}
