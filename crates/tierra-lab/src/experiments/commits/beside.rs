//! How long a commit of one row takes while something else is done with the same database, on the disk; and how fast a backup is, and
//! whether it is of one moment, while rows are appended.
//!
//! One session inserts a row at a time. Beside it there is nothing, a compaction of SSB's fact table, a backup of all of SSB while
//! another session adds rows of the fact table, in transactions over two tables, or other work on whole tables (`upkeep.rs`). Each is
//! repeated until 10,000 commits were measured beside it, or for five minutes. A file of as many bytes as a backup has is written with
//! the same beside it, and with nothing.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use tierra_data::{Part, Scale, Source, ssb};

use super::database::Ours;
use super::upkeep::Upkeep;
use crate::dataset::write_parquet;
use crate::error::{At, Context, LabError};
use crate::histogram::Histogram;
use crate::lab::Lab;
use crate::progress;
use crate::row::Row;
use crate::turns::turns;

pub(super) const COMPACTION: &str = "a compaction";
pub(super) const BACKUP: &str = "a backup, and appends";
const ALTER: &str = "ALTER of replicas";
const COPY: &str = "a copy that is made";
const SEAL: &str = "a seal";
const MERGE: &str = "a merge of a dictionary";
/// Beside these a commit takes no longer than the bars allow.
pub(super) const BARRED: [&str; 6] = [COMPACTION, BACKUP, ALTER, COPY, SEAL, MERGE];
pub(super) const FILE_ALONE: &str = "a file, with nothing beside it";
const FILE: &str = "a file, and appends";
const NOTHING: &str = "nothing";
/// The parts of commits of which the longest is told.
const PARTS: [(&str, f64); 4] = [("half", 0.5), ("99 %", 0.99), (MOST, 0.999), ("all", 1.0)];
pub(super) const MOST: &str = "99.9 %";
/// 99.9 % is told of at least so many commits: of a thousand it is nothing but the longest.
pub(super) const COMMITS_LEAST: u64 = 10_000;
/// No kind of work is begun again after so long, whether there are as many or not.
const LONGEST: Duration = Duration::from_secs(300);

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;
/// A file is written in such pieces.
const PIECE_BYTES: usize = 1 << 20;

/// Measures all of it.
pub(super) fn measure(lab: &Lab) -> Result<Vec<Row>, LabError> {
    let scale = Scale::new(lab.size(0.02, 1.0)).by("the generator", "choosing a scale")?;
    let rounds = lab.size(1, 5);
    let alone = lab.size(Duration::from_millis(50), Duration::from_secs(5));
    let folder = lab.folder("ssb-files")?;
    let mut files = Vec::new();
    for table in ssb::Table::ALL {
        let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
        let file = write_parquet(&folder, table.name(), &table.schema(), batches)?;
        files.push(file);
    }
    let place = lab.passing_folder()?;
    let ours = Ours::create(lab, place.path(), &files)?;
    let repeated = Repeated {
        enough: lab.size(1, COMMITS_LEAST),
        longest: lab.size(Duration::ZERO, LONGEST),
    };
    let bar = progress::bar("kinds of work", 2 + BARRED.len());
    bar.set_message(NOTHING);
    let mut beside_nothing = Histogram::new();
    ours.beside(&mut beside_nothing, false, |phase| {
        phase.measure(|| std::thread::sleep(alone));
        Ok(())
    })?;
    bar.inc(1);
    bar.set_message(COMPACTION);
    let beside_compaction = repeated.beside(Histogram::new(), |latencies| {
        ours.compact(latencies)?;
        ours.load_again()
    })?;
    bar.inc(1);
    let mut latencies = vec![(NOTHING, beside_nothing), (COMPACTION, beside_compaction)];
    let written = [BACKUP, FILE_ALONE, FILE];
    let mut speeds = vec![Vec::new(); written.len()];
    let (mut beside_backup, mut beside_file) = (Histogram::new(), Histogram::new());
    let file = place.path().join("file");
    // A backup warms up, whose size is that of the files.
    let mut bytes = 0;
    for turn in turns(written.len(), rounds) {
        let name = written[turn.contender];
        bar.set_message(name);
        let mut warm = Histogram::new();
        let per_s = match name {
            BACKUP => {
                let commits = if turn.is_warm_up() {
                    &mut warm
                } else {
                    &mut beside_backup
                };
                let (file_bytes, per_s) = ours.back_up(&file, commits)?;
                bytes = file_bytes;
                per_s
            }
            FILE_ALONE => write_file(&file, bytes)?,
            _ => {
                let commits = if turn.is_warm_up() {
                    &mut warm
                } else {
                    &mut beside_file
                };
                let written = ours.beside(commits, true, |phase| {
                    phase.measure(|| write_file(&file, bytes))
                });
                written?.0
            }
        };
        std::fs::remove_file(&file).at(&file)?;
        if !turn.is_warm_up() {
            speeds[turn.contender].push(per_s);
        }
    }
    bar.inc(1);
    bar.set_message(BACKUP);
    let beside_backup = repeated.beside(beside_backup, |latencies| {
        ours.write_backup(&file, latencies)?;
        std::fs::remove_file(&file).at(&file)
    })?;
    bar.inc(1);
    latencies.extend([(BACKUP, beside_backup), (FILE, beside_file)]);
    let mut upkeep = Upkeep::create(lab, &ours, place.path())?;
    let works: [(&str, Work<'_>); 4] = [
        (ALTER, Upkeep::alter),
        (COPY, Upkeep::copy),
        (SEAL, Upkeep::seal),
        (MERGE, Upkeep::merge),
    ];
    for (name, work) in works {
        bar.set_message(name);
        let beside = repeated.beside(Histogram::new(), |latencies| work(&mut upkeep, latencies));
        latencies.push((name, beside?));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for (beside, latencies) in &latencies {
        for (of, part) in PARTS {
            let longest = latencies.quantile(part).unwrap_or_default();
            let row = Row::new().text("beside", *beside).text("of commits", of);
            let row = row.count("commits", latencies.count());
            rows.push(row.count("latency_ns", longest));
        }
    }
    for (name, speeds) in written.into_iter().zip(speeds) {
        let row = Row::new().text("written", name).text("to", "the disk");
        rows.push(
            row.count("bytes", bytes)
                .samples("written", "bytes_per_s", speeds),
        );
    }
    Ok(rows)
}

type Work<'a> = fn(&mut Upkeep<'a>, &mut Histogram) -> Result<(), LabError>;

/// How often work is repeated.
struct Repeated {
    enough: u64,
    longest: Duration,
}

impl Repeated {
    /// Does something at least once, until there are enough commits beside it or it has taken too long. Returns the latencies.
    fn beside(
        &self,
        mut latencies: Histogram,
        mut work: impl FnMut(&mut Histogram) -> Result<(), LabError>,
    ) -> Result<Histogram, LabError> {
        let start = Instant::now();
        loop {
            work(&mut latencies)?;
            if latencies.count() >= self.enough || start.elapsed() >= self.longest {
                return Ok(latencies);
            }
        }
    }
}

/// Writes a file of so many bytes, and syncs it at its end; returns the bytes a second.
fn write_file(path: &Path, bytes: u64) -> Result<u64, LabError> {
    // Not all the same, for a file system that would notice.
    let piece: Vec<u8> = (0..PIECE_BYTES)
        .map(|at| ((at * 7919) >> 3) as u8)
        .collect();
    let start = Instant::now();
    let mut file = File::create(path).at(path)?;
    let pieces = (bytes as usize).div_ceil(PIECE_BYTES);
    for _ in 0..pieces {
        file.write_all(&piece).at(path)?;
    }
    file.sync_all().at(path)?;
    let per_s = (pieces * PIECE_BYTES) as f64 / start.elapsed().as_secs_f64();
    Ok(per_s as u64)
}
