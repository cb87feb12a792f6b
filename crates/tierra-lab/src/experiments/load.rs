//! Loading a Snappy Parquet file: how many rows per second reach a pool, compared with DataFusion reading the same file into
//! memory?
//!
//! Tierra packs, checksums and commits what DataFusion only unpacks. On tmpfs the pool is memory, so that work is compared, not
//! disks. The durable rate, to a pool on the ordinary file system, is given beside it; that disk bounds it.

use std::time::Instant;

use arrow::array::RecordBatch;
use tempfile::TempDir;
use tierra_data::{Part, Scale, Source, ssb};

use super::{Experiment, Measured};
use crate::answer::{Answer, Reference, Tolerance};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::dataset::{TableFile, write_parquet};
use crate::error::{At, Context, LabError};
use crate::lab::Lab;
use crate::peers::datafusion::{self, InMemory, Texts};
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::turns;
use crate::view::{Unit, View};

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;
/// The check of every load's result, outside its time.
const CHECK: &str = "SELECT count(*), sum(lo_revenue), sum(lo_supplycost), min(lo_shipmode), max(lo_orderdate) FROM lineorder";

const IN_MEMORY: &str = "Tierra, pool on tmpfs";
const DURABLE: &str = "Tierra, pool on the file system";

/// The experiment.
pub(super) struct Load;

impl Experiment for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn about(&self) -> &'static str {
        "how many rows a second does loading a Parquet file reach, against DataFusion reading it into memory?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scale = Scale::new(lab.size(0.05, 1.0)).by("the generator", "choosing a scale")?;
        let table = ssb::Table::Lineorder;
        let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
        let file = write_parquet(
            &lab.folder("load-file")?,
            table.name(),
            &table.schema(),
            batches,
        )?;
        let reference = reference(lab, &file)?;
        let mut targets = vec![
            Target::DataFusion(Texts::Utf8),
            Target::DataFusion(Texts::Utf8View),
            Target::Durable,
        ];
        match lab.folder_in_memory() {
            Ok(_) => targets.push(Target::InMemory),
            Err(error) => println!("Loading into memory is not measured: {error}"),
        }
        let rounds = lab.size(3, 7);
        let mut samples = vec![Vec::with_capacity(rounds); targets.len()];
        let bar = progress::bar("loads", targets.len() * (rounds + 1));
        for turn in turns(targets.len(), rounds) {
            let target = &targets[turn.contender];
            bar.set_message(target.name());
            let time_ns = target.load(lab, &file, &reference)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(time_ns);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rows = targets.iter().zip(samples).map(|(target, samples)| {
            let row = Row::new()
                .text("file", "lineorder.parquet")
                .text("engine", target.name())
                .count("rows", file.rows)
                .samples("load", "ns", samples);
            let rows_per_s = row
                .value("load_ns")
                .map_or(f64::NAN, |ns| file.rows as f64 * 1e9 / ns);
            row.number("rows_per_s", rows_per_s)
        });
        let file_bytes = std::fs::metadata(&file.path).at(&file.path)?.len();
        let parameters = Row::new()
            .number("scale", scale.factor())
            .count("rounds", rounds as u64)
            .count("file_bytes", file_bytes)
            .count("arrow_bytes", file.arrow_bytes);
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows: rows.collect(),
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        // Rates over the same rows: their ratio is the inverse of the times' ratio.
        let time = |engine: &str| find(rows, &[("engine", engine)])?.value("load_ns");
        let datafusion: Option<Vec<f64>> = Texts::ALL
            .iter()
            .map(|texts| time(texts.engine()))
            .collect();
        let fastest = datafusion.and_then(|times| times.into_iter().reduce(f64::min));
        let ratio = fastest
            .zip(time(IN_MEMORY))
            .map(|(theirs, ours)| theirs / ours);
        vec![Bar::at_least(
            "load: rows per second into a pool on tmpfs, over DataFusion reading the file into memory",
            0.6,
            ratio,
        )]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 1] = [View {
    title: "loading one file",
    category: "file",
    series: "engine",
    value: "rows_per_s",
    per: None,
    unit: Unit::PerSecond,
    mean: false,
}];

/// The target of a load.
enum Target {
    DataFusion(Texts),
    InMemory,
    Durable,
}

impl Target {
    fn name(&self) -> &'static str {
        match self {
            Target::DataFusion(texts) => texts.engine(),
            Target::InMemory => IN_MEMORY,
            Target::Durable => DURABLE,
        }
    }

    /// Loads the file again and checks the result; returns the time of loading only.
    fn load(&self, lab: &Lab, file: &TableFile, reference: &Reference) -> Result<u64, LabError> {
        let (time_ns, answer) = match self {
            Target::DataFusion(texts) => {
                let context = datafusion::context(*texts);
                let start = Instant::now();
                let batches = lab
                    .runtime()
                    .block_on(datafusion::read(&context, file))
                    .by(self.name(), "loading")?;
                let time_ns = elapsed_ns(start);
                let tables = InMemory::of(&file.table, batches).by(self.name(), "loading")?;
                (
                    time_ns,
                    lab.runtime()
                        .block_on(tables.query(CHECK))
                        .by(self.name(), "checking")?,
                )
            }
            Target::InMemory => {
                let memory = lab.folder_in_memory()?;
                self.load_into(lab, file, &memory)?
            }
            Target::Durable => {
                let folder = lab.passing_folder()?;
                self.load_into(lab, file, &folder)?
            }
        };
        let answer = Answer::of(&answer).by("Arrow", "showing an answer")?;
        answer.check(
            "the loaded rows",
            self.name(),
            reference,
            Tolerance::EXACT_DECIMALS,
        )?;
        Ok(time_ns)
    }

    /// The database is created before the time starts and dropped, with its folder, after it.
    fn load_into(
        &self,
        lab: &Lab,
        file: &TableFile,
        pool: &TempDir,
    ) -> Result<(u64, Vec<RecordBatch>), LabError> {
        let folder = lab.passing_folder()?;
        let tierra = Tierra::create(
            &folder.path().join("db"),
            Some(pool.path().join("far.pool")),
        )?;
        let start = Instant::now();
        tierra.load(file)?;
        let time_ns = elapsed_ns(start);
        Ok((time_ns, lab.runtime().block_on(tierra.query(CHECK))?))
    }
}

fn elapsed_ns(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

fn reference(lab: &Lab, file: &TableFile) -> Result<Reference, LabError> {
    let who = Texts::Utf8.engine();
    let answer = lab.runtime().block_on(async {
        let tables = InMemory::load(std::slice::from_ref(file), Texts::Utf8).await?;
        tables.query(CHECK).await
    });
    let answer = Answer::of(&answer.by(who, "checking")?).by("Arrow", "showing an answer")?;
    Ok(Reference {
        who: who.to_owned(),
        answer,
        order: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ours: u64) -> Vec<Row> {
        let row = |engine: &str, ns| {
            Row::new()
                .text("engine", engine)
                .samples("load", "ns", vec![ns])
        };
        vec![
            row(Texts::Utf8.engine(), 120),
            row(Texts::Utf8View.engine(), 60),
            row(IN_MEMORY, ours),
            row(DURABLE, 999),
        ]
    }

    #[test]
    fn the_rate_is_against_the_faster_reader() {
        assert_eq!(Load.bars(&rows(100))[0].measured, Some(0.6));
        assert!(Load.bars(&rows(100))[0].met);
        assert!(!Load.bars(&rows(101))[0].met);
        // Without the pool in memory there is no rate.
        assert!(!Load.bars(&rows(100)[..2])[0].met);
    }
}
