//! A panel of groups: one for each category of a view, with a bar for each series.
//!
//! Bars begin at zero, so that their lengths can be compared. Where values differ so much that the short ones could not be seen,
//! each is a dot on a logarithmic axis instead. The bar ends, or the dot lies, at the median, and a thin line spans the
//! quartiles. The papers' values are in the same groups: pale bars, hollow dots.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::frame::{Frame, Plot};
use super::legend::{Area, DrawResult, Legend, Look, Symbol};
use super::text::{self, LINE_HEIGHT, SIZE};
use crate::view::{Grid, View};

/// How much of a group's width its bars fill.
const FILL: f64 = 0.84;
/// The fraction of its space that a bar fills.
const BAR_FILL: f64 = 0.94;
/// Names of more lines than this are written upright.
const LINES_MOST: usize = 3;

/// The layout of the groups' names.
enum Names {
    /// Each name is broken into lines.
    Level(Vec<Vec<String>>),
    /// Upright, every n-th.
    Upright(usize),
}

/// The panel of a view whose categories are no quantities.
pub(super) struct Groups<'a> {
    pub(super) view: &'a View,
    grid: Grid,
    unit: &'static str,
    /// The divisor that converts values to that unit.
    scale: f64,
    axis: Axis,
}

impl<'a> Groups<'a> {
    /// The panel of a grid, or of a part of one, in that unit and on that axis.
    pub(super) fn new(
        view: &'a View,
        grid: Grid,
        (unit, scale): (&'static str, f64),
        axis: Axis,
    ) -> Groups<'a> {
        Groups {
            view,
            grid,
            unit,
            scale,
            axis,
        }
    }

    /// The text around the bars.
    pub(super) fn frame(&self, title: &str) -> Frame {
        let symbol = match self.axis.is_logarithmic() {
            true => Symbol::Dot,
            false => Symbol::Bar,
        };
        let series = self.grid.series.iter().map(String::as_str);
        Frame::new(
            title,
            self.unit,
            self.axis,
            Legend::new(self.view.series, series, symbol),
            text::heading(self.view.category),
            |width| self.names_height(width),
        )
    }

    /// Draws bars or dots, and the names of their groups.
    pub(super) fn draw(&self, area: &Area<'_>, plot: Plot) -> DrawResult {
        let groups = self.grid.categories.len() as f64;
        let width = FILL / self.grid.series.len() as f64;
        if self.axis.is_logarithmic() {
            // Dots stand apart: a shade shows which are of one group.
            for group in (1..self.grid.categories.len()).step_by(2) {
                let x = |edge: usize| plot.x(edge as f64 / groups);
                let corners = [(x(group), plot.y(f64::MAX)), (x(group + 1), plot.bottom())];
                area.draw(&Rectangle::new(corners, BLACK.mix(0.05).filled()))?;
            }
        }
        for (number, series) in self.grid.series.iter().enumerate() {
            let look = Look::of(number, series);
            for (group, cells) in self.grid.cells.iter().enumerate() {
                let Some(cell) = cells[number] else { continue };
                let left = group as f64 + (1.0 - FILL) / 2.0 + number as f64 * width;
                let x = |share: f64| plot.x((left + share * width) / groups);
                let y = |value: f64| plot.y(value / self.scale);
                let (right, middle) = (x(BAR_FILL).max(x(0.0) + 1), x(BAR_FILL / 2.0));
                if self.axis.is_logarithmic() {
                    look.dot(area, (middle, y(cell.median)))?;
                } else {
                    look.bar(area, [(x(0.0), y(cell.median)), (right, plot.bottom())])?;
                }
                if cell.q3 > cell.q1 {
                    let span = [(middle, y(cell.q1)), (middle, y(cell.q3))];
                    area.draw(&PathElement::new(span, BLACK.stroke_width(1)))?;
                }
            }
        }
        self.draw_names(area, plot)
    }

    fn names(&self, plot_width: u32) -> Names {
        let group = plot_width / self.grid.categories.len().max(1) as u32;
        let most = group.saturating_sub(6);
        let lines: Vec<Vec<String>> = self
            .grid
            .categories
            .iter()
            .map(|name| text::wrapped(name, SIZE, most))
            .collect();
        let fits = |lines: &Vec<String>| {
            lines.len() <= LINES_MOST && lines.iter().all(|line| text::width(line, SIZE) <= most)
        };
        if lines.iter().all(fits) {
            Names::Level(lines)
        } else {
            Names::Upright(LINE_HEIGHT.div_ceil(group.max(1)) as usize)
        }
    }

    fn names_height(&self, plot_width: u32) -> u32 {
        let height = match self.names(plot_width) {
            Names::Level(lines) => {
                lines.iter().map(Vec::len).max().unwrap_or(0) as u32 * LINE_HEIGHT
            }
            Names::Upright(_) => {
                let names = self.grid.categories.iter();
                names.map(|name| text::width(name, SIZE)).max().unwrap_or(0)
            }
        };
        height + 8
    }

    fn draw_names(&self, area: &Area<'_>, plot: Plot) -> DrawResult {
        let groups = self.grid.categories.len() as f64;
        let middle = |group: usize| plot.x((group as f64 + 0.5) / groups);
        let top = plot.bottom() + 6;
        match self.names((plot.x(1.0) - plot.x(0.0)) as u32) {
            Names::Level(names) => {
                let style = text::style(SIZE, HPos::Center, VPos::Top);
                for (group, lines) in names.into_iter().enumerate() {
                    for (number, line) in lines.into_iter().enumerate() {
                        let y = top + number as i32 * LINE_HEIGHT as i32;
                        area.draw(&Text::new(line, (middle(group), y), style.clone()))?;
                    }
                }
            }
            Names::Upright(step) => {
                let style = text::style(SIZE, HPos::Right, VPos::Center)
                    .transform(FontTransform::Rotate270);
                for (group, name) in self.grid.categories.iter().enumerate().step_by(step) {
                    let place = (middle(group), top);
                    area.draw(&Text::new(name.clone(), place, style.clone()))?;
                }
            }
        }
        Ok(())
    }
}
