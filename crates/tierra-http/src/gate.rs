//! Who may use a server, and by which names it is called.

use tierra_postgres::Users;
use tokio::sync::Semaphore;

/// Passwords that are checked at the same time: each takes a processor for milliseconds.
const CHECKS_MOST: usize = 4;

/// What a request is measured by before anything is done for it.
pub(crate) struct Gate {
    /// Names of this machine besides `localhost` and addresses.
    pub(crate) names: Vec<String>,
    /// Who may do anything, or read; without them everybody on this machine may do anything.
    pub(crate) users: Option<Users>,
    pub(crate) checks: Semaphore,
}

impl Gate {
    pub(crate) fn new(names: Vec<String>, users: Option<Users>) -> Self {
        Self {
            names,
            users,
            checks: Semaphore::new(CHECKS_MOST),
        }
    }
}
