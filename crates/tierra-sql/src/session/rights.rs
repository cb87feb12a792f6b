//! What a session that may only read is refused.
//!
//! Two fences stand one behind the other. Each statement is looked at once it is parsed, also inside PREPARE and EXPLAIN: only kinds
//! that are known to read pass, so that a new kind is refused until it is listed here. And what writes rows or files asks again where
//! it begins to, however it came there.
//!
//! The right is no setting: it is given when the session is made, and no statement changes it. So a refusal is 42501, as of a user of
//! PostgreSQL to whom nothing but SELECT is granted. 25006 would say that another transaction, or another server, would do it.

use std::ops::ControlFlow;

use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, SetExpr, Visitor};

use super::Session;
use crate::error::{DefinitionError, SqlError};
use crate::settings;
use crate::statement::Parsed;
use crate::tree::TreeNode;
use crate::visit::visit;

/// The most characters of a statement's first word in a message.
const WORD_MOST: usize = 20;

impl Session {
    /// Whether the session may only read, in any transaction.
    pub fn reads_only(&self) -> bool {
        self.reads_only
    }

    /// Fails if a statement that changes something, which begins with `command`, is none for this session: in a transaction that only
    /// reads, or if the session may only read.
    ///
    /// # Errors
    /// If so.
    pub fn check_writable(&self, command: &'static str) -> Result<(), SqlError> {
        self.transactions.check_writable(command)?;
        self.check_right(command)
    }

    /// Fails if the session may only read.
    pub(super) fn check_right(&self, what: &str) -> Result<(), SqlError> {
        match self.reads_only {
            true => Err(SqlError::Denied {
                what: what.to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Refuses `parsed`, which is `statement`, if it may do more than read and the session may not.
    pub(super) fn check_statement(
        &self,
        parsed: &Parsed,
        statement: &Statement,
    ) -> Result<(), SqlError> {
        match !self.reads_only || only_reads(statement) {
            true => Ok(()),
            false => self.check_right(&first_word(parsed)),
        }
    }

    /// Refuses to change a setting that other sessions share, if the session may only read.
    pub(super) fn check_setting(&self, setting: &str) -> Result<(), SqlError> {
        match settings::is_shared(setting) {
            true => self.check_right(&format!("setting {setting}, which all sessions share")),
            false => Ok(()),
        }
    }

    /// Refuses what names a file, unless this session may.
    pub(super) fn check_files(&self) -> Result<(), SqlError> {
        self.check_right("a file of the server")?;
        match self.refuses_files {
            true => Err(DefinitionError::UnsupportedFor {
                what: "a file of the server",
                instead: "statements name files only where the server was started with --allow-files",
            }
            .into()),
            false => Ok(()),
        }
    }

    /// Refuses a plan that writes what this session may not, also to show how it would.
    pub(super) fn check_plan(&self, plan: &LogicalPlan) -> Result<(), SqlError> {
        let writes_rows = |plan: &LogicalPlan| {
            let writes = matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Ddl(_));
            Ok(writes)
        };
        let writes_files = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Copy(_)));
        if self.reads_only && plan.exists(writes_rows)? {
            self.check_right("a change of rows")?;
        }
        let is_refused = (self.reads_only || self.refuses_files) && plan.exists(writes_files)?;
        match is_refused {
            true => self.check_files(),
            false => Ok(()),
        }
    }
}

/// Whether a statement changes nothing but its session. EXECUTE runs what PREPARE was let prepare.
fn only_reads(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => is_reading(statement),
        Statement::Explain(explain) => only_reads(&explain.statement),
        Statement::Reset(_) => true,
        Statement::CopyTo(_) | Statement::CreateExternalTable(_) => false,
    }
}

fn is_reading(statement: &ast::Statement) -> bool {
    use ast::Statement as Sql;
    match statement {
        Sql::Query(query) => visit(query, &mut Changes).is_continue(),
        Sql::Explain { statement, .. } | Sql::Prepare { statement, .. } => is_reading(statement),
        Sql::ExplainTable { .. }
        | Sql::ShowColumns { .. }
        | Sql::ShowFunctions { .. }
        | Sql::ShowTables { .. }
        | Sql::ShowVariable { .. }
        | Sql::ShowVariables { .. }
        | Sql::Set(_)
        | Sql::Reset(_)
        | Sql::StartTransaction { .. }
        | Sql::Commit { .. }
        | Sql::Rollback { .. }
        | Sql::Savepoint { .. }
        | Sql::ReleaseSavepoint { .. }
        | Sql::Execute { .. }
        | Sql::Deallocate { .. } => true,
        _ => false,
    }
}

/// Finds a change in the place of a query, as in `WITH .. INSERT`, wherever in a statement it stands.
struct Changes;

impl Visitor for Changes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        match is_rows(&query.body) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

/// Whether the body of a query is rows. A query within it is visited by itself.
fn is_rows(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.into.is_none(),
        SetExpr::Values(_) | SetExpr::Table(_) | SetExpr::Query(_) => true,
        SetExpr::SetOperation { left, right, .. } => is_rows(left) && is_rows(right),
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => false,
    }
}

/// The word that a statement begins with, for messages.
fn first_word(parsed: &Parsed) -> String {
    let beginning = parsed.beginning(WORD_MOST).to_uppercase();
    let word = beginning.split_whitespace().next();
    word.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use tierra_engine::{Database, DatabaseOptions};

    use super::*;
    use crate::SessionOptions;
    use crate::statement::split;

    fn is_passed(sql: &str) -> bool {
        only_reads(&split(sql).unwrap()[0].parse().unwrap())
    }

    #[test]
    fn only_what_is_known_to_read_passes() {
        for sql in [
            "SELECT 1",
            "(SELECT 1) UNION ALL VALUES (2)",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "FROM t",
            "EXPLAIN ANALYZE SELECT * FROM t",
            "SHOW TABLES",
            "SHOW tierra.threads",
            "DESCRIBE t",
            "SET tierra.threads = 2",
            "RESET tierra.threads",
            "BEGIN READ WRITE",
            "ROLLBACK TO SAVEPOINT a",
            "PREPARE p AS SELECT $1",
            "EXECUTE p(1)",
            "DEALLOCATE p",
        ] {
            assert!(is_passed(sql), "{sql}");
        }
        for sql in [
            "INSERT INTO t VALUES (1)",
            "UPDATE t SET n = 1",
            "DELETE FROM t",
            "TRUNCATE t",
            "SELECT 1 INTO u",
            "(SELECT 1 INTO u) UNION ALL SELECT 2",
            "WITH a AS (DELETE FROM t RETURNING n) SELECT * FROM a",
            "SELECT (WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a)",
            "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
            "WITH a AS (SELECT 1) DELETE FROM t",
            "EXPLAIN DELETE FROM t",
            "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
            "PREPARE p AS DELETE FROM t",
            "PREPARE p AS PREPARE q AS DELETE FROM t",
            "CREATE TABLE u (n BIGINT)",
            "CREATE VIEW v AS SELECT 1",
            "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'a.csv'",
            "DROP TABLE t",
            "COPY t TO 'a.csv'",
            "EXPLAIN COPY t TO 'a.parquet'",
            "GRANT SELECT ON t TO u",
            "VACUUM",
            "ANALYZE t",
            "CALL f()",
        ] {
            assert!(!is_passed(sql), "{sql}");
        }
    }

    /// The first fence does not see what was prepared before.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_passed_the_first_fence_meets_the_second() {
        let dir = tempfile::tempdir().unwrap();
        let database =
            Database::create(&dir.path().join("db"), &DatabaseOptions::default()).unwrap();
        let mut session = Session::new(database, &SessionOptions::default()).unwrap();
        let made =
            "CREATE TABLE t (n BIGINT PRIMARY KEY, s VARCHAR); INSERT INTO t VALUES (1, 'a')";
        session.execute(made).await.unwrap();
        let named = [
            "INSERT INTO t SELECT 2, 'b'",
            "INSERT INTO t VALUES (3, 'c') ON CONFLICT DO NOTHING",
            "UPDATE t SET s = 'd'",
            "DELETE FROM t WHERE n < 9",
            "INSERT INTO t VALUES (4, 'e')",
            "UPDATE t SET s = 'f' WHERE n = 1",
        ];
        let mut prepared = Vec::new();
        for (number, sql) in named.iter().enumerate() {
            let prepare = format!("PREPARE p{number} AS {sql}");
            session.sql(&prepare).await.unwrap();
            prepared.push(session.prepare(sql).await.unwrap());
        }
        session.reads_only = true;
        for (number, prepared) in prepared.iter().enumerate() {
            let name = format!("p{number}");
            for execute in [
                format!("EXECUTE {name}"),
                format!("EXPLAIN ANALYZE EXECUTE {name}"),
                format!("BEGIN; EXECUTE {name}; COMMIT"),
            ] {
                session.execute(&execute).await.unwrap_err();
                let _ = session.sql("ROLLBACK").await;
            }
            let refused = session.sql(&format!("EXECUTE {name}")).await.unwrap_err();
            assert!(matches!(refused, SqlError::Denied { .. }), "{refused}");
            let refused = prepared.run(&session, &[]).await.unwrap_err();
            assert!(matches!(refused, SqlError::Denied { .. }), "{refused}");
        }
        session.reads_only = false;
        let rows = session.query("SELECT * FROM t").await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
        // Who may write runs the same statements.
        for prepared in prepared {
            prepared.run(&session, &[]).await.unwrap();
        }
    }
}
