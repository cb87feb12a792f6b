//! What is asked: the queries of a benchmark, and its tables.

use std::path::Path;

use tierra_data::{Part, Scale, Source, ssb, tpch};

use crate::dataset::{TableFile, write_parquet};
use crate::error::LabError;

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Benchmark {
    Tpch,
    Ssb,
}

impl Benchmark {
    /// Its name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Benchmark::Tpch => "TPC-H",
            Benchmark::Ssb => "SSB",
        }
    }

    /// Names and texts.
    pub(super) fn queries(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Benchmark::Tpch => tpch::QUERIES.to_vec(),
            Benchmark::Ssb => Vec::from_iter(ssb::QUERIES.iter().map(|it| (it.name, it.sql))),
        }
    }

    /// Writes its tables as files, each of which is loaded.
    pub(super) fn write(
        self,
        scale: Scale,
        folder: &Path,
        load: impl FnMut(&TableFile) -> Result<(), LabError>,
    ) -> Result<Vec<TableFile>, LabError> {
        match self {
            Benchmark::Tpch => write(&tpch::Table::ALL, scale, folder, load),
            Benchmark::Ssb => write(&ssb::Table::ALL, scale, folder, load),
        }
    }
}

fn write<T: Source>(
    tables: &[T],
    scale: Scale,
    folder: &Path,
    mut load: impl FnMut(&TableFile) -> Result<(), LabError>,
) -> Result<Vec<TableFile>, LabError> {
    let mut files = Vec::new();
    for table in tables {
        let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
        let file = write_parquet(folder, table.name(), &table.schema(), batches)?;
        load(&file)?;
        files.push(file);
    }
    Ok(files)
}
