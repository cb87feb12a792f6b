//! Tierra as a library, in this process.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Datum, Int64Array, StringArray};
use arrow::util::display::array_value_to_string;
use tierra_engine::{Database, DatabaseOptions};
use tierra_interleave::Execution;
use tierra_sql::{BlockingThread, Outcome, Prepared, Session, SessionOptions};
use tokio::runtime::Handle;

use super::side::{Keys, Side, Writer, check};
use super::writes::{CONTENTS, Statement, TABLE, fill, name, number};
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::Lab;

pub(super) const IN_PROCESS: &str = "Tierra, library";

/// A database, and what runs its sessions.
pub(super) struct InProcess {
    tierra: Tierra,
    dir: PathBuf,
    runtime: Handle,
}

impl InProcess {
    pub(super) fn create(lab: &Lab, dir: PathBuf, filled: i64) -> Result<InProcess, LabError> {
        let tierra = Tierra::create(&dir.join("db"), None)?;
        let runtime = lab.runtime().handle().clone();
        let sql = format!("{TABLE}; {}", fill(filled));
        let made = runtime.block_on(tierra.session().execute(&sql));
        made.by(Tierra::ENGINE, "filling the table")?;
        Ok(InProcess {
            tierra,
            dir,
            runtime,
        })
    }
}

impl Side for InProcess {
    fn name(&self) -> &'static str {
        IN_PROCESS
    }

    fn session(&self) -> Result<Box<dyn Writer>, LabError> {
        let session = self.tierra.another_session(Execution::Interleaved)?;
        let writer = InProcessWriter::new(session, self.runtime.clone())?;
        Ok(Box::new(writer))
    }

    fn contents(self: Box<Self>) -> Result<Option<[i64; 3]>, LabError> {
        let InProcess {
            tierra,
            dir,
            runtime,
        } = *self;
        let doing = || "reading what was written";
        tierra.database().close();
        drop(tierra);
        let database = Database::open(&dir.join("db"), &DatabaseOptions::default());
        let database = database.by(Tierra::ENGINE, doing())?;
        let session = Session::new(Arc::clone(&database), &SessionOptions::default());
        let session = session.by(Tierra::ENGINE, doing())?;
        let found = runtime.block_on(session.query(CONTENTS));
        let found = found.by(Tierra::ENGINE, doing())?;
        let cell = |column: usize| {
            let text = array_value_to_string(found[0].column(column), 0);
            text.by(Tierra::ENGINE, doing())?
                .parse::<i64>()
                .by(Tierra::ENGINE, doing())
        };
        Ok(Some([cell(0)?, cell(1)?, cell(2)?]))
    }
}

/// A session with the prepared statements.
pub(super) struct InProcessWriter {
    session: Session,
    prepared: [Prepared; 3],
    runtime: Handle,
}

impl InProcessWriter {
    pub(super) fn new(session: Session, runtime: Handle) -> Result<InProcessWriter, LabError> {
        let prepare = |statement: Statement| {
            let prepared = runtime.block_on(session.prepare(statement.sql()));
            prepared.by(Tierra::ENGINE, format!("preparing {}", statement.name()))
        };
        let [insert, update, delete] = Statement::ALL.map(prepare);
        let prepared = [insert?, update?, delete?];
        Ok(InProcessWriter {
            session,
            prepared,
            runtime,
        })
    }
}

impl Writer for InProcessWriter {
    fn write(&mut self, statement: Statement, keys: &mut Keys) -> Result<(), LabError> {
        for id in keys {
            self.write_one(statement, id)?;
        }
        Ok(())
    }
}

impl InProcessWriter {
    /// Changes the row of a key: committed on return.
    pub(super) fn write_one(&self, statement: Statement, id: i64) -> Result<(), LabError> {
        let n = Int64Array::new_scalar(number(statement, id));
        let key = Int64Array::new_scalar(id);
        let run = |arguments: &[&dyn Datum]| {
            let prepared = &self.prepared[statement.place()];
            let _blocks = BlockingThread::enter();
            self.runtime
                .block_on(prepared.run(&self.session, arguments))
        };
        let done = match statement {
            Statement::Insert => run(&[&key, &n, &StringArray::new_scalar(name(id))]),
            Statement::Update => run(&[&n, &key]),
            Statement::Delete => run(&[&key]),
        };
        let changed = match done.by(Tierra::ENGINE, statement.name())? {
            Outcome::Done(done) => done.rows.unwrap_or(0),
            Outcome::Rows(_) => 0,
        };
        check(Tierra::ENGINE, statement, id, changed)
    }
}
