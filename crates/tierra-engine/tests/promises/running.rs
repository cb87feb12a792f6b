//! A copy of a database that is being written, file by file as `cp -a` makes it, is opened with a state that there was, or refused.
//!
//! `TIERRA_TEST_COPIES` asks for another number of copies than 25.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::simulated::{SECOND, folder, rows, spec, state};
use tierra_engine::{Database, DatabaseOptions, Replicas};

const COPIES: u64 = 25;
/// Copied at a time, with a pause now and then.
const PIECE_BYTES: usize = 64 << 10;

fn options() -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(1 << 20),
        ..DatabaseOptions::default()
    }
}

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Copies the files in any order, piece by piece.
fn copy(from: &Path, to: &Path, random: &mut Random) -> std::io::Result<()> {
    fs::create_dir(to)?;
    let mut names: Vec<_> = fs::read_dir(from)?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    names.sort();
    for at in (1..names.len()).rev() {
        names.swap(at, (random.next() % (at as u64 + 1)) as usize);
    }
    for name in names {
        // It may be gone by now.
        let Ok(mut file) = fs::File::open(from.join(&name)) else {
            continue;
        };
        let mut copy = fs::File::create(to.join(&name))?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let bytes = file.read(&mut piece)?;
            if bytes == 0 {
                break;
            }
            copy.write_all(&piece[..bytes])?;
            if random.next().is_multiple_of(8) {
                std::thread::sleep(Duration::from_micros(random.next() % 500));
            }
        }
    }
    Ok(())
}

/// Appends, loads, and has the second tier come and go, until it is told to stop.
fn change(database: &Database, db: &Path, stop: &AtomicBool, acknowledged: &AtomicI64) {
    let table = database.table("t").unwrap();
    let mut count = 0;
    for round in 0_i64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match round % 40 {
            10 => {
                let mut loader = table.loader();
                loader.push(rows(count..count + 66_000)).unwrap();
                loader.finish().unwrap();
                count += 66_000;
            }
            15 => {
                database.add_tier(SECOND, &db.join("b.pool")).unwrap();
                let both = Replicas::of_table(["far", SECOND]);
                table.set_replicas(&both).unwrap();
            }
            25 => table.seal().unwrap(),
            35 => {
                table.set_replicas(&Replicas::of_table(["far"])).unwrap();
                // Whatever index is being built meanwhile.
                database.drop_tier(SECOND).unwrap();
                fs::remove_file(db.join("b.pool")).unwrap();
            }
            39 => {
                // Small again.
                database.drop_table("u").ok();
                database.create_table(spec("u")).unwrap();
            }
            _ => {
                table.append(&[rows(count..count + 50)]).unwrap();
                count += 50;
            }
        }
        acknowledged.store(count, Ordering::Relaxed);
    }
}

#[test]
fn a_copy_of_a_running_database_is_right_or_refused() {
    let copies = std::env::var("TIERRA_TEST_COPIES");
    let copies = copies.map_or(COPIES, |copies| copies.parse().unwrap());
    let (mut right, mut refused) = (0, 0);
    for seed in 0..copies {
        let dir = folder();
        let (db, to) = (dir.path().join("db"), dir.path().join("copy"));
        let database = Database::create(&db, &options()).unwrap();
        database.create_table(spec("t")).unwrap();
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicI64::new(0));
        let mut random = Random(seed);
        let copied = std::thread::scope(|scope| {
            scope.spawn(|| change(&database, &db, &stop, &acknowledged));
            std::thread::sleep(Duration::from_millis(random.next() % 300));
            let before = acknowledged.load(Ordering::Relaxed);
            let copied = copy(&db, &to, &mut random);
            stop.store(true, Ordering::Relaxed);
            copied.map(|()| before)
        });
        let before = copied.unwrap();
        let after = acknowledged.load(Ordering::Relaxed);
        // The original stays open meanwhile, and is never written to.
        let opened = Database::open(&to, &options()).map_err(|error| error.to_string());
        let found = opened.and_then(|copy: Arc<Database>| {
            let found = state(&copy);
            copy.close();
            found
        });
        match found {
            Ok(found) => {
                // Every row is right, and none is lacking in between: that was checked. Nothing acknowledged before is gone.
                let rows = found.get("t").copied().unwrap_or(-1);
                assert!(
                    (before..=after).contains(&rows),
                    "seed {seed}: {rows} rows of {before} to {after}"
                );
                right += 1;
            }
            Err(error) => {
                println!("seed {seed}: {error}");
                refused += 1;
            }
        }
        let rows_now = state(&database).unwrap()["t"];
        assert_eq!(rows_now, after, "seed {seed}");
    }
    println!("{right} opened, {refused} refused");
    assert_eq!(right + refused, copies);
}
