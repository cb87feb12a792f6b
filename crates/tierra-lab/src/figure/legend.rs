//! The legend: the colour of each series, beside the plot so that it covers nothing, and the look of a series.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::text::{self, LINE_HEIGHT, SIZE};

/// An area to draw in.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The result of drawing.
pub(super) type DrawResult = Result<(), Box<dyn std::error::Error>>;

/// Okabe and Ito's colours, which colour-blind readers can distinguish.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
    RGBColor(20, 20, 20),
];
/// Series that a panel can show: one for each colour.
pub(super) const SERIES_MOST: usize = COLORS.len();
/// Names wider than this are broken into lines.
const NAME_WIDTH_MOST: u32 = 270;
/// The symbol before a name, and the space behind it.
const SYMBOL_WIDTH: u32 = 18;
const GAP: u32 = 8;
const MARGIN: u32 = 16;
const DOT_RADIUS: i32 = 4;

/// The look of a series, by its number in the panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    color: RGBColor,
    is_of_paper: bool,
}

impl Look {
    /// The look of the series of that number and name.
    pub(super) fn of(number: usize, name: &str) -> Look {
        Look {
            color: COLORS[number % COLORS.len()],
            is_of_paper: name.contains("(paper"),
        }
    }

    /// Draws a bar between two corners.
    pub(super) fn bar(self, area: &Area<'_>, corners: [(i32, i32); 2]) -> DrawResult {
        let fill = self.color.mix(if self.is_of_paper { 0.3 } else { 0.9 });
        area.draw(&Rectangle::new(corners, fill.filled()))?;
        if self.is_of_paper {
            area.draw(&Rectangle::new(corners, self.color.stroke_width(1)))?;
        }
        Ok(())
    }

    /// Draws a dot, hollow for a paper's value.
    pub(super) fn dot(self, area: &Area<'_>, at: (i32, i32)) -> DrawResult {
        if self.is_of_paper {
            area.draw(&Circle::new(at, DOT_RADIUS, WHITE.filled()))?;
            area.draw(&Circle::new(at, DOT_RADIUS, self.color.stroke_width(2)))?;
        } else {
            area.draw(&Circle::new(at, DOT_RADIUS, self.color.filled()))?;
        }
        Ok(())
    }

    /// The style of its line, thin for a paper's values.
    pub(super) fn line(self) -> ShapeStyle {
        self.color
            .stroke_width(if self.is_of_paper { 1 } else { 2 })
    }
}

/// The symbol before a series's name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Symbol {
    Bar,
    Dot,
    Line,
}

/// The names of all series of a panel, laid out.
pub(super) struct Legend {
    heading: String,
    names: Vec<(Look, Vec<String>)>,
    symbol: Symbol,
}

impl Legend {
    /// A legend of the series of these names; `key` is their key in rows.
    pub(super) fn new<'a>(
        key: &str,
        names: impl Iterator<Item = &'a str>,
        symbol: Symbol,
    ) -> Legend {
        let lines = |(number, name): (usize, &str)| {
            let lines = text::wrapped(name, SIZE, NAME_WIDTH_MOST);
            (Look::of(number, name), lines)
        };
        Legend {
            heading: text::heading(key),
            names: names.enumerate().map(lines).collect(),
            symbol,
        }
    }

    /// Width in pixels, margins included.
    pub(super) fn width(&self) -> u32 {
        let names = self.names.iter().flat_map(|(_, lines)| lines);
        let widths = names.map(|line| SYMBOL_WIDTH + GAP + text::width(line, SIZE));
        let heading = text::width(&self.heading, SIZE);
        widths.fold(heading, u32::max) + 2 * MARGIN
    }

    /// Height in pixels.
    pub(super) fn height(&self) -> u32 {
        let lines: usize = self.names.iter().map(|(_, lines)| lines.len()).sum();
        (lines as u32 + 1) * LINE_HEIGHT + MARGIN
    }

    /// Draws it from that corner down.
    pub(super) fn draw(&self, area: &Area<'_>, corner: (i32, i32)) -> DrawResult {
        let (left, mut y) = (corner.0 + MARGIN as i32, corner.1);
        let style = text::style(SIZE, HPos::Left, VPos::Top);
        let grey = style.color(&text::GREY);
        area.draw(&Text::new(self.heading.clone(), (left, y), grey))?;
        y += LINE_HEIGHT as i32;
        let right = left + SYMBOL_WIDTH as i32;
        for (look, lines) in &self.names {
            let (middle, height) = ((left + right) / 2, (SIZE * 0.8) as i32);
            match self.symbol {
                Symbol::Bar => look.bar(area, [(left, y), (right, y + height)])?,
                Symbol::Dot => look.dot(area, (middle, y + height / 2))?,
                Symbol::Line => {
                    let line = [(left, y + height / 2), (right, y + height / 2)];
                    area.draw(&PathElement::new(line, look.line()))?;
                    look.dot(area, (middle, y + height / 2))?;
                }
            }
            for line in lines {
                let place = (right + GAP as i32, y);
                area.draw(&Text::new(line.clone(), place, style.clone()))?;
                y += LINE_HEIGHT as i32;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_panel_look_different() {
        let looks: Vec<String> = (0..SERIES_MOST)
            .map(|number| format!("{:?}", Look::of(number, "a")))
            .collect();
        let mut different = looks.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), looks.len());
    }
}
