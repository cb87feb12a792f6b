//! Finding the best group sizes: the database's own look-ups, on data that no cache holds.
//!
//! Sizes are measured in turn, round by round, so that whatever else the machine does meets all of
//! them alike, and judged by medians. Of sizes about as good the smallest is taken: it leaves more of
//! the nearest cache to others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tierra_index::HashIndex;
use tierra_interleave::{Chain, Cx, GroupSize, Interleaved, for_each};
use tierra_memory::{LINE_BYTES, Pool, PoolError, PoolOptions};

use super::Calibration;
use crate::directory;
use crate::error::OpenError;

/// How often [`Calibration::measure`] reports progress.
pub const CALIBRATION_STEPS: u64 = 2 * ROUNDS as u64;

const SCRATCH_FILE: &str = "calibration.pool";
const SIZES: [usize; 10] = [4, 8, 12, 16, 24, 32, 40, 48, 56, 64];
const ROUNDS: usize = 15;
/// Look-ups of one size in a round: about a millisecond.
const LOOKUPS: usize = 10_000;
/// Entries of the index: 64 MiB and more.
const ENTRIES: u64 = 1 << 22;
/// Codes in the far pool and values near, in lines of eight: 128 MiB each.
const LINES: usize = 1 << 21;
/// Sizes within one in this many of the best are as good.
const AS_GOOD: u64 = 50;

/// Why group sizes could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// There is no database.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no place for the data to measure on.
    #[error(
        "cannot make a scratch pool of {} MiB to calibrate with at {}: {source}",
        (LINES * LINE_BYTES) >> 20,
        path.display()
    )]
    Pool {
        /// Beside the database's own pool.
        path: PathBuf,
        /// What went wrong.
        source: PoolError,
    },
}

/// A file that is removed, whatever happens.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = fs::remove_file(&self.0);
    }
}

impl Calibration {
    /// Measures the best sizes for the database in `dir`, in a few seconds: far memory is a scratch
    /// pool beside its own. `step` is called [`CALIBRATION_STEPS`] times. The database may be open.
    ///
    /// # Errors
    /// [`CalibrateError`] where there is no database, or no room for a scratch pool.
    pub fn measure(dir: &Path, mut step: impl FnMut()) -> Result<Calibration, CalibrateError> {
        let scratch = Scratch(
            directory::find_pools(dir)?[0]
                .path
                .with_file_name(SCRATCH_FILE),
        );
        let cell = cells(&scratch.0, &mut step).map_err(|source| CalibrateError::Pool {
            path: scratch.0.clone(),
            source,
        })?;
        Ok(Calibration {
            key: keys(&mut step),
            cell,
        })
    }
}

/// A number that looks random.
fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// Looks every size up in every round; `run` looks up the numbers given.
fn best(step: &mut impl FnMut(), mut run: impl FnMut(GroupSize, &[u64])) -> GroupSize {
    let sizes = SIZES.map(|size| GroupSize::new(size).expect("1 to 64"));
    let mut times = SIZES.map(|_| Vec::with_capacity(ROUNDS));
    let mut fresh = 0;
    for round in 0..ROUNDS {
        for turn in 0..SIZES.len() {
            let which = (round + turn) % SIZES.len();
            let wanted: Vec<u64> = (fresh..fresh + LOOKUPS as u64).map(spread).collect();
            fresh += LOOKUPS as u64;
            let start = Instant::now();
            run(sizes[which], &wanted);
            times[which].push(start.elapsed().as_nanos() as u64);
        }
        step();
    }
    let medians = times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2]
    });
    let least = medians.iter().min().expect("there are sizes");
    let good = medians
        .iter()
        .position(|time| *time <= least + least / AS_GOOD);
    sizes[good.expect("the least is as good as itself")]
}

/// Keys in a near index.
fn keys(step: &mut impl FnMut()) -> GroupSize {
    let mut index = HashIndex::with_capacity(ENTRIES as usize);
    let entries: Vec<(u64, u64)> = (0..ENTRIES).map(|row| (row, row)).collect();
    index.insert_all(&entries);
    drop(entries);
    best(step, |size, wanted| {
        let mut found = 0;
        for_each(
            size,
            wanted,
            |cx: Cx<Interleaved>, number| index.get(cx, number % ENTRIES),
            |_, row| found += usize::from(row.is_some()),
        );
        assert_eq!(found, wanted.len(), "every key is there");
    })
}

/// A code in the far pool, then a value near.
fn cells(scratch: &Path, step: &mut impl FnMut()) -> Result<GroupSize, PoolError> {
    // Of a run that was killed.
    let _ = fs::remove_file(scratch);
    let pool = Pool::create(scratch, &PoolOptions::default())?;
    let mut writer = pool.allocate((LINES * LINE_BYTES) as u64, 0)?;
    for (line, bytes) in writer.chunks_exact_mut(LINE_BYTES).enumerate() {
        bytes.fill(spread(line as u64) as u8);
    }
    let extent = writer.finish()?.extent();
    let codes = pool.bytes(extent);
    let values: Vec<[u64; 8]> = (0..LINES as u64).map(|line| [line; 8]).collect();
    let values = &values[..];
    let size = best(step, |size, wanted| {
        let mut wrong = 0;
        for_each(
            size,
            wanted,
            |cx: Cx<Interleaved>, number| {
                let line = (number % LINES as u64) as usize;
                let value = move |code: &u8| (line ^ usize::from(*code) << 10) % LINES;
                cx.load(&codes[line * LINE_BYTES])
                    .then(move |code| cx.load(&values[value(code)][0]))
                    .map(move |value| *value >= LINES as u64)
            },
            |_, is_wrong| wrong += usize::from(is_wrong),
        );
        assert_eq!(wrong, 0, "values are below their number");
    });
    Ok(size)
}
