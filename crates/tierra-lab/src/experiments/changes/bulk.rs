//! An UPDATE and a DELETE of a tenth of SSB's fact table, by a condition, durable on the disk, beside DuckDB. Both load the table again
//! before each round, take turns, and have the same rows after each statement.

use std::time::Instant;

use super::Benchmark;
use super::states::{ADDED, changed_rows, numbers, same};
use crate::contender::Tierra;
use crate::dataset::TableFile;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::peers::duckdb::Library;
use crate::progress;
use crate::row::Row;
use crate::steady;

/// A statement that changes a tenth of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Update,
    Delete,
}

impl Statement {
    pub(super) const ALL: [Statement; 2] = [Statement::Update, Statement::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Statement::Update => "UPDATE of 10 % of 6 million rows",
            Statement::Delete => "DELETE of 10 % of 6 million rows",
        }
    }

    fn sql(self, benchmark: &Benchmark) -> String {
        let Benchmark { fact, changed, .. } = benchmark;
        match self {
            Statement::Update => {
                let part = benchmark.part(30, 40);
                format!("UPDATE {fact} SET {changed} = {changed} + {ADDED} WHERE {part}")
            }
            // Of rows that were updated, and of others.
            Statement::Delete => format!("DELETE FROM {fact} WHERE {}", benchmark.part(35, 45)),
        }
    }
}

/// The rows of both statements.
pub(super) fn measure(
    lab: &Lab,
    benchmark: &Benchmark,
    files: &[TableFile],
) -> Result<Vec<Row>, LabError> {
    let Benchmark { fact, changed, .. } = benchmark;
    let file = files.iter().find(|file| file.table == *fact);
    let file = file
        .ok_or("there is no such table")
        .by(benchmark.name, *fact)?;
    let folder = lab.passing_folder()?;
    let tierra = Tierra::create(&folder.path().join("tierra"), None)?;
    let mut duckdb = Library::start_on(&folder.path().join("duckdb"));
    if duckdb.is_none() {
        println!("DuckDB is not measured: Python has no module `duckdb`.");
    }
    let contenders = 1 + usize::from(duckdb.is_some());
    let rounds = lab.size(1, 7);
    let sums =
        format!("SELECT count(*), sum({changed}), sum(lo_revenue), max({changed}) FROM {fact}");
    let bar = progress::bar("changes", contenders * (rounds + 1));
    // The rows changed by each statement, and the sums after it, as the first contender of all has them.
    let mut expected: [Option<(i64, [i64; 4])>; 2] = [None; 2];
    let sample = |contender: usize| {
        let peer = duckdb.as_mut().filter(|_| contender > 0);
        let drop_table = format!("DROP TABLE IF EXISTS {fact}");
        let mut outcomes = Vec::new();
        match peer {
            None => {
                let dropped = lab.runtime().block_on(tierra.session().sql(&drop_table));
                dropped.by(Tierra::ENGINE, "dropping a table")?;
                tierra.load(file)?;
                tierra.settle()?;
                for statement in Statement::ALL {
                    let start = Instant::now();
                    let rows = changed_rows(lab, &tierra, &statement.sql(benchmark))?;
                    let time_ns = start.elapsed().as_nanos() as u64;
                    outcomes.push((time_ns, rows, numbers(lab, &tierra, &sums)?));
                    tierra.settle()?;
                }
            }
            Some(duckdb) => {
                duckdb
                    .query(&drop_table)
                    .by(Library::ENGINE, "dropping a table")?;
                duckdb
                    .load(std::slice::from_ref(file))
                    .by(Library::ENGINE, "loading")?;
                duckdb.query("CHECKPOINT").by(Library::ENGINE, "loading")?;
                let mut run = |sql: &str| {
                    let (time_ns, rows) = duckdb.query(sql).by(Library::ENGINE, sql)?;
                    let cells = rows.into_iter().flatten();
                    let numbers = cells.map(|cell| cell.parse().by(Library::ENGINE, sql));
                    Ok::<_, LabError>((time_ns, numbers.collect::<Result<Vec<i64>, _>>()?))
                };
                for statement in Statement::ALL {
                    let (time_ns, rows) = run(&statement.sql(benchmark))?;
                    let (_, found) = run(&sums)?;
                    let found = found.try_into().map_err(|_| "it has no four numbers");
                    outcomes.push((time_ns, rows[0], found.by(Library::ENGINE, &*sums)?));
                }
            }
        }
        let mut times_ns = [0; Statement::ALL.len()];
        for ((statement, of_statement), (time_ns, rows, found)) in
            Statement::ALL.into_iter().zip(&mut times_ns).zip(outcomes)
        {
            let expected = &mut expected[statement as usize];
            let (changed, sums) = *expected.get_or_insert((rows, found));
            same(statement.name(), &[rows], &[changed])?;
            same(statement.name(), &found, &sums)?;
            *of_statement = time_ns;
        }
        bar.inc(1);
        Ok::<_, LabError>(times_ns)
    };
    let both = |times_ns: &[u64; 2]| times_ns.iter().sum();
    let sampled = steady::in_turns(contenders, rounds, sample, both)?;
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for (engine, sampled) in [Tierra::ENGINE, Library::ENGINE].into_iter().zip(sampled) {
        for statement in Statement::ALL {
            let changed = expected[statement as usize].map_or(0, |(rows, _)| rows);
            let times = sampled.samples.iter();
            let times = times.map(|times_ns| times_ns[statement as usize]);
            let row = Row::new()
                .text("statement", statement.name())
                .text("engine", engine)
                .count("rows", changed as u64)
                .samples("time", "ns", times.collect());
            rows.push(sampled.mark(row));
        }
    }
    Ok(rows)
}
