//! Answers that are made part by part, as fast as the client reads.

use axum::body::Body;
use bytes::Bytes;
use futures::stream;

use crate::fault::Fault;

/// An answer that is made part by part.
pub(super) trait Parts: Send + Sized + 'static {
    /// The next part; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Fault>> + Send;
}

/// A body of parts. After an error it ends without its last chunk, so that no client takes what there is for all.
pub(super) fn body_of(parts: impl Parts) -> Body {
    let stream = stream::try_unfold(parts, |mut parts| async move {
        match parts.next().await {
            Ok(part) => Ok(part.map(|part| (part, parts))),
            Err(fault) => {
                tracing::info!(error = fault.message, "an answer was broken off");
                Err(std::io::Error::other(fault.message))
            }
        }
    });
    Body::from_stream(stream)
}
