//! Many sums of one column: what does each cost beyond the first?
//!
//! Reports ask for sums of one column under several shifts and factors. `sum(x + 1)` is `sum(x)` and a count; Tierra computes it so,
//! and keeps to SQL's overflow, which is that of each `x + 1`.

use tierra_data::Part;
use tierra_data::wide::Wide;

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::dataset::write_parquet;
use crate::error::LabError;
use crate::lab::Lab;
use crate::peers::Peer;
use crate::peers::datafusion::Texts;
use crate::peers::duckdb::Library;
use crate::row::{Row, find};
use crate::suite::{self, Suite};
use crate::view::View;

/// Sums of a statement.
const SUMS: usize = 20;
const SHIFTED: &str = "20 sums of x + i";
/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;

/// The experiment.
pub(super) struct Sums;

impl Experiment for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn about(&self) -> &'static str {
        "what do 20 sums of one column cost, shifted or scaled, beside other engines in memory?"
    }

    fn peers(&self) -> &'static [Peer] {
        &[Library::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let numbers = Wide::new(lab.size(100_000, 6_000_000), 1);
        let folder = lab.folder("sums-files")?;
        let file = write_parquet(
            &folder,
            "numbers",
            &numbers.schema(),
            numbers.generate(Part::WHOLE, BATCH_ROWS),
        )?;
        let statements = [
            ("one sum", sums(1, "")),
            (SHIFTED, sums(SUMS, " + ")),
            ("20 sums of x * i", sums(SUMS, " * ")),
        ];
        let queries = statements.iter().map(|(name, sql)| (*name, sql.as_str()));
        Suite {
            files: &[file],
            queries: queries.collect(),
            rounds: lab.size(3, 25),
            datafusion: &Texts::ALL[..1],
        }
        .run(lab)
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let time = |engine| find(rows, &[("query", SHIFTED), ("engine", engine)])?.value("time_ns");
        let times = time(Tierra::ENGINE).zip(time(Library::ENGINE));
        vec![Bar::at_most(
            "20 sums of x + i over 6 million rows: time over DuckDB, both to Arrow, two threads",
            2.0,
            times.map(|(ours, theirs)| ours / theirs),
        )]
    }

    fn views(&self) -> &'static [View] {
        // The bytes of a column of unique numbers say nothing.
        suite::VIEWS.split_at(2).0
    }
}

/// That many sums, of the column and a number from 1 on, joined by an operator.
fn sums(count: usize, operator: &str) -> String {
    let column = Wide::column_name(0);
    let term = |number: usize| match operator {
        "" => format!("sum({column})"),
        _ => format!("sum({column}{operator}{number})"),
    };
    let terms: Vec<String> = (1..=count).map(term).collect();
    format!("SELECT {} FROM numbers", terms.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_the_bar() {
        assert_eq!(sums(1, ""), "SELECT sum(c0) FROM numbers");
        assert_eq!(
            sums(2, " + "),
            "SELECT sum(c0 + 1), sum(c0 + 2) FROM numbers"
        );
        let row = |engine, time_ns| {
            Row::new()
                .text("query", SHIFTED)
                .text("engine", engine)
                .samples("time", "ns", vec![time_ns])
        };
        let rows = [row(Tierra::ENGINE, 21), row(Library::ENGINE, 10)];
        let bar = &Sums.bars(&rows)[0];
        assert!(!bar.met && bar.measured == Some(2.1), "{bar:?}");
        assert_eq!(Sums.bars(&rows[..1])[0].measured, None);
    }
}
