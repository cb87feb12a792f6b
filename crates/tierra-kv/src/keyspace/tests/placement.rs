//! Where records are, where they move, and what happens when there is no room.

use tierra_memory::Speed;

use super::*;

#[test]
fn static_policies_go_by_size() {
    for (policy, bytes, tier) in [
        (Policy::OnlyDram, 1000, Speed::Near),
        (Policy::OnlyPmem, 10, Speed::Far),
        (Policy::Threshold, 10, Speed::Near),
        (Policy::Threshold, 200, Speed::Far),
    ] {
        let mut keyspace = keyspace(Settings {
            policy,
            ..Settings::default()
        });
        fill(&mut keyspace, 0..1, bytes);
        let entry = keyspace.db(0).find(&Key::new(b"key:00000000")).unwrap();
        assert_eq!(keyspace.db(0).tier(entry), tier, "{policy} {bytes}");
    }
}

#[test]
fn a_value_that_grows_changes_its_tier() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::Threshold,
        ..Settings::default()
    });
    let db = keyspace.db(0);
    let key = Key::new(b"k");
    db.set_string(&key, b"small", Expiry::Clear).unwrap();
    let entry = db.find(&key).unwrap();
    assert_eq!(db.tier(entry), Speed::Near);
    db.resize_string(&key, 1000).unwrap();
    let entry = db.find(&key).unwrap();
    assert_eq!(
        (db.tier(entry), &db.string(entry)[..5]),
        (Speed::Far, &b"small"[..])
    );
    db.set_string(&key, b"small", Expiry::Clear).unwrap();
    let entry = db.find(&key).unwrap();
    assert_eq!(db.tier(entry), Speed::Near);
}

#[test]
fn a_ratio_is_kept_also_of_what_grows() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::Ratio,
        ..Settings::default()
    });
    keyspace.set_setting("dram-pmem-ratio", "1 4").unwrap();
    let share = |keyspace: &Keyspace| {
        let Report { near, far, .. } = keyspace.report();
        near.object_bytes as f64 / (near.object_bytes + far.object_bytes) as f64
    };
    let mut now = 0;
    let mut settle = |keyspace: &mut Keyspace| {
        for _ in 0..200 {
            now += 50;
            keyspace.set_now(now);
            keyspace.tick();
        }
    };
    fill(&mut keyspace, 0..20_000, 100);
    settle(&mut keyspace);
    assert!(
        (share(&keyspace) - 0.2).abs() < 0.006,
        "{}",
        share(&keyspace)
    );
    fill(&mut keyspace, 0..20_000, 700);
    settle(&mut keyspace);
    assert!(
        (share(&keyspace) - 0.2).abs() < 0.006,
        "{}",
        share(&keyspace)
    );
}

#[test]
fn what_is_hot_comes_near_and_what_is_cold_goes_far() {
    let mut keyspace = keyspace(Settings {
        near_bytes: 6 << 20,
        ..Settings::default()
    });
    fill(&mut keyspace, 0..20_000, 1000);
    assert!(keyspace.report().far.objects > 13_000);
    // The last ones, which were born far, are used all the time.
    let hot = 17_000..20_000u32;
    for _ in 0..60 {
        for key in hot.clone() {
            let name = format!("key:{key:08}");
            assert!(keyspace.db(0).find(&Key::new(name.as_bytes())).is_some());
        }
        keyspace.tick();
    }
    let near = hot.clone().filter(|key| {
        let name = format!("key:{key:08}");
        let entry = keyspace.db(0).find(&Key::new(name.as_bytes())).unwrap();
        keyspace.db(0).tier(entry) == Speed::Near
    });
    assert!(near.count() > 2900, "{:?}", keyspace.report());
    assert!(keyspace.report().near.held_bytes <= 6 << 20);
}

#[test]
fn what_cannot_move_is_not_searched_for_ever_and_what_then_can_is_found() {
    let mut keyspace = keyspace(Settings {
        near_bytes: 8 << 20,
        ..Settings::default()
    });
    // Values too large to be moved fill near memory.
    let large = 0..113;
    fill(&mut keyspace, large.clone(), 70_000);
    fill(&mut keyspace, 1000..11_000, 500);
    let hot: Vec<String> = (9000..10_000).map(|key| format!("key:{key:08}")).collect();
    let use_hot = |keyspace: &mut Keyspace| {
        for names in hot.chunks(16) {
            let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            keyspace.db(0).find_many(&names, &mut Vec::new());
            for name in names {
                assert!(keyspace.db(0).find(&Key::new(name)).is_some());
            }
        }
        keyspace.tick();
    };
    let is_near = |keyspace: &mut Keyspace, name: &String| {
        let entry = keyspace.db(0).find(&Key::new(name.as_bytes())).unwrap();
        keyspace.db(0).tier(entry) == Speed::Near
    };
    (0..30).for_each(|_| use_hot(&mut keyspace));
    let near = hot.iter().filter(|name| is_near(&mut keyspace, name));
    assert!(near.count() < 600, "{:?}", keyspace.report());
    for key in large {
        let name = format!("key:{key:08}");
        keyspace.db(0).remove(&Key::new(name.as_bytes()));
    }
    (0..30).for_each(|_| use_hot(&mut keyspace));
    let near = hot.iter().filter(|name| is_near(&mut keyspace, name));
    assert!(near.count() > 950, "{:?}", keyspace.report());
}

#[test]
fn what_is_new_finds_room_near_in_wide_windows_as_well() {
    const KEYS: u32 = 128;
    let mut keyspace = keyspace(Settings {
        near_bytes: 64 << 20,
        ..Settings::default()
    });
    fill(&mut keyspace, 0..130_000, 500);
    let (mut near, mut new) = (0, 0);
    for window in 0..200u32 {
        let first = 130_000 + window * KEYS;
        for at in 0..4 {
            // New keys, then three windows of old ones that pay for their room.
            let first = if at == 0 {
                first
            } else {
                (window * 3 + at) * KEYS % 130_000
            };
            let names: Vec<String> = (first..first + KEYS)
                .map(|key| format!("key:{key:08}"))
                .collect();
            let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            keyspace.db(0).find_many(&names, &mut Vec::new());
            for name in names {
                let key = Key::new(name);
                let db = keyspace.db(0);
                if at == 0 {
                    db.set_string(&key, &[1; 500], Expiry::Clear).unwrap();
                    new += 1;
                    let entry = db.find(&key).unwrap();
                    near += u32::from(db.tier(entry) == Speed::Near);
                } else {
                    db.find(&key);
                }
            }
        }
        if window % 25 == 0 {
            keyspace.tick();
        }
    }
    assert!(
        near > new * 9 / 10,
        "{near} of {new}: {:?}",
        keyspace.report()
    );
}

#[test]
fn what_was_chosen_to_go_far_may_be_gone_before_it_does() {
    let mut keyspace = keyspace(Settings {
        near_bytes: 4 << 20,
        ..Settings::default()
    });
    fill(&mut keyspace, 0..8000, 1000);
    let mut gone = 0u32;
    // Every window chooses something cold; before the next one some keys are removed or rewritten.
    for window in 0..2000u32 {
        let names: Vec<String> = (0..16)
            .map(|at| format!("key:{:08}", 6000 + (window * 16 + at) % 2000))
            .collect();
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        keyspace.db(0).find_many(&names, &mut Vec::new());
        for name in names {
            assert!(keyspace.db(0).find(&Key::new(name)).is_some());
        }
        if window % 4 == 0 && gone < 6000 {
            for key in gone..gone + 16 {
                let name = format!("key:{key:08}");
                let key = Key::new(name.as_bytes());
                if gone.is_multiple_of(3) {
                    keyspace
                        .db(0)
                        .set_string(&key, &[7; 300], Expiry::Clear)
                        .unwrap();
                } else {
                    assert!(keyspace.db(0).remove(&key));
                }
            }
            gone += 16;
        }
    }
    assert!(
        keyspace.report().migrations.to_far > 500,
        "{:?}",
        keyspace.report()
    );
    for key in 0..8000u32 {
        let name = format!("key:{key:08}");
        let first = key / 16 * 16;
        let db = keyspace.db(0);
        let entry = db.find(&Key::new(name.as_bytes()));
        let bytes = entry.map(|entry| db.string(entry).len());
        let expected = match first {
            first if first >= gone => Some(1000),
            first if first.is_multiple_of(3) => Some(300),
            _ => None,
        };
        assert_eq!(bytes, expected, "{name}");
    }
}

#[test]
fn what_is_new_and_used_most_is_near_as_the_data_grow() {
    let mut keyspace = keyspace(Settings {
        near_bytes: 6 << 20,
        ..Settings::default()
    });
    fill(&mut keyspace, 0..20_000, 1000);
    let mut random = 1u64;
    let mut keys = 20_000u64;
    let mut share_of = |keyspace: &mut Keyspace, windows: u32| {
        let before = keyspace.report().migrations;
        for _ in 0..windows {
            let names: Vec<String> = (0..16)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005) + 1;
                    // How long ago: as often within the last ten as from there to a hundred, and so on.
                    let age = 10f64.powf((random >> 40) as f64 / (1 << 24) as f64 * 4.3);
                    format!("key:{:08}", keys - 1 - (age as u64).min(keys - 1))
                })
                .collect();
            let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            let mut found = Vec::new();
            keyspace.db(0).find_many(&names, &mut found);
            for (name, found) in names.iter().zip(found) {
                assert!(keyspace.db(0).find(&Key::with_found(name, found)).is_some());
            }
            fill(keyspace, keys as u32..keys as u32 + 1, 1000);
            keys += 1;
        }
        let after = keyspace.report().migrations;
        let near = after.uses_near - before.uses_near;
        near as f64 / (near + after.uses_far - before.uses_far) as f64
    };
    share_of(&mut keyspace, 2000);
    for part in 0..20 {
        // The newest 6,000 have 88 % of the uses; round after round of halved heats they stay near.
        let share = share_of(&mut keyspace, 500);
        assert!(
            share > 0.78,
            "{share} in part {part}: {:?}",
            keyspace.report()
        );
    }
}

#[test]
fn a_lower_budget_is_kept_soon() {
    let mut keyspace = keyspace(Settings::default());
    fill(&mut keyspace, 0..40_000, 500);
    assert_eq!(keyspace.report().far.objects, 0);
    keyspace.set_setting("near-memory", "8mb").unwrap();
    // Moves are paid for by uses.
    for _ in 0..40 {
        for key in 0..20_000u32 {
            let name = format!("key:{key:08}");
            assert!(keyspace.db(0).find(&Key::new(name.as_bytes())).is_some());
        }
        (0..20).for_each(|_| {
            keyspace.tick();
        });
        if keyspace.report().near.held_bytes <= 8 << 20 {
            break;
        }
    }
    let near = keyspace.report().near;
    assert!(near.held_bytes <= 8 << 20, "{near:?}");
    assert!(near.object_bytes > 3 << 20, "{near:?}");
}

#[test]
fn memory_comes_back_when_most_keys_are_gone() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::OnlyDram,
        ..Settings::default()
    });
    fill(&mut keyspace, 0..40_000, 500);
    let full = keyspace.used_bytes();
    for key in (0..40_000).filter(|key| key % 20 != 0) {
        let name = format!("key:{key:08}");
        assert!(keyspace.db(0).remove(&Key::new(name.as_bytes())));
    }
    for _ in 0..100 {
        keyspace.tick();
    }
    // A twentieth, what is not worth gathering, and a large page of the table.
    assert!(
        keyspace.used_bytes() < full / 20 * 2 + (7 << 20),
        "{} of {full}",
        keyspace.used_bytes()
    );
    for key in (0..40_000).filter(|key| key % 20 == 0) {
        let name = format!("key:{key:08}");
        let entry = keyspace.db(0).find(&Key::new(name.as_bytes())).unwrap();
        assert_eq!(keyspace.db(0).string(entry), vec![key as u8; 500]);
    }
}

#[test]
fn a_store_of_all_sizes_comes_to_rest() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::OnlyDram,
        ..Settings::default()
    });
    // One of each size, so that no span could take another's.
    for bytes in (5..16).flat_map(|bits| (0..16).map(move |part| (1 << bits) + (part << bits) / 16))
    {
        let name = format!("key:{bytes}");
        let key = Key::new(name.as_bytes());
        let value = vec![1; bytes];
        keyspace
            .db(0)
            .set_string(&key, &value, Expiry::Clear)
            .unwrap();
    }
    let near = keyspace.report().near;
    assert!(
        near.held_bytes > 2 * near.object_bytes + (4 << 20),
        "{near:?}"
    );
    let ticks = (0..1000).find(|_| !keyspace.tick());
    assert!(ticks.is_some(), "there is nothing to gather");
}

#[test]
fn memory_that_runs_out_is_an_error_and_changes_nothing() {
    let options = KeyspaceOptions {
        settings: Settings {
            near_bytes: 1 << 20,
            ..Settings::default()
        },
        far_bytes: 1 << 20,
        ..KeyspaceOptions::default()
    };
    let mut keyspace = Keyspace::new(&options).unwrap();
    let db = keyspace.db(0);
    let mut kept = 0u32;
    loop {
        let name = format!("key:{kept:08}");
        if db
            .set_string(&Key::new(name.as_bytes()), &[7; 1000], Expiry::Clear)
            .is_err()
        {
            break;
        }
        kept += 1;
    }
    assert!((1700..2100).contains(&kept), "{kept}");
    let name = Key::new(b"key:00000000");
    assert_eq!(
        db.resize_string(&name, 100_000).map(|_| ()),
        Err(MemoryFull)
    );
    let entry = db.find(&name).unwrap();
    assert_eq!(db.string(entry), [7; 1000]);
    assert!(db.remove(&name));
    assert_eq!(db.len(), kept as usize - 1);
    // What would be large, and has no room for its first part, does not stay behind without any.
    let name = Key::new(b"hash");
    let set = db.hash_set(&name, [(&b"field"[..], &[7; 100_000][..])].into_iter());
    assert_eq!(set, Err(MemoryFull));
    assert!(db.find(&name).is_none());
    let name = Key::new(b"set");
    assert_eq!(db.zset_set(&name, &[7; 100_000], 1.0), Err(MemoryFull));
    assert!(db.find(&name).is_none());
    assert_eq!(db.len(), kept as usize - 1);
}

/// Most scores are equal, so that the order has to read members, of which some have moved.
#[test]
fn members_of_large_sorted_sets_move() {
    let mut keyspace = keyspace(Settings {
        policy: Policy::OnlyPmem,
        ..Settings::default()
    });
    let name = |at: u32| format!("member:{at:05}:{}", "x".repeat(60)).into_bytes();
    let set = Key::new(b"set");
    for at in 0..5000 {
        keyspace
            .db(0)
            .zset_set(&set, &name(at), f64::from(at / 1000))
            .unwrap();
    }
    assert_eq!(keyspace.report().near.objects, 0);
    keyspace
        .set_setting("memory-alloc-policy", "ratio")
        .unwrap();
    keyspace.set_setting("dram-pmem-ratio", "1 1").unwrap();
    for tick in 1..200 {
        keyspace.set_now(tick * 100);
        keyspace.tick();
        if tick % 20 == 0 {
            let at = tick as u32 * 13;
            assert!(keyspace.db(0).zset_remove(&set, &name(at)));
            keyspace
                .db(0)
                .zset_set(&set, &name(at), f64::from(at / 1000))
                .unwrap();
        }
    }
    let Report { near, far, .. } = keyspace.report();
    assert!(near.objects.abs_diff(far.objects) < 100, "{near:?} {far:?}");
    let db = keyspace.db(0);
    let entry = db.find(&set).unwrap();
    let members: Vec<_> = db
        .zset_range(entry, 0..5000)
        .map(|(member, _)| member.to_vec())
        .collect();
    assert!(members.into_iter().eq((0..5000).map(name)));
    assert_eq!(db.zset_rank(entry, &name(4321)), Some(4321));
}

/// A store that has room pays little for knowing what is hot.
#[test]
fn heats_are_seldom_halved_while_all_is_near() {
    let mut keyspace = keyspace(Settings::default());
    fill(&mut keyspace, 0..20_000, 100);
    let use_all = |keyspace: &mut Keyspace, times: u32| {
        for use_number in 0..20_000 * times {
            let name = format!("key:{:08}", use_number % 20_000);
            assert!(keyspace.db(0).find(&Key::new(name.as_bytes())).is_some());
            if use_number.is_multiple_of(16) {
                keyspace.db(0).find_many(&[], &mut Vec::new());
            }
        }
    };
    let heat = |keyspace: &mut Keyspace| {
        let db = keyspace.db(0);
        let entry = db.find(&Key::new(b"key:00000007")).unwrap();
        db.heat(entry)
    };
    // A round each, or nearly so; of many uses one in 64 is noted.
    use_all(&mut keyspace, 2);
    (0..10_000).for_each(|_| _ = heat(&mut keyspace));
    let before = heat(&mut keyspace);
    assert!(before > 20, "{before}");
    use_all(&mut keyspace, 4);
    let after = heat(&mut keyspace);
    assert!(after >= before, "{before}, then {after}");
    // But they are.
    use_all(&mut keyspace, 12);
    let later = heat(&mut keyspace);
    assert!((1..after).contains(&later), "{after}, then {later}");
}
