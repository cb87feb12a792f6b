//! What is done with whole values and databases costs what it must, and is done or not done.

use super::*;

#[test]
fn appending_moves_a_value_now_and_then() {
    let mut keyspace = keyspace(Settings::default());
    let key = Key::new(b"log");
    let db = keyspace.db(0);
    let (mut moves, mut before) = (0, None);
    for at in 1..=40_000usize {
        let value = db.resize_string(&key, at * 50).unwrap();
        value[at * 50 - 50..].fill(at as u8);
        let record = db.find(&key).unwrap().record;
        moves += u32::from(before.replace(record) != Some(record));
    }
    let entry = db.find(&key).unwrap();
    assert!(moves < 120, "{moves} moves");
    assert!(db.memory_usage(entry) < 40_000 * 50 * 9 / 8 + 8192);
    let written = db.string(entry).chunks(50).zip(1usize..);
    assert!(
        written
            .into_iter()
            .all(|(chunk, at)| chunk.iter().all(|&byte| byte == at as u8))
    );
}

#[test]
fn a_copy_that_fails_leaves_what_was_there() {
    let mut keyspace = Keyspace::new(&KeyspaceOptions {
        settings: Settings {
            near_bytes: 600_000,
            ..Settings::default()
        },
        far_bytes: 1,
        ..KeyspaceOptions::default()
    })
    .unwrap();
    let (from, to) = (Key::new(b"from"), Key::new(b"to"));
    let db = keyspace.db(0);
    db.set_string(&from, &[1; 400_000], Expiry::Clear).unwrap();
    db.set_string(&to, b"kept", Expiry::At(1 << 40)).unwrap();
    assert_eq!(keyspace.copy((0, &from), (0, &to)), Err(MemoryFull));
    let entry = keyspace.db(0).find(&to).unwrap();
    assert_eq!(keyspace.selected().string(entry), b"kept");
    assert_eq!(keyspace.selected().expiry(entry), Some(1 << 40));
    // Moving takes no memory.
    assert!(keyspace.move_to((0, &from), 3));
    assert!(!keyspace.move_to((0, &from), 3));
    let entry = keyspace.db(3).find(&from).unwrap();
    assert_eq!(keyspace.selected().string(entry).len(), 400_000);
}

#[test]
fn databases_are_cleared_one_by_one_and_all_at_once() {
    let mut keyspace = keyspace(settings(Policy::Dynamic, 1 << 20));
    let fill = |keyspace: &mut Keyspace, id: DbId| {
        let db = keyspace.db(id);
        for number in 0..300u32 {
            let (name, member) = (number.to_le_bytes(), [id; 3]);
            let expiry = Expiry::At(1000 + u64::from(number));
            let key = |kind: u8| [&[kind], &name[..]].concat();
            db.set_string(&Key::new(&key(0)), &[id; 3000], expiry)
                .unwrap();
            for field in 0..10u8 {
                let pair = [(&[field][..], &member[..])];
                db.hash_set(&Key::new(&key(1)), pair.into_iter()).unwrap();
                db.zset_set(&Key::new(&key(2)), &[field], f64::from(field))
                    .unwrap();
            }
        }
    };
    (0..3).for_each(|id| fill(&mut keyspace, id));
    keyspace.db(1).clear();
    assert_eq!([0, 1, 2].map(|id| keyspace.len_of(id)), [900, 0, 900]);
    let objects = |keyspace: &Keyspace| {
        let report = keyspace.report();
        report.near.objects + report.far.objects
    };
    assert_eq!(objects(&keyspace), 2 * 300 * (1 + 11 + 11));
    keyspace.db(0).clear();
    keyspace.db(2).clear();
    assert_eq!(objects(&keyspace), 0);
    (0..3).for_each(|id| fill(&mut keyspace, id));
    keyspace.clear();
    assert_eq!(objects(&keyspace), 0);
    assert_eq!([0, 1, 2].map(|id| keyspace.len_of(id)), [0; 3]);
    assert_eq!(keyspace.db(0).store.larges.counted_and_added_up(), (0, 0));
    assert!(!keyspace.tick(), "there is nothing to do");
    fill(&mut keyspace, 5);
    assert_eq!((keyspace.len_of(5), keyspace.expiring_of(5)), (900, 300));
}

#[test]
fn large_values_are_unlinked_at_once_and_freed_later() {
    let mut keyspace = keyspace(Settings::default());
    let names: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_le_bytes).collect();
    let fields = || names.iter().map(|name| (&name[..], &name[..]));
    let (one, other) = (Key::new(b"one"), Key::new(b"other"));
    let objects = |keyspace: &Keyspace| keyspace.report().near.objects;
    for clears in [false, true] {
        let db = keyspace.db(0);
        for key in [&one, &other] {
            assert_eq!(db.hash_set(key, fields()), Ok(20_000));
        }
        assert!(db.unlink(&one) && !db.unlink(&one));
        assert!(db.free_some(), "there is more");
        // Another one, and the same key again, while the first is not gone yet.
        assert!(db.unlink(&other));
        assert_eq!(db.hash_set(&one, fields().take(10)), Ok(10));
        assert!(objects(&keyspace) > 30_000);
        if clears {
            keyspace.clear();
            assert!(!keyspace.free_some());
            assert_eq!(objects(&keyspace), 0);
        } else {
            let before = keyspace.used_bytes();
            while keyspace.free_some() {}
            assert_eq!(objects(&keyspace), 1);
            assert!(keyspace.used_bytes() < before / 4);
            let db = keyspace.db(0);
            let entry = db.find(&one).unwrap();
            assert_eq!(db.hash_len(entry), 10);
            assert!(db.remove(&one));
        }
    }
}

#[test]
fn reading_an_expired_large_value_does_not_free_it() {
    let mut keyspace = Keyspace::new(&KeyspaceOptions {
        far_tables: true,
        ..KeyspaceOptions::default()
    })
    .unwrap();
    keyspace.set_now(0);
    let names: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_le_bytes).collect();
    let fields = names.iter().map(|name| (&name[..], &name[..]));
    let key = Key::new(b"large");
    let db = keyspace.db(0);
    assert_eq!(db.hash_set(&key, fields), Ok(20_000));
    assert_eq!(db.set_expiry(&key, Some(10)), Ok(true));
    let before = keyspace.report();
    assert!(before.far_table_bytes > 20_000 * 8);
    keyspace.set_now(10);
    assert!(keyspace.db(0).find(&key).is_none());
    let after = keyspace.report();
    assert_eq!(after.near.objects, before.near.objects - 1);
    // What is being freed is still there, and counted.
    assert_eq!(after.far_table_bytes, before.far_table_bytes);
    while keyspace.free_some() {}
    let freed = keyspace.report();
    assert_eq!((freed.near.objects, freed.far_table_bytes), (0, 0));
}

#[test]
fn a_database_is_freed_later_and_the_others_stay() {
    let mut keyspace = keyspace(Settings::default());
    let names: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_le_bytes).collect();
    let pairs = || names.iter().map(|name| (&name[..], &name[..]));
    for id in 0..2 {
        let db = keyspace.db(id);
        for name in &names {
            db.set_string(&Key::new(name), name, Expiry::At(1 << 60))
                .unwrap();
        }
        for large in 0..50u32 {
            let key = [b"large", &large.to_le_bytes()[..]].concat();
            assert_eq!(db.hash_set(&Key::new(&key), pairs().take(1000)), Ok(1000));
        }
    }
    let objects = |keyspace: &Keyspace| keyspace.report().near.objects;
    let before = (objects(&keyspace), keyspace.used_bytes());
    keyspace.db(0).clear_deferred();
    assert_eq!((keyspace.len_of(0), keyspace.len_of(1)), (0, 20_050));
    assert!(objects(&keyspace) > before.0 * 3 / 4, "they go in steps");
    // What is made meanwhile stays.
    let again = Key::new(b"again");
    assert_eq!(
        keyspace.db(0).hash_set(&again, pairs().take(1000)),
        Ok(1000)
    );
    while keyspace.free_some() {}
    assert_eq!(objects(&keyspace), before.0 / 2 + 1001);
    assert!(keyspace.used_bytes() < before.1 * 2 / 3);
    for (id, len) in [(0, 1), (1, 20_050)] {
        let db = keyspace.db(id);
        assert_eq!(db.len(), len);
        for name in &names {
            assert_eq!(db.find(&Key::new(name)).is_some(), id == 1);
        }
    }
}

#[test]
fn large_values_that_are_gone_leave_no_list_behind() {
    let mut keyspace = keyspace(Settings::default());
    let long = [7; 2000];
    let before = keyspace.db(0).table_bytes();
    for _ in 0..2 {
        let db = keyspace.db(0);
        for number in 0..20_000u32 {
            let name = number.to_le_bytes();
            assert_eq!(
                db.hash_set(&Key::new(&name), [(&name[..], &long[..])].into_iter()),
                Ok(1)
            );
        }
        for number in 0..20_000u32 {
            assert!(db.remove(&Key::new(&number.to_le_bytes())));
        }
    }
    let after = keyspace.db(0).table_bytes();
    assert!(
        after < before + (64 << 10),
        "{after} bytes, {before} before"
    );
}
