//! Statements that a program prepares: the types of their parameters and of their rows are known before they run.
//!
//! Such a statement is stored beside those of PREPARE, under a name that only its [`Prepared`] knows. Statements that have no
//! parameters and are not worth planning ahead (CREATE TABLE, SET, EXPLAIN) are kept as text.

use std::sync::Arc;

use arrow::array::Datum;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as Sql;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use futures::future::BoxFuture;

use super::Session;
use super::planned_tables;
use super::prepare::{self, PreparedChange, PreparedPlan, Statements};
use super::run::planned;
use crate::activity::TEXT_MOST;
use crate::duplicate_names;
use crate::error::{PreparedError, SqlError};
use crate::information_schema::describe;
use crate::limits::apart;
use crate::names::single_name;
use crate::outcome::Outcome;
use crate::statement::Parsed;
use crate::text::Statement;

/// A statement that is ready to run, any number of times, in the session that prepared it.
pub struct Prepared {
    body: Body,
    parameters: Vec<DataType>,
    schema: Option<SchemaRef>,
    /// The beginning of its text.
    text: Arc<str>,
}

enum Body {
    Stored(Stored),
    Text(Parsed),
}

/// A statement in the session's list. Dropping it removes the statement.
struct Stored {
    name: String,
    statements: Arc<Statements>,
}

impl Drop for Stored {
    fn drop(&mut self) {
        // DEALLOCATE ALL may have been faster.
        let _ = self.statements.remove(&self.name);
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("text", &self.text)
            .field("parameters", &self.parameters)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Prepares one statement. Parameters are `$1`, `$2` or `?`, `?`.
    ///
    /// # Errors
    /// If there is not exactly one statement, if it cannot be planned, or if one of another kind than SELECT and INSERT has
    /// parameters.
    pub fn prepare<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Prepared, SqlError>> {
        self.prepare_typed(sql, &[])
    }

    /// As [`Session::prepare`], for arguments of these types. A parameter whose type the statement leaves open, as in `SELECT $1`, has
    /// that of `types` at its place; of a DECIMAL it stays open, because its digits are those of the value. So has a date or timestamp
    /// that is added to or subtracted from, as in `$1 - INTERVAL '1 day'`. The types of the rows are those for such arguments.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn prepare_typed<'a>(
        &'a self,
        sql: &'a str,
        types: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared, SqlError>> {
        Box::pin(async move {
            let (statements, _account) = self.split(sql)?;
            let count = statements.len();
            let Ok([parsed]) = <[Parsed; 1]>::try_from(statements) else {
                return Err(SqlError::Syntax(format!(
                    "expected one statement, found {count}"
                )));
            };
            self.prepare_parsed(parsed, types).await
        })
    }

    /// As [`Session::prepare_typed`], of a statement that was split already.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn prepare_statement<'a>(
        &'a self,
        statement: Statement,
        types: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared, SqlError>> {
        Box::pin(self.prepare_parsed(statement.parsed, types))
    }

    async fn prepare_parsed(
        &self,
        parsed: Parsed,
        types: &[Option<DataType>],
    ) -> Result<Prepared, SqlError> {
        match parsed.first_keyword() {
            Keyword::SELECT
            | Keyword::WITH
            | Keyword::VALUES
            | Keyword::FROM
            | Keyword::TABLE
            | Keyword::INSERT
            | Keyword::UPDATE
            | Keyword::DELETE
            | Keyword::MERGE => self.store(&parsed, types).await,
            _ if parsed.has_placeholders() => Err(PreparedError::NoParameters.into()),
            _ => Ok(Prepared {
                schema: self.schema_of(&parsed).await?,
                parameters: Vec::new(),
                text: parsed.beginning(TEXT_MOST).into(),
                body: Body::Text(parsed),
            }),
        }
    }

    async fn store(
        &self,
        parsed: &Parsed,
        types: &[Option<DataType>],
    ) -> Result<Prepared, SqlError> {
        let name = self.prepared.free_name();
        let typed = parsed.with_moments(types);
        let written = typed.as_ref().unwrap_or(parsed);
        self.run(&written.prepare_as(&name)).await?;
        let stored = Stored {
            name,
            statements: Arc::clone(&self.prepared),
        };
        let gone = || PreparedError::NotThere(stored.name.clone());
        let prepared = self.prepared.get(&stored.name).ok_or_else(gone)?;
        let prepared = prepared.with_types(types);
        self.prepared.replace(&stored.name, prepared.clone());
        let (parameters, schema) = match prepared.planned() {
            prepare::Prepared::Point(plan) => {
                (plan.parameter_types(), Some(Arc::clone(plan.schema())))
            }
            prepare::Prepared::Change(change) => {
                let schema = self.schema_of_returning(&change).await?;
                (types_of(&change.plan), schema)
            }
            prepare::Prepared::Plan(plan) => {
                let state = self.context.state();
                let parameters = types_of(&plan);
                let schema = apart(async move { schema_of_plan(&plan, &state) });
                (parameters, schema.await??)
            }
            prepare::Prepared::Write(..) => {
                unreachable!("a write by key is another statement, too")
            }
        };
        Ok(Prepared {
            body: Body::Stored(stored),
            parameters,
            schema,
            text: parsed.beginning(TEXT_MOST).into(),
        })
    }

    /// The schema of the rows of RETURNING; `None` without it.
    async fn schema_of_returning(
        &self,
        change: &PreparedChange,
    ) -> Result<Option<SchemaRef>, SqlError> {
        let Some(query) = change.change.returning.clone() else {
            return Ok(None);
        };
        let (_, plan) = planned(self.context.state(), Sql::Statement(query)).await?;
        Ok(Some(visible(&plan)))
    }

    /// The schema of the rows of a statement that is kept as text; `None` if it has none.
    async fn schema_of(&self, parsed: &Parsed) -> Result<Option<SchemaRef>, SqlError> {
        match parsed.first_keyword() {
            Keyword::EXPLAIN
            | Keyword::DESCRIBE
            | Keyword::DESC
            | Keyword::SHOW
            | Keyword::EXECUTE => {}
            _ => return Ok(None),
        }
        let statement = parsed.parse()?;
        if let Sql::Statement(inner) = &statement {
            match inner.as_ref() {
                ast::Statement::ExplainTable { table_name, .. } => {
                    let table = single_name(table_name).and_then(|name| self.database.table(&name));
                    if let Some(table) = table {
                        return Ok(Some(describe(&table)?.schema()));
                    }
                }
                ast::Statement::Execute {
                    name: Some(name), ..
                } => return self.schema_of_execute(name).await,
                _ => {}
            }
        }
        let (_, plan) = planned(self.context.state(), statement).await?;
        Ok(Some(visible(&plan)))
    }

    async fn schema_of_execute(
        &self,
        name: &ast::ObjectName,
    ) -> Result<Option<SchemaRef>, SqlError> {
        let found = single_name(name).and_then(|name| self.prepared.get(&name));
        match found.map(prepare::Prepared::planned) {
            None => Err(PreparedError::NotThere(name.to_string()).into()),
            Some(prepare::Prepared::Point(plan)) => Ok(Some(Arc::clone(plan.schema()))),
            Some(prepare::Prepared::Change(change)) => self.schema_of_returning(&change).await,
            Some(prepare::Prepared::Write(..)) => Ok(None),
            Some(prepare::Prepared::Plan(plan)) => {
                let state = self.context.state();
                Ok(apart(async move { schema_of_plan(&plan, &state) }).await??)
            }
        }
    }
}

impl Prepared {
    /// The types of the parameters, in order; [`DataType::Null`] where any type will do, and a list in `= ANY($1)`.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// Names and types of the columns; `None` if the statement is not a query.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// The beginning of the statement.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the tables that the statement was prepared for are there still. It does not run once one was dropped.
    pub fn is_current(&self, session: &Session) -> bool {
        match &self.body {
            Body::Stored(stored) => {
                let planned = stored.statements.get(&stored.name);
                planned
                    .is_some_and(|planned| planned_tables::is_current(&planned, &session.database))
            }
            Body::Text(_) => true,
        }
    }

    /// Runs the statement in `session`, which prepared it, with one argument per parameter. An arrow `Scalar` is a value; an
    /// array is a list, for parameters in `= ANY($1)` and `<> ALL($1)`, and stays one array.
    ///
    /// # Errors
    /// If an argument does not fit, if a table of the statement was dropped since, or if the statement fails.
    pub fn run<'a>(
        &'a self,
        session: &'a Session,
        arguments: &[&dyn Datum],
    ) -> BoxFuture<'a, Result<Outcome, SqlError>> {
        match &self.body {
            Body::Stored(stored) => match stored.check(session) {
                Ok(()) => session.run_stored(&stored.name, Arc::clone(&self.text), arguments),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            },
            Body::Text(parsed) => match arguments.len() {
                0 => Box::pin(session.run(parsed)),
                given => {
                    let error = PreparedError::Arguments {
                        name: self.text.to_string(),
                        expected: 0,
                        given,
                    };
                    Box::pin(std::future::ready(Err(error.into())))
                }
            },
        }
    }
}

impl Stored {
    /// Fails if the statement is another session's.
    fn check(&self, session: &Session) -> Result<(), SqlError> {
        match Arc::ptr_eq(&self.statements, &session.prepared) {
            true => Ok(()),
            false => Err(PreparedError::OtherSession.into()),
        }
    }
}

/// The types of the parameters of a plan, in order.
fn types_of(plan: &PreparedPlan) -> Vec<DataType> {
    let parameters = plan.parameters().iter();
    let parameters = parameters.map(|field| match field {
        Some(field) => field.data_type().clone(),
        None => DataType::Null,
    });
    parameters.collect()
}

/// The schema of the rows of `plan`; `None` if it writes. The types of its columns may depend on those of its parameters, and
/// are only known after analysis: so it is analysed as if every argument were NULL.
fn schema_of_plan(
    plan: &PreparedPlan,
    state: &SessionState,
) -> Result<Option<SchemaRef>, SqlError> {
    if matches!(
        plan.plan(),
        LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Ddl(_)
    ) {
        return Ok(None);
    }
    let bound = plan.plan().clone();
    let bound = bound.replace_params_with_values(&plan.nulls()?)?;
    let options = state.config_options();
    let analyzed = state
        .analyzer()
        .execute_and_check(bound, options, |_, _| {})?;
    Ok(Some(visible(&analyzed)))
}

/// The schema of a plan's rows, with the user's names.
fn visible(plan: &LogicalPlan) -> SchemaRef {
    let schema = Arc::clone(plan.schema().inner());
    duplicate_names::restored(&schema).unwrap_or(schema)
}
