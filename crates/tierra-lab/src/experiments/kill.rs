//! Experiment `kill`: is anything lost that was acknowledged to one process, if another is killed at any moment?
//!
//! A child changes a database with two tiers (appends, loads, merges, moves copies, repairs damage, or commits transactions over two
//! tables) and reports every step before and after it. It is killed (SIGKILL) after a random time. Then the database is opened with both tiers, or first with
//! one while the other is absent. Its content is compared with the reports, it continues, and its copies are equal. The
//! children are those of `tierra-engine/tests/promises/kill.rs`.

use super::database::killed::{Left, Place, Work, check, kill_after};
use super::database::start;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Cell, Row};
use crate::view::{Unit, View};

/// Kills of a full run.
const RUNS: usize = 500;

/// How a database is opened after the kill, with the number of the only present tier.
const OPENED: [(&str, Option<usize>); 3] = [
    ("both tiers", None),
    ("the first alone", Some(0)),
    ("the second alone", Some(1)),
];

/// The experiment.
pub(super) struct Kill;

/// All kills of one kind of work and one way of opening.
#[derive(Default)]
struct Tally {
    /// Steps that were acknowledged, by run.
    steps: Vec<u64>,
    /// Rows at the end, by run.
    rows: Vec<u64>,
    opened_alone: u64,
    refused: u64,
    violations: Vec<String>,
}

impl Experiment for Kill {
    fn name(&self) -> &'static str {
        "kill"
    }

    fn about(&self) -> &'static str {
        "is anything acknowledged lost when the process is killed at random moments?"
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let runs = lab.size(3 * Work::ALL.len() * OPENED.len(), RUNS);
        println!("seed {SEED:#x}");
        let mut random = Random::new(SEED);
        let cells = Work::ALL.len() * OPENED.len();
        let mut tallies: Vec<Tally> = (0..cells).map(|_| Tally::default()).collect();
        let bar = progress::bar("kills", runs);
        for run in 0..runs {
            let cell = run % cells;
            let (work, (_, first)) = (
                Work::ALL[cell % Work::ALL.len()],
                OPENED[cell / Work::ALL.len()],
            );
            let folder = lab.folder_in_memory()?;
            let child = start(work.name(), folder.path(), SEED + run as u64)?;
            let delay = work.some_steps().mul_f64(random.fraction());
            let told =
                kill_after(child, delay).by("a child", format!("{}, run {run}", work.name()))?;
            let tally = &mut tallies[cell];
            tally.steps.push(told.steps);
            match check(work, &Place::of(folder.path()), &told, first) {
                Ok(Left {
                    rows,
                    opened_alone,
                    refused,
                }) => {
                    tally.rows.push(rows as u64);
                    tally.opened_alone += u64::from(opened_alone);
                    tally.refused += u64::from(refused);
                }
                Err(what) => {
                    println!("{} (run {run}, {told:?}): {what}", work.name());
                    tally.violations.push(what);
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rows = tallies.into_iter().enumerate().map(|(cell, tally)| {
            let work = Work::ALL[cell % Work::ALL.len()];
            tally.row(work, OPENED[cell / Work::ALL.len()].0)
        });
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new().count("kills", runs as u64),
            rows: rows.collect(),
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let sum = |key: &str| {
            let values: Vec<f64> = rows.iter().filter_map(|row| row.value(key)).collect();
            (!values.is_empty()).then(|| values.iter().sum())
        };
        let kills = rows
            .iter()
            .filter_map(|row| match row.get("acknowledged_steps")? {
                Cell::Samples(steps) => Some(steps.len() as f64),
                _ => None,
            });
        vec![
            Bar::at_most(
                "kill: runs in which anything acknowledged was lost",
                0.0,
                sum("violations"),
            ),
            Bar::at_least("kill: runs", RUNS as f64, Some(kills.sum())),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 1] = [View {
    title: "steps acknowledged before the kill",
    category: "work",
    series: "opened",
    value: "acknowledged_steps",
    per: None,
    unit: Unit::Count,
    mean: false,
}];

impl Tally {
    fn row(self, work: Work, opened: &str) -> Row {
        let row = Row::new()
            .text("work", work.name())
            .text("opened", opened)
            .count("violations", self.violations.len() as u64)
            .count("opened_alone", self.opened_alone)
            .count("refused_as_diverged", self.refused)
            .samples("acknowledged", "steps", self.steps)
            .samples("found", "rows", self.rows);
        match self.violations.into_iter().next() {
            Some(what) => row.text("first_violation", what),
            None => row,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_misses_the_bar() {
        let row = |violations, runs| {
            Row::new().count("violations", violations).samples(
                "acknowledged",
                "steps",
                vec![1; runs],
            )
        };
        let met = |rows: &[Row]| {
            let bars = Kill.bars(rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        assert_eq!(met(&[row(0, RUNS - 1), row(0, 1)]), [true, true]);
        assert_eq!(met(&[row(0, RUNS), row(1, 1)]), [false, true]);
        assert_eq!(met(&[row(0, 3)]), [true, false]);
        assert_eq!(met(&[]), [false, false]);
    }
}
