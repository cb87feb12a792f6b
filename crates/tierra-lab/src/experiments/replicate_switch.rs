//! Figure 3.11 of the replication thesis: writes whose method is switched by a calibrated decision tree,
//! against every single method.
//!
//! The tree is calibrated in the same run. Then, for each pattern, number of replicas and size of a write, every composition is
//! measured again. The winner is measured once more in turn with the switch, so that it does not win by chance.

use std::time::Instant;

use tierra_memory::persist::Flush;
use tierra_memory::replication::{
    Composition, CopyBy, Method, Profile, ReplicaSet, SIZE_CLASSES, class_bytes,
};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::positions::Pattern;
use crate::progress;
use crate::random::Random;
use crate::replicas::{Copies, check};
use crate::results::Tier;
use crate::row::Row;
use crate::sorted::size_name;
use crate::stats;
use crate::turns::turns;
use crate::view::{Unit, View};

const REPLICAS: usize = 3;
/// Bytes that one sample writes to each copy, and its maximal number of writes.
const SAMPLE_BYTES: u64 = 512 << 10;
const WRITES_MOST: u64 = 500;
/// Threads, which take tens of microseconds to wake, are measured from this length.
const THREADS_FROM: u64 = 4 << 10;
const SWITCH: &str = "switched";
/// The figure's view, of three replicas.
const FIGURE: [&str; 2] = ["uniform, 3 replicas", "sequential, 3 replicas"];

/// The experiment.
pub(super) struct ReplicateSwitch;

impl Experiment for ReplicateSwitch {
    fn name(&self) -> &'static str {
        "replicate-switch"
    }

    fn about(&self) -> &'static str {
        "does a calibrated switch write as fast as the best method for each write?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let bytes = lab.size(4 << 20, 256 << 20);
        let (rounds, again) = (lab.size(1, 3), lab.size(3, 31));
        let flush = Flush::best().unwrap_or(Flush::Clflush);
        let copies = Copies::create(lab, 1 + REPLICAS, bytes, flush)?;
        // Every page exists and has been written to.
        drop(copies.set(REPLICAS)?);
        let started = Instant::now();
        let measured = lab.size(1, 1 + REPLICAS);
        let profile = Profile::measure(&copies.members()[..measured], &[], || ());
        let profile = profile.by("Tierra", "calibrating")?;
        let calibrated_ms = started.elapsed().as_millis() as u64;
        // It lives as long as the process, as in a program.
        let switch = Method::Switched(Box::leak(Box::new(profile.switch())));
        let compositions = Composition::all();
        let mut bench = Bench {
            random: Random::new(SEED),
            next: 0,
            number: 0,
        };
        let mut rows = Vec::new();
        let bar = progress::bar("numbers of replicas", 1 + REPLICAS);
        for replicas in 0..=REPLICAS {
            let mut set = copies.set(replicas)?;
            for pattern in [Pattern::Uniform, Pattern::Sequential] {
                for class in 0..SIZE_CLASSES {
                    let len = class_bytes(class);
                    let mut measure = |methods: &[Method], rounds| {
                        bench.measure(&mut set, methods, pattern, len, rounds)
                    };
                    let all = compositions.iter().copied();
                    let all = all.filter(|one| len >= THREADS_FROM || !wakes(one));
                    let all: Vec<Method> = all.map(Method::Always).collect();
                    let singles = measure(&all, rounds)?;
                    let medians = singles.iter().map(|one| stats::median(one));
                    let winner = medians
                        .enumerate()
                        .min_by(|one, other| one.1.partial_cmp(&other.1).expect("finite"))
                        .map_or(all[0], |(index, _)| all[index]);
                    let [switched, single] =
                        <[Vec<u64>; 2]>::try_from(measure(&[switch, winner], again)?)
                            .expect("as many as methods");
                    let cell = || {
                        Row::new()
                            .text("pattern", pattern.name())
                            .text("replicas", replicas.to_string())
                            .text("bytes", size_label(len))
                            .count("writes", writes(len))
                    };
                    rows.push(
                        cell()
                            .text("winner", winner.to_string())
                            .samples("switched", "ns", switched.clone())
                            .samples("single", "ns", single),
                    );
                    if replicas == REPLICAS {
                        let view = FIGURE[usize::from(pattern == Pattern::Sequential)];
                        let shown = all.iter().map(ToString::to_string).zip(singles);
                        let shown = [(SWITCH.to_owned(), switched)].into_iter().chain(shown);
                        rows.extend(
                            shown
                                .filter(|(name, _)| SHOWN.contains(&name.as_str()))
                                .map(|(name, samples)| {
                                    cell().text(view, name).samples("time", "ns", samples)
                                }),
                        );
                    }
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("array_bytes", bytes as u64)
            .count("rounds_of_all", rounds as u64)
            .count("rounds_of_the_winner", again as u64)
            .count("calibration_ms", calibrated_ms)
            .text("flush", flush.to_string());
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let ratio = |row: &Row| Some(row.value("switched_ns")? / row.value("single_ns")?);
        let mut ratios: Vec<f64> = rows.iter().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let within = ratios.iter().filter(|ratio| **ratio <= 1.05).count() as f64;
        let share = (!ratios.is_empty()).then(|| within / ratios.len() as f64);
        let what = "the switch's time over the best single method's, measured again";
        vec![
            Bar::at_most(
                format!("{what}: median"),
                1.02,
                ratios.get(ratios.len() / 2).copied(),
            ),
            Bar::at_least(format!("{what}: share of cells up to 1.05"), 0.95, share),
            Bar::at_most(format!("{what}: most"), 1.15, ratios.last().copied()),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

/// The methods of the thesis's figure, and our additions.
const SHOWN: [&str; 9] = [
    SWITCH,
    "basic",
    "SF+PF",
    "SF+SCA+PF",
    "SF+MOVNT+POST",
    "SF+MOVNT+NTM",
    "SF+MOVNT+PF+NTM",
    "Threads",
    "Threads+MOVNT+NTM",
];

fn wakes(composition: &Composition) -> bool {
    matches!(composition.copy, CopyBy::Threads(_))
}

struct Bench {
    random: Random,
    next: u64,
    number: u32,
}

impl Bench {
    /// The samples of every method, in turn.
    fn measure(
        &mut self,
        set: &mut ReplicaSet,
        methods: &[Method],
        pattern: Pattern,
        len: u64,
        rounds: usize,
    ) -> Result<Vec<Vec<u64>>, LabError> {
        let mut samples = vec![Vec::with_capacity(rounds); methods.len()];
        for turn in turns(methods.len(), rounds) {
            let time_ns = self.sample(set, &methods[turn.contender], pattern, len)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(time_ns);
            }
        }
        Ok(samples)
    }

    fn sample(
        &mut self,
        set: &mut ReplicaSet,
        method: &Method,
        pattern: Pattern,
        len: u64,
    ) -> Result<u64, LabError> {
        let room = set.bytes(0).len() as u64 - len;
        let places: Vec<u64> = (0..writes(len))
            .map(|_| {
                let at = match pattern {
                    Pattern::Sequential => self.next,
                    _ => self.random.below(room / 4 + 1) * 4,
                };
                let at = if at > room { 0 } else { at };
                self.next = at + len;
                at
            })
            .collect();
        self.number += 1;
        let content: Vec<u8> = (0..len)
            .map(|at| (at as u32 + self.number * 7) as u8)
            .collect();
        let start = Instant::now();
        for &at in &places {
            set.write(method, at, &content).by("Tierra", "writing")?;
        }
        let time = start.elapsed();
        let last = places.last().map(|&at| at as usize);
        check(set, &method.to_string(), last, &content)?;
        Ok(time.as_nanos() as u64)
    }
}

fn writes(len: u64) -> u64 {
    (SAMPLE_BYTES / len).clamp(1, WRITES_MOST)
}

fn size_label(len: u64) -> String {
    if len < 1024 {
        format!("{len} B")
    } else {
        size_name(len as usize)
    }
}

const fn view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "bytes",
        series,
        value: "time_ns",
        per: Some("writes"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 2] = [
    view(
        "a write to a master and 3 replicas, uniform places",
        FIGURE[0],
    ),
    view(
        "a write to a master and 3 replicas, sequential places",
        FIGURE[1],
    ),
];
