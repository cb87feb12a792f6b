//! `POST /sql`: statements, one after the other in a session of their own, which ends with the request. Several are
//! [one transaction](crate::body).
//!
//! The answer is that of the last statement; rows of others are read and dropped. Its first rows are there before the answer begins, so
//! that most errors have a status of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, USER_AGENT};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::Serialize;
use tierra_sql::{Done, Outcome, Session, SessionOptions, TransactionState};
use tokio::time::timeout;

use crate::answer::{self, Format};
use crate::body::{self, Statements};
use crate::fault::Fault;
use crate::guard::User;
use crate::shared::Shared;
use crate::source::Source;

/// The most bytes of a text.
const TEXT_MOST_BYTES: usize = 16 << 20;
/// How long a client may take to send it.
const TEXT_TIME: Duration = Duration::from_secs(60);
/// The most characters of a client's name that are kept.
const CLIENT_MOST: usize = 100;

/// A statement that has no rows.
#[derive(Serialize)]
struct Confirmed {
    command: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// Runs the statements of the body.
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    Extension(user): Extension<User>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let format = Format::wanted(headers.get_all(ACCEPT))?;
    let text = text(&headers, body).await?;
    let began = Instant::now();
    let options = SessionOptions {
        reads_only: user.reads_only,
        shares_threads: true,
        ..shared.session.clone()
    };
    let session = Session::new(Arc::clone(&shared.database), &options)?;
    let client = headers.get(USER_AGENT).and_then(|name| name.to_str().ok());
    let client: String = client.unwrap_or("http").chars().take(CLIENT_MOST).collect();
    session.set_client(&user.name, &client);
    let reading = Statements::read(&session, &text);
    let mut statements = shared.within(reading).await?;
    drop(text);
    let count = statements.len();
    let Some(last) = count.checked_sub(1) else {
        return Err(Fault::of_statement("42601", "there is no statement"));
    };
    let numbered = |fault: Fault, place: usize| match count {
        1 => fault,
        _ => fault.in_statement(place + 1),
    };
    for place in 0..last {
        let ran = shared.within(run_to_its_end(&session, &mut statements, place));
        ran.await.map_err(|fault| numbered(fault, place))?;
    }
    let ran = shared.within(statements.run(last, &session)).await;
    let outcome = ran.map_err(|fault| numbered(fault, last))?;
    let commits = statements.has_begun;
    if commits && matches!(outcome, Outcome::Done(_)) {
        shared.within(body::commit(&session)).await?;
    }
    // What is not committed is undone with the session, which must not look like success.
    let is_kept = commits || session.transaction() == TransactionState::None;
    if !is_kept {
        let message = "the request ends in a transaction, of which nothing was kept: end it with COMMIT or ROLLBACK";
        return Err(Fault::of_statement("25000", message));
    }
    match outcome {
        Outcome::Done(Done { command, rows }) => Ok(Json(Confirmed {
            command,
            count: rows,
        })
        .into_response()),
        Outcome::Rows(mut rows) => {
            let first = shared.within(rows.next()).await.transpose();
            let first = first.map_err(|error| numbered(error.into(), last))?;
            let source = Source::new(rows, first, began, shared, session, commits);
            answer::of(format, source).await
        }
    }
}

async fn run_to_its_end(
    session: &Session,
    statements: &mut Statements,
    place: usize,
) -> Result<(), Fault> {
    if let Outcome::Rows(mut rows) = statements.run(place, session).await? {
        while let Some(batch) = rows.next().await {
            batch?;
        }
    }
    Ok(())
}

/// The body as text.
async fn text(headers: &HeaderMap, body: Body) -> Result<String, Fault> {
    let too_long = || {
        Fault::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a text has at most {} MiB", TEXT_MOST_BYTES >> 20),
        )
    };
    let announced = headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > TEXT_MOST_BYTES as u64) {
        return Err(too_long());
    }
    let gather = async {
        let (mut body, mut text) = (body.into_data_stream(), Vec::new());
        while let Some(part) = body.next().await {
            let part = part.map_err(|error| {
                let message = format!("the body could not be read: {error}");
                Fault::new(StatusCode::BAD_REQUEST, message)
            })?;
            if text.len() + part.len() > TEXT_MOST_BYTES {
                return Err(too_long());
            }
            text.extend_from_slice(&part);
        }
        Ok(text)
    };
    let text = timeout(TEXT_TIME, gather).await.map_err(|_| {
        let message = format!("the body did not arrive within {} s", TEXT_TIME.as_secs());
        Fault::new(StatusCode::REQUEST_TIMEOUT, message)
    })??;
    String::from_utf8(text).map_err(|_| Fault::of_statement("22021", "the text is not UTF-8"))
}
