//! Errors as the client sees them, with PostgreSQL's codes.

use tierra_sql::{ErrorKind, InsertError, SqlError};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The connection ends.
    Fatal,
    Error,
    Warning,
}

/// An error or a warning for the client.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) severity: Severity,
    /// SQLSTATE.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Fatal,
            ..Self::new(code, message)
        }
    }

    pub(crate) fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::new(code, message)
        }
    }

    /// The code of what is against the protocol.
    pub(crate) const PROTOCOL: &str = "08P01";

    /// The code of what was cancelled.
    pub(crate) const CANCELLED: &str = "57014";

    /// The client does not keep to the protocol.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(Self::PROTOCOL, message)
    }

    pub(crate) fn unsupported(what: &str) -> Self {
        Self::new("0A000", format!("{what} is not supported"))
    }

    pub(crate) fn not_utf8() -> Self {
        Self::new(
            "22021",
            "the text is not UTF-8, the only encoding of this server",
        )
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new("42601", message)
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.severity == Severity::Fatal
    }

    /// The fields of the message, by their types.
    pub(crate) fn fields(&self) -> Vec<(u8, String)> {
        let severity = match self.severity {
            Severity::Fatal => "FATAL",
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
        };
        let mut fields = vec![
            (b'S', severity.to_owned()),
            (b'V', severity.to_owned()),
            (b'C', self.code.to_owned()),
            (b'M', without_zeros(&self.message)),
        ];
        fields.extend(self.hint.as_ref().map(|hint| (b'H', without_zeros(hint))));
        fields
    }
}

/// A zero would end the text of a message, and what follows would be read as fields.
fn without_zeros(text: &str) -> String {
    text.replace('\0', "\\0")
}

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Self {
        let code = sqlstate(&error);
        match error {
            SqlError::NoTable { table, hint } => {
                let hint = hint.trim_start_matches([';', ',', ' ']).to_owned();
                let fault = Self::new(code, format!("table '{table}' not found"));
                match hint.is_empty() {
                    true => fault,
                    false => fault.with_hint(hint),
                }
            }
            error => Self::new(code, error.to_string()),
        }
    }
}

/// PostgreSQL's code for an error: SQLSTATE.
pub fn sqlstate(error: &SqlError) -> &'static str {
    if let SqlError::Change(error) = error {
        return error.sqlstate();
    }
    // A number that its column cannot hold.
    if let SqlError::Insert(InsertError::Value { value, .. }) = error
        && value.parse::<f64>().is_ok()
    {
        return "22003";
    }
    match error.kind() {
        ErrorKind::Syntax => "42601",
        ErrorKind::NoTable => "42P01",
        ErrorKind::NoColumn => "42703",
        ErrorKind::AmbiguousColumn => "42702",
        ErrorKind::NoFunction => "42883",
        ErrorKind::TableExists => "42P07",
        ErrorKind::Definition => "42P16",
        ErrorKind::Setting => "22023",
        ErrorKind::Type => "42804",
        ErrorKind::Value => "22P02",
        ErrorKind::OutOfRange => "22003",
        ErrorKind::DivisionByZero => "22012",
        ErrorKind::DuplicateKey => "23505",
        ErrorKind::Null => "23502",
        ErrorKind::Conflict => "40001",
        ErrorKind::RowTwice => "21000",
        ErrorKind::Transaction => "25000",
        ErrorKind::TransactionFailed => "25P02",
        ErrorKind::NoSavepoint => "3B001",
        ErrorKind::Prepared => "26000",
        ErrorKind::PlanOutOfDate => "0A000",
        ErrorKind::Memory => "53200",
        ErrorKind::ReadOnly => "25006",
        ErrorKind::Denied => "42501",
        ErrorKind::Cancelled => "57014",
        ErrorKind::Unsupported => "0A000",
        ErrorKind::Limit => "54000",
        ErrorKind::Storage => "58030",
        ErrorKind::DiskFull => "53100",
        ErrorKind::Query => "42000",
        ErrorKind::Defect => "XX000",
        // A kind that this crate does not know yet.
        _ => "XX000",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_field() {
        let fault = Fault::new("22P02", "a\0SFATAL").with_hint("b\0");
        assert!(fault.fields().iter().all(|(_, text)| !text.contains('\0')));
    }

    #[test]
    fn a_suggestion_is_a_hint() {
        let fault = Fault::from(SqlError::NoTable {
            table: "itms".into(),
            hint: "; did you mean 'items'?".into(),
        });
        assert_eq!(
            (fault.code, fault.message.as_str()),
            ("42P01", "table 'itms' not found")
        );
        assert_eq!(fault.hint.as_deref(), Some("did you mean 'items'?"));
    }
}
