//! Near memory that is full of records of one size has room for those of others: for hot ones, and for new ones.

use tierra_memory::Speed;

use super::*;

const NEAR_BYTES: u64 = 8 << 20;
/// Keys of what is used are numbered from here on.
const USED: u32 = 100_000;

fn name(key: u32) -> String {
    format!("key:{key:08}")
}

fn store() -> Keyspace {
    keyspace(Settings {
        near_bytes: NEAR_BYTES,
        ..Settings::default()
    })
}

/// Uses keys, as requests that have come together do.
fn use_keys(keyspace: &mut Keyspace, keys: &[u32]) {
    for keys in keys.chunks(16) {
        let names: Vec<String> = keys.iter().map(|&key| name(key)).collect();
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let mut found = Vec::new();
        keyspace.db(0).find_many(&names, &mut found);
        for (name, found) in names.iter().zip(found) {
            assert!(keyspace.db(0).find(&Key::with_found(name, found)).is_some());
        }
        let near = keyspace.report().near;
        assert!(near.held_bytes <= near.limit_bytes, "{near:?}");
    }
}

/// How many of the keys have near records.
fn near(keyspace: &mut Keyspace, keys: &[u32]) -> usize {
    let is_near = |key: u32| {
        let db = keyspace.db(0);
        let entry = db.peek(&Key::new(name(key).as_bytes())).unwrap();
        db.tier(entry) == Speed::Near
    };
    keys.iter()
        .copied()
        .map(is_near)
        .filter(|near| *near)
        .count()
}

/// Uses the keys again and again until nearly all of them are near: uses for each record that there is.
fn uses_until_near(keyspace: &mut Keyspace, keys: &[u32]) -> f64 {
    let records = keyspace.len_of(0);
    let mut uses = 0;
    while near(keyspace, keys) < keys.len() * 98 / 100 {
        assert!(uses < 20 * records, "{:?}", keyspace.report());
        use_keys(keyspace, keys);
        uses += keys.len();
    }
    uses as f64 / records as f64
}

/// That nothing moves any more.
fn assert_rest(keyspace: &mut Keyspace, keys: &[u32]) {
    let mut moved_bytes = || {
        (0..30).for_each(|_| use_keys(keyspace, keys));
        keyspace.report().migrations.bytes
    };
    let before = moved_bytes();
    let moved = moved_bytes() - before;
    let report = keyspace.report();
    assert!(moved < 64 << 10, "{moved} of {report:?}");
    assert_eq!(report.near.evacuating_bytes, 0, "{report:?}");
}

#[test]
fn hot_records_of_another_size_come_near() {
    // Bytes of what fills near memory, and of what is hot then; half of near memory, or less.
    for (cold_bytes, hot_bytes, hot) in [
        (1000, 200, 15_000),
        (200, 1000, 4000),
        (100, 5000, 800),
        (16_000, 30, 15_000),
        (20_000, 600, 6000),
        (600, 20_000, 200),
    ] {
        let mut keyspace = store();
        fill(&mut keyspace, 0..12_000_000 / cold_bytes as u32, cold_bytes);
        fill(&mut keyspace, USED..USED + hot, hot_bytes);
        let hot: Vec<u32> = (USED..USED + hot).collect();
        assert!(near(&mut keyspace, &hot) < hot.len() / 10);
        let uses = uses_until_near(&mut keyspace, &hot);
        println!("{hot_bytes} among {cold_bytes}: {uses:.1} uses for each record");
        assert_rest(&mut keyspace, &hot);
        assert!(near(&mut keyspace, &hot) >= hot.len() * 98 / 100);
    }
}

#[test]
fn what_has_grown_comes_near_again() {
    let mut keyspace = store();
    fill(&mut keyspace, 0..75_000, 100);
    let grown: Vec<u32> = (0..75_000).filter(|key| key % 5 < 2).collect();
    for &key in &grown {
        let name = name(key);
        let value = keyspace
            .db(0)
            .resize_string(&Key::new(name.as_bytes()), 170);
        value.unwrap()[100..].fill(1);
    }
    assert!(near(&mut keyspace, &grown) < grown.len() / 10);
    uses_until_near(&mut keyspace, &grown);
    assert_rest(&mut keyspace, &grown);
    for &key in &grown {
        let db = keyspace.db(0);
        let entry = db.find(&Key::new(name(key).as_bytes())).unwrap();
        assert!(db.string(entry) == [&[key as u8; 100][..], &[1; 70]].concat());
    }
}

#[test]
fn new_records_of_another_size_are_born_near() {
    let mut keyspace = store();
    fill(&mut keyspace, 0..12_000, 1000);
    let mut born_near = 0;
    // Each lives for a while, and is used a few times.
    for at in 0..200_000 {
        let key = USED + at;
        fill(&mut keyspace, key..key + 1, 150);
        if at >= 190_000 {
            born_near += near(&mut keyspace, &[key]);
        }
        if at % 16 == 15 {
            let keys: Vec<u32> = (key - 15..=key).collect();
            (0..3).for_each(|_| use_keys(&mut keyspace, &keys));
        }
        if at >= 4000 {
            let name = name(key - 4000);
            assert!(keyspace.db(0).remove(&Key::new(name.as_bytes())));
        }
    }
    assert!(born_near > 9900, "{born_near}: {:?}", keyspace.report());
}

/// Pages that are being emptied for other sizes are taken again before a request fails.
#[test]
fn what_is_being_emptied_has_room_where_there_is_no_other() {
    let mut keyspace = Keyspace::new(&KeyspaceOptions {
        settings: Settings {
            near_bytes: NEAR_BYTES,
            ..Settings::default()
        },
        far_bytes: 1 << 20,
        ..KeyspaceOptions::default()
    })
    .unwrap();
    let add = |keyspace: &mut Keyspace, key: u32, bytes: usize| {
        let db = keyspace.db(0);
        let (name, value) = (name(key), vec![1; bytes]);
        db.set_string(&Key::new(name.as_bytes()), &value, Expiry::Clear)
    };
    // Near memory is full, and then has holes.
    let mut large = 0;
    while keyspace.report().far.objects == 0 {
        add(&mut keyspace, large, 1000).unwrap();
        large += 1;
    }
    for key in (0..large).step_by(8) {
        let name = name(key);
        assert!(keyspace.db(0).remove(&Key::new(name.as_bytes())));
    }
    // Far memory is full of others, which are hot and want them.
    let small = (USED..).take_while(|&key| add(&mut keyspace, key, 100).is_ok());
    let small: Vec<u32> = small.collect();
    let mut hot = small.chunks(16).cycle();
    while keyspace.report().near.evacuating_bytes == 0 {
        use_keys(&mut keyspace, hot.next().unwrap());
    }
    let added = (large..)
        .take_while(|&key| add(&mut keyspace, key, 1000).is_ok())
        .count();
    let near = keyspace.report().near;
    assert!(
        near.evacuating_bytes == 0 && near.vacant_bytes < 1 << 20,
        "{added}: {near:?}"
    );
}

/// Where all sizes are used alike, none lacks what another has for long.
#[test]
fn sizes_that_are_used_alike_leave_each_other_alone() {
    const RECORDS: u32 = 60_000;
    let mut keyspace = keyspace(Settings {
        near_bytes: 6 << 20,
        ..Settings::default()
    });
    for key in 0..RECORDS {
        fill(
            &mut keyspace,
            key..key + 1,
            [60, 100, 180, 300, 500, 900][key as usize % 6],
        );
    }
    // One key in twenty has two thirds of the uses.
    let mut random = 1u64;
    let mut draw = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let key = (random >> 33) as u32 % RECORDS;
        if random >> 20 & 1023 < 660 {
            key / 20
        } else {
            key
        }
    };
    let mut play = || {
        for _ in 0..12 * RECORDS / 16 {
            let keys: Vec<u32> = (0..16).map(|_| draw()).collect();
            use_keys(&mut keyspace, &keys);
        }
        keyspace.report().migrations
    };
    let before = play();
    let after = play();
    let uses = after.uses_near + after.uses_far - before.uses_near - before.uses_far;
    let share = (after.uses_near - before.uses_near) as f64 / uses as f64;
    assert!(share > 0.7, "{share}: {after:?}");
    let gathered = after.compacted - before.compacted;
    assert!(gathered < uses / 1000, "{before:?} {after:?}");
    let near = keyspace.report().near;
    assert!(near.object_bytes > near.limit_bytes * 92 / 100, "{near:?}");
}
