//! A panic, of a library or of Tierra, fails its statement and nothing else.
//!
//! Panics of planning, of execution and of the tasks they spawn end at the session's boundary in [`caught`] or
//! [`caught_in_poll`]. The panic becomes an error that names a defect. Its state is dropped as any dropped statement's is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;

use crate::error::SqlError;

/// The result of `work`; a panic is returned as an error.
pub(crate) async fn caught<T>(
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(SqlError::of_panic(panic.as_ref())))
}

/// The result of `poll`; a panic is returned as an error.
pub(crate) fn caught_in_poll<T>(poll: impl FnOnce() -> T) -> Result<T, SqlError> {
    catch_unwind(AssertUnwindSafe(poll)).map_err(|panic| SqlError::of_panic(panic.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_that_says_what_it_said() {
        let panics = async || -> Result<(), SqlError> { panic!("a bound of {}", 3) };
        let error = caught(panics()).await.unwrap_err().to_string();
        assert!(
            error.contains("defect") && error.contains("a bound of 3"),
            "{error}"
        );
        let error = caught_in_poll(|| -> () { panic!("said") }).unwrap_err();
        assert!(matches!(error, SqlError::Defect(text) if text == "said"));
    }

    #[tokio::test]
    async fn so_is_that_of_a_task() {
        let work = || -> Result<(), std::io::Error> { panic!("in a task") };
        let error = crate::sink::blocking(work).await.unwrap_err();
        let error = SqlError::from(error);
        assert!(
            matches!(&error, SqlError::Defect(text) if text == "in a task"),
            "{error}"
        );
    }
}
