//! One user's connection to a database: statements in, outcomes out.
//!
//! ```text
//! text -- split, parse --> CREATE/DROP TABLE --> engine
//!                          PREPARE, EXECUTE ---> stored point plan, else DataFusion
//!                          anything else ------> DataFusion: plan, optimise, execute
//! ```
//!
//! The futures handed out are boxed: the body of an `async fn` is compiled where it is polled, so
//! every binary and test would otherwise compile DataFusion's planner anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::execution::context::{SessionContext, SessionState};
use datafusion::execution::{FunctionRegistry, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as LogicalStatement};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use futures::future::BoxFuture;
use tierra_column::LogicalType;
use tierra_engine::Database;
use tierra_interleave::Execution;

use crate::catalog::{CATALOG, TierraCatalog};
use crate::ddl;
use crate::error::{DefinitionError, PreparedError, SqlError};
use crate::names::{identifier, single_name};
use crate::outcome::{Done, Outcome, Rows};
use crate::prepared::PointPlan;
use crate::settings::{self, TierraSettings};
use crate::sink::{TableSink, blocking};
use crate::statement::{self, Compact, Parsed};

/// Decimal digits that every double keeps.
const DOUBLE_DIGITS: u8 = 15;

/// How a session begins; SET changes it later.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Threads of a query; all of the machine's if not given.
    pub threads: Option<usize>,
    /// How lookups wait for memory; interleaved if not given.
    pub execution: Option<Execution>,
}

/// A connection to a database. Queries of one session may run at the same time.
pub struct Session {
    database: Arc<Database>,
    context: SessionContext,
    prepared: Mutex<HashMap<String, Arc<PointPlan>>>,
    planned: AtomicU64,
}

impl Session {
    /// Connect to `database`.
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn new(database: Arc<Database>, options: &SessionOptions) -> Result<Self, SqlError> {
        let mut initial = TierraSettings::default();
        initial.threads = options.threads.unwrap_or(initial.threads).max(1);
        initial.execution = options.execution.unwrap_or(initial.execution);
        let config = SessionConfig::from(settings::initial(initial)?);
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .build();
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, Arc::new(TierraCatalog::new(Arc::clone(&database))));
        Ok(Self {
            database,
            context: context.enable_url_table(),
            prepared: Mutex::default(),
            planned: AtomicU64::new(0),
        })
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Run every statement of `sql`, one after another.
    ///
    /// # Errors
    /// The first statement that fails, with its number where there are several; those before it
    /// have taken effect, those after it have not run.
    pub fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Vec<Outcome>, SqlError>> {
        Box::pin(async move {
            let statements = statement::split(sql)?;
            let several = statements.len() > 1;
            let mut outcomes = Vec::with_capacity(statements.len());
            for (place, parsed) in statements.iter().enumerate() {
                let outcome = self.run(parsed).await.map_err(|error| match several {
                    true => SqlError::InStatement {
                        number: place + 1,
                        statement: parsed.quoted(),
                        source: Box::new(error),
                    },
                    false => error,
                })?;
                outcomes.push(outcome);
            }
            Ok(outcomes)
        })
    }

    /// Run one statement.
    ///
    /// # Errors
    /// If there is not exactly one, or if it fails.
    pub fn sql<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Outcome, SqlError>> {
        Box::pin(async move {
            let statements = statement::split(sql)?;
            match statements.as_slice() {
                [parsed] => self.run(parsed).await,
                others => Err(SqlError::Syntax(format!(
                    "expected one statement, found {}",
                    others.len()
                ))),
            }
        })
    }

    /// Run one query and collect its rows.
    ///
    /// # Errors
    /// If the statement fails or is no query.
    pub fn query<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Vec<RecordBatch>, SqlError>> {
        Box::pin(async move {
            match self.sql(sql).await? {
                Outcome::Rows(mut rows) => Rows::collect(&mut rows).await,
                Outcome::Done(done) => Err(SqlError::Syntax(format!(
                    "expected a query, found {}",
                    done.command
                ))),
            }
        })
    }

    /// The rows of the prepared point query `name` for many keys at once: one array per key column,
    /// one look-up per row of them.
    ///
    /// # Errors
    /// If there is no such point query or the keys are not of its types.
    pub fn execute_prepared(&self, name: &str, keys: &[ArrayRef]) -> Result<RecordBatch, SqlError> {
        let plan = self
            .point_plan(name)
            .ok_or_else(|| PreparedError::Unknown(name.to_string()))?;
        plan.execute_keys(&self.database, keys, self.execution())
    }

    /// Tables and their columns, for completion.
    pub fn tables_and_columns(&self) -> Vec<(String, Vec<String>)> {
        let tables = self.database.tables().into_iter();
        tables
            .filter_map(|name| {
                let table = self.database.table(&name)?;
                let columns = table
                    .spec()
                    .columns
                    .iter()
                    .map(|column| column.name.clone())
                    .collect();
                Some((name, columns))
            })
            .collect()
    }

    /// Statements that went through a planner so far. EXECUTE of a point query does not.
    pub fn statements_planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    async fn run(&self, parsed: &Parsed) -> Result<Outcome, SqlError> {
        let compact = parsed.parse_compact()?;
        if let Statement::Statement(inner) = &compact.statement
            && let Some(outcome) = self.run_own(inner).await?
        {
            return Ok(outcome);
        }
        if self.inserts_long_decimals(&compact.statement) {
            let mut state = self.context.state();
            let parser = &mut state.config_mut().options_mut().sql_parser;
            parser.parse_float_as_decimal = true;
            self.planned.fetch_add(1, Ordering::Relaxed);
            // A DOUBLE beyond 76 digits, as 1e300, is no decimal and is planned as it always is.
            if let Ok(plan) = state.statement_to_plan(parsed.parse()?).await {
                return self.run_plan(state, plan).await;
            }
        }
        if compact.sets.is_empty() {
            return self
                .run_planned(compact.statement, self.context.state())
                .await;
        }
        // Where a long list cannot be one array (other types), it is planned literal by literal.
        match self.plan_compact(compact).await {
            Ok((state, plan)) => self.run_plan(state, plan).await,
            Err(_) => {
                self.run_planned(parsed.parse()?, self.context.state())
                    .await
            }
        }
    }

    /// Run what DataFusion has no word for.
    async fn run_own(&self, statement: &ast::Statement) -> Result<Option<Outcome>, SqlError> {
        let done = |command| {
            Ok(Some(Outcome::Done(Done {
                command,
                rows: None,
            })))
        };
        match statement {
            ast::Statement::CreateTable(create) if !create.external => {
                self.create_table(create).await.map(Some)
            }
            ast::Statement::Drop {
                object_type: ast::ObjectType::Table,
                if_exists,
                names,
                ..
            } => {
                for name in names {
                    self.drop_table(name, *if_exists).await?;
                }
                done("DROP TABLE")
            }
            ast::Statement::Prepare {
                name, statement, ..
            } => {
                let name = identifier(name);
                if self.prepared().contains_key(&name) {
                    return Err(PreparedError::Exists(name).into());
                }
                let Some(plan) = PointPlan::of(&name, statement, &self.database) else {
                    return Ok(None);
                };
                self.planned.fetch_add(1, Ordering::Relaxed);
                self.prepared().insert(name, Arc::new(plan));
                done("PREPARE")
            }
            ast::Statement::Execute {
                name: Some(name),
                parameters,
                using,
                ..
            } if using.is_empty() => {
                let Some(plan) = single_name(name).and_then(|name| self.point_plan(&name)) else {
                    return Ok(None);
                };
                let batch = plan.execute(&self.database, parameters, self.execution())?;
                Ok(Some(Outcome::Rows(Rows::of_batch(batch))))
            }
            ast::Statement::Deallocate { name, .. } => {
                match self.prepared().remove(&identifier(name)) {
                    Some(_) => done("DEALLOCATE"),
                    None => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Whether 0.1 in `statement` has to be read as a decimal: as a double, the planner's default,
    /// it would lose digits on its way into a column that has more of them than a double.
    fn inserts_long_decimals(&self, statement: &Statement) -> bool {
        let Statement::Statement(inner) = statement else {
            return false;
        };
        let ast::Statement::Insert(insert) = inner.as_ref() else {
            return false;
        };
        let ast::TableObject::TableName(name) = &insert.table else {
            return false;
        };
        let table = single_name(name).and_then(|name| self.database.table(&name));
        let is_long =
            |ty| matches!(ty, LogicalType::Decimal { precision, .. } if precision > DOUBLE_DIGITS);
        table.is_some_and(|table| table.spec().columns.iter().any(|column| is_long(column.ty)))
    }

    async fn run_planned(
        &self,
        statement: Statement,
        state: SessionState,
    ) -> Result<Outcome, SqlError> {
        self.planned.fetch_add(1, Ordering::Relaxed);
        let plan = state.statement_to_plan(statement).await?;
        self.run_plan(state, plan).await
    }

    async fn plan_compact(
        &self,
        compact: Compact,
    ) -> Result<(SessionState, LogicalPlan), SqlError> {
        self.planned.fetch_add(1, Ordering::Relaxed);
        let mut state = self.context.state();
        for set in compact.sets {
            state.register_udf(set)?;
        }
        let plan = state.statement_to_plan(compact.statement).await?;
        Ok((state, plan))
    }

    async fn run_plan(&self, state: SessionState, plan: LogicalPlan) -> Result<Outcome, SqlError> {
        let done = |command| {
            Ok(Outcome::Done(Done {
                command,
                rows: None,
            }))
        };
        match &plan {
            LogicalPlan::Statement(statement) => {
                let command = match statement {
                    LogicalStatement::SetVariable(_) => "SET",
                    LogicalStatement::ResetVariable(_) => "RESET",
                    LogicalStatement::Prepare(_) => "PREPARE",
                    LogicalStatement::Deallocate(_) => "DEALLOCATE",
                    LogicalStatement::Execute(_) => {
                        let query = self.context.execute_logical_plan(plan).await?;
                        let (state, plan) = query.into_parts();
                        return self.start(&state, &plan).await;
                    }
                    _ => {
                        return Err(
                            DefinitionError::Unsupported(statement.name().to_string()).into()
                        );
                    }
                };
                self.context.execute_logical_plan(plan).await?;
                settings::apply(self.context.state_ref().write().config_mut().options_mut())?;
                done(command)
            }
            LogicalPlan::Ddl(ddl) => {
                Err(DefinitionError::Unsupported(ddl_name(ddl).to_string()).into())
            }
            LogicalPlan::Dml(_) => self.finish(&state, &plan, "INSERT").await,
            LogicalPlan::Copy(_) => self.finish(&state, &plan, "COPY").await,
            _ => self.start(&state, &plan).await,
        }
    }

    /// Start a query.
    async fn start(&self, state: &SessionState, plan: &LogicalPlan) -> Result<Outcome, SqlError> {
        let physical = state.create_physical_plan(plan).await?;
        let context = Arc::new(TaskContext::from(state));
        let stream = execute_stream(Arc::clone(&physical), context)?;
        Ok(Outcome::Rows(Rows::of_query(physical, stream)))
    }

    /// Run a statement that writes, to its end.
    async fn finish(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
        command: &'static str,
    ) -> Result<Outcome, SqlError> {
        let physical = state.create_physical_plan(plan).await?;
        let rows = written(physical, state).await?;
        Ok(Outcome::Done(Done {
            command,
            rows: Some(rows),
        }))
    }

    async fn create_table(&self, create: &ast::CreateTable) -> Result<Outcome, SqlError> {
        let name = ddl::table_name(&create.name)?;
        let exists = self.database.table(&name).is_some();
        if create.if_not_exists && exists {
            return Ok(Outcome::Done(Done {
                command: "CREATE TABLE",
                rows: None,
            }));
        }
        let Some(query) = &create.query else {
            let spec = ddl::table_spec(create)?;
            let database = Arc::clone(&self.database);
            blocking(move || database.create_table(spec)).await?;
            return Ok(Outcome::Done(Done {
                command: "CREATE TABLE",
                rows: None,
            }));
        };
        let state = self.context.state();
        self.planned.fetch_add(1, Ordering::Relaxed);
        let query = Statement::Statement(Box::new(ast::Statement::Query(query.clone())));
        let plan = state.statement_to_plan(query).await?;
        let physical = state.create_physical_plan(&plan).await?;
        let spec = ddl::table_spec_of_query(create, &physical.schema())?;
        let database = Arc::clone(&self.database);
        let table = blocking(move || database.create_table(spec)).await?;
        let input = execute_stream(physical, Arc::new(TaskContext::from(&state)))?;
        match TableSink::new(table).write_converted(input).await {
            Ok(rows) => Ok(Outcome::Done(Done {
                command: "CREATE TABLE",
                rows: Some(rows),
            })),
            Err(error) => {
                let database = Arc::clone(&self.database);
                blocking(move || database.drop_table(&name)).await?;
                Err(error.into())
            }
        }
    }

    async fn drop_table(&self, name: &ast::ObjectName, if_exists: bool) -> Result<(), SqlError> {
        let name = ddl::table_name(name)?;
        if self.database.table(&name).is_none() {
            return if if_exists {
                Ok(())
            } else {
                Err(DefinitionError::NoSuchTable(name).into())
            };
        }
        let database = Arc::clone(&self.database);
        Ok(blocking(move || database.drop_table(&name)).await?)
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<String, Arc<PointPlan>>> {
        // Only whole plans are put in and taken out, so that a panic elsewhere leaves no half of one.
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn point_plan(&self, name: &str) -> Option<Arc<PointPlan>> {
        self.prepared().get(name).cloned()
    }

    fn execution(&self) -> Execution {
        settings::of(self.context.state_ref().read().config_options()).execution
    }
}

/// Run a plan that writes; the number of rows it says it wrote.
async fn written(plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<u64, SqlError> {
    let mut counts = execute_stream(plan, Arc::new(TaskContext::from(state)))?;
    let mut rows = 0;
    while let Some(batch) = counts.next().await {
        let batch = batch?;
        let count = batch
            .columns()
            .first()
            .and_then(|column| column.as_primitive_opt::<UInt64Type>());
        rows += count.map_or(0, |count| count.iter().flatten().sum::<u64>());
    }
    Ok(rows)
}

fn ddl_name(ddl: &DdlStatement) -> &str {
    match ddl {
        DdlStatement::CreateView(_) => "CREATE VIEW; use WITH name AS (query)",
        DdlStatement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE; use FROM 'file.parquet'",
        other => other.name(),
    }
}
