//! Figure 5 of the interleaving paper: `SELECT *` by key from a table of 1,000 columns, a third each of
//! INTEGER, DECIMAL(10, 2) and VARCHAR(50).
//!
//! Numbers are all different. A VARCHAR column has 100,000 different strings, because a million in each of 333 columns would
//! not fit in memory. The paper varies the processor's frequency, which few machines allow; both its figures are given.

use super::reconstruction::{
    Bench, INTERLEAVED, INTERLEAVED_FAR, PLAIN, PLAIN_FAR, Shape, VIEWS, What, ratio, ratio_row,
};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::memory::Memory;
use crate::results::Tier;
use crate::row::Row;
use crate::view::View;

const TABLE: &str = "1000 columns, mixed";
const COLUMNS: u32 = 1_000;

/// The experiment.
pub(super) struct Fig5;

impl Experiment for Fig5 {
    fn name(&self) -> &'static str {
        "fig5"
    }

    fn about(&self) -> &'static str {
        "how long does SELECT * by key take on 1,000 INTEGER, DECIMAL and VARCHAR columns, near and far?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let (table_rows, rounds) = (lab.size(10_000, 1_000_000), lab.size(2, 25));
        let shape = Shape::mixed(table_rows, COLUMNS);
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .count("table_rows", table_rows.into())
                .count("rounds", rounds as u64),
            rows: Bench::new(lab, TABLE, shape)?.measure(lab, rounds)?,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        // No bar on the lower bound: there a plain load waits only for the one nine loads before it, so it has ten in flight, no
        // fewer than interleaving.
        let gain = |memory| {
            let what = What::Reconstruction;
            ratio(
                rows,
                TABLE,
                (memory, what(PLAIN)),
                (memory, what(INTERLEAVED)),
            )
        };
        vec![
            Bar::at_least(
                "fig5: reconstructing the mixed table, plain over interleaved, near",
                1.3,
                gain(Memory::Near),
            ),
            Bar::at_least(
                "fig5: reconstructing the mixed table, plain (upper bound) over interleaved, emulated optane",
                2.0,
                gain(Memory::Optane),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 4.3: "interleaved execution reduce[s] the performance gap from 123% to 37% for Turbo On",
        // "for Turbo Off, we see the gap reduce[] from 106% to 7%".
        let stated = |of: &str, turbo: &str, ratio| {
            ratio_row(TABLE, &format!("{of} (paper, turbo {turbo})"), ratio)
        };
        vec![
            stated(PLAIN_FAR, "on", 2.23),
            stated(INTERLEAVED_FAR, "on", 1.37),
            stated(PLAIN_FAR, "off", 2.06),
            stated(INTERLEAVED_FAR, "off", 1.07),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::reconstruction::tests::rows;
    use super::*;

    #[test]
    fn bars_are_on_reconstruction_near_and_far() {
        let with = |near, far| {
            rows(TABLE, |memory, what| match (memory, what) {
                (Memory::Near, What::Reconstruction(PLAIN)) => near,
                (Memory::Optane, What::Reconstruction(PLAIN)) => far,
                (_, What::Reconstruction(INTERLEAVED)) => 100,
                _ => 1,
            })
        };
        assert!(Fig5.bars(&with(130, 200)).iter().all(|bar| bar.met));
        assert!(Fig5.bars(&with(129, 199)).iter().all(|bar| !bar.met));
        assert!(Fig5.bars(&[]).iter().all(|bar| bar.measured.is_none()));
    }
}
