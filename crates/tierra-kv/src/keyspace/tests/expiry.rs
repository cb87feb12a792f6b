//! Keys expire in time, and the queue of expiries costs neither unbounded time nor memory.

use super::*;

fn name(key: u64) -> [u8; 8] {
    key.to_le_bytes()
}

fn set(keyspace: &mut Keyspace, key: u64, expiry: Expiry) {
    let db = keyspace.db(0);
    db.set_string(&Key::new(&name(key)), b"value", expiry)
        .unwrap();
}

/// As a server does, ten keys at a time.
fn expire(keyspace: &mut Keyspace, now_ms: u64) -> usize {
    keyspace.set_now(now_ms);
    let mut removed = 0;
    loop {
        let (some, more) = keyspace.db(0).expire_some(10);
        removed += some;
        if !more {
            return removed;
        }
    }
}

#[test]
fn what_is_put_off_expires_when_it_is_due() {
    let mut keyspace = keyspace(Settings::default());
    keyspace.set_now(0);
    for key in 0..5000 {
        set(&mut keyspace, key, Expiry::At(100 + key % 7));
    }
    // Used again and again, half of them live on; some are to go earlier, some never.
    for round in 1..=20 {
        for key in (0..5000).step_by(2) {
            set(&mut keyspace, key, Expiry::At(100 + round * 50));
        }
    }
    for key in (0..5000).step_by(20) {
        set(&mut keyspace, key, Expiry::At(50));
    }
    for key in (2..5000).step_by(20) {
        set(&mut keyspace, key, Expiry::Clear);
    }
    assert_eq!(expire(&mut keyspace, 49), 0);
    assert_eq!(expire(&mut keyspace, 50), 250);
    assert_eq!(expire(&mut keyspace, 110), 2500);
    assert_eq!(expire(&mut keyspace, 1099), 0);
    assert_eq!(expire(&mut keyspace, 1100), 2000);
    assert_eq!((keyspace.len_of(0), keyspace.expiring_of(0)), (250, 0));
}

#[test]
fn keys_that_come_and_go_leave_nothing_that_waits() {
    let mut keyspace = keyspace(Settings::default());
    keyspace.set_now(0);
    for key in 0..100 {
        set(&mut keyspace, key, Expiry::At(1 << 40));
    }
    let before = keyspace.report().table_bytes;
    for at in 0..200_000 {
        // One made and removed, one made earlier, one later: hours before any is due.
        set(&mut keyspace, 1000 + at, Expiry::At((1 << 40) + at));
        assert!(keyspace.db(0).remove(&Key::new(&name(1000 + at))));
        set(&mut keyspace, at % 50, Expiry::At((1 << 39) - at));
        set(&mut keyspace, 50 + at % 50, Expiry::At((1 << 40) + at));
    }
    let grown = keyspace.report().table_bytes - before;
    assert!(grown < 64 << 10, "{grown} bytes");
    assert_eq!(keyspace.expiring_of(0), 100);
    assert_eq!(expire(&mut keyspace, 1 << 41), 100);
}

/// Whatever is done to keys that live on, again and again, what says when they expire stays in proportion.
#[test]
fn what_keys_leave_behind_is_gathered() {
    const KEYS: u64 = 10_000;
    type Change<'a> = &'a dyn Fn(&mut Keyspace, u64, u64);
    let later = |db: &mut Db, key: u64, at_ms: u64| {
        assert_eq!(db.set_expiry(&Key::new(&name(key)), Some(at_ms)), Ok(true));
    };
    let changes: [Change<'_>; 3] = [
        // SET and EXPIRE, DEL and SETEX, EXPIRE to and fro.
        &|keyspace, key, at_ms| {
            set(keyspace, key, Expiry::Clear);
            later(keyspace.db(0), key, at_ms);
        },
        &|keyspace, key, at_ms| {
            assert!(keyspace.db(0).remove(&Key::new(&name(key))));
            set(keyspace, key, Expiry::At(at_ms));
        },
        &|keyspace, key, at_ms| {
            later(keyspace.db(0), key, at_ms + 500);
            later(keyspace.db(0), key, at_ms);
        },
    ];
    for change in changes {
        let mut keyspace = keyspace(Settings::default());
        keyspace.set_now(0);
        let due = |key: u64, round: u64| 1000 + 10 * round + key % 7;
        (0..KEYS).for_each(|key| set(&mut keyspace, key, Expiry::At(due(key, 0))));
        let before = keyspace.report().table_bytes;
        let mut greatest = before;
        for round in 1..=100 {
            (0..KEYS).for_each(|key| change(&mut keyspace, key, due(key, round)));
            greatest = greatest.max(keyspace.report().table_bytes);
        }
        let grown = greatest - before;
        assert!(grown < 100 * KEYS, "{grown} bytes");
        assert_eq!(keyspace.expiring_of(0), KEYS as usize);
        assert_eq!(expire(&mut keyspace, due(0, 100) - 1), 0);
        for remainder in 0..7 {
            let expected = (0..KEYS).filter(|key| key % 7 == remainder).count();
            assert_eq!(expire(&mut keyspace, due(remainder, 100)), expected);
        }
        assert!(keyspace.db(0).is_empty());
    }
}
