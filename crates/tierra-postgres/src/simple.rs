//! Statements as texts, each answered at once, with rows as text.
//!
//! A text of several statements is one transaction, as in PostgreSQL, unless one of them can be in none. BEGIN in it takes over what came before;
//! what comes behind COMMIT or ROLLBACK is a transaction of its own, up to the end of the text.

use std::sync::Arc;

use tierra_sql::{Outcome, Statement, TransactionState};

use crate::command::Tag;
use crate::connection::{Connection, Stop};
use crate::error::Fault;
use crate::own::Own;
use crate::statement::{Cursor, Formats};
use crate::wire::messages::Put;

/// A statement of a text, which was read but has not run.
type Read = (Statement, Option<Own>);

impl Connection {
    /// Runs the statements of a text, one after the other, if all of them are statements.
    pub(crate) async fn query(&mut self, text: &str) -> Result<(), Stop> {
        let statements = self.session.statements(text)?;
        if statements.is_empty() {
            self.wire.output().empty_query();
            return Ok(());
        }
        let (statements, are_together) = self.read(statements).await?;
        let last = statements.len() - 1;
        let mut result = Ok(());
        for (place, (statement, own)) in statements.into_iter().enumerate() {
            result = self.begin_text(are_together, own.as_ref()).await;
            if self.of_text && place == last {
                self.late_tag = Some(None);
            }
            if result.is_ok() {
                result = self.run(statement, own).await;
            }
            if result.is_err() {
                break;
            }
        }
        let tag = self.late_tag.take().flatten();
        if std::mem::take(&mut self.of_text) {
            result = self.end_text(result).await;
        }
        if let (Ok(()), Some(tag)) = (&result, tag) {
            self.complete(&tag);
        }
        result
    }

    /// Reads all statements before the first one runs. Returns with them whether they are one transaction.
    async fn read(&mut self, statements: Vec<Statement>) -> Result<(Vec<Read>, bool), Stop> {
        let are_several = statements.len() > 1;
        let mut are_together = are_several;
        let mut read = Vec::with_capacity(statements.len());
        for statement in statements {
            let own = Own::of(&statement)?;
            if are_several && own.as_ref().is_none_or(Own::is_of_session) {
                are_together &= self.session.parse_only(&statement).await?;
            }
            read.push((statement, own));
        }
        Ok((read, are_together))
    }

    /// Begins the transaction of a text of several statements before the first that needs it.
    async fn begin_text(&mut self, are_together: bool, next: Option<&Own>) -> Result<(), Stop> {
        let is_needed = next.is_none_or(Own::needs_transaction);
        if are_together && is_needed && self.session.transaction() == TransactionState::None {
            self.session.sql("BEGIN").await?;
            self.of_text = true;
        }
        Ok(())
    }

    /// Ends the transaction of a text, whose statements had this result.
    async fn end_text(&mut self, result: Result<(), Stop>) -> Result<(), Stop> {
        let result = match result {
            Ok(()) => {
                let commit = tierra_sql::statements("COMMIT")?.remove(0);
                match self.ended("COMMIT", &commit).await {
                    Ok(tag) if tag != "COMMIT" => {
                        Err(Fault::new("25P02", "a statement of the text had failed").into())
                    }
                    ended => ended.map(drop),
                }
            }
            failed => failed,
        };
        if result.is_err() && self.session.transaction() != TransactionState::None {
            // It does not wait for anything.
            self.session.sql("ROLLBACK").await?;
        }
        result
    }

    async fn run(&mut self, statement: Statement, own: Option<Own>) -> Result<(), Stop> {
        if let Some(own) = own {
            return self.answer(&own, &statement).await;
        }
        if self.of_text {
            check_marks(&statement)?;
        }
        let session = Arc::clone(&self.session);
        match self.watched(session.run_statement(&statement)).await? {
            Outcome::Done(done) => self.complete(&Tag::of_done(&done)),
            Outcome::Rows(rows) => {
                let tag = Tag::of(&statement, &session);
                let mut cursor = Cursor::new(rows);
                self.put_fields(&cursor.fields, &Formats::TEXT)?;
                let sent = self.send_rows(&mut cursor, &Formats::TEXT, None).await?;
                self.complete(&tag.after(sent));
            }
        }
        Ok(())
    }
}

/// Refuses savepoints where nobody has begun the transaction.
fn check_marks(statement: &Statement) -> Result<(), Fault> {
    let marks = [
        ("savepoint", "SAVEPOINT"),
        ("release", "RELEASE SAVEPOINT"),
        ("rollback", "ROLLBACK TO SAVEPOINT"),
    ];
    match marks.iter().find(|(word, _)| statement.begins(&[*word])) {
        None => Ok(()),
        Some((_, command)) => Err(Fault::new(
            "25P01",
            format!("{command} can only be used in transaction blocks"),
        )),
    }
}
