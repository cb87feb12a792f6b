//! The child: it makes a database of a given size and shape and appends to it until it is killed.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use tierra_column::{Encoding, LogicalType};
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, IndexKind, Replicas, Table, TableSpec};

use crate::error::{Context, LabError};
use crate::lab::SEED;
use crate::random::Random;

const WHO: &str = "the child that fills a database";
/// Columns of random numbers, which no encoding makes smaller.
const NUMBERS: usize = 40;
const BATCH_ROWS: i64 = 1 << 16;
/// Rows of one load: two segments.
const LOAD_ROWS: i64 = 1 << 21;
/// Appends to the tail, of so many rows.
const APPENDS: usize = 2_000;
pub(super) const APPEND_ROWS: i64 = 25;
/// Different words: a large dictionary.
const WORDS: u64 = 1_000_000;
/// The second tier.
pub(super) const SECOND: &str = "b";

/// The parts of a database beside columns of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) key: bool,
    /// A column of words with a dictionary of a million and an inverted index.
    pub(super) words: bool,
    /// Rows appended a few at a time, which are replayed on opening.
    pub(super) tail: bool,
    /// A copy of everything in another tier.
    pub(super) copy: bool,
}

impl Shape {
    pub(super) const ALL: Shape = Shape {
        key: true,
        words: true,
        tail: true,
        copy: false,
    };

    pub(super) const NUMBERS: Shape = Shape {
        key: false,
        words: false,
        tail: false,
        copy: false,
    };

    pub(super) fn name(self) -> &'static str {
        match (self.key, self.words, self.tail) {
            (true, true, true) => "key, dictionary, tail",
            (true, false, false) => "key",
            (false, true, false) => "dictionary",
            (false, false, true) => "tail",
            _ => "numbers alone",
        }
    }

    /// The shape and the size as a number for the child's command line.
    pub(super) fn number(self, mebibytes: u64) -> u64 {
        let flags = [self.key, self.words, self.tail, self.copy];
        let bits = flags
            .iter()
            .fold(0, |bits, flag| 2 * bits + u64::from(*flag));
        mebibytes * 16 + bits
    }

    fn of_number(number: u64) -> (Shape, u64) {
        let flag = |bit: u64| number >> bit & 1 == 1;
        let shape = Shape {
            key: flag(3),
            words: flag(2),
            tail: flag(1),
            copy: flag(0),
        };
        (shape, number / 16)
    }
}

/// The child's report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    /// Rows that were loaded, numbered from 0.
    pub(super) loaded: i64,
    /// Rows in all that were acknowledged.
    pub(super) rows: i64,
}

/// The options with which both processes open it.
pub(super) fn options() -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(64 << 20),
        threads: NonZeroUsize::new(crate::lab::threads()),
        ..DatabaseOptions::default()
    }
}

/// Makes the database and appends to it until the process is killed.
pub(in super::super) fn fill_until_killed(dir: &Path, number: u64) -> Result<(), LabError> {
    let (shape, mebibytes) = Shape::of_number(number);
    let doing = || format!("making {mebibytes} MiB");
    let database = Database::create(&dir.join("db"), &options()).by(WHO, doing())?;
    let mut replicas = Replicas::default();
    if shape.copy {
        let pool = dir.join("b.pool");
        database.add_tier(SECOND, &pool).by(WHO, doing())?;
        replicas = Replicas::of_table(["far", SECOND]);
    }
    let table = database.create_table_in(spec(shape), replicas);
    let table = table.by(WHO, doing())?;
    let row_bytes = 8 * (NUMBERS as u64 + 1);
    let loaded = ((mebibytes << 20) / row_bytes) as i64;
    for first in (0..loaded).step_by(LOAD_ROWS as usize) {
        let end = loaded.min(first + LOAD_ROWS);
        let mut loader = table.loader();
        for start in (first..end).step_by(BATCH_ROWS as usize) {
            let batch = rows(&table, shape, start..end.min(start + BATCH_ROWS));
            loader.push(batch).by(WHO, doing())?;
        }
        loader.finish().by(WHO, doing())?;
    }
    let mut now = loaded;
    let mut append = || {
        let batch = rows(&table, shape, now..now + APPEND_ROWS);
        table.append(&[batch]).by(WHO, "appending")?;
        now += APPEND_ROWS;
        Ok::<i64, LabError>(now)
    };
    let mut rows_now = loaded;
    if shape.tail {
        for _ in 0..APPENDS {
            rows_now = append()?;
        }
    }
    // Indexes are made in the background, which is not measured.
    database.wait_for_near_copies().by(WHO, doing())?;
    tell(loaded, rows_now)?;
    loop {
        match shape.tail {
            true => tell(loaded, append()?)?,
            false => std::thread::park(),
        }
    }
}

fn tell(loaded: i64, rows: i64) -> Result<(), LabError> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{loaded} {rows}").by(WHO, "telling")?;
    stdout.flush().by(WHO, "telling")
}

/// Waits until the child has made it, and kills the child while it appends.
pub(super) fn kill_when_filled(mut child: Child) -> Result<Filled, LabError> {
    let stdout = child
        .stdout
        .take()
        .ok_or("no pipe")
        .by("the lab", "starting a child")?;
    let mut lines = BufReader::new(stdout).lines();
    let first = lines.next();
    child.kill().by("the lab", "killing the child")?;
    child.wait().by("the lab", "killing the child")?;
    let lines: Result<Vec<String>, _> = first.into_iter().chain(lines).collect();
    let lines = lines.by("the lab", "reading what the child told")?;
    // The last line may be incomplete.
    let told = lines.iter().rev().find_map(|line| {
        let (loaded, rows) = line.split_once(' ')?;
        Some(Filled {
            loaded: loaded.parse().ok()?,
            rows: rows.parse().ok()?,
        })
    });
    told.ok_or("it ended before")
        .by("a child", "filling a database")
}

fn spec(shape: Shape) -> TableSpec {
    let mut columns = vec![ColumnSpec::new("id", LogicalType::BigInt).not_null()];
    columns.extend((0..NUMBERS).map(|number| ColumnSpec {
        encoding: Some(Encoding::Plain),
        ..ColumnSpec::new(format!("n{number}"), LogicalType::BigInt).not_null()
    }));
    if shape.words {
        columns.push(ColumnSpec {
            encoding: Some(Encoding::Dictionary),
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new("word", LogicalType::Varchar)
        });
    }
    TableSpec {
        name: "t".to_owned(),
        columns,
        primary_key: if shape.key { vec![0] } else { Vec::new() },
    }
}

/// A number for a cell: arbitrary, but the same each time.
pub(super) fn number(id: i64, column: usize) -> i64 {
    Random::new(SEED ^ (id as u64) << 8 ^ column as u64).bits() as i64
}

/// Rows of those ids.
pub(super) fn rows(table: &Arc<Table>, shape: Shape, ids: std::ops::Range<i64>) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = vec![Arc::new(ids.clone().collect::<Int64Array>())];
    for column in 0..NUMBERS {
        let numbers = ids.clone().map(|id| number(id, column));
        columns.push(Arc::new(numbers.collect::<Int64Array>()));
    }
    if shape.words {
        let words = ids.map(|id| format!("word {:07}", number(id, NUMBERS) as u64 % WORDS));
        columns.push(Arc::new(StringViewArray::from_iter_values(words)));
    }
    RecordBatch::try_new(table.schema(), columns).expect("the columns are those of the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_told_to_the_child() {
        for bits in 0..16 {
            let (shape, mebibytes) = Shape::of_number(100 * 16 + bits);
            assert_eq!((shape.number(mebibytes), mebibytes), (1600 + bits, 100));
        }
    }
}
