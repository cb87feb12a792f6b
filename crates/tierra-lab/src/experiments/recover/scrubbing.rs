//! The time to repair damage and to search for it, and the effect of the search on queries.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use tierra_engine::{Database, Replicas, ScanSpec, ScrubOptions};
use tierra_interleave::Scheduling;
use tierra_memory::faults::{Damage, Injector, Stop, Target};
use tierra_memory::measure::{self, Effort};
use tierra_memory::{Pool, PoolOptions};

use super::super::database::start;
use super::CHILD;
use super::fill::{SECOND, Shape, kill_when_filled, options};
use crate::error::{At, Context, LabError};
use crate::lab::{self, Lab, SEED};
use crate::row::Row;

const WHO: &str = "a database with two tiers";
/// The pace of a scrub pass beside queries.
const PACE_BYTES_PER_S: u64 = 64 << 20;
/// Columns that a query reads.
const READ: [usize; 3] = [1, 2, 3];
/// After the header and the superblock.
const FIRST_EXTENT: u64 = 16 << 10;

/// A way to damage the pool of one tier.
type Fault = fn(&mut Injector, &File) -> io::Result<Damage>;

const FAULTS: [(&str, Fault); 3] = [
    ("4 KiB", |injector, pool| {
        injector.garbage(pool, FIRST_EXTENT..pool.len_bytes()?)
    }),
    ("a chip in 64 MiB", |injector, pool| {
        let end = pool.len_bytes()?.min(64 << 20);
        injector.stripes(pool, FIRST_EXTENT..end, 64, 8)
    }),
    ("the file cut short", |injector, pool| {
        injector.cut(pool, FIRST_EXTENT)
    }),
];

/// Measures everything on a database of a size.
pub(super) fn measure(lab: &Lab, mebibytes: u64, rounds: usize) -> Result<Vec<Row>, LabError> {
    let shape = Shape {
        key: true,
        copy: true,
        ..Shape::NUMBERS
    };
    let folder = lab.folder_in_memory()?;
    kill_when_filled(start(CHILD, folder.path(), shape.number(mebibytes))?)?;
    let pool = folder.path().join("b.pool");
    let size = format!("{mebibytes} MiB");
    let database = Database::open(&folder.path().join("db"), &options()).by(WHO, "opening it")?;
    database.wait_for_near_copies().by(WHO, "opening it")?;
    let of = |measured: &str| {
        Row::new()
            .text("measured", measured)
            .text("size", size.as_str())
    };
    let mut rows = Vec::new();
    for (name, fault) in FAULTS {
        let mut samples = Vec::new();
        for round in 0..rounds {
            samples.push(repair(&database, &pool, fault, SEED + round as u64)?);
        }
        rows.push(
            of("repair")
                .text("fault", name)
                .samples("repair", "ns", samples),
        );
    }
    let samples = (0..rounds).map(|_| copy_anew(&database));
    let samples = samples.collect::<Result<Vec<u64>, LabError>>()?;
    rows.push(
        of("repair")
            .text("fault", "all of a tier")
            .samples("repair", "ns", samples),
    );
    let (scrubs, reads) = scrub_and_read(&database, &pool, rounds)?;
    rows.push(
        of("scrub")
            .count("bytes", database.scrub_bytes().by(WHO, "scrubbing it")?)
            .samples("walk", "ns", scrubs)
            .samples("read", "ns", reads),
    );
    let (alone, beside) = query_beside_scrub(&database, 3 * rounds)?;
    rows.push(
        of("query")
            .count("pace_bytes_per_s", PACE_BYTES_PER_S)
            .samples("alone", "ns", alone)
            .samples("beside_walk", "ns", beside),
    );
    Ok(rows)
}

/// Damages the second tier under the open database and returns the time until a scrub pass has repaired it.
fn repair(database: &Database, path: &Path, fault: Fault, seed: u64) -> Result<u64, LabError> {
    let mut options = File::options();
    let pool = options.read(true).write(true).open(path).at(path)?;
    let damage = fault(&mut Injector::new(seed), &pool).by(WHO, "damaging it")?;
    let began = Instant::now();
    let report = database.scrub(&ScrubOptions::default(), |_| {});
    let report = report.by(WHO, "repairing it")?;
    let repair_ns = began.elapsed().as_nanos() as u64;
    let verify = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let left = database.scrub(&verify, |_| {}).by(WHO, "verifying it")?;
    if !report.lost.is_empty() || left.damaged_copies > 0 {
        let what = format!("{damage}, seed {seed}: {report:?}, then {left:?}");
        return Err(what).by(WHO, "repairing it");
    }
    Ok(repair_ns)
}

/// Drops the second copy of everything, makes it again, and returns the time of making it.
fn copy_anew(database: &Database) -> Result<u64, LabError> {
    let table = database
        .table("t")
        .ok_or("it is gone")
        .by(WHO, "finding its table")?;
    let place = |tiers: &[&str]| {
        let replicas = Replicas::of_table(tiers.iter().copied());
        table.set_replicas(&replicas).by(WHO, "placing copies")
    };
    place(&["far"])?;
    let began = Instant::now();
    place(&["far", SECOND])?;
    Ok(began.elapsed().as_nanos() as u64)
}

/// The time of a scrub pass over everything, and of reading as many bytes, in turns.
fn scrub_and_read(
    database: &Database,
    path: &Path,
    rounds: usize,
) -> Result<(Vec<u64>, Vec<u64>), LabError> {
    let bytes = database.scrub_bytes().by(WHO, "scrubbing it")?;
    // The same kind of memory, because the database owns its own.
    let pool = Pool::create(&path.with_extension("read"), &PoolOptions::default());
    let pool = pool.by(WHO, "reading beside it")?;
    let effort = Effort {
        working_set_bytes: bytes.min(256 << 20) as usize,
        time_per_figure: Duration::from_millis(100),
        threads: lab::threads(),
    };
    let (mut scrubs, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let began = Instant::now();
        let report = database.scrub(&ScrubOptions::default(), |_| {});
        let report = report.by(WHO, "scrubbing it")?;
        scrubs.push(began.elapsed().as_nanos() as u64);
        if report.damaged_copies > 0 || report.bytes != bytes {
            return Err(format!("{report:?} of {bytes} bytes")).by(WHO, "scrubbing it");
        }
        let figures = measure::pool(&pool, &effort).by(WHO, "reading it")?;
        reads.push((bytes as f64 / figures.sequential_read_bytes_per_s * 1e9) as u64);
    }
    Ok((scrubs, reads))
}

/// The time of a query alone, and during a scrub pass, in turns.
fn query_beside_scrub(
    database: &Database,
    rounds: usize,
) -> Result<(Vec<u64>, Vec<u64>), LabError> {
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let expected = query(database)?;
    for _ in 0..rounds {
        for (scrubs, samples) in [(false, &mut alone), (true, &mut beside)] {
            let stop = Stop::default();
            let took = std::thread::scope(|scope| {
                let options = ScrubOptions {
                    bytes_per_s: Some(PACE_BYTES_PER_S),
                    stop: stop.clone(),
                    ..ScrubOptions::default()
                };
                let scrub = scrubs.then(|| scope.spawn(move || database.scrub(&options, |_| {})));
                // The scrub pass has begun.
                std::thread::sleep(Duration::from_millis(20));
                let began = Instant::now();
                let found = query(database);
                let took = began.elapsed().as_nanos() as u64;
                stop.stop();
                let scrubbed = scrub.map(|scrub| scrub.join());
                if let Some(Ok(scrubbed)) = scrubbed {
                    scrubbed.by(WHO, "scrubbing it")?;
                }
                Ok::<_, LabError>((found?, took))
            });
            let (found, took) = took?;
            if found != expected {
                return Err(format!("{found}, then {expected}")).by(WHO, "adding its numbers up");
            }
            samples.push(took);
        }
    }
    Ok((alone, beside))
}

/// The sum of some columns.
fn query(database: &Database) -> Result<i64, LabError> {
    let table = database
        .table("t")
        .ok_or("it is gone")
        .by(WHO, "finding its table")?;
    let scan = table.snapshot().scan(ScanSpec {
        projection: READ.to_vec(),
        filters: Vec::new(),
        batch_rows: 8192,
        execution: Scheduling::Auto,
    });
    let mut cursor = scan.cursor();
    let mut sum = 0i64;
    while let Some(batch) = cursor.next(&[], 0).by(WHO, "scanning it")? {
        for column in batch.columns() {
            let numbers = column.as_primitive::<Int64Type>().values();
            sum = numbers
                .iter()
                .fold(sum, |sum, number| sum.wrapping_add(*number));
        }
    }
    Ok(sum)
}
