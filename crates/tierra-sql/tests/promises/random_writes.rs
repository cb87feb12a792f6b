//! Random statements that change rows, and transactions of them, in Tierra and in SQLite: the same statements fail, the same
//! numbers of rows change, and all rows are equal afterwards, also when the database is opened again.
//!
//! A difference is printed with its seed and the statements before it; `TIERRA_SEED=n` runs that seed alone, and
//! `TIERRA_SCRIPTS=n` runs more of them.

use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use rusqlite::Connection;
use rusqlite::types::Value;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{Outcome, Session, SessionOptions};

use crate::random::Random;

/// Statements of a script.
const STATEMENTS: usize = 50;
/// Scripts of a run.
const SCRIPTS: u64 = 40;

const TABLES: [&str; 2] = ["t", "u"];

/// The two sides of a script.
struct Sides {
    session: Option<Session>,
    sqlite: Connection,
    script: Vec<String>,
    seed: u64,
}

impl Sides {
    fn differ(&self, what: &str) -> ! {
        panic!(
            "seed {}: {what}, after\n{};",
            self.seed,
            self.script.join(";\n")
        );
    }

    /// Runs a statement on both sides; whether it succeeded.
    async fn run(&mut self, sql: String) -> bool {
        let ours = self.run_ours(&sql).await;
        let before = self.changes();
        let theirs = self.sqlite.execute_batch(&sql);
        let changed = self.changes() - before;
        self.script.push(sql);
        match (&ours, &theirs) {
            (Ok(rows), Ok(())) => {
                if rows.is_some_and(|rows| rows != changed) {
                    self.differ(&format!("{rows:?} rows, SQLite {changed}"));
                }
                true
            }
            (Err(_), Err(_)) => false,
            _ => self.differ(&format!("Tierra {ours:?}, SQLite {theirs:?}")),
        }
    }

    async fn run_ours(&self, sql: &str) -> Result<Option<u64>, String> {
        match self.session().sql(sql).await {
            Ok(Outcome::Done(done)) => Ok(done.rows),
            Ok(Outcome::Rows(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Rows that SQLite has changed so far.
    fn changes(&self) -> u64 {
        let changes = self
            .sqlite
            .query_row("SELECT total_changes()", [], |row| row.get::<_, i64>(0));
        changes.unwrap() as u64
    }

    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    async fn compare(&self) {
        for table in TABLES {
            for query in [
                format!("SELECT id, a, s FROM {table} ORDER BY id"),
                format!(
                    "SELECT count(*), count(a), min(a), max(a), sum(a), min(s), max(id) FROM {table}"
                ),
                format!("SELECT id FROM {table} WHERE id IN (1, 3, 5, 7, 9, 11) ORDER BY id"),
                format!(
                    "SELECT s, count(*) FROM {table} WHERE a > 10 GROUP BY s ORDER BY s NULLS FIRST"
                ),
            ] {
                let ours = self.ours(&query).await;
                let theirs = self.theirs(&query);
                if ours != theirs {
                    self.differ(&format!("{query}:\n{ours:?}\nSQLite:\n{theirs:?}"));
                }
            }
        }
    }

    async fn ours(&self, query: &str) -> Vec<String> {
        let batches = match self.session().query(query).await {
            Ok(batches) => batches,
            Err(error) => self.differ(&format!("{query}: {error}")),
        };
        let rows = batches.iter().flat_map(|batch| {
            (0..batch.num_rows()).map(move |row| {
                let cells = batch
                    .columns()
                    .iter()
                    .map(|column| match column.is_null(row) {
                        true => "NULL".to_string(),
                        false => array_value_to_string(column, row).unwrap(),
                    });
                cells.collect::<Vec<_>>().join("|")
            })
        });
        rows.collect()
    }

    fn theirs(&self, query: &str) -> Vec<String> {
        let mut statement = self.sqlite.prepare(query).unwrap();
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cells = (0..width).map(|column| {
                Ok(match row.get::<_, Value>(column)? {
                    Value::Null => "NULL".to_string(),
                    Value::Integer(value) => value.to_string(),
                    Value::Text(value) => value,
                    other => format!("{other:?}"),
                })
            });
            Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }
}

fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => "NULL".to_string(),
        _ => random.below(30).to_string(),
    }
}

fn text(random: &mut Random) -> String {
    match random.below(6) {
        0 => "NULL".to_string(),
        n => format!("'s{n}'"),
    }
}

fn condition(random: &mut Random, other: &str) -> String {
    match random.below(9) {
        0 => "a IS NULL".to_string(),
        1 => format!("a < {}", random.below(30)),
        2 => format!("s = 's{}'", random.below(6)),
        3 => format!(
            "id IN ({}, {}, {})",
            random.below(25),
            random.below(25),
            random.below(25)
        ),
        4 => format!(
            "id IN (SELECT id FROM {other} WHERE a > {})",
            random.below(20)
        ),
        5 => format!("a = (SELECT max(a) FROM {other})"),
        6 => format!("id % {} = 0", 2 + random.below(3)),
        7 => format!(
            "EXISTS (SELECT 1 FROM {other} AS o WHERE o.a > {} AND o.s = 's2')",
            random.below(30)
        ),
        _ => format!("id = {}", random.below(25)),
    }
}

fn rows(random: &mut Random) -> String {
    let rows = (0..1 + random.below(5)).map(|_| {
        format!(
            "({}, {}, {})",
            random.below(25),
            value(random),
            text(random)
        )
    });
    rows.collect::<Vec<_>>().join(", ")
}

/// One row of each key.
fn distinct_rows(random: &mut Random) -> String {
    let first = random.below(20);
    let rows = (0..1 + random.below(5))
        .map(|n| format!("({}, {}, {})", first + n, value(random), text(random)));
    rows.collect::<Vec<_>>().join(", ")
}

fn statement(random: &mut Random) -> String {
    let which = random.below(2) as usize;
    let (table, other) = (TABLES[which], TABLES[1 - which]);
    let set = match random.below(5) {
        0 => format!("a = {}", value(random)),
        1 => "a = a + 1".to_string(),
        2 => format!("s = {}, a = id", text(random)),
        3 => format!("a = (SELECT count(*) FROM {other} WHERE {other}.id < {table}.id)"),
        _ => "s = 's' || a".to_string(),
    };
    match random.below(12) {
        0..=2 => format!("INSERT INTO {table} VALUES {}", rows(random)),
        3 => format!(
            "INSERT INTO {table} VALUES {} ON CONFLICT DO NOTHING",
            rows(random)
        ),
        4 => format!(
            "INSERT INTO {table} VALUES {} ON CONFLICT (id) DO UPDATE SET a = excluded.a, s = coalesce({table}.s, excluded.s)",
            distinct_rows(random)
        ),
        5 => format!(
            "INSERT INTO {table} SELECT id + 25, a, s FROM {other} WHERE {}",
            condition(random, table)
        ),
        6 | 7 => format!("DELETE FROM {table} WHERE {}", condition(random, other)),
        8 => format!(
            "UPDATE {table} SET id = {} WHERE id = {}",
            random.below(25),
            random.below(25)
        ),
        _ => format!(
            "UPDATE {table} SET {set} WHERE {}",
            condition(random, other)
        ),
    }
}

async fn run(seed: u64) {
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let database = Database::create(&path, &DatabaseOptions::default()).unwrap();
    let options = SessionOptions {
        threads: Some(2),
        ..SessionOptions::default()
    };
    let mut sides = Sides {
        session: Some(Session::new(Arc::clone(&database), &options).unwrap()),
        sqlite: Connection::open_in_memory().unwrap(),
        script: Vec::new(),
        seed,
    };
    for table in TABLES {
        sides
            .run(format!(
                "CREATE TABLE {table} (id INTEGER PRIMARY KEY, a BIGINT, s VARCHAR)"
            ))
            .await;
    }
    let mut is_open = false;
    for _ in 0..STATEMENTS {
        let control = random.below(12);
        let sql = match (is_open, control) {
            (false, 0) => "BEGIN".to_string(),
            (true, 0) => "COMMIT".to_string(),
            (true, 1) => "ROLLBACK".to_string(),
            (true, 2) => "SAVEPOINT p".to_string(),
            _ => statement(&mut random),
        };
        let before = is_open;
        is_open = match sql.as_str() {
            "BEGIN" => true,
            "COMMIT" | "ROLLBACK" => false,
            _ => is_open,
        };
        let succeeded = sides.run(sql).await;
        // SQLite goes on after an error, PostgreSQL and Tierra do not.
        if !succeeded && before {
            sides.run("ROLLBACK".to_string()).await;
            is_open = false;
        }
        if random.below(6) == 0 {
            let sealed = Arc::clone(&database);
            let seal = move || {
                for table in TABLES {
                    sealed.table(table).unwrap().seal().unwrap();
                }
            };
            tokio::task::spawn_blocking(seal).await.unwrap();
        }
        if random.below(4) == 0 {
            sides.compare().await;
        }
    }
    if is_open {
        sides.run("COMMIT".to_string()).await;
    }
    sides.compare().await;
    sides.session = None;
    drop(database);
    let again = Database::open(&path, &DatabaseOptions::default()).unwrap();
    sides.session = Some(Session::new(again, &options).unwrap());
    sides.compare().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_writes_are_those_of_sqlite() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    if let Some(seed) = number("TIERRA_SEED") {
        return run(seed).await;
    }
    for seed in 0..number("TIERRA_SCRIPTS").unwrap_or(SCRIPTS) {
        run(seed).await;
    }
}
