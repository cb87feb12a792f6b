//! Curves: quantities that change while an experiment runs, drawn as lines over time.
//!
//! A curve's rows are its points, in order: each has the time, its line, and a value. They are too many for a table; they
//! are in the results file and in the figure.

use crate::row::{Row, distinct};
use crate::view::Unit;

/// A panel of lines.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    /// What it shows.
    pub title: &'static str,
    /// The key of the time, in seconds.
    pub at: &'static str,
    /// The key whose texts are the lines.
    pub series: &'static str,
    /// The key of the value.
    pub value: &'static str,
    /// What the values are.
    pub unit: Unit,
}

/// One line: its name and its points, by time.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The text of [`Curve::series`].
    pub name: String,
    /// Seconds and values.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// The lines of the rows that have this curve's keys.
    pub fn lines(&self, rows: &[Row]) -> Vec<Line> {
        let line = |name: String| Line {
            points: rows
                .iter()
                .filter(|row| row.is(&[(self.series, &name)]))
                .filter_map(|row| Some((row.value(self.at)?, row.value(self.value)?)))
                .collect(),
            name,
        };
        let lines = distinct(rows, self.series).into_iter().map(line);
        lines.filter(|line| !line.points.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_points_of_their_lines() {
        let curve = Curve {
            title: "memory",
            at: "at_s",
            series: "memory",
            value: "held_bytes",
            unit: Unit::Bytes,
        };
        let point = |memory, at_s, bytes| {
            let row = Row::new().text("memory", memory).number("at_s", at_s);
            row.count("held_bytes", bytes)
        };
        let rows = [
            point("near", 0.0, 5),
            point("far", 0.0, 7),
            Row::new()
                .text("memory", "a row without a time")
                .count("held_bytes", 1),
            point("near", 0.5, 6),
        ];
        let lines = curve.lines(&rows);
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (lines[0].name.as_str(), &lines[0].points[..]),
            ("near", &[(0.0, 5.0), (0.5, 6.0)][..])
        );
        assert_eq!(lines[1].points, [(0.0, 7.0)]);
    }
}
