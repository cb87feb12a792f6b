//! Figure 3.11 of the replication thesis: writes whose method is switched by a calibrated decision tree,
//! against every single method.
//!
//! The tree answers the thesis's questions in its order: what memory is it, is the write part of a transaction, does it go on where
//! the last one ended, how many replicas are there, how long is it. So there are two memories, near and emulated far, and in each of
//! them single writes and transactions. For each memory a tree is calibrated in this run, then every composition is measured again in
//! every cell. Two of them are baselines, measured once more in turn with the switch, so that none wins by chance: the best of the
//! cell, which the switch should choose, and the best single method of the memory, by the geometric mean over its cells, which it has to beat.

use std::time::Instant;

use tierra_memory::persist::Flush;
use tierra_memory::replication::{
    Composition, CopyBy, Method, MethodTree, Profile, ReplicaSet, ReplicatedUndo, SIZE_CLASSES,
    class_bytes,
};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::positions::Pattern;
use crate::progress;
use crate::random::Random;
use crate::replicas::{Copies, MEMORIES, check, emulating};
use crate::results::Tier;
use crate::row::{Row, distinct};
use crate::sorted::size_name;
use crate::stats::{geometric_mean, median};
use crate::turns::turns;
use crate::view::{Unit, View};

const REPLICAS: usize = 3;
/// Bytes that one sample writes to each copy, and its maximal number of writes.
const SAMPLE_BYTES: u64 = 512 << 10;
const SAMPLE_BYTES_QUICK: u64 = 16 << 10;
const WRITES_MOST: u64 = 500;
/// Threads, which take tens of microseconds to wake, are measured from this length.
const THREADS_FROM: u64 = 4 << 10;
/// Room for what the longest transaction overwrites.
const UNDO_BYTES: usize = 2 << 20;
const SWITCH: &str = "switched";
/// What the switch has to be, over the best single method of a memory.
const OVER_SINGLE_MAX: f64 = 0.95;
/// Single writes, and transactions of one write.
const KINDS: [(&str, bool); 2] = [("single", false), ("in transactions", true)];
const PATTERNS: [Pattern; 2] = [Pattern::Uniform, Pattern::Sequential];

/// The experiment.
pub(super) struct ReplicateSwitch;

/// What is written, and to how many copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write {
    is_transactional: bool,
    pattern: Pattern,
    replicas: usize,
    len: u64,
}

impl Write {
    /// Every kind, with that many replicas.
    fn all(replicas: usize) -> impl Iterator<Item = Write> {
        KINDS.into_iter().flat_map(move |(_, is_transactional)| {
            PATTERNS.into_iter().flat_map(move |pattern| {
                (0..SIZE_CLASSES).map(move |class| Write {
                    is_transactional,
                    pattern,
                    replicas,
                    len: class_bytes(class),
                })
            })
        })
    }

    /// The compositions that are measured.
    fn compositions(&self) -> Vec<Composition> {
        let mut all = Composition::all();
        all.retain(|one| self.len >= THREADS_FROM || !wakes(one));
        all
    }

    /// Writes of a sample of as many bytes.
    fn count(&self, sample_bytes: u64) -> u64 {
        (sample_bytes / self.len).clamp(1, WRITES_MOST)
    }

    fn row(&self, memory: &str, sample_bytes: u64) -> Row {
        let (kind, _) = KINDS[usize::from(self.is_transactional)];
        Row::new()
            .text("memory", memory)
            .text("kind", kind)
            .text("pattern", self.pattern.name())
            .text("replicas", self.replicas.to_string())
            .text("bytes", size_label(self.len))
            .count("writes", self.count(sample_bytes))
    }
}

/// The medians of every composition in one cell.
struct Singles {
    write: Write,
    times: Vec<(Composition, f64)>,
}

impl Singles {
    fn winner(&self) -> Composition {
        let best = self
            .times
            .iter()
            .min_by(|one, other| one.1.total_cmp(&other.1));
        best.expect("some were measured").0
    }
}

/// The composition of the least geometric mean, of those measured in every cell.
fn best_single(cells: &[Singles]) -> Composition {
    let mean = |one: &Composition| {
        let times = cells.iter().map(|cell| {
            let found = cell.times.iter().find(|(other, _)| other == one);
            found.map(|(_, time)| *time)
        });
        geometric_mean(times.collect::<Option<Vec<f64>>>()?)
    };
    let means = Composition::all()
        .into_iter()
        .filter_map(|one| Some((one, mean(&one)?)));
    let best = means.min_by(|one, other| one.1.total_cmp(&other.1));
    best.map_or(Composition::BASIC, |(one, _)| one)
}

impl Experiment for ReplicateSwitch {
    fn name(&self) -> &'static str {
        "replicate-switch"
    }

    fn about(&self) -> &'static str {
        "does a calibrated switch write as fast as the best method for each write, and faster than any one method?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let bytes = lab.size(4 << 20, 256 << 20);
        let flush = Flush::best().unwrap_or(Flush::Clflush);
        let copies = Copies::create(lab, 1 + REPLICAS, bytes, flush)?;
        let undo = Copies::create(lab, 1 + REPLICAS, UNDO_BYTES, flush)?;
        // Every page exists and has been written to.
        drop((copies.set(REPLICAS)?, undo.set(REPLICAS)?));
        let mut bench = Bench {
            copies,
            undo,
            rounds: lab.size(1, 3),
            again: lab.size(3, 31),
            calibrated: lab.size(1, 1 + REPLICAS),
            replicas: lab.size(vec![0, REPLICAS], (0..=REPLICAS).collect()),
            sample_bytes: lab.size(SAMPLE_BYTES_QUICK, SAMPLE_BYTES),
            random: Random::new(SEED),
            next: 0,
            number: 0,
        };
        let mut rows = Vec::new();
        let mut parameters = Row::new()
            .count("array_bytes", bytes as u64)
            .count("rounds_of_all", bench.rounds as u64)
            .count("rounds_of_the_best", bench.again as u64)
            .text("flush", flush.to_string());
        let steps = MEMORIES.len() * 2 * bench.replicas.len();
        let bar = progress::bar("numbers of replicas", steps);
        for (memory, far) in MEMORIES {
            let measured = emulating(far, || bench.memory(memory, &mut rows, || bar.inc(1)))?;
            parameters = parameters.and(measured);
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let over = |row: &Row, key: &str| Some(row.value("switched_ns")? / row.value(key)?);
        let mut ratios: Vec<f64> = rows.iter().filter_map(|row| over(row, "best_ns")).collect();
        ratios.sort_by(f64::total_cmp);
        let within = ratios.iter().filter(|ratio| **ratio <= 1.05).count() as f64;
        let share = (!ratios.is_empty()).then(|| within / ratios.len() as f64);
        let what = "the switch's time over the best method's of the same write, measured again";
        let mut bars = vec![
            Bar::at_most(
                format!("{what}: median"),
                1.02,
                ratios.get(ratios.len() / 2).copied(),
            ),
            Bar::at_least(format!("{what}: share of cells up to 1.05"), 0.95, share),
            Bar::at_most(format!("{what}: most"), 1.15, ratios.last().copied()),
        ];
        bars.extend(MEMORIES.map(|(memory, _)| {
            let cells = rows.iter().filter(|row| row.is(&[("memory", memory)]));
            let ratios: Vec<f64> = cells.filter_map(|row| over(row, "single_ns")).collect();
            Bar::at_most(
                format!(
                    "{memory}: the switch's time over the best single method's, geometric mean of all writes"
                ),
                OVER_SINGLE_MAX,
                geometric_mean(ratios),
            )
        }));
        bars.extend(MEMORIES.map(|(memory, _)| {
            let cells = rows.iter().filter(|row| row.is(&[("memory", memory)]));
            let cells: Vec<Row> = cells.cloned().collect();
            let winners = distinct(&cells, "winner").len() as f64;
            let measured = (!cells.is_empty()).then_some(winners);
            Bar::at_least(
                format!("{memory}: methods that are the best of some write"),
                3.0,
                measured,
            )
        }));
        bars
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

/// The view of a memory and a pattern: single writes to a master and three replicas.
fn figure(memory: &str, pattern: Pattern) -> String {
    format!("{memory}, {}, 3 replicas", pattern.name())
}

struct Bench {
    copies: Copies,
    /// The logs of transactions.
    undo: Copies,
    /// Rounds of all compositions, and of the switch and its baselines.
    rounds: usize,
    again: usize,
    /// Copies that the tree is calibrated for.
    calibrated: usize,
    /// Numbers of replicas.
    replicas: Vec<usize>,
    sample_bytes: u64,
    random: Random,
    next: u64,
    number: u32,
}

impl Bench {
    /// Calibrates a tree in the memory that is emulated now, and measures all cells. Returns parameters.
    fn memory(
        &mut self,
        memory: &str,
        rows: &mut Vec<Row>,
        mut progress: impl FnMut(),
    ) -> Result<Row, LabError> {
        let started = Instant::now();
        let (copies, undo) = (self.copies.members(), self.undo.members());
        let profile = Profile::measure(&copies[..self.calibrated], &undo[..self.calibrated], || ())
            .by("Tierra", "calibrating")?;
        let calibrated_ms = started.elapsed().as_millis() as u64;
        // It lives as long as the process, as in a program.
        let switch: &MethodTree = Box::leak(Box::new(profile.switch()));
        let switch = Method::Switched(switch);
        let mut cells = Vec::new();
        for replicas in self.replicas.clone() {
            let (mut set, mut undo) = self.open(replicas)?;
            for write in Write::all(replicas) {
                let all = write.compositions();
                let methods: Vec<Method> = all.iter().copied().map(Method::Always).collect();
                let samples = self.measure((&mut set, &mut undo), &methods, write, self.rounds)?;
                let medians = samples.iter().filter_map(|samples| median(samples));
                let times: Vec<(Composition, f64)> = all.into_iter().zip(medians).collect();
                if replicas == REPLICAS && !write.is_transactional {
                    let view = figure(memory, write.pattern);
                    let shown = times.iter().map(|(one, _)| one.to_string()).zip(samples);
                    let shown = shown.filter(|(name, _)| SHOWN.contains(&name.as_str()));
                    rows.extend(shown.map(|(name, samples)| {
                        write
                            .row(memory, self.sample_bytes)
                            .text(&view, name)
                            .samples("time", "ns", samples)
                    }));
                }
                cells.push(Singles { write, times });
            }
            progress();
        }
        let single = best_single(&cells);
        for replicas in self.replicas.clone() {
            let (mut set, mut undo) = self.open(replicas)?;
            for cell in cells.iter().filter(|cell| cell.write.replicas == replicas) {
                let write = cell.write;
                let methods = [
                    switch,
                    Method::Always(cell.winner()),
                    Method::Always(single),
                ];
                let samples = self.measure((&mut set, &mut undo), &methods, write, self.again)?;
                let [switched, best, single_ns] =
                    <[Vec<u64>; 3]>::try_from(samples).expect("as many as methods");
                if replicas == REPLICAS && !write.is_transactional {
                    let row = write
                        .row(memory, self.sample_bytes)
                        .text(&figure(memory, write.pattern), SWITCH);
                    rows.push(row.samples("time", "ns", switched.clone()));
                }
                let row = write
                    .row(memory, self.sample_bytes)
                    .text("winner", cell.winner().to_string())
                    .text("best_single", single.to_string())
                    .samples("switched", "ns", switched)
                    .samples("best", "ns", best)
                    .samples("single", "ns", single_ns);
                rows.push(row);
            }
            progress();
        }
        let memory = memory.replace(' ', "_");
        Ok(Row::new()
            .count(&format!("calibration_{memory}_ms"), calibrated_ms)
            .text(&format!("best_single_{memory}"), single.to_string()))
    }

    fn open(&self, replicas: usize) -> Result<(ReplicaSet, ReplicatedUndo), LabError> {
        let mut set = self.copies.set(replicas)?;
        let undo = ReplicatedUndo::open(self.undo.set(replicas)?, &mut set)
            .by("Tierra", "opening the undo log")?;
        Ok((set, undo))
    }

    /// The samples of every method, in turn.
    fn measure(
        &mut self,
        (set, undo): (&mut ReplicaSet, &mut ReplicatedUndo),
        methods: &[Method],
        write: Write,
        rounds: usize,
    ) -> Result<Vec<Vec<u64>>, LabError> {
        let mut samples = vec![Vec::with_capacity(rounds); methods.len()];
        for turn in turns(methods.len(), rounds) {
            let time_ns = self.sample(set, undo, &methods[turn.contender], write)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(time_ns);
            }
        }
        Ok(samples)
    }

    fn sample(
        &mut self,
        set: &mut ReplicaSet,
        undo: &mut ReplicatedUndo,
        method: &Method,
        write: Write,
    ) -> Result<u64, LabError> {
        let len = write.len;
        let room = set.bytes(0).len() as u64 - len;
        let places: Vec<u64> = (0..write.count(self.sample_bytes))
            .map(|_| {
                let at = match write.pattern {
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
        if write.is_transactional {
            for &at in &places {
                let mut transaction = undo.begin(set);
                transaction
                    .write(at, &content)
                    .and_then(|()| transaction.commit(method))
                    .by("Tierra", "writing in a transaction")?;
            }
        } else {
            for &at in &places {
                set.write(method, at, &content).by("Tierra", "writing")?;
            }
        }
        let time = start.elapsed();
        let last = places.last().map(|&at| at as usize);
        check(set, &method.to_string(), last, &content)?;
        Ok(time.as_nanos() as u64)
    }
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

const VIEWS: [View; 4] = [
    view(
        "a write to a master and 3 replicas, near, uniform places",
        "near, uniform, 3 replicas",
    ),
    view(
        "a write to a master and 3 replicas, near, sequential places",
        "near, sequential, 3 replicas",
    ),
    view(
        "a write to a master and 3 replicas, emulated optane, uniform places",
        "emulated optane, uniform, 3 replicas",
    ),
    view(
        "a write to a master and 3 replicas, emulated optane, sequential places",
        "emulated optane, sequential, 3 replicas",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_single_method_is_measured_everywhere_and_the_best_on_average() {
        let [by_threads, _] = Composition::THREADS;
        let once = Composition {
            waits: tierra_memory::replication::Waits::Once,
            ..Composition::BASIC
        };
        let write = Write::all(1).next().unwrap();
        let cell = |times: &[(Composition, f64)]| Singles {
            write,
            times: times.to_vec(),
        };
        let cells = [
            cell(&[
                (Composition::BASIC, 100.0),
                (once, 300.0),
                (by_threads, 1.0),
            ]),
            cell(&[(Composition::BASIC, 900.0), (once, 200.0)]),
        ];
        assert_eq!(best_single(&cells), once);
        assert_eq!(cells[0].winner(), by_threads);
    }

    #[test]
    fn a_switch_that_is_no_better_than_one_method_misses_its_bars() {
        let rows = |switched, winners: [&str; 3]| -> Vec<Row> {
            let cells = MEMORIES.iter().flat_map(|(memory, _)| {
                winners.iter().map(move |winner| {
                    Row::new()
                        .text("memory", *memory)
                        .text("winner", *winner)
                        .samples("switched", "ns", vec![switched])
                        .samples("best", "ns", vec![100])
                        .samples("single", "ns", vec![120])
                })
            });
            cells.collect()
        };
        let met = |rows: &[Row]| {
            let bars = ReplicateSwitch.bars(rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        assert_eq!(met(&rows(101, ["a", "b", "c"])), [true; 7]);
        let slow = [false, false, false, false, false, true, true];
        assert_eq!(met(&rows(120, ["a", "b", "c"])), slow);
        assert_eq!(met(&rows(101, ["a", "b", "b"]))[5..], [false, false]);
        assert!(
            ReplicateSwitch
                .bars(&[])
                .iter()
                .all(|bar| bar.measured.is_none())
        );
    }

    #[test]
    fn a_small_run_measures_both_memories_and_kinds() {
        let lab = Lab::new(true, &std::env::temp_dir()).unwrap();
        let Ok(measured) = ReplicateSwitch.run(&lab) else {
            // There is no folder in memory.
            return;
        };
        let cells = measured
            .rows
            .iter()
            .filter(|row| row.get("winner").is_some());
        let cells_of_a_memory = Write::all(0).count() * 2;
        assert_eq!(cells.count(), MEMORIES.len() * cells_of_a_memory);
        let bars = ReplicateSwitch.bars(&measured.rows);
        assert!(bars.iter().all(|bar| bar.measured.is_some()));
        for view in &VIEWS {
            assert_eq!(view.grid(&measured.rows).categories.len(), SIZE_CLASSES);
        }
    }
}
