//! The statements: a row is inserted, updated and deleted by its key, each a commit, each prepared.

use std::ops::Range;

/// Every side has this table. Negative keys are those of rows that are not changed.
pub(super) const TABLE: &str =
    "CREATE TABLE account (id BIGINT PRIMARY KEY, n BIGINT, name VARCHAR)";
/// What is compared at the end.
pub(super) const CONTENTS: &str = "SELECT count(*), sum(id), sum(n) FROM account";
/// Numbers of rows are below this.
const NUMBERS: i64 = 1_000;
/// Of the keys, one of so many is deleted again.
const DELETED_ONE_IN: i64 = 2;

/// A statement that changes one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Insert,
    Update,
    Delete,
}

impl Statement {
    pub(super) const ALL: [Statement; 3] =
        [Statement::Insert, Statement::Update, Statement::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Statement::Insert => "INSERT",
            Statement::Update => "UPDATE",
            Statement::Delete => "DELETE",
        }
    }

    /// Its text. Parameters are numbered in the order in which they are written.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Statement::Insert => "INSERT INTO account VALUES ($1, $2, $3)",
            Statement::Update => "UPDATE account SET n = $1 WHERE id = $2",
            Statement::Delete => "DELETE FROM account WHERE id = $1",
        }
    }

    /// Its place in [`Statement::ALL`].
    pub(super) fn place(self) -> usize {
        self as usize
    }

    /// Of these keys, those of the rows that it changes.
    pub(super) fn keys(self, of: Range<i64>) -> impl Iterator<Item = i64> {
        of.filter(move |key| self != Statement::Delete || key % DELETED_ONE_IN == 0)
    }
}

/// The number of a row, inserted or updated.
pub(super) fn number(statement: Statement, id: i64) -> i64 {
    match statement {
        Statement::Update => (7 * id + 1) % NUMBERS,
        _ => id % NUMBERS,
    }
}

/// The text of a row.
pub(super) fn name(id: i64) -> String {
    format!("account {id}")
}

/// Inserts rows that are not changed, in the SQL of PostgreSQL.
pub(super) fn fill(rows: i64) -> String {
    format!(
        "INSERT INTO account SELECT -s.v, s.v % {NUMBERS}, 'account ' || CAST(s.v AS VARCHAR) FROM generate_series(1, {rows}) AS s(v)"
    )
}

/// The same in SQLite's.
pub(super) fn fill_sqlite(rows: i64) -> String {
    format!(
        "WITH RECURSIVE s(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM s WHERE v < {rows})
         INSERT INTO account SELECT -s.v, s.v % {NUMBERS}, 'account ' || s.v FROM s"
    )
}

/// The answer to [`CONTENTS`] after all statements on so many keys, beside so many filled rows.
pub(super) fn contents(filled: i64, keys: i64) -> [i64; 3] {
    let [mut count, mut ids, mut numbers] = [0; 3];
    for id in 1..=filled {
        [count, ids, numbers] = [count + 1, ids - id, numbers + id % NUMBERS];
    }
    for id in (0..keys).filter(|id| id % DELETED_ONE_IN != 0) {
        [count, ids] = [count + 1, ids + id];
        numbers += number(Statement::Update, id);
    }
    [count, ids, numbers]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_agrees_with_what_is_expected() {
        let database = rusqlite::Connection::open_in_memory().unwrap();
        database.execute_batch(TABLE).unwrap();
        database.execute_batch(&fill_sqlite(1_500)).unwrap();
        for statement in Statement::ALL {
            let mut prepared = database.prepare(statement.sql()).unwrap();
            for id in statement.keys(0..700) {
                let changed = match statement {
                    Statement::Insert => prepared.execute((id, number(statement, id), name(id))),
                    Statement::Update => prepared.execute((number(statement, id), id)),
                    Statement::Delete => prepared.execute([id]),
                };
                assert_eq!(changed.unwrap(), 1);
            }
        }
        let found = database.query_row(CONTENTS, [], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?])
        });
        assert_eq!(found.unwrap(), contents(1_500, 700));
    }
}
