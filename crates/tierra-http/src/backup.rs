//! `POST /backup`: the database as of one commit, as the bytes of a backup's file.
//!
//! What is sent is a backup only with its end: an error in the middle ends the connection, and the client sees a body that was cut.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde::Deserialize;
use tierra_engine::{BackupOptions, Compression};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fault::Fault;
use crate::guard::User;
use crate::shared::Shared;

/// Bytes that are sent together.
const PART_BYTES: usize = 1 << 20;
/// Parts that are made before they are sent.
const AHEAD: usize = 4;
/// How long a client may take nothing. Meanwhile no space is given back.
const STALLED: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
pub(crate) struct How {
    compression: Option<String>,
}

/// Sends a backup.
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    Extension(user): Extension<User>,
    how: Result<Query<How>, QueryRejection>,
) -> Result<Response, Fault> {
    let wrong = |message: String| Fault::new(StatusCode::BAD_REQUEST, message);
    if user.reads_only {
        let message = "a user who may only read takes no backups";
        return Err(Fault::of_statement("42501", message));
    }
    let Query(how) = how.map_err(|error| wrong(error.body_text()))?;
    let compression: Compression = match how.compression {
        Some(name) => name
            .parse()
            .map_err(|error| wrong(format!("compression: {error}")))?,
        None => Compression::default(),
    };
    let Ok(turn) = Arc::clone(&shared.backup_turn).try_acquire_owned() else {
        let message = "another backup is being sent: try again when it has ended";
        return Err(Fault::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    let (sender, mut parts) = mpsc::channel(AHEAD);
    let (database, runtime) = (Arc::clone(&shared.database), Handle::current());
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut sending = Sending {
            gathered: Vec::with_capacity(PART_BYTES),
            parts: sender,
            runtime,
        };
        let options = BackupOptions {
            compression,
            ..BackupOptions::default()
        };
        if let Err(error) = database.backup_to(&mut sending, &options, |_| {}) {
            tracing::warn!(%error, "a backup was not sent");
            // The client may have gone.
            let _ = sending.send(Err(io::Error::other(error)));
        }
    });
    // Most errors come before it.
    let first = parts.recv().await.unwrap_or_else(|| {
        let why = "the backup ended without a byte: please report it";
        Err(io::Error::other(why))
    });
    let first =
        first.map_err(|error| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let rest = stream::poll_fn(move |context| parts.poll_recv(context));
    let all = stream::once(async { Ok(first) }).chain(rest);
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, Body::from_stream(all)).into_response())
}

/// The way of a backup's bytes to the client.
struct Sending {
    gathered: Vec<u8>,
    parts: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
}

impl Sending {
    fn send(&self, part: io::Result<Bytes>) -> io::Result<()> {
        let sent = self
            .runtime
            .block_on(timeout(STALLED, self.parts.send(part)));
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the client has gone",
            )),
            Err(_) => {
                let why = format!("the client has taken nothing for {} s", STALLED.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        }
    }
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PART_BYTES - self.gathered.len());
        self.gathered.extend_from_slice(&bytes[..len]);
        if self.gathered.len() == PART_BYTES {
            self.flush()?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let next = Vec::with_capacity(PART_BYTES);
        let part = std::mem::replace(&mut self.gathered, next);
        self.send(Ok(part.into()))
    }
}
