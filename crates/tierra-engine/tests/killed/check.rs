//! The promise: what the child was told is done is there, with both tiers and with each that has everything alone, and it goes on.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tierra_engine::{Database, DatabaseOptions, OpenError, ScrubOptions};

use super::super::simulated::{State, rows, state};
use super::{Place, Told, Work, changing};

/// What a kill left, and how it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) rows: i64,
    /// With the other tier's file away.
    pub(crate) opened_alone: bool,
    /// The tier that had been away was refused: it had published what was not acknowledged.
    pub(crate) refused: bool,
}

/// Opens what was left with both tiers, or first with one (`first`) if it has everything, then with both, then with each
/// alone. Says what is wrong.
pub(crate) fn check(
    work: Work,
    place: &Place,
    told: &Told,
    first: Option<usize>,
) -> Result<Left, String> {
    let begun = told.begun.unwrap_or(told.acknowledged);
    let is_enough = |tier: usize| told.acknowledged.alone[tier] && begun.alone[tier];
    let first = first.filter(|&tier| is_enough(tier));
    let mut left = Left {
        opened_alone: first.is_some(),
        ..Left::default()
    };
    let mut now = None;
    if let Some(tier) = first {
        let away = take_away(place, 1 - tier)?;
        let database = open(place).map_err(text)?;
        now = Some(go_on(work, &database, told)?);
        drop(database);
        bring_back(&away)?;
    }
    let database = match open(place) {
        Ok(database) => database,
        // One of them was the first to publish what was not acknowledged, the other was opened without it.
        Err(OpenError::Diverged { .. }) if first.is_some() => {
            left.refused = true;
            left.rows = now.unwrap_or_default();
            return Ok(left);
        }
        Err(error) => return Err(text(error)),
    };
    let rows_now = match now {
        Some(rows) => holds(work, &database, &[rows])?,
        None => go_on(work, &database, told)?,
    };
    left.rows = rows_now;
    let enough = repair(&database)?;
    drop(database);
    for tier in (0..2).filter(|&tier| enough[tier]) {
        let away = take_away(place, 1 - tier)?;
        let database = open(place).map_err(|error| format!("tier {tier} alone: {error}"))?;
        holds(work, &database, &[rows_now]).map_err(|what| format!("tier {tier} alone: {what}"))?;
        drop(database);
        bring_back(&away)?;
        if tier == 0 && enough[1] {
            // As if the second had not been missing.
            let database = open(place).map_err(text)?;
            repair(&database)?;
        }
    }
    Ok(left)
}

/// What is there is what was acknowledged, or what the step that was begun leads to; and more can be appended. How many rows
/// there are then.
fn go_on(work: Work, database: &Arc<Database>, told: &Told) -> Result<i64, String> {
    let begun = told.begun.map(|mark| mark.rows);
    let possible: Vec<i64> = [told.acknowledged.rows].into_iter().chain(begun).collect();
    let found = holds(work, database, &possible)?;
    if work == Work::Change {
        changing::take(database, found + 1)?;
        return Ok(found + 1);
    }
    let table = database.table("t").ok_or("the table is gone")?;
    table.append(&[rows(found..found + 5)]).map_err(text)?;
    Ok(found + 5)
}

/// How many rows the table has, all of them right, if that is possible.
fn holds(work: Work, database: &Database, possible: &[i64]) -> Result<i64, String> {
    if work == Work::Change {
        return changing::found(database, possible);
    }
    let found: State = state(database)?;
    let rows = found.get("t").copied().ok_or("the table is gone")?;
    match possible.contains(&rows) && found.len() == 1 {
        true => Ok(rows),
        false => Err(format!("{found:?} is there, {possible:?} rows should be")),
    }
}

/// All copies are made, put right, and equal. Which tiers have everything then.
fn repair(database: &Database) -> Result<[bool; 2], String> {
    database.wait_for_near_copies().map_err(text)?;
    let scrub = |only_verify| {
        let options = ScrubOptions {
            only_verify,
            ..ScrubOptions::default()
        };
        database.scrub(&options, |_| {}).map_err(text)
    };
    let repaired = scrub(false)?;
    if !repaired.lost.is_empty() {
        return Err(format!("{:?} is lost", repaired.lost));
    }
    let damaged = scrub(true)?.damaged_copies;
    if damaged > 0 {
        return Err(format!("{damaged} copies are damaged after the repair"));
    }
    let any = database.tables().into_iter().next();
    let table = any.and_then(|name| database.table(&name));
    let table = table.ok_or("the table is gone")?;
    let tiers = table.replicas().table;
    Ok(["far", "b"].map(|tier| tiers.iter().any(|name| name == tier)))
}

fn open(place: &Place) -> Result<Arc<Database>, OpenError> {
    let options = DatabaseOptions {
        near_memory_bytes: Some(1 << 20),
        degraded: true,
        ..DatabaseOptions::default()
    };
    Database::open(&place.db, &options)
}

/// A pool's file that is elsewhere, and where it was.
struct Away(PathBuf, PathBuf);

fn take_away(place: &Place, tier: usize) -> Result<Away, String> {
    let there = place.pools[tier].clone();
    let away = there.with_extension("away");
    fs::rename(&there, &away).map_err(text)?;
    Ok(Away(away, there))
}

fn bring_back(Away(away, there): &Away) -> Result<(), String> {
    fs::rename(away, there).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
