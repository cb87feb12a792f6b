//! Objects against lists of them, and what becomes of their pages.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::NodeId;

fn memory() -> RecordMemory {
    RecordMemory::new(&RecordMemoryOptions::default()).unwrap()
}

#[derive(Clone, Debug)]
enum SlabOp {
    Allocate(Speed, usize),
    Free(usize),
    Vacate(Speed),
    Keep(Speed),
}

fn steps() -> impl Strategy<Value = Vec<SlabOp>> {
    let speed = || prop_oneof![Just(Speed::Near), Just(Speed::Far)];
    let bytes = prop_oneof![5 => 0usize..300, 2 => 0usize..20_000, 1 => 0usize..5_000_000];
    let step = prop_oneof![
        6 => (speed(), bytes).prop_map(|(speed, bytes)| SlabOp::Allocate(speed, bytes)),
        4 => (0usize..1000).prop_map(SlabOp::Free),
        1 => speed().prop_map(SlabOp::Vacate),
        1 => speed().prop_map(SlabOp::Keep),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn objects_keep_what_was_written_and_do_not_overlap(steps in steps()) {
        let mut memory = memory();
        let mut objects: Vec<(ObjectAddress, usize, u8)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                SlabOp::Allocate(speed, bytes) => {
                    let address = memory.allocate(speed, bytes).unwrap();
                    prop_assert_eq!(memory.speed(address), speed);
                    prop_assert!(!memory.is_evacuating(address));
                    prop_assert_eq!(memory.capacity(address), RecordMemory::rounded(bytes));
                    memory.bytes_mut(address, bytes).fill(number as u8);
                    objects.push((address, bytes, number as u8));
                }
                SlabOp::Free(at) if !objects.is_empty() => {
                    let (address, bytes, byte) = objects.swap_remove(at % objects.len());
                    prop_assert!(memory.bytes(address, bytes).iter().all(|&found| found == byte));
                    memory.free(address);
                }
                SlabOp::Free(_) => {}
                SlabOp::Vacate(speed) => {
                    let held_bytes = memory.used(speed).held_bytes;
                    let bytes = memory.evacuate(speed);
                    prop_assert!(bytes <= held_bytes);
                }
                SlabOp::Keep(speed) => {
                    let has_any = memory.used(speed).evacuating_bytes > 0;
                    prop_assert_eq!(memory.cancel_evacuation(speed), has_any);
                }
            }
        }
        let mut ends = BTreeMap::new();
        let mut used = [0; 2];
        for &(address, bytes, byte) in &objects {
            prop_assert!(memory.bytes(address, bytes).iter().all(|&found| found == byte));
            ends.insert(address.at(), address.at() + memory.capacity(address));
            used[memory.speed(address) as usize] += memory.capacity(address) as u64;
        }
        prop_assert!(ends.values().zip(ends.keys().skip(1)).all(|(end, next)| end <= next));
        for speed in [Speed::Near, Speed::Far] {
            let tier = memory.used(speed);
            prop_assert_eq!(tier.object_bytes, used[speed as usize]);
            prop_assert!(tier.held_bytes >= tier.object_bytes + tier.vacant_bytes);
            prop_assert!(tier.vacant_bytes <= 8 << 20, "a span of each class, and what was freed");
        }
        for (address, ..) in objects {
            memory.free(address);
        }
        for speed in [Speed::Near, Speed::Far] {
            // A span of each class may stay.
            let held = memory.used(speed).held_bytes;
            prop_assert!(memory.used(speed).objects == 0 && held < 6 << 20, "{}", held);
            prop_assert!(memory.used(speed).vacant_bytes <= held);
        }
    }
}

#[test]
fn a_limit_holds_and_nothing_is_lost_at_it() {
    let mut memory = memory();
    memory.set_limit(Speed::Near, 1 << 20);
    let mut addresses = Vec::new();
    while let Some(address) = memory.allocate(Speed::Near, 1000) {
        addresses.push(address);
    }
    let used = memory.used(Speed::Near);
    assert!(
        used.held_bytes <= 1 << 20 && used.object_bytes > 9 << 16,
        "{used:?}"
    );
    assert!(memory.allocate(Speed::Near, 1 << 20).is_none());
    assert!(memory.allocate(Speed::Far, 1 << 20).is_some());
    memory.free(addresses[0]);
    assert!(memory.allocate(Speed::Near, 1000).is_some());
}

#[test]
fn freed_memory_goes_back_to_the_system() {
    let mut memory = memory();
    let addresses: Vec<ObjectAddress> = (0..100_000)
        .map(|_| memory.allocate(Speed::Near, 1000).unwrap())
        .collect();
    for &address in &addresses {
        memory.bytes_mut(address, 1000).fill(1);
    }
    let first = addresses[0];
    for address in addresses {
        memory.free(address);
    }
    // Emptied pages read as zeros; the span that stays does not.
    let zeros = memory
        .bytes(first, 90 << 20)
        .iter()
        .filter(|&&byte| byte == 0)
        .count();
    assert!(zeros > 85 << 20, "{zeros}");
}

#[test]
#[should_panic(expected = "an object begins here")]
fn freeing_twice_is_found_out() {
    let mut memory = memory();
    let addresses = [0; 2].map(|_| memory.allocate(Speed::Near, 100).unwrap());
    memory.free(addresses[0]);
    memory.free(addresses[0]);
}

#[test]
#[should_panic(expected = "memory of objects")]
fn no_place_reaches_outside() {
    let mut memory = memory();
    memory.allocate(Speed::Near, 100).unwrap();
    memory.bytes(ObjectAddress::from_number((1 << 40) - 1), 16);
}

#[test]
fn where_half_is_vacant_objects_can_be_gathered() {
    for bytes in [48, 100, 1000, 5000] {
        let mut memory = memory();
        let all: Vec<_> = (0..20_000)
            .map(|_| memory.allocate(Speed::Near, bytes).unwrap())
            .collect();
        // Three of five go, at random: no span loses three quarters of what it has.
        let mut objects = Vec::new();
        for (address, number) in all.into_iter().zip(1u64..) {
            if number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & 1023 < 615 {
                memory.free(address);
            } else {
                objects.push(address);
            }
        }
        let is_sparse = |memory: &RecordMemory| {
            let used = memory.used(Speed::Near);
            used.held_bytes > 2 * used.object_bytes + (128 << 10)
        };
        assert!(is_sparse(&memory), "{:?}", memory.used(Speed::Near));
        for at in 0..60_000 {
            let object = &mut objects[at % 7000];
            if is_sparse(&memory) && memory.deprioritize(*object) {
                let to = memory.allocate(Speed::Near, bytes).unwrap();
                memory.free(std::mem::replace(object, to));
            }
        }
        assert!(!is_sparse(&memory), "{:?}", memory.used(Speed::Near));
    }
}

/// Looks at every object once, and moves those that are to be moved: how many.
fn gather(memory: &mut RecordMemory, objects: &mut [ObjectAddress], bytes: usize) -> usize {
    let mut moved = 0;
    for object in objects {
        if memory.deprioritize(*object) {
            let to = memory.allocate(Speed::Near, bytes).unwrap();
            memory.free(std::mem::replace(object, to));
            moved += 1;
        }
    }
    moved
}

#[test]
fn two_sparse_spans_become_one() {
    // As many slots a span as divide by four.
    const BYTES: usize = 1024;
    let mut memory = memory();
    let mut objects = vec![memory.allocate(Speed::Near, BYTES).unwrap()];
    let held_bytes = |memory: &RecordMemory| memory.used(Speed::Near).held_bytes;
    let span_bytes = held_bytes(&memory);
    while held_bytes(&memory) < 2 * span_bytes || memory.used(Speed::Near).vacant_bytes > 0 {
        objects.push(memory.allocate(Speed::Near, BYTES).unwrap());
    }
    let slots = objects.len() / 2;
    // One of four stays.
    let (go, stay): (Vec<_>, Vec<_>) = objects.into_iter().zip(0..).partition(|(_, at)| at % 4 > 0);
    go.into_iter().for_each(|(address, _)| memory.free(address));
    // One of the first, one of the second, and so on: as a table names them, whose order is that of hashes.
    let (first, second) = stay.split_at(stay.len() / 2);
    let both = first
        .iter()
        .zip(second)
        .flat_map(|both| [both.0.0, both.1.0]);
    let mut objects: Vec<ObjectAddress> = both.collect();
    assert_eq!(held_bytes(&memory), 2 * span_bytes);
    assert_eq!(gather(&mut memory, &mut objects, BYTES), slots / 4);
    assert_eq!(held_bytes(&memory), span_bytes);
    assert_eq!(gather(&mut memory, &mut objects, BYTES), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn gathering_ends(bytes in prop::sample::select(&[16usize, 100, 1000, 5000][..]), spans in prop::collection::vec(0.0..1.0f64, 1..12), seed in any::<u64>()) {
        let mut memory = memory();
        let mut random = seed;
        let mut objects = Vec::new();
        for occupied in &spans {
            let mut span = vec![memory.allocate(Speed::Near, bytes).unwrap()];
            while memory.used(Speed::Near).vacant_bytes > 0 {
                span.push(memory.allocate(Speed::Near, bytes).unwrap());
            }
            for address in span {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                objects.push((address, (random >> 11) as f64 / (1u64 << 53) as f64 >= *occupied));
            }
        }
        let (go, stay): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object.1);
        go.into_iter().for_each(|(address, _)| memory.free(address));
        let mut objects: Vec<ObjectAddress> = stay.into_iter().map(|(address, _)| address).collect();
        // In the order of a table, which is that of hashes.
        objects.sort_by_key(|address| address.number().wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut rounds = 0;
        while gather(&mut memory, &mut objects, bytes) > 0 {
            rounds += 1;
            prop_assert!(rounds <= 2 * spans.len(), "objects are moved for ever");
        }
        let used = memory.used(Speed::Near);
        prop_assert_eq!(used.objects, objects.len() as u64);
    }
}

#[test]
fn pages_of_one_size_become_those_of_another() {
    let mut memory = memory();
    memory.set_limit(Speed::Near, 4 << 20);
    let mut objects = Vec::new();
    while let Some(address) = memory.allocate(Speed::Near, 1000) {
        objects.push(address);
    }
    // Nothing is to become empty while all of it is full.
    assert_eq!(
        (0..20).map(|_| memory.evacuate(Speed::Near)).sum::<u64>(),
        0
    );
    let mut random = 1u64;
    let (go, stay): (Vec<_>, Vec<_>) = objects.into_iter().partition(|_| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 60 < 5
    });
    go.into_iter().for_each(|address| memory.free(address));
    assert_eq!(memory.allocate(Speed::Near, 200), None);
    let (used, mut evacuating_bytes) = (memory.used(Speed::Near), 0);
    while evacuating_bytes < 1 << 20 {
        evacuating_bytes += memory.evacuate(Speed::Near);
    }
    let vacating = memory.used(Speed::Near);
    assert_eq!(vacating.evacuating_bytes, evacuating_bytes);
    assert_eq!(vacating.held_bytes, used.held_bytes);
    assert!(vacating.vacant_bytes < used.vacant_bytes, "{vacating:?}");
    for address in stay {
        if memory.is_evacuating(address) {
            assert!(memory.deprioritize(address) && memory.has_slot(Speed::Near, 1000));
            let to = memory.allocate(Speed::Near, 1000).unwrap();
            assert!(!memory.is_evacuating(to));
            memory.free(address);
        }
    }
    let emptied = memory.used(Speed::Near);
    assert_eq!(emptied.evacuating_bytes, 0);
    assert_eq!(emptied.object_bytes, used.object_bytes);
    assert_eq!(emptied.held_bytes + evacuating_bytes, used.held_bytes);
    assert!(memory.allocate(Speed::Near, 200).is_some() && !memory.cancel_evacuation(Speed::Near));
}

#[test]
fn the_span_that_is_filled_stays_unless_it_is_empty() {
    let mut memory = memory();
    let objects = [0; 5].map(|_| memory.allocate(Speed::Near, 1000).unwrap());
    assert_eq!(memory.evacuate(Speed::Near), 0);
    for address in objects {
        memory.free(address);
    }
    let held_bytes = memory.used(Speed::Near).held_bytes;
    assert!(held_bytes > 0);
    assert_eq!(memory.evacuate(Speed::Near), held_bytes);
    assert_eq!(memory.used(Speed::Near).held_bytes, 0);
    assert!(memory.allocate(Speed::Near, 1000).is_some());
}

#[test]
fn what_is_kept_is_allocated_from_again() {
    let mut memory = memory();
    let objects: Vec<_> = (0..10_000)
        .map(|_| memory.allocate(Speed::Near, 100).unwrap())
        .collect();
    let (go, stay) = objects.split_at(9000);
    go.iter()
        .step_by(3)
        .for_each(|&address| memory.free(address));
    let before = memory.used(Speed::Near);
    while memory.evacuate(Speed::Near) > 0 {}
    assert!(
        stay.iter().any(|&address| !memory.is_evacuating(address)),
        "full ones stay"
    );
    assert!(memory.used(Speed::Near).vacant_bytes < before.vacant_bytes / 4);
    while memory.cancel_evacuation(Speed::Near) {}
    assert_eq!(memory.used(Speed::Near), before);
    for _ in 0..before.vacant_bytes / 112 {
        memory.allocate(Speed::Near, 100).unwrap();
    }
    assert_eq!(memory.used(Speed::Near).held_bytes, before.held_bytes);
}

#[test]
fn all_objects_go_at_once() {
    let mut memory = memory();
    for round in 0..3 {
        let sizes = [16usize, 100, 4000, 20_000, 3 << 20];
        let speeds = [Speed::Near, Speed::Far];
        let all = (0..200).map(|at| (sizes[at % 5], speeds[at % 2], at as u8));
        let addresses: Vec<_> = all
            .map(|(bytes, speed, byte)| {
                let address = memory.allocate(speed, bytes).unwrap();
                memory.bytes_mut(address, bytes).fill(byte | 1);
                (address, bytes, byte | 1)
            })
            .collect();
        for &(address, bytes, byte) in &addresses {
            let found = memory.bytes(address, bytes);
            assert!(found.iter().all(|&found| found == byte), "round {round}");
        }
        for speed in speeds {
            while memory.evacuate(speed) > 0 {}
        }
        memory.clear();
        assert!(
            !speeds
                .map(|speed| memory.cancel_evacuation(speed))
                .contains(&true)
        );
        for speed in speeds {
            let expected = TierUse {
                limit_bytes: u64::MAX,
                ..TierUse::default()
            };
            assert_eq!(memory.used(speed), expected);
        }
        let mut freed = addresses
            .iter()
            .flat_map(|&(address, bytes, _)| memory.bytes(address, bytes));
        assert!(freed.all(|&byte| byte == 0), "pages are given back");
    }
}

fn in_directory(directory: &std::path::Path) -> Result<RecordMemory, RegionError> {
    RecordMemory::new(&RecordMemoryOptions {
        far: FarSource::Directory(directory.into()),
        ..Default::default()
    })
}

#[test]
fn a_file_holds_objects_as_far_memory_does() {
    let directory = tempfile::tempdir().unwrap();
    let mut memory = in_directory(directory.path()).unwrap();
    let mut addresses = Vec::new();
    for at in 0..3000 {
        let address = memory.allocate(Speed::Far, 2000).unwrap();
        assert_eq!(memory.speed(address), Speed::Far);
        memory.bytes_mut(address, 2000).fill(at as u8);
        addresses.push(address);
    }
    for (at, &address) in addresses.iter().enumerate() {
        assert!(
            memory
                .bytes(address, 2000)
                .iter()
                .all(|&byte| byte == at as u8)
        );
    }
    addresses
        .into_iter()
        .for_each(|address| memory.free(address));
    // What it has grown to it uses again.
    let mapped = memory.tiers[Speed::Far as usize].mapped_bytes;
    assert!(memory.allocate(Speed::Far, 5_000_000).is_some());
    assert_eq!(memory.tiers[Speed::Far as usize].mapped_bytes, mapped);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_full_file_system_is_no_signal() {
    let shared = std::path::Path::new("/dev/shm");
    if !shared.is_dir() {
        println!("there is no tmpfs at /dev/shm: nothing is filled");
        return;
    }
    let mut memory = in_directory(shared).unwrap();
    let small = memory.allocate(Speed::Far, 100).unwrap();
    // More than any machine's memory, which tmpfs refuses at once.
    assert_eq!(memory.allocate(Speed::Far, 4 << 40), None);
    memory.bytes_mut(small, 100).fill(7);
    assert!(memory.allocate(Speed::Far, 100).is_some());
    assert!(memory.allocate(Speed::Near, 4 << 10).is_some());
}

#[test]
fn a_node_that_there_is_not_is_refused() {
    let options = RecordMemoryOptions {
        far: FarSource::Node(NodeId(1023)),
        ..Default::default()
    };
    assert!(matches!(
        RecordMemory::new(&options),
        Err(RegionError::Node { .. })
    ));
}

#[test]
fn pages_given_to_longer_spans_do_not_add_to_what_is_held() {
    const LIMIT: u64 = 64 << 20;
    let mut memory = RecordMemory::new(&RecordMemoryOptions {
        near_bytes: LIMIT,
        ..RecordMemoryOptions::default()
    })
    .unwrap();
    // Pages of the near part that the system has given memory for.
    let resident_bytes = |memory: &RecordMemory| {
        let bytes = memory.tiers[0].mapped_bytes;
        let mut pages = vec![0u8; bytes / PAGE_BYTES];
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        let done = unsafe {
            libc::mincore(
                memory.range.start().as_ptr().cast(),
                bytes,
                pages.as_mut_ptr().cast(),
            )
        };
        assert_eq!(done, 0);
        (pages.iter().filter(|&&page| page & 1 != 0).count() * PAGE_BYTES) as u64
    };
    let mut small = Vec::new();
    while let Some(address) = memory.allocate(Speed::Near, 60) {
        memory.bytes_mut(address, 60).fill(1);
        small.push(address);
    }
    // Every second goes, so that no span is empty; then spans here and there are emptied for a size whose spans are longer.
    let mut stay = Vec::new();
    for (at, address) in small.into_iter().enumerate() {
        if at % 2 == 0 {
            memory.free(address);
        } else {
            stay.push(address);
        }
    }
    let mut large = 0;
    for _ in 0..60 {
        (0..20).for_each(|_| _ = memory.evacuate(Speed::Near));
        let (go, others) = stay
            .into_iter()
            .partition(|&address| memory.is_evacuating(address));
        stay = others;
        let go: Vec<_> = go;
        go.into_iter().for_each(|address| memory.free(address));
        while let Some(address) = memory.allocate(Speed::Near, 9000) {
            memory.bytes_mut(address, 9000).fill(2);
            large += 1;
        }
    }
    assert!(large > 100, "{large}");
    let most = LIMIT + LIMIT / 64 + 2 * LARGE_PAGE_BYTES as u64;
    let resident = resident_bytes(&memory);
    assert!(
        resident <= most,
        "{resident} of {most}, {:?}",
        memory.used(Speed::Near)
    );
}

/// Whatever was there before, wherever it begins and ends, and what is around it stays.
#[test]
fn bytes_of_an_object_become_zero() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = 5 * LARGE_PAGE_BYTES + 12_345;
    for far in [
        FarSource::Near,
        FarSource::Directory(directory.path().into()),
    ] {
        let mut memory = RecordMemory::new(&RecordMemoryOptions {
            far,
            ..RecordMemoryOptions::default()
        })
        .unwrap();
        for speed in [Speed::Near, Speed::Far] {
            let address = memory.allocate(speed, bytes).unwrap();
            for range in [
                0..bytes,
                17..bytes - 100,
                LARGE_PAGE_BYTES - 1..2 * LARGE_PAGE_BYTES + 1,
                100..5000,
                7..7,
            ] {
                memory.bytes_mut(address, bytes).fill(0xEE);
                memory.zero(address, range.clone());
                let found = memory.bytes(address, bytes);
                let is_correct =
                    |(at, byte): (usize, &u8)| *byte == if range.contains(&at) { 0 } else { 0xEE };
                assert!(found.iter().enumerate().all(is_correct), "{range:?}");
            }
            memory.free(address);
        }
    }
}
