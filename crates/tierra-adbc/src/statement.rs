//! A statement: SQL, perhaps prepared and with rows bound to it, or rows that a table takes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use adbc_core::error::Result;
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, Statement};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{DataType, Field, Schema};
use tierra::sql::{Canceller, Outcome, Prepared, Session, statements};

use crate::answer::{Answer, Runs, check_names, check_same};
use crate::bound::{self, Bound};
use crate::error::{self, no_option, not_implemented, state};
use crate::foreign;
use crate::guard::{OfProcess, call, wait};
use crate::ingest::{self, Target};
use crate::options::{switch, text};

/// Words of statements that change rows. One that only looks like one is run for all bound rows at once.
const CHANGES: [&str; 4] = ["insert", "update", "delete", "merge"];

/// An option that Python's driver manager sets; `adbc_core` has no name for it.
const BIND_BY_NAME: &str = "adbc.statement.bind_by_name";

/// A statement of a connection.
pub struct TierraStatement {
    parts: OfProcess<Parts>,
    current: Arc<Current>,
}

struct Parts {
    session: Arc<Session>,
    query: Option<String>,
    prepared: Option<Ready>,
    bound: Option<Bound>,
    target: Target,
}

/// A prepared statement, and the types of the arguments that it was prepared for.
struct Ready {
    prepared: Arc<Prepared>,
    types: Vec<Option<DataType>>,
}

/// What cancels the last execution, and its rows.
#[derive(Debug, Default)]
struct Current(Mutex<Canceller>);

impl Current {
    fn begin(&self) -> Canceller {
        let canceller = Canceller::default();
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone_from(&canceller);
        canceller
    }
}

struct Cancel(Arc<Current>);

impl CancelHandle for Cancel {
    fn try_cancel(&self) -> Result<()> {
        call(|| {
            let current = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
            let canceller = current.clone();
            drop(current);
            canceller.cancel();
            Ok(())
        })
    }
}

/// What an execution has done.
enum Executed {
    /// Rows that are read as they are asked for.
    Rows(Answer),
    /// So many rows were written, if it says.
    Done(Option<u64>),
}

impl TierraStatement {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        Self {
            parts: OfProcess::new(Parts {
                session,
                query: None,
                prepared: None,
                bound: None,
                target: Target::default(),
            }),
            current: Arc::default(),
        }
    }

    fn executed(&mut self) -> Result<Executed> {
        let canceller = self.current.begin();
        self.parts.get_mut().execute(&canceller)
    }
}

impl Parts {
    fn query(&self) -> Result<&str> {
        let query = self.query.as_deref();
        query.ok_or_else(|| state("the statement has no SQL: set a query first"))
    }

    /// The statement, prepared for arguments of these types. It is prepared again if a table of it was dropped since.
    fn ready(
        &mut self,
        canceller: &Canceller,
        types: Vec<Option<DataType>>,
    ) -> Result<Arc<Prepared>> {
        let session = &self.session;
        drop(
            self.prepared
                .take_if(|ready| !ready.prepared.is_current(session)),
        );
        if let Some(ready) = &self.prepared {
            let is_settled = !ready.prepared.parameters().iter().any(DataType::is_null);
            if is_settled || types.is_empty() || ready.types == types {
                return Ok(Arc::clone(&ready.prepared));
            }
        }
        let prepare = self.session.prepare_typed(self.query()?, &types);
        let prepared = Arc::new(wait(canceller, prepare)?);
        self.prepared = Some(Ready {
            prepared: Arc::clone(&prepared),
            types,
        });
        Ok(prepared)
    }

    /// The types of the bound columns; none if nothing is bound.
    fn bound_types(&self) -> Vec<Option<DataType>> {
        let schema = self.bound.as_ref().map(Bound::schema);
        schema.map_or_else(Vec::new, |schema| bound::types(&schema))
    }

    /// Executes it. Bound rows are for one execution, also for one that fails.
    fn execute(&mut self, canceller: &Canceller) -> Result<Executed> {
        let types = self.bound_types();
        match (self.target.table.is_some(), self.bound.take()) {
            (true, Some(bound)) => {
                let rows = bound.into_reader();
                let rows = ingest::ingest(&self.session, canceller, &self.target, rows)?;
                Ok(Executed::Done(Some(rows)))
            }
            (true, None) => Err(state("there are no rows for the table: bind them first")),
            (false, Some(bound)) => self.execute_bound(canceller, bound, types),
            (false, None) => self.execute_once(canceller),
        }
    }

    fn execute_once(&mut self, canceller: &Canceller) -> Result<Executed> {
        let prepared = match self.prepared {
            Some(_) => Some(self.ready(canceller, Vec::new())?),
            None => None,
        };
        let outcome = match prepared {
            Some(prepared) => wait(canceller, prepared.run(&self.session, &[]))?,
            None => {
                let outcomes = wait(canceller, self.session.execute(self.query()?))?;
                let last = outcomes.into_iter().next_back();
                last.ok_or_else(|| error::invalid("there is no statement in the text"))?
            }
        };
        match outcome {
            Outcome::Done(done) => Ok(Executed::Done(done.rows)),
            Outcome::Rows(rows) => {
                let schema = Arc::clone(rows.schema());
                let rows = VecDeque::from([rows]);
                let session = Arc::clone(&self.session);
                let answer = Answer::new(session, canceller.clone(), schema, rows, None)?;
                Ok(Executed::Rows(answer))
            }
        }
    }

    /// Runs the statement for each bound row: a query when its rows are asked for, a change at once.
    fn execute_bound(
        &mut self,
        canceller: &Canceller,
        bound: Bound,
        types: Vec<Option<DataType>>,
    ) -> Result<Executed> {
        let prepared = self.ready(canceller, types)?;
        let is_change = is_change(self.query()?)?;
        let schema = prepared.schema().cloned();
        let session = Arc::clone(&self.session);
        let mut runs = Runs {
            session: Arc::clone(&session),
            prepared,
            bound,
        };
        let (mut all, mut first, mut written) = (VecDeque::new(), None, None);
        while let Some(outcome) = runs.next(canceller)? {
            match outcome {
                Outcome::Done(done) => {
                    written = done
                        .rows
                        .map(|rows| written.unwrap_or(0) + rows)
                        .or(written);
                }
                Outcome::Rows(rows) => {
                    let schema = first.get_or_insert_with(|| Arc::clone(rows.schema()));
                    check_same(schema, rows.schema())?;
                    all.push_back(rows);
                }
            }
            if !is_change {
                break;
            }
        }
        let runs = (!is_change).then_some(runs);
        match first.or(schema) {
            Some(schema) => {
                let answer = Answer::new(session, canceller.clone(), schema, all, runs)?;
                Ok(Executed::Rows(answer))
            }
            // A change without RETURNING, or of no row.
            None => Ok(Executed::Done(written.or(Some(0)))),
        }
    }
}

/// Whether a statement may change rows.
fn is_change(query: &str) -> Result<bool> {
    let all = statements(query).map_err(|error| error::of_sql(&error))?;
    let mut words = all.iter().flat_map(|statement| statement.lexemes());
    Ok(words.any(|word| CHANGES.iter().any(|change| word.is(change))))
}

impl Statement for TierraStatement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bind_stream(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        call(|| {
            let bound = Bound::new(foreign::checked(reader));
            // A row without columns is no argument.
            let is_something = !bound.schema().fields().is_empty();
            self.parts.get_mut().bound = is_something.then_some(bound);
            Ok(())
        })
    }

    fn execute(&mut self) -> Result<Box<dyn RecordBatchReader + Send + 'static>> {
        call(|| match self.executed()? {
            Executed::Rows(answer) => Ok(Box::new(answer) as _),
            Executed::Done(_) => Ok(Box::new(Answer::nothing()) as _),
        })
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        call(|| {
            let rows = match self.executed()? {
                // The caller wants no rows.
                Executed::Rows(mut answer) => answer.drain().map(|_| None)?,
                Executed::Done(rows) => rows,
            };
            Ok(rows.and_then(|rows| i64::try_from(rows).ok()))
        })
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        call(|| {
            let canceller = self.current.begin();
            let parts = self.parts.get_mut();
            let types = parts.bound_types();
            let prepared = parts.ready(&canceller, types)?;
            let schema = prepared.schema().map(|schema| schema.as_ref().clone());
            let schema = schema.unwrap_or_else(Schema::empty);
            check_names(&schema)?;
            Ok(schema)
        })
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(not_implemented(
            "results in partitions: execute the statement, its rows are one stream",
        ))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        call(|| {
            let Some(ready) = &self.parts.get().prepared else {
                return Err(state("the statement is not prepared: prepare it first"));
            };
            let parameters = ready.prepared.parameters().iter();
            let fields = parameters.map(|ty| Field::new("", ty.clone(), true));
            Ok(Schema::new(fields.collect::<Vec<_>>()))
        })
    }

    fn prepare(&mut self) -> Result<()> {
        call(|| {
            let canceller = self.current.begin();
            let parts = self.parts.get_mut();
            parts.prepared = None;
            let types = parts.bound_types();
            parts.ready(&canceller, types).map(drop)
        })
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        call(|| {
            let parts = self.parts.get_mut();
            parts.prepared = None;
            parts.bound = None;
            parts.target = Target::default();
            parts.query = Some(query.as_ref().to_owned());
            Ok(())
        })
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(not_implemented(
            "plans of Substrait: write the query in SQL",
        ))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(Cancel(Arc::clone(&self.current)))
    }
}

impl Optionable for TierraStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        call(|| {
            let parts = self.parts.get_mut();
            let name = key.as_ref();
            match key {
                OptionStatement::TargetTable => {
                    // Rows for a table are no arguments of a query.
                    parts.query = None;
                    parts.prepared = None;
                    parts.target.table = Some(text(name, value)?);
                }
                OptionStatement::IngestMode => parts.target.mode = (&value).try_into()?,
                OptionStatement::TargetCatalog => parts.target.catalog = Some(text(name, value)?),
                OptionStatement::TargetDbSchema => parts.target.schema = Some(text(name, value)?),
                OptionStatement::Temporary => match switch(name, &value)? {
                    false => {}
                    true => return Err(not_implemented("temporary tables: take another name")),
                },
                OptionStatement::Incremental => match switch(name, &value)? {
                    false => {}
                    true => return Err(not_implemented("results in partitions")),
                },
                OptionStatement::Other(ref other) if other == BIND_BY_NAME => {
                    match switch(name, &value)? {
                        false => {}
                        true => {
                            return Err(not_implemented(
                                "parameters by name: they are ? or $1, give them in their order",
                            ));
                        }
                    }
                }
                _ => {
                    return Err(not_implemented(format!(
                        "there is no option '{name}' of a statement"
                    )));
                }
            }
            Ok(())
        })
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        let target = &self.parts.get().target;
        let found = match key {
            OptionStatement::TargetTable => target.table.clone(),
            OptionStatement::IngestMode => Some(target.mode.into()),
            OptionStatement::TargetCatalog => target.catalog.clone(),
            OptionStatement::TargetDbSchema => target.schema.clone(),
            OptionStatement::Temporary | OptionStatement::Incremental => Some("false".to_owned()),
            _ => None,
        };
        found.ok_or_else(|| no_option(key.as_ref()))
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        Err(no_option(key.as_ref()))
    }
}
