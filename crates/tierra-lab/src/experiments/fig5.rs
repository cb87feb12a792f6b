//! Figure 5 of the interleaving paper: `SELECT *` by key from a table of 1,000 columns, a third each of
//! INTEGER, DECIMAL(10, 2) and VARCHAR(50).
//!
//! Numbers are all different. A VARCHAR column has 100,000 different strings, because a million in each of 333 columns would
//! not fit in memory. The paper varies the processor's frequency, which few machines allow; both its figures are given.

use super::reconstruction::{
    Bench, INTERLEAVED, INTERLEAVED_FAR, PLAIN, PLAIN_FAR, Shape, VIEWS, What, over_description,
    ratio, ratio_row,
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
        // Far, no bar on the gain over plain execution: it depends on how much of a lookup is computing, and so on the processor.
        let (near, what) = (Memory::Near, What::Reconstruction);
        vec![
            Bar::at_least(
                "fig5: reconstructing the mixed table, plain over interleaved, near",
                1.3,
                ratio(rows, TABLE, (near, what(PLAIN)), (near, what(INTERLEAVED))),
            ),
            Bar::at_most(
                "fig5: reconstructing the mixed table, interleaved, emulated optane, over lines x latency / misses in flight",
                1.3,
                over_description(rows, TABLE),
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
    use super::super::reconstruction::tests::{described, rows};
    use super::*;

    #[test]
    fn bars_are_on_reconstruction_near_and_far() {
        let with = |near, far| {
            let mut rows = rows(TABLE, |memory, what| match (memory, what) {
                (Memory::Near, What::Reconstruction(PLAIN)) => near,
                (Memory::Near, What::Reconstruction(INTERLEAVED)) => 100,
                (Memory::Optane, What::Reconstruction(INTERLEAVED)) => far,
                _ => 1,
            });
            rows.push(described(TABLE, 100.0));
            rows
        };
        assert!(Fig5.bars(&with(130, 3_900)).iter().all(|bar| bar.met));
        assert!(Fig5.bars(&with(129, 3_901)).iter().all(|bar| !bar.met));
        assert!(Fig5.bars(&[]).iter().all(|bar| bar.measured.is_none()));
    }
}
