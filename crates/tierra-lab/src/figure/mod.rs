//! Figures: every view of an experiment as a panel of grouped bars, and every curve as one of lines, in one SVG
//! file.
//!
//! A bar ends at the median, a thin line spans the quartiles. Bars of values the papers state stand
//! in the same groups, hatched by a lighter fill. The axis is logarithmic where the values span more
//! than a factor of twenty: there a bar's length means nothing and only its end is to be read.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::curve::{Curve, Line};
use crate::error::LabError;
use crate::results::{Results, write_whole};
use crate::view::{Grid, Unit, View};

const WIDTH: u32 = 1080;
const PANEL_HEIGHT: u32 = 380;
/// Values further apart than this share no linear axis.
const LINEAR_SPAN: f64 = 20.0;
/// How much of a group's width its bars fill.
const FILL: f64 = 0.8;

/// Okabe and Ito's colours: told apart by everybody.
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

/// A panel and what it shows.
enum Panel<'a> {
    Bars(&'a View, Grid),
    Lines(&'a Curve, Vec<Line>),
}

/// Draws all views and curves with something to show into one file.
pub fn write(
    path: &Path,
    results: &Results,
    views: &[View],
    curves: &[Curve],
) -> Result<(), LabError> {
    let rows: Vec<_> = results.rows.iter().chain(&results.paper).cloned().collect();
    let bars = views
        .iter()
        .map(|view| (view, view.grid(&rows)))
        .filter(|(_, grid)| grid.medians().any(|median| median > 0.0))
        .map(|(view, grid)| Panel::Bars(view, grid));
    let lines = curves
        .iter()
        .map(|curve| (curve, curve.lines(&rows)))
        .filter(|(_, lines)| !lines.is_empty())
        .map(|(curve, lines)| Panel::Lines(curve, lines));
    let panels: Vec<Panel<'_>> = bars.chain(lines).collect();
    if panels.is_empty() {
        return Ok(());
    }
    let mut svg = String::new();
    draw(&mut svg, results, &panels).map_err(|error| LabError::Figure {
        path: path.to_owned(),
        detail: error.to_string(),
    })?;
    write_whole(path, &svg)
}

type DrawResult = Result<(), Box<dyn std::error::Error>>;

fn draw(svg: &mut String, results: &Results, panels: &[Panel<'_>]) -> DrawResult {
    let root = SVGBackend::with_string(svg, (WIDTH, PANEL_HEIGHT * panels.len() as u32))
        .into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((panels.len(), 1));
    let size = if results.quick {
        " (quick run: not to be believed)"
    } else {
        ""
    };
    for (panel, area) in panels.iter().zip(&areas) {
        let (title, unit, typical) = match panel {
            Panel::Bars(view, grid) => (view.title, view.unit, grid.typical()),
            Panel::Lines(curve, lines) => (curve.title, curve.unit, highest(lines)),
        };
        let (unit, scale) = unit.scaled_to(typical);
        let title = format!("{}: {title} [{unit}]{size}", results.name);
        match panel {
            Panel::Bars(view, grid) => {
                let (low, high) = bounds(grid, scale);
                if view.unit != Unit::Ratio && high / low > LINEAR_SPAN {
                    // One and a half decades below the smallest keep its bar visible.
                    let axis = (low / 2.0..high * 1.3).log_scale();
                    grouped(area, &title, grid, scale, axis, low / 2.0)?;
                } else {
                    grouped(area, &title, grid, scale, 0.0..high * 1.1, 0.0)?;
                }
            }
            Panel::Lines(_, lines) => over_time(area, &title, lines, scale)?,
        }
    }
    root.present()?;
    drop(areas);
    drop(root);
    Ok(())
}

/// The smallest positive and the largest value, quartiles included.
fn bounds(grid: &Grid, scale: f64) -> (f64, f64) {
    let all = grid
        .cells
        .iter()
        .flatten()
        .flatten()
        .flat_map(|summary| [summary.q1, summary.q3]);
    let positive = all.map(|value| value / scale).filter(|value| *value > 0.0);
    positive.fold((f64::MAX, 0.0), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

fn grouped<Y>(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    grid: &Grid,
    scale: f64,
    y_axis: Y,
    floor: f64,
) -> DrawResult
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    // Empty groups on the right leave the legend a place of its own.
    let places = grid.categories.len() + grid.categories.len().div_ceil(5);
    let groups: Range<f64> = 0.0..places as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(70)
        .build_cartesian_2d(groups, y_axis)?;
    // One invisible tick in the middle of each group carries the group's name.
    let name = |place: &f64| {
        let group = (place.fract() - 0.5).abs() < 0.01;
        grid.categories
            .get(*place as usize)
            .filter(|_| group)
            .cloned()
            .unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * places + 1)
        .x_label_formatter(&name)
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .draw()?;
    let width = FILL / grid.series.len() as f64;
    for (number, series) in grid.series.iter().enumerate() {
        let from_paper = series.contains("paper");
        let color = COLORS[number % COLORS.len()];
        let fill = color.mix(if from_paper { 0.35 } else { 0.9 }).filled();
        let left = |group: usize| group as f64 + (1.0 - FILL) / 2.0 + number as f64 * width;
        let cells = grid
            .cells
            .iter()
            .enumerate()
            .filter_map(|(group, cells)| cells[number].map(|cell| (group, cell)));
        let bars = cells.clone().map(|(group, cell)| {
            Rectangle::new(
                [
                    (left(group), floor),
                    (left(group) + width * 0.94, cell.median / scale),
                ],
                fill,
            )
        });
        chart
            .draw_series(bars)?
            .label(series.clone())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], fill));
        let whiskers = cells
            .filter(|(_, cell)| cell.count > 1)
            .map(|(group, cell)| {
                let middle = left(group) + width * 0.47;
                PathElement::new(
                    [(middle, cell.q1 / scale), (middle, cell.q3 / scale)],
                    BLACK.stroke_width(1),
                )
            });
        chart.draw_series(whiskers)?;
    }
    legend(&mut chart)
}

/// The highest value of lines.
fn highest(lines: &[Line]) -> f64 {
    let points = lines.iter().flat_map(|line| &line.points);
    points.map(|&(_, value)| value).fold(0.0, f64::max)
}

/// Lines over seconds, linear, from zero.
fn over_time(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    lines: &[Line],
    scale: f64,
) -> DrawResult {
    let points = lines.iter().flat_map(|line| &line.points);
    let (first, last) = points.fold((f64::MAX, f64::MIN), |(first, last), &(at, _)| {
        (first.min(at), last.max(at))
    });
    // A fifth on the right leaves the legend a place of its own.
    let times = first..last + (last - first).max(1e-3) * 0.2;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(70)
        .build_cartesian_2d(times, 0.0..(highest(lines) / scale).max(1e-9) * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("seconds")
        .light_line_style(WHITE)
        .draw()?;
    for (number, line) in lines.iter().enumerate() {
        let style = COLORS[number % COLORS.len()].stroke_width(2);
        let points = line.points.iter().map(|&(at, value)| (at, value / scale));
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 12, y)], style));
    }
    legend(&mut chart)
}

fn legend<'a, X, Y>(chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>) -> DrawResult
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::example;
    use crate::row::Row;

    #[test]
    fn draws_ours_and_the_papers_values() {
        let view = View {
            title: "time",
            category: "columns",
            series: "engine",
            value: "time_ns",
            per: None,
            unit: Unit::Nanoseconds,
            mean: false,
        };
        let mut results = example("x", true);
        let row = |engine: &str, columns: &str, samples| {
            Row::new()
                .text("engine", engine)
                .text("columns", columns)
                .samples("time", "ns", samples)
        };
        results.rows = vec![
            row("ours", "10", vec![100, 120, 130]),
            row("ours", "1000", vec![9_000, 12_000]),
        ];
        results.paper = vec![row("theirs (paper)", "10", vec![500])];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.svg");
        let curve = Curve {
            title: "over time",
            at: "at_s",
            series: "memory",
            value: "held_bytes",
            unit: Unit::Bytes,
        };
        let point = |memory: &str, at_s, bytes| {
            let row = Row::new().text("memory", memory).number("at_s", at_s);
            row.count("held_bytes", bytes)
        };
        results.rows.extend([
            point("near", 0.0, 5),
            point("near", 1.5, 8),
            point("far", 0.0, 0),
        ]);
        write(&path, &results, &[view], &[curve]).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        for text in [
            "ours",
            "theirs (paper)",
            "1000",
            "quick run",
            "over time",
            "near",
            "far",
            "seconds",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
    }
}
