//! A contender of durable single-row writes.
//!
//! Every commit of every one is durable on return, as far as its medium is: SQLite in WAL mode with `synchronous = FULL`, PostgreSQL
//! with its defaults.

use super::writes::Statement;
use crate::error::LabError;

/// The keys of a statement, one execution each.
pub(super) type Keys<'a> = dyn Iterator<Item = i64> + 'a;

/// What one session does.
pub(super) trait Writer: Send {
    /// Changes the row of each key, one after the other: each is committed before the next.
    fn write(&mut self, statement: Statement, keys: &mut Keys) -> Result<(), LabError>;
}

/// A contender on files in one folder.
pub(super) trait Side {
    fn name(&self) -> &'static str;

    /// The most sessions with which it is measured.
    fn sessions_most(&self) -> usize {
        usize::MAX
    }

    /// Another session.
    fn session(&self) -> Result<Box<dyn Writer>, LabError>;

    /// The answer to [`CONTENTS`](super::writes::CONTENTS) after it was killed or closed, and opened again; `None` if it has no rows. No session is left.
    fn contents(self: Box<Self>) -> Result<Option<[i64; 3]>, LabError>;
}

/// Fails if not exactly one row was changed.
pub(super) fn check(
    who: &str,
    statement: Statement,
    id: i64,
    changed: u64,
) -> Result<(), LabError> {
    if changed == 1 {
        return Ok(());
    }
    let what = format!("{} of row {id} changed {changed} rows", statement.name());
    Err(LabError::WrongAnswer {
        who: who.to_owned(),
        what,
    })
}
