//! Access modes: what does it take to read a database in place, and what in frames that are filled from a mapping or a file?
//!
//! All queries of TPC-H and of SSB on data of which nothing is copied near. Frames are empty when a query begins, as in the paper, whose
//! systems start cold. Each mode answers on a file in memory, as near memory is and while Optane is emulated with all of its
//! bandwidth, and on a file of the disk, whose pages the page cache has or has not. The processor's time is that of the whole
//! process, which does nothing else. Waiting for emulated memory is part of it, and is counted by itself, too.
//!
//! [`misses`] counts last-level misses beside that.
//!
//! Source: Mustafa et al., SAMOS 2016, figures 4 to 6: PostgreSQL reading a disk, persistent memory through a file system, by a
//! copy from a mapping (SE1), and in place (SE2).

mod benchmark;
mod media;
mod misses;
mod modes;

use std::time::Instant;

use tierra_data::Scale;
use tierra_memory::emulation;
use tierra_memory::measure::CpuTime;

use self::benchmark::Benchmark;
use self::media::{FRAME_BYTES, Medium, Stores};
pub(super) use self::misses::{AccessMisses, query};
use self::modes::{AHEAD, ALONE, AUTO, BUFFERED, DIRECT, HELPED, IN_PLACE, MAPPED, Mode};
use super::{Experiment, Measured};
use crate::answer::{Answer, Reference, Tolerance};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::peers::datafusion::InMemory;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::stats::geometric_mean;
use crate::turns::turns;
use crate::view::{Unit, View};

/// Queries whose time in the kernel the paper found to fall.
const FEWER_SYSTEM_CALLS: [&str; 13] = [
    "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q12", "q15", "q19",
];

const VIEWS: [View; 6] = [
    View {
        title: "time of a query over that with frames filled by read(), far (figure 5)",
        category: "query",
        series: "access",
        value: "over_buffered",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    },
    View {
        title: "time of a query on a file of the disk, over that with frames filled by read() from far memory",
        category: "query",
        series: "access in memory",
        value: "over_far_buffered",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    },
    View {
        title: "time of a query in place with lines asked for ahead, over that without, far",
        category: "query",
        series: "access",
        value: "over_in_place",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    },
    View {
        title: "time of a query on one thread in place with a helper on the spare core, over that without, far",
        category: "query",
        series: "access",
        value: "over_alone",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    },
    View {
        title: "time in the kernel, over the processor's time with frames filled by read(), far (figure 4)",
        category: "query",
        series: "access",
        value: "kernel_over_buffered",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "what the processor's time goes to, over all of it with frames filled by read(), far (figure 6)",
        category: "query",
        series: "access and part",
        value: "part_over_buffered",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
];

/// The experiment with one benchmark at one scale.
pub(super) struct AccessModes {
    name: &'static str,
    about: &'static str,
    benchmark: Benchmark,
    /// The scale of a quick run, and that of a full one.
    scales: [f64; 2],
    rounds: usize,
    /// Rounds, for each of all modes, of those that a scan reads by by default: a bar asks which of them is faster by 5 %, and medians of
    /// seven scatter as much. [`DIRECT`] is left out: it is the slowest by far.
    more_rounds: usize,
    /// Whether prefetching and helpers are measured beside the modes.
    with_prefetching: bool,
}

impl AccessModes {
    /// TPC-H at scale 1.
    pub(super) const TPCH: AccessModes = AccessModes {
        name: "access",
        about: "what does reading in place save over frames that are filled from a mapping or by read(), on TPC-H?",
        benchmark: Benchmark::Tpch,
        scales: [0.02, 1.0],
        rounds: 7,
        more_rounds: 4,
        with_prefetching: true,
    };
    /// TPC-H at scale 10.
    pub(super) const TPCH_10: AccessModes = AccessModes {
        name: "access-10",
        about: "the same on ten times as many rows: what does reading in place save there?",
        scales: [0.01, 10.0],
        rounds: 3,
        more_rounds: 1,
        with_prefetching: false,
        ..AccessModes::TPCH
    };
    /// SSB at scale 1.
    pub(super) const SSB: AccessModes = AccessModes {
        name: "access-ssb",
        about: "the same on the Star Schema Benchmark: what does reading in place save there?",
        benchmark: Benchmark::Ssb,
        scales: [0.01, 1.0],
        ..AccessModes::TPCH
    };

    /// The modes that are compared on a medium.
    fn modes(&self, medium: Medium) -> Vec<Mode> {
        let modes = medium.modes().iter().copied();
        let is_measured = |mode: &Mode| self.with_prefetching || mode.is_plain();
        modes.filter(is_measured).collect()
    }
}

impl Experiment for AccessModes {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let [quick, full] = self.scales;
        let scale = Scale::new(lab.size(quick, full)).by("the generator", "choosing a scale")?;
        let rounds = lab.size(1, self.rounds);
        let more_rounds = rounds * self.more_rounds;
        let queries = self.benchmark.queries();
        let files = lab.folder("access-files")?;
        let mut stores = Stores::create(lab)?;
        let tables = self
            .benchmark
            .write(scale, &files, |file| stores.load(file))?;
        stores.settle()?;
        let schemas = InMemory::schemas(&tables).by("DataFusion", "planning")?;
        let mut rows = Vec::new();
        let bar = progress::bar("queries", queries.len() * Medium::ALL.len());
        for (name, sql) in &queries {
            let order = lab.runtime().block_on(schemas.order(sql));
            let order = order.by("DataFusion", format!("planning {name}"))?;
            let mut reference = None;
            let mut of_query = Vec::new();
            for medium in Medium::ALL {
                // Opening a database anew for each sample takes longest.
                if lab.is_quick() && medium == Medium::ColdFile && *name != queries[0].0 {
                    continue;
                }
                bar.set_message(format!("{name}, {}", medium.name()));
                of_query.extend(stores.during(medium, |stores| {
                    measure(
                        lab,
                        stores,
                        name,
                        sql,
                        (medium, &self.modes(medium)),
                        &order,
                        &mut reference,
                        (rounds, more_rounds),
                    )
                })?);
                bar.inc(1);
            }
            let ratios = ratios(&of_query, name);
            rows.extend(of_query.into_iter().chain(ratios));
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .number("scale", scale.factor())
            .count("rounds", rounds as u64)
            .count("more_rounds", more_rounds as u64)
            .count("frame_bytes", FRAME_BYTES)
            .and(stores.of(Medium::Near).describe());
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let name = self.name;
        let data_set = format!("{name}: {}", self.benchmark.name());
        let over = over_buffered(rows);
        let (framed, cells) = framed_cells(rows);
        let bar = |of: &str, bar, measured: Option<f64>| {
            let what =
                format!("{data_set} in place over frames filled by read(), emulated optane, {of}");
            Bar::at_most(what, bar, measured)
        };
        let all = || over.iter().copied();
        let mut bars = vec![
            bar("geometric mean", 0.92, geometric_mean(all())),
            bar("best query", 0.83, all().reduce(f64::min)),
            bar("worst query", 1.02, all().reduce(f64::max)),
            Bar::at_least(
                format!(
                    "{name}: cells (query and medium) in which auto takes at most 1.05 of the best fixed mode's time; it was not always in place in {framed} of {cells}"
                ),
                0.95,
                auto_within(rows, 1.05),
            ),
        ];
        if self.benchmark == Benchmark::Tpch {
            bars.push(Bar::at_most(
                format!(
                    "{name}: time in the kernel for far memory, in place over frames filled by read(), 13 queries"
                ),
                0.10,
                system_time(rows),
            ));
        }
        if self.with_prefetching {
            bars.push(Bar::at_most(
                format!(
                    "{data_set} in place, the best distance of prefetching over none, emulated optane, geometric mean"
                ),
                0.95,
                best_of(rows, &AHEAD, IN_PLACE, Medium::Far),
            ));
            bars.push(Bar::at_most(
                format!(
                    "{data_set} in place on one thread, the best distance of a helper over none, emulated optane, geometric mean"
                ),
                0.95,
                best_of(rows, &HELPED, ALONE, Medium::Far),
            ));
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        if self.benchmark != Benchmark::Tpch {
            return Vec::new();
        }
        // Section 4: against PostgreSQL on a file system of persistent memory.
        let stated = |query: &str, access: &str, over| {
            Row::new()
                .text("query", query)
                .text("access", access)
                .number("over_buffered", over)
        };
        vec![
            stated("q11", "in-place (paper)", 0.856),
            stated("q15", "in-place (paper)", 0.881),
            stated("q19", "in-place (paper)", 0.914),
            stated("mean", "in-place (paper)", 0.955),
            stated("mean", "mapped (paper)", 1.03),
            // Their later figures (arXiv 2502.09431), of helper threads.
            stated("mean", "in-place, a helper (paper)", 0.92),
            stated("best", "in-place, a helper (paper)", 0.83),
            Row::new()
                .text("query", "mean")
                .text("access in memory", "buffered, disk (paper)")
                // In place takes 0.795 of the time on a disk, and 0.955 of that on a file system of persistent memory.
                .number("over_far_buffered", 0.955 / 0.795),
        ]
    }
}

/// A query on one medium in all of its modes by turns, each answer compared with the first of all.
#[expect(
    clippy::too_many_arguments,
    reason = "what one measurement of the experiment is made of"
)]
fn measure(
    lab: &Lab,
    stores: &mut Stores,
    name: &str,
    sql: &str,
    (medium, modes): (Medium, &[Mode]),
    order: &[usize],
    reference: &mut Option<Reference>,
    (rounds, more_rounds): (usize, usize),
) -> Result<Vec<Row>, LabError> {
    let mut samples = Vec::from_iter(modes.iter().map(|_| Samples::default()));
    let has_more = |mode: &usize| modes[*mode].is_plain() && modes[*mode] != DIRECT;
    let with_more = Vec::from_iter((0..modes.len()).filter(has_more));
    let more = turns(with_more.len(), more_rounds).filter(|turn| !turn.is_warm_up());
    let more = more.map(|turn| (with_more[turn.contender], false));
    let all = turns(modes.len(), rounds).map(|turn| (turn.contender, turn.is_warm_up()));
    for (contender, is_warm_up) in all.chain(more) {
        let mode = modes[contender];
        stores.prepare(lab, medium, mode)?;
        let tierra = stores.of(medium);
        let stalled_before = emulation::stalled_ns();
        let (cpu, start) = (CpuTime::now(), Instant::now());
        let (batches, work) = lab.runtime().block_on(tierra.query_with_work(sql))?;
        let time_ns = start.elapsed().as_nanos() as u64;
        let cpu = CpuTime::now().since(cpu);
        let stalled_ns = emulation::stalled_ns() - stalled_before;
        let answer = Answer::of(&batches).by("Arrow", "showing an answer")?;
        let who = in_memory(mode, medium);
        match reference {
            Some(reference) => answer.check(name, &who, reference, Tolerance::EXACT_DECIMALS)?,
            None => {
                let order = order.to_vec();
                *reference = Some(Reference { who, answer, order });
            }
        }
        if !is_warm_up {
            let samples = &mut samples[contender];
            samples.times.push(time_ns);
            samples.user.push(cpu.user_ns);
            samples.system.push(cpu.system_ns);
            samples.stalled.push(stalled_ns);
            samples.copied.push(work.bytes_copied);
        }
    }
    let rows = modes.iter().zip(samples);
    let row = |(mode, samples): (&Mode, Samples)| {
        let row = Row::new()
            .text("query", name)
            .text("access", mode.to_string())
            .text("memory", medium.name())
            .text("access in memory", in_memory(*mode, medium))
            .samples("time", "ns", samples.times)
            .number("user_ns", mean(&samples.user))
            .number("system_ns", mean(&samples.system))
            .number("stalled_ns", mean(&samples.stalled))
            .number("copied_bytes", mean(&samples.copied));
        match *mode == AUTO {
            true => row.text(CHOSEN, chosen(&samples.copied)),
            false => row,
        }
    };
    Ok(rows.map(row).collect())
}

/// What a mode took in its measured turns, in their order.
#[derive(Default)]
struct Samples {
    times: Vec<u64>,
    /// Of the processor, in the process and in the kernel.
    user: Vec<u64>,
    system: Vec<u64>,
    /// Of that in the process: waiting for emulated memory, all threads together.
    stalled: Vec<u64>,
    /// Bytes copied into frames.
    copied: Vec<u64>,
}

/// What `auto` read by, as its rows say.
const CHOSEN: &str = "chosen";
const CHOSEN_IN_PLACE: &str = "in place";

/// What `auto` read by in its turns: what it copied says whether it was in frames.
fn chosen(copied: &[u64]) -> &'static str {
    let framed = copied.iter().filter(|bytes| **bytes > 0).count();
    match framed {
        0 => CHOSEN_IN_PLACE,
        all if all == copied.len() => "frames",
        _ => "both",
    }
}

fn in_memory(mode: Mode, medium: Medium) -> String {
    format!("{mode}, {}", medium.name())
}

/// The ratios of a query that views show.
fn ratios(rows: &[Row], query: &str) -> Vec<Row> {
    let over = |key: &str, (mode, medium): (Mode, Medium), of: (Mode, Medium)| {
        let ratio = match medium == of.1 {
            true => over(rows, query, medium, mode, of.0)?,
            // One medium was measured after the other: no round has both.
            false => time(rows, query, medium, mode)? / time(rows, query, of.1, of.0)?,
        };
        let row = Row::new().text("query", query).number(key, ratio);
        Some(match key {
            "over_far_buffered" => row.text("access in memory", in_memory(mode, medium)),
            _ => row.text("access", mode.to_string()),
        })
    };
    let far = |mode| (mode, Medium::Far);
    let mut ratios = Vec::new();
    for mode in [IN_PLACE, MAPPED, AUTO] {
        ratios.push(over("over_buffered", far(mode), far(BUFFERED)));
    }
    for mode in HELPED {
        ratios.push(over("over_alone", far(mode), far(ALONE)));
    }
    for mode in AHEAD {
        ratios.push(over("over_in_place", far(mode), far(IN_PLACE)));
    }
    for medium in [Medium::WarmFile, Medium::ColdFile] {
        for mode in medium.modes() {
            ratios.push(over("over_far_buffered", (*mode, medium), far(BUFFERED)));
        }
    }
    let mut ratios: Vec<Row> = ratios.into_iter().flatten().collect();
    ratios.extend(parts(rows, query).into_iter().flatten());
    ratios
}

/// The processor's time of a query in far memory and what it goes to, over all of it with frames filled by `read()`.
fn parts(rows: &[Row], query: &str) -> Option<Vec<Row>> {
    let of = |mode: Mode, key: &str| cell(rows, query, Medium::Far, mode, key);
    let all_ns = of(BUFFERED, "user_ns")? + of(BUFFERED, "system_ns")?;
    let mut parts = Vec::new();
    for mode in [BUFFERED, MAPPED, IN_PLACE] {
        let (user_ns, system_ns) = (of(mode, "user_ns")?, of(mode, "system_ns")?);
        let stalled_ns = of(mode, "stalled_ns")?;
        parts.push(
            Row::new()
                .text("query", query)
                .text("access", mode.to_string())
                .number("kernel_over_buffered", system_ns / all_ns),
        );
        // The paper draws the two that it compares.
        if mode == MAPPED {
            continue;
        }
        for (part, ns) in [
            ("computing", (user_ns - stalled_ns).max(0.0)),
            ("stalled", stalled_ns),
            ("kernel", system_ns),
        ] {
            parts.push(
                Row::new()
                    .text("query", query)
                    .text("access and part", format!("{mode}, {part}"))
                    .number("part_over_buffered", ns / all_ns),
            );
        }
    }
    Some(parts)
}

/// The processor's time is counted in ticks, of which a short query has few: means say more than medians.
fn mean(samples: &[u64]) -> f64 {
    samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64
}

fn row<'a>(rows: &'a [Row], query: &str, medium: Medium, mode: Mode) -> Option<&'a Row> {
    let mode = mode.to_string();
    find(
        rows,
        &[
            ("query", query),
            ("access", &mode),
            ("memory", medium.name()),
        ],
    )
}

fn cell(rows: &[Row], query: &str, medium: Medium, mode: Mode, key: &str) -> Option<f64> {
    row(rows, query, medium, mode)?.value(key)
}

fn time(rows: &[Row], query: &str, medium: Medium, mode: Mode) -> Option<f64> {
    cell(rows, query, medium, mode, "time_ns")
}

/// What a mode takes over another one on a medium, in the rounds in which both had a turn.
fn over(rows: &[Row], query: &str, medium: Medium, mode: Mode, of: Mode) -> Option<f64> {
    row(rows, query, medium, mode)?.over(row(rows, query, medium, of)?, "time_ns")
}

/// In place over buffered, far, of every query; empty if one was not measured.
fn over_buffered(rows: &[Row]) -> Vec<f64> {
    let ratio = |query: &String| over(rows, query, Medium::Far, IN_PLACE, BUFFERED);
    let found: Option<Vec<f64>> = distinct(rows, "query").iter().map(ratio).collect();
    found.unwrap_or_default()
}

/// The best of some modes over another, by the geometric mean of all queries.
fn best_of(rows: &[Row], modes: &[Mode], base: Mode, medium: Medium) -> Option<f64> {
    let over = |mode: &Mode| {
        let ratio = |query: &String| over(rows, query, medium, *mode, base);
        let all: Option<Vec<f64>> = distinct(rows, "query").iter().map(ratio).collect();
        geometric_mean(all?)
    };
    let over: Option<Vec<f64>> = modes.iter().map(over).collect();
    over?.into_iter().reduce(f64::min)
}

/// The share of queries and media in which auto takes at most so many times what each fixed mode takes in the same rounds.
fn auto_within(rows: &[Row], times: f64) -> Option<f64> {
    let queries = distinct(rows, "query");
    let cells = queries
        .iter()
        .flat_map(|query| Medium::ALL.map(|medium| (query, medium)));
    let within = cells.map(|(query, medium)| {
        let over = |fixed| over(rows, query, medium, AUTO, fixed);
        let over: Option<Vec<f64>> = medium.fixed().map(over).collect();
        Some(over?.into_iter().all(|over| over <= times))
    });
    let within = within.collect::<Option<Vec<bool>>>()?;
    let met = within.iter().filter(|met| **met).count();
    (!within.is_empty()).then(|| met as f64 / within.len() as f64)
}

/// How many queries and media auto did not always read in place, and how many there are.
fn framed_cells(rows: &[Row]) -> (usize, usize) {
    let chosen = rows.iter().filter_map(|row| row.get(CHOSEN));
    let chosen = Vec::from_iter(chosen.map(|chosen| chosen.to_string()));
    let framed = chosen
        .iter()
        .filter(|chosen| chosen.as_str() != CHOSEN_IN_PLACE);
    (framed.count(), chosen.len())
}

/// What far memory adds to the time in the kernel, in place over buffered, summed over the paper's queries.
fn system_time(rows: &[Row]) -> Option<f64> {
    let added = |mode: Mode| -> Option<f64> {
        let mut queries = FEWER_SYSTEM_CALLS.iter();
        let all: Option<Vec<f64>> = queries
            .by_ref()
            .map(|query| {
                // Everything near: nothing is copied, whatever the mode.
                let near = cell(rows, query, Medium::Near, IN_PLACE, "system_ns")?;
                Some(cell(rows, query, Medium::Far, mode, "system_ns")? - near)
            })
            .collect();
        Some(all?.iter().sum())
    };
    let (in_place, buffered) = (added(IN_PLACE)?, added(BUFFERED)?);
    // Without calls to save there is nothing to compare.
    (buffered > 0.0).then(|| in_place.max(0.0) / buffered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(in_place_ns: u64, system_ns: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for (query, _) in Benchmark::Tpch.queries() {
            for medium in Medium::ALL {
                for mode in medium.modes() {
                    let is_in_place = [IN_PLACE, AUTO].contains(mode) || HELPED.contains(mode);
                    let time_ns = if is_in_place { in_place_ns } else { 1_000 };
                    let system = match (medium, is_in_place) {
                        (Medium::Far, true) => 10.0 + system_ns,
                        (Medium::Far, false) => 110.0,
                        _ => 10.0,
                    };
                    let row = Row::new()
                        .text("query", query)
                        .text("access", mode.to_string())
                        .text("memory", medium.name())
                        .samples("time", "ns", vec![time_ns; 3])
                        .number("user_ns", 300.0)
                        .number("system_ns", system)
                        .number("stalled_ns", 100.0);
                    rows.push(match (*mode == AUTO, medium) {
                        (true, Medium::ColdFile) => row.text(CHOSEN, chosen(&[0, 1])),
                        (true, _) => row.text(CHOSEN, chosen(&[0, 0])),
                        (false, _) => row,
                    });
                }
            }
        }
        rows
    }

    #[test]
    fn bars_compare_in_place_with_buffered_on_far_memory() {
        let met =
            |rows: &[Row]| Vec::from_iter(AccessModes::TPCH.bars(rows).iter().map(|bar| bar.met));
        assert_eq!(
            met(&rows(800, 5.0)),
            [true, true, true, true, true, false, true]
        );
        assert_eq!(
            met(&rows(1_100, 50.0)),
            [false, false, false, false, false, true, false]
        );
        assert_eq!(met(&[]), [false; 7]);
        let others = [AccessModes::TPCH_10, AccessModes::SSB];
        let bars = others.map(|other| other.bars(&[]).len());
        assert_eq!(bars, [5, 6]);
    }

    #[test]
    fn what_auto_chose_stands_beside_its_bar() {
        let cases = [([0, 0], "in place"), ([5, 6], "frames"), ([0, 6], "both")];
        for (copied, expected) in cases {
            assert_eq!(chosen(&copied), expected);
        }
        let bars = AccessModes::TPCH.bars(&rows(800, 5.0));
        assert!(bars[3].what.ends_with("in 22 of 88"), "{}", bars[3].what);
    }

    #[test]
    fn parts_of_the_processors_time_are_over_all_of_it_buffered() {
        let ratios = ratios(&rows(800, 5.0), "q1");
        let part = |part: &str| {
            let row = find(&ratios, &[("access and part", part)])?;
            row.value("part_over_buffered")
        };
        // Buffered takes 300 in the process and 110 in the kernel.
        assert_eq!(part("buffered, computing"), Some(200.0 / 410.0));
        assert_eq!(part("buffered, stalled"), Some(100.0 / 410.0));
        assert_eq!(part("in-place, kernel"), Some(15.0 / 410.0));
        let kernel = ratios
            .iter()
            .filter(|row| row.get("kernel_over_buffered").is_some());
        assert_eq!(kernel.count(), 3);
    }
}
