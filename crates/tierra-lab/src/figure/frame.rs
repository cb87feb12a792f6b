//! The frame of a panel: its title, the axis of values on the left with a line across at each tick, and the titles of both
//! axes.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::legend::{Area, DrawResult, Legend};
use super::text::{self, LINE_HEIGHT, SIZE};

/// Width of a figure in pixels.
pub(super) const WIDTH: u32 = 1080;
const PLOT_HEIGHT: u32 = 340;
const TITLE_SIZE: f64 = 20.0;
const TITLE_LINE_HEIGHT: u32 = 27;
const MARGIN: u32 = 16;
/// Space on the left for the ticks' labels and the axis's title.
const LEFT: u32 = 116;

/// The text of a panel around its plot, and the space that it takes.
pub(super) struct Frame {
    title: Vec<String>,
    /// The title of the axis of values.
    values: String,
    axis: Axis,
    legend: Legend,
    /// The title of the other axis.
    across: String,
    /// Height of the names below the plot.
    names_height: u32,
}

/// The rectangle between the axes, in pixels of the panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plot {
    left: u32,
    top: u32,
    width: u32,
    axis: Axis,
}

impl Plot {
    /// The row of pixels of a value.
    pub(super) fn y(self, value: f64) -> i32 {
        let height = f64::from(PLOT_HEIGHT);
        self.top as i32 + (height * (1.0 - self.axis.share(value))).round() as i32
    }

    /// The row of pixels at which bars begin.
    pub(super) fn bottom(self) -> i32 {
        (self.top + PLOT_HEIGHT) as i32
    }

    /// The column of pixels at that share of the plot's width.
    pub(super) fn x(self, share: f64) -> i32 {
        self.left as i32 + (f64::from(self.width) * share).round() as i32
    }
}

impl Frame {
    /// `names_height` is called with the width that remains for the plot.
    pub(super) fn new(
        title: &str,
        unit: &str,
        axis: Axis,
        legend: Legend,
        across: String,
        names_height: impl Fn(u32) -> u32,
    ) -> Frame {
        let scale = if axis.is_logarithmic() {
            ", log scale"
        } else {
            ""
        };
        let names_height = names_height(plot_width(&legend));
        Frame {
            title: text::wrapped(title, TITLE_SIZE, WIDTH - 2 * MARGIN),
            values: format!("{unit}{scale}"),
            axis,
            legend,
            across,
            names_height,
        }
    }

    /// Height of the whole panel.
    pub(super) fn height(&self) -> u32 {
        let below = self.names_height + LINE_HEIGHT;
        self.top() + (PLOT_HEIGHT + below).max(self.legend.height()) + MARGIN
    }

    fn top(&self) -> u32 {
        MARGIN + self.title.len() as u32 * TITLE_LINE_HEIGHT + 6
    }

    /// The rectangle between the axes.
    pub(super) fn plot(&self) -> Plot {
        Plot {
            left: LEFT,
            top: self.top(),
            width: plot_width(&self.legend),
            axis: self.axis,
        }
    }

    /// Draws all but the plot itself and the names below it.
    pub(super) fn draw(&self, area: &Area<'_>) -> DrawResult {
        let title = text::style(TITLE_SIZE, HPos::Center, VPos::Top);
        for (number, line) in self.title.iter().enumerate() {
            let y = MARGIN + number as u32 * TITLE_LINE_HEIGHT;
            let place = ((WIDTH / 2) as i32, y as i32);
            area.draw(&Text::new(line.clone(), place, title.clone()))?;
        }
        let plot = self.plot();
        let label = text::style(SIZE, HPos::Right, VPos::Center);
        for tick in self.axis.ticks() {
            let y = plot.y(tick.value);
            let across = [(plot.x(0.0), y), (plot.x(1.0), y)];
            area.draw(&PathElement::new(across, BLACK.mix(0.12)))?;
            let place = (plot.x(0.0) - 6, y);
            area.draw(&Text::new(tick.label, place, label.clone()))?;
        }
        let axes = [
            (plot.x(0.0), plot.y(f64::MAX)),
            (plot.x(0.0), plot.bottom()),
            (plot.x(1.0), plot.bottom()),
        ];
        area.draw(&PathElement::new(axes, BLACK.mix(0.6)))?;
        let upwards =
            text::style(SIZE, HPos::Center, VPos::Top).transform(FontTransform::Rotate270);
        let middle = (self.top() + PLOT_HEIGHT / 2) as i32;
        let values = Text::new(self.values.clone(), (MARGIN as i32, middle), upwards);
        area.draw(&values)?;
        let below = plot.bottom() + self.names_height as i32 + 2;
        let across = text::style(SIZE, HPos::Center, VPos::Top).color(&text::GREY);
        area.draw(&Text::new(
            self.across.clone(),
            (plot.x(0.5), below),
            across,
        ))?;
        self.legend.draw(area, (plot.x(1.0), self.top() as i32))
    }
}

fn plot_width(legend: &Legend) -> u32 {
    WIDTH - LEFT - legend.width()
}
