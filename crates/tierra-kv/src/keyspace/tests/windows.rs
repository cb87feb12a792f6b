//! What a window has found is used while it holds, and no longer.

use std::collections::HashMap;

use super::*;

/// The planted test: what a window has found is void once the key is gone.
#[test]
fn set_del_get_in_one_window() {
    let mut keyspace = keyspace(Settings::default());
    let db = keyspace.db(0);
    db.set_string(&Key::new(b"k"), b"old", Expiry::Clear)
        .unwrap();
    let mut found = Vec::new();
    db.find_many(&[b"k", b"k", b"k"], &mut found);
    let [set, del, get] = [found[0], found[1], found[2]].map(|found| Key::with_found(b"k", found));
    db.set_string(&set, b"new, and longer than what was there", Expiry::Clear)
        .unwrap();
    assert!(db.remove(&del));
    assert_eq!(db.find(&get), None);
    db.set_string(&get, b"again", Expiry::Clear).unwrap();
    let entry = db.find(&set).unwrap();
    assert_eq!(db.string(entry), b"again");
}

/// Windows go by hashes, of which the table keeps a part: what they lead to may be another key's.
#[test]
fn two_keys_that_a_table_cannot_tell_apart() {
    let mut keyspace = keyspace(Settings::default());
    let db = keyspace.db(0);
    // In a table of one group all that a table knows of a hash are its top sixteen bits and a tag of eight.
    let mut seen = HashMap::new();
    let twins = (0u32..).find_map(|number| {
        let hash = db.store.heap.hash_of(&number.to_le_bytes());
        let kept = (hash >> 48, (hash >> 32) as u8);
        let other: Option<u32> = seen.insert(kept, number);
        other.map(|other| [other.to_le_bytes(), number.to_le_bytes()])
    });
    let [one, other] = &twins.expect("they come after some thousands");
    db.set_string(&Key::new(one), b"one", Expiry::Clear)
        .unwrap();
    let mut found = Vec::new();
    db.find_many(&[one, other, other, other], &mut found);
    let others = [found[1], found[2], found[3]].map(|found| Key::with_found(other, found));
    assert!(db.find(&Key::with_found(one, found[0])).is_some());
    assert_eq!(db.find(&others[0]), None);
    db.set_string(&others[1], b"other", Expiry::Clear).unwrap();
    let entry = db.find(&others[2]).unwrap();
    assert_eq!(db.string(entry), b"other");
    assert!(db.remove(&others[0]));
    let entry = db.find(&Key::new(one)).unwrap();
    assert_eq!(db.string(entry), b"one");

    // Fields of a large value are found in the same way.
    let hash = Key::new(b"hash");
    let long = [7; 2000];
    let fields = [&one[..], b"long"].map(|field| (field, &long[..]));
    assert_eq!(db.hash_set(&hash, fields.into_iter()), Ok(2));
    let entry = db.find(&hash).unwrap();
    let mut values = Vec::new();
    db.hash_get_many(entry, [&other[..], one].into_iter(), |value| {
        values.push(value.map(<[u8]>::len))
    });
    assert_eq!(values, [None, Some(2000)]);
    assert_eq!(
        db.hash_remove_many(&hash, [&other[..], b"none"].into_iter()),
        0
    );
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
