//! Random statements that change rows, and transactions of them, in Tierra and in SQLite: the same statements fail, the same
//! numbers of rows change, RETURNING gives the same rows, and all rows are equal afterwards, also when the database is opened
//! again.
//!
//! A seed makes a script: two tables with or without keys, indexes and NULLs, few rows and now and then tens of thousands, seals
//! and openings in between. The promise `random_writes` and the lab's experiment `sql-writes` share this file.

mod statements;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use rusqlite::Connection;
use rusqlite::types::Value;
use tierra_engine::{Database, DatabaseOptions};
use tierra_sql::{Outcome, Session, SessionOptions};

pub(crate) use statements::{Random, Statement, TABLES, Tables};

/// What a script did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) statements: u64,
    /// That failed on both sides.
    pub(crate) failed: u64,
    /// Rows that were compared.
    pub(crate) rows: u64,
}

/// The two sides of a script.
struct Sides<'p> {
    path: &'p Path,
    session: Option<Session>,
    sqlite: Connection,
    script: Vec<String>,
    seed: u64,
    counts: Counts,
}

/// Rows as text, in order.
type Rows = Vec<String>;

/// Runs the script of a seed in a folder. An error is the difference, with the script.
pub(crate) async fn run(seed: u64, statements: usize, folder: &Path) -> Result<Counts, String> {
    let path = folder.join(format!("written {seed}"));
    let mut random = Random(seed);
    let database = Database::create(&path, &DatabaseOptions::default()).map_err(text)?;
    let mut sides = Sides {
        path: &path,
        session: None,
        sqlite: Connection::open_in_memory().map_err(text)?,
        script: Vec::new(),
        seed,
        counts: Counts::default(),
    };
    sides.session = Some(sides.session_of(database)?);
    let result = sides.run(&mut random, statements).await;
    let counts = sides.counts;
    drop(sides);
    let _ = std::fs::remove_dir_all(&path);
    result.map(|()| counts)
}

impl Sides<'_> {
    async fn run(&mut self, random: &mut Random, statements: usize) -> Result<(), String> {
        let tables = Tables::random(random);
        for statement in tables.create() {
            self.execute(&statement).await?;
        }
        let (mut is_open, mut savepoints) = (false, Vec::new());
        for _ in 0..statements {
            let statement = match (is_open, random.below(14)) {
                (false, 0) => Statement::same("BEGIN"),
                (true, 0) => Statement::same("COMMIT"),
                (true, 1) => Statement::same("ROLLBACK"),
                (true, 2) => {
                    savepoints.push(random.below(3));
                    Statement::same(format!("SAVEPOINT p{}", savepoints[savepoints.len() - 1]))
                }
                (true, 3) if !savepoints.is_empty() => go_back(random.below(3), &mut savepoints),
                _ => tables.statement(random),
            };
            let was_open = is_open;
            match statement.ours.as_str() {
                "BEGIN" => (is_open, savepoints) = (true, Vec::new()),
                "COMMIT" | "ROLLBACK" => is_open = false,
                _ => {}
            }
            let succeeded = self.execute(&statement).await?;
            // SQLite goes on after an error, PostgreSQL and Tierra do not.
            if !succeeded && was_open {
                if self.ours("SELECT 1").await.is_ok() {
                    return Err(self.differ("the transaction goes on after an error"));
                }
                match savepoints.is_empty() || random.below(2) == 0 {
                    true => {
                        self.execute(&Statement::same("ROLLBACK")).await?;
                        is_open = false;
                    }
                    false => {
                        let back = go_back(random.below(3), &mut savepoints);
                        self.execute(&back).await?;
                    }
                }
            }
            if random.below(6) == 0 {
                self.seal().await?;
            }
            if random.below(4) == 0 {
                self.compare(&tables, random).await?;
            }
            if !is_open && random.below(25) == 0 {
                self.reopen()?;
            }
        }
        if is_open {
            self.execute(&Statement::same("COMMIT")).await?;
        }
        self.compare(&tables, random).await?;
        self.reopen()?;
        self.compare(&tables, random).await
    }

    fn session_of(&self, database: Arc<Database>) -> Result<Session, String> {
        let options = SessionOptions {
            threads: Some(2),
            ..SessionOptions::default()
        };
        Session::new(database, &options).map_err(text)
    }

    fn session(&self) -> &Session {
        self.session
            .as_ref()
            .expect("it is missing only while the database is opened")
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.script.push("-- opened again".to_string());
        self.session = None;
        let database = Database::open(self.path, &DatabaseOptions::default()).map_err(text)?;
        self.session = Some(self.session_of(database)?);
        Ok(())
    }

    async fn seal(&mut self) -> Result<(), String> {
        self.script.push("-- sealed".to_string());
        let database = Arc::clone(self.session().database());
        let seal = move || {
            let tables = TABLES.iter().filter_map(|name| database.table(name));
            { tables }.try_for_each(|table| table.seal())
        };
        let sealed = tokio::task::spawn_blocking(seal).await.map_err(text)?;
        sealed.map_err(text)
    }

    fn differ(&self, what: &str) -> String {
        format!(
            "seed {}: {what}, after\n{};",
            self.seed,
            self.script.join(";\n")
        )
    }

    /// Runs a statement on both sides; whether it succeeded.
    async fn execute(&mut self, statement: &Statement) -> Result<bool, String> {
        self.script.push(statement.ours.clone());
        self.counts.statements += 1;
        let ours = self.ours(&statement.ours).await;
        let before = self.changes()?;
        let theirs = self.theirs(&statement.theirs);
        let changed = self.changes()? - before;
        match (ours, theirs) {
            (Ok((rows, count)), Ok(returned)) => {
                if count.is_some_and(|count| count != changed) {
                    let what = format!("{count:?} rows changed, SQLite {changed}");
                    return Err(self.differ(&what));
                }
                self.same(rows, returned, "RETURNING")?;
                Ok(true)
            }
            (Err(_), Err(_)) => {
                self.counts.failed += 1;
                Ok(false)
            }
            (ours, theirs) => {
                let [ours, theirs] = [ours.err(), theirs.err()];
                let what = format!("Tierra fails with {ours:?}, SQLite with {theirs:?}");
                Err(self.differ(&what))
            }
        }
    }

    /// Rows that SQLite has changed so far.
    fn changes(&self) -> Result<u64, String> {
        let changes = self
            .sqlite
            .query_row("SELECT total_changes()", [], |row| row.get::<_, i64>(0));
        changes.map(|changes| changes as u64).map_err(text)
    }

    async fn compare(&mut self, tables: &Tables, random: &mut Random) -> Result<(), String> {
        for query in tables.queries(random) {
            let ours = self.ours(&query).await;
            let (ours, _) = ours.map_err(|error| self.differ(&format!("{query}: {error}")))?;
            let theirs = self.theirs(&query)?;
            self.same(ours, theirs, &query)?;
        }
        Ok(())
    }

    fn same(&mut self, mut ours: Rows, mut theirs: Rows, what: &str) -> Result<(), String> {
        ours.sort_unstable();
        theirs.sort_unstable();
        self.counts.rows += ours.len() as u64;
        if ours == theirs {
            return Ok(());
        }
        let missing = |of: &Rows, from: &Rows| {
            let missing = of.iter().filter(|row| from.binary_search(row).is_err());
            missing.take(5).cloned().collect::<Vec<_>>()
        };
        let what = format!(
            "{what}: {} rows, SQLite {}; only here {:?}, only there {:?}",
            ours.len(),
            theirs.len(),
            missing(&ours, &theirs),
            missing(&theirs, &ours)
        );
        Err(self.differ(&what))
    }

    /// The rows that Tierra gives, and how many it changes.
    async fn ours(&self, sql: &str) -> Result<(Rows, Option<u64>), String> {
        match self.session().sql(sql).await.map_err(text)? {
            Outcome::Done(done) => Ok((Rows::new(), done.rows)),
            Outcome::Rows(mut rows) => {
                let batches = rows.collect().await.map_err(text)?;
                Ok((batches.iter().flat_map(cells).collect(), None))
            }
        }
    }

    fn theirs(&self, sql: &str) -> Result<Rows, String> {
        let mut statement = self.sqlite.prepare(sql).map_err(text)?;
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cells = (0..width).map(|column| {
                Ok(match row.get::<_, Value>(column)? {
                    Value::Null => "NULL".to_string(),
                    Value::Integer(value) => value.to_string(),
                    Value::Real(value) => number(value),
                    Value::Text(value) => value,
                    Value::Blob(_) => "a blob".to_string(),
                })
            });
            Ok(cells.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
        });
        let rows = rows.map_err(text)?.collect::<rusqlite::Result<Rows>>();
        rows.map_err(text)
    }
}

/// `ROLLBACK TO` one of these, which are forgotten behind it.
fn go_back(which: usize, savepoints: &mut Vec<usize>) -> Statement {
    let name = savepoints[which % savepoints.len()];
    let place = savepoints.iter().rposition(|other| *other == name);
    savepoints.truncate(place.map_or(0, |place| place + 1));
    Statement::same(format!("ROLLBACK TO SAVEPOINT p{name}"))
}

fn cells(batch: &RecordBatch) -> Rows {
    let columns = batch.columns();
    let row = |row: usize| {
        let cells = columns.iter().map(|column| match column.is_null(row) {
            true => "NULL".to_string(),
            false => {
                let text = array_value_to_string(column, row).unwrap_or_default();
                match column.data_type().is_floating() {
                    true => text.parse().map(number).unwrap_or(text),
                    false => text,
                }
            }
        });
        cells.collect::<Vec<_>>().join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

/// SQLite gives a REAL without a fraction as an integer in RETURNING.
fn number(value: f64) -> String {
    // One zero.
    format!("{}", value + 0.0)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
