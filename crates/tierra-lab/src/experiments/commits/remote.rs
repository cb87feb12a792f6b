//! Servers that speak PostgreSQL's protocol: PostgreSQL, and Tierra's.

use std::path::Path;

use super::side::{Keys, Side, Writer, check};
use super::writes::{CONTENTS, Statement, TABLE, fill, name, number};
use crate::error::{Context, LabError};
use crate::peers::postgres::{Client, ClientError, Postgres};
use crate::served::Served;

/// One of them.
pub(super) trait Server: Sized + 'static {
    const ENGINE: &'static str;
    fn connect(&self) -> Result<Client, ClientError>;
    /// Killed and started again, if it is Tierra's.
    fn restarted(self) -> Result<Self, LabError>;
}

impl Server for Served {
    const ENGINE: &'static str = Served::ENGINE;

    fn connect(&self) -> Result<Client, ClientError> {
        self.connect()
    }

    fn restarted(self) -> Result<Self, LabError> {
        self.kill_and_start()
    }
}

impl Server for Postgres {
    const ENGINE: &'static str = Postgres::ENGINE;

    fn connect(&self) -> Result<Client, ClientError> {
        self.connect()
    }

    fn restarted(self) -> Result<Self, LabError> {
        Ok(self)
    }
}

/// It as a contender.
pub(super) struct Remote<S> {
    server: S,
}

impl Remote<Served> {
    pub(super) fn create(dir: &Path, filled: i64) -> Result<Self, LabError> {
        Remote::filled(Served::start(&dir.join("db"))?, filled)
    }
}

impl<S: Server> Remote<S> {
    pub(super) fn filled(server: S, filled: i64) -> Result<Self, LabError> {
        let mut client = server.connect().by(S::ENGINE, "logging in")?;
        let sql = format!("{TABLE}; {}", fill(filled));
        client.query(&sql).by(S::ENGINE, "filling the table")?;
        Ok(Remote { server })
    }
}

impl<S: Server> Side for Remote<S> {
    fn name(&self) -> &'static str {
        S::ENGINE
    }

    fn session(&self) -> Result<Box<dyn Writer>, LabError> {
        let mut client = self.server.connect().by(S::ENGINE, "logging in")?;
        for statement in Statement::ALL {
            let prepared = client.prepare(statement.name(), statement.sql());
            prepared.by(S::ENGINE, format!("preparing {}", statement.name()))?;
        }
        Ok(Box::new(RemoteWriter {
            client,
            who: S::ENGINE,
        }))
    }

    fn contents(self: Box<Self>) -> Result<Option<[i64; 3]>, LabError> {
        let doing = || "reading what was written";
        let server = self.server.restarted()?;
        let mut client = server.connect().by(S::ENGINE, doing())?;
        let found = client.query(CONTENTS).by(S::ENGINE, doing())?;
        let cell = |column: usize| {
            let text = found.rows[0][column].as_deref().unwrap_or("NULL");
            text.parse::<i64>().by(S::ENGINE, doing())
        };
        Ok(Some([cell(0)?, cell(1)?, cell(2)?]))
    }
}

/// A session of it.
struct RemoteWriter {
    client: Client,
    who: &'static str,
}

impl Writer for RemoteWriter {
    fn write(&mut self, statement: Statement, keys: &mut Keys) -> Result<(), LabError> {
        for id in keys {
            self.write_one(statement, id)?;
        }
        Ok(())
    }
}

impl RemoteWriter {
    fn write_one(&mut self, statement: Statement, id: i64) -> Result<(), LabError> {
        let (key, n) = (id.to_string(), number(statement, id).to_string());
        let done = match statement {
            Statement::Insert => self.client.execute("INSERT", &[&key, &n, &name(id)]),
            Statement::Update => self.client.execute("UPDATE", &[&n, &key]),
            Statement::Delete => self.client.execute("DELETE", &[&key]),
        };
        let changed = done.by(self.who, statement.name())?.count;
        check(self.who, statement, id, changed)
    }
}
