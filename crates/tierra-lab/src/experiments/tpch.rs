//! TPC-H, 22 queries: does Tierra give DataFusion's answers, with exact decimals, how fast, and in how many bytes?

use tierra_data::{Part, Scale, Source, tpch};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::dataset::write_parquet;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::peers::Peer;
use crate::peers::datafusion::Texts;
use crate::peers::duckdb::Library;
use crate::row::Row;
use crate::suite::{self, Suite};
use crate::view::View;

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;

/// The experiment.
pub(super) struct Tpch;

impl Experiment for Tpch {
    fn name(&self) -> &'static str {
        "tpch"
    }

    fn about(&self) -> &'static str {
        "how fast are the 22 queries of TPC-H, beside other engines in memory, and in how many bytes?"
    }

    fn peers(&self) -> &'static [Peer] {
        &[Library::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scale = Scale::new(lab.size(0.02, 1.0)).by("the generator", "choosing a scale")?;
        let folder = lab.folder("tpch-files")?;
        let mut files = Vec::new();
        for table in tpch::Table::ALL {
            let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
            files.push(write_parquet(
                &folder,
                table.name(),
                &table.schema(),
                batches,
            )?);
        }
        let measured = Suite {
            files: &files,
            queries: tpch::QUERIES.to_vec(),
            rounds: lab.size(1, 5),
            datafusion: &Texts::ALL,
        }
        .run(lab)?;
        Ok(Measured {
            parameters: Row::new()
                .number("scale", scale.factor())
                .and(measured.parameters),
            ..measured
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let found = suite::over_duckdb(rows);
        let bar = |of: &str, bar, measured: Option<f64>| {
            let what =
                format!("TPC-H, scale 1: time over DuckDB, both to Arrow, two threads, {of}");
            Bar::at_most(what, bar, measured)
        };
        vec![
            bar(
                "geometric mean",
                0.75,
                found.map(|found| found.geometric_mean),
            ),
            bar("sum", 0.85, found.map(|found| found.sum)),
            bar("worst query", 2.0, found.map(|found| found.worst)),
            suite::stored_bytes_bar("TPC-H", rows),
        ]
    }

    fn views(&self) -> &'static [View] {
        &suite::VIEWS
    }
}
