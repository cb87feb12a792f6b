//! Star Schema Benchmark, 13 queries: is Tierra as fast as DataFusion's in-memory table, and how many bytes does it take?

use tierra_data::{Part, Scale, Source, ssb};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::dataset::write_parquet;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::row::Row;
use crate::suite::{self, Suite};
use crate::view::View;

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;

/// The experiment.
pub(super) struct Ssb;

impl Experiment for Ssb {
    fn name(&self) -> &'static str {
        "ssb"
    }

    fn about(&self) -> &'static str {
        "how fast are the 13 queries of the Star Schema Benchmark, beside other engines in memory, and in how many bytes?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scale = Scale::new(lab.size(0.05, 1.0)).by("the generator", "choosing a scale")?;
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
        vec![
            Bar::at_most(
                "SSB: time over DataFusion's in-memory table (2 partitions, the better of Utf8 and Utf8View), geometric mean",
                1.0,
                suite::time_over_datafusion(rows),
            ),
            suite::stored_bytes_bar("SSB", rows),
        ]
    }

    fn views(&self) -> &'static [View] {
        &suite::VIEWS
    }
}
