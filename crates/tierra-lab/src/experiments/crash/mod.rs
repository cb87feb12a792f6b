//! Crash: does any of ten million power cuts lose acknowledged data?
//!
//! Seeds make the histories of `tierra-memory`'s crash tests ([`histories`]). The stores, flushes and fences of the real code
//! are recorded, the power is cut before every fence, and the real recovery runs on every state that could be left. A pass is
//! one history, medium and seed. Passes run on both processors until there are enough images, and enough of each history that has to
//! have as many of its own ([`History::images_least`]). The result of a pass depends
//! only on its name (except for a whole database, whose threads are scheduled freely). So a violation is reproduced by
//! running its pass alone: `TIERRA_LAB_CRASH='replicas, by line, 17'` in the environment. `TIERRA_LAB_CRASH_IMAGES=100000`
//! ends earlier than after ten million.

mod histories;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use indicatif::ProgressBar;
use tierra_memory::simulation::{Report, Violation};

use self::histories::{History, Medium};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab, SEED};
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

/// Images of a full run.
const IMAGES: u64 = 10_000_000;
/// The variable for a single pass.
const ONLY: &str = "TIERRA_LAB_CRASH";
/// The variable for another number of images.
const AS_MANY: &str = "TIERRA_LAB_CRASH_IMAGES";
/// Violations that are listed; all are counted.
const LISTED: usize = 100;

/// The experiment.
pub(super) struct Crash;

/// A unit of exploration. Its text form selects it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    history: History,
    medium: Medium,
    seed: u64,
}

/// The results of all passes of one history and medium.
struct Tally {
    history: History,
    medium: Medium,
    report: Report,
    /// By pass.
    images: Vec<u64>,
    micros: Vec<u64>,
}

/// The progress of the workers.
struct State {
    /// The next pass of each history and medium that has more.
    next: VecDeque<Pass>,
    /// Passes begun.
    begun: usize,
    tallies: Vec<Tally>,
    images: u64,
    violations: Vec<(Pass, Violation)>,
}

impl Experiment for Crash {
    fn name(&self) -> &'static str {
        "crash"
    }

    fn about(&self) -> &'static str {
        "does any of ten million simulated power cuts lose what was acknowledged?"
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let target: u64 = match std::env::var(AS_MANY) {
            Ok(text) => text.parse().by("the lab", format!("reading {AS_MANY}"))?,
            Err(_) => lab.size(1, IMAGES),
        };
        let only = match std::env::var(ONLY) {
            Ok(text) => Some(Pass::parse(&text)?),
            Err(_) => None,
        };
        let start = Instant::now();
        let first = |(history, medium)| Pass {
            history,
            medium,
            seed: 0,
        };
        let all = History::ALL
            .iter()
            .flat_map(|history| Medium::ALL.map(|medium| first((*history, medium))));
        let next: VecDeque<Pass> = match only {
            Some(pass) => VecDeque::from([pass]),
            None => all.collect(),
        };
        println!("seed {SEED:#x}");
        let state = explore(next, target, only.is_some());
        let seconds = start.elapsed().as_secs_f64();
        for (pass, violation) in state.violations.iter().take(LISTED) {
            println!("{violation}\n  again: {ONLY}='{pass}' tierra-lab run crash --quick");
        }
        let mut rows: Vec<Row> = state
            .tallies
            .into_iter()
            .filter(|tally| !tally.images.is_empty())
            .map(Tally::row)
            .collect();
        rows.extend(
            state
                .violations
                .into_iter()
                .take(LISTED)
                .map(|(pass, violation)| {
                    Row::new()
                        .text("violation", violation.to_string())
                        .text("pass", pass.to_string())
                }),
        );
        let parameters = Row::new()
            .count("images_asked_for", target)
            .count("images_per_cut_at_most", histories::IMAGES_PER_CUT as u64)
            .number("seconds", seconds);
        Ok(Measured {
            tier: Tier::Simulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let sum = |key: &str, history: Option<History>| {
            let is_of = |row: &&Row| history.is_none_or(|one| row.is(&[("history", one.name())]));
            let values: Vec<f64> = rows
                .iter()
                .filter(is_of)
                .filter_map(|row| row.value(key))
                .collect();
            (!values.is_empty()).then(|| values.iter().sum())
        };
        // The number of images comes from the passes themselves.
        let images = |history: Option<History>| {
            let is_of = |row: &&Row| history.is_none_or(|one| row.is(&[("history", one.name())]));
            let passes = rows.iter().filter(is_of);
            passes
                .filter_map(|row| row.total("pass_images"))
                .sum::<f64>()
        };
        let mut bars = vec![
            Bar::at_most("crash: violations", 0.0, sum("violations", None)),
            Bar::at_least(
                "crash: images recovered from",
                IMAGES as f64,
                Some(images(None)),
            ),
        ];
        for &history in History::ALL {
            let name = history.name();
            bars.push(Bar::at_most(
                format!("crash, {name}: violations"),
                0.0,
                sum("violations", Some(history)),
            ));
            let least = history.images_least();
            if least > 0 {
                bars.push(Bar::at_least(
                    format!(
                        "crash, {name}: images recovered from, {} thousand, for a database is opened for each",
                        least / 1_000
                    ),
                    least as f64,
                    Some(images(Some(history))),
                ));
            }
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 2] = [
    View {
        title: "images that recovery ran on",
        category: "history",
        series: "medium",
        value: "images",
        per: None,
        unit: Unit::Count,
        mean: false,
    },
    View {
        title: "images a second, of a pass on one thread",
        category: "history",
        series: "medium",
        value: "images",
        per: Some("seconds"),
        unit: Unit::PerSecond,
        mean: false,
    },
];

impl Tally {
    fn row(self) -> Row {
        let seconds = self.micros.iter().sum::<u64>() as f64 / 1e6;
        Row::new()
            .text("history", self.history.name())
            .text("medium", self.medium.name())
            .count("images", self.report.images)
            .count("violations", self.report.violations.len() as u64)
            .count("cuts", self.report.cuts)
            .count("exhaustive_cuts", self.report.exhaustive_cuts)
            .count("passes", self.images.len() as u64)
            .number("seconds", seconds)
            .samples("pass", "images", self.images)
            .samples("pass", "us", self.micros)
    }
}

impl State {
    /// Has only those histories go on that have fewer images than their own least, of as many as there should be in all.
    fn keep_those_with_too_few(&mut self, target: u64) {
        let State { next, tallies, .. } = self;
        next.retain(|pass| {
            let of_history = tallies.iter().filter(|one| one.history == pass.history);
            let images: u64 = of_history.map(|tally| tally.report.images).sum();
            images < own_least(pass.history, target)
        });
    }
}

/// The images that a history should have of its own where all have `target`.
fn own_least(history: History, target: u64) -> u64 {
    let share = target.min(IMAGES) as f64 / IMAGES as f64;
    (history.images_least() as f64 * share) as u64
}

/// Runs passes on all threads until there are `target` images, and of each history as many as it should have. Every history and
/// medium runs the same number of passes until then, at least one, unless it has no more.
fn explore(next: VecDeque<Pass>, target: u64, once: bool) -> State {
    let least = next.len();
    let tally = |pass: &Pass| Tally {
        history: pass.history,
        medium: pass.medium,
        report: Report::default(),
        images: Vec::new(),
        micros: Vec::new(),
    };
    let state = Mutex::new(State {
        tallies: next.iter().map(tally).collect(),
        next,
        begun: 0,
        images: 0,
        violations: Vec::new(),
    });
    let bar = progress::bar("images", target as usize);
    std::thread::scope(|scope| {
        for _ in 0..lab::threads() {
            scope.spawn(|| work(&state, least, target, once, &bar));
        }
    });
    bar.finish_and_clear();
    state.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn work(state: &Mutex<State>, least: usize, target: u64, once: bool, bar: &ProgressBar) {
    loop {
        let pass = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.begun >= least && state.images >= target {
                state.keep_those_with_too_few(target);
            }
            let Some(pass) = state.next.pop_front() else {
                return;
            };
            state.begun += 1;
            if !once {
                state.next.push_back(Pass {
                    seed: pass.seed + 1,
                    ..pass
                });
            }
            pass
        };
        let start = Instant::now();
        let report = pass.history.explore(pass.medium, pass.seed, SEED);
        let micros = start.elapsed().as_micros() as u64;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(report) = report else {
            // There is no such pass, and none after it.
            state
                .next
                .retain(|other| (other.history, other.medium) != (pass.history, pass.medium));
            continue;
        };
        state.images += report.images;
        bar.inc(report.images);
        let violations = report.violations.iter().cloned();
        state
            .violations
            .extend(violations.map(|violation| (pass, violation)));
        let tally = state
            .tallies
            .iter_mut()
            .find(|tally| (tally.history, tally.medium) == (pass.history, pass.medium));
        if let Some(tally) = tally {
            tally.images.push(report.images);
            tally.micros.push(micros);
            tally.report.add(report);
        }
    }
}

impl std::fmt::Display for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (history, medium) = (self.history.name(), self.medium.name());
        write!(f, "{history}, {medium}, {}", self.seed)
    }
}

impl Pass {
    fn parse(text: &str) -> Result<Pass, LabError> {
        let wrong = || format!("`{text}` is not HISTORY, MEDIUM, SEED as a violation names them");
        let mut parts = text.split(", ");
        let mut part = || parts.next().ok_or_else(wrong);
        let parsed = (|| {
            let (history, medium, seed) = (part()?, part()?, part()?);
            let history = History::ALL.iter().find(|known| known.name() == history);
            let medium = Medium::ALL.into_iter().find(|known| known.name() == medium);
            Ok::<Pass, String>(Pass {
                history: *history.ok_or_else(wrong)?,
                medium: medium.ok_or_else(wrong)?,
                seed: seed.parse().map_err(|_| wrong())?,
            })
        })();
        parsed.by("the lab", format!("reading {ONLY}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_known_by_its_name_and_finds_the_same_again() {
        for &history in History::ALL {
            for medium in Medium::ALL {
                let pass = Pass {
                    history,
                    medium,
                    seed: 17,
                };
                assert_eq!(Pass::parse(&pass.to_string()).unwrap(), pass);
            }
        }
        assert!(Pass::parse("records, by line").is_err());
        assert!(Pass::parse("records, by line, x").is_err());
        let of = |seed| {
            let report = History::Records.explore(Medium::Line, seed, SEED).unwrap();
            assert!(report.violations.is_empty(), "{:?}", report.violations);
            (report.images, report.cuts, report.exhaustive_cuts)
        };
        assert_eq!(of(3), of(3));
    }

    #[test]
    fn each_history_has_a_pass_and_those_that_end_do() {
        let next = [History::Rounds, History::Growing].map(|history| Pass {
            history,
            medium: Medium::Page,
            seed: 0,
        });
        // More images than there are.
        let state = explore(VecDeque::from(next), u64::MAX, false);
        assert_eq!(state.tallies.len(), 2);
        for tally in state.tallies {
            assert_eq!(tally.images.len(), 1, "{:?}", tally.history);
            assert!(tally.report.images > 0 && tally.report.violations.is_empty());
        }
    }

    #[test]
    fn one_violation_misses_the_bars() {
        let of = |history: History, violations, images| {
            Row::new()
                .text("history", history.name())
                .count("violations", violations)
                .samples("pass", "images", vec![images])
        };
        let row = |violations, images| of(History::Records, violations, images);
        let met = |rows: &[Row]| {
            let bars = Crash.bars(rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        let all = |rows: &[Row]| met(rows)[..2].to_vec();
        assert_eq!(all(&[row(0, IMAGES - 1), row(0, 1)]), [true, true]);
        assert_eq!(all(&[row(0, IMAGES), row(1, 1)]), [false, true]);
        assert_eq!(all(&[row(0, 5)]), [true, false]);
        assert_eq!(all(&[]), [false, false]);
        let each = |violations, images: u64| {
            let rows = History::ALL
                .iter()
                .map(|history| of(*history, violations, images + history.images_least()));
            met(&rows.collect::<Vec<_>>())
        };
        assert!(each(0, IMAGES).iter().all(|met| *met));
        // Images of all the others are none of its own.
        assert_eq!(met(&[row(0, IMAGES)]).iter().filter(|met| **met).count(), 3);
        assert!(each(1, IMAGES).iter().filter(|met| !**met).count() > History::ALL.len());
    }

    #[test]
    fn those_go_on_that_have_too_few_of_their_own() {
        let tally = |history: History, images| Tally {
            history,
            medium: Medium::Line,
            report: Report {
                images,
                ..Report::default()
            },
            images: Vec::new(),
            micros: Vec::new(),
        };
        let left = |images: u64| {
            let next = History::ALL.iter().map(|&history| Pass {
                history,
                medium: Medium::Line,
                seed: 1,
            });
            let mut state = State {
                next: next.collect(),
                begun: 0,
                tallies: History::ALL.iter().map(|one| tally(*one, images)).collect(),
                images: IMAGES,
                violations: Vec::new(),
            };
            state.keep_those_with_too_few(IMAGES);
            state.next.len()
        };
        let with_own = History::ALL.iter().filter(|one| one.images_least() > 0);
        assert_eq!(left(0), with_own.count());
        assert_eq!(left(IMAGES), 0);
        assert!(History::ALL.iter().all(|one| own_least(*one, 1) == 0));
    }
}
