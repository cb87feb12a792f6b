//! Rows: one per measured point, its identity and its raw samples.
//!
//! A row is an ordered list of named cells, an object in JSON. Keys contain their unit (`time_ns`, `stored_bytes`). An array
//! holds the raw samples of every repetition. The median and quartiles are stored beside it for readers only: bars are computed
//! from the samples.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::stats::{self, Summary};

/// The value of a cell.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Yes or no.
    Flag(bool),
    /// A count, or bytes.
    Count(u64),
    /// Anything else that is a number.
    Number(f64),
    /// Part of the row's identity, or a remark.
    Text(String),
    /// The raw samples of every repetition, in the order taken.
    Samples(Vec<u64>),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Flag(flag) => flag.fmt(f),
            Cell::Count(count) => count.fmt(f),
            Cell::Number(number) => number.fmt(f),
            Cell::Text(text) => text.fmt(f),
            Cell::Samples(samples) => {
                let texts: Vec<String> = samples.iter().map(u64::to_string).collect();
                texts.join(" ").fmt(f)
            }
        }
    }
}

/// The key that marks a refused row.
const REFUSED: &str = "median_refused";

/// One measured point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    cells: Vec<(String, Cell)>,
}

impl Row {
    /// A row without cells.
    pub fn new() -> Row {
        Row::default()
    }

    /// Adds a text, usually part of the row's identity.
    pub fn text(self, key: &str, text: impl Into<String>) -> Row {
        self.with(key, Cell::Text(text.into()))
    }

    /// Adds a count.
    pub fn count(self, key: &str, count: u64) -> Row {
        self.with(key, Cell::Count(count))
    }

    /// Adds a number. A number that is not finite cannot be written as JSON and is left out, so that a reader finds nothing
    /// rather than a wrong value.
    pub fn number(self, key: &str, number: f64) -> Row {
        if number.is_finite() {
            self.with(key, Cell::Number(number))
        } else {
            self
        }
    }

    /// Adds a flag.
    pub fn flag(self, key: &str, flag: bool) -> Row {
        self.with(key, Cell::Flag(flag))
    }

    /// Adds all cells of another row.
    pub fn and(self, other: Row) -> Row {
        other
            .cells
            .into_iter()
            .fold(self, |row, (key, cell)| row.with(&key, cell))
    }

    /// Adds raw samples, `stem_unit`, and their median and quartiles as `stem_median_unit` and so
    /// on.
    pub fn samples(self, stem: &str, unit: &str, samples: Vec<u64>) -> Row {
        let summary = Summary::of(&samples);
        let mut row = self.with(&format!("{stem}_{unit}"), Cell::Samples(samples));
        if let Some(summary) = summary {
            for (name, value) in [
                ("median", summary.median),
                ("q1", summary.q1),
                ("q3", summary.q3),
            ] {
                row = row.number(&format!("{stem}_{name}_{unit}"), value);
            }
        }
        row
    }

    /// Marks the row as refused: its samples scatter too much, so none of its cells of samples has a value.
    pub fn refused(self) -> Row {
        match self.is_refused() {
            true => self,
            false => self.flag(REFUSED, true),
        }
    }

    fn is_refused(&self) -> bool {
        self.get(REFUSED) == Some(&Cell::Flag(true))
    }

    fn with(mut self, key: &str, cell: Cell) -> Row {
        debug_assert!(self.get(key).is_none(), "key `{key}` given twice");
        self.cells.push((key.to_owned(), cell));
        self
    }

    /// The cells in order.
    pub fn cells(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.cells.iter().map(|(key, cell)| (key.as_str(), cell))
    }

    /// The cell named `key`.
    pub fn get(&self, key: &str) -> Option<&Cell> {
        self.cells()
            .find(|(name, _)| *name == key)
            .map(|(_, cell)| cell)
    }

    /// A cell as a number: the median if it holds samples, unless they were refused.
    pub fn value(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Cell::Count(count) => Some(*count as f64),
            Cell::Number(number) => Some(*number),
            Cell::Samples(_) if self.is_refused() => None,
            Cell::Samples(samples) => stats::median(samples),
            Cell::Flag(_) | Cell::Text(_) => None,
        }
    }

    /// The samples of a cell over those of `other` that were taken in the same rounds, in the median: what drifts from round to round is
    /// in both. If one of them has more, these are of later rounds, and are left out.
    pub fn over(&self, other: &Row, key: &str) -> Option<f64> {
        stats::quantile_of(&self.ratios(other, key)?, 0.5)
    }

    /// The same of each round.
    pub fn ratios(&self, other: &Row, key: &str) -> Option<Vec<f64>> {
        let (Cell::Samples(ours), Cell::Samples(theirs)) = (self.get(key)?, other.get(key)?) else {
            return None;
        };
        if self.is_refused() || other.is_refused() {
            return None;
        }
        let pairs = ours.iter().zip(theirs);
        let ratios = pairs.map(|(ours, theirs)| *ours as f64 / *theirs as f64);
        Some(ratios.collect())
    }

    /// The sum of a cell of samples.
    pub fn total(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Cell::Samples(samples) => Some(samples.iter().map(|&sample| sample as f64).sum()),
            _ => None,
        }
    }

    /// Median and quartiles of a cell of samples; all three are equal for a single number.
    pub fn summary(&self, key: &str) -> Option<Summary> {
        match self.get(key)? {
            Cell::Samples(_) if self.is_refused() => None,
            Cell::Samples(samples) => Summary::of(samples),
            _ => self.value(key).map(Summary::alone),
        }
    }

    /// Whether the cells named in `identity` have these texts.
    pub fn is(&self, identity: &[(&str, &str)]) -> bool {
        identity
            .iter()
            .all(|(key, text)| self.get(key).is_some_and(|cell| cell.to_string() == *text))
    }
}

/// The first row of that identity.
pub fn find<'a>(rows: &'a [Row], identity: &[(&str, &str)]) -> Option<&'a Row> {
    rows.iter().find(|row| row.is(identity))
}

/// The distinct texts of one key over all rows, in order of appearance.
pub fn distinct(rows: &[Row], key: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for cell in rows.iter().filter_map(|row| row.get(key)) {
        let text = cell.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.cells.len()))?;
        for (key, cell) in &self.cells {
            map.serialize_entry(key, cell)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Row, D::Error> {
        struct Cells;
        impl<'de> Visitor<'de> for Cells {
            type Value = Row;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of numbers, texts, flags and arrays of samples")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
                let mut row = Row::new();
                while let Some(cell) = map.next_entry()? {
                    row.cells.push(cell);
                }
                Ok(row)
            }
        }
        deserializer.deserialize_map(Cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row::new()
            .text("query", "q1")
            .count("rows", 7)
            .samples("time", "ns", vec![3, 1, 2])
    }

    #[test]
    fn keeps_the_order_of_its_keys_through_json() {
        let json = serde_json::to_string(&row()).unwrap();
        assert_eq!(
            json,
            r#"{"query":"q1","rows":7,"time_ns":[3,1,2],"time_median_ns":2.0,"time_q1_ns":1.5,"time_q3_ns":2.5}"#
        );
        assert_eq!(serde_json::from_str::<Row>(&json).unwrap(), row());
    }

    #[test]
    fn value_comes_from_the_samples_not_from_the_median_beside_them() {
        let tampered = r#"{"time_ns":[3,1,2],"time_median_ns":0.001}"#;
        let tampered: Row = serde_json::from_str(tampered).unwrap();
        assert_eq!(tampered.value("time_ns"), Some(2.0));
    }

    #[test]
    fn ratios_are_those_of_the_same_rounds() {
        let row = |samples: &[u64]| Row::new().samples("time", "ns", samples.to_vec());
        let (one, other) = (row(&[10, 20, 90]), row(&[20, 40, 100]));
        assert_eq!(one.over(&other, "time_ns"), Some(0.5));
        // Of the first rounds: 10 and 20 over 40 and 80.
        assert_eq!(one.over(&row(&[40, 80]), "time_ns"), Some(0.25));
        assert_eq!(row(&[40, 80]).over(&one, "time_ns"), Some(4.0));
        assert_eq!(one.over(&row(&[]), "time_ns"), None);
        assert_eq!(one.over(&row(&[0, 0, 0]).refused(), "time_ns"), None);
    }

    #[test]
    fn refused_samples_have_no_value_and_stay_so_in_json() {
        let refused = row().refused();
        let json = serde_json::to_string(&refused).unwrap();
        let read: Row = serde_json::from_str(&json).unwrap();
        assert_eq!(read, refused);
        assert_eq!(
            (read.value("time_ns"), read.value("rows")),
            (None, Some(7.0))
        );
        assert_eq!(read.summary("time_ns"), None);
    }

    #[test]
    fn found_by_identity() {
        let rows = [row(), Row::new().text("query", "q2").count("rows", 8)];
        assert_eq!(
            find(&rows, &[("query", "q2"), ("rows", "8")]),
            Some(&rows[1])
        );
        assert_eq!(find(&rows, &[("query", "q2"), ("rows", "7")]), None);
        assert_eq!(distinct(&rows, "query"), ["q1", "q2"]);
    }
}
