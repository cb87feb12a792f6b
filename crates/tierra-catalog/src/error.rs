//! What can be wrong with a query of the catalog, with the code that PostgreSQL has for it.

/// An error. Its code is one of PostgreSQL's.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Error {
    /// SQLSTATE.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The most characters of a query that an error quotes.
const QUOTED: usize = 120;

impl Error {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// What PostgreSQL has and queries of the catalog have not.
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        let mut what = what.to_string();
        if let Some((end, _)) = what.char_indices().nth(QUOTED) {
            what.truncate(end);
            what.push_str("..");
        }
        let message = format!("{what} is not supported in a query of the system catalog");
        Self::new("0A000", message)
    }

    pub(crate) fn no_function(what: impl std::fmt::Display) -> Self {
        Self::new(
            "42883",
            format!("function {what} does not exist in the system catalog"),
        )
    }

    pub(crate) fn mismatch(message: impl Into<String>) -> Self {
        Self::new("42804", message)
    }

    pub(crate) fn too_much() -> Self {
        Self::new(
            "54000",
            "the query of the system catalog takes too many steps",
        )
    }
}
