//! What moving records must not do: owe for what nobody asked for, make up for the past, stand still, or go by what was counted
//! under another policy.

use tierra_index::RecordTable;

use super::super::large::Large;
use super::super::{Expiry, Key, Keyspace, Options, Settings};
use super::*;

fn keyspace(near_bytes: u64) -> Keyspace {
    let settings = Settings {
        near_bytes,
        ..Settings::default()
    };
    Keyspace::new(&Options {
        settings,
        ..Options::default()
    })
    .unwrap()
}

fn name(key: u32) -> String {
    format!("key:{key:08}")
}

fn fill(keyspace: &mut Keyspace, keys: u32, bytes: usize) {
    for key in 0..keys {
        let value = vec![0; bytes];
        let name = name(key);
        let key = Key::new(name.as_bytes());
        keyspace
            .db(0)
            .set_string(&key, &value, Expiry::Clear)
            .unwrap();
    }
}

/// Uses a key, between windows.
fn use_key(keyspace: &mut Keyspace, key: u32) {
    let name = name(key);
    assert!(keyspace.db(0).find(&Key::new(name.as_bytes())).is_some());
}

#[test]
fn what_was_gathered_is_no_debt_for_long() {
    let mut keyspace = keyspace(u64::MAX);
    fill(&mut keyspace, 60_000, 1000);
    for key in (0..60_000).filter(|key| key % 10 < 7) {
        let name = name(key);
        assert!(keyspace.db(0).remove(&Key::new(name.as_bytes())));
    }
    // Nobody uses anything meanwhile.
    (0..1000).find(|_| !keyspace.tick()).expect("it ends");
    let moved_bytes = keyspace.report().migrations.bytes;
    assert!(moved_bytes > 12 << 20, "{moved_bytes}");
    // Uses of a thousand bytes, of which half may be moved.
    let mut uses = 0;
    while !keyspace.db.migration.pace.allows() {
        use_key(&mut keyspace, 7 + uses % 6000 * 10);
        uses += 1;
        assert!(uses < 9000, "{moved_bytes} bytes are owed for");
    }
}

#[test]
fn uses_that_there_was_no_time_for_are_not_made_up_for() {
    let mut keyspace = keyspace(u64::MAX);
    fill(&mut keyspace, 40_000, 10);
    for _ in 0..5 {
        (0..40_000).for_each(|key| use_key(&mut keyspace, key));
    }
    keyspace.tick();
    // A tick has gone around as far as it can. Databases without keys take no uses.
    let left = keyspace.db.migration.uses;
    assert!(left <= DATABASES as i64 * STEP_USES, "{left}");
}

#[test]
fn numbers_of_large_values_that_are_gone_hold_no_hand_up() {
    let mut keyspace = keyspace(u64::MAX);
    let larges = &mut keyspace.db.larges;
    let numbers: Vec<u32> = (0..4000)
        .map(|_| larges.add(Large::Hash(RecordTable::new())))
        .collect();
    let kept = numbers[3000];
    for number in numbers.into_iter().filter(|number| *number != kept) {
        larges.take(number);
    }
    let tables = Tables {
        tables: &mut keyspace.db.tables,
        larges,
        heap: &mut keyspace.db.heap,
    };
    let mut hand = Hand {
        visiting: DATABASES - 1,
        point: 0,
    };
    assert!(!tables.advance(&mut hand, 0));
    assert_eq!(hand.visiting, DATABASES + kept as usize);
    assert!(tables.advance(&mut hand, 0), "its round has ended");
}

#[test]
fn another_policy_begins_anew() {
    let mut keyspace = keyspace(u64::MAX);
    fill(&mut keyspace, 5000, 100);
    // All of it is near: that is soon known.
    for _ in 0..40 {
        (0..5000).for_each(|key| use_key(&mut keyspace, key));
        keyspace.tick();
    }
    let migration = &keyspace.db.migration;
    assert!(migration.noted > 1 && migration.border.noted() > 1);
    let done = migration.done;
    for policy in ["only-pmem", "dynamic"] {
        keyspace.set_setting("memory-alloc-policy", policy).unwrap();
    }
    let migration = &keyspace.db.migration;
    assert_eq!((migration.noted, migration.border.noted()), (1, 1));
    assert_eq!((migration.round, migration.uses), (Hand::default(), 0));
    assert_eq!((migration.done, migration.at_round), (done, done));
    // What was not changed is not forgotten.
    (0..5000).for_each(|key| use_key(&mut keyspace, key));
    keyspace.set_setting("near-memory", "1gb").unwrap();
    assert!(keyspace.db.migration.uses > 0);
}

#[test]
fn pages_that_were_being_emptied_are_used_again_under_another_policy() {
    let mut keyspace = keyspace(4 << 20);
    fill(&mut keyspace, 6000, 1000);
    keyspace.db.heap.lacking_bytes = 1 << 20;
    for key in 0..6000 {
        use_key(&mut keyspace, key);
        keyspace.db.step();
        if keyspace.report().near.vacated_bytes > 0 {
            break;
        }
    }
    let near = keyspace.report().near;
    assert!(near.vacated_bytes > 0, "{near:?}");
    keyspace
        .set_setting("memory-alloc-policy", "only-dram")
        .unwrap();
    let after = keyspace.report().near;
    assert_eq!(after.vacated_bytes, 0);
    assert!(after.vacant_bytes > near.vacant_bytes);
}
