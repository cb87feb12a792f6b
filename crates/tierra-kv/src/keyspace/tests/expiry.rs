//! Keys expire in time, and what says when costs neither time nor memory that nobody has asked for.

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
