//! Figure 3 of the interleaving paper: `SELECT COUNT(*) FROM tbl WHERE col IN (10,000 values)` over
//! 100 million rows, an INTEGER or a VARCHAR(15) column, near and far.
//!
//! No number occurs twice and no string three times, so the dictionary is nearly as large as possible. The values of a list
//! are drawn from the column; they are one array once the statement is prepared.
//! Measured are
//!
//! * the *lookup*, value to code: the paper's Original is plain binary search, and its Coro the same search interleaved. The
//!   product uses a search tree, descended in batches. The tree run plain shows what the tree itself gains;
//! * the *phase*: the same within the statement, where the list is sorted and becomes a filter on codes;
//! * the *statement*: EXECUTE, planning included, by scanning the codes, and on a second table that has
//!   an inverted index.
//!
//! Plain execution of a statement also searches the index plainly. So the time of the statement with only its lookup as a plain
//! binary search is computed from measured parts: the statement without its phase, plus the plain phase.
//!
//! Far memory is emulated Optane that also holds the dictionary, as in the paper, which places the whole table.

mod bench;
mod column;
mod sorted;

use tierra_engine::IndexKind;
use tierra_interleave::Execution;

use self::bench::Bench;
use self::column::{Column, Kind};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::memory::Memory;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};

/// Values of a list, as in the paper.
const LIST: usize = 10_000;
const KINDS: [Kind; 2] = [Kind::Integer, Kind::Varchar];
const INDEXES: [Option<IndexKind>; 2] = [None, Some(IndexKind::Inverted)];

/// What is measured in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The codes of a list's values, as drawn.
    Codes {
        /// By the tree, or by halving.
        by_tree: bool,
        execution: Execution,
    },
    /// The lookup as it is done within a statement.
    Phase(Execution),
    /// EXECUTE in a session with this mode.
    Statement(Execution),
}

impl What {
    /// The paper's Original, which is also the product's plain lookup.
    const HALVING_PLAIN: What = What::Codes {
        by_tree: false,
        execution: Execution::Plain,
    };
    /// The paper's Coro.
    const HALVING_INTERLEAVED: What = What::Codes {
        by_tree: false,
        execution: Execution::Interleaved,
    };
    const TREE_PLAIN: What = What::Codes {
        by_tree: true,
        execution: Execution::Plain,
    };
    /// What the product runs interleaved.
    const TREE_INTERLEAVED: What = What::Codes {
        by_tree: true,
        execution: Execution::Interleaved,
    };

    /// The contenders of each turn, near memory and emulated; those of the lower bound run alone.
    fn turns(index: Option<IndexKind>) -> Vec<Vec<(Memory, What)>> {
        const STATEMENTS: [What; 4] = [
            What::Phase(Execution::Plain),
            What::Phase(Execution::Interleaved),
            What::Statement(Execution::Plain),
            What::Statement(Execution::Interleaved),
        ];
        const LOOK_UPS: [What; 4] = [
            What::HALVING_PLAIN,
            What::HALVING_INTERLEAVED,
            What::TREE_PLAIN,
            What::TREE_INTERLEAVED,
        ];
        const BOUNDS: [What; 3] = [
            What::HALVING_PLAIN,
            What::TREE_PLAIN,
            What::Statement(Execution::Plain),
        ];
        let memories = [Memory::Near, Memory::Optane];
        let on_both = |whats: &[What]| -> Vec<(Memory, What)> {
            let on = |memory| whats.iter().map(move |&what| (memory, what));
            memories.into_iter().flat_map(on).collect()
        };
        match index {
            Some(_) => vec![on_both(&STATEMENTS)],
            None => vec![
                on_both(&[LOOK_UPS, STATEMENTS].concat()),
                BOUNDS
                    .map(|what| (Memory::OptaneOverlapping, what))
                    .to_vec(),
            ],
        }
    }

    fn execution(self) -> Execution {
        match self {
            What::Codes { execution, .. } | What::Phase(execution) | What::Statement(execution) => {
                execution
            }
        }
    }

    /// The key under which a view finds the row.
    fn series(self) -> &'static str {
        match self {
            What::Codes { .. } => "look_up",
            What::Phase(_) => "phase",
            What::Statement(_) => "statement",
        }
    }

    fn name(self, memory: Memory, index: Option<IndexKind>) -> String {
        let how = match self {
            What::Codes { by_tree: true, .. } => "tree, ",
            What::Codes { by_tree: false, .. } => "binary search, ",
            What::Phase(_) | What::Statement(_) => "",
        };
        let bound = match (self.execution(), memory) {
            (Execution::Plain, Memory::Optane) => ", upper bound",
            _ => "",
        };
        let (execution, memory) = (self.execution(), memory.name());
        let index = index.map_or_else(String::new, |index| format!(", {index} index"));
        format!("{how}{execution}, {memory}{bound}{index}")
    }
}

/// The experiment.
pub(super) struct Fig3;

impl Experiment for Fig3 {
    fn name(&self) -> &'static str {
        "fig3"
    }

    fn about(&self) -> &'static str {
        "how long does COUNT(*) WHERE col IN (10,000 values) take over 100 million rows, near and far?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let (table_rows, rounds) = (lab.size(1_000_000, 100_000_000), lab.size(2, 15));
        let mut rows = Vec::new();
        for kind in KINDS {
            let column = Column::new(kind, table_rows, table_rows / kind.rows_per_value());
            for index in INDEXES {
                rows.extend(Bench::new(lab, column, index)?.measure(lab, rounds)?);
            }
        }
        let ratios = ratios(&rows);
        rows.extend(ratios);
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .count("table_rows", table_rows.into())
                .count("rounds", rounds as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let mut bars = Vec::new();
        for kind in KINDS {
            for memory in [Memory::Near, Memory::Optane] {
                let of = |what| time_ns(rows, kind, memory, None, what);
                let gain = of(What::HALVING_PLAIN).zip(of(What::TREE_INTERLEAVED));
                bars.push(Bar::at_least(
                    format!(
                        "fig3: looking up {LIST} values of {} columns, plain binary search over interleaved tree, {}",
                        kind.name(),
                        memory.name()
                    ),
                    10.0,
                    gain.map(|(plain, tree)| plain / tree),
                ));
                bars.push(Bar::at_least(
                    format!(
                        "fig3: COUNT(*) by the inverted index of {} columns, with plain binary search over as it is, {}",
                        kind.name(),
                        memory.name()
                    ),
                    2.0,
                    by_halving_ns(rows, kind, memory)
                        .zip(time_ns(rows, kind, memory, INDEXES[1], INTERLEAVED_STATEMENT))
                        .map(|(by_halving, as_it_is)| by_halving / as_it_is),
                ));
            }
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 4.2: "for the Original implementations and both datatypes, NVM runtime is 2x the DRAM
        // runtime, while coroutines (Coro) reduce the difference to 30%".
        let stated = |kind: Kind, of: &str, ratio| ratio_row(kind, &format!("{of} (paper)"), ratio);
        KINDS
            .iter()
            .flat_map(|&kind| {
                [
                    stated(kind, PLAIN_FAR, 2.0),
                    stated(kind, INTERLEAVED_FAR, 1.3),
                ]
            })
            .collect()
    }
}

const PLAIN_FAR: &str = "statement, plain, far over near";
const INTERLEAVED_FAR: &str = "statement, interleaved, far over near";

fn ratio_row(kind: Kind, of: &str, ratio: f64) -> Row {
    Row::new()
        .text("column", kind.name())
        .text("ratio_of", of)
        .number("ratio", ratio)
}

const INTERLEAVED_STATEMENT: What = What::Statement(Execution::Interleaved);

/// The median time of a list.
fn time_ns(
    rows: &[Row],
    kind: Kind,
    memory: Memory,
    index: Option<IndexKind>,
    what: What,
) -> Option<f64> {
    let name = what.name(memory, index);
    find(rows, &[("column", kind.name()), (what.series(), &name)])?.value("time_ns")
}

/// The interleaved statement on the index, but with the phase of a plain binary search.
fn by_halving_ns(rows: &[Row], kind: Kind, memory: Memory) -> Option<f64> {
    let of = |what| time_ns(rows, kind, memory, INDEXES[1], what);
    let phase = |execution| of(What::Phase(execution));
    Some(of(INTERLEAVED_STATEMENT)? - phase(Execution::Interleaved)? + phase(Execution::Plain)?)
}

/// The paper's ratios, computed from our rows, and the separate gains of the tree and of interleaving.
fn ratios(rows: &[Row]) -> Vec<Row> {
    let (near, far) = (Memory::Near, Memory::Optane);
    let statement = What::Statement;
    let all = [
        (
            PLAIN_FAR,
            (far, statement(Execution::Plain)),
            (near, statement(Execution::Plain)),
        ),
        (
            INTERLEAVED_FAR,
            (far, statement(Execution::Interleaved)),
            (near, statement(Execution::Interleaved)),
        ),
        (
            "look-up near, interleaving alone",
            (near, What::HALVING_PLAIN),
            (near, What::HALVING_INTERLEAVED),
        ),
        (
            "look-up near, the tree alone",
            (near, What::HALVING_PLAIN),
            (near, What::TREE_PLAIN),
        ),
        (
            "look-up near, both",
            (near, What::HALVING_PLAIN),
            (near, What::TREE_INTERLEAVED),
        ),
        (
            "look-up far, both",
            (far, What::HALVING_PLAIN),
            (far, What::TREE_INTERLEAVED),
        ),
    ];
    let of = |kind: Kind| {
        all.into_iter().filter_map(move |(of, one, other)| {
            let ns = |(memory, what)| time_ns(rows, kind, memory, None, what);
            Some(ratio_row(kind, of, ns(one)? / ns(other)?))
        })
    };
    KINDS.into_iter().flat_map(of).collect()
}

const fn view(title: &'static str, series: &'static str, per: Option<&'static str>) -> View {
    View {
        title,
        category: "column",
        series,
        value: "time_ns",
        per,
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 4] = [
    view("time of finding a value's code", "look_up", Some("values")),
    view(
        "time of finding the codes of the whole list, within the statement",
        "phase",
        None,
    ),
    view("time of the whole statement", "statement", None),
    View {
        title: "what far memory costs, and what hiding it gains: ratios of times",
        category: "column",
        series: "ratio_of",
        value: "ratio",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ns: impl Fn(Memory, Option<IndexKind>, What) -> u64) -> Vec<Row> {
        let mut rows = Vec::new();
        for (kind, index) in KINDS
            .into_iter()
            .flat_map(|kind| INDEXES.map(|index| (kind, index)))
        {
            for (memory, what) in What::turns(index).into_iter().flatten() {
                rows.push(
                    Row::new()
                        .text("column", kind.name())
                        .text(what.series(), what.name(memory, index))
                        .samples("time", "ns", vec![ns(memory, index, what)]),
                );
            }
        }
        rows
    }

    #[test]
    fn bars_hold_the_tree_against_plain_binary_search() {
        let with = |far, plain_phase| {
            rows(move |memory, index, what| match (memory, what) {
                (Memory::Near, What::HALVING_PLAIN) => 1_000,
                (Memory::Optane, What::HALVING_PLAIN) => far,
                (_, What::TREE_INTERLEAVED) => 100,
                // 250 without its phase.
                (_, INTERLEAVED_STATEMENT) if index.is_some() => 300,
                (_, What::Phase(Execution::Interleaved)) if index.is_some() => 50,
                (_, What::Phase(Execution::Plain)) if index.is_some() => plain_phase,
                _ => 1,
            })
        };
        assert!(Fig3.bars(&with(1_000, 350)).iter().all(|bar| bar.met));
        let met: Vec<bool> = Fig3
            .bars(&with(999, 349))
            .iter()
            .map(|bar| bar.met)
            .collect();
        assert_eq!(met, [true, false, false, false].repeat(2));
    }

    #[test]
    fn every_contender_has_a_name_of_its_own() {
        let rows = rows(|_, _, _| 1);
        let shown = |series| crate::row::distinct(&rows, series).len();
        assert_eq!(
            (shown("look_up"), shown("phase"), shown("statement")),
            (10, 8, 9)
        );
        assert_eq!(ratios(&rows).len(), 12);
    }
}
