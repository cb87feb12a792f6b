//! Access modes: what does it take to read a database in place, and what in frames that are filled from a mapping or a file?
//!
//! All 22 queries of TPC-H on data that lies far as a whole, on a file in memory. Frames are empty when a query begins, as in the
//! paper, whose systems start cold. Each mode answers with near memory as it is, and while Optane is emulated with all of its
//! bandwidth. The processor's time is that of the whole process, which does nothing else.
//!
//! Source: Mustafa et al., SAMOS 2016, figures 4 to 6: PostgreSQL reading persistent memory through a file system, by a copy
//! from a mapping (SE1), and in place (SE2).

use std::fmt;
use std::time::Instant;

use tierra_data::{Part, Scale, Source, tpch};
use tierra_engine::Access;
use tierra_memory::CopyMethod;
use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::measure::CpuTime;

use super::{Experiment, Measured};
use crate::answer::{Answer, Reference, Tolerance};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::dataset::write_parquet;
use crate::error::{Context, LabError};
use crate::lab::{Lab, THREADS};
use crate::peers::datafusion::InMemory;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::stats::geometric_mean;
use crate::turns::turns;
use crate::view::{Unit, View};

/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;
/// Bytes of the frames.
const FRAME_BYTES: u64 = 64 << 20;

const NEAR: &str = "near";
const FAR: &str = "emulated optane";
/// The memories, and what is emulated: one server's modules, with all of their bandwidth.
const MEMORIES: [(&str, Option<FarMemory>); 2] =
    [(NEAR, None), (FAR, Some(FarMemory::OPTANE.whole()))];

/// How scans read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode {
    access: Access,
    /// Lines of the next block that are asked for ahead.
    lines: usize,
    /// Blocks that a helper is ahead.
    helper_blocks: usize,
    /// Threads of a query: with one, the other core is spare for a helper.
    threads: usize,
}

const IN_PLACE: Mode = in_place(0);
const MAPPED: Mode = of(Access::Framed(CopyMethod::Mapped));
const BUFFERED: Mode = of(Access::Framed(CopyMethod::Buffered));
const AUTO: Mode = of(Access::Auto);
/// In place on one thread, without and with a helper.
const ALONE: Mode = helped(0);
const HELPED: [Mode; 4] = [helped(1), helped(2), helped(4), helped(8)];
/// In place, asking for lines ahead.
const AHEAD: [Mode; 3] = [in_place(4), in_place(16), in_place(64)];
/// The file lies in memory, which cannot be read past the page cache.
const MODES: [Mode; 12] = [
    IN_PLACE, AHEAD[0], AHEAD[1], AHEAD[2], MAPPED, BUFFERED, AUTO, ALONE, HELPED[0], HELPED[1],
    HELPED[2], HELPED[3],
];

const fn of(access: Access) -> Mode {
    Mode {
        access,
        lines: 0,
        helper_blocks: 0,
        threads: THREADS,
    }
}

const fn in_place(lines: usize) -> Mode {
    Mode {
        lines,
        ..of(Access::InPlace)
    }
}

const fn helped(helper_blocks: usize) -> Mode {
    Mode {
        helper_blocks,
        threads: 1,
        ..of(Access::InPlace)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.access.fmt(f)?;
        if self.lines > 0 {
            write!(f, ", {} lines ahead", self.lines)?;
        }
        if self.threads == 1 {
            f.write_str(", one thread")?;
        }
        match self.helper_blocks {
            0 => Ok(()),
            1 => f.write_str(", a helper a block ahead"),
            blocks => write!(f, ", a helper {blocks} blocks ahead"),
        }
    }
}

/// Queries whose time in the kernel the paper found to fall.
const FEWER_SYSTEM_CALLS: [&str; 13] = [
    "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q12", "q15", "q19",
];

const VIEWS: [View; 5] = [
    View {
        title: "time of a query over that with frames filled by read()",
        category: "query",
        series: "access",
        value: "over_buffered",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    },
    View {
        title: "time of a query in place with lines asked for ahead, over that without, near",
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
        title: "time in the kernel",
        category: "query",
        series: "access in memory",
        value: "system_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "time in the process",
        category: "query",
        series: "access in memory",
        value: "user_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
];

/// The experiment.
pub(super) struct AccessModes;

impl Experiment for AccessModes {
    fn name(&self) -> &'static str {
        "access"
    }

    fn about(&self) -> &'static str {
        "what does reading in place save over frames that are filled from a mapping or by read(), on TPC-H?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scale = Scale::new(lab.size(0.02, 1.0)).by("the generator", "choosing a scale")?;
        let rounds = lab.size(1, 7);
        let files = lab.folder("access-files")?;
        let folder = lab.folder_in_memory()?;
        let tierra = Tierra::create_far(&folder.path().join("db"))?;
        tierra.database().frames().set(FRAME_BYTES);
        let mut tables = Vec::new();
        for table in tpch::Table::ALL {
            let batches = table.generate(scale, Part::WHOLE, BATCH_ROWS);
            let file = write_parquet(&files, table.name(), &table.schema(), batches)?;
            tierra.load(&file)?;
            tables.push(file);
        }
        tierra.settle()?;
        let schemas = InMemory::schemas(&tables).by("DataFusion", "planning")?;
        let mut rows = Vec::new();
        let bar = progress::bar("queries", tpch::QUERIES.len() * MEMORIES.len());
        for (memory, far) in MEMORIES {
            for (name, sql) in tpch::QUERIES {
                bar.set_message(format!("{name}, {memory}"));
                let order = lab.runtime().block_on(schemas.order(sql));
                let order = order.by("DataFusion", format!("planning {name}"))?;
                emulation::set(far).by("the emulation", "emulating")?;
                let measured = measure(lab, &tierra, name, sql, memory, order, rounds);
                emulation::set(None).by("the emulation", "ending it")?;
                rows.extend(measured?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .number("scale", scale.factor())
            .count("rounds", rounds as u64)
            .count("frame_bytes", FRAME_BYTES)
            .and(tierra.describe());
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let over = over_buffered(rows);
        let bar = |of: &str, bar, measured: Option<f64>| {
            let what = format!(
                "access: TPC-H in place over frames filled by read(), emulated optane, {of}"
            );
            Bar::at_most(what, bar, measured)
        };
        let all = || over.iter().copied();
        vec![
            bar("geometric mean", 0.92, geometric_mean(all())),
            bar("best query", 0.83, all().reduce(f64::min)),
            bar("worst query", 1.02, all().reduce(f64::max)),
            Bar::at_most(
                "access: time in the kernel for far memory, in place over frames filled by read(), 13 queries",
                0.10,
                system_time(rows),
            ),
            Bar::at_most(
                "access: TPC-H in place, the best distance of prefetching over none, near, geometric mean",
                0.95,
                best_of(rows, &AHEAD, IN_PLACE, NEAR),
            ),
            Bar::at_most(
                "access: TPC-H in place on one thread, the best distance of a helper over none, emulated optane, geometric mean",
                0.95,
                best_of(rows, &HELPED, ALONE, FAR),
            ),
            Bar::at_least(
                "access: cells (query and memory) in which auto takes at most 1.05 of the best fixed mode's time",
                0.95,
                auto_within(rows, 1.05),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 4: against PostgreSQL on a file system of persistent memory.
        let stated = |query: &str, over| {
            Row::new()
                .text("query", query)
                .text("access", "in-place (paper)")
                .number("over_buffered", over)
        };
        vec![
            stated("q11", 0.856),
            stated("q15", 0.881),
            stated("q19", 0.914),
            stated("mean", 0.955),
        ]
    }
}

/// A query in all modes by turns, each answer compared.
fn measure(
    lab: &Lab,
    tierra: &Tierra,
    name: &str,
    sql: &str,
    memory: &str,
    order: Vec<usize>,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let runtime = lab.runtime();
    let ask = || -> Result<Answer, LabError> {
        let batches = runtime.block_on(tierra.query(sql))?;
        Answer::of(&batches).by("Arrow", "showing an answer")
    };
    set(lab, tierra, IN_PLACE)?;
    let reference = Reference {
        who: IN_PLACE.to_string(),
        answer: ask()?,
        order,
    };
    let mut samples = MODES.map(|_| [const { Vec::<u64>::new() }; 3]);
    for turn in turns(MODES.len(), rounds) {
        let mode = MODES[turn.contender];
        set(lab, tierra, mode)?;
        tierra.database().frames().clear();
        let (cpu, start) = (CpuTime::now(), Instant::now());
        let batches = runtime.block_on(tierra.query(sql))?;
        let time_ns = start.elapsed().as_nanos() as u64;
        let cpu = CpuTime::now().since(cpu);
        let answer = Answer::of(&batches).by("Arrow", "showing an answer")?;
        answer.check(name, &mode.to_string(), &reference, Tolerance::ROUNDED)?;
        if !turn.is_warm_up() {
            let [times, user, system] = &mut samples[turn.contender];
            times.push(time_ns);
            user.push(cpu.user_ns);
            system.push(cpu.system_ns);
        }
    }
    let mut rows: Vec<Row> = MODES
        .iter()
        .zip(samples)
        .map(|(mode, [times, user, system])| {
            Row::new()
                .text("query", name)
                .text("access", mode.to_string())
                .text("memory", memory)
                .text("access in memory", format!("{mode}, {memory}"))
                .samples("time", "ns", times)
                .number("user_ns", mean(&user))
                .number("system_ns", mean(&system))
        })
        .collect();
    let times = MODES.map(|mode| Some((mode, time(&rows, name, memory, mode)?)));
    let time_of = |mode: Mode| times.iter().flatten().find(|(other, _)| *other == mode);
    let mut ratios = |modes: &[Mode], of: Mode, key: &str| {
        for mode in modes {
            if let (Some((_, time)), Some((_, base))) = (time_of(*mode), time_of(of)) {
                rows.push(
                    Row::new()
                        .text("query", name)
                        .text("access", mode.to_string())
                        .number(key, time / base),
                );
            }
        }
    };
    match memory {
        FAR => {
            ratios(&[IN_PLACE, MAPPED, AUTO], BUFFERED, "over_buffered");
            ratios(&HELPED, ALONE, "over_alone");
        }
        // The emulation lets no line of a block wait but by its bandwidth.
        _ => ratios(&AHEAD, IN_PLACE, "over_in_place"),
    }
    Ok(rows)
}

fn set(lab: &Lab, tierra: &Tierra, mode: Mode) -> Result<(), LabError> {
    let Mode {
        access,
        lines,
        helper_blocks,
        threads,
    } = mode;
    for sql in [
        format!("SET tierra.access = '{access}'"),
        format!("SET tierra.prefetch_lines = {lines}"),
        format!("SET tierra.helper_blocks = {helper_blocks}"),
        format!("SET tierra.threads = {threads}"),
    ] {
        let done = lab.runtime().block_on(tierra.session().sql(&sql));
        done.map(drop)
            .by(Tierra::ENGINE, format!("running {sql}"))?;
    }
    Ok(())
}

/// The processor's time is counted in ticks, of which a short query has few: means say more than medians.
fn mean(samples: &[u64]) -> f64 {
    samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64
}

fn cell(rows: &[Row], query: &str, memory: &str, mode: Mode, key: &str) -> Option<f64> {
    let mode = mode.to_string();
    find(
        rows,
        &[("query", query), ("access", &mode), ("memory", memory)],
    )?
    .value(key)
}

fn time(rows: &[Row], query: &str, memory: &str, mode: Mode) -> Option<f64> {
    cell(rows, query, memory, mode, "time_ns")
}

/// In place over buffered, far, of every query; empty if one was not measured.
fn over_buffered(rows: &[Row]) -> Vec<f64> {
    let ratio = |query: &String| {
        Some(time(rows, query, FAR, IN_PLACE)? / time(rows, query, FAR, BUFFERED)?)
    };
    let found: Option<Vec<f64>> = distinct(rows, "query").iter().map(ratio).collect();
    found.unwrap_or_default()
}

/// The best of some modes over another, by the geometric mean of all queries.
fn best_of(rows: &[Row], modes: &[Mode], base: Mode, memory: &str) -> Option<f64> {
    let over = |mode: &Mode| {
        let ratio = |query: &String| {
            Some(time(rows, query, memory, *mode)? / time(rows, query, memory, base)?)
        };
        let all: Option<Vec<f64>> = distinct(rows, "query").iter().map(ratio).collect();
        geometric_mean(all?)
    };
    let over: Option<Vec<f64>> = modes.iter().map(over).collect();
    over?.into_iter().reduce(f64::min)
}

/// The share of queries and memories in which auto takes at most so many times what the best fixed mode takes.
fn auto_within(rows: &[Row], times: f64) -> Option<f64> {
    let queries = distinct(rows, "query");
    let cells = queries
        .iter()
        .flat_map(|query| MEMORIES.map(|(memory, _)| (query, memory)));
    let within = cells.map(|(query, memory)| {
        let fixed = [IN_PLACE, MAPPED, BUFFERED].map(|mode| time(rows, query, memory, mode));
        let best = fixed.into_iter().collect::<Option<Vec<f64>>>()?;
        let best = best.into_iter().reduce(f64::min)?;
        Some(time(rows, query, memory, AUTO)? <= best * times)
    });
    let within = within.collect::<Option<Vec<bool>>>()?;
    let met = within.iter().filter(|met| **met).count();
    (!within.is_empty()).then(|| met as f64 / within.len() as f64)
}

/// What far memory adds to the time in the kernel, in place over buffered, summed over the paper's queries.
fn system_time(rows: &[Row]) -> Option<f64> {
    let added = |mode: Mode| -> Option<f64> {
        let mut queries = FEWER_SYSTEM_CALLS.iter();
        let all: Option<Vec<f64>> = queries
            .by_ref()
            .map(|query| {
                // Everything near: nothing is copied, whatever the mode.
                let near = cell(rows, query, NEAR, IN_PLACE, "system_ns")?;
                Some(cell(rows, query, FAR, mode, "system_ns")? - near)
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
        for (query, _) in tpch::QUERIES {
            for (memory, _) in MEMORIES {
                for mode in MODES {
                    let is_in_place = [IN_PLACE, AUTO].contains(&mode) || HELPED.contains(&mode);
                    let time_ns = if is_in_place { in_place_ns } else { 1_000 };
                    let system = match (memory, is_in_place) {
                        (NEAR, _) => 10.0,
                        (_, true) => 10.0 + system_ns,
                        (_, false) => 110.0,
                    };
                    rows.push(
                        Row::new()
                            .text("query", query)
                            .text("access", mode.to_string())
                            .text("memory", memory)
                            .samples("time", "ns", vec![time_ns; 3])
                            .number("system_ns", system),
                    );
                }
            }
        }
        rows
    }

    #[test]
    fn bars_compare_in_place_with_buffered_on_far_memory() {
        let met = |rows: &[Row]| Vec::from_iter(AccessModes.bars(rows).iter().map(|bar| bar.met));
        assert_eq!(
            met(&rows(800, 5.0)),
            [true, true, true, true, false, true, true]
        );
        assert_eq!(
            met(&rows(1_100, 50.0)),
            [false, false, false, false, true, false, false]
        );
        assert_eq!(met(&[]), [false; 7]);
    }
}
