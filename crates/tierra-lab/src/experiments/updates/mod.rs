//! Figures 3.2, 3.3 and 3.4 of the replication thesis: durable updates of a column store, with and without
//! transactions, and of a B+-tree, alone and with 1 to 3 replicas.
//!
//! Everything is on tmpfs treated as persistent memory, as in the thesis's "DRAM emulation"; ours is measured in emulated Optane as
//! well. The column store (CS) is an array of
//! 4-byte integers. CS TX makes each update a transaction, whose undo log has as many copies. KV is the
//! [`PersistentTree`](tierra_index::PersistentTree), whose entries are updated and inserted. The first two are compared with
//! PMDK's pool sets, if installed. Each is compared with its own update without replicas in the same minutes (a *phase* has one
//! number of replicas).

mod array;
mod tree;

use tierra_memory::persist::Flush;

use self::array::Array;
use self::tree::Tree;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::peers::pmdk::{Pmdk, PoolSet, Update};
use crate::positions::{Pattern, Positions};
use crate::progress;
use crate::replicas::{Copies, FAR, MEMORIES, NEAR, emulating, panel};
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::turns;
use crate::update_cost;
use crate::view::{Unit, View};

/// The most replicas.
const REPLICAS: usize = 3;
/// Updates in a sample.
const UPDATES: usize = 5_000;
/// Updates of a sample that are checked.
const CHECKED: usize = 200;
const OURS: &str = "Tierra";

/// The updated structure, under the thesis's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    Column,
    ColumnInTransactions,
    TreeUpdates,
    TreeInsertions,
}

impl Workload {
    const ALL: [Workload; 4] = [
        Workload::Column,
        Workload::ColumnInTransactions,
        Workload::TreeUpdates,
        Workload::TreeInsertions,
    ];

    fn name(self) -> &'static str {
        match self {
            Workload::Column => "CS",
            Workload::ColumnInTransactions => "CS TX",
            Workload::TreeUpdates => "KV, updates",
            Workload::TreeInsertions => "KV, insertions",
        }
    }

    /// The peer's form of it; the peer has no tree.
    fn of_pmdk(self) -> Option<Update> {
        match self {
            Workload::Column => Some(Update::Put),
            Workload::ColumnInTransactions => Some(Update::Transaction),
            Workload::TreeUpdates | Workload::TreeInsertions => None,
        }
    }
}

/// One contender of a phase.
#[derive(Clone, Copy, Debug)]
struct Point {
    pattern: Pattern,
    workload: Workload,
    is_ours: bool,
    replicas: usize,
}

impl Point {
    fn who(self) -> &'static str {
        match self.is_ours {
            true => OURS,
            false => Pmdk::NAME,
        }
    }
}

/// The targets of updates.
struct Places {
    elements: Positions,
    keys: Positions,
}

/// The updated structures, without replicas or with some.
struct Side {
    array: Array,
    tree: Tree,
    pmdk: Option<PoolSet>,
}

impl Side {
    /// The time of a sample's updates, some of which are then checked.
    fn sample(&mut self, point: Point, places: &mut Places, number: u32) -> Result<u64, LabError> {
        let Point {
            pattern, workload, ..
        } = point;
        let positions = match workload {
            Workload::Column | Workload::ColumnInTransactions => &mut places.elements,
            Workload::TreeUpdates | Workload::TreeInsertions => &mut places.keys,
        };
        let (from, taken) = positions.take(pattern, UPDATES);
        match (workload, &mut self.pmdk) {
            (_, Some(set)) if !point.is_ours => {
                let update = workload.of_pmdk().expect("PMDK has no such contender");
                let time_ns = set.update(update, from, UPDATES, number)?;
                set.check(&taken[..CHECKED], number)?;
                Ok(time_ns)
            }
            (Workload::Column, _) => self.array.update(taken, number),
            (Workload::ColumnInTransactions, _) => self.array.update_in_transactions(taken, number),
            (Workload::TreeUpdates, _) => self.tree.update(taken, number),
            (Workload::TreeInsertions, _) => self.tree.insert(taken),
        }
    }
}

/// The experiment.
pub(super) struct Updates;

impl Experiment for Updates {
    fn name(&self) -> &'static str {
        "updates"
    }

    fn about(&self) -> &'static str {
        "what do 1 to 3 replicas add to updates of a column, in transactions, and of a B+-tree?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let array_bytes = lab.size(8 << 20, 512 << 20);
        let elements = array_bytes / size_of::<u32>();
        let (key_bits, tree_bytes) = lab.size((15, 16 << 20), (22, 512 << 20));
        let rounds = lab.size(2, 11);
        let flush = Flush::best().unwrap_or(Flush::Clflush);
        let pmdk = Pmdk::compile(&lab.folder("updates")?)?;
        if pmdk.is_none() {
            println!("PMDK is not measured: {} is not installed.", Pmdk::PACKAGE);
        }
        let version = pmdk.as_ref().map_or("absent", Pmdk::version).to_owned();
        let [of_elements, of_keys] = [lab.folder_in_memory()?, lab.folder_in_memory()?];
        // Enough that each sample has its own positions.
        let drawn = lab.size(20, 150) * UPDATES;
        let mut places = Places {
            elements: Positions::draw(elements, drawn, of_elements.path(), SEED)?,
            keys: Positions::draw(1 << key_bits, drawn, of_keys.path(), SEED + 1)?,
        };
        let drawn_at = places.elements.path().to_owned();
        let arrays = Copies::create(lab, 1 + REPLICAS, array_bytes, flush)?;
        let pool_bytes = lab.size(32 << 20, 1 << 30);
        let side = |replicas: usize| -> Result<Side, LabError> {
            let create = |pmdk: &Pmdk| {
                let sizes = (pool_bytes, elements);
                PoolSet::create(pmdk, of_elements.path(), &drawn_at, replicas, sizes)
            };
            Ok(Side {
                array: Array::open(lab, &arrays, replicas, flush)?,
                tree: Tree::load(lab, replicas, tree_bytes, key_bits, flush)?,
                pmdk: pmdk.as_ref().map(create).transpose()?,
            })
        };
        let mut alone = side(0)?;
        let mut rows = Vec::new();
        let steps = progress::bar("numbers of replicas", REPLICAS * MEMORIES.len());
        for replicas in 1..=REPLICAS {
            let mut with = side(replicas)?;
            // A value always differs from the previous one.
            let mut number = (replicas << 16) as u32;
            for (memory, far) in MEMORIES {
                // The peer's instructions are not emulated.
                let points = points(replicas, pmdk.is_some() && memory == NEAR);
                let samples = emulating(far, || {
                    let mut samples = vec![Vec::with_capacity(rounds); points.len()];
                    for turn in turns(points.len(), rounds) {
                        let point = points[turn.contender];
                        let side = match point.replicas {
                            0 => &mut alone,
                            _ => &mut with,
                        };
                        let time_ns = side.sample(point, &mut places, number)?;
                        number += 1;
                        if !turn.is_warm_up() {
                            samples[turn.contender].push(time_ns);
                        }
                    }
                    Ok(samples)
                })?;
                let phase: Vec<Row> = points
                    .iter()
                    .zip(samples)
                    .map(|(point, samples)| row(*point, memory, replicas, samples))
                    .collect();
                rows.extend(
                    points
                        .iter()
                        .zip(&phase)
                        .map(|(point, row)| shown(*point, memory, row, &phase)),
                );
                steps.inc(1);
            }
            with.tree.check_copies()?;
        }
        alone.tree.check_copies()?;
        steps.finish_and_clear();
        rows.extend(update_cost::measure(lab, &arrays)?);
        let parameters = Row::new()
            .count("array_bytes", array_bytes as u64)
            .count("tree_keys", 1 << key_bits)
            .count("updates_in_a_sample", UPDATES as u64)
            .count("rounds", rounds as u64)
            .text("flush", flush.to_string())
            .text("pmdk", version);
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let bar = |workload: Workload, what: &str| {
            let identity = [
                ("memory", NEAR),
                ("pattern", Pattern::Uniform.name()),
                ("workload", workload.name()),
                ("who", OURS),
                ("replicas", &REPLICAS.to_string()),
            ];
            let with = find(rows, &identity);
            let times = with.and_then(|with| times(with, rows));
            let what = format!("3 replicas, {what}, uniform: what they add");
            Bar::at_most(what, 0.35, times.map(|times| times - 1.0))
        };
        vec![
            update_cost::bar(rows),
            bar(
                Workload::ColumnInTransactions,
                "transactional 4-byte updates",
            ),
            bar(Workload::TreeUpdates, "updates of a B+-tree"),
            bar(Workload::TreeInsertions, "insertions into a B+-tree"),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        // Section 3.1.2: figure 3.3, by clflushopt, and figure 3.4's "within 100 % a replica".
        let row = |pattern: &str, who: &str, what: &str, times: f64| {
            Row::new()
                .text(pattern, who)
                .text("shown", what)
                .number("relative_time", times)
        };
        let (dram, optane) = ("PMDK, DRAM (paper)", "PMDK, Optane (paper)");
        let [uniform, sequential] = [Pattern::Uniform, Pattern::Sequential].map(Pattern::name);
        let far = &panel(uniform, FAR);
        let mut rows = vec![
            row(uniform, dram, "CS TX, 3 replicas", 3.4),
            row(far, optane, "CS TX, 3 replicas", 2.8),
            row(uniform, dram, "KV, updates, 3 replicas", 2.5),
            row(far, optane, "KV, updates, 3 replicas", 3.0),
        ];
        for replicas in 1..=REPLICAS {
            let what = label(Workload::Column, replicas);
            let times = replicas as f64;
            rows.push(row(uniform, dram, &what, 1.0 + 1.9 * times));
            rows.push(row(far, optane, &what, 1.0 + 3.3 * times));
            rows.push(row(sequential, dram, &what, 1.0 + times));
        }
        rows
    }
}

/// A phase's contenders.
fn points(replicas: usize, has_pmdk: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for pattern in Pattern::ALL {
        for workload in Workload::ALL {
            for is_ours in [true, false] {
                if is_ours || (has_pmdk && workload.of_pmdk().is_some()) {
                    points.extend([0, replicas].map(|replicas| Point {
                        pattern,
                        workload,
                        is_ours,
                        replicas,
                    }));
                }
            }
        }
    }
    points
}

fn row(point: Point, memory: &str, phase: usize, samples: Vec<u64>) -> Row {
    Row::new()
        .text("memory", memory)
        .text("pattern", point.pattern.name())
        .text("workload", point.workload.name())
        .text("who", point.who())
        .text("phase", phase.to_string())
        .text("replicas", point.replicas.to_string())
        .count("updates", UPDATES as u64)
        .samples("time", "ns", samples)
}

/// The factor over the update without replicas, in the same minutes.
fn times(row: &Row, rows: &[Row]) -> Option<f64> {
    let keys = ["memory", "pattern", "workload", "who", "phase"];
    let own = keys.map(|key| row.get(key).map(ToString::to_string).unwrap_or_default());
    let mut identity = vec![("replicas", "0")];
    identity.extend(keys.into_iter().zip(own.iter().map(String::as_str)));
    Some(row.value("time_ns")? / find(rows, &identity)?.value("time_ns")?)
}

/// The row with the keys of the views.
fn shown(point: Point, memory: &str, row: &Row, rows: &[Row]) -> Row {
    let pattern = panel(point.pattern.name(), memory);
    match point.replicas {
        0 if row.is(&[("phase", &REPLICAS.to_string())]) => {
            row.clone().text(&format!("alone {pattern}"), point.who())
        }
        0 => row.clone(),
        replicas => row
            .clone()
            .text(&pattern, point.who())
            .text("shown", label(point.workload, replicas))
            .number("relative_time", times(row, rows).unwrap_or(f64::NAN)),
    }
}

fn label(workload: Workload, replicas: usize) -> String {
    match replicas {
        1 => format!("{}, 1 replica", workload.name()),
        _ => format!("{}, {replicas} replicas", workload.name()),
    }
}

const fn alone(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "workload",
        series,
        value: "time_ns",
        per: Some("updates"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const fn replicated(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "shown",
        series,
        value: "relative_time",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    }
}

const VIEWS: [View; 13] = [
    update_cost::VIEW,
    alone(
        "an update of one copy, uniform (figure 3.2)",
        "alone uniform",
    ),
    alone("an update of one copy, binomial", "alone binomial"),
    alone("an update of one copy, sequential", "alone sequential"),
    replicated(
        "uniform: times the update of one copy (figure 3.3)",
        "uniform",
    ),
    replicated("binomial: times the update of one copy", "binomial"),
    replicated(
        "sequential: times the update of one copy (figure 3.4)",
        "sequential",
    ),
    alone(
        "an update of one copy in emulated Optane, uniform (figure 3.2)",
        "alone uniform, emulated optane",
    ),
    alone(
        "an update of one copy in emulated Optane, binomial",
        "alone binomial, emulated optane",
    ),
    alone(
        "an update of one copy in emulated Optane, sequential",
        "alone sequential, emulated optane",
    ),
    replicated(
        "emulated Optane, uniform: times the update of one copy there (figure 3.3)",
        "uniform, emulated optane",
    ),
    replicated("emulated Optane, binomial", "binomial, emulated optane"),
    replicated(
        "emulated Optane, sequential (figure 3.4)",
        "sequential, emulated optane",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_about_updates_of_one_phase() {
        let rows: Vec<Row> = [(1, 0, 500), (3, 0, 100), (3, 3, 130)]
            .into_iter()
            .flat_map(|(phase, replicas, time_ns)| {
                Workload::ALL.map(|workload| {
                    let point = Point {
                        pattern: Pattern::Uniform,
                        workload,
                        is_ours: true,
                        replicas,
                    };
                    row(point, NEAR, phase, vec![time_ns])
                })
            })
            .collect();
        for bar in &Updates.bars(&rows)[1..] {
            assert!((bar.measured.unwrap() - 0.3).abs() < 1e-9, "{bar:?}");
        }
        assert!(
            Updates
                .bars(&rows[..8])
                .iter()
                .all(|bar| bar.measured.is_none())
        );
    }

    #[test]
    fn a_small_run_shows_every_contender() {
        let lab = Lab::new(true, &std::env::temp_dir()).unwrap();
        let Ok(measured) = Updates.run(&lab) else {
            // There is no folder in memory.
            return;
        };
        let ours = measured.rows.iter().filter(|row| row.is(&[("who", OURS)]));
        assert_eq!(
            ours.count(),
            REPLICAS * MEMORIES.len() * 2 * Workload::ALL.len() * Pattern::ALL.len()
        );
        assert!(
            Updates
                .bars(&measured.rows)
                .iter()
                .all(|bar| bar.measured.is_some())
        );
        assert!(
            VIEWS
                .iter()
                .all(|view| !view.grid(&measured.rows).categories.is_empty())
        );
    }
}
