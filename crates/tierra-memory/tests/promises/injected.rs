//! The promise of damage done on purpose: what is said to be damaged is, nothing else is, and the seed says
//! where.

use std::ops::Range;
use std::sync::Arc;

use tierra_memory::faults::{Damage, Injector};
use tierra_memory::{Extent, Pool, PoolOptions};

use crate::simulated::{finish, folder};

const LEN: u64 = 50_000;

fn pool(name: &str, dir: &tempfile::TempDir) -> (Arc<Pool>, Extent) {
    let options = PoolOptions {
        id: Some(1),
        ..PoolOptions::default()
    };
    let pool = Pool::create(&dir.path().join(name), &options).unwrap();
    let payload: Vec<u8> = (0..LEN).map(|at| (at * 3 + at / 256) as u8).collect();
    let extent = finish(&pool, &payload).extent();
    (pool, extent)
}

fn differing(before: &[u8], after: &[u8]) -> Vec<u64> {
    let pairs = before.iter().zip(after).zip(0..);
    pairs
        .filter(|((a, b), _)| a != b)
        .map(|(_, at)| at)
        .collect()
}

type Kind = fn(&mut Injector, &Pool, Range<u64>) -> std::io::Result<Damage>;

const KINDS: [(&str, Kind); 4] = [
    ("bits", |injector, pool, within| {
        injector.flip_bits(pool, within, 17)
    }),
    ("garbage", |injector, pool, within| {
        injector.garbage(pool, within)
    }),
    ("stripes of lines", |injector, pool, within| {
        injector.stripes(pool, within, 64, 8)
    }),
    ("stripes of 256", |injector, pool, within| {
        injector.stripes(pool, within, 256, 12)
    }),
];

#[test]
fn what_is_said_to_be_damaged_is_and_nothing_else() {
    let dir = folder();
    for (name, kind) in KINDS {
        for seed in 0..8 {
            let (pool, extent) = pool(&format!("{name} {seed}"), &dir);
            let before = std::fs::read(pool.path()).unwrap();
            let within = extent.offset..extent.offset + LEN;
            let damage = kind(&mut Injector::new(seed), &pool, within.clone()).unwrap();
            let listed: Vec<u64> = damage.offsets.iter().cloned().flatten().collect();
            assert!(
                !listed.is_empty() && listed.is_sorted(),
                "{name} {seed}: {damage}"
            );
            assert!(within.contains(&listed[0]) && *listed.last().unwrap() < within.end);
            // In the live mapping and in the file.
            let mapped = pool.bytes(extent);
            let differs = differing(&before[within.start as usize..], mapped);
            let differs: Vec<u64> = differs.iter().map(|at| at + within.start).collect();
            assert_eq!(differs, listed, "{name} {seed}");
            assert_eq!(
                differing(&before, &std::fs::read(pool.path()).unwrap()),
                listed
            );
            assert!(pool.verify_extent(extent).is_err());
            // The same seed, the same damage; another, another.
            let (again, _) = self::pool(&format!("{name} {seed} again"), &dir);
            let same = kind(&mut Injector::new(seed), &again, within.clone()).unwrap();
            assert_eq!(same, damage);
            assert_eq!(again.bytes(extent), mapped);
            let others = (8..16).map(|seed| kind(&mut Injector::new(seed), &again, within.clone()));
            assert!(
                others
                    .into_iter()
                    .any(|other| other.unwrap().offsets != damage.offsets)
            );
        }
    }
}

#[test]
fn a_stripe_hits_every_nth_piece() {
    let dir = folder();
    let (pool, extent) = pool("p", &dir);
    let within = extent.offset..extent.offset + LEN;
    let damage = Injector::new(3).stripes(&pool, within, 256, 10).unwrap();
    let pieces: Vec<u64> = damage
        .offsets
        .iter()
        .map(|range| range.start / 256)
        .collect();
    assert!(
        pieces.windows(2).all(|pair| pair[1] - pair[0] == 10),
        "{pieces:?}"
    );
    assert_eq!(damage.offsets.len() as u64, LEN / 2_560);
    assert!(
        damage.to_string().starts_with("every 10th 256 bytes: 48"),
        "{damage}"
    );
}

#[test]
fn what_is_not_in_the_pool_is_not_damaged() {
    let dir = folder();
    let (pool, _) = pool("p", &dir);
    let before = std::fs::read(pool.path()).unwrap();
    let end = pool.len_bytes();
    let mut injector = Injector::new(0);
    for (_, kind) in KINDS {
        for within in [
            5..5,
            end..end + 1,
            end - 1..end + 1,
            Range { start: 9, end: 3 },
        ] {
            assert!(kind(&mut injector, &pool, within).is_err());
        }
    }
    assert!(injector.stripes(&pool, 0..end, 0, 1).is_err());
    assert!(injector.stripes(&pool, 0..end, 64, 0).is_err());
    assert!(injector.lose_page(&pool, end..end + 1).is_err());
    assert!(injector.cut(&pool, end).is_err() && injector.cut(&pool, end + 1).is_err());
    assert_eq!(std::fs::read(pool.path()).unwrap(), before);
}
