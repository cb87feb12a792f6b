//! Errors as the client sees them: a status, and JSON with PostgreSQL's code where a statement failed.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tierra_postgres::sqlstate;
use tierra_sql::SqlError;

/// An error for the client.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    /// SQLSTATE, if a statement failed.
    code: Option<&'static str>,
    pub(crate) message: String,
}

#[derive(Serialize)]
struct Told<'a> {
    error: ToldError<'a>,
}

#[derive(Serialize)]
struct ToldError<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    message: &'a str,
}

impl Fault {
    /// A request that is wrong by itself.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            code: None,
            message: message.into(),
        }
    }

    /// A statement that failed.
    pub(crate) fn of_statement(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: status_of(code),
            code: Some(code),
            message: message.into(),
        }
    }

    /// The same, of the statement with this number.
    pub(crate) fn in_statement(self, number: usize) -> Self {
        Self {
            message: format!("statement {number}: {}", self.message),
            ..self
        }
    }
}

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Self {
        Self::of_statement(sqlstate(&error), error.to_string())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let error = ToldError {
            code: self.code,
            message: &self.message,
        };
        (self.status, Json(Told { error })).into_response()
    }
}

/// The status for a code: whose fault it is, and whether to try again.
fn status_of(code: &str) -> StatusCode {
    match code {
        "25006" | "42501" => StatusCode::FORBIDDEN,
        // Cancelled: neither wrong nor to be repeated by a machine.
        "57014" => StatusCode::CONFLICT,
        // It stays full until somebody frees it.
        "53100" => StatusCode::INSUFFICIENT_STORAGE,
        _ => match &code[..2] {
            // Constraints, and other sessions that were faster.
            "23" | "40" => StatusCode::CONFLICT,
            "53" => StatusCode::SERVICE_UNAVAILABLE,
            "58" | "XX" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_whose_fault_it_is() {
        for (code, status) in [
            ("42601", 400),
            ("42P01", 400),
            ("23505", 409),
            ("40001", 409),
            ("53200", 503),
            ("53100", 507),
            ("58030", 500),
            ("XX000", 500),
            ("25006", 403),
            ("42501", 403),
            ("57014", 409),
        ] {
            assert_eq!(status_of(code).as_u16(), status, "{code}");
        }
    }
}
