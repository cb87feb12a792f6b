//! Promise: whatever is damaged of a closed database, an answer is right or an error. Nothing is wrong, and nothing is silently gone. With
//! a second copy of everything every answer is right, and what was damaged is whole again after a repair.
//!
//! Bits are flipped, ranges are zeros, random, of another place or of an earlier time, files are cut, in any file of the directory. A
//! failure prints its seed; `TIERRA_TEST_DAMAGE_SEED` repeats it, `TIERRA_TEST_DAMAGES` asks for another number than 40.

use crate::support;
use std::collections::BTreeMap;
use std::fs;
use std::panic;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use crate::damaged::{
    Answers, BASES, Base, Harm, Random, State, TIERS, ask, folder, harm, options,
};
use tierra_engine::{Database, DatabaseOptions, OpenError, Replicas, ScrubOptions};

const SEEDS: u64 = 40;

/// Beyond those, found by more: a publication of one tier that was lost, and a log that went back together with its mark.
const FAILED_ONCE: [u64; 2] = [128, 783];

/// Panics so far, of whatever thread.
static PANICS: AtomicU64 = AtomicU64::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A failure of the other test is no panic of the database.
            let thread = std::thread::current();
            if !thread.name().is_some_and(|name| name.contains("_answer")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            tell(panic);
        }));
    });
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|n| n.parse().unwrap());
    match number("TIERRA_TEST_DAMAGE_SEED") {
        Some(seed) => vec![seed],
        None => match number("TIERRA_TEST_DAMAGES") {
            Some(seeds) => (0..seeds).collect(),
            None => (0..SEEDS).chain(FAILED_ONCE).collect(),
        },
    }
}

/// What came of all seeds.
#[derive(Debug, Default)]
struct Tally {
    /// Everything answered rightly, from the first question on.
    right: u64,
    /// Opened, and some questions were refused.
    refused_in_part: u64,
    /// Not opened, by the kind of error.
    refused: BTreeMap<String, u64>,
    /// What was there before the newest publication, of which nothing was left.
    older: u64,
    /// Whole after the repair, and not before.
    repaired: u64,
    right_answers: usize,
    refused_answers: usize,
}

/// The name of an error's variant.
fn kind(error: &OpenError) -> String {
    let told = format!("{error:?}");
    let end = told.find([' ', '{']).unwrap_or(told.len());
    told[..end].replace('(', " ").trim().to_owned()
}

fn open(db: &Path, random: u64, degraded: bool) -> Result<Arc<Database>, OpenError> {
    let near = if random.is_multiple_of(2) { 0 } else { 1 << 20 };
    let options = DatabaseOptions {
        degraded,
        ..options(near)
    };
    Database::open(db, &options)
}

/// Whether everything is said to be whole.
fn is_clean(database: &Database, only_verify: bool) -> Result<bool, String> {
    let options = ScrubOptions {
        only_verify,
        ..ScrubOptions::default()
    };
    let report = database.scrub(&options, |_| {});
    let report = report.map_err(|error| format!("it is not scrubbed: {error}"))?;
    Ok(report.damaged_copies == 0
        && report.lost.is_empty()
        && database.unavailable().is_empty()
        && database.missing_tiers().is_empty())
}

fn repair(database: &Database) -> Result<(), String> {
    let made = database.make_copies();
    made.map_err(|error| format!("copies are not made: {error}"))?;
    is_clean(database, false).map(drop)
}

/// The answers, none of them wrong.
fn answers(database: &Database, expected: &State, when: &str) -> Result<Answers, String> {
    let answers = ask(database, expected);
    match answers.wrong.is_empty() {
        true => Ok(answers),
        false => Err(format!("{when}: {}", answers.wrong.join("; "))),
    }
}

fn not_clean_if_refused(database: &Database, answers: &Answers) -> Result<(), String> {
    match is_clean(database, true)? && !answers.all_right() {
        true => Err(format!("said to be whole, yet: {:?}", answers.refused)),
        false => Ok(()),
    }
}

/// Rows more in each table; where that is refused some of the table is not there.
fn append(database: &Database, expected: &mut State, answers: &Answers) -> Result<(), String> {
    for (name, ids) in expected {
        let table = database.table(name).ok_or("a table is gone")?;
        let next = ids.last().map_or(0, |last| last + 1);
        match table.append(&[support::rows(next..next + 3)]) {
            Ok(_) => ids.extend(next..next + 3),
            Err(_) if answers.refused.contains_key(name) => {}
            Err(error) => return Err(format!("{name} takes no rows: {error}")),
        }
    }
    Ok(())
}

/// One tier: right, or an error.
fn one_tier(base: &Base, harm: &Harm, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let dir = folder();
    let db = dir.path().join("db");
    Base::write(&harm.files, &db);
    let database = match open(&db, seed, false) {
        Ok(database) => database,
        Err(error) => {
            let is_of_kind = matches!(
                error,
                OpenError::Pool(_)
                    | OpenError::Unreadable { .. }
                    | OpenError::NotADatabase { .. }
                    | OpenError::DirectoryFile { .. }
                    | OpenError::Ahead { .. }
                    | OpenError::Stale { .. }
            );
            *tally.refused.entry(kind(&error)).or_default() += 1;
            return match is_of_kind {
                true => Ok(()),
                false => Err(format!("refused by: {error}")),
            };
        }
    };
    let mut expected = base.state.clone();
    if harm.is_rolled_back {
        let mut older = base.older.iter().map(|(_, state)| state);
        if let Some(state) = older.find(|state| ask(&database, state).all_right()) {
            tally.older += 1;
            expected = state.clone();
        }
    }
    let clean_first = match seed % 3 {
        0 => Some(is_clean(&database, true)?),
        _ => None,
    };
    let first = answers(&database, &expected, "opened")?;
    tally.right_answers += first.right;
    tally.refused_answers += first.refused_count;
    match first.all_right() {
        true => tally.right += 1,
        false => tally.refused_in_part += 1,
    }
    if clean_first == Some(true) && !first.all_right() {
        return Err(format!("first said to be whole, yet: {:?}", first.refused));
    }
    not_clean_if_refused(&database, &first)?;
    repair(&database)?;
    let repaired = answers(&database, &expected, "repaired")?;
    if repaired.all_right() && !first.all_right() {
        tally.repaired += 1;
    }
    not_clean_if_refused(&database, &repaired)?;
    append(&database, &mut expected, &repaired)?;
    answers(&database, &expected, "with more rows")?;
    drop(database);
    let reopened = open(&db, seed + 1, false);
    let database = reopened.map_err(|error| format!("not opened again: {error}"))?;
    let last = answers(&database, &expected, "opened again")?;
    not_clean_if_refused(&database, &last)
}

/// All answers are right.
fn right(database: &Database, expected: &State, when: &str) -> Result<usize, String> {
    let answers = answers(database, expected, when)?;
    match answers.all_right() {
        true => Ok(answers.right),
        false => Err(format!("{when}: {:?}", answers.refused)),
    }
}

/// Two tiers, one of them damaged: always right.
fn two_tiers(base: &Base, harm: &Harm, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let dir = folder();
    let db = dir.path().join("db");
    Base::write(&harm.files, &db);
    let (victim, other) = (TIERS[harm.tier], TIERS[1 - harm.tier]);
    let mut expected = base.state.clone();
    let database = match open(&db, seed, false) {
        Ok(database) => Some(database),
        Err(error) => {
            *tally.refused.entry(kind(&error)).or_default() += 1;
            match error {
                OpenError::Degraded { .. } => {}
                OpenError::Torn { .. } if harm.is_rolled_back => {
                    fs::remove_file(db.join(victim.1)).unwrap();
                }
                error => return Err(format!("refused by: {error}")),
            }
            None
        }
    };
    let database = match database {
        Some(database) => {
            let clean = seed.is_multiple_of(3).then(|| is_clean(&database, true));
            tally.right_answers += right(&database, &expected, "opened")?;
            tally.right += 1;
            if let Some(clean) = clean {
                tally.repaired += u64::from(!clean?);
            }
            database
        }
        None => {
            let opened = open(&db, seed, true);
            let database = opened.map_err(|error| format!("not opened degraded: {error}"))?;
            tally.right_answers += right(&database, &expected, "degraded")?;
            if is_clean(&database, true)? {
                return Err("a missing tier is not told".to_owned());
            }
            replace_tier(&database, &db, victim.0, other.0)?;
            tally.repaired += 1;
            database
        }
    };
    repair(&database)?;
    tally.right_answers += right(&database, &expected, "repaired")?;
    if !is_clean(&database, true)? {
        return Err("not whole after a repair".to_owned());
    }
    append(&database, &mut expected, &Answers::default())?;
    right(&database, &expected, "with more rows")?;
    let tiers = database.tiers();
    drop(database);
    let reopened = open(&db, seed + 1, false);
    let database = reopened.map_err(|error| format!("not opened again: {error}"))?;
    right(&database, &expected, "opened again")?;
    database
        .wait_for_near_copies()
        .map_err(|error| error.to_string())?;
    drop(database);
    // Each alone has everything.
    let files = ["far.pool", "b.pool", "c.pool"];
    let files = files.iter().filter(|file| {
        let name = file.trim_end_matches(".pool");
        tiers.iter().any(|tier| tier.name == name)
    });
    for file in files {
        let (path, away) = (db.join(file), dir.path().join("away"));
        fs::rename(&path, &away).unwrap();
        let alone = open(&db, seed, true);
        let alone = alone.map_err(|error| format!("without {file}: {error}"))?;
        right(&alone, &expected, &format!("without {file}"))?;
        drop(alone);
        fs::rename(&away, &path).unwrap();
    }
    Ok(())
}

/// Another tier instead of the one that is missing.
fn replace_tier(database: &Database, db: &Path, lost: &str, kept: &str) -> Result<(), String> {
    let place = |tiers: &[&str]| {
        for name in database.tables() {
            let table = database.table(&name).ok_or("a table is gone")?;
            let placed = table.set_replicas(&Replicas::of_table(tiers.iter().copied()));
            placed.map_err(|error| format!("{name} in {tiers:?}: {error}"))?;
        }
        Ok::<_, String>(())
    };
    place(&[kept])?;
    database
        .drop_tier(lost)
        .map_err(|error| error.to_string())?;
    let added = database.add_tier("c", &db.join("c.pool"));
    added.map_err(|error| error.to_string())?;
    place(&[kept, "c"])
}

fn run(tiers: usize) {
    count_panics();
    let bases: Vec<Base> = (0..BASES).map(|number| Base::new(tiers, number)).collect();
    let mut tally = Tally::default();
    let mut violations = 0;
    for seed in seeds() {
        let before = PANICS.load(Ordering::SeqCst);
        let base = &bases[(seed % BASES) as usize];
        let harm = harm(base, &mut Random(seed << 8 | tiers as u64));
        let checked = match tiers {
            1 => one_tier(base, &harm, seed, &mut tally),
            _ => two_tiers(base, &harm, seed, &mut tally),
        };
        let panicked = PANICS.load(Ordering::SeqCst) > before;
        if let Some(why) = checked
            .err()
            .or(panicked.then(|| "a thread panicked".to_owned()))
        {
            violations += 1;
            println!(
                "seed {seed}, {tiers} tiers, {:?}, rolled back: {}: {why}",
                harm.what, harm.is_rolled_back
            );
        }
    }
    println!("{tiers} tiers: {tally:?}");
    assert_eq!(violations, 0);
}

#[test]
fn one_tier_answers_rightly_or_not_at_all() {
    run(1);
}

#[test]
fn two_tiers_answer_rightly_whatever_one_of_them_loses() {
    run(2);
}
