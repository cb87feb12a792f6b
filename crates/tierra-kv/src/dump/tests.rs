//! What is written is restored, and nothing else.

use proptest::prelude::*;

use super::seal::CRC;
use super::source::{Element, Malformed};
use super::*;
use crate::keyspace::{Db, Expiry, Key, Keyspace, KeyspaceOptions, Kind, MemoryFull, Settings};

fn keyspace(packed_max: usize) -> Keyspace {
    let settings = Settings {
        hash_packed_entries_max: packed_max,
        set_packed_entries_max: packed_max,
        ..Settings::default()
    };
    Keyspace::new(&KeyspaceOptions {
        settings,
        ..KeyspaceOptions::default()
    })
    .unwrap()
}

/// The elements of something packed, as text.
pub(super) fn texts<'p>(
    elements: impl Iterator<Item = Element<'p>>,
) -> Result<Vec<String>, Malformed> {
    let text =
        |element: Element<'_>| element.map(|text| String::from_utf8_lossy(&text).into_owned());
    elements.map(text).collect()
}

fn sealed(value: &[u8]) -> Vec<u8> {
    let mut payload = value.to_vec();
    seal(&mut payload);
    payload
}

/// Bytes of all records.
fn stored(keyspace: &Keyspace) -> u64 {
    let report = keyspace.report();
    report.near.object_bytes + report.far.object_bytes
}

const KEY: &[u8] = b"key";

fn dumped(db: &mut Db) -> Vec<u8> {
    let entry = db.find(&Key::new(KEY)).unwrap();
    let mut payload = Vec::new();
    write(db, entry, &mut payload);
    payload
}

/// Restores a value, whose footer is right.
fn restored(db: &mut Db, value: &[u8]) -> Result<(), RestoreError> {
    restore(db, &Key::new(KEY), None, &sealed(value))
}

#[test]
fn payloads_are_those_of_redis() {
    let mut keyspace = keyspace(128);
    let db = keyspace.db(0);
    // Redis 7.0: SET key 5, DUMP key; the example of its documentation is `SET mykey 10` of an older version.
    restore(
        db,
        &Key::new(KEY),
        None,
        b"\x00\xc0\n\t\x00\xbem\x06\x89Z(\x00\n",
    )
    .unwrap();
    let entry = db.find(&Key::new(KEY)).unwrap();
    assert_eq!(db.string(entry), b"10");
    assert_eq!(dumped(db)[..5], [0, 0xc0, 10, 10, 0]);
    assert_eq!(CRC.checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}

#[test]
fn strings_have_every_length_and_number() {
    let mut keyspace = keyspace(128);
    let db = keyspace.db(0);
    let key = Key::new(KEY);
    let lengths = [0, 1, 63, 64, 16_383, 16_384, 70_000].map(|length| vec![b'x'; length]);
    let numbers = [
        0i64,
        -1,
        127,
        128,
        -128,
        -129,
        32_767,
        32_768,
        -32_769,
        2_147_483_647,
    ]
    .into_iter()
    .chain([-2_147_483_648, 2_147_483_648, i64::MIN])
    .map(|number| number.to_string().into_bytes());
    let texts = ["-0", "007", "+1", " 1", "1e3"].map(|text| text.as_bytes().to_vec());
    for text in lengths.into_iter().chain(numbers).chain(texts) {
        db.set_string(&key, &text, Expiry::Clear).unwrap();
        let payload = dumped(db);
        db.set_string(&key, b"other", Expiry::At(7)).unwrap();
        restore(db, &key, Some(9), &payload).unwrap();
        let entry = db.find(&key).unwrap();
        assert_eq!((db.string(entry), db.expiry(entry)), (&text[..], Some(9)));
    }
}

#[test]
fn footers_are_checked() {
    let mut keyspace = keyspace(128);
    let db = keyspace.db(0);
    let key = Key::new(KEY);
    let good = sealed(b"\x00\x01a");
    assert_eq!(restore(db, &key, None, &good), Ok(()));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_eq!(
            restore(db, &key, None, &bad),
            Err(RestoreError::Footer),
            "{at}"
        );
        assert_eq!(
            restore(db, &key, None, &good[..at]),
            Err(RestoreError::Footer),
            "{at}"
        );
    }
    // Newer than any that is known, with a checksum that is right; newer than Redis 7.0; older.
    for (version, is_right) in [(13u16, false), (12, true), (11, true), (1, true), (6, true)] {
        let mut payload = b"\x00\x01a".to_vec();
        payload.extend_from_slice(&version.to_le_bytes());
        payload.extend_from_slice(&CRC.checksum(&payload).to_le_bytes());
        assert_eq!(
            restore(db, &key, None, &payload).is_ok(),
            is_right,
            "{version}"
        );
    }
}

#[test]
fn what_is_wrong_changes_nothing() {
    use RestoreError::{Format, Kind};
    for packed_max in [1, 128] {
        let mut keyspace = keyspace(packed_max);
        let db = keyspace.db(0);
        restored(db, b"\x04\x02\x01f\x01v\x01g\x01w").unwrap();
        let before = (dumped(db), stored(&keyspace));
        let nan = f64::NAN.to_le_bytes();
        let zset_nan = [b"\x05\x01\x01m".as_slice(), &nan].concat();
        let cases: [(&[u8], RestoreError); 25] = [
            (b"", Format),
            (b"\x08", Format),
            (b"\x14\x01", Kind("set")),
            (b"\x1f\x01", Format),
            (b"\x01\x01\x01a", Kind("list")),
            (b"\x0b\x01", Kind("set")),
            (b"\x0f\x01", Kind("stream")),
            (b"\x07\x01", Kind("value of a module")),
            // Strings that are not there, or in a non-canonical encoding.
            (b"\x00", Format),
            (b"\x00\x05abc", Format),
            (b"\x00\xc4abc", Format),
            (b"\x00\x82abc", Format),
            (b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffabc", Format),
            (
                b"\x00\xc3\x03\x81\x00\x00\x00\x01\x00\x00\x00\x00abc",
                Format,
            ),
            // Nothing, more than there is, and the same twice.
            (b"\x04\x00", Format),
            (b"\x04\x03\x01f\x01v\x01g\x01w", Format),
            (
                b"\x04\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01f\x01v",
                Format,
            ),
            (b"\x04\x02\x01f\x01v\x01f\x01w", Format),
            (b"\x04\x03\x01f\x01v\x01g\x01v\x01f\x01w", Format),
            (b"\x03\x02\x01m\x011\x01m\x012", Format),
            // Scores.
            (&zset_nan, Format),
            (b"\x03\x01\x01m\xfd", Format),
            (b"\x03\x01\x01m\x03nan", Format),
            (b"\x03\x01\x01m\x00", Format),
            // A field without a value.
            (b"\x10\x0a\x0a\x00\x00\x00\x01\x00\x81f\x02\xff", Format),
        ];
        for (value, why) in cases {
            assert_eq!(restored(keyspace.db(0), value), Err(why), "{value:?}");
            let after = (dumped(keyspace.db(0)), stored(&keyspace));
            assert_eq!(after, before, "{value:?}");
        }
    }
}

#[test]
fn a_value_without_room_leaves_what_was_there() {
    let mut from = keyspace(128);
    let key = Key::new(KEY);
    let fields: Vec<String> = (0..40_000)
        .map(|at| format!("a field that is number {at}"))
        .collect();
    let pairs = fields
        .iter()
        .map(|field| (field.as_bytes(), b"value".as_slice()));
    from.db(0).hash_set(&key, pairs).unwrap();
    let payload = dumped(from.db(0));
    let key = Key::new(KEY);
    let mut keyspace = Keyspace::new(&KeyspaceOptions {
        settings: Settings {
            near_bytes: 600_000,
            ..Settings::default()
        },
        far_bytes: 1,
        ..KeyspaceOptions::default()
    })
    .unwrap();
    keyspace
        .db(0)
        .set_string(&key, b"before", Expiry::Clear)
        .unwrap();
    let before = stored(&keyspace);
    let refused = restore(keyspace.db(0), &key, None, &payload);
    assert_eq!(refused, Err(RestoreError::Memory(MemoryFull)));
    let db = keyspace.db(0);
    let entry = db.find(&key).unwrap();
    assert_eq!(db.string(entry), b"before");
    assert_eq!(stored(&keyspace), before);
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..most),
        1 => any::<i32>().prop_map(|number| number.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
    ]
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<i16>().prop_map(f64::from),
        any::<f64>().prop_map(|score| if score.is_nan() { 0.0 } else { score }),
        Just(f64::INFINITY),
        Just(-0.0),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whether they are packed here, and there.
    #[test]
    fn hashes_come_back(
        pairs in prop::collection::hash_map(bytes(80), bytes(80), 1..300),
        packed_max in prop::array::uniform2(prop_oneof![Just(0usize), Just(128), Just(1000)]),
    ) {
        let [mut from, mut to] = packed_max.map(keyspace);
        let key = Key::new(KEY);
        let each = pairs.iter().map(|(field, value)| (&field[..], &value[..]));
        from.db(0).hash_set(&key, each).unwrap();
        // A key knows where it was found: another keyspace has another.
        let key = Key::new(KEY);
        restore(to.db(0), &key, Some(99), &dumped(from.db(0))).unwrap();
        let db = to.db(0);
        let entry = db.find(&key).unwrap();
        prop_assert_eq!(db.kind(entry), Kind::Hash);
        let found = db.hash_iter(entry).map(|(field, value)| (field.to_vec(), value.to_vec()));
        prop_assert_eq!(found.collect::<std::collections::HashMap<_, _>>(), pairs);
        prop_assert_eq!(db.expiry(entry), Some(99));
    }

    #[test]
    fn sorted_sets_come_back(
        members in prop::collection::hash_map(bytes(80), score(), 1..300),
        packed_max in prop::array::uniform2(prop_oneof![Just(0usize), Just(128), Just(1000)]),
    ) {
        let [mut from, mut to] = packed_max.map(keyspace);
        let key = Key::new(KEY);
        for (member, score) in &members {
            from.db(0).zset_set(&key, member, score + 0.0).unwrap();
        }
        let key = Key::new(KEY);
        restore(to.db(0), &key, None, &dumped(from.db(0))).unwrap();
        let all = |db: &mut Db| {
            let entry = db.find(&Key::new(KEY)).unwrap();
            let range = db.zset_range(entry, 0..usize::MAX);
            range.map(|(member, score)| (member.to_vec(), score)).collect::<Vec<_>>()
        };
        let mut expected = all(from.db(0));
        prop_assert_eq!(all(to.db(0)), &expected[..]);
        // It is a set like any other: it has ranks, and members go.
        let db = to.db(0);
        let member = members.keys().next().unwrap();
        let entry = db.find(&key).unwrap();
        let rank = db.zset_rank(entry, member);
        prop_assert_eq!(rank, expected.iter().position(|(other, _)| other == member));
        prop_assert!(db.zset_remove(&key, member));
        if members.len() > 1 {
            expected.remove(rank.unwrap());
            prop_assert_eq!(all(db), expected);
        }
    }
}
