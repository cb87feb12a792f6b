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

/// Kills of a full run in transactions over two tables, and as many in all other work.
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
        println!("seed {SEED:#x}");
        let mut random = Random::new(SEED);
        let (changes, others): (Vec<Work>, Vec<Work>) = Work::ALL
            .into_iter()
            .partition(|work| *work == Work::Change);
        let runs = |works: &[Work]| lab.size(3 * works.len() * OPENED.len(), RUNS);
        let all = runs(&others) + runs(&changes);
        let bar = progress::bar("kills", all);
        let (mut rows, mut seed) = (Vec::new(), SEED);
        for works in [others, changes] {
            let cells = OPENED.into_iter().flat_map(|opened| {
                let of_works = works
                    .iter()
                    .map(move |work| (*work, opened, Tally::default()));
                of_works.collect::<Vec<_>>()
            });
            let mut cells: Vec<_> = cells.collect();
            let count = cells.len();
            for run in 0..runs(&works) {
                let (work, (_, first), tally) = &mut cells[run % count];
                tally.kill(lab, *work, *first, seed, &mut random)?;
                seed += 1;
                bar.inc(1);
            }
            let of_works = cells.into_iter();
            rows.extend(of_works.map(|(work, (opened, _), tally)| tally.row(work, opened)));
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new().count("kills", all as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let is_of = |row: &Row, changes: bool| row.is(&[("work", Work::Change.name())]) == changes;
        let violations = |changes: bool| {
            let rows = rows.iter().filter(|row| is_of(row, changes));
            let values: Vec<f64> = rows.filter_map(|row| row.value("violations")).collect();
            (!values.is_empty()).then(|| values.iter().sum())
        };
        let kills = |changes: bool| {
            let rows = rows.iter().filter(|row| is_of(row, changes));
            let kills = rows.filter_map(|row| match row.get("acknowledged_steps")? {
                Cell::Samples(steps) => Some(steps.len() as f64),
                _ => None,
            });
            Some(kills.sum::<f64>())
        };
        let kinds = [
            (false, "other work"),
            (true, "transactions over two tables"),
        ];
        let bars = kinds.into_iter().flat_map(|(changes, of)| {
            [
                Bar::at_most(
                    format!("kill, {of}: runs in which anything acknowledged was lost"),
                    0.0,
                    violations(changes),
                ),
                Bar::at_least(format!("kill, {of}: runs"), RUNS as f64, kills(changes)),
            ]
        });
        bars.collect()
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
    /// Starts a child, kills it, and checks what it left.
    fn kill(
        &mut self,
        lab: &Lab,
        work: Work,
        first: Option<usize>,
        seed: u64,
        random: &mut Random,
    ) -> Result<(), LabError> {
        let folder = lab.folder_in_memory()?;
        let child = start(work.name(), folder.path(), seed)?;
        let delay = work.some_steps().mul_f64(random.fraction());
        let run = || format!("{}, seed {seed:#x}", work.name());
        let told = kill_after(child, delay).by("a child", run())?;
        self.steps.push(told.steps);
        match check(work, &Place::of(folder.path()), &told, first) {
            Ok(Left {
                rows,
                opened_alone,
                refused,
            }) => {
                self.rows.push(rows as u64);
                self.opened_alone += u64::from(opened_alone);
                self.refused += u64::from(refused);
            }
            Err(what) => {
                println!("{} ({told:?}): {what}", run());
                self.violations.push(what);
            }
        }
        Ok(())
    }

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
        let row = |work: Work, violations, runs| {
            Row::new()
                .text("work", work.name())
                .count("violations", violations)
                .samples("acknowledged", "steps", vec![1; runs])
        };
        let met = |rows: &[Row]| {
            let bars = Kill.bars(rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        let rows = |other, change| {
            [
                row(Work::Append, other, 1),
                row(Work::Move, 0, RUNS - 1),
                row(Work::Change, change, RUNS),
            ]
        };
        assert_eq!(met(&rows(0, 0)), [true; 4]);
        assert_eq!(met(&rows(1, 0)), [false, true, true, true]);
        assert_eq!(met(&rows(0, 1)), [true, true, false, true]);
        // Runs of other work are none of transactions.
        assert_eq!(met(&rows(0, 0)[..2]), [true, true, false, false]);
        assert_eq!(met(&[row(Work::Append, 0, 3)])[..2], [true, false]);
        assert_eq!(met(&[]), [false; 4]);
    }
}
