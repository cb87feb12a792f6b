//! Runs statements that change rows: the query, RETURNING, the commit.
//!
//! Outside a transaction a statement whose commit meets another's is run again, on what the other left. It has read everything
//! before it commits, so running it again does nothing twice.

use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF, Statement as LogicalStatement};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use tierra_engine::{Change as TableChange, CommitError, Committed, RowIds, Snapshot, Submitted};

use super::control::PROMPT_ROWS_MOST;
use super::declared::cast_to_declared;
use super::prepare::{
    Prepared, PreparedChange, PreparedPlan, WrittenParameters, written_parameters,
};
use super::run::{done, physical, planned};
use super::{Session, unsupported};
use crate::activity::Commit;
use crate::blocking_thread::wait_for;
use crate::change::{
    Change, ChangeStatement, Changed, Collecting, Effect, HeldRows, Upsert, first_of_each_key,
    truncated,
};
use crate::error::{ChangeError, DefinitionError, SqlError};
use crate::list::check_sets;
use crate::memory::{Collected, Planning, Writing};
use crate::names::identifier;
use crate::outcome::{Done, Outcome, Rows};
use crate::prepared::{Write, WritePlan};
use crate::sink::committing;
use crate::statement::{Compact, Parsed};
use crate::view::View;
use crate::visit::visit_expressions;

/// The plan of a PREPARE with these parameters.
async fn prepared_plan(
    state: SessionState,
    statement: Statement,
    written: WrittenParameters,
) -> Result<PreparedPlan, SqlError> {
    let (state, plan) = planned(state, statement).await?;
    let LogicalPlan::Statement(LogicalStatement::Prepare(prepare)) = plan else {
        return Err(DefinitionError::Unsupported("PREPARE of the statement".to_string()).into());
    };
    PreparedPlan::of(prepare, written, state.config_options())
}

/// How often a statement is run before a conflict is an error.
const TRIES_MOST: usize = 100;

impl Session {
    /// Runs or prepares a statement that changes rows; `None` for another. EXPLAIN of one is left as that of its query.
    pub(super) async fn run_change(
        &self,
        parsed: &Parsed,
        compact: &mut Compact,
        planning: &Planning,
    ) -> Result<Option<Outcome>, SqlError> {
        if let Statement::Explain(explain) = &mut compact.statement {
            let Statement::Statement(inner) = explain.statement.as_ref() else {
                return Ok(None);
            };
            if let Some(change) = ChangeStatement::of(inner, &self.database)? {
                if explain.options.analyze {
                    return Err(unsupported::EXPLAIN_ANALYZE.into());
                }
                *explain.statement = Statement::Statement(Box::new(change.statement));
                compact.sets.extend(change.functions);
            }
            return Ok(None);
        }
        let Statement::Statement(statement) = &mut compact.statement else {
            return Ok(None);
        };
        match statement.as_mut() {
            ast::Statement::Truncate(truncate) => self.truncate(truncate).await.map(Some),
            ast::Statement::Prepare {
                name,
                data_types,
                statement,
            } => {
                let change = ChangeStatement::of(statement, &self.database)?;
                let write = WritePlan::of(&identifier(name), data_types, statement, &self.database);
                if change.is_none() && write.is_none() {
                    cast_to_declared(statement, data_types);
                    return Ok(None);
                }
                let planned = change
                    .as_ref()
                    .map_or(statement.as_ref(), |change| &change.statement);
                let mut planned = planned.clone();
                cast_to_declared(&mut planned, data_types);
                let prepare = ast::Statement::Prepare {
                    name: name.clone(),
                    data_types: data_types.clone(),
                    statement: Box::new(planned),
                };
                let name = identifier(name);
                self.prepare_change(name, prepare, change, write, compact)
                    .await?;
                Ok(Some(done("PREPARE")))
            }
            statement => {
                let Some(change) = ChangeStatement::of(statement, &self.database)? else {
                    return Ok(None);
                };
                self.plan_and_change(change, parsed, compact, planning)
                    .await
                    .map(Some)
            }
        }
    }

    async fn plan_and_change(
        &self,
        change: ChangeStatement,
        parsed: &Parsed,
        compact: &Compact,
        planning: &Planning,
    ) -> Result<Outcome, SqlError> {
        self.count_planning();
        let plan = async |change: ChangeStatement, sets: &[Arc<ScalarUDF>]| {
            let mut state = self.state_with(sets)?;
            for function in change.functions {
                state.register_udf(function)?;
            }
            let statement = Statement::Statement(Box::new(change.statement));
            let (state, plan) = planned(state, statement).await?;
            if !sets.is_empty() {
                check_sets(&plan)?;
            }
            Ok::<_, SqlError>((state, plan, change.change))
        };
        let planned = plan(change, &compact.sets).await;
        let (state, plan, change) = match planned {
            // A long list of mixed types cannot be one array. It is planned literal by literal.
            Err(error) if !compact.sets.is_empty() => {
                planning.of_tokens(parsed.count())?;
                let Statement::Statement(whole) = parsed.parse()? else {
                    return Err(error);
                };
                match ChangeStatement::of(&whole, &self.database)? {
                    Some(change) => plan(change, &[]).await?,
                    None => return Err(error),
                }
            }
            planned => planned?,
        };
        self.change(state, plan, &change).await
    }

    async fn prepare_change(
        &self,
        name: String,
        prepare: ast::Statement,
        change: Option<ChangeStatement>,
        write: Option<WritePlan>,
        compact: &Compact,
    ) -> Result<(), SqlError> {
        let (functions, change) = change
            .map(|change| (change.functions, change.change))
            .unzip();
        let upsert = change
            .as_ref()
            .and_then(|change: &Change| change.upsert.as_deref());
        let upsert = match (upsert, &prepare) {
            (
                Some(upsert),
                ast::Statement::Prepare {
                    name, data_types, ..
                },
            ) if has_parameter(&upsert.query) => {
                let prepare = ast::Statement::Prepare {
                    name: name.clone(),
                    data_types: data_types.clone(),
                    statement: Box::new(upsert.query.clone()),
                };
                Some((prepare, upsert.functions.clone()))
            }
            _ => None,
        };
        let query = change
            .as_ref()
            .and_then(|change: &Change| change.returning.as_deref());
        if query.is_some_and(has_parameter) {
            return Err(
                DefinitionError::Unsupported("a parameter in RETURNING".to_string()).into(),
            );
        }
        self.count_planning();
        let mut state = self.state_with(&compact.sets)?;
        for function in functions.unwrap_or_default() {
            state.register_udf(function)?;
        }
        let statement = Statement::Statement(Box::new(prepare));
        let mut written = written_parameters(&statement);
        let upsert = upsert.map(|(prepare, functions)| {
            let statement = Statement::Statement(Box::new(prepare));
            written = written.and(written_parameters(&statement));
            (statement, functions)
        });
        let mut plan = prepared_plan(state, statement, written).await?;
        let upsert = match upsert {
            Some((statement, functions)) => {
                let mut state = self.state_with(&compact.sets)?;
                for function in functions {
                    state.register_udf(function)?;
                }
                let query = prepared_plan(state, statement, written).await?;
                let (insert, query) = plan.of_one_statement(query);
                plan = insert;
                Some(query)
            }
            None => None,
        };
        let mut prepared = match change {
            Some(change) => Prepared::Change(Arc::new(PreparedChange {
                plan,
                upsert,
                change,
            })),
            None => Prepared::Plan(Arc::new(plan)),
        };
        if let Some(write) = write {
            prepared = Prepared::Write(Arc::new(write), Box::new(prepared));
        }
        Ok(self.prepared.add(name, prepared)?)
    }

    /// Runs a write that was planned when it was prepared.
    pub(super) async fn write(&self, write: Write) -> Result<Outcome, SqlError> {
        let command = write.plan().command();
        self.check_writable(command)?;
        let rows = match self.transactions.is_open() {
            true => {
                let _turn = self.transactions.turn().await;
                let snapshot = self.snapshot_of(write.plan().table())?;
                let (change, rows) = self.change_of(&write, snapshot).await?;
                self.add_to_transaction(change, None).await?;
                rows
            }
            false => self.write_alone(write).await?,
        };
        Ok(Outcome::Done(Done {
            command,
            rows: Some(rows),
        }))
    }

    /// What a write changes in a snapshot, and the number of rows.
    async fn change_of(
        &self,
        write: &Write,
        snapshot: Snapshot,
    ) -> Result<(TableChange, u64), SqlError> {
        let execution = self.execution();
        if write.rows_most() <= PROMPT_ROWS_MOST {
            return write.change(snapshot, execution);
        }
        let write = write.clone();
        let change = tokio::task::spawn_blocking(move || write.change(snapshot, execution));
        change.await.map_err(SqlError::engine)?
    }

    /// Commits a write outside a transaction; returns the number of rows.
    async fn write_alone(&self, write: Write) -> Result<u64, SqlError> {
        Commit::of_statement().begin()?;
        let mut tries = 1;
        loop {
            let snapshot = write.plan().table().snapshot();
            let (change, rows) = self.change_of(&write, snapshot).await?;
            match self.committed(vec![change]).await? {
                Ok(_) => return Ok(rows),
                Err(CommitError::Conflict { .. }) if tries < TRIES_MOST => tries += 1,
                Err(error) => return Err(SqlError::of_commit(error, "statement")),
            }
        }
    }

    /// Runs a planned INSERT.
    pub(super) async fn insert(
        &self,
        state: SessionState,
        plan: LogicalPlan,
    ) -> Result<Outcome, SqlError> {
        let LogicalPlan::Dml(insert) = &plan else {
            return self.start(state, plan).await;
        };
        if !self.transactions.is_open() {
            return self.finish(state, plan, "INSERT").await;
        }
        let name = insert.table_name.table();
        let Some(table) = self.database.table(name) else {
            return Err(DefinitionError::NoSuchTable(name.to_string()).into());
        };
        let change = Change {
            table,
            effect: Effect::Insert,
            actions: Vec::new(),
            upsert: None,
            returning: None,
        };
        self.change(state, plan, &change).await
    }

    /// Runs a planned change.
    pub(super) async fn change(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        change: &Change,
    ) -> Result<Outcome, SqlError> {
        self.check_writable(change.effect.command())?;
        if self.transactions.is_open() {
            let _turn = self.transactions.turn().await;
            let view = self.transactions.view();
            let view = view.ok_or(ChangeError::NoTransaction)?;
            let made = self.make(&state, &plan, change, &view).await?;
            let account = Some(made.memory);
            self.add_to_transaction(made.change, account).await?;
            if change.upsert.is_some() {
                self.transactions.note_upsert(&change.table)?;
            }
            return Ok(made.outcome);
        }
        let mut tries = 1;
        loop {
            let view = Arc::new(View::new(&self.database));
            let made = self.make(&state, &plan, change, &view).await?;
            let snapshot = made.change.snapshot.clone();
            match self.commit(made.change).await {
                Ok(()) => return Ok(made.outcome),
                Err(error) if tries < TRIES_MOST && may_pass(&error, change, &snapshot) => {
                    tries += 1;
                    tokio::task::yield_now().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a change of what is in `view`; nothing is changed yet.
    async fn make(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
        change: &Change,
        view: &Arc<View>,
    ) -> Result<Made, SqlError> {
        let mut state = state.clone();
        state.config_mut().set_extension(Arc::clone(view));
        let snapshot = view.of(&change.table)?;
        let _writing = Writing::begin();
        let changed = match (change.effect, &change.upsert) {
            (Effect::Insert, None) => self.inserted(state, plan.clone()).await?,
            (Effect::Insert, Some(upsert)) => {
                let inserted = self.inserted(state, plan.clone()).await?;
                self.upserted(inserted, upsert, change, view).await?
            }
            _ => {
                let collecting = Collecting::new(change, None, &self.pool());
                self.collected(state, plan.clone(), collecting).await?
            }
        };
        let returned = match &change.returning {
            Some(query) => Some(self.returned(query, &changed, view).await?),
            None => None,
        };
        let count = changed.count;
        let appended = match change.effect {
            Effect::Delete => Vec::new(),
            _ => changed.rows,
        };
        Ok(Made {
            change: TableChange {
                snapshot,
                deleted: changed.deleted,
                appended,
            },
            memory: changed.memory,
            outcome: returned.unwrap_or(Outcome::Done(Done {
                command: change.effect.command(),
                rows: Some(count),
            })),
        })
    }

    /// The rows that a query finds and computes.
    async fn collected(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        mut collecting: Collecting<'_>,
    ) -> Result<Changed, SqlError> {
        let physical = physical(state, plan).await?;
        let mut rows = physical.spawned()?;
        while let Some(batch) = rows.next().await {
            collecting.add(&batch?)?;
        }
        Ok(collecting.finish())
    }

    /// The rows of an INSERT, which are not in the table yet.
    async fn inserted(
        &self,
        mut state: SessionState,
        plan: LogicalPlan,
    ) -> Result<Changed, SqlError> {
        let held = Arc::new(HeldRows::new(&self.pool()));
        state.config_mut().set_extension(Arc::clone(&held));
        let physical = physical(state, plan).await?;
        let mut counts = physical.spawned()?;
        while let Some(batch) = counts.next().await {
            batch?;
        }
        let (rows, memory) = held.take(&self.pool());
        Ok(Changed {
            deleted: RowIds::default(),
            count: rows.iter().map(|batch| batch.num_rows() as u64).sum(),
            rows,
            memory,
        })
    }

    /// What ON CONFLICT makes of the rows of an INSERT.
    async fn upserted(
        &self,
        mut inserted: Changed,
        upsert: &Upsert,
        change: &Change,
        view: &Arc<View>,
    ) -> Result<Changed, SqlError> {
        let spec = change.table.spec();
        let memory = &mut inserted.memory;
        let (rows, has_others) = first_of_each_key(&inserted.rows, &spec.primary_key, memory)?;
        if has_others && upsert.updates {
            return Err(ChangeError::Twice {
                command: "ON CONFLICT DO UPDATE",
                table: spec.name.clone(),
            }
            .into());
        }
        let mut state = self.context.state();
        let held = HeldRows::of(rows, &self.pool());
        state.config_mut().set_extension(Arc::new(held));
        state.config_mut().set_extension(Arc::clone(view));
        for function in &upsert.functions {
            state.register_udf(Arc::clone(function))?;
        }
        let (state, plan) = match &upsert.plan {
            Some(plan) => (state, plan.clone()),
            None => {
                let query = Statement::Statement(Box::new(upsert.query.clone()));
                planned(state, query).await?
            }
        };
        let collecting = Collecting::new(change, Some(upsert), &self.pool());
        self.collected(state, plan, collecting).await
    }

    /// The rows of RETURNING.
    async fn returned(
        &self,
        query: &ast::Statement,
        changed: &Changed,
        view: &Arc<View>,
    ) -> Result<Outcome, SqlError> {
        let mut state = self.context.state();
        let held = HeldRows::of(changed.rows.clone(), &self.pool());
        state.config_mut().set_extension(Arc::new(held));
        state.config_mut().set_extension(Arc::clone(view));
        let query = Statement::Statement(Box::new(query.clone()));
        let (state, plan) = planned(state, query).await?;
        if !has_each_row(&plan) {
            let what = "an aggregate, a window or a function that returns rows in RETURNING";
            return Err(DefinitionError::Unsupported(what.to_string()).into());
        }
        let Outcome::Rows(mut rows) = self.start(state, plan).await? else {
            return Err(DefinitionError::Unsupported("RETURNING".to_string()).into());
        };
        let batches = Rows::collect(&mut rows).await?;
        Ok(Outcome::Rows(Rows::of_batches(
            Arc::clone(rows.schema()),
            batches,
        )))
    }

    async fn truncate(&self, truncate: &ast::Truncate) -> Result<Outcome, SqlError> {
        let tables = truncated(truncate, &self.database)?;
        self.refuse_in_transaction("TRUNCATE in a transaction")?;
        let database = Arc::clone(&self.database);
        let commit = Commit::of_statement();
        let rows = committing(&commit, move || database.truncate(&tables)).await?;
        Ok(Outcome::Done(Done {
            command: "TRUNCATE TABLE",
            rows: Some(rows),
        }))
    }

    /// Commits the change of a statement outside a transaction.
    async fn commit(&self, change: TableChange) -> Result<(), SqlError> {
        // A statement that was dropped meanwhile ends here.
        tokio::task::yield_now().await;
        let commit = Commit::of_statement();
        commit.begin()?;
        match self.committed(vec![change]).await? {
            Ok(_) => Ok(()),
            Err(error) => {
                commit.refused();
                Err(SqlError::of_commit(error, "statement"))
            }
        }
    }

    /// The outcome of a commit. One that takes long is made on a thread that may block, where it goes on if this future is dropped.
    pub(super) async fn committed(
        &self,
        changes: Vec<TableChange>,
    ) -> Result<Result<Committed, CommitError>, SqlError> {
        match self.database.submit(changes) {
            Ok(Submitted::Done(committed)) => Ok(Ok(committed)),
            Ok(Submitted::Waiting(waiting)) => {
                let committed = wait_for(|| waiting.wait()).await;
                committed.map_err(SqlError::engine)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn pool(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.memory) as _
    }
}

/// A change that is complete, and not made yet.
struct Made {
    change: TableChange,
    /// The account of its rows.
    memory: Collected,
    /// What the statement answers once the change is made.
    outcome: Outcome,
}

/// Whether a statement that read `snapshot` and failed so at its commit may succeed when it is run again.
fn may_pass(error: &SqlError, change: &Change, snapshot: &Snapshot) -> bool {
    match error {
        SqlError::Change(ChangeError::Conflict { .. }) => true,
        // Another session may have inserted the key after the statement looked for it.
        SqlError::Engine(source) if change.upsert.is_some() => {
            matches!(source.downcast_ref(), Some(CommitError::DuplicateKey(_)))
                && !snapshot.is_current()
        }
        _ => false,
    }
}

fn has_parameter(query: &ast::Statement) -> bool {
    let found = visit_expressions(query, |expr| match expr {
        ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => {
            std::ops::ControlFlow::Break(())
        }
        _ => std::ops::ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Whether a plan has a row for each row of the table that it reads.
fn has_each_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(has_each_row)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tierra_engine::{Database, DatabaseOptions, DuplicateKeyError};

    use super::*;
    use crate::SessionOptions;

    /// An upsert fails at its commit for a key that was there, or for one that another session inserted meanwhile.
    #[tokio::test]
    async fn an_upsert_is_run_again_only_if_there_is_something_new() {
        let dir = tempfile::tempdir().unwrap();
        let options = DatabaseOptions::default();
        let database = Database::create(&dir.path().join("db"), &options).unwrap();
        let session = Session::new(Arc::clone(&database), &SessionOptions::default()).unwrap();
        session
            .execute("CREATE TABLE t (k INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
            .await
            .unwrap();
        let upsert = "INSERT INTO t VALUES (1) ON CONFLICT (k) DO UPDATE SET k = 2";
        let error = session.sql(upsert).await.unwrap_err();
        let SqlError::Engine(source) = &error else {
            panic!("{error}");
        };
        assert!(source.downcast_ref::<CommitError>().is_some(), "{error}");

        let parsed = crate::statement::split(upsert).unwrap().remove(0);
        let Statement::Statement(statement) = parsed.parse().unwrap() else {
            panic!("{upsert}");
        };
        let change = ChangeStatement::of(&statement, &database).unwrap();
        let change = change.unwrap().change;
        let snapshot = change.table.snapshot();
        assert!(!may_pass(&error, &change, &snapshot));
        session.sql("INSERT INTO t VALUES (3)").await.unwrap();
        assert!(may_pass(&error, &change, &snapshot));
        assert!(!may_pass(&error, &change, &change.table.snapshot()));
        let plain = Change {
            upsert: None,
            ..change
        };
        let taken = SqlError::engine(CommitError::DuplicateKey(DuplicateKeyError {
            table: "t".to_owned(),
            key: "(k = 2)".to_owned(),
        }));
        assert!(!may_pass(&taken, &plain, &snapshot));
    }
}
