//! Figure 4 of the interleaving paper: `SELECT *` by key from tables of 10, 100 and 1,000 INTEGER columns
//! whose values are all different, so that every cell misses its code and its dictionary entry.

use super::reconstruction::{
    AUTO, Bench, FAR_GAIN, INTERLEAVED_FAR, NEAR_OVER_FAR, Shape, VIEWS, What, over_description,
    per_row_ns, ratio, ratio_row,
};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::memory::Memory;
use crate::results::Tier;
use crate::row::Row;
use crate::view::View;

const COLUMNS: [u32; 3] = [10, 100, 1_000];
/// The column count that the bars are about.
const WIDEST: u32 = 1_000;

/// The experiment.
pub(super) struct Fig4;

impl Experiment for Fig4 {
    fn name(&self) -> &'static str {
        "fig4"
    }

    fn about(&self) -> &'static str {
        "how long does SELECT * by key take on 10 to 1,000 INTEGER columns with dictionaries, near and far?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let (table_rows, rounds) = (lab.size(10_000, 1_000_000), lab.size(2, 25));
        let mut rows = Vec::new();
        for columns in COLUMNS {
            let shape = Shape::integers(table_rows, columns);
            rows.extend(Bench::new(lab, &table(columns), shape)?.measure(lab, rounds)?);
        }
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .count("table_rows", table_rows.into())
                .count("rounds", rounds as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let (table, near) = (table(WIDEST), Memory::Near);
        let (reconstruction, statement) = (What::Reconstruction(AUTO), What::Statement(AUTO));
        vec![
            Bar::at_most(
                "fig4: reconstructing 1,000 INTEGER columns over its replay, near",
                1.6,
                ratio(rows, &table, (near, reconstruction), (near, What::Replay)),
            ),
            Bar::at_most(
                "fig4: gathering the values of 1,000 INTEGER columns over its replay, near",
                1.6,
                ratio(
                    rows,
                    &table,
                    (near, What::Gathering(AUTO)),
                    (near, What::Replay),
                ),
            ),
            Bar::at_most(
                "fig4: reconstructing 1,000 INTEGER columns, interleaved, emulated optane, over lines x latency / misses in flight",
                1.3,
                over_description(rows, &table),
            ),
            Bar::at_most(
                "fig4: SELECT * by key on 1,000 INTEGER columns, prepared, near, ms",
                0.5,
                per_row_ns(rows, &table, near, statement).map(|ns| ns / 1e6),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 4.3: "the runtime gap between Original and Coro widen[s] from 6% to 150%", as the columns
        // become more; "for Coro, the gap" of the two memories "is 1%-8%"; "for 1000 columns, Coro on NVM
        // is 30% faster than Original on DRAM".
        let stated =
            |columns, of: &str, ratio| ratio_row(&table(columns), &format!("{of} (paper)"), ratio);
        vec![
            stated(10, FAR_GAIN, 1.06),
            stated(1_000, FAR_GAIN, 2.5),
            stated(10, INTERLEAVED_FAR, 1.01),
            stated(1_000, INTERLEAVED_FAR, 1.08),
            stated(1_000, NEAR_OVER_FAR, 1.3),
        ]
    }
}

fn table(columns: u32) -> String {
    format!("{columns} columns")
}

#[cfg(test)]
mod tests {
    use super::super::reconstruction::tests::{described, rows};
    use super::*;

    #[test]
    fn bars_are_about_the_widest_table_near_and_as_the_gate_chooses() {
        let with = |table: &str, reconstruction| {
            let mut rows = rows(table, |memory, what| match (memory, what) {
                (Memory::Near, What::Reconstruction(AUTO)) => reconstruction,
                (Memory::Optane, What::Reconstruction(_)) => 60_000,
                (Memory::Near, What::Gathering(AUTO)) => 15_000,
                (Memory::Near, What::Replay) => 10_000,
                (Memory::Near, What::Statement(AUTO)) => 500_000,
                _ => 9_999_999,
            });
            rows.push(described(table, 2_000.0));
            rows
        };
        let bars = Fig4.bars(&with("1000 columns", 16_000));
        assert_eq!(
            [0, 1, 2, 3].map(|bar| bars[bar].measured),
            [Some(1.6), Some(1.5), Some(1.0), Some(0.5)]
        );
        assert!(bars.iter().all(|bar| bar.met));
        assert!(!Fig4.bars(&with("1000 columns", 17_000))[0].met);
        assert!(
            Fig4.bars(&with("100 columns", 1))
                .iter()
                .all(|bar| !bar.met)
        );
    }
}
