//! How long a commit of one row takes while a backup is written beside it, and how fast the backup is next to a plain copy.
//!
//! One thread commits a row at a time into a small table. Beside it there is nothing, a backup of a large table, or a file of as many
//! bytes that is written and synced in the same steps: these alternate. Run it as
//! `cargo run --release -p tierra-engine --example backup_commits [DIRECTORY [MILLION ROWS]]`.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch};
use tierra_column::LogicalType;
use tierra_engine::{
    BackupOptions, ColumnSpec, Compression, Database, DatabaseOptions, Table, TableSpec,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;
const COLUMNS: usize = 4;
/// Commits with nothing beside them.
const ALONE: Duration = Duration::from_secs(2);
/// As a backup writes and syncs.
const PIECE_BYTES: usize = 1 << 20;
const SYNC_PIECES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Backup(Compression),
    Copy,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let place = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let millions = match arguments.next() {
        Some(text) => text.to_string_lossy().parse::<i64>()?,
        None => 20,
    };
    let dir = tempfile::tempdir_in(place)?;
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        scrub_bytes_per_s: Some(0),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir.path().join("db"), &options)?;
    fill(&table(&database, "large")?, millions * 1_000_000)?;
    let small = table(&database, "small")?;
    let all = [
        ("nothing", Beside::Nothing),
        ("a backup", Beside::Backup(Compression::None)),
        ("a backup, zstd", Beside::Backup(Compression::Zstd)),
        ("a copy", Beside::Copy),
    ];
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut speeds: [Vec<f64>; 4] = Default::default();
    let file = dir.path().join("file");
    let mut bytes = 0;
    for round in 0..ROUNDS {
        for turn in 0..all.len() {
            let at = (turn + round) % all.len();
            let (took, of_table) = run(&database, &small, all[at].1, &file, bytes, &mut times[at])?;
            bytes = bytes.max(of_table);
            if bytes > 0 {
                speeds[at].push(bytes as f64 / f64::from(1 << 20) / took.as_secs_f64());
            }
        }
    }
    println!(
        "{millions} M rows of {COLUMNS} columns, {} MiB",
        bytes >> 20
    );
    println!("beside the commits | MiB/s | commits | median, 99 %, 99.9 %, longest, ms");
    for (at, (name, beside)) in all.iter().enumerate() {
        let times = &mut times[at];
        times.sort_unstable_by(f64::total_cmp);
        speeds[at].sort_unstable_by(f64::total_cmp);
        let speed = match beside {
            Beside::Nothing => 0.0,
            _ => speeds[at].get(speeds[at].len() / 2).copied().unwrap_or(0.0),
        };
        let [median, high, higher, most] =
            [0.5, 0.99, 0.999, 1.0].map(|share| times[((times.len() - 1) as f64 * share) as usize]);
        println!(
            "{name:>18} | {speed:5.0} | {:7} | {median:.3}, {high:.3}, {higher:.3}, {most:.3}",
            times.len()
        );
    }
    Ok(())
}

/// Commits rows while something is done beside. How long that took, and how many bytes it had.
fn run(
    database: &Arc<Database>,
    small: &Arc<Table>,
    beside: Beside,
    file: &Path,
    bytes: u64,
    times: &mut Vec<f64>,
) -> Result<(Duration, u64), Box<dyn Error>> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                small.append(&[rows(0, 1)]).expect("a row is committed");
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        });
        let start = Instant::now();
        let done = work(database, beside, file, bytes);
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        committing.join().expect("it only commits");
        let _ = fs::remove_file(file);
        Ok((took, done?))
    })
}

fn work(
    database: &Database,
    beside: Beside,
    file: &Path,
    bytes: u64,
) -> Result<u64, Box<dyn Error>> {
    match beside {
        Beside::Nothing => std::thread::sleep(ALONE),
        Beside::Backup(compression) => {
            let options = BackupOptions {
                compression,
                ..BackupOptions::default()
            };
            return Ok(database.backup(file, &options, |_| {})?.table_bytes);
        }
        Beside::Copy => {
            let piece: Vec<u8> = (0..PIECE_BYTES)
                .map(|at| ((at * 7919) >> 3) as u8)
                .collect();
            let mut out = File::create(file)?;
            for number in 1..=bytes as usize / PIECE_BYTES {
                out.write_all(&piece)?;
                if number % SYNC_PIECES == 0 {
                    out.sync_data()?;
                }
            }
            out.sync_all()?;
        }
    }
    Ok(0)
}

fn table(database: &Database, name: &str) -> Result<Arc<Table>, Box<dyn Error>> {
    let column = |at| ColumnSpec::new(format!("c{at}"), LogicalType::BigInt);
    Ok(database.create_table(TableSpec {
        name: name.to_owned(),
        columns: (0..COLUMNS).map(column).collect(),
        primary_key: vec![],
    })?)
}

fn rows(from: i64, to: i64) -> RecordBatch {
    let column = |at: usize| {
        let values = (from..to).map(|n| (n * 0x9E37_79B9 * (at as i64 + 1)) >> 8);
        Arc::new(Int64Array::from_iter_values(values)) as _
    };
    let named = (0..COLUMNS).map(|at| (format!("c{at}"), column(at), true));
    RecordBatch::try_from_iter_with_nullable(named).expect("columns of one length")
}

fn fill(table: &Arc<Table>, count: i64) -> Result<(), Box<dyn Error>> {
    const STEP: i64 = 1 << 16;
    let mut loader = table.loader();
    for from in (0..count).step_by(STEP as usize) {
        loader.push(rows(from, (from + STEP).min(count)))?;
    }
    loader.finish()?;
    Ok(())
}
