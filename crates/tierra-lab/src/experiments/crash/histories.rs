//! The histories: those of `tierra-memory`'s crash tests, one program of each kind per seed, and the engine's with two
//! tiers.
//!
//! A killed history is a separate history for each event after which it may be killed, so their number is limited. A panic of
//! recovery counts as a violation, like a wrong recovery.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tierra_memory::Pool;
use tierra_memory::replication::{Composition, Method};
use tierra_memory::simulation::{Image, Limits, Recorder, Report};

#[path = "../../../../tierra-memory/tests/simulated/mod.rs"]
mod simulated;

#[cfg(feature = "engine")]
use super::super::database::changed::program::Program as Changes;
#[cfg(feature = "engine")]
use super::super::database::simulated::{Images, Program, Scenario};
use simulated::{Recorded, directory, records, replicas, rounds, transactions};

/// The most images per cut; if there are more, they are drawn at random.
pub(super) const IMAGES_PER_CUT: usize = 500;

/// The same for a whole database, which takes longer to open.
#[cfg(feature = "engine")]
const TIERS_IMAGES_PER_CUT: usize = 2;
/// Images of the histories that have to have so many of their own: as many as a processor opens in less than half an hour.
#[cfg(feature = "engine")]
const OWN_IMAGES: u64 = 250_000;

/// Steps of a seed's history.
const STEPS: u64 = 12;
/// Pools with copies.
const COPIES: usize = 3;

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum History {
    /// Publications, each naming new extents and freeing old ones.
    Rounds,
    /// A pool that outgrows its file.
    Growing,
    /// Records appended to a log.
    Records,
    /// Transactions over two logs.
    Transactions,
    /// A log in three copies, each in a pool of its own. Each seed chooses a composition of the building blocks.
    Replicas,
    /// Pools that are added, changed and removed in a directory, whose files lose power with them.
    Directory,
    /// Publications, records and transactions; the process is killed, and the next one continues.
    RoundsKilled,
    RecordsKilled,
    TransactionsKilled,
    /// A database with copies in two tiers, opened with both or with one of them.
    #[cfg(feature = "engine")]
    Tiers,
    /// The same with copies in different encodings.
    #[cfg(feature = "engine")]
    Encoded,
    /// Rows that change and go in two tables, in commits of one and of both, in one tier or two.
    #[cfg(feature = "engine")]
    Changes,
}

/// How stores become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// By flushes of lines and fences.
    Line,
    /// By the kernel's write-back of pages.
    Page,
}

impl Medium {
    pub(super) const ALL: [Medium; 2] = [Medium::Line, Medium::Page];

    pub(super) fn name(self) -> &'static str {
        match self {
            Medium::Line => "by line",
            Medium::Page => "by page",
        }
    }

    fn recorder(self) -> fn() -> Recorder {
        match self {
            Medium::Line => Recorder::by_line,
            Medium::Page => Recorder::by_page,
        }
    }
}

impl History {
    pub(super) const ALL: &[History] = &[
        History::Rounds,
        History::Growing,
        History::Records,
        History::Transactions,
        History::Replicas,
        History::Directory,
        History::RoundsKilled,
        History::RecordsKilled,
        History::TransactionsKilled,
        #[cfg(feature = "engine")]
        History::Tiers,
        #[cfg(feature = "engine")]
        History::Encoded,
        #[cfg(feature = "engine")]
        History::Changes,
    ];

    /// The images that are made of it at least, whatever the others have.
    pub(super) fn images_least(self) -> u64 {
        match self {
            #[cfg(feature = "engine")]
            History::Encoded | History::Changes => OWN_IMAGES,
            _ => 0,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            History::Rounds => "publications",
            History::Growing => "growth",
            History::Records => "log records",
            History::Transactions => "transactions",
            History::Replicas => "replicas in three pools",
            History::Directory => "pools and files of a directory",
            History::RoundsKilled => "publications after a kill",
            History::RecordsKilled => "log records after a kill",
            History::TransactionsKilled => "transactions after a kill",
            #[cfg(feature = "engine")]
            History::Tiers => "a database in two tiers",
            #[cfg(feature = "engine")]
            History::Encoded => "a database in two tiers and two encodings",
            #[cfg(feature = "engine")]
            History::Changes => "rows that change in two tables",
        }
    }

    /// Runs the program of that seed and cuts the power. Images are drawn from `drawn_from` and the seed. `None` if there is
    /// no such program.
    pub(super) fn explore(self, medium: Medium, seed: u64, drawn_from: u64) -> Option<Report> {
        let limits = Limits {
            images_per_cut: IMAGES_PER_CUT,
            seed: drawn_from.wrapping_add(seed),
            ..Limits::default()
        };
        let recorder = medium.recorder();
        let states = |seed, count| transactions::states_of(seed, count);
        Some(match self {
            History::Rounds | History::Growing if seed > 0 => return None,
            History::Rounds => {
                let recorded = Recorded::new(&recorder(), rounds::run(2 * STEPS));
                recorded.explore(&limits, guarded(rounds::check))
            }
            History::Growing => {
                let recorded = Recorded::growing(&recorder());
                recorded.explore(&limits, guarded(simulated::check_grown))
            }
            History::Records => {
                let recorded = Recorded::new(&recorder(), records::run_of(seed, STEPS));
                recorded.explore(&limits, guarded(|image| records::check_of(seed, image)))
            }
            History::Transactions => {
                let first = seed * STEPS;
                let states = states(first, STEPS);
                let recorded = Recorded::new(&recorder(), transactions::run_of(first, STEPS));
                recorded.explore(&limits, guarded(transactions::check(&states)))
            }
            History::Replicas => {
                let all = Composition::all();
                let method = Method::Always(all[seed as usize % all.len()]);
                let first = seed * STEPS;
                let states = replicas::states(first, STEPS);
                let recorded = replicas::recorded(&recorder(), COPIES, &method, first, STEPS);
                let check = |image: &Image<'_>| replicas::check(image, COPIES, &states);
                replicas::explore(&recorded, &recorded.trace, COPIES, &limits, guarded(check))
            }
            History::Directory => {
                let dir = simulated::folder();
                let path = dir.path().join("db");
                std::fs::create_dir(&path).ok()?;
                let mut program = directory::Program::new(&path, recorder());
                program.run_of(seed, STEPS as u8);
                let check = guarded(|image| directory::check(image, &program.states));
                let trace = program.recorder.trace();
                let image = dir.path().join("image");
                trace.explore_directory(&image, &limits, check).ok()?
            }
            History::RoundsKilled => {
                let recorded = Recorded::new(&recorder(), rounds::run(6));
                let events = recorded.kills().nth(seed as usize)?;
                let killed = recorded.killed_and_continued(&recorder, events, continue_rounds);
                killed.explore(&limits, guarded(rounds::check))
            }
            History::RecordsKilled => {
                let recorded = Recorded::new(&recorder(), records::run(STEPS));
                let events = recorded.kills().nth(seed as usize)?;
                let killed = recorded.killed_and_continued(&recorder, events, |pool, recorder| {
                    simulated::continue_records(pool, recorder, true);
                });
                killed.explore(&limits, guarded(records::check))
            }
            History::TransactionsKilled => {
                let states = states(0, STEPS + 2);
                let recorded = Recorded::new(&recorder(), transactions::run(STEPS));
                let events = recorded.kills().nth(seed as usize)?;
                let killed = recorded.killed_and_continued(&recorder, events, |pool, recorder| {
                    transactions::go_on(pool, recorder, &states);
                });
                killed.explore(&limits, guarded(transactions::check(&states)))
            }
            #[cfg(feature = "engine")]
            History::Tiers | History::Encoded => {
                let scenario = Scenario::ALL[seed as usize % Scenario::ALL.len()];
                let program = Program::new(recorder());
                let recorded = match self {
                    History::Encoded => program.run_encoded(seed),
                    _ => program.run_in_two(seed),
                };
                let limits = Limits {
                    images_per_cut: TIERS_IMAGES_PER_CUT,
                    ..limits
                };
                let images = Images::new();
                let check = |image: &Image<'_>| images.check(image, scenario, &recorded.steps);
                images.explore_by(&recorded.trace, &limits, guarded(check))
            }
            #[cfg(feature = "engine")]
            History::Changes => {
                let recorded = Changes::new(recorder()).run_of(seed);
                let limits = Limits {
                    images_per_cut: TIERS_IMAGES_PER_CUT,
                    ..limits
                };
                let dir = simulated::folder();
                let image = dir.path().join("image");
                let check = guarded(|image| recorded.check(image));
                recorded
                    .trace
                    .explore_directory(&image, &limits, check)
                    .ok()?
            }
        })
    }
}

fn continue_rounds(pool: &Arc<Pool>, recorder: &Recorder) {
    // The check finds what is wrong with it.
    if let Ok((found, extents)) = rounds::recover(pool) {
        recorder.acknowledge(found);
        rounds::go_on(pool, recorder, extents, found + 1..=found + 2);
    }
}

/// A check that fails if it panics.
fn guarded(
    mut check: impl FnMut(&Image<'_>) -> Result<(), String>,
) -> impl FnMut(&Image<'_>) -> Result<(), String> {
    move |image| {
        catch_unwind(AssertUnwindSafe(|| check(image)))
            .unwrap_or_else(|_| Err("recovery panicked".to_owned()))
    }
}
