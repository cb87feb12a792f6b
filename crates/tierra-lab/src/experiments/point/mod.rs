//! `SELECT *` by key: how long does one row of 10, 100 and 1,000 columns take, end to end through SQL, and what takes the
//! time?
//!
//! The table is the interleaving paper's: INTEGER columns with unique values. It is measured as Tierra stores it by default, and
//! with a dictionary per column as in the paper, where every cell costs two cache misses. The statement is prepared once. A time
//! is that of a sequence of EXECUTEs with different keys, including parsing and building the rows. The same rows are also
//! reconstructed by the engine, and their cells alone are looked up, so that
//!
//! ```text
//! end to end = looking up the cells + building the result + the rest
//!              `-------- the engine's reconstruct -------'
//! ```

mod bench;

use tierra_data::wide::Wide;
use tierra_interleave::Execution;

use self::bench::Bench;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};

const COLUMNS: [u32; 3] = [10, 100, 1_000];
/// The column count of the bars.
const WIDEST: &str = "1000";

/// The experiment.
pub(super) struct Point;

impl Experiment for Point {
    fn name(&self) -> &'static str {
        "point"
    }

    fn about(&self) -> &'static str {
        "how long does SELECT * by key take on 10, 100 and 1,000 columns, and where does the time go?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let rounds = lab.size(3, 15);
        let bar = progress::bar("tables", 2 * COLUMNS.len());
        let mut rows = Vec::new();
        for columns in COLUMNS {
            let wide = Wide::new(lab.size(10_000, 100_000), columns);
            for layout in [Layout::Default, Layout::Dictionary] {
                bar.set_message(layout.table(columns));
                rows.extend(Bench::new(lab, wide, layout)?.measure(lab, rounds)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("table_rows", lab.size(10_000, 100_000))
            .count("rounds", rounds as u64)
            .text("datafusion", datafusion::DATAFUSION_VERSION);
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let per_key = |who: Who| per_key_ns(rows, WIDEST, who);
        let ours = per_key(Who::Sql(Execution::Interleaved));
        let theirs = per_key(Who::DataFusion).zip(per_key(Who::DataFusionPrepared));
        let speedup = theirs
            .zip(ours)
            .map(|((planned, prepared), ours)| planned.min(prepared) / ours);
        let outside = ours.zip(per_key(Who::Reconstruct(Execution::Interleaved)));
        vec![
            Bar::at_least(
                "point: SELECT * by key on 1,000 columns, times faster than DataFusion's in-memory table",
                20.0,
                speedup,
            ),
            Bar::at_most(
                "point: the same, us outside reconstruction and building the result",
                50.0,
                outside.map(|(all, inside)| (all - inside) / 1e3),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // The paper's columns have dictionaries.
        let gap = |columns: u32, ratio| {
            Row::new()
                .text("columns", Layout::Dictionary.table(columns))
                .text("comparison", "SAP HANA prototype (paper, section 4.3)")
                .number("plain_over_interleaved", ratio)
        };
        vec![gap(10, 1.06), gap(1_000, 2.5)]
    }
}

const VIEWS: [View; 4] = [
    View {
        title: "SELECT * by key, one key at a time, per key",
        category: "columns",
        series: "what",
        value: "time_ns",
        per: Some("keys"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "where the time of one key goes",
        category: "columns",
        series: "part",
        value: "part_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "many keys at once, per key",
        category: "columns",
        series: "many",
        value: "time_ns",
        per: Some("keys"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "plain over interleaved, one key at a time, end to end",
        category: "columns",
        series: "comparison",
        value: "plain_over_interleaved",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
];

/// How the table is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// As Tierra chooses; values are as dense as unique ones can be.
    Default,
    /// A dictionary per column; values spread over 31 bits.
    Dictionary,
}

impl Layout {
    fn table(self, columns: u32) -> String {
        match self {
            Layout::Default => columns.to_string(),
            Layout::Dictionary => format!("{columns}, dictionaries"),
        }
    }

    fn shape(self, wide: Wide) -> Wide {
        match self {
            Layout::Default => wide,
            Layout::Dictionary => wide.with_value_bits(31),
        }
    }
}

/// The contenders that read a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// EXECUTE in a Tierra session.
    Sql(Execution),
    /// The engine's reconstruct, for rows already found.
    Reconstruct(Execution),
    /// The row's cells, looked up and dropped.
    Cells(Execution),
    /// A SELECT with the key in its text.
    DataFusion,
    /// EXECUTE in a DataFusion session.
    DataFusionPrepared,
    /// Many keys in one call of a prepared statement.
    Many(Execution),
}

impl Who {
    fn name(self) -> String {
        match self {
            Who::Sql(execution) => format!("Tierra, {execution}"),
            Who::Reconstruct(execution) => format!("reconstruct alone, {execution}"),
            Who::Cells(execution) => format!("cells alone, {execution}"),
            Who::DataFusion => "DataFusion".to_owned(),
            Who::DataFusionPrepared => "DataFusion, prepared".to_owned(),
            Who::Many(execution) => format!("Tierra, {execution}, many keys"),
        }
    }

    /// The key of its name in a row: one key at a time and many keys are different figures.
    fn series(self) -> &'static str {
        match self {
            Who::Many(_) => "many",
            _ => "what",
        }
    }
}

/// The median time for one key.
fn per_key_ns(rows: &[Row], columns: &str, who: Who) -> Option<f64> {
    let row = find(rows, &[("columns", columns), (who.series(), &who.name())])?;
    Some(row.value("time_ns")? / row.value("keys")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sql_us: u64, reconstruct_us: u64) -> Vec<Row> {
        let row = |who: Who, keys: u64, us: u64| {
            Row::new()
                .text("columns", WIDEST)
                .text("what", who.name())
                .count("keys", keys)
                .samples("time", "ns", vec![us * 1_000 * keys])
        };
        vec![
            row(Who::Sql(Execution::Interleaved), 100, sql_us),
            row(
                Who::Reconstruct(Execution::Interleaved),
                100,
                reconstruct_us,
            ),
            row(Who::DataFusion, 1, 80_000),
            row(Who::DataFusionPrepared, 1, 2_000),
        ]
    }

    #[test]
    fn bars_are_on_the_better_of_theirs_and_on_what_is_outside() {
        let bars = Point.bars(&rows(100, 60));
        assert_eq!(
            (bars[0].measured, bars[1].measured),
            (Some(20.0), Some(40.0))
        );
        assert!(bars[0].met && bars[1].met);
        let bars = Point.bars(&rows(120, 60));
        assert!(!bars[0].met && !bars[1].met);
        assert!(Point.bars(&rows(100, 60)[..3]).iter().any(|bar| !bar.met));
    }
}
