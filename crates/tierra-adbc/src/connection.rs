//! A connection: a session of the database, its transaction, and what can be asked about tables.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::error::{Result, Status};
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::{CancelHandle, Connection, Optionable, constants};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use tierra::sql::{Canceller, Outcome, Session, TransactionState};

use crate::answer::check_names;
use crate::error::{self, no_option, not_implemented, state};
use crate::guard::{OfProcess, call, wait};
use crate::info;
use crate::objects::{self, CATALOG, Filter, SCHEMA};
use crate::options::{switch, text};
use crate::statement::TierraStatement;

/// A connection to a database.
pub struct TierraConnection {
    session: OfProcess<Arc<Session>>,
    reads_only: bool,
}

struct Cancel(OfProcess<Arc<Session>>);

impl CancelHandle for Cancel {
    fn try_cancel(&self) -> Result<()> {
        call(|| {
            self.0.get().interrupt();
            Ok(())
        })
    }
}

impl TierraConnection {
    pub(crate) fn new(session: Session, reads_only: bool) -> Self {
        Self {
            session: OfProcess::new(Arc::new(session)),
            reads_only,
        }
    }

    /// Runs `COMMIT` or `ROLLBACK`, if there is a transaction.
    fn end(&self, command: &str) -> Result<()> {
        let session = self.session.get();
        if session.transaction() == TransactionState::None {
            return match session.autocommit() {
                true => Err(state(format!(
                    "{command}: every statement commits by itself; set {} to \"false\" for transactions",
                    constants::ADBC_CONNECTION_OPTION_AUTOCOMMIT
                ))),
                false => Ok(()),
            };
        }
        match wait(&Canceller::default(), session.sql(command))? {
            // SQL's COMMIT says so in its answer, which this call does not return.
            Outcome::Done(done) if done.command != command => Err(error::new(
                Status::InvalidState,
                "25P02",
                "nothing was committed: a statement of the transaction had failed, so it was rolled back",
            )),
            _ => Ok(()),
        }
    }

    fn set_autocommit(&self, autocommit: bool) -> Result<()> {
        let session = self.session.get();
        if autocommit && session.transaction() != TransactionState::None {
            self.end("COMMIT")?;
        }
        session.set_autocommit(autocommit);
        Ok(())
    }
}

/// Answers that are there.
type Ready = Box<dyn RecordBatchReader + Send + 'static>;

fn ready(batch: RecordBatch) -> Ready {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

impl Connection for TierraConnection {
    type StatementType = TierraStatement;

    fn new_statement(&mut self) -> Result<TierraStatement> {
        call(|| Ok(TierraStatement::new(Arc::clone(self.session.get()))))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(Cancel(OfProcess::new(Arc::clone(self.session.get()))))
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Ready> {
        call(|| Ok(ready(info::info(codes.as_ref())?)))
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Ready> {
        call(|| {
            let filter = Filter {
                catalog,
                schema: db_schema,
                table: table_name,
                types: table_type.as_deref(),
                column: column_name,
            };
            let objects = objects::objects(self.session.get().database(), depth, &filter)?;
            Ok(ready(objects))
        })
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        call(|| {
            let table = match objects::is_here(catalog, db_schema) {
                true => self.session.get().database().table(table_name),
                false => None,
            };
            let Some(table) = table else {
                return Err(error::new(
                    Status::NotFound,
                    "42P01",
                    format!("table '{table_name}' not found"),
                ));
            };
            let schema = table.schema().as_ref().clone();
            check_names(&schema)?;
            Ok(schema)
        })
    }

    fn get_table_types(&self) -> Result<Ready> {
        call(|| Ok(ready(objects::types()?)))
    }

    fn get_statistic_names(&self) -> Result<Ready> {
        Err(not_implemented(
            "statistics: tierra_columns has some, in SQL",
        ))
    }

    fn get_statistics(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: Option<&str>,
        _: bool,
    ) -> Result<Ready> {
        Err(not_implemented(
            "statistics: tierra_columns has some, in SQL",
        ))
    }

    fn commit(&mut self) -> Result<()> {
        call(|| self.end("COMMIT"))
    }

    fn rollback(&mut self) -> Result<()> {
        call(|| self.end("ROLLBACK"))
    }

    fn read_partition(&self, _: impl AsRef<[u8]>) -> Result<Ready> {
        Err(not_implemented(
            "results in partitions: execute the statement, its rows are one stream",
        ))
    }
}

impl Optionable for TierraConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        call(|| {
            let name = key.as_ref();
            match key {
                OptionConnection::AutoCommit => self.set_autocommit(switch(name, &value)?),
                OptionConnection::ReadOnly => match switch(name, &value)? == self.reads_only {
                    true => Ok(()),
                    false => Err(state(format!(
                        "option '{name}' is chosen when the connection is made: set it before"
                    ))),
                },
                OptionConnection::CurrentCatalog => only(name, &text(name, value)?, CATALOG),
                OptionConnection::CurrentSchema => only(name, &text(name, value)?, SCHEMA),
                OptionConnection::IsolationLevel => match text(name, value)?.as_str() {
                    constants::ADBC_OPTION_ISOLATION_LEVEL_DEFAULT
                    | constants::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT => Ok(()),
                    other => Err(not_implemented(format!(
                        "isolation level '{other}': transactions have snapshot isolation"
                    ))),
                },
                _ => Err(not_implemented(format!(
                    "there is no option '{name}' of a connection; SET changes settings"
                ))),
            }
        })
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        call(|| {
            Ok(match key {
                OptionConnection::AutoCommit => self.session.get().autocommit().to_string(),
                OptionConnection::ReadOnly => self.reads_only.to_string(),
                OptionConnection::CurrentCatalog => CATALOG.to_owned(),
                OptionConnection::CurrentSchema => SCHEMA.to_owned(),
                OptionConnection::IsolationLevel => {
                    constants::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT.to_owned()
                }
                _ => return Err(no_option(key.as_ref())),
            })
        })
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        Err(no_option(key.as_ref()))
    }
}

/// There is one catalog, and one schema.
fn only(option: &str, given: &str, here: &str) -> Result<()> {
    match given == here {
        true => Ok(()),
        false => Err(error::new(
            Status::NotFound,
            "3F000",
            format!("option '{option}': there is no '{given}', only '{here}'"),
        )),
    }
}
