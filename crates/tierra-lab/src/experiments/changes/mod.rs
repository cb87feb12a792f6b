//! What changed rows cost: all queries of SSB and TPC-H before a part of the fact table was updated, after it, and after compaction; and
//! an UPDATE and a DELETE of a tenth of SSB's fact table, beside DuckDB.

mod bulk;
mod states;

use std::path::Path;

use tierra_data::{Part, Scale, Source, ssb, tpch};

use self::states::State;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::dataset::{TableFile, write_parquet};
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::peers::Peer;
use crate::peers::duckdb::Library;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;
const GEOMETRIC_MEAN: &str = "geometric mean";
const WORST: &str = "worst query";

/// A set of tables and queries, and how its fact table is changed.
struct Benchmark {
    /// The key of its rows.
    panel: &'static str,
    name: &'static str,
    fact: &'static str,
    /// A number that tells rows of the fact table apart, without any order among them.
    drawn: &'static str,
    /// An INTEGER that no query reads, so that all have the answers that they had before.
    changed: &'static str,
    /// Files of its tables, at a scale.
    files: fn(Scale, &Path) -> Result<Vec<TableFile>, LabError>,
    queries: fn() -> Vec<(&'static str, &'static str)>,
}

const SSB: Benchmark = Benchmark {
    panel: "query of SSB",
    name: "SSB",
    fact: "lineorder",
    drawn: "(CAST(lo_orderkey AS BIGINT) * 7919 + lo_linenumber * 104729) % 10007",
    changed: "lo_tax",
    files: |scale, folder| files(&ssb::Table::ALL, scale, folder),
    queries: || ssb::QUERIES.map(|query| (query.name, query.sql)).to_vec(),
};

const TPCH: Benchmark = Benchmark {
    panel: "query of TPC-H",
    name: "TPC-H",
    fact: "lineitem",
    drawn: "(CAST(l_orderkey AS BIGINT) * 7919 + l_suppkey * 104729) % 10007",
    changed: "l_linenumber",
    files: |scale, folder| files(&tpch::Table::ALL, scale, folder),
    queries: || tpch::QUERIES.to_vec(),
};

impl Benchmark {
    const ALL: [Benchmark; 2] = [SSB, TPCH];

    /// The condition of a part of the rows of the fact table, in hundredths, from one on.
    fn part(&self, from: u32, to: u32) -> String {
        format!(
            "{drawn} % 100 >= {from} AND {drawn} % 100 < {to}",
            drawn = self.drawn
        )
    }
}

fn files<T: Source + Copy>(
    tables: &[T],
    scale: Scale,
    folder: &Path,
) -> Result<Vec<TableFile>, LabError> {
    let file = |table: &T| {
        let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
        write_parquet(folder, table.name(), &table.schema(), batches)
    };
    tables.iter().map(file).collect()
}

/// The experiment.
pub(super) struct Changes;

impl Experiment for Changes {
    fn name(&self) -> &'static str {
        "changes"
    }

    fn about(&self) -> &'static str {
        "how fast are SSB and TPC-H after rows were updated, and how fast are a large UPDATE and DELETE beside DuckDB?"
    }

    fn peers(&self) -> &'static [Peer] {
        &[Library::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scale = Scale::new(lab.size(0.02, 1.0)).by("the generator", "choosing a scale")?;
        let mut rows = Vec::new();
        for benchmark in Benchmark::ALL {
            let folder = lab.folder(&format!("{}-files", benchmark.fact))?;
            let files = (benchmark.files)(scale, &folder)?;
            rows.extend(states::measure(lab, &benchmark, &files)?);
            if benchmark.name == SSB.name {
                rows.extend(bulk::measure(lab, &benchmark, &files)?);
            }
        }
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new().number("scale", scale.factor()),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let mut bars = Vec::new();
        for (state, bar) in [(State::Updated, 1.15), (State::Compacted, 1.02)] {
            for benchmark in Benchmark::ALL {
                let (name, state) = (benchmark.name, state.name());
                let of = format!("{name}, {state}");
                let row = find(rows, &[("state", &of), ("of", GEOMETRIC_MEAN)]);
                bars.push(Bar::at_most(
                    format!("{of}: times of all queries over those before, geometric mean"),
                    bar,
                    row.and_then(|row| row.value("times_over_before")),
                ));
            }
        }
        for statement in bulk::Statement::ALL {
            let of = |engine| find(rows, &[("statement", statement.name()), ("engine", engine)]);
            let both = of(Tierra::ENGINE).zip(of(Library::ENGINE));
            bars.push(Bar::at_most(
                format!(
                    "{}: time over DuckDB, both on the disk, two threads",
                    statement.name()
                ),
                1.0,
                both.and_then(|(ours, theirs)| ours.over(theirs, "time_ns")),
            ));
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const fn queries(title: &'static str, category: &'static str) -> View {
    View {
        title,
        category,
        series: "state of rows",
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: true,
    }
}

const VIEWS: [View; 4] = [
    queries("time of a query of SSB, planning included", SSB.panel),
    queries("time of a query of TPC-H, planning included", TPCH.panel),
    View {
        title: "times of queries over those before: below 1 is faster",
        category: "state",
        series: "of",
        value: "times_over_before",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "time of a statement that changes many rows of SSB's fact table, durable, on the disk",
        category: "statement",
        series: "engine",
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_query_reads_what_is_changed() {
        for benchmark in Benchmark::ALL {
            for (name, sql) in (benchmark.queries)() {
                assert!(!sql.contains(benchmark.changed), "{name}");
            }
            assert!(!benchmark.drawn.contains(benchmark.changed));
        }
    }

    #[test]
    fn bars_are_on_means_and_on_both_statements() {
        let state = |name: &str, state: State, ratio| {
            Row::new()
                .text("state", format!("{name}, {}", state.name()))
                .text("of", GEOMETRIC_MEAN)
                .number("times_over_before", ratio)
        };
        let time = |statement: bulk::Statement, engine, time_ns| {
            Row::new()
                .text("statement", statement.name())
                .text("engine", engine)
                .samples("time", "ns", vec![time_ns])
        };
        let [update, delete] = bulk::Statement::ALL;
        let rows = [
            state(SSB.name, State::Updated, 1.15),
            state(TPCH.name, State::Updated, 1.2),
            state(SSB.name, State::Compacted, 1.0),
            time(update, Tierra::ENGINE, 10),
            time(update, Library::ENGINE, 10),
            time(delete, Tierra::ENGINE, 11),
            time(delete, Library::ENGINE, 10),
        ];
        let met: Vec<bool> = Changes.bars(&rows).iter().map(|bar| bar.met).collect();
        assert_eq!(met, [true, false, true, false, true, false]);
    }
}
