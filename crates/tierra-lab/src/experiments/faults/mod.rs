//! Experiment `faults`: are answers right, and is everything put right, whatever part of one of two tiers is lost?
//!
//! A table has a copy in each of two tiers. Queries of all kinds run in a thread while one tier is damaged at places that follow
//! from a seed: bits flipped in the mapping of the open database, regions of 4 KiB, a chip of a module, the file cut short, the
//! file absent when the database is opened, and a socket gone (simulated: the file is cut to nothing and removed). Half of the
//! times the damage is there before anything of it was read; a checksum is looked at when a block is read first, so damage that
//! comes later is found by a walk, and told apart. Then a walk puts everything right: all copies are equal, and each tier
//! is enough alone.

mod ask;
mod fault;

use self::fault::{Class, Outcome};
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

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let seeds = lab.size(4, SEEDS);
        println!("seed {SEED:#x}");
        let bar = progress::bar("faults", Class::ALL.len() * seeds as usize);
        let mut rows = Vec::new();
        for class in Class::ALL {
            bar.set_message(class.name());
            let mut outcomes = Vec::new();
            for seed in 0..seeds {
                let folder = lab.folder_in_memory()?;
                let outcome = class.suffer(folder.path(), SEED + seed);
                let outcome = outcome.unwrap_or_else(|what| Outcome {
                    unrepaired: vec![what],
                    ..Outcome::default()
                });
                for what in outcome.wrong.iter().chain(&outcome.unrepaired) {
                    println!("{}, seed {seed}: {what}", class.name());
                }
                outcomes.push(outcome);
                bar.inc(1);
            }
            rows.push(row(class, &outcomes));
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new().count("faults_of_a_class", seeds),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let total = |key: &str| {
            let of_row = |row: &Row| match row.get(key) {
                Some(Cell::Samples(samples)) => Some(samples.iter().sum::<u64>() as f64),
                _ => None,
            };
            let sums: Vec<f64> = rows.iter().filter_map(of_row).collect();
            (!sums.is_empty()).then(|| sums.iter().sum())
        };
        let least = rows
            .iter()
            .filter_map(|row| match row.get("queries_count") {
                Some(Cell::Samples(samples)) => Some(samples.len() as f64),
                _ => None,
            });
        vec![
            Bar::at_most(
                "faults: wrong answers, damage before the first reading",
                0.0,
                total("wrong_unread_count"),
            ),
            Bar::at_most(
                "faults: wrong answers, damage of what had been read",
                0.0,
                total("wrong_read_count"),
            ),
            Bar::at_most("faults: not put right", 0.0, total("unrepaired_count")),
            Bar::at_least(
                "faults: seeds of each class",
                SEEDS as f64,
                least.reduce(f64::min),
            ),
            Bar::at_most("faults: queries refused", 0.0, total("refused_count")),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 1] = [View {
    title: "copies found damaged by a walk",
    category: "fault",
    series: "tier",
    value: "damaged_copies",
    per: None,
    unit: Unit::Count,
    mean: false,
}];

/// A row of all outcomes of a class; raw samples by seed.
fn row(class: Class, outcomes: &[Outcome]) -> Row {
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
    Row::new()
        .text("fault", class.name())
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
        let met = |last: Outcome| {
            let mut outcomes = vec![outcome(0, false, 0); SEEDS as usize - 1];
            outcomes.push(last);
            let bars = Faults.bars(&[row(Class::Bits, &outcomes)]);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()[..4].to_vec()
        };
        assert_eq!(met(outcome(0, true, 0)), [true; 4]);
        assert_eq!(met(outcome(1, false, 0)), [false, true, true, true]);
        assert_eq!(met(outcome(1, true, 0)), [true, false, true, true]);
        assert_eq!(met(outcome(0, true, 1)), [true, true, false, true]);
        assert!(Faults.bars(&[]).iter().all(|bar| !bar.met));
    }
}
