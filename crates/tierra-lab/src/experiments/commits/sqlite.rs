//! SQLite as a library, for one session: its writers exclude each other.

use std::path::{Path, PathBuf};

use super::side::{Keys, Side, Writer, check};
use super::writes::{CONTENTS, Statement, TABLE, fill_sqlite, name, number};
use crate::error::{Context, LabError};

pub(super) const SQLITE: &str = "SQLite";

/// A database in a file.
pub(super) struct Sqlite {
    file: PathBuf,
}

impl Sqlite {
    pub(super) fn create(dir: &Path, filled: i64) -> Result<Sqlite, LabError> {
        let side = Sqlite {
            file: dir.join("accounts.sqlite"),
        };
        let database = side.open().by(SQLITE, "creating a database")?;
        // A key of its kind INTEGER is the number of the row, its fastest.
        let table = TABLE.replace("id BIGINT", "id INTEGER");
        let made = database.execute_batch(&format!("{table}; {}", fill_sqlite(filled)));
        made.by(SQLITE, "filling the table")?;
        Ok(side)
    }

    fn open(&self) -> rusqlite::Result<rusqlite::Connection> {
        let database = rusqlite::Connection::open(&self.file)?;
        database.pragma_update(None, "journal_mode", "WAL")?;
        database.pragma_update(None, "synchronous", "FULL")?;
        Ok(database)
    }
}

impl Side for Sqlite {
    fn name(&self) -> &'static str {
        SQLITE
    }

    fn sessions_most(&self) -> usize {
        1
    }

    fn session(&self) -> Result<Box<dyn Writer>, LabError> {
        let database = self.open().by(SQLITE, "opening a database")?;
        Ok(Box::new(SqliteWriter { database }))
    }

    fn contents(self: Box<Self>) -> Result<Option<[i64; 3]>, LabError> {
        let database = self.open().by(SQLITE, "opening a database")?;
        let found = database.query_row(CONTENTS, [], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?])
        });
        found.by(SQLITE, "reading what was written").map(Some)
    }
}

struct SqliteWriter {
    database: rusqlite::Connection,
}

impl Writer for SqliteWriter {
    fn write(&mut self, statement: Statement, keys: &mut Keys) -> Result<(), LabError> {
        let prepared = self.database.prepare(statement.sql());
        let mut prepared = prepared.by(SQLITE, "preparing")?;
        for id in keys {
            let n = number(statement, id);
            let changed = match statement {
                Statement::Insert => prepared.execute((id, n, name(id))),
                Statement::Update => prepared.execute((n, id)),
                Statement::Delete => prepared.execute([id]),
            };
            let changed = changed.by(SQLITE, statement.name())?;
            check(SQLITE, statement, id, changed as u64)?;
        }
        Ok(())
    }
}
