//! Why rows cannot be changed.

/// Why a statement or a transaction cannot change rows. [`ChangeError::sqlstate`] is PostgreSQL's code of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// UPDATE .. FROM that finds several new values for one row.
    #[error(
        "UPDATE finds a row of table '{table}' more than once: write FROM and WHERE so that each row of '{table}' \
         meets one row at most"
    )]
    Repeated {
        /// The table.
        table: String,
    },
    /// MERGE or ON CONFLICT DO UPDATE that would change one row twice.
    #[error("{command} changes a row of table '{table}' a second time: give it each key once")]
    Twice {
        /// The statement.
        command: &'static str,
        /// The table.
        table: String,
    },
    /// Another commit changed a row that this statement changes too.
    #[error(
        "table '{table}': another session changed a row first (SQLSTATE 40001); run the {what} again"
    )]
    Conflict {
        /// The table.
        table: String,
        /// The statement or transaction.
        what: &'static str,
    },
    /// A table that was created after the moment as of which a transaction reads.
    #[error(
        "table '{table}' was created after the moment as of which the transaction reads (SQLSTATE 40001); run the transaction again"
    )]
    Newer {
        /// The table.
        table: String,
    },
    /// A table that a transaction changed is gone when it commits.
    #[error(
        "table '{table}' was dropped by another session (SQLSTATE 40001); run the transaction again"
    )]
    Dropped {
        /// The table.
        table: String,
    },
    /// BEGIN inside a transaction.
    #[error("a transaction is open already: COMMIT or ROLLBACK it first, or set a SAVEPOINT in it")]
    Nested,
    /// COMMIT, ROLLBACK or SAVEPOINT outside a transaction.
    #[error("there is no transaction: BEGIN one first")]
    NoTransaction,
    /// A statement after one that failed.
    #[error(
        "the transaction has failed, and no statement runs in it: ROLLBACK it, or ROLLBACK TO a savepoint"
    )]
    Aborted,
    /// A statement that writes in a transaction that only reads.
    #[error("{command} in a READ ONLY transaction")]
    ReadOnly {
        /// Its first word.
        command: &'static str,
    },
    /// ROLLBACK TO or RELEASE of an unknown savepoint.
    #[error("there is no savepoint '{0}' in the transaction")]
    NoSavepoint(String),
    /// A transaction that inserts or updates more rows than it can keep.
    #[error(
        "the transaction writes more than {most} rows of table '{table}': COMMIT more often, or write them by one \
         statement outside a transaction"
    )]
    TooManyRows {
        /// The table.
        table: String,
        /// The most rows.
        most: u64,
    },
}

impl ChangeError {
    /// The five characters by which programs tell PostgreSQL's errors apart.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            ChangeError::Repeated { .. } | ChangeError::Twice { .. } => "21000",
            ChangeError::Conflict { .. }
            | ChangeError::Newer { .. }
            | ChangeError::Dropped { .. } => "40001",
            ChangeError::Nested => "25001",
            ChangeError::NoTransaction => "25P01",
            ChangeError::Aborted => "25P02",
            ChangeError::ReadOnly { .. } => "25006",
            ChangeError::NoSavepoint(_) => "3B001",
            ChangeError::TooManyRows { .. } => "54000",
        }
    }
}
