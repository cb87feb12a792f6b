//! A panel of lines over seconds, from the first point on; both axes linear and from zero.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::frame::{Frame, Plot};
use super::legend::{Area, DrawResult, Legend, Look, Symbol};
use super::text::{self, LINE_HEIGHT, SIZE};
use crate::curve::{Curve, Line};

/// The panel of a curve.
pub(super) struct Lines<'a> {
    pub(super) curve: &'a Curve,
    lines: Vec<Line>,
    highest: f64,
    unit: &'static str,
    /// The divisor that converts values to that unit.
    scale: f64,
}

impl<'a> Lines<'a> {
    /// The panel of some of a curve's lines, on an axis up to `highest`.
    pub(super) fn new(curve: &'a Curve, lines: Vec<Line>, highest: f64) -> Lines<'a> {
        let (unit, scale) = curve.unit.scaled_to(highest);
        Lines {
            curve,
            lines,
            highest,
            unit,
            scale,
        }
    }

    /// The text around the lines.
    pub(super) fn frame(&self, title: &str) -> Frame {
        let names = self.lines.iter().map(|line| line.name.as_str());
        Frame::new(
            title,
            self.unit,
            Axis::linear(self.highest / self.scale),
            Legend::new(self.curve.series, names, Symbol::Line),
            "seconds since the first point".to_owned(),
            |_| LINE_HEIGHT + 8,
        )
    }

    /// Draws lines and the seconds below them.
    pub(super) fn draw(&self, area: &Area<'_>, plot: Plot) -> DrawResult {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let (first, last) = points.fold((f64::MAX, f64::MIN), |(first, last), &(at, _)| {
            (first.min(at), last.max(at))
        });
        let seconds = Axis::linear(last - first);
        for (number, line) in self.lines.iter().enumerate() {
            let place = |&(at, value): &(f64, f64)| {
                let x = plot.x(seconds.share(at - first));
                (x, plot.y(value / self.scale))
            };
            let points: Vec<(i32, i32)> = line.points.iter().map(place).collect();
            let style = Look::of(number, &line.name).line();
            area.draw(&PathElement::new(points, style))?;
        }
        let style = text::style(SIZE, HPos::Center, VPos::Top);
        for tick in seconds.ticks() {
            let place = (plot.x(seconds.share(tick.value)), plot.bottom() + 6);
            area.draw(&Text::new(tick.label, place, style.clone()))?;
        }
        Ok(())
    }
}
