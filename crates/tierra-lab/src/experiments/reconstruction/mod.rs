//! `SELECT *` by key on columns with dictionaries: the common part of figures 4 and 5 of the interleaving paper.
//!
//! A cell costs two misses, its code and its value (a string's bytes are a third). Four things are measured, each plain,
//! interleaved and as the table's gate chooses:
//!
//! * the *statement*: EXECUTE of a prepared SELECT with another key each time, its text parsed, the row
//!   found and built;
//! * the *reconstruction*: the engine's part of it, in which rows already found are built as batches;
//! * the *values* alone: the same before arrays are made, each with an allocation of its own;
//! * its *replay*: the lines that the reconstruction loads, as independent loads. That is the lower limit for reading
//!   those lines.
//!
//! Far memory is emulated Optane that holds everything, as in the paper, which places one table at a time. Only fixed modes run
//! there: a gate that saw both memories in turn would learn about neither.

mod bench;
mod shape;

use tierra_interleave::{Execution, Scheduling};

pub(super) use self::bench::Bench;
pub(super) use self::shape::Shape;
use crate::memory::Memory;
use crate::row::{Row, find};
use crate::view::{Unit, View};

/// What is measured in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// EXECUTE in a session.
    Statement(Scheduling),
    /// The engine's reconstruct, for rows already found.
    Reconstruction(Scheduling),
    /// The engine's gather: the same without making arrays.
    Gathering(Scheduling),
    /// The lines that the reconstruction of such rows asks for.
    Replay,
}

/// The keys of what is reconstructed near and far.
const NEAR: &str = "reconstruction, near";
const FAR: &str = "reconstruction, far";

/// As the table's gate chooses.
pub(super) const AUTO: Scheduling = Scheduling::Auto;
/// One load after the other.
pub(super) const PLAIN: Scheduling = Scheduling::Fixed(Execution::Plain);
/// All columns of a row at a time.
pub(super) const INTERLEAVED: Scheduling = Scheduling::Fixed(Execution::Interleaved);

impl What {
    /// The contenders of each turn, near memory and emulated; those of the lower bound run alone.
    fn turns() -> [Vec<(Memory, What)>; 2] {
        let all = |scheduling| {
            [
                What::Statement(scheduling),
                What::Reconstruction(scheduling),
                What::Gathering(scheduling),
            ]
        };
        let at = |memory, schedulings: &[Scheduling]| {
            let whats = schedulings.iter().copied().flat_map(all);
            whats.map(move |what| (memory, what)).collect::<Vec<_>>()
        };
        let mut all = at(Memory::Near, &[PLAIN, INTERLEAVED, AUTO]);
        all.extend(at(Memory::Optane, &[PLAIN, INTERLEAVED]));
        all.extend([Memory::Near, Memory::Optane].map(|memory| (memory, What::Replay)));
        [all, at(Memory::OptaneOverlapping, &[PLAIN])]
    }

    /// The key under which a view finds the row.
    fn series(self, memory: Memory) -> &'static str {
        match (self, memory) {
            (What::Statement(_), _) => "statement",
            (_, Memory::Near) => NEAR,
            (_, Memory::Optane | Memory::OptaneOverlapping) => FAR,
        }
    }

    fn name(self, memory: Memory) -> String {
        let how = match self {
            What::Statement(scheduling)
            | What::Reconstruction(scheduling)
            | What::Gathering(scheduling) => scheduling.name(),
            What::Replay => "replay",
        };
        let part = match self {
            What::Gathering(_) => "values alone, ",
            _ => "",
        };
        let bound = match (self, memory) {
            (What::Replay, _) => "",
            (_, Memory::Optane) if how == PLAIN.name() => ", upper bound",
            _ => "",
        };
        format!("{part}{how}, {}{bound}", memory.name())
    }
}

/// The median time of one row.
pub(super) fn per_row_ns(rows: &[Row], table: &str, memory: Memory, what: What) -> Option<f64> {
    let row = find(
        rows,
        &[("table", table), (what.series(memory), &what.name(memory))],
    )?;
    Some(row.value("time_ns")? / row.value("rows")?)
}

/// The ratio of the two times.
pub(super) fn ratio(
    rows: &[Row],
    table: &str,
    one: (Memory, What),
    other: (Memory, What),
) -> Option<f64> {
    let of = |(memory, what)| per_row_ns(rows, table, memory, what);
    Some(of(one)? / of(other)?)
}

/// The far, interleaved reconstruction of a row over the least that its lines take by the memory's description.
pub(super) fn over_description(rows: &[Row], table: &str) -> Option<f64> {
    let is_described =
        |row: &&Row| row.is(&[("table", table)]) && row.get("lines_per_row").is_some();
    let lines = rows.iter().find(is_described)?.value("lines_per_row")?;
    let took = per_row_ns(
        rows,
        table,
        Memory::Optane,
        What::Reconstruction(INTERLEAVED),
    )?;
    Some(took / Memory::optane_wait_ns(lines))
}

/// Far over near, plain.
pub(super) const PLAIN_FAR: &str = "plain, far over near";
/// Far over near, interleaved.
pub(super) const INTERLEAVED_FAR: &str = "interleaved, far over near";
/// Plain over interleaved, far.
pub(super) const FAR_GAIN: &str = "far, plain over interleaved";
/// The combined effect of both.
pub(super) const NEAR_OVER_FAR: &str = "plain near over interleaved far";

/// A ratio that a view shows.
pub(super) fn ratio_row(table: &str, of: &str, ratio: f64) -> Row {
    Row::new()
        .text("table", table)
        .text("ratio_of", of)
        .number("ratio", ratio)
}

/// The paper's ratios, computed from our statements; the plain far ones are the upper bound.
pub(super) fn ratios(rows: &[Row], table: &str) -> Vec<Row> {
    let statement = What::Statement;
    let (near, far) = (Memory::Near, Memory::Optane);
    let all = [
        (PLAIN_FAR, (far, PLAIN), (near, PLAIN)),
        (INTERLEAVED_FAR, (far, INTERLEAVED), (near, INTERLEAVED)),
        (
            "near, plain over interleaved",
            (near, PLAIN),
            (near, INTERLEAVED),
        ),
        (FAR_GAIN, (far, PLAIN), (far, INTERLEAVED)),
        (NEAR_OVER_FAR, (near, PLAIN), (far, INTERLEAVED)),
    ];
    all.into_iter()
        .filter_map(|(of, (here, one), (there, other))| {
            let ratio = ratio(
                rows,
                table,
                (here, statement(one)),
                (there, statement(other)),
            )?;
            Some(ratio_row(table, of, ratio))
        })
        .collect()
}

const fn time(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "table",
        series,
        value: "time_ns",
        per: Some("rows"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

/// Times, and ratios beside the paper's.
pub(super) const VIEWS: [View; 4] = [
    time("time of SELECT * by key, prepared", "statement"),
    time(
        "time of building the row alone, near, and of its lines as bare loads",
        NEAR,
    ),
    time(
        "time of building the row alone, far, and of its lines as bare loads",
        FAR,
    ),
    View {
        title: "what far memory costs the statement, and what hiding it gains: ratios of times",
        category: "table",
        series: "ratio_of",
        value: "ratio",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
];

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row per contender; `ns` gives the time of one row.
    pub(in crate::experiments) fn rows(table: &str, ns: impl Fn(Memory, What) -> u64) -> Vec<Row> {
        let row = |(memory, what): (Memory, What)| {
            Row::new()
                .text("table", table)
                .text(what.series(memory), what.name(memory))
                .count("rows", 10)
                .samples("time", "ns", vec![ns(memory, what) * 10])
        };
        What::turns().into_iter().flatten().map(row).collect()
    }

    /// The row that describes a table.
    pub(in crate::experiments) fn described(table: &str, lines: f64) -> Row {
        let row = Row::new().text("table", table);
        row.number("lines_per_row", lines)
    }

    #[test]
    fn the_description_says_how_long_lines_take() {
        // 300 ns each, ten at a time.
        let mut rows = rows("t", |_, _| 3_900);
        assert_eq!(over_description(&rows, "t"), None);
        rows.push(described("t", 100.0));
        assert_eq!(over_description(&rows, "t"), Some(1.3));
        assert_eq!(over_description(&rows, "another"), None);
    }

    #[test]
    fn every_contender_has_a_name_of_its_own() {
        let rows = rows("t", |_, _| 1);
        let shown = |series| crate::row::distinct(&rows, series);
        let count = |series| shown(series).len();
        assert_eq!((count("statement"), count(NEAR), count(FAR)), (6, 7, 7));
    }

    #[test]
    fn ratios_are_of_statements() {
        let rows = rows("t", |memory, what| match (memory, what) {
            (Memory::Near, What::Statement(PLAIN)) => 20,
            (Memory::Optane, What::Statement(PLAIN)) => 50,
            (Memory::Optane, What::Statement(INTERLEAVED)) => 25,
            (_, What::Statement(_)) => 10,
            _ => 7,
        });
        let ratios = ratios(&rows, "t");
        let of =
            |name: &str| find(&ratios, &[("ratio_of", name)]).and_then(|row| row.value("ratio"));
        assert_eq!(of(PLAIN_FAR), Some(2.5));
        assert_eq!(of(INTERLEAVED_FAR), Some(2.5));
        assert_eq!(of(FAR_GAIN), Some(2.0));
        assert_eq!(of(NEAR_OVER_FAR), Some(0.8));
    }
}
