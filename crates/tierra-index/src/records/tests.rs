//! The table against the standard one, and the promises of cursors and entry handles.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use tierra_interleave::{Interleaved, Plain, run_plain};

use super::segments::LOAD;
use super::*;

/// Records whose number is their place in a list of keys, hashed as badly as the test likes.
struct Keys {
    keys: Vec<[u8; 8]>,
    hash: fn(u64) -> u64,
}

impl Keys {
    fn new(count: u64, hash: fn(u64) -> u64) -> Keys {
        let keys = (0..count).map(u64::to_le_bytes).collect();
        Keys { keys, hash }
    }

    fn find(&self, table: &RecordTable, number: u64) -> EntryHandle {
        let key = self.keys[number as usize];
        run_plain(|cx: Cx<Plain>| table.find(cx, (self.hash)(number), &key, self))
    }

    /// The record that a key's hash leads to, which has to be the one that is asked for.
    fn find_by_tag(&self, table: &RecordTable, number: u64) -> Option<u64> {
        let mut asked = None;
        let ask = |record| asked = Some(record);
        let found = run_plain(|cx: Cx<Plain>| table.find_by_tag(cx, (self.hash)(number), ask));
        match table.resolve(&found) {
            Resolved::Record(record) => assert_eq!(asked, Some(record)),
            Resolved::Absent => assert_eq!(asked, None),
            Resolved::Changed => panic!("nothing has changed"),
        }
        asked
    }

    fn get(&self, table: &RecordTable, number: u64) -> Option<u64> {
        match table.resolve(&self.find(table, number)) {
            Resolved::Record(record) => Some(record),
            Resolved::Absent => None,
            Resolved::Changed => panic!("nothing has changed"),
        }
    }
}

impl RecordStore for Keys {
    fn head(&self, record: u64) -> &[u8] {
        &self.keys[record as usize]
    }

    fn has_key(&self, record: u64, key: &[u8]) -> bool {
        self.keys[record as usize] == key
    }

    fn hash(&self, record: u64) -> u64 {
        (self.hash)(record)
    }
}

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ 0x9E37_79B9).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    (mixed ^ mixed >> 32).wrapping_mul(0xC4CE_B9FE_1A85_EC53)
}

/// Many keys share a home and a tag, so groups overflow far; top bits differ, so segments can split.
fn crowded(number: u64) -> u64 {
    mixed(number) << 40 | (mixed(number) >> 40) & 0xF8
}

#[derive(Clone, Debug)]
enum TableOp {
    Insert(u64),
    Remove(u64),
    Note(u64, u8),
    Grow(u64),
    Clear(u64),
}

fn steps() -> impl Strategy<Value = Vec<TableOp>> {
    let step = prop_oneof![
        4 => (0u64..2000).prop_map(TableOp::Insert),
        3 => (0u64..2000).prop_map(TableOp::Remove),
        1 => (0u64..2000, 0u8..128).prop_map(|(number, note)| TableOp::Note(number, note)),
        1 => (0u64..20_000).prop_map(TableOp::Grow),
        1 => (0u64..20_000).prop_map(TableOp::Clear),
    ];
    prop::collection::vec(step, 1..60)
}

fn insert(table: &mut RecordTable, keys: &Keys, oracle: &mut HashMap<u64, u8>, number: u64) {
    if oracle.insert(number, 0).is_none() {
        table.insert((keys.hash)(number), number, 0, keys);
    } else {
        let handle = keys.find(table, number);
        table.update_note(&handle, |_| 0);
    }
}

fn remove(table: &mut RecordTable, keys: &Keys, oracle: &mut HashMap<u64, u8>, number: u64) {
    if oracle.remove(&number).is_some() {
        let handle = keys.find(table, number);
        table.remove(&handle, keys);
        assert_eq!(table.resolve(&handle), Resolved::Changed);
    }
}

fn check(
    mut table: RecordTable,
    hash: fn(u64) -> u64,
    steps: Vec<TableOp>,
) -> Result<(), TestCaseError> {
    let keys = Keys::new(20_000, hash);
    let mut oracle = HashMap::new();
    for step in steps {
        match step {
            TableOp::Insert(number) => insert(&mut table, &keys, &mut oracle, number),
            TableOp::Remove(number) => remove(&mut table, &keys, &mut oracle, number),
            TableOp::Grow(end) => {
                (0..end).for_each(|number| insert(&mut table, &keys, &mut oracle, number));
            }
            TableOp::Clear(end) => {
                (0..end).for_each(|number| remove(&mut table, &keys, &mut oracle, number));
            }
            TableOp::Note(number, note) => {
                if let Some(noted) = oracle.get_mut(&number) {
                    *noted = note;
                    table.update_note(&keys.find(&table, number), |_| note);
                }
            }
        }
        prop_assert_eq!(table.len(), oracle.len());
    }
    for number in 0..20_000 {
        let expected = oracle.get(&number).map(|_| number);
        prop_assert_eq!(keys.get(&table, number), expected);
        // A hash leads to its key, or to another of which the table knows the same.
        match keys.find_by_tag(&table, number) {
            Some(record) => {
                let same_bits = (hash(record) ^ hash(number)) >> (u64::BITS - HASH_BITS) == 0;
                prop_assert!(same_bits && tag_of(hash(record)) == tag_of(hash(number)));
                prop_assert!(oracle.contains_key(&record));
            }
            None => prop_assert_eq!(expected, None),
        }
        if let Some(&note) = oracle.get(&number) {
            prop_assert_eq!(table.note(&keys.find(&table, number)), note);
        }
    }
    let mut scanned = HashSet::new();
    let mut cursor = 0;
    loop {
        let told = &mut scanned;
        cursor = table.scan(cursor, &keys, |record| {
            assert!(told.insert(record), "told once")
        });
        if cursor == 0 {
            break;
        }
    }
    prop_assert_eq!(scanned.len(), oracle.len());
    let (mut visited, mut point) = (0, 0);
    loop {
        point = table.visit(point, 7, |slot| {
            visited += usize::from(oracle.contains_key(&slot.record()))
        });
        if point == 0 {
            break;
        }
    }
    prop_assert_eq!(visited, oracle.len());
    prop_assert_eq!(
        table
            .iter()
            .filter(|record| oracle.contains_key(record))
            .count(),
        oracle.len()
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn it_holds_what_a_map_holds(steps in steps()) {
        check(RecordTable::new(), mixed, steps)?;
    }

    #[test]
    fn crowded_groups_lose_nothing(steps in steps()) {
        check(RecordTable::new(), crowded, steps)?;
    }

    #[test]
    fn far_tables_hold_what_near_ones_hold(steps in steps()) {
        check(RecordTable::in_far(Arc::default()), mixed, steps)?;
    }

    #[test]
    fn a_scan_tells_whatever_stays(mut before in 0u64..20_000, changes in prop::collection::vec((0usize..3000, 0u64..20_000), 1..8)) {
        let keys = Keys::new(20_000, mixed);
        let (mut table, mut oracle) = (RecordTable::new(), HashMap::new());
        (0..before).for_each(|number| insert(&mut table, &keys, &mut oracle, number));
        let (mut stays, mut told) = (before, HashSet::new());
        let (mut cursor, mut step, mut changes) = (0, 0, changes.into_iter().peekable());
        loop {
            cursor = table.scan(cursor, &keys, |record| { told.insert(record); });
            step += 1;
            if cursor == 0 {
                break;
            }
            while let Some((_, len)) = changes.next_if(|&(at, _)| at % 300 <= step) {
                for number in before..len {
                    insert(&mut table, &keys, &mut oracle, number);
                }
                for number in (len..before).rev() {
                    remove(&mut table, &keys, &mut oracle, number);
                }
                before = len;
                stays = stays.min(len);
            }
        }
        prop_assert!((0..stays).all(|number| told.contains(&number)));
    }
}

#[test]
fn a_handle_is_valid_until_its_key_changes() {
    let keys = Keys::new(2000, mixed);
    let mut table = RecordTable::new();
    for number in 0..1000 {
        table.insert(mixed(number), number, 0, &keys);
    }
    let (present, absent) = (keys.find(&table, 7), keys.find(&table, 1500));
    assert_eq!(table.resolve(&present), Resolved::Record(7));
    assert_eq!(table.resolve(&absent), Resolved::Absent);

    table.update_note(&present, |_| 5);
    assert_eq!(
        table.resolve(&present),
        Resolved::Record(7),
        "notes change nothing"
    );
    table.insert(mixed(1500), 1500, 0, &keys);
    assert_eq!(table.resolve(&absent), Resolved::Changed);
    let present = keys.find(&table, 7);
    let mut replaced = present;
    table.replace(&mut replaced, 1999);
    assert_eq!(table.resolve(&present), Resolved::Changed);
    assert_eq!(table.resolve(&replaced), Resolved::Record(1999));
}

#[test]
fn no_handle_outlives_growth() {
    let keys = Keys::new(20_000, mixed);
    let mut table = RecordTable::new();
    table.insert(mixed(0), 0, 0, &keys);
    for number in 1..20_000 {
        let handle = keys.find(&table, 0);
        table.insert(mixed(number), number, 0, &keys);
        match table.resolve(&handle) {
            Resolved::Record(record) => assert_eq!(record, 0),
            Resolved::Changed => {}
            Resolved::Absent => panic!("key 0 is there"),
        }
        assert_eq!(keys.get(&table, 0), Some(0));
    }
}

#[test]
fn memory_is_given_back() {
    for table in [RecordTable::new(), RecordTable::in_far(Arc::default())] {
        fill_and_empty(table);
    }
}

fn fill_and_empty(mut table: RecordTable) {
    let keys = Keys::new(300_000, mixed);
    let is_far = table.segments.far().is_some();
    for number in 0..300_000 {
        table.insert(mixed(number), number, 0, &keys);
    }
    let full = table.bytes();
    assert!(full < 300_000 * 16, "{full} bytes");
    let far = table.far_bytes();
    assert_eq!(far > full / 100 * 97, is_far, "{far} of {full} bytes");
    assert!(is_far || far == 0);
    for number in 0..300_000 {
        let handle = keys.find(&table, number);
        table.remove(&handle, &keys);
    }
    assert!(
        table.is_empty() && table.bytes() < 4096,
        "{} bytes",
        table.bytes()
    );
}

#[test]
fn a_table_of_few_entries_takes_little() {
    let keys = Keys::new(200_000, mixed);
    let mut table = RecordTable::new();
    for number in 0..200_000 {
        table.insert(mixed(number), number, 0, &keys);
        if number.is_multiple_of(1000) && number > 0 {
            let bytes = table.bytes() as u64;
            assert!(bytes < 64 * number + (16 << 10), "{bytes} of {number}");
        }
    }
}

#[test]
fn memory_is_given_back_while_some_stay() {
    let keys = Keys::new(800_000, mixed);
    let mut table = RecordTable::new();
    for number in 0..800_000 {
        table.insert(mixed(number), number, 0, &keys);
    }
    let full = table.bytes();
    for number in (0..800_000).filter(|number| number % 16 != 0) {
        let handle = keys.find(&table, number);
        table.remove(&handle, &keys);
    }
    assert!(
        table.bytes() < full / 4,
        "{} of {full} bytes",
        table.bytes()
    );
    for number in 0..800_000 {
        let expected = (number % 16 == 0).then_some(number);
        assert_eq!(keys.get(&table, number), expected);
    }
}

#[test]
fn a_group_of_lookups_finds_what_one_finds() {
    let keys = Keys::new(4000, mixed);
    let mut table = RecordTable::new();
    for number in 0..2000 {
        table.insert(mixed(number), number, 0, &keys);
    }
    let mut found = vec![None; 4000];
    let lookup = |cx: Cx<Interleaved>, number: usize| {
        let (table, keys) = (&table, &keys);
        async move {
            let handle = table
                .find(cx, mixed(number as u64), &keys.keys[number], keys)
                .await;
            table.resolve(&handle)
        }
    };
    let mut resolved = vec![Resolved::Changed; 4000];
    tierra_interleave::map_into(
        tierra_interleave::GroupSize::DEFAULT,
        0..4000,
        lookup,
        &mut resolved,
    );
    for (number, resolved) in resolved.into_iter().enumerate() {
        found[number] = match resolved {
            Resolved::Record(record) => Some(record as usize),
            _ => None,
        };
        assert_eq!(found[number], (number < 2000).then_some(number));
    }
}

#[test]
fn chance_prefers_nobody() {
    let keys = Keys::new(100_000, mixed);
    let mut table = RecordTable::new();
    // Until some segments have been split once more than others.
    let mut len = 0;
    let depths = |table: &RecordTable| -> Vec<u32> {
        let used = (0..table.segments.numbers()).filter(|&number| table.segments.is_used(number));
        used.map(|number| table.segments.depth(number)).collect()
    };
    while depths(&table).iter().filter(|depth| **depth == 4).count() < 6 {
        table.insert(mixed(len), len, 0, &keys);
        len += 1;
    }
    assert!(depths(&table).contains(&3));
    let mut state = 7u64;
    let mut drawn = vec![0u32; len as usize];
    for _ in 0..40 * len {
        let some = table.some(|| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mixed(state) ^ mixed(state) >> 29
        });
        drawn[some.unwrap() as usize] += 1;
    }
    // By depth, how often a record was drawn on average.
    for depth in [3, 4] {
        let of_depth = |number: &u64| {
            let segment = table.segment_number(mixed(*number));
            table.segments.depth(segment) == depth
        };
        let records: Vec<u64> = (0..len).filter(of_depth).collect();
        let draws: u32 = records.iter().map(|&number| drawn[number as usize]).sum();
        let mean = f64::from(draws) / records.len() as f64;
        assert!((mean - 40.0).abs() < 1.0, "depth {depth}: {mean}");
    }
}

#[test]
fn a_group_is_met_as_often_as_it_has_entries() {
    const DRAWS: usize = 200_000;
    let keys = Keys::new(20_000, mixed);
    let mut table = RecordTable::new();
    for number in 0..20_000 {
        table.insert(mixed(number), number, 0, &keys);
    }
    // Most are gone from half of the groups.
    for number in 0..20_000 {
        let handle = keys.find(&table, number);
        if handle.group.is_multiple_of(2) && !number.is_multiple_of(4) {
            table.remove(&handle, &keys);
        }
    }
    let (mut state, mut drawn) = (7u64, vec![0usize; 15]);
    for _ in 0..DRAWS {
        let point = table.some_point(|| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mixed(state) ^ mixed(state) >> 29
        });
        let mut entries = 0;
        table.visit(point.unwrap(), 1, |_| entries += 1);
        drawn[entries] += 1;
    }
    let mut have = vec![0; 15];
    for &number in table.segments.in_use() {
        let groups = table.segments.groups(number as usize);
        groups
            .iter()
            .for_each(|group| have[group.occupied().count()] += 1);
    }
    for (entries, (drawn, groups)) in drawn.into_iter().zip(have).enumerate() {
        let expected = (DRAWS * entries * groups) as f64 / table.len() as f64;
        let luck = 5.0 * expected.sqrt();
        assert!(
            (drawn as f64 - expected).abs() <= luck,
            "{drawn} draws of {groups} groups of {entries}, not {expected}"
        );
    }
}

#[test]
fn chance_does_not_look_where_nothing_is_left() {
    let keys = Keys::new(600_000, mixed);
    let mut table = RecordTable::new();
    for number in 0..600_000 {
        table.insert(mixed(number), number, 0, &keys);
    }
    let mut state = 7u64;
    let mut numbers_a_record = |table: &RecordTable| {
        let mut numbers = 0;
        for _ in 0..1000 {
            let some = table.some(|| {
                numbers += 1;
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                mixed(state) ^ mixed(state) >> 29
            });
            assert!(some.is_some());
        }
        f64::from(numbers) / 1000.0
    };
    let full = numbers_a_record(&table);
    // Until a few segments are left.
    for number in 0..595_000 {
        let handle = keys.find(&table, number);
        table.remove(&handle, &keys);
    }
    assert!(table.depth > 0);
    let empty = numbers_a_record(&table);
    // The segments that are left may be an eighth as full.
    assert!(empty < 10.0 * full, "{full} numbers, then {empty}");
}

/// How many groups a search for a key that is not there reads, on average.
fn groups_read(table: &RecordTable) -> f64 {
    let groups = table.segments.groups(0);
    let mut read = 0;
    for (home, way) in (0..groups.len()).flat_map(|home| (0..4).map(move |way| (home, way))) {
        let mut at = home;
        read += 1;
        while groups[at].is_overflowed() {
            at = next_group(at, way, groups.len());
            if at == home {
                break;
            }
            read += 1;
        }
    }
    read as f64 / (4 * groups.len()) as f64
}

#[test]
fn churn_makes_no_search_long() {
    // As full as it can be without growing: the oldest goes, another comes.
    let len = (LOAD * SEGMENT_GROUPS) as u64 - 1;
    let keys = Keys::new(100 * len, mixed);
    let mut table = RecordTable::new();
    for number in 0..100 * len {
        table.insert(mixed(number), number, 0, &keys);
        if let Some(oldest) = number.checked_sub(len) {
            let handle = keys.find(&table, oldest);
            table.remove(&handle, &keys);
        }
    }
    assert_eq!(table.segments.groups(0).len(), SEGMENT_GROUPS);
    assert!(groups_read(&table) < 3.5, "{} groups", groups_read(&table));
}

#[test]
fn a_search_ends_where_every_group_has_been_passed() {
    let keys = Keys::new(4000, mixed);
    let mut table = RecordTable::new();
    for number in 0..3500 {
        table.insert(mixed(number), number, 0, &keys);
    }
    for group in table.segments.groups_mut(0) {
        // More pass it while it is full than it can count.
        let before: Vec<usize> = group.occupied().collect();
        for _ in 0..100 {
            group.try_insert(1, RecordEntry::new(0, 0, 0), true);
        }
        let others = group.occupied().filter(|slot| !before.contains(slot));
        others.for_each(|slot| group.vacate(slot));
    }
    assert_eq!(groups_read(&table), table.segments.groups(0).len() as f64);
    for number in 0..4000 {
        let expected = (number < 3500).then_some(number);
        assert_eq!(keys.get(&table, number), expected);
        let found = table.find_hash(mixed(number), &keys, |record| record == number);
        assert_eq!(found.map(|found| found.1), expected);
    }
    let (mut cursor, mut told) = (0, 0);
    loop {
        cursor = table.scan(cursor, &keys, |_| told += 1);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(told, 3500);
}
