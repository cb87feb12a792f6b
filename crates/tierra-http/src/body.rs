//! The statements of a body.
//!
//! Several are one transaction, as a text over PostgreSQL's protocol is, unless one of them can be in none. BEGIN takes over what came
//! before; what comes behind COMMIT or ROLLBACK is a transaction of its own, up to the end of the body.

use tierra_sql::{Done, Outcome, Session, Statement, TransactionState};

use crate::fault::Fault;

/// The statements of a body, all of which are SQL.
pub(crate) struct Statements {
    all: Vec<Statement>,
    /// Whether they are one transaction.
    are_together: bool,
    /// Whether the open transaction was begun for the body.
    pub(crate) has_begun: bool,
}

/// What a statement is to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Begin,
    End,
    Savepoint,
    /// It is about the session alone.
    Setting,
    Other,
}

impl Statements {
    /// Reads all statements of a text before the first one runs.
    pub(crate) async fn read(session: &Session, text: &str) -> Result<Self, Fault> {
        let all = session.statements(text)?;
        let are_several = all.len() > 1;
        // One that is alone among settings may be a bulk load.
        let kinds = all.iter().map(Kind::of);
        let mut are_together = kinds.filter(|kind| *kind != Kind::Setting).count() > 1;
        for (number, statement) in (1..).zip(&all).filter(|_| are_several) {
            let may_be = session.parse_only(statement).await;
            are_together &= may_be.map_err(|error| Fault::from(error).in_statement(number))?;
        }
        Ok(Self {
            all,
            are_together,
            has_begun: false,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Runs the statement at a place, which comes behind those before it.
    pub(crate) async fn run(&mut self, place: usize, session: &Session) -> Result<Outcome, Fault> {
        let statement = &self.all[place];
        let kind = Kind::of(statement);
        let is_begun = session.transaction() != TransactionState::None;
        if self.are_together && kind == Kind::Other && !is_begun {
            session.sql("BEGIN").await?;
            self.has_begun = true;
        }
        match kind {
            Kind::Begin if self.has_begun => {
                // BEGIN, BEGIN TRANSACTION or START TRANSACTION.
                if statement.lexemes().len() > 2 {
                    let message = "the statements before it are of this transaction: say its modes in the first one";
                    return Err(Fault::of_statement("25001", message));
                }
                self.has_begun = false;
                return Ok(Outcome::Done(Done {
                    command: "BEGIN",
                    rows: None,
                }));
            }
            Kind::Savepoint if self.has_begun => {
                let message = "savepoints are for transactions that BEGIN began";
                return Err(Fault::of_statement("25P01", message));
            }
            Kind::End => self.has_begun = false,
            _ => {}
        }
        Ok(session.run_statement(statement).await?)
    }
}

/// What statements about the session alone begin with.
const SETTINGS: [&str; 5] = ["set", "reset", "show", "prepare", "deallocate"];

impl Kind {
    fn of(statement: &Statement) -> Self {
        let begins = |words: &[&str]| statement.begins(words);
        let goes_back = || statement.lexemes().iter().any(|lexeme| lexeme.is("to"));
        match () {
            () if begins(&["begin"]) || begins(&["start", "transaction"]) => Self::Begin,
            () if begins(&["savepoint"]) || begins(&["release"]) => Self::Savepoint,
            () if begins(&["rollback"]) && goes_back() => Self::Savepoint,
            () if begins(&["commit"]) || begins(&["end"]) || begins(&["rollback"]) => Self::End,
            () if SETTINGS.iter().any(|word| begins(&[word])) => Self::Setting,
            () => Self::Other,
        }
    }
}

/// Commits the transaction of a body.
pub(crate) async fn commit(session: &Session) -> Result<(), Fault> {
    match session.sql("COMMIT").await? {
        Outcome::Done(Done {
            command: "COMMIT", ..
        }) => Ok(()),
        _ => Err(Fault::of_statement(
            "25P02",
            "a statement of the body had failed",
        )),
    }
}
