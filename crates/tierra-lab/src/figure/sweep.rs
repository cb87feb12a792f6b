//! A panel of lines over a quantity: what runs over sizes, threads or shares.
//!
//! A point is the median, and a thin line through it spans the quartiles. Points of the papers are hollow and joined by thin
//! lines. The quantity's axis is labelled with the names of the measured points.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::frame::{Frame, Plot};
use super::legend::{Area, DrawResult, Legend, Look, Symbol};
use super::text::{self, LINE_HEIGHT, SIZE};
use crate::stats::Summary;
use crate::view::{Grid, View};

/// Fewer categories are groups, even if they are quantities.
const LEAST: usize = 3;
/// Quantities that differ by more than this factor are measured in powers, and lie on a logarithmic axis.
const LINEAR_SPAN: f64 = 8.0;
/// The share of the plot's width that stays empty on either side.
const PADDING: f64 = 0.03;
/// Units of sizes, and their bytes.
const SIZES: [(&str, f64); 8] = [
    ("bytes", 1.0),
    ("B", 1.0),
    ("kB", 1024.0),
    ("KiB", 1024.0),
    ("MB", 1_048_576.0),
    ("MiB", 1_048_576.0),
    ("GB", 1_073_741_824.0),
    ("GiB", 1_073_741_824.0),
];

/// The panel of a view whose categories are quantities.
pub(super) struct Sweep<'a> {
    pub(super) view: &'a View,
    grid: Grid,
    /// The quantity of each category.
    at: Vec<f64>,
    unit: &'static str,
    /// The divisor that converts values to that unit.
    scale: f64,
    axis: Axis,
}

impl<'a> Sweep<'a> {
    /// The panel, if the categories are quantities of one unit; else the grid again.
    pub(super) fn new(
        view: &'a View,
        grid: Grid,
        (unit, scale): (&'static str, f64),
        axis: Axis,
    ) -> Result<Sweep<'a>, Grid> {
        match quantities(&grid.categories) {
            Some(at) => Ok(Sweep {
                view,
                grid,
                at,
                unit,
                scale,
                axis,
            }),
            None => Err(grid),
        }
    }

    /// The text around the lines.
    pub(super) fn frame(&self, title: &str) -> Frame {
        let series = self.grid.series.iter().map(String::as_str);
        Frame::new(
            title,
            self.unit,
            self.axis,
            Legend::new(self.view.series, series, Symbol::Line),
            text::heading(self.view.category),
            |_| LINE_HEIGHT + 8,
        )
    }

    /// Draws lines, and the categories below them.
    pub(super) fn draw(&self, area: &Area<'_>, plot: Plot) -> DrawResult {
        let y = |value: f64| plot.y(value / self.scale);
        for (number, series) in self.grid.series.iter().enumerate() {
            let look = Look::of(number, series);
            let mut points: Vec<(f64, Summary)> = self
                .at
                .iter()
                .zip(&self.grid.cells)
                .filter_map(|(at, cells)| Some((*at, cells[number]?)))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            let place = |(at, cell): &(f64, Summary)| (plot.x(self.share(*at)), y(cell.median));
            let path: Vec<(i32, i32)> = points.iter().map(place).collect();
            area.draw(&PathElement::new(path, look.line()))?;
            for (at, cell) in &points {
                let x = plot.x(self.share(*at));
                if cell.q3 > cell.q1 {
                    let span = [(x, y(cell.q1)), (x, y(cell.q3))];
                    area.draw(&PathElement::new(span, look.line()))?;
                }
                look.dot(area, (x, y(cell.median)))?;
            }
        }
        self.draw_names(area, plot)
    }

    /// The names of the categories, without those that would touch the one before.
    fn draw_names(&self, area: &Area<'_>, plot: Plot) -> DrawResult {
        let style = text::style(SIZE, HPos::Center, VPos::Top);
        let mut places: Vec<(i32, &String)> = self
            .at
            .iter()
            .zip(&self.grid.categories)
            .map(|(at, name)| (plot.x(self.share(*at)), name))
            .collect();
        places.sort();
        let mut free_from = i32::MIN;
        for (x, name) in places {
            let half = text::width(name, SIZE) as i32 / 2;
            if x - half < free_from {
                continue;
            }
            area.draw(&Text::new(
                name.clone(),
                (x, plot.bottom() + 6),
                style.clone(),
            ))?;
            free_from = x + half + SIZE as i32 / 2;
        }
        Ok(())
    }

    /// How far along the plot's width a quantity lies.
    fn share(&self, at: f64) -> f64 {
        let (low, high) = ends(&self.at);
        let share = if is_logarithmic(low, high) {
            (at / low).ln() / (high / low).ln()
        } else {
            (at - low) / (high - low)
        };
        PADDING + share * (1.0 - 2.0 * PADDING)
    }
}

fn is_logarithmic(low: f64, high: f64) -> bool {
    low > 0.0 && high > low * LINEAR_SPAN
}

fn ends(values: &[f64]) -> (f64, f64) {
    let ends = (f64::MAX, f64::MIN);
    values.iter().fold(ends, |(low, high), &value| {
        (low.min(value), high.max(value))
    })
}

/// The quantities that all these names are, if they are different ones of the same unit.
fn quantities(names: &[String]) -> Option<Vec<f64>> {
    if names.len() < LEAST {
        return None;
    }
    let all: Vec<(f64, &str)> = names
        .iter()
        .map(|name| quantity(name))
        .collect::<Option<_>>()?;
    let mut values: Vec<f64> = all.iter().map(|(value, _)| *value).collect();
    let is_one_unit = all.iter().all(|(_, unit)| *unit == all[0].1);
    values.sort_by(f64::total_cmp);
    let are_different = values.windows(2).all(|pair| pair[0] < pair[1]);
    (is_one_unit && are_different).then(|| all.into_iter().map(|(value, _)| value).collect())
}

/// A number and its unit, as in "10", "64 MB", "25 %" or "1000 columns".
fn quantity(name: &str) -> Option<(f64, &str)> {
    let end = name.find(|letter: char| !letter.is_ascii_digit() && !".,".contains(letter));
    let (number, unit) = name.split_at(end.unwrap_or(name.len()));
    let number: f64 = number.replace(',', "").parse().ok()?;
    let unit = unit.trim();
    if let Some((_, bytes)) = SIZES.iter().find(|(size, _)| *size == unit) {
        return Some((number * bytes, "bytes"));
    }
    // "1 thread" and "2 threads".
    let is_plain = unit
        .chars()
        .all(|letter| letter.is_alphabetic() || letter == '%');
    is_plain.then(|| (number, unit.strip_suffix('s').unwrap_or(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Option<Vec<f64>> {
        quantities(
            &names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn sizes_counts_and_shares_are_quantities() {
        assert_eq!(
            of(&["512 kB", "1 MB", "2 GB"]),
            Some(vec![524_288.0, 1_048_576.0, 2_147_483_648.0])
        );
        assert_eq!(
            of(&["1 thread", "2 threads", "4 threads"]),
            Some(vec![1.0, 2.0, 4.0])
        );
        assert_eq!(
            of(&["10 %", "0.5 %", "100 %"]),
            Some(vec![10.0, 0.5, 100.0])
        );
        assert_eq!(of(&["1", "10", "1,000"]), Some(vec![1.0, 10.0, 1_000.0]));
    }

    #[test]
    fn names_are_not() {
        for names in [
            &["q1", "q2", "q3"][..],
            &["10", "100", "100, dictionaries"],
            &["1 MB", "2 threads", "3 %"],
            &["1 kB", "1024 bytes", "2 kB"],
            &["1", "2"],
            &["A", "8-bit", "32-bit"],
        ] {
            assert_eq!(of(names), None, "{names:?}");
        }
    }
}
