//! One user's connection to a database: statements in, outcomes out.
//!
//! ```text
//! text -- split, parse --> TABLE, TIER -------> engine: CREATE, ALTER, DROP
//!                          BEGIN, COMMIT, .. --> the session's transaction
//!                          PREPARE, EXECUTE ---> stored plan
//!                          anything else ------> DataFusion: plan, optimise, execute
//! ```
//!
//! The futures returned are boxed. The body of an `async fn` is compiled where it is polled, so every binary and test would
//! otherwise compile DataFusion's planner again.

mod backup;
mod change;
mod control;
mod copy;
mod declared;
mod define;
mod files;
mod fixed;
mod missing;
#[cfg(test)]
mod panics;
mod planned_tables;
mod prepare;
mod prepared;
mod rights;
mod run;
mod syntax;
mod transaction;
mod unsupported;
mod uses;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;
use futures::future::BoxFuture;
use tierra_engine::Database;
use tierra_interleave::Scheduling;

use self::prepare::Statements;
pub use self::prepared::Prepared;
pub use self::transaction::TransactionState;
use self::transaction::Transactions;
use crate::activity::{Connection, Listed};
use crate::catalog::TierraCatalog;
use crate::ddl::refuse_reserved;
use crate::error::{DefinitionError, SqlError};
use crate::hidden_keys::KeylessSubqueries;
use crate::memory::{self, QueryMemory};
use crate::names::CATALOG;
use crate::outcome::{Outcome, Rows};
use crate::query_threads::SharedThreads;
use crate::session_tables::SessionTables;
use crate::settings::{self, BATCH_ROWS, Beginning, TierraSettings};
use crate::statement::Parsed;
use crate::sum::CheckedSum;
use crate::text::Statement;
use crate::{
    extreme, filter, join, late, list, ordered_set, regexps, rules, time, totals, window_functions,
};

/// The initial settings of a session; SET changes them later.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Threads of a query, from 1 to [`THREADS_MOST`](crate::THREADS_MOST); by default all of the machine.
    pub threads: Option<usize>,
    /// How lookups wait for memory; by default the way that is measured to be faster.
    pub execution: Option<Scheduling>,
    /// Bytes that the session's queries may use together; by default half of the memory that the process may have.
    pub query_memory_bytes: Option<usize>,
    /// Whether statements that name a file are refused, because whoever writes them is not whose files they are: reading one, COPY
    /// to one, and CREATE TIER.
    pub refuses_files: bool,
    /// Whether statements that change anything are refused with [`SqlError::Denied`], in the database or outside of it, because
    /// whoever writes them may only read. Files are refused, too. No statement changes that.
    pub reads_only: bool,
    /// Whether the threads that execute the session's queries also execute those of others. A large sort has threads of its own
    /// then, so that the others do not wait for all of it. Servers set this.
    pub shares_threads: bool,
}

/// A connection to a database. Queries of one session may run at the same time.
pub struct Session {
    database: Arc<Database>,
    context: SessionContext,
    memory: Arc<QueryMemory>,
    beginning: Beginning,
    prepared: Arc<Statements>,
    transactions: Transactions,
    connection: Connection,
    tables: Arc<SessionTables>,
    planned: AtomicU64,
    refuses_files: bool,
    reads_only: bool,
}

impl Session {
    /// Connects to `database`.
    ///
    /// # Errors
    /// If an option is out of range.
    pub fn new(database: Arc<Database>, options: &SessionOptions) -> Result<Self, SqlError> {
        let mut initial = TierraSettings::default();
        initial.threads = options.threads.unwrap_or(initial.threads);
        initial.threads = initial.threads.clamp(1, settings::THREADS_MOST);
        initial.execution = options.execution.unwrap_or_default();
        initial.query_memory = options
            .query_memory_bytes
            .unwrap_or_else(memory::default_bytes);
        initial.read_checks = database.read_checks().clone();
        initial.frames = database.frames().clone();
        initial.batches = database.batches().clone();
        initial.scrub_pace = database.scrub_pace().clone();
        let beginning = Beginning::of(&initial);
        let connection = Connection::new(&database, initial.slow_ms);
        let tables = Arc::<SessionTables>::default();
        let memory = Arc::new(QueryMemory::new(initial.query_memory));
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&memory) as _)
            .build_arc()?;
        let mut config = SessionConfig::from(settings::initial(initial)?)
            .with_extension(Arc::clone(database.calibration()));
        if options.shares_threads {
            config.set_extension(Arc::new(SharedThreads));
        }
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_relation_planners(vec![Arc::new(KeylessSubqueries)]);
        // The rule added last sees a join first: looking rows up by their key avoids the scan.
        let builder = late::add_to(join::add_to(list::add_to(rules::add_to(time::add_to(
            builder,
        )))));
        let builder = regexps::add_to(totals::add_to(filter::add_to(builder)));
        let context = SessionContext::new_with_state(builder.build());
        context.register_udaf(CheckedSum::default().into());
        memory::add_to(&context);
        for function in extreme::functions()
            .into_iter()
            .chain(ordered_set::functions())
        {
            context.register_udaf(function);
        }
        window_functions::add_to(&context);
        time::add_series(&context);
        let catalog = TierraCatalog::new(
            Arc::clone(&database),
            Arc::clone(connection.activity()),
            Arc::clone(&tables),
        );
        context.register_catalog(CATALOG, Arc::new(catalog));
        let refuses_files = options.refuses_files || options.reads_only;
        Ok(Self {
            database,
            context: match refuses_files {
                true => context,
                false => files::add_to(context),
            },
            refuses_files,
            reads_only: options.reads_only,
            memory,
            beginning,
            prepared: Arc::default(),
            transactions: Transactions::default(),
            connection,
            tables,
            planned: AtomicU64::new(0),
        })
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Runs every statement of `sql`, one after another.
    ///
    /// # Errors
    /// The first statement that fails, with its number if there are several. Those before it have taken effect, those after it
    /// have not run. If one of several is not SQL, none has run.
    pub fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Vec<Outcome>, SqlError>> {
        Box::pin(async move {
            let (statements, _account) = self.split(sql)?;
            let several = statements.len() > 1;
            let numbered = |error, place: usize, parsed: &Parsed| match several {
                true => SqlError::InStatement {
                    number: place + 1,
                    statement: parsed.quoted(),
                    source: Box::new(error),
                },
                false => error,
            };
            for (place, parsed) in statements.iter().enumerate().filter(|_| several) {
                let read = self.read(parsed).await;
                read.map_err(|error| numbered(error, place, parsed))?;
            }
            let mut outcomes = Vec::with_capacity(statements.len());
            for (place, parsed) in statements.iter().enumerate() {
                let outcome = self.run(parsed).await;
                outcomes.push(outcome.map_err(|error| numbered(error, place, parsed))?);
            }
            Ok(outcomes)
        })
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// If there is not exactly one, or if it fails.
    pub fn sql<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Outcome, SqlError>> {
        Box::pin(async move {
            let (statements, _account) = self.split(sql)?;
            match statements.as_slice() {
                [parsed] => self.run(parsed).await,
                others => Err(SqlError::Syntax(format!(
                    "expected one statement, found {}",
                    others.len()
                ))),
            }
        })
    }

    /// Runs a statement that was split already.
    ///
    /// # Errors
    /// If it fails.
    pub fn run_statement<'a>(
        &'a self,
        statement: &'a Statement,
    ) -> BoxFuture<'a, Result<Outcome, SqlError>> {
        Box::pin(self.run(&statement.parsed))
    }

    /// Runs one query and collects its rows.
    ///
    /// # Errors
    /// If the statement fails or is not a query.
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

    /// The session's number in `tierra_sessions`.
    pub fn id(&self) -> u64 {
        self.connection.id()
    }

    /// Says who uses the session, and with which program, for `tierra_sessions`.
    pub fn set_client(&self, user: &str, application: &str) {
        self.connection.set_name(user, application);
    }

    /// Cancels a running statement of any session of the database, by its number in `tierra_queries`; `false` if there is none.
    /// The statement ends with [`SqlError::Cancelled`], and has written nothing then. One that commits is not cancelled anymore.
    pub fn cancel(&self, statement: u64) -> bool {
        self.connection.cancel(statement)
    }

    /// Cancels all running statements of this session, except those whose rows are [set aside](Rows::set_aside).
    pub fn interrupt(&self) {
        self.connection.cancel_own();
    }

    /// Lists work that a program does for this session as a statement of it, until the guard is dropped.
    pub fn list(&self, text: &str) -> Listed {
        Listed::new(self.connection.begin(text))
    }

    /// Notes that a statement of the open transaction failed, which the session did not see: nothing runs in it until ROLLBACK.
    pub fn fail_transaction(&self) {
        self.transactions.fail_now();
    }

    /// Where the session is in a transaction.
    pub fn transaction(&self) -> TransactionState {
        self.transactions.state()
    }

    /// Whether the open transaction only reads; `false` outside of one.
    pub fn is_read_only(&self) -> bool {
        self.transactions.check_writable("").is_err()
    }

    /// Whether a statement outside a transaction commits by itself: `true` at first.
    pub fn autocommit(&self) -> bool {
        !self.transactions.is_implicit()
    }

    /// With `false`, a statement that reads or changes rows outside a transaction begins one, which lasts until COMMIT or
    /// ROLLBACK. An open transaction goes on.
    pub fn set_autocommit(&self, autocommit: bool) {
        self.transactions.set_implicit(!autocommit);
    }

    /// Makes `batches` a table that only this session sees and can read. No value is copied. A registered table of that name is
    /// replaced. The name is folded to lower case, as it is in a statement.
    ///
    /// # Errors
    /// If the database has a table of that name, or a batch has another schema.
    pub fn register(
        &self,
        name: &str,
        schema: SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<(), SqlError> {
        let name = name.to_lowercase();
        refuse_reserved(&name)?;
        if self.database.table(&name).is_some() {
            return Err(DefinitionError::Exists(name).into());
        }
        Ok(self.tables.add(name, schema, batches, BATCH_ROWS)?)
    }

    /// Removes a registered table; `false` if there is none of that name.
    pub fn unregister(&self, name: &str) -> bool {
        self.tables.remove(&name.to_lowercase())
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

    /// Statements planned so far. EXECUTE of a point query does not count.
    #[doc(hidden)]
    pub fn statements_planned(&self) -> u64 {
        self.planned.load(Ordering::Relaxed)
    }

    fn count_planning(&self) {
        self.planned.fetch_add(1, Ordering::Relaxed);
    }

    fn execution(&self) -> Scheduling {
        settings::execution(self.context.state_ref().read().config_options())
    }
}
