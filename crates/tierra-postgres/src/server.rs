//! The server: who may connect how, how many, and how it stops.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tierra_engine::Database;
use tierra_sql::BlockingThread;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::connection::serve;
use crate::login::login;
use crate::shared::{Options, Shared};
use crate::wire::FAREWELL;

/// How long a client may take to log in.
const LOGIN: Duration = Duration::from_secs(60);
/// Connections that are logging in, beyond those that may be open.
const LOGINS_MORE: usize = 64;
/// How long statements may go on once the server is to stop.
const FINISH: Duration = Duration::from_secs(60);
/// How long a client is not heard of before it is asked whether it is there, and how often and how many times it is asked: one whose
/// machine is gone leaves after two minutes, with its transaction.
const SILENCE: Duration = Duration::from_secs(60);
const ASKED_EACH: Duration = Duration::from_secs(10);
const ASKED_TIMES: u32 = 6;
/// After an error of accepting, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Everybody could connect.
    #[error(
        "{0} can be reached from other machines, and there are no users: give a file of them with --users, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// TLS is required and there is none.
    #[error("TLS is required, and there is no certificate: give one with --tls-cert and --tls-key")]
    NoTls,
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    database: Arc<Database>,
    options: Options,
    stop: watch::Sender<bool>,
}

/// Stops a server.
#[derive(Clone, Debug)]
pub struct Handle(watch::Sender<bool>);

impl Handle {
    /// Has the server take no more connections, end those that are idle, let the others finish their statements, and return.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// If the address is taken, or if everybody in the network could connect.
    pub fn bind(database: Arc<Database>, options: Options) -> Result<Self, ServeError> {
        let address = options.address;
        if options.users.is_none() && !is_local(address.ip()) {
            return Err(ServeError::Open(address));
        }
        if options.requires_tls && options.tls.is_none() {
            return Err(ServeError::NoTls);
        }
        let listener = Listener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self {
            listener,
            database,
            options,
            stop: watch::Sender::new(false),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What stops it.
    pub fn handle(&self) -> Handle {
        Handle(self.stop.clone())
    }

    /// Serves until it is stopped. Queries run on the multi-threaded tokio runtime that this is called on. An operator may keep a
    /// thread of it for as long as a batch takes, so clients are served by threads of their own, and cancelling is.
    ///
    /// # Errors
    /// If these threads cannot be started.
    pub async fn run(self) -> io::Result<()> {
        let queries = Runtime::current();
        let clients = Builder::new_multi_thread()
            .thread_name("tierra-clients")
            .on_thread_start(BlockingThread::always)
            .enable_all()
            .build()?;
        let served = clients.spawn(self.serve(queries)).await;
        clients.shutdown_background();
        served.map_err(io::Error::other)?
    }

    async fn serve(self, queries: Runtime) -> io::Result<()> {
        let listener = TcpListener::from_std(self.listener)?;
        let logins = Arc::new(Semaphore::new(self.options.connections_most + LOGINS_MORE));
        let mut stopping = self.stop.subscribe();
        let shared = Arc::new(Shared {
            room: Semaphore::new(self.options.connections_most),
            database: self.database,
            options: self.options,
            cancels: Arc::default(),
            queries,
            stopping: self.stop.subscribe(),
        });
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopping.wait_for(|stop| *stop) => break,
                Some(ended) = connections.join_next() => {
                    note(ended);
                    continue;
                }
            };
            match accepted {
                Ok((socket, _)) => {
                    // A client that comes when all places are taken is not even asked for its name.
                    let Ok(permit) = Arc::clone(&logins).try_acquire_owned() else {
                        continue;
                    };
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        let _permit = permit;
                        handle(socket, shared).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        drop(listener);
        let all = async {
            while let Some(ended) = connections.join_next().await {
                note(ended);
            }
        };
        tokio::pin!(all);
        if timeout(FINISH, &mut all).await.is_err() {
            shared.cancels.cancel_all();
            // What still hangs is a client that does not read.
            let _ = timeout(FAREWELL, &mut all).await;
        }
        Ok(())
    }
}

/// Tells the log of a connection that ended because of a defect.
fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended because of a defect");
    }
}

async fn handle(socket: TcpStream, shared: Arc<Shared>) {
    // Rows are sent in large parts, and answers must not wait for the next ones.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "a socket that is not TCP's");
    }
    let silence = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(ASKED_EACH)
        .with_retries(ASKED_TIMES);
    if let Err(error) = SockRef::from(&socket).set_tcp_keepalive(&silence) {
        tracing::warn!(%error, "a client that vanishes will not be noticed");
    }
    let mut stopping = shared.stopping.clone();
    let client = tokio::select! {
        client = timeout(LOGIN, login(socket, &shared)) => client,
        _ = stopping.wait_for(|stop| *stop) => return,
    };
    if let Ok(Some(client)) = client {
        serve(client, shared).await;
    }
}

/// Whether only this machine reaches the address.
fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_local() {
        for (text, expected) in [
            ("127.0.0.1", true),
            ("127.3.2.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("192.168.1.1", false),
        ] {
            assert_eq!(is_local(text.parse().unwrap()), expected, "{text}");
        }
    }
}
