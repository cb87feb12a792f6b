//! What is asked of a database, and what the answers have to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use tierra_column::{Filter, Value, ordinal};
use tierra_engine::{Database, ScanSpec, Snapshot, Table};
use tierra_interleave::{Lookups, Scheduling};

use super::State;
use crate::support::{CITY, rows_of, sorted};

/// What came of it.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) right: usize,
    /// Errors, by table.
    pub(crate) refused: BTreeMap<String, String>,
    pub(crate) refused_count: usize,
    pub(crate) wrong: Vec<String>,
}

impl Answers {
    pub(crate) fn all_right(&self) -> bool {
        self.refused_count == 0 && self.wrong.is_empty()
    }
}

enum No {
    Refused(String),
    Wrong(String),
}

type Answer = Result<(), No>;

fn refused(error: impl ToString) -> No {
    No::Refused(error.to_string())
}

fn same(found: &RecordBatch, expected: &RecordBatch) -> Answer {
    if found.num_rows() != expected.num_rows() {
        let (found, expected) = (found.num_rows(), expected.num_rows());
        return Err(No::Wrong(format!("{found} rows instead of {expected}")));
    }
    match found.columns() == expected.columns() {
        true => Ok(()),
        false => Err(No::Wrong("other values".to_owned())),
    }
}

/// Asks everything of every table, which should have these rows.
pub(crate) fn ask(database: &Database, expected: &State) -> Answers {
    let mut answers = Answers::default();
    let names: Vec<String> = expected.keys().cloned().collect();
    if database.tables() != names {
        let found = database.tables();
        answers
            .wrong
            .push(format!("tables {found:?} instead of {names:?}"));
    }
    for (name, ids) in expected {
        let Some(table) = database.table(name) else {
            continue;
        };
        let question = Question {
            table: &table,
            snapshot: table.snapshot(),
            ids,
            all: rows_of(ids),
        };
        let mut count = |what: &str, answer: Answer| match answer {
            Ok(()) => answers.right += 1,
            Err(No::Wrong(why)) => answers.wrong.push(format!("{name}, {what}: {why}")),
            Err(No::Refused(error)) => {
                if !error.contains(&format!("{name:?}")) {
                    let error = format!("{name}, {what}: not named by: {error}");
                    answers.wrong.push(error);
                }
                answers.refused_count += 1;
                answers.refused.entry(name.clone()).or_insert(error);
            }
        };
        count("count", question.count());
        count("all", question.all());
        for column in 0..question.all.num_columns() {
            count(&format!("column {column}"), question.column(column));
        }
        if !table.spec().primary_key.is_empty() {
            count("by key", question.by_key());
        }
        count("by index", question.by_index());
        count("by range", question.by_range());
        count("statistics", question.statistics());
    }
    answers
}

struct Question<'a> {
    table: &'a Arc<Table>,
    snapshot: Snapshot,
    /// Ascending.
    ids: &'a [i64],
    all: RecordBatch,
}

impl Question<'_> {
    fn scan(&self, projection: &[usize], filters: &[(usize, Filter)]) -> Result<RecordBatch, No> {
        let scan = self.snapshot.scan(ScanSpec {
            projection: projection.to_vec(),
            filters: filters.to_vec(),
            batch_rows: 8192,
            execution: Scheduling::Auto,
        });
        let mut cursor = scan.cursor();
        let mut batches = Vec::new();
        while let Some(batch) = cursor.next(&[], 0).map_err(refused)? {
            batches.push(batch);
        }
        concat_batches(&scan.schema(), &batches).map_err(|error| No::Wrong(error.to_string()))
    }

    fn count(&self) -> Answer {
        self.table.check_available().map_err(refused)?;
        let scan = self.snapshot.scan(ScanSpec {
            projection: Vec::new(),
            filters: Vec::new(),
            batch_rows: 8192,
            execution: Scheduling::Auto,
        });
        let (mut cursor, mut scanned) = (scan.cursor(), 0);
        while let Some(batch) = cursor.next(&[], 0).map_err(refused)? {
            scanned += batch.num_rows() as u64;
        }
        let (told, expected) = (self.snapshot.rows(), self.ids.len() as u64);
        match (told, scanned) == (expected, expected) {
            true => Ok(()),
            false => Err(No::Wrong(format!(
                "{told} and {scanned} rows instead of {expected}"
            ))),
        }
    }

    fn all(&self) -> Answer {
        let columns: Vec<usize> = (0..self.all.num_columns()).collect();
        same(&sorted(&self.scan(&columns, &[])?), &self.all)
    }

    fn column(&self, column: usize) -> Answer {
        let expected = self.all.project(&[column]).expect("a column of it");
        same(&sorted(&self.scan(&[column], &[])?), &sorted(&expected))
    }

    fn by_key(&self) -> Answer {
        let step = self.ids.len() / 13 + 1;
        let there: Vec<i64> = self.ids.iter().copied().step_by(step).collect();
        let none = [-1, self.ids.last().map_or(0, |last| last + 1)];
        let keys: Int64Array = there.iter().copied().chain(none).collect();
        let keys: ArrayRef = Arc::new(keys);
        let mut lookups = Lookups::new(Scheduling::Auto);
        let found = self.snapshot.rows_by_key(&[keys], &mut lookups);
        let found = found.map_err(refused)?;
        let (found, more) = found.split_at(there.len());
        if more.iter().any(Option::is_some) {
            return Err(No::Wrong("a key that there is not is found".to_owned()));
        }
        let found: Option<Vec<_>> = found.iter().copied().collect();
        let found = found.ok_or_else(|| No::Wrong("a key is not found".to_owned()))?;
        let columns: Vec<usize> = (0..self.all.num_columns()).collect();
        let projection = self.table.projection(&columns);
        let read = self.snapshot.reconstruct(&found, &projection, &mut lookups);
        same(&read.map_err(refused)?, &rows_of(&there))
    }

    fn ids(&self, filter: (usize, Filter), is_it: impl Fn(i64) -> bool) -> Answer {
        let expected = self.ids.iter().copied().filter(|id| is_it(*id));
        let expected = Int64Array::from_iter_values(expected);
        let schema = self.all.project(&[0]).expect("an id").schema();
        let expected = RecordBatch::try_new(schema, vec![Arc::new(expected)]);
        let expected = expected.expect("one column");
        same(&sorted(&self.scan(&[0], &[filter])?), &expected)
    }

    fn by_index(&self) -> Answer {
        let city = |number| {
            let city = format!("city number {number:03}");
            (CITY, Filter::eq(Value::Bytes(city.as_bytes().into())))
        };
        self.ids(city(7), |id| id % 200 == 7)?;
        self.ids(city(199), |id| id % 200 == 199)?;
        self.ids(city(200), |_| false)
    }

    fn by_range(&self) -> Answer {
        let small = |value| Value::Ordinal(ordinal::of_i32(value));
        let filter = Filter::between(small(10), small(19));
        self.ids((2, filter), |id| {
            id % 5 != 0 && (10..20).contains(&(id % 100))
        })?;
        let big = |value| Value::Ordinal(ordinal::of_i64(value));
        let filter = Filter::between(big(1000), big(1100));
        self.ids((0, filter), |id| (1000..=1100).contains(&id))
    }

    fn statistics(&self) -> Answer {
        self.table.check_available().map_err(refused)?;
        let found = self.snapshot.statistics(0);
        let bound = |id: Option<&i64>| id.map(|id| Value::Ordinal(ordinal::of_i64(*id)));
        let (min, max) = (bound(self.ids.first()), bound(self.ids.last()));
        let is_right = found.lacks_rows || (&found.min, &found.max) == (&min, &max);
        let small = self.snapshot.statistics(2);
        let nulls = self.ids.iter().filter(|id| **id % 5 == 0).count() as u64;
        match is_right && (small.lacks_rows || small.null_count == nulls) {
            true => Ok(()),
            false => Err(No::Wrong(format!("{found:?}, {small:?}"))),
        }
    }
}
