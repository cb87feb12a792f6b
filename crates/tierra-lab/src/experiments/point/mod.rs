//! `SELECT *` by key: how long does one row of 10, 100 and 1,000 columns take, end to end through SQL, and what takes the
//! time?
//!
//! The table is the interleaving paper's: INTEGER columns with unique values. It is measured as Tierra stores it by default, and
//! with a dictionary per column as in the paper, where every cell costs two cache misses. The statement is prepared once. A time
//! is that of a sequence of EXECUTEs with different keys, including parsing and building the rows, or of as many calls of the
//! library, which take the key as a value and return an Arrow batch.
//!
//! DuckDB has an index on the same key (PRIMARY KEY), and is called as a library as well: through its C interface, prepared and
//! with the key in the text, until the row's Arrow arrays are complete. These calls come from Python; what that adds is
//! measured by as many calls that do nothing, and shown apart. DataFusion's table in memory has no index: it is scanned.
//!
//! The same rows are also reconstructed by the engine, and their cells alone are looked up, so that
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
use crate::peers::Peer;
use crate::peers::duckdb::Library;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};

const COLUMNS: [u32; 3] = [10, 100, 1_000];
/// The column count of the bars.
const WIDEST: u32 = 1_000;

/// The experiment.
pub(super) struct Point;

impl Experiment for Point {
    fn name(&self) -> &'static str {
        "point"
    }

    fn about(&self) -> &'static str {
        "how long does SELECT * by key take on 10, 100 and 1,000 columns, and where does the time go?"
    }

    fn peers(&self) -> &'static [Peer] {
        &[Library::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let rounds = lab.size(3, 15);
        let bar = progress::bar("tables", 2 * COLUMNS.len());
        let mut rows = Vec::new();
        let version = Library::start().map(|duckdb| duckdb.version().to_owned());
        if version.is_none() {
            println!("DuckDB is not measured: Python has no module `duckdb`.");
        }
        for columns in COLUMNS {
            let wide = Wide::new(lab.size(10_000, 100_000), columns);
            for layout in [Layout::Default, Layout::Dictionary] {
                bar.set_message(layout.of(&format!("{columns} columns")));
                rows.extend(Bench::new(lab, wide, layout)?.measure(lab, rounds)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("table_rows", lab.size(10_000, 100_000))
            .count("rounds", rounds as u64)
            .text("datafusion", datafusion::DATAFUSION_VERSION)
            .text("duckdb", version.as_deref().unwrap_or("absent"));
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let per_key = |who: Who| per_key_ns(rows, (WIDEST, Layout::Default), who);
        let ours = per_key(Who::Sql(Execution::Interleaved));
        let theirs = per_key(Who::DataFusion).zip(per_key(Who::DataFusionPrepared));
        let speedup = theirs
            .zip(ours)
            .map(|((planned, prepared), ours)| planned.min(prepared) / ours);
        // What Python's calls add is not DuckDB's.
        let duckdb = per_key(Who::DuckDb)
            .zip(per_key(Who::DuckDbPrepared))
            .zip(per_key(Who::DuckDbCalls))
            .map(|((planned, prepared), calls)| planned.min(prepared) - calls);
        let library = per_key(Who::Library(Execution::Interleaved));
        let outside = ours.zip(per_key(Who::Reconstruct(Execution::Interleaved)));
        vec![
            Bar::at_least(
                "point: SELECT * by key on 1,000 columns, an index, times faster than DataFusion's in-memory table, a scan",
                20.0,
                speedup,
            ),
            Bar::at_least(
                "point: SELECT * by key on 1,000 columns, as a library, times faster than DuckDB with PRIMARY KEY, the better of prepared and planned",
                100.0,
                duckdb.zip(library).map(|(theirs, ours)| theirs / ours),
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
                .text("columns", columns.to_string())
                .text(
                    "comparison",
                    "SAP HANA prototype, dictionaries (paper, section 4.3)",
                )
                .number("plain_over_interleaved", ratio)
        };
        vec![gap(10, 1.06), gap(1_000, 2.5)]
    }
}

const fn time(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "columns",
        series,
        value: "time_ns",
        per: Some("keys"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 7] = [
    time("time of SELECT * by key, one key at a time", "what"),
    time(
        "time of SELECT * by key, one key at a time, on dictionaries",
        "what, dictionaries",
    ),
    time("time of its parts alone, one key at a time", "alone"),
    time(
        "time of its parts alone, one key at a time, on dictionaries",
        "alone, dictionaries",
    ),
    View {
        title: "where the time of one key goes",
        category: "columns",
        series: "part",
        value: "part_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    time("time of a key, many keys at once", "many"),
    View {
        title: "what interleaving gains one key at a time, end to end: plain over interleaved",
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
    /// The name of something that has it.
    fn of(self, name: &str) -> String {
        match self {
            Layout::Default => name.to_owned(),
            Layout::Dictionary => format!("{name}, dictionaries"),
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
    /// A call of Tierra's library with the key as a value.
    Library(Execution),
    /// The engine's reconstruct, for rows already found.
    Reconstruct(Execution),
    /// The row's cells, looked up and dropped.
    Cells(Execution),
    /// A SELECT with the key in its text.
    DataFusion,
    /// EXECUTE in a DataFusion session.
    DataFusionPrepared,
    /// A call of DuckDB's library with the key in the statement's text.
    DuckDb,
    /// Calls of DuckDB's library that bind the key and execute the prepared statement.
    DuckDbPrepared,
    /// As many calls that do nothing.
    DuckDbCalls,
    /// Many keys in one call of a prepared statement.
    Many(Execution),
}

impl Who {
    fn name(self) -> String {
        match self {
            Who::Sql(execution) => format!("Tierra, EXECUTE, {execution}"),
            Who::Library(execution) => format!("Tierra, library, {execution}"),
            Who::Reconstruct(execution) => format!("reconstruct alone, {execution}"),
            Who::Cells(execution) => format!("cells alone, {execution}"),
            Who::DataFusion => "DataFusion, a scan".to_owned(),
            Who::DataFusionPrepared => "DataFusion, a scan, EXECUTE".to_owned(),
            Who::DuckDb => "DuckDB, library, primary key".to_owned(),
            Who::DuckDbPrepared => "DuckDB, library, primary key, prepared".to_owned(),
            Who::DuckDbCalls => "calling DuckDB from Python, without its work".to_owned(),
            Who::Many(execution) => format!("Tierra, {execution}, many keys"),
        }
    }

    /// The key of its name in a row: whole statements, parts of them, and many keys at once are different figures.
    fn series(self) -> &'static str {
        match self {
            Who::Many(_) => "many",
            Who::Reconstruct(_) | Who::Cells(_) | Who::DuckDbCalls => "alone",
            _ => "what",
        }
    }
}

/// The cells that name a contender's row.
fn identity((columns, layout): (u32, Layout), who: Who) -> [(String, String); 2] {
    let (key, name) = match who {
        Who::Many(_) => (who.series().to_owned(), layout.of(&who.name())),
        _ => (layout.of(who.series()), who.name()),
    };
    [("columns".to_owned(), columns.to_string()), (key, name)]
}

/// The median time for one key.
fn per_key_ns(rows: &[Row], table: (u32, Layout), who: Who) -> Option<f64> {
    let identity = identity(table, who);
    let identity = identity
        .each_ref()
        .map(|(key, text)| (key.as_str(), text.as_str()));
    let row = find(rows, &identity)?;
    Some(row.value("time_ns")? / row.value("keys")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sql_us: u64, reconstruct_us: u64) -> Vec<Row> {
        let row = |who: Who, keys: u64, us: u64| {
            let [(columns, count), (key, name)] = identity((WIDEST, Layout::Default), who);
            let row = Row::new().text(&columns, count).text(&key, name);
            row.count("keys", keys)
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
            row(Who::Library(Execution::Interleaved), 100, sql_us / 2),
            row(Who::DuckDb, 100, 9_000),
            row(Who::DuckDbPrepared, 100, 5_003),
            row(Who::DuckDbCalls, 100, 3),
        ]
    }

    #[test]
    fn bars_are_on_the_better_of_theirs_and_on_what_is_outside() {
        let bars = Point.bars(&rows(100, 60));
        let measured: Vec<Option<f64>> = bars.iter().map(|bar| bar.measured).collect();
        assert_eq!(measured, [Some(20.0), Some(100.0), Some(40.0)]);
        assert!(bars.iter().all(|bar| bar.met));
        let bars = Point.bars(&rows(120, 60));
        assert!(bars.iter().all(|bar| !bar.met));
        assert!(Point.bars(&rows(100, 60)[..3]).iter().any(|bar| !bar.met));
        let of_dictionaries = (WIDEST, Layout::Dictionary);
        let sql = Who::Sql(Execution::Interleaved);
        assert_eq!(per_key_ns(&rows(100, 60), of_dictionaries, sql), None);
    }
}
