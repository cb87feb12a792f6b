//! Star Schema Benchmark, 13 queries, at scale 1 and at scale 10: is Tierra faster than other engines in memory, and how many
//! bytes does it take?
//!
//! At scale 10 DataFusion's tables do not fit in memory beside the others' and are left out.

use tierra_data::{Part, Scale, Source, ssb};

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

/// The experiment at one scale.
pub(super) struct Ssb {
    name: &'static str,
    about: &'static str,
    /// The scale of a quick run, and that of a full one.
    scales: [f64; 2],
    datafusion: &'static [Texts],
}

impl Ssb {
    /// Scale 1.
    pub(super) const ONE: Ssb = Ssb {
        name: "ssb",
        about: "how fast are the 13 queries of the Star Schema Benchmark, beside other engines in memory, and in how many bytes?",
        scales: [0.05, 1.0],
        datafusion: &Texts::ALL,
    };
    /// Scale 10.
    pub(super) const TEN: Ssb = Ssb {
        name: "ssb-10",
        about: "how fast are the same queries on ten times as many rows, beside DuckDB in memory?",
        scales: [0.1, 10.0],
        datafusion: &[],
    };
}

impl Experiment for Ssb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn peers(&self) -> &'static [Peer] {
        &[Library::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let [quick, full] = self.scales;
        let scale = Scale::new(lab.size(quick, full)).by("the generator", "choosing a scale")?;
        let folder = lab.folder("ssb-files")?;
        let mut files = Vec::new();
        for table in ssb::Table::ALL {
            let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
            files.push(write_parquet(
                &folder,
                table.name(),
                &table.schema(),
                batches,
            )?);
        }
        let queries = ssb::QUERIES
            .iter()
            .map(|query| (query.name, query.sql))
            .collect();
        let measured = Suite {
            files: &files,
            queries,
            rounds: lab.size(3, 9),
            datafusion: self.datafusion,
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
        let data_set = format!("SSB, scale {}", self.scales[1]);
        let mut bars = vec![Bar::at_most(
            format!("{data_set}: time over DuckDB, both to Arrow, two threads, geometric mean"),
            0.5,
            suite::over_duckdb(rows).map(|found| found.geometric_mean),
        )];
        if !self.datafusion.is_empty() {
            bars.push(Bar::at_most(
                format!(
                    "{data_set}: time over DataFusion's in-memory table (2 partitions, the better of Utf8 and Utf8View), geometric mean"
                ),
                0.5,
                suite::time_over_datafusion(rows),
            ));
        }
        bars.push(suite::stored_bytes_bar(&data_set, rows));
        bars
    }

    fn views(&self) -> &'static [View] {
        &suite::VIEWS
    }
}
