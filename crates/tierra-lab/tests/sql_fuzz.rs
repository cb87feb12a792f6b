//! The promise: random queries are answered as SQLite answers them, and alike in other words; and a wrong answer would be noticed.
//!
//! A failure prints the case as a script, and its number; `TIERRA_CASE=n` runs it again.
#![cfg(feature = "sql")]

use rusqlite::Connection;
use rusqlite::types::Value;
use tierra_lab::dataset::TableFile;
use tierra_lab::error::{Context, LabError};
use tierra_lab::fuzz::{
    Answer, Cell, Dialect, Difference, Fuzzer, Peer, Table, Tally, case_number,
};
use tokio::runtime::Runtime;

/// Where cases begin; `TIERRA_SEED=n` begins elsewhere. The lab's `sql-fuzz` looks for new ones.
const SEED: u64 = 1;
/// Queries in all, and over one set of tables.
const QUERIES: u64 = 2_000;
const OF_A_SET: u64 = 100;

/// SQLite, in memory.
struct Sqlite {
    connection: Connection,
    /// What it makes of a query before it answers.
    reading: fn(&str) -> String,
    answers: Vec<Answer>,
}

impl Sqlite {
    fn new(reading: fn(&str) -> String) -> Sqlite {
        let connection = Connection::open_in_memory().unwrap();
        Sqlite {
            connection,
            reading,
            answers: Vec::new(),
        }
    }

    fn answer(&self, query: &str) -> rusqlite::Result<Vec<Vec<Cell>>> {
        let mut statement = self.connection.prepare(query)?;
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let cells = (0..columns).map(|column| row.get(column).map(cell));
            cells.collect::<rusqlite::Result<Vec<Cell>>>()
        })?;
        rows.collect()
    }
}

fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Integer(number) => Cell::exact(&number.to_string()),
        Value::Real(number) => Cell::Double(number),
        Value::Text(text) => Cell::Text(text),
        Value::Blob(bytes) => Cell::Text(format!("{bytes:?}")),
    }
}

impl Peer for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn load(&mut self, tables: &[(&Table, Vec<TableFile>)]) -> Result<(), LabError> {
        self.connection = Connection::open_in_memory().by("SQLite", "starting")?;
        let run = |sql: &str| self.connection.execute_batch(sql).by("SQLite", sql);
        run("PRAGMA case_sensitive_like = ON")?;
        for (table, _) in tables {
            run(&table.create(Dialect::Sqlite))?;
            for insert in table.inserts(Dialect::Sqlite) {
                run(&insert)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, queries: &[&str]) -> Result<(), LabError> {
        let answers = queries.iter().map(|query| {
            self.answer(&(self.reading)(query))
                .map_err(|error| error.to_string())
        });
        self.answers = answers.collect();
        Ok(())
    }

    fn answers(&mut self) -> Result<Vec<Answer>, LabError> {
        Ok(std::mem::take(&mut self.answers))
    }
}

/// Runs cases, `of_a_set` of each set of tables, until there are so many or one differs.
fn run(reading: fn(&str) -> String, first_set: u64, queries: u64) -> (Tally, Vec<Difference>) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut fuzzer = Fuzzer::new(&runtime, Sqlite::new(reading), folder.path());
    let (mut tally, mut found) = (Tally::default(), Vec::new());
    for set in 0..queries.div_ceil(OF_A_SET) {
        let first = case_number(first_set + set, false, 0);
        let mut report = |difference: &Difference| found.push(difference.clone());
        fuzzer
            .run(first, OF_A_SET.min(queries), &mut tally, &mut report)
            .unwrap();
        if !found.is_empty() {
            break;
        }
    }
    fuzzer.end().unwrap();
    (tally, found)
}

fn scripts(found: &[Difference]) -> String {
    found
        .iter()
        .map(|difference| difference.script.as_str())
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[test]
fn random_queries_are_answered_as_sqlite_answers_them_and_alike_in_other_words() {
    if let Ok(case) = std::env::var("TIERRA_CASE") {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut fuzzer = Fuzzer::new(&runtime, Sqlite::new(str::to_owned), folder.path());
        let (mut tally, mut found) = (Tally::default(), Vec::new());
        fuzzer
            .run(
                case.parse().unwrap(),
                1,
                &mut tally,
                &mut |difference: &Difference| found.push(difference.clone()),
            )
            .unwrap();
        assert!(found.is_empty(), "{}", scripts(&found));
        return;
    }
    let seed = match std::env::var("TIERRA_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => SEED,
    };
    println!("TIERRA_SEED={seed}");
    let (tally, found) = run(str::to_owned, seed * 1_000, QUERIES);
    assert!(found.is_empty(), "TIERRA_SEED={seed}\n{}", scripts(&found));
    assert_eq!(tally.total(), QUERIES);
    // A comparison that does not take place finds nothing.
    let missing = tally.total_refused() + tally.total_peer_refused();
    assert!(
        missing * 20 <= QUERIES,
        "{:#?} {:#?}",
        tally.refused,
        tally.peer_refused
    );
}

#[test]
fn a_peer_that_takes_outer_joins_for_inner_ones_is_found_out() {
    let (_, found) = run(
        |query| query.replace(" LEFT JOIN ", " JOIN "),
        77_000,
        QUERIES,
    );
    let of_a_join = |difference: &&Difference| difference.statement.contains(" LEFT JOIN ");
    let first = found.iter().find(of_a_join).expect("a difference");
    // It is made small enough to be read.
    assert!(first.script.len() < 6_000, "{}", first.script);
    assert!(first.script.contains(&format!("case {}", first.case)));
}
