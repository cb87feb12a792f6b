//! Experiment `faults`: are answers right, and is all damage repaired, if any part of one of two tiers is lost?
//!
//! A table has a copy in each of two tiers, alike or in different encodings. Queries of all kinds run in a thread while one tier is damaged at positions that a
//! seed determines: bits flipped in the mapping of the open database, regions of 4 KiB, a chip of a module, the file truncated,
//! the file absent when the database is opened, and a socket lost (simulated: the file is truncated to nothing and removed). In
//! half of the runs the damage precedes the first read. Everything runs on a database that checks every read, and again on one
//! that checks only the first read of each block, the default. The latter may answer wrongly if verified bytes change and the
//! memory does not report it; that has separate rows and no bar. Then a scrub pass repairs everything: all copies are equal, and
//! each tier suffices alone.

mod ask;
mod fault;

use tierra_engine::VerifyReads;

use self::fault::{Class, Copies, Outcome};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::progress;
use crate::results::Tier;
use crate::row::{Cell, Row};
use crate::view::{Unit, View};

/// Faults of each class in a full run.
const SEEDS: u64 = 100;

/// The experiment.
pub(super) struct Faults;

impl Experiment for Faults {
    fn name(&self) -> &'static str {
        "faults"
    }

    fn about(&self) -> &'static str {
        "are answers right, and is all put right, whatever part of one of two tiers is lost?"
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let seeds = lab.size(4, SEEDS);
        println!("seed {SEED:#x}");
        let readings = [VerifyReads::Every, VerifyReads::First];
        let arms = Copies::ALL.len() * readings.len() * Class::ALL.len();
        let bar = progress::bar("faults", arms * seeds as usize);
        let mut rows = Vec::new();
        for (copies, reads) in Copies::ALL
            .into_iter()
            .flat_map(|copies| readings.map(|reads| (copies, reads)))
        {
            for class in Class::ALL {
                bar.set_message(class.name());
                let mut outcomes = Vec::new();
                for seed in 0..seeds {
                    let folder = lab.folder_in_memory()?;
                    let outcome = class.suffer(folder.path(), SEED + seed, reads, copies);
                    let outcome = outcome.unwrap_or_else(|what| Outcome {
                        unrepaired: vec![what],
                        ..Outcome::default()
                    });
                    for what in outcome.wrong.iter().chain(&outcome.unrepaired) {
                        println!(
                            "{}, copies {}, {reads} reading checked, seed {seed}: {what}",
                            class.name(),
                            copies.name()
                        );
                    }
                    outcomes.push(outcome);
                    bar.inc(1);
                }
                rows.push(row(class, reads, copies, &outcomes));
            }
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new().count("faults_of_a_class", seeds),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let total_of = |key: &str, counts: &dyn Fn(&Row) -> bool| {
            let rows = rows.iter().filter(|row| counts(row));
            let sums: Vec<f64> = rows.filter_map(|row| row.total(key)).collect();
            (!sums.is_empty()).then(|| sums.iter().sum())
        };
        let total = |key: &str| total_of(key, &|_| true);
        // A silent change after the first check is seen only if every read is checked.
        let is_seen = |row: &Row| {
            row.is(&[("readings_checked", "every")]) || row.is(&[("damage", "reported")])
        };
        let least = |copies: Copies| {
            let rows = rows.iter();
            let rows = rows.filter(|row| row.is(&[("copies", copies.name())]));
            let seeds = rows.filter_map(|row| match row.get("queries_count") {
                Some(Cell::Samples(samples)) => Some(samples.len() as f64),
                _ => None,
            });
            seeds.reduce(f64::min)
        };
        let seeds = Copies::ALL.map(|copies| {
            Bar::at_least(
                format!("faults: seeds of each class, copies {}", copies.name()),
                SEEDS as f64,
                least(copies),
            )
        });
        let mut bars = vec![
            Bar::at_most(
                "faults: wrong answers, damage before the first reading",
                0.0,
                total("wrong_unread_count"),
            ),
            Bar::at_most(
                "faults: wrong answers, damage of what had been read, reported or every reading checked",
                0.0,
                total_of("wrong_read_count", &is_seen),
            ),
            Bar::at_most("faults: panics", 0.0, total("panics_count")),
            Bar::at_most("faults: not put right", 0.0, total("unrepaired_count")),
            Bar::at_most("faults: queries refused", 0.0, total("refused_count")),
        ];
        bars.extend(seeds);
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 3] = [
    view(
        "wrong answers after damage of what had been read, all faults of a class",
        "wrong_read_count",
        Unit::Total,
    ),
    view(
        "wrong answers after damage before the first reading, all faults of a class",
        "wrong_unread_count",
        Unit::Total,
    ),
    view(
        "copies found damaged by a scrub pass",
        "damaged_copies",
        Unit::Count,
    ),
];

const fn view(title: &'static str, value: &'static str, unit: Unit) -> View {
    View {
        title,
        category: "fault",
        series: "readings_checked",
        value,
        per: None,
        unit,
        mean: false,
    }
}

/// A row of all outcomes of a class; raw samples by seed.
fn row(class: Class, reads: VerifyReads, copies: Copies, outcomes: &[Outcome]) -> Row {
    let each = |of: &dyn Fn(&Outcome) -> u64| outcomes.iter().map(of).collect::<Vec<u64>>();
    let wrong_if = |was_read: bool| {
        each(&|outcome| {
            let wrong = outcome.wrong.len() as u64;
            if outcome.was_read == was_read {
                wrong
            } else {
                0
            }
        })
    };
    let fault = match copies {
        Copies::Alike => class.name().to_owned(),
        Copies::Encoded => format!("{}, copies {}", class.name(), copies.name()),
    };
    Row::new()
        .text("fault", fault)
        .text("copies", copies.name())
        .text("readings_checked", reads.to_string())
        .text(
            "damage",
            if class.is_silent() {
                "silent"
            } else {
                "reported"
            },
        )
        .text(
            "tier",
            if class == Class::Socket {
                "simulated"
            } else {
                "real"
            },
        )
        .samples("queries", "count", each(&|outcome| outcome.queries))
        .samples("refused", "count", each(&|outcome| outcome.refused))
        .samples("panics", "count", each(&|outcome| outcome.panics))
        .samples("wrong_unread", "count", wrong_if(false))
        .samples("wrong_read", "count", wrong_if(true))
        .samples("damaged", "copies", each(&|outcome| outcome.damaged_copies))
        .samples(
            "repaired",
            "copies",
            each(&|outcome| outcome.repaired_copies),
        )
        .samples(
            "unrepaired",
            "count",
            each(&|outcome| outcome.unrepaired.len() as u64),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_and_a_copy_left_damaged_miss_their_bars() {
        let outcome = |wrong: usize, was_read, unrepaired: usize| Outcome {
            queries: 5,
            wrong: vec![String::new(); wrong],
            unrepaired: vec![String::new(); unrepaired],
            was_read,
            ..Outcome::default()
        };
        let met_of = |class, reads, last: Outcome| {
            let mut outcomes = vec![outcome(0, false, 0); SEEDS as usize - 1];
            outcomes.push(last);
            let other = vec![outcome(0, false, 0); SEEDS as usize];
            let rows = [
                row(class, reads, Copies::Encoded, &outcomes),
                row(Class::Absent, VerifyReads::Every, Copies::Alike, &other),
            ];
            let bars = Faults.bars(&rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        let met = |last| met_of(Class::Bits, VerifyReads::Every, last);
        assert_eq!(met(outcome(0, true, 0)), [true; 7]);
        assert_eq!(
            met(outcome(1, false, 0)),
            [false, true, true, true, true, true, true]
        );
        assert_eq!(
            met(outcome(1, true, 0)),
            [true, false, true, true, true, true, true]
        );
        assert_eq!(
            met(outcome(0, true, 1)),
            [true, true, true, false, true, true, true]
        );
        let panicked = Outcome {
            panics: 1,
            ..outcome(0, true, 0)
        };
        assert_eq!(met(panicked), [true, true, false, true, true, true, true]);
        let first = |class| met_of(class, VerifyReads::First, outcome(1, true, 0))[1];
        assert!(first(Class::Bits) && !first(Class::Cut));
        assert!(Faults.bars(&[]).iter().all(|bar| !bar.met));
        let only = row(Class::Bits, VerifyReads::Every, Copies::Alike, &[]);
        assert_eq!(Faults.bars(&[only]).last().unwrap().measured, None);
    }
}
