//! The keyspace against plain maps, under every policy, with moves and memory that runs out.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use proptest::prelude::*;
use tierra_memory::Speed;

use super::*;

fn keyspace(settings: Settings) -> Keyspace {
    Keyspace::new(&Options {
        settings,
        ..Options::default()
    })
    .unwrap()
}

/// Small enough for packed and large values, and for both tiers, to be met all the time.
fn settings(policy: Policy, near_bytes: u64) -> Settings {
    Settings {
        policy,
        near_bytes,
        hash_packed_entries_max: 6,
        hash_packed_value_max: 200,
        set_packed_entries_max: 6,
        ..Settings::default()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    String(Vec<u8>),
    Hash(HashMap<Vec<u8>, Vec<u8>>),
    Set(HashMap<Vec<u8>, f64>),
}

#[derive(Clone, Debug)]
enum Step {
    Set(u8, Vec<u8>, Option<u64>),
    Keep(u8, Vec<u8>),
    Resize(u8, usize),
    HashSet(u8, Vec<(u8, Vec<u8>)>),
    HashRemove(u8, Vec<u8>),
    Add(u8, u8, i8),
    Drop(u8, Vec<u8>),
    DropRanks(u8, usize, usize),
    Remove(u8),
    Expire(u8, Option<u64>),
    Rename(u8, u8),
    Copy(u8, u8),
    Wait(u64),
    Find(Vec<u8>),
    Tick,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0u8..24;
    let bytes = || prop_oneof![4 => prop::collection::vec(any::<u8>(), 0..40), 1 => prop::collection::vec(any::<u8>(), 0..600)];
    let pairs = prop::collection::vec((0u8..12, bytes()), 1..8);
    prop_oneof![
        3 => (key(), bytes(), prop::option::weighted(0.3, 1u64..50)).prop_map(|(key, value, ms)| Step::Set(key, value, ms)),
        1 => (key(), bytes()).prop_map(|(key, value)| Step::Keep(key, value)),
        1 => (key(), 0usize..700).prop_map(|(key, len)| Step::Resize(key, len)),
        4 => (key(), pairs).prop_map(|(key, pairs)| Step::HashSet(key, pairs)),
        3 => (key(), prop::collection::vec(0u8..12, 1..6)).prop_map(|(key, fields)| Step::HashRemove(key, fields)),
        4 => (key(), 0u8..24, -3i8..4).prop_map(|(key, member, score)| Step::Add(key, member, score)),
        3 => (key(), prop::collection::vec(0u8..24, 1..6)).prop_map(|(key, members)| Step::Drop(key, members)),
        1 => (key(), 0usize..6, 0usize..8).prop_map(|(key, start, len)| Step::DropRanks(key, start, len)),
        1 => key().prop_map(Step::Remove),
        2 => (key(), prop::option::of(1u64..50)).prop_map(|(key, ms)| Step::Expire(key, ms)),
        1 => (key(), key()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (key(), key()).prop_map(|(from, to)| Step::Copy(from, to)),
        1 => (1u64..10).prop_map(Step::Wait),
        3 => prop::collection::vec(key(), 2..20).prop_map(Step::Find),
        1 => Just(Step::Tick),
        1 => Just(Step::Clear),
    ]
}

struct Pair {
    ours: Keyspace,
    theirs: HashMap<Vec<u8>, (Value, Option<u64>)>,
    now: u64,
    carried: HashMap<u8, Found>,
}

fn name(key: u8) -> Vec<u8> {
    format!("key:{key}{}", "x".repeat(usize::from(key % 5) * 7)).into_bytes()
}

impl Pair {
    fn value(&mut self, key: &[u8]) -> Option<&mut Value> {
        let now = self.now;
        if self
            .theirs
            .get(key)
            .is_some_and(|(_, at)| at.is_some_and(|at| at <= now))
        {
            self.theirs.remove(key);
        }
        self.theirs.get_mut(key).map(|(value, _)| value)
    }

    fn is(&mut self, key: &[u8], kind: Kind) -> bool {
        self.value(key).is_none_or(|value| match value {
            Value::String(_) => kind == Kind::String,
            Value::Hash(_) => kind == Kind::Hash,
            Value::Set(_) => kind == Kind::SortedSet,
        })
    }

    fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        let number = match &step {
            Step::Set(key, ..)
            | Step::Keep(key, _)
            | Step::Resize(key, _)
            | Step::HashSet(key, _)
            | Step::HashRemove(key, _)
            | Step::Add(key, ..)
            | Step::Drop(key, _)
            | Step::DropRanks(key, ..)
            | Step::Remove(key)
            | Step::Expire(key, _)
            | Step::Rename(key, _)
            | Step::Copy(key, _) => *key,
            _ => 0,
        };
        let bytes = name(number);
        // What an earlier window found, however much has changed since.
        let key = Key::carried(
            &bytes,
            self.carried.remove(&number).unwrap_or(Found::UNKNOWN),
        );
        let now = self.now;
        match step {
            Step::Set(_, value, ms) => {
                let at = ms.map(|ms| now + ms);
                let expiry = at.map_or(Expiry::Clear, Expiry::At);
                self.ours.db(0).set_string(&key, &value, expiry).unwrap();
                self.theirs
                    .insert(bytes.clone(), (Value::String(value), at));
            }
            Step::Keep(_, value) => {
                self.value(&bytes);
                self.ours
                    .db(0)
                    .set_string(&key, &value, Expiry::Keep)
                    .unwrap();
                let at = self.theirs.get(&bytes).and_then(|(_, at)| *at);
                self.theirs
                    .insert(bytes.clone(), (Value::String(value), at));
            }
            Step::Resize(_, len) => {
                if self.is(&bytes, Kind::String) {
                    self.ours.db(0).resize_string(&key, len).unwrap();
                    let entry = self
                        .theirs
                        .entry(bytes.clone())
                        .or_insert((Value::String(Vec::new()), None));
                    if let Value::String(value) = &mut entry.0 {
                        value.resize(len, 0);
                    }
                }
            }
            Step::HashSet(_, pairs) => {
                if self.is(&bytes, Kind::Hash) {
                    let pairs: Vec<(Vec<u8>, Vec<u8>)> = pairs
                        .into_iter()
                        .map(|(field, value)| (name(field), value))
                        .collect();
                    let slices = pairs
                        .iter()
                        .map(|(field, value)| (field.as_slice(), value.as_slice()));
                    let new = self.ours.db(0).hash_set(&key, slices).unwrap();
                    let entry = self
                        .theirs
                        .entry(bytes.clone())
                        .or_insert((Value::Hash(HashMap::new()), None));
                    if let Value::Hash(fields) = &mut entry.0 {
                        let before = fields.len();
                        fields.extend(pairs);
                        prop_assert_eq!(new, fields.len() - before);
                    }
                }
            }
            Step::HashRemove(_, names) => {
                if self.is(&bytes, Kind::Hash) {
                    let names: Vec<Vec<u8>> = names.into_iter().map(name).collect();
                    let slices = names.iter().map(Vec::as_slice);
                    let removed = self.ours.db(0).hash_remove_many(&key, slices);
                    let mut expected = 0;
                    if let Some(Value::Hash(fields)) = self.value(&bytes) {
                        let removed = names.iter().map(|name| fields.remove(name).is_some());
                        expected = removed.filter(|removed| *removed).count();
                        if fields.is_empty() {
                            self.theirs.remove(&bytes);
                        }
                    }
                    prop_assert_eq!(removed, expected);
                }
            }
            Step::Add(_, member, score) => {
                if self.is(&bytes, Kind::SortedSet) {
                    self.ours
                        .db(0)
                        .zset_set(&key, &name(member), f64::from(score))
                        .unwrap();
                    let entry = self
                        .theirs
                        .entry(bytes.clone())
                        .or_insert((Value::Set(HashMap::new()), None));
                    if let Value::Set(members) = &mut entry.0 {
                        members.insert(name(member), f64::from(score));
                    }
                }
            }
            Step::Drop(_, names) => {
                if self.is(&bytes, Kind::SortedSet) {
                    let names: Vec<Vec<u8>> = names.into_iter().map(name).collect();
                    let slices = names.iter().map(Vec::as_slice);
                    let removed = self.ours.db(0).zset_remove_many(&key, slices);
                    let mut expected = 0;
                    if let Some(Value::Set(members)) = self.value(&bytes) {
                        let removed = names.iter().map(|name| members.remove(name).is_some());
                        expected = removed.filter(|removed| *removed).count();
                        if members.is_empty() {
                            self.theirs.remove(&bytes);
                        }
                    }
                    prop_assert_eq!(removed, expected);
                }
            }
            Step::DropRanks(_, start, len) => {
                if self.is(&bytes, Kind::SortedSet) {
                    self.ours.db(0).zset_remove_ranks(&key, start..start + len);
                    if let Some(Value::Set(members)) = self.value(&bytes) {
                        for (member, _) in sorted(members).into_iter().skip(start).take(len) {
                            members.remove(&member);
                        }
                        if members.is_empty() {
                            self.theirs.remove(&bytes);
                        }
                    }
                }
            }
            Step::Remove(_) => {
                let expected = self.value(&bytes).is_some();
                prop_assert_eq!(self.ours.db(0).remove(&key), expected);
                self.theirs.remove(&bytes);
            }
            Step::Expire(_, ms) => {
                let expected = self.value(&bytes).is_some();
                let at = ms.map(|ms| now + ms);
                prop_assert_eq!(self.ours.db(0).set_expiry(&key, at).unwrap(), expected);
                if let Some((_, expires)) = self.theirs.get_mut(&bytes) {
                    *expires = at;
                }
            }
            Step::Rename(_, to) => {
                let to = name(to);
                let expected = self.value(&bytes).is_some();
                prop_assert_eq!(
                    self.ours.db(0).rename(&key, &Key::new(&to)).unwrap(),
                    expected
                );
                if let Some(value) = self.theirs.remove(&bytes) {
                    self.theirs.insert(to, value);
                }
            }
            Step::Copy(_, to) => {
                let to = name(to);
                if to != bytes {
                    self.ours.db(0).remove(&Key::new(&to));
                    self.theirs.remove(&to);
                    let expected = self.value(&bytes).is_some();
                    prop_assert_eq!(
                        self.ours.copy((0, &key), (0, &Key::new(&to))).unwrap(),
                        expected
                    );
                    if let Some(value) = self.theirs.get(&bytes).cloned() {
                        self.theirs.insert(to, value);
                    }
                }
            }
            Step::Wait(ms) => {
                self.now += ms;
                self.ours.set_now(self.now);
                self.ours.db(0).expire_some(2);
            }
            Step::Find(keys) => {
                let names: Vec<Vec<u8>> = keys.iter().map(|&key| name(key)).collect();
                let slices: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                let mut found = Vec::new();
                self.ours.db(0).find_many(&slices, &mut found);
                prop_assert_eq!(found.len(), keys.len());
                self.carried.extend(keys.into_iter().zip(found));
            }
            Step::Tick => _ = self.ours.tick(),
            Step::Clear => {
                self.ours.db(0).clear();
                self.theirs.clear();
            }
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        for number in 0..24 {
            let bytes = name(number);
            let expected = self.value(&bytes).cloned();
            let at = self.theirs.get(&bytes).and_then(|(_, at)| *at);
            let db = self.ours.db(0);
            let found = db.find(&Key::new(&bytes));
            prop_assert_eq!(found.is_some(), expected.is_some(), "{:?}", &bytes);
            let (Some(entry), Some(expected)) = (found, expected) else {
                continue;
            };
            prop_assert_eq!(db.expiry(entry), at);
            prop_assert_eq!(db.key_of(entry), &bytes);
            match expected {
                Value::String(value) => prop_assert_eq!(db.string(entry), &value),
                Value::Hash(fields) => {
                    prop_assert_eq!(db.hash_len(entry), fields.len());
                    let all: HashMap<Vec<u8>, Vec<u8>> = db
                        .hash_iter(entry)
                        .map(|(field, value)| (field.to_vec(), value.to_vec()))
                        .collect();
                    prop_assert_eq!(&all, &fields);
                    for field in 0..12 {
                        prop_assert_eq!(
                            db.hash_get(entry, &name(field)),
                            fields.get(&name(field)).map(Vec::as_slice)
                        );
                    }
                    // Twelve there may be, twice, and one that is not.
                    let names: Vec<Vec<u8>> = (0..25).map(|at| name(at % 13)).collect();
                    let mut found = Vec::new();
                    let slices = names.iter().map(Vec::as_slice);
                    db.hash_get_many(entry, slices, |value| found.push(value.map(<[u8]>::to_vec)));
                    let expected = names.iter().map(|name| fields.get(name).cloned());
                    prop_assert_eq!(found, expected.collect::<Vec<_>>());
                    let (field, value) = db.hash_random(entry, 77);
                    prop_assert_eq!(fields.get(field).map(Vec::as_slice), Some(value));
                }
                Value::Set(members) => {
                    let sorted = sorted(&members);
                    prop_assert_eq!(db.zset_len(entry), sorted.len());
                    let all: Vec<(Vec<u8>, f64)> = db
                        .zset_range(entry, 0..sorted.len())
                        .map(|(member, score)| (member.to_vec(), score))
                        .collect();
                    prop_assert_eq!(&all, &sorted);
                    for (rank, (member, score)) in sorted.iter().enumerate() {
                        prop_assert_eq!(db.zset_rank(entry, member), Some(rank));
                        prop_assert_eq!(db.zset_score(entry, member), Some(*score));
                        let below = sorted.iter().filter(|(_, other)| other < score).count();
                        prop_assert_eq!(db.zset_below_score(entry, *score, false), below);
                    }
                    prop_assert_eq!(db.zset_rank(entry, b"nobody"), None);
                    let names: Vec<Vec<u8>> = (0..30).map(name).collect();
                    let mut found = Vec::new();
                    let slices = names.iter().map(Vec::as_slice);
                    db.zset_scores(entry, slices, |score| found.push(score));
                    let expected = names.iter().map(|name| members.get(name).copied());
                    prop_assert_eq!(found, expected.collect::<Vec<_>>());
                }
            }
        }
        let mut scanned = BTreeMap::new();
        let mut cursor = 0;
        loop {
            cursor = self.ours.db(0).scan(cursor, 3, |key, kind| {
                _ = scanned.insert(key.to_vec(), kind)
            });
            if cursor == 0 {
                break;
            }
        }
        prop_assert_eq!(scanned.len(), self.theirs.len());
        Ok(())
    }
}

fn sorted(members: &HashMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut sorted: Vec<_> = members
        .iter()
        .map(|(member, &score)| (member.clone(), score))
        .collect();
    sorted.sort_by(|one, other| packed::order((one.1, &one.0), (other.1, &other.0)));
    sorted
}

fn check(policy: Policy, near_bytes: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let ours = keyspace(settings(policy, near_bytes));
    let mut pair = Pair {
        ours,
        theirs: HashMap::new(),
        now: 1000,
        carried: HashMap::new(),
    };
    pair.ours.set_now(1000);
    for (at, step) in steps.into_iter().enumerate() {
        pair.apply(step)?;
        if at % 16 == 0 {
            pair.compare()?;
        }
    }
    pair.compare()?;
    // Nothing is left behind, in neither tier nor among large values.
    pair.ours.db(0).clear();
    let report = pair.ours.report();
    prop_assert_eq!((report.near.objects, report.far.objects), (0, 0));
    prop_assert_eq!((pair.ours.len_of(0), pair.ours.expiring_of(0)), (0, 0));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn it_answers_as_maps_do(policy in prop::sample::select(&Policy::ALL[..]), near in prop::sample::select(&[0u64, 20_000, u64::MAX][..]), steps in prop::collection::vec(step(), 1..200)) {
        check(policy, near, steps)?;
    }
}

/// The planted test: what a window has found is void once the key is gone.
#[test]
fn set_del_get_in_one_window() {
    let mut keyspace = keyspace(Settings::default());
    let db = keyspace.db(0);
    db.set_string(&Key::new(b"k"), b"old", Expiry::Clear)
        .unwrap();
    let mut found = Vec::new();
    db.find_many(&[b"k", b"k", b"k"], &mut found);
    let [set, del, get] = [found[0], found[1], found[2]].map(|found| Key::carried(b"k", found));
    db.set_string(&set, b"new, and longer than what was there", Expiry::Clear)
        .unwrap();
    assert!(db.remove(&del));
    assert_eq!(db.find(&get), None);
    db.set_string(&get, b"again", Expiry::Clear).unwrap();
    let entry = db.find(&set).unwrap();
    assert_eq!(db.string(entry), b"again");
}

#[test]
fn what_one_database_found_is_not_anothers() {
    let mut keyspace = keyspace(Settings::default());
    keyspace
        .db(0)
        .set_string(&Key::new(b"k"), b"zero", Expiry::Clear)
        .unwrap();
    let key = Key::new(b"k");
    assert!(keyspace.db(0).find(&key).is_some());
    assert!(keyspace.db(1).find(&key).is_none());
    keyspace.swap(0, 1);
    assert!(keyspace.db(1).find(&key).is_some());
    assert!(keyspace.db(0).find(&key).is_none());
    assert_eq!((keyspace.len_of(0), keyspace.len_of(1)), (0, 1));
}

fn fill(keyspace: &mut Keyspace, keys: Range<u32>, bytes: usize) {
    for key in keys {
        let name = format!("key:{key:08}");
        let value = vec![key as u8; bytes];
        keyspace
            .db(0)
            .set_string(&Key::new(name.as_bytes()), &value, Expiry::Clear)
            .unwrap();
    }
}

#[test]
fn static_policies_go_by_size() {
    for (policy, bytes, tier) in [
        (Policy::OnlyDram, 1000, Speed::Near),
        (Policy::OnlyPmem, 10, Speed::Far),
        (Policy::Threshold, 10, Speed::Near),
        (Policy::Threshold, 200, Speed::Far),
    ] {
        let mut keyspace = keyspace(Settings {
            policy,
            ..Settings::default()
        });
        fill(&mut keyspace, 0..1, bytes);
        let entry = keyspace.db(0).find(&Key::new(b"key:00000000")).unwrap();
        assert_eq!(keyspace.db(0).tier(entry), tier, "{policy} {bytes}");
    }
}

#[test]
fn a_value_that_grows_changes_its_tier() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::Threshold,
        ..Settings::default()
    });
    let db = keyspace.db(0);
    let key = Key::new(b"k");
    db.set_string(&key, b"small", Expiry::Clear).unwrap();
    let entry = db.find(&key).unwrap();
    assert_eq!(db.tier(entry), Speed::Near);
    db.resize_string(&key, 1000).unwrap();
    let entry = db.find(&key).unwrap();
    assert_eq!(
        (db.tier(entry), &db.string(entry)[..5]),
        (Speed::Far, &b"small"[..])
    );
    db.set_string(&key, b"small", Expiry::Clear).unwrap();
    let entry = db.find(&key).unwrap();
    assert_eq!(db.tier(entry), Speed::Near);
}

#[test]
fn a_ratio_is_kept_also_of_what_grows() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::Ratio,
        ..Settings::default()
    });
    keyspace.set_setting("dram-pmem-ratio", "1 4").unwrap();
    let share = |keyspace: &Keyspace| {
        let Report { near, far, .. } = keyspace.report();
        near.object_bytes as f64 / (near.object_bytes + far.object_bytes) as f64
    };
    let mut now = 0;
    let mut settle = |keyspace: &mut Keyspace| {
        for _ in 0..200 {
            now += 50;
            keyspace.set_now(now);
            keyspace.tick();
        }
    };
    fill(&mut keyspace, 0..20_000, 100);
    settle(&mut keyspace);
    assert!(
        (share(&keyspace) - 0.2).abs() < 0.006,
        "{}",
        share(&keyspace)
    );
    fill(&mut keyspace, 0..20_000, 700);
    settle(&mut keyspace);
    assert!(
        (share(&keyspace) - 0.2).abs() < 0.006,
        "{}",
        share(&keyspace)
    );
}

#[test]
fn what_is_hot_comes_near_and_what_is_cold_goes_far() {
    let mut keyspace = keyspace(Settings {
        near_bytes: 6 << 20,
        ..Settings::default()
    });
    fill(&mut keyspace, 0..20_000, 1000);
    assert!(keyspace.report().far.objects > 13_000);
    // The last ones, which were born far, are used all the time.
    let hot = 17_000..20_000u32;
    for _ in 0..60 {
        for key in hot.clone() {
            let name = format!("key:{key:08}");
            assert!(keyspace.db(0).find(&Key::new(name.as_bytes())).is_some());
        }
        keyspace.tick();
    }
    let near = hot.clone().filter(|key| {
        let name = format!("key:{key:08}");
        let entry = keyspace.db(0).find(&Key::new(name.as_bytes())).unwrap();
        keyspace.db(0).tier(entry) == Speed::Near
    });
    assert!(near.count() > 2900, "{:?}", keyspace.report());
    assert!(keyspace.report().near.held_bytes <= 6 << 20);
}

#[test]
fn memory_comes_back_when_most_keys_are_gone() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::OnlyDram,
        ..Settings::default()
    });
    fill(&mut keyspace, 0..40_000, 500);
    let full = keyspace.used_bytes();
    for key in (0..40_000).filter(|key| key % 20 != 0) {
        let name = format!("key:{key:08}");
        assert!(keyspace.db(0).remove(&Key::new(name.as_bytes())));
    }
    for _ in 0..100 {
        keyspace.tick();
    }
    // A twentieth, what is not worth gathering, and a large page of the table.
    assert!(
        keyspace.used_bytes() < full / 20 * 2 + (7 << 20),
        "{} of {full}",
        keyspace.used_bytes()
    );
    for key in (0..40_000).filter(|key| key % 20 == 0) {
        let name = format!("key:{key:08}");
        let entry = keyspace.db(0).find(&Key::new(name.as_bytes())).unwrap();
        assert_eq!(keyspace.db(0).string(entry), vec![key as u8; 500]);
    }
}

#[test]
fn memory_that_runs_out_is_an_error_and_changes_nothing() {
    let options = Options {
        settings: Settings {
            near_bytes: 1 << 20,
            ..Settings::default()
        },
        far_bytes: 1 << 20,
        ..Options::default()
    };
    let mut keyspace = Keyspace::new(&options).unwrap();
    let db = keyspace.db(0);
    let mut kept = 0u32;
    loop {
        let name = format!("key:{kept:08}");
        if db
            .set_string(&Key::new(name.as_bytes()), &[7; 1000], Expiry::Clear)
            .is_err()
        {
            break;
        }
        kept += 1;
    }
    assert!((1700..2100).contains(&kept), "{kept}");
    let name = Key::new(b"key:00000000");
    assert_eq!(
        db.resize_string(&name, 100_000).map(|_| ()),
        Err(MemoryFull)
    );
    let entry = db.find(&name).unwrap();
    assert_eq!(db.string(entry), [7; 1000]);
    assert!(db.remove(&name));
    assert_eq!(db.len(), kept as usize - 1);
}

/// More names than a window takes, each twice, over values of as many parts.
#[test]
fn many_parts_are_found_in_windows() {
    let mut keyspace = keyspace(Settings::default());
    let db = keyspace.db(0);
    let (hash, set) = (Key::new(b"hash"), Key::new(b"set"));
    let names: Vec<Vec<u8>> = (0..700u32)
        .map(|at| format!("part:{}", at % 350).into_bytes())
        .collect();
    let slices = || names.iter().map(Vec::as_slice);
    assert_eq!(db.hash_set(&hash, slices().zip(slices())), Ok(350));
    for (at, name) in names.iter().enumerate() {
        db.zset_set(&set, name, at as f64).unwrap();
    }
    let windows = db.windows.windows;
    let (hash_entry, set_entry) = (db.find(&hash).unwrap(), db.find(&set).unwrap());
    let (mut values, mut scores) = (Vec::new(), Vec::new());
    db.hash_get_many(hash_entry, slices(), |value| {
        values.push(value.map(<[u8]>::to_vec))
    });
    db.zset_scores(set_entry, slices(), |score| scores.push(score));
    assert!(values.into_iter().eq(names.iter().cloned().map(Some)));
    assert!(
        scores
            .into_iter()
            .eq((0..700).map(|at| Some((at % 350 + 350) as f64)))
    );
    assert_eq!(db.windows.windows - windows, 12);
    assert_eq!(db.hash_remove_many(&hash, slices().skip(3)), 350);
    assert_eq!(db.zset_remove_many(&set, slices().take(349)), 349);
    assert_eq!((db.find(&hash), db.zset_len(set_entry)), (None, 1));
}

/// Most scores are equal, so that the order has to read members, of which some have moved.
#[test]
fn members_of_large_sorted_sets_move() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::OnlyPmem,
        ..Settings::default()
    });
    let name = |at: u32| format!("member:{at:05}:{}", "x".repeat(60)).into_bytes();
    let set = Key::new(b"set");
    for at in 0..5000 {
        keyspace
            .db(0)
            .zset_set(&set, &name(at), f64::from(at / 1000))
            .unwrap();
    }
    assert_eq!(keyspace.report().near.objects, 0);
    keyspace
        .set_setting("memory-alloc-policy", "ratio")
        .unwrap();
    keyspace.set_setting("dram-pmem-ratio", "1 1").unwrap();
    for tick in 1..200 {
        keyspace.set_now(tick * 100);
        keyspace.tick();
        if tick % 20 == 0 {
            let at = tick as u32 * 13;
            assert!(keyspace.db(0).zset_remove(&set, &name(at)));
            keyspace
                .db(0)
                .zset_set(&set, &name(at), f64::from(at / 1000))
                .unwrap();
        }
    }
    let Report { near, far, .. } = keyspace.report();
    assert!(near.objects.abs_diff(far.objects) < 100, "{near:?} {far:?}");
    let db = keyspace.db(0);
    let entry = db.find(&set).unwrap();
    let members: Vec<_> = db
        .zset_range(entry, 0..5000)
        .map(|(member, _)| member.to_vec())
        .collect();
    assert!(members.into_iter().eq((0..5000).map(name)));
    assert_eq!(db.zset_rank(entry, &name(4321)), Some(4321));
}
