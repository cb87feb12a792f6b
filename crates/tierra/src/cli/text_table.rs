//! A plain table for a terminal: columns padded to their widest field, with a line under the headings.

use std::fmt;

use tierra::printable;

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// Rows of fields below headings; every row has one field per heading.
pub(crate) struct TextTable {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with these headings and no rows.
    pub(crate) fn new<'h>(columns: impl IntoIterator<Item = (&'h str, Side)>) -> Self {
        let columns = columns.into_iter();
        let (heads, sides) = columns.map(|(head, side)| (head.to_owned(), side)).unzip();
        Self {
            sides,
            rows: vec![heads],
        }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.sides.len(), "one field for each head");
        let fields = row.iter().map(|field| printable(field).into_owned());
        self.rows.push(fields.collect());
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.sides.len()).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((field, &width), side) in row.iter().zip(&widths).zip(&self.sides) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                // The width in `format!` is at most 65,535.
                let blanks = " ".repeat(width - field.chars().count());
                let [one, two] = match side {
                    Side::Left => [field, &blanks],
                    Side::Right => [&blanks, field],
                };
                line.extend([one.as_str(), two]);
            }
            writeln!(f, "{}", line.trim_end())?;
            if number == 0 {
                let ruler: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
                writeln!(f, "{}", ruler.join("  "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new([("what", Side::Left), ("n", Side::Right)]);
        table.push(vec!["é".into(), "10".into()]);
        table.push(vec!["longer".into(), "7".into()]);
        assert_eq!(
            table.to_string(),
            "what     n\n------  --\né       10\nlonger   7\n"
        );
    }
}
