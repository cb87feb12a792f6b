//! The numbers stated by the thesis, and the same relations on this machine.
//!
//! Its figures are drawings; its text (sections 2.2.1 to 2.2.3) states relations. Each is computed from samples of the same
//! round. The thesis ran 24 and 48 threads, this lab two.

use crate::bar::Bar;
use crate::row::{Cell, Row, find};

/// One, in millionths.
const PPM: f64 = 1e6;
/// How many times more or less than stated a relation of emulated memory may be.
const APART_MAX: f64 = 1.5;

/// `over` relates to `under` as the thesis says.
struct Relation {
    name: &'static str,
    stated: f64,
    over: (&'static str, &'static str),
    under: (&'static str, &'static str),
}

/// Who measured a relation.
const HERE: &str = "here";
const NEAR: &str = "near, 2";
const FAR: &str = "emulated optane, 2";

const fn relation(
    name: &'static str,
    stated: f64,
    over: (&'static str, &'static str),
    under: (&'static str, &'static str),
) -> Relation {
    Relation {
        name,
        stated,
        over,
        under,
    }
}

const RELATIONS: [Relation; 12] = [
    relation(
        "read in order: near to far",
        3.0,
        ("read in order", NEAR),
        ("read in order", FAR),
    ),
    relation(
        "read at random: near to far",
        3.0,
        ("read at random", NEAR),
        ("read at random", FAR),
    ),
    relation(
        "read near: at random to in order",
        0.02,
        ("read at random", NEAR),
        ("read in order", NEAR),
    ),
    relation(
        "read far: at random to in order",
        0.02,
        ("read at random", FAR),
        ("read in order", FAR),
    ),
    relation(
        "near in order: write to read",
        0.75,
        ("write in order", NEAR),
        ("read in order", NEAR),
    ),
    relation(
        "far in order: write to read",
        0.2,
        ("write in order", FAR),
        ("read in order", FAR),
    ),
    relation(
        "near at random: write to read",
        0.75,
        ("write at random", NEAR),
        ("read at random", NEAR),
    ),
    relation(
        "far at random: write to read",
        0.42,
        ("write at random", FAR),
        ("read at random", FAR),
    ),
    relation(
        "write near: at random to in order",
        0.025,
        ("write at random", NEAR),
        ("write in order", NEAR),
    ),
    relation(
        "write far: at random to in order",
        0.05,
        ("write at random", FAR),
        ("write in order", FAR),
    ),
    relation(
        "latency near: remote to local",
        1.6,
        ("", "emulated remote near"),
        ("", "near"),
    ),
    relation(
        "latency far: remote to local",
        1.2,
        ("", "emulated remote optane"),
        ("", "emulated optane"),
    ),
];

/// The relations as the thesis states them.
pub(super) fn stated() -> Vec<Row> {
    let row = |relation: &Relation| {
        Row::new()
            .text("relation", relation.name)
            .text("who", "thesis (paper)")
            .count("one_ppm", PPM as u64)
            .number("ratio_ppm", relation.stated * PPM)
    };
    RELATIONS.iter().map(row).collect()
}

/// The relations as measured, round by round.
pub(super) fn here(rows: &[Row]) -> Vec<Row> {
    let row = |relation: &Relation| {
        let (over, under) = (
            samples(rows, relation.over)?,
            samples(rows, relation.under)?,
        );
        let ratios = over
            .iter()
            .zip(under)
            .map(|(over, under)| (*over as f64 / *under as f64 * PPM).round() as u64);
        Some(
            Row::new()
                .text("relation", relation.name)
                .text("who", HERE)
                .text("tier", "emulated beside real")
                .count("one_ppm", PPM as u64)
                .samples("ratio", "ppm", ratios.collect()),
        )
    };
    RELATIONS.iter().filter_map(row).collect()
}

/// A bar for each relation of which a side is emulated; the others are the machine's.
pub(super) fn bars(rows: &[Row]) -> Vec<Bar> {
    let is_emulated = |relation: &&Relation| {
        let sides = [relation.over, relation.under];
        sides.iter().any(|(_, place)| place.contains("emulated"))
    };
    let bar = |relation: &Relation| {
        let here = find(rows, &[("relation", relation.name), ("who", HERE)]);
        let ratio = here.and_then(|row| row.value("ratio_ppm"));
        let apart = ratio.map(|ratio| ratio / PPM / relation.stated);
        Bar::at_most(
            format!(
                "{}: times more or less than the {} stated",
                relation.name, relation.stated
            ),
            APART_MAX,
            apart.map(|apart| apart.max(1.0 / apart)),
        )
    };
    RELATIONS.iter().filter(is_emulated).map(bar).collect()
}

/// The samples of a pattern somewhere, or of a latency.
fn samples<'a>(rows: &'a [Row], (pattern, place): (&str, &str)) -> Option<&'a [u64]> {
    let (row, key) = match pattern {
        "" => (find(rows, &[("latency_of", place)])?, "time_ns"),
        _ => (
            find(rows, &[("pattern", pattern), ("where", place)])?,
            "bytes_per_s",
        ),
    };
    match row.get(key)? {
        Cell::Samples(samples) => Some(samples),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relation_of_emulated_memory_that_is_off_misses_its_bar() {
        let rows = |times: f64| -> Vec<Row> {
            let row = |relation: &Relation| {
                let ratio = (relation.stated * times * PPM) as u64;
                Row::new()
                    .text("relation", relation.name)
                    .text("who", HERE)
                    .samples("ratio", "ppm", vec![ratio])
            };
            RELATIONS.iter().map(row).collect()
        };
        let of_the_machine = 4;
        assert_eq!(bars(&rows(1.0)).len(), RELATIONS.len() - of_the_machine);
        assert!(bars(&rows(1.4)).iter().all(|bar| bar.met));
        assert!(bars(&rows(0.7)).iter().all(|bar| bar.met));
        assert!(bars(&rows(1.6)).iter().all(|bar| !bar.met));
        assert!(bars(&rows(0.6)).iter().all(|bar| !bar.met));
        // The thesis's own rows are no measurement.
        assert!(bars(&stated()).iter().all(|bar| bar.measured.is_none()));
    }
}
