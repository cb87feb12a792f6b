//! What goes when memory is full, and what stays.

use super::*;

const KEYS: u64 = 3000;
const HOT: u64 = KEYS / 10;

fn name(key: u64) -> [u8; 8] {
    key.to_le_bytes()
}

fn put(keyspace: &mut Keyspace, key: u64, expiry: Expiry) {
    let db = keyspace.db(0);
    db.set_string(&Key::new(&name(key)), &[7; 100], expiry)
        .unwrap();
}

fn has(keyspace: &mut Keyspace, key: u64) -> bool {
    keyspace.db(0).find(&Key::new(&name(key))).is_some()
}

/// A keyspace that holds keys from 0 on, and as many bytes as it has now.
fn filled(settings: Settings, policy: Eviction) -> (Keyspace, u64) {
    let mut keyspace = keyspace(settings);
    keyspace.set_eviction(policy);
    for key in 0..KEYS {
        put(&mut keyspace, key, Expiry::At(1_000_000));
    }
    let max_bytes = keyspace.stored_bytes();
    (keyspace, max_bytes)
}

/// Adds new keys while those of a hot set are used one after the other, one for each that comes, and nothing else is; how many of the hot set
/// are there afterwards.
fn overfill(
    keyspace: &mut Keyspace,
    policy: Eviction,
    max_bytes: u64,
    new: Range<u64>,
    hot: Range<u64>,
) -> u64 {
    let mut evicted = 0;
    // As hot keys are: without it some would go before their first use.
    hot.clone().for_each(|key| _ = has(keyspace, key));
    for (at, key) in new.enumerate() {
        let (some, room) = keyspace.evict(policy, 5, max_bytes, key);
        assert_eq!(room, Room::Enough);
        assert!(keyspace.stored_bytes() <= max_bytes);
        evicted += some;
        put(keyspace, key, Expiry::At(1_000_000));
        has(keyspace, hot.start + at as u64 % (hot.end - hot.start));
        if at % 16 == 0 {
            keyspace.db(0).find_many(&[], &mut Vec::new());
        }
    }
    assert!(evicted > KEYS, "{evicted} were evicted");
    hot.filter(|&key| has(keyspace, key)).count() as u64
}

#[test]
fn a_hot_set_stays_wherever_records_go() {
    for placement in Policy::ALL {
        for policy in [
            Eviction::AllLru,
            Eviction::AllLfu,
            Eviction::VolatileLru,
            Eviction::VolatileLfu,
        ] {
            let settings = Settings {
                policy: placement,
                near_bytes: 200_000,
                ..Settings::default()
            };
            let (mut keyspace, max) = filled(settings, policy);
            let left = overfill(&mut keyspace, policy, max, KEYS..6 * KEYS, 0..HOT);
            assert!(
                left >= HOT * 19 / 20,
                "{left} of {HOT}: {placement} {policy:?}"
            );
        }
    }
}

#[test]
fn by_chance_a_hot_set_goes() {
    for policy in [Eviction::AllRandom, Eviction::VolatileRandom] {
        let (mut keyspace, max) = filled(Settings::default(), policy);
        let left = overfill(&mut keyspace, policy, max, KEYS..6 * KEYS, 0..HOT);
        assert!(left < HOT / 4, "{left} of {HOT}: {policy:?}");
    }
}

#[test]
fn what_was_hot_goes_once_others_are() {
    for policy in [Eviction::AllLru, Eviction::AllLfu] {
        let settings = Settings {
            policy: Policy::OnlyDram,
            ..Settings::default()
        };
        let (mut keyspace, max) = filled(settings, policy);
        overfill(&mut keyspace, policy, max, KEYS..6 * KEYS, 0..HOT);
        let next = 6 * KEYS - HOT..6 * KEYS;
        let left = overfill(&mut keyspace, policy, max, 6 * KEYS..30 * KEYS, next);
        assert!(left >= HOT / 3, "{left} of {HOT}: {policy:?}");
        let left = (0..HOT).filter(|&key| has(&mut keyspace, key)).count() as u64;
        assert!(left < HOT / 10, "{left} of {HOT} stayed: {policy:?}");
    }
}

#[test]
fn what_expires_first_goes_first() {
    let mut keyspace = keyspace(Settings::default());
    keyspace.set_now(0);
    for key in 0..KEYS {
        put(&mut keyspace, key, Expiry::At(1000 + key * 7919 % KEYS));
        put(&mut keyspace, KEYS + key, Expiry::Clear);
    }
    // Some are put off, behind all others.
    for key in (0..KEYS).step_by(5) {
        put(&mut keyspace, key, Expiry::At(10_000 + key));
    }
    let (mut left, mut last) = (KEYS as usize, 0);
    while left > 0 {
        let max_bytes = keyspace.stored_bytes() - 1;
        let (evicted, room) = keyspace.evict(Eviction::VolatileTtl, 5, max_bytes, 0);
        assert_eq!(room, Room::Enough);
        left -= evicted as usize;
        assert_eq!(keyspace.expiring_of(0), left);
        if left % 100 == 0 {
            let gone = (0..KEYS).filter(|&key| !has(&mut keyspace, key));
            let time = |key| match key % 5 {
                0 => 10_000 + key,
                _ => 1000 + key * 7919 % KEYS,
            };
            last = gone.map(time).max().unwrap_or(last);
            let first = (0..KEYS).filter(|&key| has(&mut keyspace, key)).map(time);
            assert!(first.min().is_none_or(|first| first > last));
        }
    }
    let nothing = (0, Room::None);
    assert_eq!(keyspace.evict(Eviction::VolatileTtl, 5, 0, 0), nothing);
    assert_eq!(keyspace.evict(Eviction::VolatileLru, 5, 0, 0), nothing);
    assert_eq!(keyspace.evict(Eviction::VolatileRandom, 5, 0, 0), nothing);
    assert_eq!(keyspace.evict(Eviction::None, 5, 0, 0), nothing);
    assert_eq!(keyspace.len_of(0), KEYS as usize);
}

/// The worst that a call can meet: it does some of it, and says that there is more.
#[test]
fn a_call_does_so_much_and_no_more() {
    let mut keyspace = keyspace(Settings::default());
    for key in 0..KEYS {
        put(&mut keyspace, key, Expiry::Clear);
    }
    let (evicted, room) = keyspace.evict(Eviction::AllRandom, 5, 0, 1);
    assert_eq!((evicted, room), (512, Room::Some));
    keyspace.clear();
    let (key, parts) = (Key::new(b"large"), 200_000u32);
    let db = keyspace.db(0);
    let fields: Vec<_> = (0..parts).map(|field| field.to_le_bytes()).collect();
    let pairs = fields.iter().map(|field| (&field[..], &b"value"[..]));
    db.hash_set(&key, pairs).unwrap();
    let mut calls = 0;
    let max_bytes = keyspace.stored_bytes() / 10;
    while keyspace.evict(Eviction::AllLru, 5, max_bytes, 1).1 == Room::Some {
        // It is gone for everyone at once.
        assert_eq!(keyspace.len_of(0), 0);
        calls += 1;
    }
    assert!(calls > 5, "{calls}");
    assert!(keyspace.stored_bytes() <= max_bytes);
}
