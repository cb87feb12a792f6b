//! DuckDB as the peer of the fuzzer, or no peer if it is not installed.
//!
//! Some queries end DuckDB's process. It is started again, over the same tables, and the queries that it was asked together are asked one
//! by one: that one counts as not answered, and the others are compared.

use crate::dataset::TableFile;
use crate::error::{Context, LabError};
use crate::fuzz::{Answer, Cell, Dialect, Peer, Rows, Table};
use crate::peers::duckdb::{DuckDb, DuckDbError, LetteredRows};

/// The message of a query that ends the process.
const ENDED: &str = "the process ended";

/// DuckDB and what it was asked.
pub(super) struct Asked {
    duckdb: Option<DuckDb>,
    tables: Vec<(String, Vec<TableFile>)>,
    queries: Vec<String>,
}

type Answers = Vec<Result<LetteredRows, String>>;

impl Asked {
    pub(super) fn start() -> Asked {
        Asked {
            duckdb: DuckDb::with_threads(1),
            tables: Vec::new(),
            queries: Vec::new(),
        }
    }

    /// Starts DuckDB again with the tables that it had.
    fn start_again(&mut self) -> Result<&mut DuckDb, DuckDbError> {
        let duckdb = DuckDb::with_threads(1);
        let duckdb = duckdb.ok_or_else(|| DuckDbError::Silent("it does not start".to_owned()))?;
        let duckdb = self.duckdb.insert(duckdb);
        for (table, files) in &self.tables {
            duckdb.load_parts(table, files)?;
        }
        Ok(duckdb)
    }

    /// The answers to all queries after the process ended at one of them.
    fn one_by_one(&mut self) -> Result<Answers, DuckDbError> {
        let queries = std::mem::take(&mut self.queries);
        let mut duckdb = self.start_again()?;
        let mut answers = Vec::new();
        for query in &queries {
            match duckdb.begin(&[query]).and_then(|()| duckdb.finish()) {
                Ok(answered) => answers.extend(answered),
                Err(DuckDbError::Silent(_)) => {
                    println!("{}'s process ended at: {query}", DuckDb::ENGINE);
                    answers.push(Err(ENDED.to_owned()));
                    duckdb = self.start_again()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }
}

impl Peer for Asked {
    fn dialect(&self) -> Dialect {
        Dialect::DuckDb
    }

    fn load(&mut self, tables: &[(&Table, Vec<TableFile>)]) -> Result<(), LabError> {
        let Some(duckdb) = &mut self.duckdb else {
            return Ok(());
        };
        for (table, _) in self.tables.drain(..) {
            duckdb
                .drop_table(&table)
                .by(DuckDb::ENGINE, "dropping a table")?;
        }
        for (table, files) in tables {
            duckdb
                .load_parts(table.name(), files)
                .by(DuckDb::ENGINE, "loading")?;
            self.tables.push((table.name().to_owned(), files.clone()));
        }
        Ok(())
    }

    fn ask(&mut self, queries: &[&str]) -> Result<(), LabError> {
        self.queries = queries.iter().map(|query| (*query).to_owned()).collect();
        // If its process has ended the answers will say so.
        match self.duckdb.as_mut().map(|duckdb| duckdb.begin(queries)) {
            None | Some(Ok(()) | Err(DuckDbError::Silent(_))) => Ok(()),
            Some(Err(error)) => Err(error).by(DuckDb::ENGINE, "answering"),
        }
    }

    fn answers(&mut self) -> Result<Vec<Answer>, LabError> {
        let Some(duckdb) = &mut self.duckdb else {
            return Ok((self.queries.iter())
                .map(|_| Err("DuckDB is not installed".to_owned()))
                .collect());
        };
        let answers = match duckdb.finish() {
            Err(DuckDbError::Silent(_)) => self.one_by_one(),
            answers => answers,
        };
        let answers = answers.by(DuckDb::ENGINE, "answering")?.into_iter();
        Ok(answers.map(|answer| answer.map(cells)).collect())
    }

    fn answer_plainly(&mut self, query: &str) -> Result<Option<Answer>, LabError> {
        if self.duckdb.is_none() {
            return Ok(None);
        }
        self.ask(&["PRAGMA disable_optimizer", query, "PRAGMA enable_optimizer"])?;
        Ok(self.answers()?.into_iter().nth(1))
    }
}

fn cells(rows: Vec<Vec<Option<String>>>) -> Rows {
    let cell = |cell: Option<String>| match cell {
        None => Cell::Null,
        Some(text) => match text.split_at_checked(1) {
            Some(("n", digits)) => Cell::exact(digits),
            Some(("f", number)) => number
                .parse()
                .map_or_else(|_| Cell::Text(text.clone()), Cell::Double),
            Some((_, rest)) => Cell::Text(rest.to_owned()),
            None => Cell::Text(text),
        },
    };
    rows.into_iter()
        .map(|row| row.into_iter().map(cell).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, RecordBatch};

    use super::*;
    use crate::dataset::write_parquet;

    #[test]
    fn a_process_that_ended_is_started_again_with_its_tables() {
        let mut asked = Asked::start();
        let Some(duckdb) = &mut asked.duckdb else {
            println!("left out: Python has no module `duckdb`");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let column: ArrayRef = Arc::new(Int32Array::from(vec![4, 5]));
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let rows = std::iter::once(batch.clone());
        let file = write_parquet(folder.path(), "t", &batch.schema(), rows).unwrap();
        duckdb.load_parts("t", std::slice::from_ref(&file)).unwrap();
        duckdb.kill();
        asked.tables.push(("t".to_owned(), vec![file]));

        asked
            .ask(&["SELECT sum(x) FROM t", "SELECT y FROM t"])
            .unwrap();
        let answers = asked.answers().unwrap();
        assert_eq!(answers[0], Ok(vec![vec![Cell::exact("9")]]));
        let refused = answers[1].as_ref().unwrap_err();
        assert!(refused.contains("Binder Error"), "{refused}");
    }
}
