//! Several databases against plain maps, in memory that runs out, while everything moves: windows, ticks, databases
//! exchanged and cleared, keys evicted, settings changed, scans under way.
//!
//! Every history follows from its seed, which a failure prints.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const DBS: u64 = 3;
/// Fields and members of the values that are scanned: their tables grow from one group to many segments' worth, and back.
const PARTS: u64 = 3000;

type Names = BTreeSet<Vec<u8>>;
type Database = BTreeMap<Vec<u8>, (Value, Option<u64>)>;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    String(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeMap<Vec<u8>, f64>),
}

/// A scan under way: what it has to return, and what it has returned.
#[derive(Default)]
struct Scan {
    cursor: u64,
    stays: Names,
    returned: Names,
}

impl Scan {
    /// One more step has been made: whether the scan is over, everything returned that has been there all the time.
    fn step(&mut self, cursor: u64, there: &Names) -> bool {
        self.cursor = cursor;
        if cursor != 0 {
            return false;
        }
        let missed: Vec<_> = self.stays.difference(&self.returned).collect();
        assert!(missed.is_empty(), "not told: {missed:?}");
        (self.stays, self.returned) = (there.clone(), Names::new());
        true
    }
}

struct World {
    random: u64,
    ours: Keyspace,
    theirs: Vec<Database>,
    scans: [Scan; DBS as usize],
    parts: [Scan; 2],
    found: Vec<(DbId, Vec<u8>, Found)>,
    now: u64,
    refused: u64,
    finished: u64,
    evicted: u64,
}

fn name(number: u64) -> Vec<u8> {
    format!("{number}{}", "-".repeat(number as usize % 4 * 9)).into_bytes()
}

impl World {
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }

    fn bytes(&mut self, end: u64) -> Vec<u8> {
        let len = self.below(end);
        vec![self.below(256) as u8; len as usize]
    }

    /// Some key, and what was found of it before, perhaps long ago.
    fn key(&mut self) -> (DbId, Vec<u8>, Found) {
        let at = self.below(8 + self.found.len() as u64) as usize;
        if at < self.found.len() {
            return self.found.swap_remove(at);
        }
        (
            self.below(DBS) as DbId,
            name(self.below(60)),
            Found::UNKNOWN,
        )
    }

    /// What is done either succeeds on both sides or changes nothing.
    fn refused<T>(&mut self, result: Result<T, MemoryFull>) -> bool {
        self.refused += u64::from(result.is_err());
        result.is_err()
    }

    fn step(&mut self) {
        let (db, bytes, found) = self.key();
        let key = Key::with_found(&bytes, found);
        let id = usize::from(db);
        let now = self.now;
        for (scan, theirs) in self.scans.iter_mut().zip(&mut self.theirs) {
            theirs.retain(|_, (_, at)| at.is_none_or(|at| at > now));
            scan.stays.retain(|key| theirs.contains_key(key));
        }
        let there = self.theirs[id].get(&bytes).map(|(value, _)| value.clone());
        match self.below(28) {
            0..=5 => {
                let value = self.bytes(3000);
                let at = (self.below(3) == 0).then(|| now + 1 + self.below(200));
                let expiry = at.map_or(Expiry::Clear, Expiry::At);
                let result = self.ours.db(db).set_string(&key, &value, expiry);
                if !self.refused(result) {
                    self.theirs[id].insert(bytes.clone(), (Value::String(value), at));
                }
            }
            6 => {
                let remove = [Db::remove, Db::unlink][self.below(2) as usize];
                assert_eq!(remove(self.ours.db(db), &key), there.is_some());
                self.theirs[id].remove(&bytes);
            }
            7 => {
                let at = (self.below(3) > 0).then(|| now + 1 + self.below(100));
                let result = self.ours.db(db).set_expiry(&key, at);
                if !self.refused(result) {
                    assert_eq!(result, Ok(there.is_some()));
                    if let Some((_, expires)) = self.theirs[id].get_mut(&bytes) {
                        *expires = at;
                    }
                }
            }
            8 => {
                let to = (self.below(DBS) as DbId, name(self.below(60)));
                if to != (db, bytes.clone()) {
                    let result = self.ours.copy((db, &key), (to.0, &Key::new(&to.1)));
                    if !self.refused(result) {
                        assert_eq!(result, Ok(there.is_some()));
                        if let Some(copied) = self.theirs[id].get(&bytes).cloned() {
                            self.theirs[usize::from(to.0)].insert(to.1, copied);
                        }
                    }
                }
            }
            9 => {
                let to = self.below(DBS) as DbId;
                if to != db && !self.theirs[usize::from(to)].contains_key(&bytes) {
                    // An expired one may be there, which an access removes.
                    assert!(self.ours.db(to).find(&Key::new(&bytes)).is_none());
                    assert_eq!(self.ours.move_to((db, &key), to), there.is_some());
                    if let Some(moved) = self.theirs[id].remove(&bytes) {
                        self.theirs[usize::from(to)].insert(bytes.clone(), moved);
                    }
                }
            }
            10 => {
                let to = name(self.below(60));
                let result = self.ours.db(db).rename(&key, &Key::new(&to));
                if !self.refused(result) {
                    assert_eq!(result, Ok(there.is_some()));
                    if let Some(renamed) = self.theirs[id].remove(&bytes) {
                        self.theirs[id].insert(to, renamed);
                    }
                }
            }
            11..=14 => {
                let names: Vec<Vec<u8>> = (0..2 + self.below(30))
                    .map(|_| name(self.below(60)))
                    .collect();
                let slices: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                let mut found = Vec::new();
                self.ours.db(db).find_many(&slices, &mut found);
                let all = names.into_iter().zip(found);
                self.found
                    .extend(all.map(|(name, found)| (db, name, found)));
            }
            15 => {
                let other = self.below(DBS) as DbId;
                self.ours.swap(db, other);
                self.theirs.swap(id, usize::from(other));
            }
            24 if self.below(3) == 0 => {
                let bytes = [&b"has"[..], b"set"][self.below(2) as usize];
                let there = self.theirs[0].remove(bytes).is_some();
                assert_eq!(self.ours.db(0).unlink(&Key::new(bytes)), there);
            }
            16 if self.below(12) == 0 => {
                self.ours.db(db).clear();
                self.theirs[id].clear();
            }
            17 if self.below(30) == 0 => {
                self.ours.clear();
                self.theirs.iter_mut().for_each(BTreeMap::clear);
            }
            18 if self.below(10) == 0 => {
                let policy = Policy::ALL[self.below(5) as usize].name();
                let set = self.ours.set_setting("memory-alloc-policy", policy);
                assert_eq!(set, Ok(()));
            }
            19 => {
                self.now += self.below(40);
                self.ours.set_now(self.now);
                self.ours.db(db).expire_some(3);
            }
            20 => _ = self.ours.tick(),
            21 => _ = self.ours.free_some(),
            22..=23 => {
                let scan = &mut self.scans[id];
                let (cursor, returned) = (scan.cursor, &mut scan.returned);
                let tell = |key: &[u8], _| _ = returned.insert(key.to_vec());
                let cursor = self.ours.db(db).scan(cursor, 4, tell);
                let there = self.theirs[id].keys().cloned().collect();
                self.finished += u64::from(scan.step(cursor, &there));
            }
            25 if self.below(3) == 0 => self.evict(),
            _ => self.change_parts(),
        }
        for (scan, theirs) in self.scans.iter_mut().zip(&self.theirs) {
            scan.stays.retain(|key| theirs.contains_key(key));
        }
    }

    /// Some keys go: of those that may, and as many as have to.
    fn evict(&mut self) {
        let (_, policy) = Eviction::NAMES[self.below(8) as usize];
        let samples = 1 + self.below(70) as usize;
        let max_bytes = self.ours.stored_bytes().saturating_sub(self.below(9000));
        let random = self.below(u64::MAX);
        self.ours.set_eviction(policy);
        let (evicted, room) = self.ours.evict(policy, samples, max_bytes, random);
        if room == Room::Enough {
            assert!(self.ours.stored_bytes() <= max_bytes);
        }
        let mut gone = Vec::new();
        for id in 0..DBS as DbId {
            let db = self.ours.db(id);
            self.theirs[usize::from(id)].retain(|bytes, (_, at)| {
                let stays = db.find(&Key::new(bytes)).is_some();
                gone.extend((!stays).then_some(*at));
                stays
            });
        }
        assert!(gone.len() as u64 <= evicted);
        let mut left = self.theirs.iter().flat_map(BTreeMap::values);
        let first = left.clone().filter_map(|(_, at)| *at).min();
        let is_volatile = policy.name().starts_with("volatile");
        assert!(!is_volatile || gone.iter().all(Option::is_some));
        if policy == Eviction::VolatileTtl {
            assert!(
                gone.iter()
                    .flatten()
                    .all(|&at| first.is_none_or(|first| at <= first))
            );
        }
        if room == Room::None {
            match policy {
                Eviction::None => assert_eq!(evicted, 0),
                _ if is_volatile => assert_eq!(first, None),
                _ => assert!(left.next().is_none()),
            }
        }
        self.evicted += evicted;
    }

    /// Many fields or members come or go, or some of them are returned.
    fn change_parts(&mut self) {
        let (is_set, len) = (self.below(2) == 1, self.below(200));
        let bytes = if is_set { b"set" } else { b"has" };
        let (first, comes) = (self.below(PARTS), self.below(5) > 1);
        let names: Vec<Vec<u8>> = (first..first + len).map(name).collect();
        let key = Key::new(bytes);
        let empty = if is_set {
            Value::Set(BTreeMap::new())
        } else {
            Value::Hash(BTreeMap::new())
        };
        let (mut refused, db) = (false, self.ours.db(0));
        let theirs = self.theirs[0].entry(bytes.to_vec());
        let (value, _) = theirs.or_insert((empty, None));
        let there = match value {
            Value::Hash(fields) => {
                for name in &names {
                    if comes {
                        let pair = std::iter::once((&name[..], &name[..]));
                        match db.hash_set(&key, pair) {
                            Ok(new) => {
                                assert_eq!(
                                    new == 1,
                                    fields.insert(name.clone(), name.clone()).is_none()
                                );
                            }
                            Err(MemoryFull) => refused = true,
                        }
                    }
                }
                if !comes {
                    let expected = names.iter().filter(|name| fields.remove(*name).is_some());
                    let expected = expected.count();
                    let slices = names.iter().map(Vec::as_slice);
                    assert_eq!(db.hash_remove_many(&key, slices), expected);
                }
                fields.keys().cloned().collect::<Names>()
            }
            Value::Set(members) => {
                for name in &names {
                    let score = (name.len() * name.len() % 7) as f64;
                    if comes {
                        match db.zset_set(&key, name, score) {
                            Ok(()) => _ = members.insert(name.clone(), score),
                            Err(MemoryFull) => refused = true,
                        }
                    }
                }
                if !comes {
                    let expected = names.iter().filter(|name| members.remove(*name).is_some());
                    let expected = expected.count();
                    let slices = names.iter().map(Vec::as_slice);
                    assert_eq!(db.zset_remove_many(&key, slices), expected);
                }
                members.keys().cloned().collect()
            }
            Value::String(_) => unreachable!("nobody else uses the name"),
        };
        if there.is_empty() {
            self.theirs[0].remove(&bytes[..]);
        }
        self.refused += u64::from(refused);
        let scan = &mut self.parts[usize::from(is_set)];
        scan.stays.retain(|name| there.contains(name));
        for _ in 0..8 {
            let Some(entry) = db.find(&key) else {
                *scan = Scan::default();
                break;
            };
            let returned = &mut scan.returned;
            let cursor = if is_set {
                db.zset_scan(entry, scan.cursor, 20, |name, _| {
                    _ = returned.insert(name.to_vec())
                })
            } else {
                db.hash_scan(entry, scan.cursor, 20, |name, _| {
                    _ = returned.insert(name.to_vec())
                })
            };
            self.finished += u64::from(scan.step(cursor, &there));
        }
    }

    fn compare(&mut self) {
        let now = self.now;
        for id in 0..DBS as DbId {
            let theirs = &mut self.theirs[usize::from(id)];
            theirs.retain(|_, (_, at)| at.is_none_or(|at| at > now));
            let db = self.ours.db(id);
            while db.expire_some(100).1 {}
            let expiring = theirs.values().filter(|(_, at)| at.is_some()).count();
            assert_eq!((db.len(), db.expiring()), (theirs.len(), expiring));
            let mut returned = Names::new();
            let mut cursor = 0;
            loop {
                cursor = db.scan(cursor, 100, |key, _| _ = returned.insert(key.to_vec()));
                if cursor == 0 {
                    break;
                }
            }
            assert!(
                returned.iter().eq(theirs.keys()),
                "the keys of database {id}"
            );
            for (bytes, (value, at)) in theirs {
                let entry = db.find(&Key::new(bytes)).expect("a key that is there");
                assert_eq!(db.expiry(entry), *at);
                match value {
                    Value::String(value) => assert!(db.string(entry) == value),
                    Value::Hash(fields) => {
                        let all: BTreeMap<_, _> = db
                            .hash_iter(entry)
                            .map(|(field, value)| (field.to_vec(), value.to_vec()))
                            .collect();
                        assert!(all == *fields, "the fields of {bytes:?}");
                        assert_eq!(db.hash_len(entry), fields.len());
                    }
                    Value::Set(members) => {
                        let all = db.zset_range(entry, 0..usize::MAX);
                        let all: Vec<_> = all.map(|(member, score)| (score, member)).collect();
                        assert!(all.is_sorted_by(|one, other| one < other));
                        assert_eq!(all.len(), members.len());
                        for (score, member) in all {
                            assert_eq!(members.get(member), Some(&score));
                        }
                    }
                }
            }
        }
        let (counted, added_up) = self.ours.db(0).store.larges.counted_and_added_up();
        assert_eq!(counted, added_up);
    }

    /// Removes one key after the other, after which nothing is left.
    fn remove_all(&mut self) {
        for (id, theirs) in self.theirs.iter_mut().enumerate() {
            let db = self.ours.db(id as DbId);
            while let Some((bytes, _)) = theirs.pop_first() {
                assert!(db.remove(&Key::new(&bytes)));
            }
        }
        while self.ours.free_some() {}
        let report = self.ours.report();
        assert_eq!((report.near.objects, report.far.objects), (0, 0));
    }
}

/// Says which history failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the history of seed {}", self.0);
        }
    }
}

#[test]
fn whatever_happens_maps_agree() {
    let (mut refused, mut finished, mut evicted) = (0, 0, 0);
    for seed in 0..12 {
        let said = Seed(seed);
        let near_bytes = [150_000, 400_000, 2 << 20, u64::MAX][seed as usize % 4];
        let ours = Keyspace::new(&KeyspaceOptions {
            settings: settings(Policy::ALL[seed as usize % 5], near_bytes),
            far_bytes: 500_000,
            far_tables: seed % 3 == 0,
            ..KeyspaceOptions::default()
        });
        let mut world = World {
            random: seed,
            ours: ours.unwrap(),
            theirs: vec![BTreeMap::new(); DBS as usize],
            scans: Default::default(),
            parts: Default::default(),
            found: Vec::new(),
            now: 1000,
            refused: 0,
            finished: 0,
            evicted: 0,
        };
        world.ours.set_now(1000);
        for step in 0..2000 {
            world.step();
            if step % 250 == 249 {
                world.compare();
            }
        }
        (refused, finished) = (refused + world.refused, finished + world.finished);
        evicted += world.evicted;
        world.remove_all();
        world.compare();
        world.ours.clear();
        world.compare();
        drop(said);
    }
    assert!(
        refused > 100 && finished > 1000 && evicted > 500,
        "{refused} refused, {finished} scans, {evicted} evicted"
    );
}
