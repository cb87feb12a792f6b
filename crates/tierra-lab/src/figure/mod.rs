//! Figures: every view of an experiment as a panel of grouped bars, and every curve as a panel of lines, in one SVG file, each
//! with its legend beside it.
//!
//! The axis of values is logarithmic, and labelled so, if the values span more than a factor of twenty. Then only the end of a
//! bar has a meaning, not its length.

mod axis;
mod bars;
mod frame;
mod legend;
mod lines;
mod text;

use std::path::Path;

use plotters::prelude::*;

use self::bars::Bars;
use self::frame::{Frame, WIDTH};
use self::legend::DrawResult;
use self::lines::Lines;
use crate::curve::Curve;
use crate::error::LabError;
use crate::results::{Results, Tier, write_whole};
use crate::view::View;

/// A panel of the figure.
enum Panel<'a> {
    Bars(Bars<'a>),
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
    let bars = views.iter().map(|view| (view, view.grid(&rows)));
    let bars = bars
        .filter(|(_, grid)| grid.medians().any(|median| median > 0.0))
        .map(|(view, grid)| Panel::Bars(Bars::new(view, grid)));
    let lines = curves.iter().map(|curve| (curve, curve.lines(&rows)));
    let lines = lines
        .filter(|(_, lines)| !lines.is_empty())
        .map(|(curve, lines)| Panel::Lines(Lines::new(curve, lines)));
    let panels: Vec<(Panel<'_>, Frame)> = bars
        .chain(lines)
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

fn draw(svg: &mut String, panels: &[(Panel<'_>, Frame)]) -> DrawResult {
    let height = panels.iter().map(|(_, frame)| frame.height()).sum();
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for (panel, frame) in panels {
        let (area, below) = rest.split_vertically(frame.height());
        frame.draw(&area)?;
        match panel {
            Panel::Bars(bars) => bars.draw(&area, frame.plot())?,
            Panel::Lines(lines) => lines.draw(&area, frame.plot())?,
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
        let title = |title: &str| format!("{}: {title}{memory}{size}", results.name);
        match self {
            Panel::Bars(bars) => bars.frame(&title(bars.view.title)),
            Panel::Lines(lines) => lines.frame(&title(lines.curve.title)),
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
