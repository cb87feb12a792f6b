//! Views: the layout of an experiment's rows for reading, as a table and as a panel of the figure. Both use the same
//! description, so they cannot differ.

use crate::row::{Row, distinct, find};
use crate::stats::{Summary, geometric_mean};

/// A cross table of rows: one line per `category`, one column per `series`.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// What it shows.
    pub title: &'static str,
    /// The key whose texts are the lines, for example "query".
    pub category: &'static str,
    /// The key whose texts are the columns, for example "engine".
    pub series: &'static str,
    /// The key of the value: of samples (their median is shown) or of a number.
    pub value: &'static str,
    /// A key to divide the value by, for example "values" for a time per value.
    pub per: Option<&'static str>,
    /// The unit of the values.
    pub unit: Unit,
    /// Whether a last line shows the geometric mean over the categories.
    pub mean: bool,
}

/// The unit of a view's values, which decides how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, shown in the unit that suits most values.
    Nanoseconds,
    /// Bytes, likewise.
    Bytes,
    /// A number per second, likewise.
    PerSecond,
    /// A plain ratio.
    Ratio,
    /// A plain number of things.
    Count,
    /// A number of things over all repetitions: the sum of the samples, because a median would hide rare ones.
    Total,
}

impl Unit {
    /// The name and size of the unit in which values around `typical` read best.
    pub fn scaled_to(self, typical: f64) -> (&'static str, f64) {
        let ladder: &[(&str, f64)] = match self {
            Unit::Nanoseconds => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
            Unit::Bytes => &[
                ("bytes", 1.0),
                ("KiB", 1024.0),
                ("MiB", 1048576.0),
                ("GiB", 1073741824.0),
            ],
            Unit::PerSecond => &[
                ("/s", 1.0),
                ("thousand/s", 1e3),
                ("million/s", 1e6),
                ("thousand million/s", 1e9),
            ],
            Unit::Ratio => &[("times", 1.0)],
            Unit::Count | Unit::Total => &[("number", 1.0)],
        };
        let fitting = ladder.iter().rev().find(|(_, size)| typical >= *size);
        *fitting.unwrap_or(&ladder[0])
    }
}

/// A view's values: `cells[category][series]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The lines.
    pub categories: Vec<String>,
    /// The columns.
    pub series: Vec<String>,
    /// Median and quartiles; `None` where there is no such row.
    pub cells: Vec<Vec<Option<Summary>>>,
}

impl View {
    /// Lays out the rows that have this view's keys.
    pub fn grid(&self, rows: &[Row]) -> Grid {
        let rows: Vec<Row> = rows
            .iter()
            .filter(|row| {
                [self.category, self.series]
                    .iter()
                    .all(|key| row.get(key).is_some())
            })
            .filter(|row| self.summary(row).is_some())
            .cloned()
            .collect();
        let (categories, series) = (distinct(&rows, self.category), distinct(&rows, self.series));
        let cell = |category: &String, name: &String| {
            find(&rows, &[(self.category, category), (self.series, name)])
                .and_then(|row| self.summary(row))
        };
        let cells = categories
            .iter()
            .map(|category| series.iter().map(|name| cell(category, name)).collect())
            .collect();
        Grid {
            categories,
            series,
            cells,
        }
    }

    fn summary(&self, row: &Row) -> Option<Summary> {
        let summary = match self.unit {
            Unit::Total => Summary::alone(row.total(self.value)?),
            _ => row.summary(self.value)?,
        };
        let divisor = match self.per {
            Some(key) => row.value(key)?,
            None => 1.0,
        };
        Some(Summary {
            median: summary.median / divisor,
            q1: summary.q1 / divisor,
            q3: summary.q3 / divisor,
            count: summary.count,
        })
    }

    /// The title of the grid as a table, with the unit of its values.
    pub fn titled(&self, grid: &Grid) -> String {
        let (unit, _) = self.unit.scaled_to(grid.typical());
        format!("{} [{unit}]", self.title)
    }

    /// The grid as lines of text: a heading, one line per category, perhaps one of means.
    pub fn lines(&self, grid: &Grid) -> Vec<Vec<String>> {
        let (_, size) = self.unit.scaled_to(grid.typical());
        let show = |value: f64| significant(value / size);
        let mut lines = vec![vec![self.category.to_owned()]];
        lines[0].extend(grid.series.iter().cloned());
        for (category, cells) in grid.categories.iter().zip(&grid.cells) {
            let mut line = vec![category.clone()];
            line.extend(
                cells
                    .iter()
                    .map(|cell| cell.map_or_else(|| "-".to_owned(), |cell| show(cell.median))),
            );
            lines.push(line);
        }
        if self.mean {
            let mut line = vec!["geometric mean".to_owned()];
            line.extend((0..grid.series.len()).map(|series| {
                let values: Option<Vec<f64>> = grid
                    .cells
                    .iter()
                    .map(|cells| cells[series].map(|cell| cell.median))
                    .collect();
                values
                    .and_then(geometric_mean)
                    .map_or_else(|| "-".to_owned(), show)
            }));
            lines.push(line);
        }
        lines
    }
}

impl Grid {
    /// The geometric mean of all positive medians, 0 if there are none: it chooses the unit for values that span decades.
    pub fn typical(&self) -> f64 {
        geometric_mean(self.medians().filter(|median| *median > 0.0)).unwrap_or(0.0)
    }

    /// The grid in parts of at most that many series each, about as many in every part, without categories that are empty there.
    pub fn parts(&self, series_most: usize) -> Vec<Grid> {
        let count = self.series.len().div_ceil(series_most).max(1);
        let each = self.series.len().div_ceil(count).max(1);
        let part = |first: usize| {
            let series = first..(first + each).min(self.series.len());
            let rows = self.categories.iter().zip(&self.cells);
            let (categories, cells) = rows
                .map(|(category, cells)| (category.clone(), cells[series.clone()].to_vec()))
                .filter(|(_, cells)| cells.iter().any(Option::is_some))
                .unzip();
            Grid {
                categories,
                series: self.series[series].to_vec(),
                cells,
            }
        };
        (0..self.series.len()).step_by(each).map(part).collect()
    }

    /// All medians.
    pub fn medians(&self) -> impl Iterator<Item = f64> {
        self.cells
            .iter()
            .flatten()
            .flatten()
            .map(|summary| summary.median)
    }
}

/// Three significant digits, without an exponent: the precision of a median of a few repetitions.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: View = View {
        title: "time",
        category: "query",
        series: "engine",
        value: "time_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: true,
    };

    fn row(query: &str, engine: &str, samples: Vec<u64>) -> Row {
        Row::new()
            .text("query", query)
            .text("engine", engine)
            .samples("time", "ns", samples)
    }

    #[test]
    fn lays_out_medians_in_a_fitting_unit() {
        let rows = [
            row("q1", "a", vec![2_000_000, 9_000_000, 1_000_000]),
            row("q2", "a", vec![8_000_000]),
            row("q1", "b", vec![3_000_000]),
            Row::new().text("query", "of another view"),
        ];
        let grid = VIEW.grid(&rows);
        assert_eq!(VIEW.titled(&grid), "time [ms]");
        let lines = VIEW.lines(&grid);
        assert_eq!(lines[0], ["query", "a", "b"]);
        assert_eq!(lines[1], ["q1", "2.00", "3.00"]);
        assert_eq!(lines[2], ["q2", "8.00", "-"]);
        // A mean over only some of the queries would be a wrong answer.
        assert_eq!(lines[3], ["geometric mean", "4.00", "-"]);
    }

    #[test]
    fn divides_by_a_key() {
        let view = View {
            per: Some("values"),
            mean: false,
            ..VIEW
        };
        let rows = [row("q1", "a", vec![500]).count("values", 1000)];
        assert_eq!(view.lines(&view.grid(&rows))[1], ["q1", "0.500"]);
    }

    #[test]
    fn parts_have_about_as_many_series_and_all_of_them() {
        let mut rows = Vec::new();
        for series in 0..9 {
            // The last four have a category of their own.
            let query = if series < 5 { "q1" } else { "q2" };
            rows.push(row(query, &format!("e{series}"), vec![series + 1]));
        }
        let grid = VIEW.grid(&rows);
        assert_eq!(grid.parts(9), std::slice::from_ref(&grid));
        let parts = grid.parts(8);
        let sizes: Vec<usize> = parts.iter().map(|part| part.series.len()).collect();
        assert_eq!(sizes, [5, 4]);
        assert_eq!(
            (&parts[0].categories[..], &parts[1].categories[..]),
            (&["q1".to_owned()][..], &["q2".to_owned()][..])
        );
        assert_eq!(parts[1].cells[0][3].unwrap().median, 9.0);
        let empty = VIEW.grid(&[]);
        assert!(empty.parts(8).is_empty());
    }

    #[test]
    fn what_is_rare_is_summed() {
        let view = View {
            value: "wrong_count",
            unit: Unit::Total,
            mean: false,
            ..VIEW
        };
        let row = Row::new().text("query", "q1").text("engine", "a");
        let rows = [row.samples("wrong", "count", vec![0, 0, 0, 3, 1])];
        assert_eq!(view.lines(&view.grid(&rows))[1], ["q1", "4.00"]);
    }
}
