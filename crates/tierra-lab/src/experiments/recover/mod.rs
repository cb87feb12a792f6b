//! Experiment `recover`: how long until a database answers after a kill, how long does repair take, and what does scrubbing cost?
//!
//! A child makes a database on tmpfs and is killed while it appends, so the page cache is warm. This process opens it once per
//! repetition and kind of first answer: a row by its key, a row by a condition on a column, and an append, which must know that
//! its keys are new. Databases that lack a part show what takes the time. Then a scrub pass repairs several kinds of damage. A scrub pass at
//! full pace is compared with the memory's bandwidth, and queries beside one at a slow pace with queries alone.

mod fill;
mod opening;
mod scrubbing;

pub(super) use fill::fill_until_killed;

use self::fill::Shape;
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::progress;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::view::{Unit, View};

/// The work of the child.
pub(super) const CHILD: &str = "fill";

/// The size of the bar.
const LARGE_MIB: u64 = 10_000;

/// The experiment.
pub(super) struct Recover;

impl Experiment for Recover {
    fn name(&self) -> &'static str {
        "recover"
    }

    fn about(&self) -> &'static str {
        "how soon does a database answer after a kill, and what do repair and scrubbing cost?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let rounds = lab.size(3, 7);
        let sizes: &[u64] = lab.size(&[16, 64], &[100, 1_000, LARGE_MIB]);
        // The size at which the parts are measured.
        let parts_mib = lab.size(64, 1_000);
        let shapes = [
            Shape::NUMBERS,
            Shape {
                key: true,
                ..Shape::NUMBERS
            },
            Shape {
                words: true,
                ..Shape::NUMBERS
            },
            Shape {
                tail: true,
                ..Shape::NUMBERS
            },
        ];
        let bar = progress::bar("databases", sizes.len() + shapes.len() + 2);
        let mut rows = Vec::new();
        for shape in shapes {
            bar.set_message(format!("{parts_mib} MiB"));
            rows.extend(opening::measure(lab, shape, parts_mib, rounds)?);
            bar.inc(1);
        }
        for &mebibytes in sizes {
            bar.set_message(format!("{mebibytes} MiB"));
            rows.extend(opening::measure(lab, Shape::ALL, mebibytes, rounds)?);
            bar.inc(1);
        }
        for mebibytes in lab.size([16, 64], [100, 1_000]) {
            bar.set_message(format!("{mebibytes} MiB"));
            rows.extend(scrubbing::measure(lab, mebibytes, rounds)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new().count("rounds", rounds as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let large = LARGE_MIB.to_string();
        let answer = |kind| {
            let row = find(
                rows,
                &[
                    ("measured", "first answer"),
                    ("size_mib", &large),
                    ("answer", kind),
                ],
            )?;
            Some(row.value("until_ns")? / 1e9)
        };
        let of = |measured: &str, key: &str| {
            // The largest one.
            let rows = rows.iter().filter(|row| row.is(&[("measured", measured)]));
            rows.filter_map(|row| row.value(key)).next_back()
        };
        let mut bars: Vec<Bar> = opening::ANSWERS
            .iter()
            .map(|(name, _)| {
                let what = format!("recover: seconds to the first answer, 10 GB, {name}");
                Bar::at_most(what, 1.0, answer(name))
            })
            .collect();
        let scrub = of("scrub", "walk_ns").zip(of("scrub", "read_ns"));
        bars.push(Bar::at_least(
            "recover: scrub over the tier's read bandwidth",
            0.5,
            scrub.map(|(scrub, read)| read / scrub),
        ));
        let slowed = of("query", "beside_walk_ns").zip(of("query", "alone_ns"));
        bars.push(Bar::at_most(
            "recover: queries beside a paced scrub over queries alone",
            1.05,
            slowed.map(|(beside, alone)| beside / alone),
        ));
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 2] = [
    View {
        title: "from a kill to the first answer",
        category: "size",
        series: "answer",
        value: "until_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "repair",
        category: "size",
        series: "fault",
        value: "repair_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_are_about_the_large_database() {
        let first = |size: &str, answer: &str, ns| {
            Row::new()
                .text("measured", "first answer")
                .text("size_mib", size)
                .text("answer", answer)
                .samples("until", "ns", vec![ns])
        };
        let mut rows = vec![
            first("100", "a row by its key", 1),
            first("10000", "a row by its key", 2_000_000_000),
            first("10000", "a row by a condition", 500_000_000),
            Row::new()
                .text("measured", "scrub")
                .samples("walk", "ns", vec![100])
                .samples("read", "ns", vec![60]),
            Row::new()
                .text("measured", "query")
                .samples("beside_walk", "ns", vec![104])
                .samples("alone", "ns", vec![100]),
        ];
        let met = |rows: &[Row]| {
            let bars = Recover.bars(rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        assert_eq!(met(&rows), [false, true, false, true, true]);
        rows.push(first("10000", "an append", 999_999_999));
        assert_eq!(met(&rows), [false, true, true, true, true]);
        assert_eq!(met(&[]), [false; 5]);
    }
}
