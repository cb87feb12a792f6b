//! Figure 2 of the interleaving paper: binary search in 2 GB on 1 to 28 cores.
//!
//! Few machines have 28 cores beside persistent memory. What ends the speed-up there is the memory's bandwidth, so real threads
//! of this machine run under as much of it as their share of the cores would have:
//!
//! ```text
//!   rate(k cores) = k / t * rate(t threads, bandwidth * t / k)
//! ```
//!
//! That is the whole model: cores are alike, and each has its share of the bandwidth. Nothing is fitted, and the model can be
//! checked: one thread with a k-th of the bandwidth must do half of what two threads do with two k-ths. Latency, bandwidth, misses
//! in flight and cache are those of emulated Optane; the near rates are those of this machine's memory, multiplied as far as the
//! paper's bandwidth of DRAM reaches. What is left out: other cores' clock and caches, and the bandwidth that memory loses by
//! contention, on account of which the paper's curve ends lower.
//!
//! A group's searches go in step: all of them read upper levels, which are cached, and then all read lower ones. A thread alone leaves its
//! bandwidth idle meanwhile, and two fill each other's gaps. So two threads do more than twice what one does where bandwidth
//! is scarce, and 28 would do more than two say.

use std::sync::Barrier;
use std::time::Instant;

use tierra_interleave::{Cx, Execution, GroupSize, map_into};
use tierra_memory::emulation::FarMemory;
use tierra_memory::in_mode;

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{self, Lab, SEED};
use crate::memory;
use crate::pin;
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::sorted::{Sorted, check, search, walk};
use crate::turns::turns;
use crate::view::{Unit, View};

/// Cores of the paper's socket, at which the figure is measured.
const CORES: [usize; 8] = [1, 2, 4, 8, 12, 18, 24, 28];
/// The paper's cores, all of them.
const ALL_CORES: usize = 28;
/// Cores from which the paper finds Optane's bandwidth exhausted.
const SATURATED_CORES: usize = 18;
/// Cores at which the model is checked.
const CHECKED: [usize; 3] = [8, 18, 28];
/// Values that a thread looks up in one sample.
const SEARCHES: usize = 10_000;
/// Samples of a thread that fill the modelled cache after another setting has emptied it.
const CACHE_FILLS: usize = 16;
/// Bytes a nanosecond that random lines of the paper's DRAM have (its table 1).
const DRAM_GB_PER_S: f64 = 100.0;
const LINE_BYTES: f64 = 64.0;

/// How is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The paper's Baseline: one search after the other.
    Plain,
    /// Interleaved.
    Walk,
}

impl Way {
    const ALL: [Way; 2] = [Way::Plain, Way::Walk];

    fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Walk => "walk",
        }
    }
}

const NEAR: &str = "near";
const OPTANE: &str = "emulated optane";

/// Where and with how many threads a group of samples is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    /// The modelled cores whose share of emulated Optane the threads have; `None` for near memory.
    share_of: Option<usize>,
    threads: usize,
}

impl Setting {
    /// Near with one thread and with all, the figure's cores, and one thread where the model is checked.
    fn all(threads: usize) -> Vec<Setting> {
        let near = [1, threads].map(|threads| Setting {
            share_of: None,
            threads,
        });
        let cores = CORES.map(|cores| Setting {
            share_of: Some(cores),
            threads: threads.min(cores),
        });
        let checked = CHECKED.map(|cores| Setting {
            share_of: Some(cores),
            threads: 1,
        });
        let mut all: Vec<Setting> = near.into_iter().chain(cores).chain(checked).collect();
        // On one processor the settings of the check are those of the figure.
        let mut seen = Vec::new();
        all.retain(|one| {
            !seen.contains(one) && {
                seen.push(*one);
                true
            }
        });
        all
    }

    fn memory(self) -> &'static str {
        match self.share_of {
            Some(_) => OPTANE,
            None => NEAR,
        }
    }

    /// What is emulated: Optane with the bandwidth that the threads would have among so many cores.
    fn far(self) -> Option<FarMemory> {
        let share = self.threads as f64 / self.share_of? as f64;
        // The preset's own share, of all cores that the process has, would come on top.
        let whole = FarMemory::OPTANE.whole();
        Some(FarMemory {
            sequential_read_gb_per_s: whole.sequential_read_gb_per_s * share,
            random_read_gb_per_s: whole.random_read_gb_per_s * share,
            everywhere: true,
            ..whole
        })
    }
}

/// The experiment.
pub(super) struct Fig2;

impl Experiment for Fig2 {
    fn name(&self) -> &'static str {
        "fig2"
    }

    fn about(&self) -> &'static str {
        "how does binary search in 2 GB scale to 28 cores, as far as memory's bandwidth decides it?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let (bytes, passes, rounds) = lab.size((1 << 24, 1, 1), (1 << 31, 3, 5));
        let array = Sorted::new(bytes)?;
        let sorted = array.values(bytes);
        let threads =
            std::thread::available_parallelism().map_or(1, |count| count.get().min(lab::threads()));
        let settings = Setting::all(threads);
        let mut samples = vec![[Vec::new(), Vec::new()]; settings.len()];
        let mut random = Random::new(SEED);
        let bar = progress::bar("settings", passes * settings.len());
        // Several passes: the machine drifts over minutes, and another setting empties the modelled cache.
        for pass in 0..passes {
            for place in 0..settings.len() {
                let place = if pass % 2 == 0 {
                    place
                } else {
                    settings.len() - 1 - place
                };
                let setting = settings[place];
                memory::during(setting.far(), || {
                    for _ in 0..CACHE_FILLS {
                        searched(sorted, Way::Walk, setting.threads, &mut random)?;
                    }
                    for turn in turns(Way::ALL.len(), rounds) {
                        let way = Way::ALL[turn.contender];
                        let time_ns = searched(sorted, way, setting.threads, &mut random)?;
                        if !turn.is_warm_up() {
                            samples[place][turn.contender].push(time_ns);
                        }
                    }
                    Ok(())
                })?;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let mut rows = Vec::new();
        for (setting, samples) in settings.iter().zip(samples) {
            for (way, samples) in Way::ALL.into_iter().zip(samples) {
                let cores = setting.share_of.unwrap_or(setting.threads);
                let on = format!(
                    "{}, threads: {}",
                    series(way, setting.memory()),
                    setting.threads
                );
                let row = Row::new()
                    .text("measured", series(way, setting.memory()))
                    .text("measured_on", on)
                    .text("threads", setting.threads.to_string())
                    .text("of_cores", cores.to_string())
                    .count("searches", (SEARCHES * setting.threads) as u64);
                rows.push(row.samples("time", "ns", samples));
            }
        }
        rows.extend(speedups(&rows, threads, misses(bytes)));
        let parameters = Row::new()
            .count("array_bytes", bytes as u64)
            .count("passes", passes as u64)
            .count("rounds", rounds as u64)
            .count("real_threads", threads as u64)
            .number("modelled_misses", misses(bytes))
            .number("dram_gb_per_s", DRAM_GB_PER_S)
            .number("optane_gb_per_s", FarMemory::OPTANE.random_read_gb_per_s);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let of = |way: Way, memory: &str, cores: usize| {
            let (way, cores) = (series(way, memory), cores.to_string());
            find(rows, &[("way", &way), ("cores", &cores)])
        };
        let rate = |way, memory, cores| of(way, memory, cores)?.value("searches_per_s");
        let checked = CHECKED.map(|cores| model_error(rows, cores));
        let checked: Option<Vec<f64>> = checked.into_iter().collect();
        vec![
            Bar::at_most(
                "fig2: the model, walk on emulated optane: two threads with 2/k of the bandwidth against twice one with 1/k, worst k, per cent apart",
                10.0,
                checked.and_then(|all| all.into_iter().reduce(f64::max)),
            ),
            Bar::at_least(
                "fig2: walk on emulated optane with 28 cores, of the searches that its bandwidth allows",
                0.8,
                of(Way::Walk, OPTANE, ALL_CORES).and_then(|row| row.value("share_of_bandwidth")),
            ),
            Bar::at_least(
                "fig2: walk on emulated optane over plain near, both with 18 cores, times as fast",
                1.0,
                rate(Way::Walk, OPTANE, SATURATED_CORES)
                    .zip(rate(Way::Plain, NEAR, SATURATED_CORES))
                    .map(|(walk, plain)| walk / plain),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        let stated = |memory: &str, cores: usize, speedup| {
            Row::new()
                .text("way", format!("Coro, {memory} (paper)"))
                .text("cores", cores.to_string())
                .number("speedup", speedup)
        };
        vec![
            stated("Optane", SATURATED_CORES, 8.0),
            stated("DRAM", ALL_CORES, 50.0),
        ]
    }
}

const VIEWS: [View; 2] = [
    View {
        title: "speed on k cores over plain near on one, by the bandwidth that each core has",
        category: "cores",
        series: "way",
        value: "speedup",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "time of a search as measured, on real threads with their share of the bandwidth of k cores",
        category: "of_cores",
        series: "measured_on",
        value: "time_ns",
        per: Some("searches"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
];

fn series(way: Way, memory: &str) -> String {
    format!("{}, {memory}", way.name())
}

/// Lines of a search in so many bytes that miss in the modelled cache.
///
/// Level `l` of a search is one of `2^l` lines, each as likely as the others; the halvings within a line are of a line that the
/// search has read already. The cache keeps the lines used last, so that lines of low levels, most of which are not used
/// again, push lines of upper levels out. A line stays for as many searches as bring the cache's number of other lines (Che, Tung
/// and Wang, *Hierarchical Web Caching Systems*, 2002).
fn misses(bytes: usize) -> f64 {
    misses_of_levels(
        (bytes as f64 / LINE_BYTES).log2() as u32,
        FarMemory::OPTANE.cache_bytes as f64 / LINE_BYTES,
    )
}

fn misses_of_levels(levels: u32, cached_lines: f64) -> f64 {
    let lines_of = |level: u32| 2_f64.powi(level as i32);
    // A line of this level has not been read by any of so many searches.
    let is_missed = |level, searches: f64| (-searches / lines_of(level)).exp();
    let brought = |searches| -> f64 {
        let of_level = |level| lines_of(level) * (1.0 - is_missed(level, searches));
        (0..levels).map(of_level).sum()
    };
    let (mut fewest, mut most) = (0.0, cached_lines);
    if brought(f64::MAX) <= cached_lines {
        return 0.0;
    }
    while brought(most) < cached_lines {
        most *= 2.0;
    }
    for _ in 0..64 {
        let middle = (fewest + most) / 2.0;
        match brought(middle) < cached_lines {
            true => fewest = middle,
            false => most = middle,
        }
    }
    (0..levels).map(|level| is_missed(level, most)).sum()
}

/// The measured searches a second of those threads with the share of so many cores.
fn measured_per_s(
    rows: &[Row],
    way: Way,
    memory: &str,
    threads: usize,
    cores: usize,
) -> Option<f64> {
    let row = find(
        rows,
        &[
            ("measured", &series(way, memory)),
            ("threads", &threads.to_string()),
            ("of_cores", &cores.to_string()),
        ],
    )?;
    Some(row.value("searches")? / row.value("time_ns")? * 1e9)
}

/// How far the model is off at so many cores, in per cent.
fn model_error(rows: &[Row], cores: usize) -> Option<f64> {
    let of = |threads| measured_per_s(rows, Way::Walk, OPTANE, threads, cores);
    Some(100.0 * (of(2)? / (2.0 * of(1)?) - 1.0).abs())
}

/// The figure: rates of k cores, by the model.
fn speedups(rows: &[Row], threads: usize, misses: f64) -> Vec<Row> {
    let limit = |gb_per_s: f64| gb_per_s * 1e9 / (misses * LINE_BYTES);
    let optane_limit = limit(FarMemory::OPTANE.random_read_gb_per_s);
    let rate = |way: Way, memory: &str, cores: usize| {
        let used = threads.min(cores);
        let of_cores = if memory == NEAR { used } else { cores };
        let measured = measured_per_s(rows, way, memory, used, of_cores)?;
        let all = measured * cores as f64 / used as f64;
        Some(if memory == NEAR {
            all.min(limit(DRAM_GB_PER_S))
        } else {
            all
        })
    };
    let one = rate(Way::Plain, NEAR, 1).unwrap_or(f64::NAN);
    let mut figure = Vec::new();
    for cores in CORES {
        for way in Way::ALL {
            for memory in [NEAR, OPTANE] {
                let Some(rate) = rate(way, memory, cores) else {
                    continue;
                };
                let row = Row::new()
                    .text("way", series(way, memory))
                    .text("cores", cores.to_string())
                    .number("speedup", rate / one)
                    .number("searches_per_s", rate);
                figure.push(match memory {
                    OPTANE => row.number("share_of_bandwidth", rate / optane_limit),
                    _ => row,
                });
            }
        }
        let allowed = Row::new().text("way", "what Optane's bandwidth allows");
        let allowed = allowed.text("cores", cores.to_string());
        figure.push(allowed.number("speedup", optane_limit / one));
    }
    figure
}

/// The time until all threads have looked up their values; every answer is checked.
fn searched(
    sorted: &[u32],
    way: Way,
    threads: usize,
    random: &mut Random,
) -> Result<u64, LabError> {
    let mut draw = || random.below(sorted.len() as u64) as u32;
    let keys: Vec<Vec<u32>> = (0..threads)
        .map(|_| (0..SEARCHES).map(|_| draw()).collect())
        .collect();
    let start = Barrier::new(threads);
    let times: Vec<Result<u64, LabError>> = std::thread::scope(|scope| {
        let start = &start;
        let running: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(number, keys)| {
                scope.spawn(move || {
                    pin::to_cpu(number);
                    let mut ranks = vec![usize::MAX; keys.len()];
                    start.wait();
                    let started = Instant::now();
                    match way {
                        Way::Plain => in_mode!(Execution::Plain, M => {
                            map_into(GroupSize::DEFAULT, keys, |cx: Cx<M>, &key| search(cx, sorted, key), &mut ranks);
                        }),
                        Way::Walk => in_mode!(Execution::Interleaved, M => {
                            map_into(GroupSize::DEFAULT, keys, |cx: Cx<M>, &key| walk(cx, sorted, key), &mut ranks);
                        }),
                    }
                    let time_ns = started.elapsed().as_nanos() as u64;
                    check(way.name(), keys, &ranks)?;
                    Ok(time_ns)
                })
            })
            .collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    times
        .into_iter()
        .try_fold(0, |most, time| Ok(most.max(time?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of measurements in which a search takes `ns(way, setting)`.
    fn rows(ns: impl Fn(Way, Setting) -> u64) -> Vec<Row> {
        let mut rows = Vec::new();
        for setting in Setting::all(2) {
            for way in Way::ALL {
                let cores = setting.share_of.unwrap_or(setting.threads);
                rows.push(
                    Row::new()
                        .text("measured", series(way, setting.memory()))
                        .text("threads", setting.threads.to_string())
                        .text("of_cores", cores.to_string())
                        .count("searches", setting.threads as u64 * 1_000)
                        .samples("time", "ns", vec![ns(way, setting) * 1_000]),
                );
            }
        }
        let figure = speedups(&rows, 2, 8.0);
        rows.extend(figure);
        rows
    }

    #[test]
    fn cores_are_alike_until_bandwidth_ends() {
        // Eight misses of 64 bytes at 10 GB/s: 51.2 ns of bandwidth a search, divided by the cores.
        let measured = |way, setting: Setting| match (way, setting.share_of) {
            (Way::Plain, None) => 1_000,
            (Way::Walk, None) => 100,
            (Way::Plain, Some(_)) => 4_000,
            (Way::Walk, Some(cores)) => (cores as u64 * 60).max(400),
        };
        let rows = rows(measured);
        let speedup = |way: &str, cores: &str, expected: f64| {
            let row = find(&rows, &[("way", way), ("cores", cores)]).unwrap();
            let found = row.value("speedup").unwrap();
            assert!((found - expected).abs() < 0.001 * expected, "{found}");
        };
        speedup("plain, near", "1", 1.0);
        speedup("plain, near", "28", 28.0);
        // 100 GB/s of DRAM allow 195 searches in 1,000 ns.
        speedup("walk, near", "28", 195.3);
        speedup("walk, emulated optane", "4", 10.0);
        speedup("walk, emulated optane", "28", 28.0 / 1.68);
        let bars = Fig2.bars(&rows);
        let measured: Vec<f64> = bars.iter().map(|bar| bar.measured.unwrap()).collect();
        // Of 19.5 searches that bandwidth allows, and of 18.
        for (measured, expected) in measured.iter().zip([0.0, 0.853, 0.926]) {
            assert!((measured - expected).abs() < 0.001, "{measured} {expected}");
        }
        assert_eq!(
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>(),
            [true, true, false]
        );
    }

    #[test]
    fn threads_that_hinder_each_other_contradict_the_model() {
        let rows = rows(|_, setting| 100 * setting.threads as u64);
        assert_eq!(Fig2.bars(&rows)[0].measured, Some(50.0));
        assert!(!Fig2.bars(&rows)[0].met);
        assert!(Fig2.bars(&[]).iter().all(|bar| bar.measured.is_none()));
    }

    #[test]
    fn threads_have_their_share() {
        let setting = Setting {
            share_of: Some(8),
            threads: 2,
        };
        let (far, whole) = (setting.far().unwrap(), FarMemory::OPTANE.whole());
        assert_eq!(far.scale, whole.scale);
        assert_eq!(far.random_read_gb_per_s, whole.random_read_gb_per_s / 4.0);
        assert_eq!(far.latency_ns, whole.latency_ns);
        let near = Setting {
            share_of: None,
            ..setting
        };
        assert_eq!(near.far(), None);
        assert_eq!(Setting::all(1).len(), 9);
    }

    /// Beside a cache that keeps the lines used last: 4,096 of 65,536 lines, 16 levels.
    #[test]
    fn misses_are_those_of_a_cache_of_the_lines_used_last() {
        let (levels, cached) = (16_u32, 4_096);
        let mut random = Random::new(7);
        let mut used_at = std::collections::HashMap::new();
        let mut by_use = std::collections::BTreeMap::new();
        let (mut clock, mut missed) = (0_u64, 0);
        let searches = 20_000;
        for search in 0..2 * searches {
            let place = random.below(1 << levels);
            for level in 0..levels {
                let line = (level, place >> (levels - level));
                clock += 1;
                by_use.insert(clock, line);
                match used_at.insert(line, clock) {
                    Some(before) => drop(by_use.remove(&before)),
                    None if search >= searches => missed += 1,
                    None => {}
                }
                if by_use.len() > cached {
                    let (_, oldest) = by_use.pop_first().unwrap();
                    used_at.remove(&oldest);
                }
            }
        }
        let counted = f64::from(missed) / f64::from(searches);
        let modelled = misses_of_levels(levels, cached as f64);
        assert!(
            (modelled / counted - 1.0).abs() < 0.02,
            "{modelled} {counted}"
        );
        assert_eq!(misses_of_levels(10, cached as f64), 0.0);
    }

    #[test]
    fn all_threads_answer() {
        let array = Sorted::new(1 << 16).unwrap();
        for way in Way::ALL {
            let time = searched(array.values(1 << 16), way, 2, &mut Random::new(1)).unwrap();
            assert!(time > 0);
        }
    }
}
