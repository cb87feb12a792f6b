//! The transactional column store (CS TX) of the replication thesis's figures 3.2 and 3.3: what replicas add to
//! updates of 4 bytes, each a transaction of its own, ours and PMDK's.
//!
//! Undo log and array are replicated. The thesis states 240 % for three replicas on DRAM, 180 % on Optane.

use std::time::Instant;

use tierra_memory::persist::Flush;
use tierra_memory::replication::{
    Composition, CopyBy, Master, Method, ReplicaSet, ReplicatedUndo, Waits,
};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::pmdk::{Pmdk, PoolSet, Update};
use crate::positions::{Pattern, Positions};
use crate::progress;
use crate::replicas::{Copies, check};
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::turns;
use crate::view::{Unit, View};

const REPLICAS: usize = 3;
/// Updates in a sample.
const UPDATES: usize = 5_000;
/// Updates of a turn that are looked at in every copy.
const CHECKED: usize = 200;
const UNDO_BYTES: usize = 1 << 20;

/// The experiment.
pub(super) struct ReplicateTx;

/// Ours, by the cache or past it.
const METHODS: [(&str, Composition); 2] = [
    (
        "Tierra",
        Composition {
            waits: Waits::Once,
            prefetch: true,
            ..Composition::BASIC
        },
    ),
    (
        "Tierra, past the cache",
        Composition {
            waits: Waits::Once,
            copy: CopyBy::Streams,
            master: Master::Streamed,
            prefetch: false,
        },
    ),
];

impl Experiment for ReplicateTx {
    fn name(&self) -> &'static str {
        "replicate-tx"
    }

    fn about(&self) -> &'static str {
        "what do 1 to 3 replicas add to transactional 4-byte updates, ours and PMDK's?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let bytes = lab.size(8 << 20, 512 << 20);
        let rounds = lab.size(2, 11);
        let flush = Flush::best().unwrap_or(Flush::Clflush);
        let pmdk = Pmdk::compile(&lab.folder("replicate-tx")?)?;
        if pmdk.is_none() {
            println!("PMDK is not measured: {} is not installed.", Pmdk::PACKAGE);
        }
        let version = pmdk.as_ref().map_or("absent", Pmdk::version).to_owned();
        let shared = lab.folder_in_memory()?;
        let elements = bytes / size_of::<u32>();
        let drawn = lab.size(20 * UPDATES, 300 * UPDATES);
        let mut positions = Positions::draw(elements, drawn, shared.path(), SEED)?;
        let drawn_at = positions.path().to_owned();
        let create = |pmdk: &Pmdk, replicas| {
            let sizes = (lab.size(32 << 20, 1 << 30), elements);
            PoolSet::create(pmdk, shared.path(), &drawn_at, replicas, sizes)
        };
        let copies = Copies::create(lab, 1 + REPLICAS, bytes, flush)?;
        // Logs of their own, for each counts its transactions.
        let logs = [
            Copies::create(lab, 1, UNDO_BYTES, flush)?,
            Copies::create(lab, 1 + REPLICAS, UNDO_BYTES, flush)?,
        ];
        let open = |replicas: usize| -> Result<Ours, LabError> {
            let mut set = copies.set(replicas)?;
            let log = logs[usize::from(replicas > 0)].set(replicas)?;
            let undo = ReplicatedUndo::open(log, &mut set).by("Tierra", "opening the undo log")?;
            Ok(Ours { set, undo })
        };
        let mut rows = Vec::new();
        let steps = progress::bar("numbers of replicas", REPLICAS);
        for replicas in 1..=REPLICAS {
            let mut sets = match &pmdk {
                Some(pmdk) => vec![create(pmdk, 0)?, create(pmdk, replicas)?],
                None => Vec::new(),
            };
            let mut who: Vec<(&str, usize)> = Vec::new();
            who.extend(
                METHODS
                    .iter()
                    .flat_map(|(name, _)| [(*name, 0), (*name, replicas)]),
            );
            who.extend(
                [0, replicas]
                    .into_iter()
                    .take(sets.len())
                    .map(|count| (Pmdk::NAME, count)),
            );
            let points: Vec<(Pattern, (&str, usize))> = Pattern::ALL
                .into_iter()
                .flat_map(|pattern| who.iter().map(move |one| (pattern, *one)))
                .collect();
            let mut samples = vec![Vec::with_capacity(rounds); points.len()];
            let mut ours = [open(0)?, open(replicas)?];
            for (number, turn) in turns(points.len(), rounds).enumerate() {
                let (pattern, (name, count)) = points[turn.contender];
                let (from, taken) = positions.take(pattern, UPDATES);
                let value = number as u32 + 1;
                let which = usize::from(count > 0);
                let method = METHODS.iter().find(|(method, _)| *method == name);
                let time_ns = match method {
                    Some((_, composition)) => {
                        ours[which].update(&Method::Always(*composition), taken, value)?
                    }
                    None => {
                        let set = &mut sets[which];
                        let time_ns = set.update(Update::Transaction, from, UPDATES, value)?;
                        set.check(&taken[..CHECKED], value)?;
                        time_ns
                    }
                };
                if !turn.is_warm_up() {
                    samples[turn.contender].push(time_ns);
                }
            }
            let phase: Vec<Row> = points
                .iter()
                .zip(samples)
                .map(|((pattern, (name, count)), samples)| {
                    Row::new()
                        .text("pattern", pattern.name())
                        .text("who", *name)
                        .text("phase", replicas.to_string())
                        .text("replicas", count.to_string())
                        .count("updates", UPDATES as u64)
                        .samples("time", "ns", samples)
                })
                .collect();
            rows.extend(phase.iter().map(|row| shown(row, &phase)));
            steps.inc(1);
        }
        steps.finish_and_clear();
        let parameters = Row::new()
            .count("array_bytes", bytes as u64)
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
        let times = |who: &str, pattern: Pattern| {
            let identity = [
                ("pattern", pattern.name()),
                ("who", who),
                ("replicas", &REPLICAS.to_string()),
            ];
            let with = find(rows, &identity)?;
            Some(with.value("time_ns")? / baseline(with, rows)?.value("time_ns")?)
        };
        let ours = times(METHODS[0].0, Pattern::Uniform).map(|times| times - 1.0);
        vec![Bar::at_most(
            "3 replicas, transactional 4-byte updates, uniform: what they add",
            0.35,
            ours,
        )]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        [("PMDK, DRAM (paper)", 3.4), ("PMDK, Optane (paper)", 2.8)]
            .map(|(who, times)| {
                Row::new()
                    .text("uniform", who)
                    .text("replicas", "3")
                    .number("relative_time", times)
            })
            .to_vec()
    }
}

/// The same update without replicas, in the same minutes.
fn baseline<'r>(row: &Row, rows: &'r [Row]) -> Option<&'r Row> {
    let [pattern, who, phase] =
        ["pattern", "who", "phase"].map(|key| row.get(key).map(ToString::to_string));
    let identity = [
        ("pattern", pattern.as_deref()?),
        ("who", who.as_deref()?),
        ("phase", phase.as_deref()?),
        ("replicas", "0"),
    ];
    find(rows, &identity)
}

/// With the keys of the views.
fn shown(row: &Row, rows: &[Row]) -> Row {
    let text = |key: &str| row.get(key).map(ToString::to_string).unwrap_or_default();
    let times = baseline(row, rows)
        .and_then(|without| Some(row.value("time_ns")? / without.value("time_ns")?));
    match row.is(&[("replicas", "0")]) {
        true => row
            .clone()
            .text(&format!("alone {}", text("pattern")), text("who")),
        false => row
            .clone()
            .text(&text("pattern"), text("who"))
            .number("relative_time", times.unwrap_or(f64::NAN)),
    }
}

/// An array and its undo log.
struct Ours {
    set: ReplicaSet,
    undo: ReplicatedUndo,
}

impl Ours {
    /// The time of a sample's transactions; some are then looked for in every copy.
    fn update(&mut self, method: &Method, positions: &[u32], value: u32) -> Result<u64, LabError> {
        let bytes = value.to_ne_bytes();
        let start = Instant::now();
        for &position in positions {
            let mut transaction = self.undo.begin(&mut self.set);
            transaction
                .write(u64::from(position) * 4, &bytes)
                .and_then(|()| transaction.commit(method))
                .by("Tierra", "updating in a transaction")?;
        }
        let time = start.elapsed();
        let places = positions[..CHECKED].iter().map(|&at| at as usize * 4);
        check(&self.set, "a transaction", places, &bytes)?;
        Ok(time.as_nanos() as u64)
    }
}

const fn view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "replicas",
        series,
        value: "relative_time",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    }
}

const VIEWS: [View; 4] = [
    View {
        title: "4-byte transactional update of one copy, uniform positions",
        category: "phase",
        series: "alone uniform",
        value: "time_ns",
        per: Some("updates"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    view("uniform: times the update of one copy", "uniform"),
    view("binomial", "binomial"),
    view("sequential", "sequential"),
];
