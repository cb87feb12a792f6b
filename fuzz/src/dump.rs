//! Payloads that RESTORE is given: values as Redis serializes them.

use tierra_kv::dump::{restore, seal, write};
use tierra_kv::keyspace::{Expiry, Key, Keyspace, KeyspaceOptions, Kind, Settings};

/// A value as it is read: bytes, or pairs in order.
type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// The promise of target `dump` for type and value of a payload; `options` chooses whether small hashes and sorted sets
/// are packed, and whether version and checksum are already there.
///
/// # Panics
/// Where it is not kept.
pub fn check(options: u8, value: &[u8]) {
    let packed_max = if options & 1 == 0 { 128 } else { 1 };
    let settings = Settings {
        hash_packed_entries_max: packed_max,
        set_packed_entries_max: packed_max,
        near_bytes: 64 << 20,
        ..Settings::default()
    };
    let mut keyspace = Keyspace::new(&KeyspaceOptions {
        settings,
        far_bytes: 1,
        ..KeyspaceOptions::default()
    })
    .expect("addresses");
    let mut payload = value.to_vec();
    if options & 2 == 0 {
        seal(&mut payload);
    }
    let key = Key::new(b"key");
    let db = keyspace.db(0);
    db.set_string(&key, b"before", Expiry::At(99))
        .expect("room for a word");
    let before = stored(&keyspace);
    if restore(keyspace.db(0), &key, None, &payload).is_err() {
        let was = vec![(b"before".to_vec(), Vec::new())];
        assert_eq!(
            contents(&mut keyspace, b"key"),
            (Kind::String, was, Some(99))
        );
        assert_eq!(stored(&keyspace), before, "nothing is left of it");
        return;
    }
    let (kind, found, expiry) = contents(&mut keyspace, b"key");
    assert_eq!(expiry, None);
    let names = found.iter().map(|(name, _)| name);
    let names: std::collections::HashSet<_> = names.collect();
    assert!(
        found.len() == names.len() && !names.is_empty(),
        "nothing is there twice"
    );
    // What it is told as is the same value again.
    let db = keyspace.db(0);
    let entry = db.find(&key).expect("it was restored");
    let mut told = Vec::new();
    write(db, entry, &mut told);
    let again = restore(keyspace.db(0), &Key::new(b"again"), Some(7), &told);
    assert_eq!(again, Ok(()), "what is dumped is restored");
    assert_eq!(contents(&mut keyspace, b"again"), (kind, found, Some(7)));
    for key in [&b"key"[..], b"again"] {
        keyspace.db(0).remove(&Key::new(key));
    }
    assert_eq!(stored(&keyspace), 0, "all of it goes with its key");
}

/// Bytes of all records.
fn stored(keyspace: &Keyspace) -> u64 {
    let report = keyspace.report();
    report.near.object_bytes + report.far.object_bytes
}

fn contents(keyspace: &mut Keyspace, key: &[u8]) -> (Kind, Contents, Option<u64>) {
    let db = keyspace.db(0);
    let entry = db.find(&Key::new(key)).expect("it is there");
    let kind = db.kind(entry);
    let found = match kind {
        Kind::String => vec![(db.string(entry).to_vec(), Vec::new())],
        Kind::Hash => {
            let pairs = db.hash_iter(entry);
            let mut pairs: Contents = pairs
                .map(|(field, value)| (field.to_vec(), value.to_vec()))
                .collect();
            pairs.sort();
            for (field, value) in &pairs {
                assert_eq!(db.hash_get(entry, field), Some(&value[..]));
            }
            assert_eq!(db.hash_len(entry), pairs.len());
            pairs
        }
        Kind::SortedSet => {
            let members: Vec<_> = db.zset_range(entry, 0..usize::MAX).collect();
            assert_eq!(db.zset_len(entry), members.len());
            let is_in_order = |two: &[(&[u8], f64)]| (two[0].1, two[0].0) < (two[1].1, two[1].0);
            assert!(members.windows(2).all(is_in_order));
            for (rank, (member, score)) in members.iter().enumerate() {
                assert_eq!(db.zset_score(entry, member), Some(*score));
                assert_eq!(db.zset_rank(entry, member), Some(rank));
            }
            let members = members.into_iter();
            members
                .map(|(member, score)| (member.to_vec(), score.to_le_bytes().to_vec()))
                .collect()
        }
    };
    (kind, found, db.expiry(entry))
}
