//! What the connections of a server share: its options, and who may cancel what.

use std::net::SocketAddr;
use std::sync::Arc;

use tierra_engine::Database;
use tierra_sql::SessionOptions;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use crate::cancel::Cancels;
use crate::tls::Tls;
use crate::users::Users;

/// How to serve.
#[derive(Debug)]
pub struct Options {
    /// Where to listen.
    pub address: SocketAddr,
    /// Who may connect. With `None` everybody may, and the address must be of this machine alone.
    pub users: Option<Users>,
    /// What encrypts connections of clients that ask for it.
    pub tls: Option<Tls>,
    /// Whether clients must ask for it.
    pub requires_tls: bool,
    /// The most connections at a time.
    pub connections_most: usize,
    /// The options of each session.
    pub session: SessionOptions,
}

/// What connections share.
pub(crate) struct Shared {
    pub(crate) database: Arc<Database>,
    pub(crate) options: Options,
    pub(crate) cancels: Arc<Cancels>,
    /// Where queries run.
    pub(crate) queries: Handle,
    /// The connections that may still be opened.
    pub(crate) room: Semaphore,
    /// Becomes `true` when the server is to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}
