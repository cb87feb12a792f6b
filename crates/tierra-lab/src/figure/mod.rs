//! Figures: every view and every curve of an experiment as a panel in one SVG file, each with its legend beside it.
//!
//! What runs over sizes, threads or shares is drawn as lines, the rest in groups: as bars from zero or, if the values span more
//! than a factor of twenty, as dots on a logarithmic axis, which is labelled so. A panel has at most eight series. A view with
//! more becomes several panels on the same axis.

mod axis;
mod frame;
mod groups;
mod legend;
mod lines;
mod sweep;
mod text;

use std::path::Path;

use plotters::prelude::*;

use self::axis::Axis;
use self::frame::{Frame, WIDTH};
use self::groups::Groups;
use self::legend::{DrawResult, SERIES_MOST};
use self::lines::Lines;
use self::sweep::Sweep;
use crate::curve::{Curve, Line};
use crate::error::LabError;
use crate::results::{Results, Tier, write_whole};
use crate::view::{Grid, Unit, View};

/// A panel of the figure.
struct Panel<'a> {
    shown: Shown<'a>,
    /// Its number among the panels of its view, and their count.
    part: (usize, usize),
}

/// What a panel shows.
enum Shown<'a> {
    Groups(Groups<'a>),
    Sweep(Sweep<'a>),
    Lines(Lines<'a>),
}

/// Draws all views and curves with something to show into one file.
pub fn write(
    path: &Path,
    results: &Results,
    views: &[View],
    curves: &[Curve],
) -> Result<(), LabError> {
    let rows: Vec<_> = results.rows.iter().chain(&results.paper).cloned().collect();
    let views = views.iter().map(|view| (view, view.grid(&rows)));
    let views = views
        .filter(|(_, grid)| grid.medians().any(|median| median > 0.0))
        .flat_map(|(view, grid)| panels_of_view(view, &grid));
    let curves = curves
        .iter()
        .flat_map(|curve| panels_of_curve(curve, curve.lines(&rows)));
    let panels: Vec<(Panel<'_>, Frame)> = views
        .chain(curves)
        .map(|panel| {
            let frame = panel.frame(results);
            (panel, frame)
        })
        .collect();
    if panels.is_empty() {
        return Ok(());
    }
    let mut svg = String::new();
    draw(&mut svg, &panels).map_err(|error| LabError::Figure {
        path: path.to_owned(),
        detail: error.to_string(),
    })?;
    write_whole(path, &svg)
}

/// The panels of a grid: as many series in each as there are colours, all on one axis.
fn panels_of_view<'a>(view: &'a View, grid: &Grid) -> Vec<Panel<'a>> {
    let (unit, scale) = view.unit.scaled_to(grid.typical());
    let summaries = grid.cells.iter().flatten().flatten();
    let ends = summaries.flat_map(|one| [one.median, one.q1, one.q3]);
    let ends = ends.map(|value| value / scale);
    let axis = match view.unit {
        // For totals, zero is an ordinary result.
        Unit::Total => Axis::linear(ends.fold(0.0, f64::max)),
        _ => Axis::of_values(ends),
    };
    let shown = |part| match Sweep::new(view, part, (unit, scale), axis) {
        Ok(sweep) => Shown::Sweep(sweep),
        Err(part) => Shown::Groups(Groups::new(view, part, (unit, scale), axis)),
    };
    numbered(grid.parts(SERIES_MOST).into_iter().map(shown).collect())
}

/// The panels of a curve, likewise.
fn panels_of_curve(curve: &Curve, lines: Vec<Line>) -> Vec<Panel<'_>> {
    let points = lines.iter().flat_map(|line| &line.points);
    let highest = points.map(|&(_, value)| value).fold(0.0, f64::max);
    let each = lines
        .len()
        .div_ceil(lines.len().div_ceil(SERIES_MOST).max(1))
        .max(1);
    let shown = |lines: &[Line]| Shown::Lines(Lines::new(curve, lines.to_vec(), highest));
    numbered(lines.chunks(each).map(shown).collect())
}

fn numbered(parts: Vec<Shown<'_>>) -> Vec<Panel<'_>> {
    let count = parts.len();
    let panel = |(number, shown)| Panel {
        shown,
        part: (number + 1, count),
    };
    parts.into_iter().enumerate().map(panel).collect()
}

fn draw(svg: &mut String, panels: &[(Panel<'_>, Frame)]) -> DrawResult {
    let height = panels.iter().map(|(_, frame)| frame.height()).sum();
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for (panel, frame) in panels {
        let (area, below) = rest.split_vertically(frame.height());
        frame.draw(&area)?;
        match &panel.shown {
            Shown::Groups(groups) => groups.draw(&area, frame.plot())?,
            Shown::Sweep(sweep) => sweep.draw(&area, frame.plot())?,
            Shown::Lines(lines) => lines.draw(&area, frame.plot())?,
        }
        rest = below;
    }
    root.present()?;
    Ok(())
}

impl Panel<'_> {
    /// The text around the panel.
    fn frame(&self, results: &Results) -> Frame {
        let memory = match results.tier {
            Tier::Real => "",
            Tier::Emulated => " (emulated)",
            Tier::Simulated => " (simulated)",
        };
        let size = if results.quick {
            " (quick run: not to be believed)"
        } else {
            ""
        };
        let part = match self.part {
            (_, 1) => String::new(),
            (number, count) => format!(" ({number} of {count})"),
        };
        let title = |title: &str| format!("{}: {title}{memory}{part}{size}", results.name);
        match &self.shown {
            Shown::Groups(groups) => groups.frame(&title(groups.view.title)),
            Shown::Sweep(sweep) => sweep.frame(&title(sweep.view.title)),
            Shown::Lines(lines) => lines.frame(&title(lines.curve.title)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::example;
    use crate::row::Row;
    use crate::view::Unit;

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
        results.tier = Tier::Emulated;
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
            "(emulated)",
            "ns, log scale",
            "columns",
            "engine",
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
