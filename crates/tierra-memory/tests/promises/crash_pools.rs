//! The promise of pools that are published together when the power is cut: whichever of them survives
//! alone, what its root names is there, in all of them. All pools are recorded in one trace and lose their
//! power at the same moment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::simulated::{self, RECORDERS, assert_kept, finish, folder};
use tempfile::TempDir;
use tierra_memory::simulation::{Image, Limits, Recorder, Report, StepKind, Trace};
use tierra_memory::{Extent, Finished, Pool, PoolError, PoolOptions};

const POOLS: usize = 3;
const ROUNDS: u64 = 4;

fn options(recorder: &Recorder, pool: usize) -> PoolOptions {
    PoolOptions {
        id: Some(pool as u64 + 1),
        ..simulated::options(&recorder.of_pool(pool))
    }
}

fn paths(dir: &Path, name: &str) -> Vec<PathBuf> {
    let paths = (0..POOLS).map(|pool| dir.join(format!("{name}-{pool}")));
    paths.collect()
}

fn payload(round: u64, pool: usize) -> Vec<u8> {
    let len = 150 + 41 * round as usize;
    (0..len)
        .map(|at| (at as u64 * 7 + round * 31 + pool as u64) as u8)
        .collect()
}

/// Every root names the extents of all pools: the round, then where the extent lies in each.
fn root(round: u64, extents: &[Extent]) -> Vec<u8> {
    let mut root = round.to_le_bytes().to_vec();
    root.extend([0; 8]);
    root.extend(simulated::names(extents));
    root
}

struct Program {
    dir: TempDir,
    recorder: Recorder,
    pools: Vec<Arc<Pool>>,
    /// Of the round before: which pool it is of, and where it lies.
    before: Vec<(usize, Extent)>,
}

impl Program {
    /// Step 1 makes all pools and publishes round 1; step `n` publishes round `n`.
    fn run(recorder: fn() -> Recorder) -> Program {
        let (dir, recorder) = (folder(), recorder());
        let made = paths(dir.path(), "pool").into_iter().enumerate();
        let pools =
            made.map(|(pool, path)| Pool::create(&path, &options(&recorder, pool)).unwrap());
        let mut program = Program {
            pools: pools.collect(),
            dir,
            recorder,
            before: Vec::new(),
        };
        for round in 1..=ROUNDS {
            program.round(round);
        }
        for pool in &program.pools {
            assert_eq!(program.recorder.unseen(pool), []);
        }
        program
    }

    fn round(&mut self, round: u64) {
        let data: Vec<Extent> = (0..POOLS)
            .map(|pool| finish(&self.pools[pool], &payload(round, pool)).extent())
            .collect();
        let root = root(round, &data);
        let roots: Vec<Finished> = self.pools.iter().map(|pool| finish(pool, &root)).collect();
        let all: Vec<_> = self.pools.iter().map(|pool| &**pool).zip(&roots).collect();
        Pool::publish_all(&all, round).unwrap();
        self.recorder.acknowledge(round);
        let now = data
            .iter()
            .copied()
            .chain(roots.iter().map(Finished::extent));
        let now = (0..POOLS).cycle().zip(now).collect();
        for (pool, extent) in std::mem::replace(&mut self.before, now) {
            self.pools[pool].free(extent);
        }
    }

    fn explore(&self, trace: &Trace, limits: &Limits) -> Report {
        let paths = paths(self.dir.path(), "image");
        let check = |image: &Image<'_>| check(image, &paths);
        trace.explore_pools(&paths, limits, check).unwrap()
    }
}

/// As if each pool in turn were the only one whose root survived.
fn check(image: &Image<'_>, paths: &[PathBuf]) -> Result<(), String> {
    assert_eq!(image.path, paths[0]);
    let text = |error: PoolError| error.to_string();
    let mut pools = Vec::new();
    for (pool, path) in paths.iter().enumerate() {
        match Pool::open(path, &options(&image.recorder, pool)) {
            Ok(pool) => pools.push(pool),
            Err(PoolError::Missing { .. }) if image.acknowledged == 0 => return Ok(()),
            Err(error) => return Err(text(error)),
        }
    }
    for survivor in &pools {
        let found = match survivor.root() {
            None => 0,
            Some(root) => {
                survivor.verify_extent(root).map_err(text)?;
                let bytes = survivor.bytes(root);
                let round = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                for (pool, extent) in simulated::named(&bytes[16..]).iter().enumerate() {
                    pools[pool].verify_extent(*extent).map_err(text)?;
                    if pools[pool].bytes(*extent) != payload(round, pool) {
                        return Err(format!("round {round} has other bytes in pool {pool}"));
                    }
                }
                round
            }
        };
        simulated::within_one_step(found, image.acknowledged)?;
    }
    Ok(())
}

fn limits(images_per_cut: usize) -> Limits {
    Limits {
        images_per_cut,
        ..Limits::default()
    }
}

#[test]
fn whichever_pool_survives_names_only_what_is_there() {
    for recorder in RECORDERS {
        let program = Program::run(recorder);
        let limits = limits(300);
        let report = program.explore(&program.recorder.trace(), &limits);
        assert_kept(&report, &limits);
        assert!(report.images > 60, "{report:?}");
        assert_eq!(report.exhaustive_cuts, report.cuts, "{report:?}");
    }
}

/// A pool that is lost with its file is put back for the next image.
#[test]
fn recovery_may_remove_and_make_files() {
    let program = Program::run(Recorder::by_line);
    let paths = paths(program.dir.path(), "image");
    let mut lost = 0;
    let report = program
        .recorder
        .trace()
        .explore_pools(&paths, &limits(20), |image| {
            check(image, &paths)?;
            let which = lost % POOLS;
            lost += 1;
            let _ = std::fs::remove_file(&paths[which]);
            if lost % 2 == 0 {
                let made = Pool::create(&paths[which], &options(&image.recorder, which));
                let _unnamed = finish(&made.map_err(|error| error.to_string())?, b"another");
            }
            Ok(())
        });
    assert_kept(&report.unwrap(), &limits(20));
    assert!(lost > 50);
}

/// As a program that forgot it, or does it too late.
#[test]
fn what_is_published_before_it_is_durable_everywhere_is_found() {
    let found = |program: &Program, trace: &Trace| {
        let limits = Limits {
            violations: 1,
            ..limits(60)
        };
        !program.explore(trace, &limits).violations.is_empty()
    };
    // By line: each extent and each root is flushed once, and each slot twice. The second copy of a slot is missed once the
    // slot is written again.
    let program = Program::run(Recorder::by_line);
    let trace = program.recorder.trace();
    let flushes = trace.steps(StepKind::Flush);
    assert_eq!(flushes.len() as u64, 4 * POOLS as u64 * ROUNDS);
    for round in flushes.chunks_exact(4 * POOLS).zip(1..) {
        let (flushes, round) = round;
        for (at, &flush) in flushes.iter().enumerate() {
            let is_second = at >= 2 * POOLS && at % 2 == 1;
            if !is_second || round + 2 <= ROUNDS {
                assert!(found(&program, &trace.without(flush)), "flush {flush}");
            }
        }
    }
    // By page: a pool that settles behind the publication of another. A round waits for all pools, and
    // then for each one's slot, twice.
    let program = Program::run(Recorder::by_page);
    let trace = program.recorder.trace();
    let waits = trace.steps(StepKind::Fence);
    assert_eq!(waits.len() as u64, 3 * POOLS as u64 * ROUNDS);
    for round in waits.chunks_exact(3 * POOLS) {
        for &settle in &round[..POOLS] {
            let late = trace.delayed(settle, round[POOLS]);
            assert!(found(&program, &late), "wait {settle}");
        }
    }
}

/// A process is killed at any moment; the next one opens all pools, sees what they hold, and the power is
/// cut.
#[test]
fn what_a_killed_process_left_in_all_pools_stays() {
    for recorder in RECORDERS {
        let program = Program::run(recorder);
        let trace = program.recorder.trace();
        for events in (1..=trace.len()).step_by(3) {
            let dir = folder();
            let recorder = recorder();
            let mut shown = Vec::new();
            let left = trace.pools_killed_after(events);
            for (pool, path) in paths(dir.path(), "pool").iter().enumerate() {
                let Some(Some(bytes)) = left.get(pool) else {
                    continue;
                };
                std::fs::write(path, bytes).unwrap();
                let opened = Pool::open(path, &options(&recorder, pool)).unwrap();
                shown.push(opened.root().map(|root| opened.bytes(root)[0]));
            }
            recorder.acknowledge(100);
            let both = trace.killed_and_continued(events, &recorder.trace());
            let limits = limits(12);
            let images = paths(dir.path(), "image");
            let report = both.explore_pools(&images, &limits, |image| {
                if image.acknowledged < 100 {
                    return check(image, &images);
                }
                for (pool, shown) in shown.iter().enumerate() {
                    let pool = Pool::open(&images[pool], &options(&image.recorder, pool));
                    let pool = pool.map_err(|error| error.to_string())?;
                    let found = pool.root().map(|root| pool.bytes(root)[0]);
                    if found != *shown {
                        return Err(format!("{shown:?} was shown, {found:?} is there"));
                    }
                }
                Ok(())
            });
            assert_kept(&report.unwrap(), &limits);
        }
    }
}

#[test]
fn an_error_says_which_pools_were_published() {
    let dir = folder();
    let make = |name: &str, id| {
        let options = PoolOptions {
            id: Some(id),
            ..PoolOptions::default()
        };
        Pool::create(&dir.path().join(name), &options).unwrap()
    };
    let (a, b) = (make("a", 1), make("b", 2));
    let (of_a, of_b) = (finish(&a, b"a"), finish(&b, b"bb"));
    // A root of another pool is found before anything is published.
    let error = Pool::publish_all(&[(&a, &of_a), (&b, &of_a)], 7).unwrap_err();
    assert_eq!((error.failed, error.published), (1, 0));
    assert!(error.to_string().contains("/b: extent"), "{error}");
    assert_eq!((a.root(), b.root()), (None, None));
    Pool::publish_all(&[(&a, &of_a), (&b, &of_b)], 7).unwrap();
    assert_eq!((a.version(), b.version()), (7, 7));
    assert_eq!(
        (a.root(), b.root()),
        (Some(of_a.extent()), Some(of_b.extent()))
    );
    Pool::publish_all(&[], 8).unwrap();
}

#[test]
fn more_pools_than_paths_are_refused() {
    let program = Program::run(Recorder::by_line);
    let paths = paths(program.dir.path(), "image");
    let explored = program
        .recorder
        .trace()
        .explore_pools(&paths[..2], &limits(1), |_| Ok(()));
    assert_eq!(
        explored.unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}
