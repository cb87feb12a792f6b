//! A process that is killed at any moment while it appends, loads, merges, moves copies, repairs or changes rows leaves a database with two
//! tiers in which everything is that its parent was told is done, and no part of anything else: with both tiers, and
//! with either alone that had everything.

use crate::simulated;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::killed::{self, Place, Work, check, kill_after};

/// Of each kind of work.
const RUNS: u64 = 6;
const SEED: u64 = 0x7E44A;

fn kill_in(work: Work) {
    for run in 0..RUNS {
        let dir = simulated::folder();
        let seed = SEED + run;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::change", "--ignored", "--nocapture"])
            .env("TIERRA_TEST_DIR", dir.path())
            .env("TIERRA_TEST_WORK", work.name())
            .env("TIERRA_TEST_SEED", seed.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // At odd places.
        let delay = work
            .some_steps()
            .mul_f64((seed * 7919 % 1000) as f64 / 1000.0);
        let told = kill_after(child, delay).unwrap();
        let first = [None, Some(0), Some(1)][(run % 3) as usize];
        let left = check(work, &Place::of(dir.path()), &told, first);
        println!("{}, seed {seed}: {told:?}, {left:?}", work.name());
        left.unwrap();
    }
}

#[test]
fn killed_while_appending() {
    kill_in(Work::Append);
}

#[test]
fn killed_while_loading() {
    kill_in(Work::Load);
}

#[test]
fn killed_while_merging() {
    kill_in(Work::Merge);
}

#[test]
fn killed_while_copies_move() {
    kill_in(Work::Move);
}

#[test]
fn killed_while_repairing() {
    kill_in(Work::Repair);
}

#[test]
fn killed_while_rows_change() {
    kill_in(Work::Change);
}

#[test]
#[ignore = "the child of the others"]
fn change() {
    let variable = |name| std::env::var(name).unwrap();
    let work = Work::named(&variable("TIERRA_TEST_WORK")).unwrap();
    let seed = variable("TIERRA_TEST_SEED").parse().unwrap();
    killed::change_until_killed(work, Path::new(&variable("TIERRA_TEST_DIR")), seed);
}
