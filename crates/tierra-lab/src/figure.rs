//! Figures: every view of an experiment as a panel of grouped bars in one SVG file.
//!
//! A bar ends at the median, a thin line spans the quartiles. Bars of values the papers state stand
//! in the same groups, hatched by a lighter fill. The axis is logarithmic where the values span more
//! than a factor of twenty: there a bar's length means nothing and only its end is to be read.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

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

/// Draws all views with something to show into one file.
pub fn write(path: &Path, results: &Results, views: &[View]) -> Result<(), LabError> {
    let rows: Vec<_> = results.rows.iter().chain(&results.paper).cloned().collect();
    let panels: Vec<(&View, Grid)> = views
        .iter()
        .map(|view| (view, view.grid(&rows)))
        .filter(|(_, grid)| grid.medians().any(|median| median > 0.0))
        .collect();
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

fn draw(svg: &mut String, results: &Results, panels: &[(&View, Grid)]) -> DrawResult {
    let root = SVGBackend::with_string(svg, (WIDTH, PANEL_HEIGHT * panels.len() as u32))
        .into_drawing_area();
    root.fill(&WHITE)?;
    let areas = root.split_evenly((panels.len(), 1));
    for ((view, grid), area) in panels.iter().zip(&areas) {
        let size = if results.quick {
            " (quick run: not to be believed)"
        } else {
            ""
        };
        let (unit, scale) = view.unit.scaled_to(grid.typical());
        let title = format!("{}: {} [{unit}]{size}", results.name, view.title);
        let (low, high) = bounds(grid, scale);
        if view.unit != Unit::Ratio && high / low > LINEAR_SPAN {
            // One and a half decades below the smallest keep its bar visible.
            panel(
                area,
                &title,
                grid,
                scale,
                (low / 2.0..high * 1.3).log_scale(),
                low / 2.0,
            )?;
        } else {
            panel(area, &title, grid, scale, 0.0..high * 1.1, 0.0)?;
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

fn panel<Y>(
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
        write(&path, &results, &[view]).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        for text in ["ours", "theirs (paper)", "1000", "quick run"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
    }
}
