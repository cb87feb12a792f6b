//! The keyspace against plain maps, under every policy, with moves and memory that runs out.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    String(Vec<u8>),
    Hash(HashMap<Vec<u8>, Vec<u8>>),
    Set(HashMap<Vec<u8>, f64>),
}

#[derive(Clone, Debug)]
enum ModelOp {
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

fn step() -> impl Strategy<Value = ModelOp> {
    let key = || 0u8..24;
    let bytes = || prop_oneof![4 => prop::collection::vec(any::<u8>(), 0..40), 1 => prop::collection::vec(any::<u8>(), 0..600)];
    let pairs = prop::collection::vec((0u8..12, bytes()), 1..8);
    prop_oneof![
        3 => (key(), bytes(), prop::option::weighted(0.3, 1u64..50)).prop_map(|(key, value, ms)| ModelOp::Set(key, value, ms)),
        1 => (key(), bytes()).prop_map(|(key, value)| ModelOp::Keep(key, value)),
        1 => (key(), 0usize..700).prop_map(|(key, len)| ModelOp::Resize(key, len)),
        4 => (key(), pairs).prop_map(|(key, pairs)| ModelOp::HashSet(key, pairs)),
        3 => (key(), prop::collection::vec(0u8..12, 1..6)).prop_map(|(key, fields)| ModelOp::HashRemove(key, fields)),
        4 => (key(), 0u8..24, -3i8..4).prop_map(|(key, member, score)| ModelOp::Add(key, member, score)),
        3 => (key(), prop::collection::vec(0u8..24, 1..6)).prop_map(|(key, members)| ModelOp::Drop(key, members)),
        1 => (key(), 0usize..6, 0usize..8).prop_map(|(key, start, len)| ModelOp::DropRanks(key, start, len)),
        1 => key().prop_map(ModelOp::Remove),
        2 => (key(), prop::option::of(1u64..50)).prop_map(|(key, ms)| ModelOp::Expire(key, ms)),
        1 => (key(), key()).prop_map(|(from, to)| ModelOp::Rename(from, to)),
        1 => (key(), key()).prop_map(|(from, to)| ModelOp::Copy(from, to)),
        1 => (1u64..10).prop_map(ModelOp::Wait),
        3 => prop::collection::vec(key(), 2..20).prop_map(ModelOp::Find),
        1 => Just(ModelOp::Tick),
        1 => Just(ModelOp::Clear),
    ]
}

pub(super) struct Pair {
    pub(super) ours: Keyspace,
    pub(super) theirs: HashMap<Vec<u8>, (Value, Option<u64>)>,
    now: u64,
    handle: HashMap<u8, Found>,
}

pub(super) fn name(key: u8) -> Vec<u8> {
    format!("key:{key}{}", "x".repeat(usize::from(key % 5) * 7)).into_bytes()
}

impl Pair {
    pub(super) fn value(&mut self, key: &[u8]) -> Option<&mut Value> {
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

    fn apply(&mut self, step: ModelOp) -> Result<(), TestCaseError> {
        let number = match &step {
            ModelOp::Set(key, ..)
            | ModelOp::Keep(key, _)
            | ModelOp::Resize(key, _)
            | ModelOp::HashSet(key, _)
            | ModelOp::HashRemove(key, _)
            | ModelOp::Add(key, ..)
            | ModelOp::Drop(key, _)
            | ModelOp::DropRanks(key, ..)
            | ModelOp::Remove(key)
            | ModelOp::Expire(key, _)
            | ModelOp::Rename(key, _)
            | ModelOp::Copy(key, _) => *key,
            _ => 0,
        };
        let bytes = name(number);
        // What an earlier window found, however much has changed since.
        let key = Key::with_found(
            &bytes,
            self.handle.remove(&number).unwrap_or(Found::UNKNOWN),
        );
        let now = self.now;
        match step {
            ModelOp::Set(_, value, ms) => {
                let at = ms.map(|ms| now + ms);
                let expiry = at.map_or(Expiry::Clear, Expiry::At);
                self.ours.db(0).set_string(&key, &value, expiry).unwrap();
                self.theirs
                    .insert(bytes.clone(), (Value::String(value), at));
            }
            ModelOp::Keep(_, value) => {
                self.value(&bytes);
                self.ours
                    .db(0)
                    .set_string(&key, &value, Expiry::Keep)
                    .unwrap();
                let at = self.theirs.get(&bytes).and_then(|(_, at)| *at);
                self.theirs
                    .insert(bytes.clone(), (Value::String(value), at));
            }
            ModelOp::Resize(_, len) => {
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
            ModelOp::HashSet(_, pairs) => {
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
            ModelOp::HashRemove(_, names) => {
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
            ModelOp::Add(_, member, score) => {
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
            ModelOp::Drop(_, names) => {
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
            ModelOp::DropRanks(_, start, len) => {
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
            ModelOp::Remove(_) => {
                let expected = self.value(&bytes).is_some();
                prop_assert_eq!(self.ours.db(0).remove(&key), expected);
                self.theirs.remove(&bytes);
            }
            ModelOp::Expire(_, ms) => {
                let expected = self.value(&bytes).is_some();
                let at = ms.map(|ms| now + ms);
                prop_assert_eq!(self.ours.db(0).set_expiry(&key, at).unwrap(), expected);
                if let Some((_, expires)) = self.theirs.get_mut(&bytes) {
                    *expires = at;
                }
            }
            ModelOp::Rename(_, to) => {
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
            ModelOp::Copy(_, to) => {
                let to = name(to);
                if to != bytes {
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
            ModelOp::Wait(ms) => {
                self.now += ms;
                self.ours.set_now(self.now);
                self.ours.db(0).expire_some(2);
            }
            ModelOp::Find(keys) => {
                let names: Vec<Vec<u8>> = keys.iter().map(|&key| name(key)).collect();
                let slices: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                let mut found = Vec::new();
                self.ours.db(0).find_many(&slices, &mut found);
                prop_assert_eq!(found.len(), keys.len());
                self.handle.extend(keys.into_iter().zip(found));
            }
            ModelOp::Tick => _ = self.ours.tick(),
            ModelOp::Clear => {
                self.ours.db(0).clear();
                self.theirs.clear();
            }
        }
        Ok(())
    }
}

pub(super) fn sorted(members: &HashMap<Vec<u8>, f64>) -> Vec<(Vec<u8>, f64)> {
    let mut sorted: Vec<_> = members
        .iter()
        .map(|(member, &score)| (member.clone(), score))
        .collect();
    sorted.sort_by(|one, other| packed::order((one.1, &one.0), (other.1, &other.0)));
    sorted
}

fn check(policy: Policy, near_bytes: u64, steps: Vec<ModelOp>) -> Result<(), TestCaseError> {
    let ours = keyspace(settings(policy, near_bytes));
    let mut pair = Pair {
        ours,
        theirs: HashMap::new(),
        now: 1000,
        handle: HashMap::new(),
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
