//! Statements as texts, each answered at once, with rows as text.

use tierra_sql::{Outcome, Statement, TransactionState};

use crate::connection::{Connection, Stop};
use crate::own::Own;
use crate::statement::{Cursor, Formats, Tag};
use crate::values::fields_of;
use crate::wire::messages::Put;

impl Connection {
    /// Runs the statements of a text, one after the other. Several that only read and change rows are one transaction, as in
    /// PostgreSQL.
    pub(crate) async fn query(&mut self, text: &str) -> Result<(), Stop> {
        let statements = tierra_sql::statements(text)?;
        if statements.is_empty() {
            self.wire.output().empty_query();
            return Ok(());
        }
        let are_together = statements.len() > 1
            && self.session.transaction() == TransactionState::None
            && statements.iter().all(Statement::is_about_rows);
        if are_together {
            self.session.sql("BEGIN").await?;
        }
        let mut result = Ok(());
        for statement in statements {
            result = self.run(statement).await;
            if result.is_err() {
                break;
            }
        }
        if are_together {
            let session = std::sync::Arc::clone(&self.session);
            let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
            let ended = self.watched(session.sql(end)).await;
            result = result.and(ended.map(drop));
        }
        result
    }

    async fn run(&mut self, statement: Statement) -> Result<(), Stop> {
        if let Some(own) = Own::of(&statement)? {
            return self.answer(&own, &statement, &Formats::TEXT, true).await;
        }
        let session = std::sync::Arc::clone(&self.session);
        match self.watched(session.run_statement(&statement)).await? {
            Outcome::Done(done) => self.wire.output().complete(&Tag::of_done(&done)),
            Outcome::Rows(rows) => {
                let fields = fields_of(rows.schema());
                self.put_fields(&fields, &Formats::TEXT)?;
                let mut cursor = Cursor::new(rows);
                let sent = self.send_rows(&mut cursor, &Formats::TEXT, None).await?;
                self.wire
                    .output()
                    .complete(&Tag::of(&statement).after(sent));
            }
        }
        Ok(())
    }
}
