//! Statements as texts, each answered at once, with rows as text.

use std::sync::Arc;

use tierra_sql::{Outcome, Statement, TransactionState};

use crate::connection::{Connection, Stop};
use crate::own::Own;
use crate::statement::{Cursor, Formats, Tag};
use crate::wire::messages::Put;

impl Connection {
    /// Runs the statements of a text, one after the other. Several that only read and change rows are one transaction, as in
    /// PostgreSQL.
    pub(crate) async fn query(&mut self, text: &str) -> Result<(), Stop> {
        let statements = self.session.statements(text)?;
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
        let last = statements.len() - 1;
        let mut result = Ok(());
        for (place, statement) in statements.into_iter().enumerate() {
            if are_together && place == last {
                self.late_tag = Some(None);
            }
            result = self.run(statement).await;
            if result.is_err() {
                break;
            }
        }
        if are_together {
            let tag = self.late_tag.take().flatten();
            result = self.end_together(result).await;
            if let (Ok(()), Some(tag)) = (&result, tag) {
                self.complete(&tag);
            }
        }
        result
    }

    /// Ends the transaction of several statements, which had this result.
    async fn end_together(&mut self, result: Result<(), Stop>) -> Result<(), Stop> {
        let session = Arc::clone(&self.session);
        let result = match result {
            Ok(()) => self.watched(session.sql("COMMIT")).await.map(drop),
            failed => failed,
        };
        if result.is_err() && session.transaction() != TransactionState::None {
            // It does not wait for anything.
            session.sql("ROLLBACK").await?;
        }
        result
    }

    async fn run(&mut self, statement: Statement) -> Result<(), Stop> {
        if let Some(own) = Own::of(&statement)? {
            return self.answer(&own, &statement, &Formats::TEXT, None).await;
        }
        let session = Arc::clone(&self.session);
        match self.watched(session.run_statement(&statement)).await? {
            Outcome::Done(done) => self.complete(&Tag::of_done(&done)),
            Outcome::Rows(rows) => {
                let mut cursor = Cursor::new(rows);
                self.put_fields(&cursor.fields, &Formats::TEXT)?;
                let sent = self.send_rows(&mut cursor, &Formats::TEXT, None).await?;
                self.complete(&Tag::of(&statement).after(sent));
            }
        }
        Ok(())
    }
}
