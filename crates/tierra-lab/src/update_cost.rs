//! What three replicas add to a durable update of 4 bytes: one quantity, measured in one way by every experiment that states it.
//!
//! An update of a uniform position misses on its line, and on the entry of the page table that leads to it, in every copy. What replicas
//! add is mostly how much more these misses take. That depends on the size of the array, on what ran before, and on what neighbours
//! do with cache and memory: `replicate` alone has said 7, 14 and 42 % in different hours. The length of a sample, and how the loop
//! was compiled, make no difference. So here there are only two contenders, in turns, on arrays of one size: the array alone and the
//! same with its replicas. Before each sample come many updates of its kind that do not count: the caches hold what they hold in a
//! program of such updates.

use tierra_memory::replication::{Composition, Method, ReplicaSet, Waits};

use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::positions::{Pattern, Positions};
use crate::replicas::{Copies, check, update};
use crate::row::{Row, find};
use crate::steady;
use crate::view::{Unit, View};

/// Replicas beside the array.
const REPLICAS: usize = 3;
/// Updates of a sample: so few that it is rarely interrupted.
const UPDATES: usize = 2_000;
const UPDATES_QUICK: usize = 500;
/// Samples' worth of updates before each: together they meet most lines of an array's page table.
const BEFORE: usize = 20;
/// Updates of a sample that are checked in every copy.
const CHECKED: usize = 100;
/// What the replicas may make of the time.
const TIMES_MAX: f64 = 1.3;
/// The key of these rows.
const WRITTEN: &str = "written";
const ALONE: &str = "the array alone";
const REPLICATED: &str = "the array and 3 replicas";

/// The methods of a program that does not calibrate.
const METHODS: [Method; 2] = [
    Method::Always(Composition {
        waits: Waits::Once,
        ..Composition::BASIC
    }),
    Method::Always(Composition {
        waits: Waits::Once,
        prefetch: true,
        ..Composition::BASIC
    }),
];

/// Measures it on the first of these copies.
///
/// # Errors
/// Copies that cannot be opened or written, or do not hold what was written.
pub fn measure(lab: &Lab, copies: &Copies) -> Result<Vec<Row>, LabError> {
    let updates = lab.size(UPDATES_QUICK, UPDATES);
    let rounds = lab.size(2, 41);
    let mut sets = [copies.set(0)?, copies.set(REPLICAS)?];
    let elements = sets[0].bytes(0).len() / size_of::<u32>();
    let folder = lab.folder_in_memory()?;
    let drawn = (BEFORE + 1) * updates * sets.len() * (1 + rounds);
    let mut positions = Positions::draw(elements, drawn, folder.path(), SEED)?;
    let mut value = 0;
    let sampled = steady::in_turns(
        sets.len(),
        rounds,
        |at| {
            // The value always differs from the previous one.
            value += 1;
            let mut run = |positions: &mut Positions| {
                let (_, taken) = positions.take(Pattern::Uniform, updates);
                sample(&mut sets[at], &METHODS[at], taken, value)
            };
            for _ in 0..BEFORE {
                run(&mut positions)?;
            }
            run(&mut positions)
        },
        |&time_ns| time_ns,
    )?;
    let rows = [ALONE, REPLICATED].into_iter().zip(sampled);
    let rows = rows.map(|(written, sampled)| {
        let row = Row::new()
            .text(WRITTEN, written)
            .text("update", "4 bytes, uniform")
            .count("updates", updates as u64);
        sampled.mark(row.samples("time", "ns", sampled.samples.clone()))
    });
    Ok(rows.collect())
}

fn sample(
    set: &mut ReplicaSet,
    method: &Method,
    taken: &[u32],
    value: u32,
) -> Result<u64, LabError> {
    let time_ns = update(set, method, taken, value)?;
    let places = taken[..CHECKED].iter().map(|&at| at as usize * 4);
    check(set, &method.to_string(), places, &value.to_ne_bytes())?;
    Ok(time_ns)
}

/// The bar, the same in every experiment.
pub fn bar(rows: &[Row]) -> Bar {
    let each = |written| {
        let row = find(rows, &[(WRITTEN, written)])?;
        Some(row.value("time_ns")? / row.value("updates")?)
    };
    let times = each(REPLICATED).zip(each(ALONE));
    Bar::at_most(
        "durable 4-byte update with 3 replicas, uniform: time over that of the array alone",
        TIMES_MAX,
        times.map(|(replicated, alone)| replicated / alone),
    )
}

/// Both times.
pub const VIEW: View = View {
    title: "a durable update of 4 bytes, among updates of its kind alone",
    category: "update",
    series: WRITTEN,
    value: "time_ns",
    per: Some("updates"),
    unit: Unit::Nanoseconds,
    mean: false,
};

#[cfg(test)]
mod tests {
    use tierra_memory::persist::Flush;

    use super::*;

    #[test]
    fn the_bar_can_be_missed_and_is_not_met_by_nothing() {
        let row = |written, updates, time_ns| {
            Row::new()
                .text(WRITTEN, written)
                .count("updates", updates)
                .samples("time", "ns", vec![time_ns])
        };
        let alone = row(ALONE, 10, 1_000);
        let bar_of = |replicated| bar(&[alone.clone(), replicated]);
        assert!(bar_of(row(REPLICATED, 10, 1_300)).met);
        assert!(!bar_of(row(REPLICATED, 10, 1_310)).met);
        assert!(
            bar_of(row(REPLICATED, 5, 600)).met,
            "times are of one update"
        );
        assert!(!bar_of(row(REPLICATED, 10, 1_000).refused()).met);
        assert_eq!(bar(&[]).measured, None);
    }

    #[test]
    fn a_small_run_has_both_and_a_bar() {
        let lab = Lab::new(true, &std::env::temp_dir()).unwrap();
        let flush = Flush::best().unwrap_or(Flush::Clflush);
        let Ok(copies) = Copies::create(&lab, 1 + REPLICAS, 1 << 20, flush) else {
            // There is no folder in memory.
            return;
        };
        let rows = measure(&lab, &copies).unwrap();
        assert!(bar(&rows).measured.is_some());
        assert_eq!(VIEW.grid(&rows).series.len(), 2);
    }
}
