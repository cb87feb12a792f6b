//! Residency: does a gate find out which of plain and interleaved is cheaper, wherever the data is?
//!
//! Binary searches for fresh keys in arrays from the nearest cache's size to 4 GB, with uniform and skewed keys, plain,
//! interleaved and gated in turn. The gate's time includes its probing of the other mode. All run as a statement's lookups do,
//! through the same machine code: the placement of a loop changes its time by up to a tenth from build to build, which says
//! nothing about the gate.

use std::time::Instant;

use tierra_interleave::{Cx, Execution, Gate, GroupSize, Lookups, Scheduling, in_mode, map_into};

use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::{Lab, SEED};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, distinct, find};
use crate::sorted::{Sorted, check, size_name, walk};
use crate::turns::turns;
use crate::view::{Unit, View};

/// Searches of one sample.
const SEARCHES: usize = 20_000;
const ZIPF_EXPONENT: f64 = 0.99;

const PLAIN: &str = "plain";
const INTERLEAVED: &str = "interleaved";
const GATED: &str = "gated";
const WAYS: [(&str, Scheduling); 3] = [
    (PLAIN, Scheduling::Fixed(Execution::Plain)),
    (INTERLEAVED, Scheduling::Fixed(Execution::Interleaved)),
    (GATED, Scheduling::Auto),
];

/// How keys are drawn: the name, which is the key of the view's series, and whether they are skewed.
const DRAWS: [(&str, bool); 2] = [("uniform", false), ("zipf 0.99", true)];

/// The experiment.
pub(super) struct Residency;

impl Experiment for Residency {
    fn name(&self) -> &'static str {
        "residency"
    }

    fn about(&self) -> &'static str {
        "does the gate pick the cheaper of plain and interleaved, wherever the data is?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let rounds = lab.size(3, 31);
        let sizes: Vec<usize> = (14..=lab.size(22, 32))
            .step_by(2)
            .map(|bits| 1 << bits)
            .collect();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let array = Sorted::new(largest)?;
        let mut rows = Vec::new();
        let bar = progress::bar("arrays", sizes.len() * DRAWS.len());
        for bytes in sizes {
            for (draw, skewed) in DRAWS {
                bar.set_message(size_name(bytes));
                let sorted = array.values(bytes);
                for ((way, _), samples) in WAYS.into_iter().zip(measure(sorted, skewed, rounds)?) {
                    rows.push(
                        Row::new()
                            .text("array", size_name(bytes))
                            .text("keys", draw)
                            .text(draw, way)
                            .text("way", way)
                            .count("searches", SEARCHES as u64)
                            .samples("time", "ns", samples),
                    );
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("rounds", rounds as u64)
            .count("group", GroupSize::DEFAULT.get() as u64)
            .count("page_bytes", array.page_size_bytes() as u64);
        Ok(Measured {
            tier: Tier::Real,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let bar = |draw: &str| {
            let arrays = distinct(rows, "array");
            let ratios: Option<Vec<f64>> = arrays
                .iter()
                .map(|array| {
                    let time = |way| {
                        find(rows, &[("array", array), ("keys", draw), ("way", way)])?
                            .value("time_ns")
                    };
                    Some(time(GATED)? / time(PLAIN)?.min(time(INTERLEAVED)?))
                })
                .collect();
            Bar::at_most(
                format!("residency: gated over the better mode, {draw} keys, worst array"),
                1.1,
                ratios.and_then(|ratios| ratios.into_iter().reduce(f64::max)),
            )
        };
        DRAWS.iter().map(|(draw, _)| bar(draw)).collect()
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const fn view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "array",
        series,
        value: "time_ns",
        per: Some("searches"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 2] = [
    view("a binary search, fresh keys, uniform", DRAWS[0].0),
    view("a binary search, fresh keys, zipf 0.99", DRAWS[1].0),
];

/// The samples of every way.
fn measure(sorted: &[u32], skewed: bool, rounds: usize) -> Result<[Vec<u64>; 3], LabError> {
    let mut random = Random::new(SEED);
    let gate = Gate::new(GroupSize::DEFAULT);
    let mut samples = [const { Vec::new() }; 3];
    let mut ranks = vec![usize::MAX; SEARCHES];
    for turn in turns(WAYS.len(), rounds) {
        let draw = || place(&mut random, sorted.len(), skewed) as u32;
        let keys: Vec<u32> = std::iter::repeat_with(draw).take(SEARCHES).collect();
        let (way, scheduling) = WAYS[turn.contender];
        ranks.fill(usize::MAX);
        let mut lookups = Lookups::new(scheduling);
        let start = Instant::now();
        lookups.run(&gate, SEARCHES, |execution, size, part| {
            let (keys, ranks) = (&keys[part.clone()], &mut ranks[part]);
            in_mode!(execution, M => map_into(
                size,
                keys,
                |cx: Cx<M>, &key: &u32| walk(cx, sorted, key),
                ranks,
            ))
        });
        let time_ns = start.elapsed().as_nanos() as u64;
        check(way, &keys, &ranks)?;
        if !turn.is_warm_up() {
            samples[turn.contender].push(time_ns);
        }
    }
    Ok(samples)
}

/// A position below `len`: uniform, or the n-th most likely with a probability proportional to about n to the power of
/// -0.99, with the likely ones spread over the array.
fn place(random: &mut Random, len: usize, skewed: bool) -> usize {
    if !skewed {
        return random.below(len as u64) as usize;
    }
    // The inverse of the integral that approximates the sum of probabilities.
    let power = 1.0 - ZIPF_EXPONENT;
    let sum = ((len as f64 + 1.0).powf(power) - 1.0) / power;
    let rank = (1.0 + random.fraction() * sum * power).powf(1.0 / power) - 1.0;
    let spread = (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(spread) * len as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skewed_keys_repeat_and_uniform_ones_hardly_do() {
        let distinct = |skewed| {
            let mut random = Random::new(1);
            let mut places: Vec<usize> = (0..10_000)
                .map(|_| place(&mut random, 1 << 20, skewed))
                .collect();
            assert!(places.iter().all(|&place| place < 1 << 20));
            places.sort_unstable();
            places.dedup();
            places.len()
        };
        assert!(distinct(false) > 9_900);
        assert!((1_000..8_000).contains(&distinct(true)));
    }

    #[test]
    fn the_worst_array_decides() {
        let row = |array: &str, way: &str, ns| {
            Row::new()
                .text("array", array)
                .text("keys", "uniform")
                .text("way", way)
                .samples("time", "ns", vec![ns])
        };
        let mut rows = vec![
            row("a", PLAIN, 100),
            row("a", INTERLEAVED, 200),
            row("a", GATED, 105),
            row("b", PLAIN, 900),
            row("b", INTERLEAVED, 100),
            row("b", GATED, 112),
        ];
        let bars = Residency.bars(&rows);
        assert_eq!(bars[0].measured, Some(1.12));
        assert!(!bars[0].met && bars[1].measured.is_none());
        rows.pop();
        assert!(Residency.bars(&rows)[0].measured.is_none());
    }
}
