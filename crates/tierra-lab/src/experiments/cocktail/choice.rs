//! How well the product chooses levels: its own choice against each level and mix that was measured beside it, round by round.

use super::levels::{self, AGAIN, AUTO};
use super::queries;
use crate::row::{Row, distinct};
use crate::stats::quantile_of;

/// Cells of one kind.
struct Kind {
    /// Their key.
    cell: &'static str,
    /// The key of their contenders.
    contender: &'static str,
    /// The key of the contenders' samples.
    samples: &'static str,
    /// Whether these are rates; else times.
    are_rates: bool,
}

const KINDS: [Kind; 2] = [
    Kind {
        cell: levels::CELL,
        contender: levels::LEVELS,
        samples: levels::RATE,
        are_rates: true,
    },
    Kind {
        cell: queries::SWITCHED,
        contender: queries::LEVEL,
        samples: "time_ns",
        are_rates: false,
    },
];

/// The product's choice in a cell.
struct Compared {
    /// Its speed over that of the best contender, and over the best level alone, in the median of the rounds.
    over_best: f64,
    over_uniform: f64,
    /// Down to this, a level is as fast as itself: in half of the rounds it differs less.
    noise: f64,
}

impl Kind {
    /// The speed of one contender over another's, by round.
    fn over(&self, one: &Row, other: &Row) -> Option<Vec<f64>> {
        match self.are_rates {
            true => one.ratios(other, self.samples),
            false => other.ratios(one, self.samples),
        }
    }

    /// The fastest of some contenders.
    fn fastest<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Option<&'a Row> {
        let speeds = rows.filter_map(|row| {
            let value = row.value(self.samples)?;
            Some((row, if self.are_rates { value } else { -value }))
        });
        let most = speeds.max_by(|(_, one), (_, other)| one.total_cmp(other));
        most.map(|(row, _)| row)
    }

    fn compared(&self, rows: &[Row], cell: &str) -> Option<Compared> {
        let is_measured =
            |row: &&Row| row.is(&[(self.cell, cell)]) && row.get(self.samples).is_some();
        let name = |row: &Row| row.get(self.contender).map(ToString::to_string);
        let of_cell = rows.iter().filter(is_measured);
        let named = of_cell.filter_map(|row| Some((name(row)?, row)));
        let named = Vec::from_iter(named);
        let find = |name: &str| named.iter().find(|(other, _)| other == name);
        let (_, auto) = find(AUTO)?;
        let again = named.iter();
        let mut again = again.filter_map(|(name, row)| Some((name.strip_suffix(AGAIN)?, *row)));
        let (widest, again) = again.next()?;
        let (_, widest) = find(widest)?;
        let others = named.iter().filter(|(name, _)| name != AUTO);
        let others = others.filter(|(name, _)| !name.ends_with(AGAIN));
        let others = others.map(|(_, row)| *row);
        let best = self.fastest(others.clone())?;
        let uniform = self.fastest(others.filter(|row| row.is(&[("is_uniform", "true")])))?;
        let noise = self.over(again, widest)?;
        let (q1, q3) = (quantile_of(&noise, 0.25)?, quantile_of(&noise, 0.75)?);
        Some(Compared {
            over_best: quantile_of(&self.over(auto, best)?, 0.5)?,
            over_uniform: quantile_of(&self.over(auto, uniform)?, 0.5)?,
            noise: q1.min(1.0 / q3),
        })
    }
}

/// All cells; `None` if one is not complete, or if there are none of a kind.
fn compared(rows: &[Row]) -> Option<Vec<Compared>> {
    let mut all = Vec::new();
    for kind in KINDS {
        let cells = distinct(rows, kind.cell);
        if cells.is_empty() {
            return None;
        }
        for cell in cells {
            all.push(kind.compared(rows, &cell)?);
        }
    }
    Some(all)
}

/// The share of cells in which the product's choice has at least this part of the best contender's speed.
pub(super) fn near_the_best(rows: &[Row], least: f64) -> Option<f64> {
    let all = compared(rows)?;
    let near = all.iter().filter(|cell| cell.over_best >= least);
    Some(near.count() as f64 / all.len() as f64)
}

/// Cells in which the product's choice is slower than the best level alone by more than that noise.
pub(super) fn below_uniform(rows: &[Row]) -> Option<f64> {
    let all = compared(rows)?;
    let below = all.iter().filter(|cell| cell.over_uniform < cell.noise);
    Some(below.count() as f64)
}

/// Both kinds of cells, where the product takes this many nanoseconds, a mix 900 and the best level 1000; the level differs from
/// itself by a twentieth.
#[cfg(test)]
pub(super) fn planted(auto_ns: u64) -> Vec<Row> {
    let contenders = [
        (AUTO.to_owned(), [auto_ns; 3]),
        ("scalar".to_owned(), [1200; 3]),
        ("avx512".to_owned(), [1000; 3]),
        ("scalar/avx512".to_owned(), [900; 3]),
        (format!("avx512{AGAIN}"), [1000, 1050, 1050]),
    ];
    let mut rows = Vec::new();
    for (name, times) in contenders {
        let is_uniform = name == "scalar" || name == "avx512";
        let rates = times.map(|time_ns| 1_000_000_000 / time_ns);
        let row = |kind: &Kind| {
            Row::new()
                .text(kind.cell, "aggregate")
                .text(kind.contender, name.as_str())
                .flag("is_uniform", is_uniform)
        };
        rows.push(row(&KINDS[0]).samples("values", "per_s", rates.to_vec()));
        rows.push(row(&KINDS[1]).samples("time", "ns", times.to_vec()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_compared_with_the_best_and_with_the_best_level() {
        let of = |auto_ns| {
            let rows = planted(auto_ns);
            (near_the_best(&rows, 0.95), below_uniform(&rows))
        };
        assert_eq!(of(900), (Some(1.0), Some(0.0)));
        assert_eq!(of(1000), (Some(0.0), Some(0.0)));
        // Within the noise, and beyond it.
        assert_eq!(of(1040), (Some(0.0), Some(0.0)));
        assert_eq!(of(1100), (Some(0.0), Some(2.0)));
        assert_eq!((near_the_best(&[], 0.95), below_uniform(&[])), (None, None));
    }
}
