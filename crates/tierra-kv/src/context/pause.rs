//! A pause: requests wait for its end (CLIENT PAUSE).

use std::time::Instant;

/// Requests that are not executed for a while (CLIENT PAUSE).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    pub(super) until: Instant,
    /// Whether all requests wait, and not only those that write.
    pub(crate) everything: bool,
}
