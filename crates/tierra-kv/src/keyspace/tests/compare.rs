//! Everything that there is against the maps of [`model`](super::model).

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::model::{Pair, Value, name, sorted};
use super::*;

impl Pair {
    pub(super) fn compare(&mut self) -> Result<(), TestCaseError> {
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
        let (counted, added_up) = self.ours.db(0).store.larges.counted_and_added_up();
        prop_assert_eq!(counted, added_up);
        Ok(())
    }
}
