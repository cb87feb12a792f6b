//! The server: where it may listen, how many connections it takes, and how it stops.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as Listener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tierra_engine::Database;
use tierra_postgres::{Tls, Users};
use tierra_sql::{BlockingThread, SessionOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle as Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::connection::{refuse, serve};
use crate::gate::Gate;
use crate::records::{Records, SharedRecords};
use crate::routes;
use crate::samples;
use crate::shared::Shared;

/// The protocol's name inside TLS.
const PROTOCOL: &[u8] = b"http/1.1";
/// How long requests may go on once the server is to stop.
const FINISH: Duration = Duration::from_secs(60);
/// After an error of accepting, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Where to listen, and for whom.
#[derive(Debug)]
pub struct Options {
    /// Where to listen.
    pub address: SocketAddr,
    /// Names by which clients may call this server, besides `localhost` and addresses.
    pub names: Vec<String>,
    /// Who may connect, by name and password. With `None` everybody may, and the address must be of this machine alone.
    pub users: Option<Users>,
    /// What encrypts connections: with it, none is served without.
    pub tls: Option<Tls>,
    /// The most connections at a time.
    pub connections_most: usize,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Everybody could connect.
    #[error(
        "{0} can be reached from other machines, and there are no users: listen on 127.0.0.1, or give `tierra serve` a file of them with --users"
    )]
    Open(SocketAddr),
    /// Passwords would be sent as they are.
    #[error(
        "{0} can be reached from other machines, and passwords would be sent without TLS: give --tls-cert and --tls-key, or listen on 127.0.0.1"
    )]
    NoTls(SocketAddr),
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
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    options: Options,
    stop: watch::Sender<bool>,
}

/// Stops a server.
#[derive(Clone, Debug)]
pub struct Handle(watch::Sender<bool>);

impl Handle {
    /// Has the server take no more connections, end those that are idle, let the others finish their requests, and return.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// If the address is taken, if everybody in the network could connect, or if passwords would cross it without TLS.
    pub fn bind(options: Options) -> Result<Self, ServeError> {
        let address = options.address;
        if !is_local(address.ip()) {
            if options.users.is_none() {
                return Err(ServeError::Open(address));
            }
            if options.tls.is_none() {
                return Err(ServeError::NoTls(address));
            }
        }
        let listener = Listener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self {
            listener,
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

    /// Serves a database until it is stopped. Queries run on the multi-threaded tokio runtime that this is called on. An operator may
    /// keep a thread of it for as long as a batch takes, so clients are served by threads of their own, and cancelling is.
    ///
    /// # Errors
    /// If these threads cannot be started.
    pub async fn serve_database(
        self,
        database: Arc<Database>,
        session: SessionOptions,
    ) -> io::Result<()> {
        let shared = Arc::new(Shared::new(database, session, Runtime::current()));
        let (sampled, stopping) = (Arc::clone(&shared), self.stop.subscribe());
        let sampling = async move {
            let read = || {
                sampled.copies.ask_in_time(&sampled.database);
                samples::read(&sampled)
            };
            sampled.samples.take_every_second(read, stopping).await;
        };
        self.run(|gate| routes::of_database(shared, gate), sampling)
            .await
    }

    /// Serves the metrics and the page of a server of records.
    ///
    /// # Errors
    /// If there are no threads for it.
    pub async fn serve_records(self, records: impl Records) -> io::Result<()> {
        let shared = Arc::new(SharedRecords::new(records));
        let (sampled, stopping) = (Arc::clone(&shared), self.stop.subscribe());
        let sampling = async move {
            let read = || sampled.records.sample();
            sampled.samples.take_every_second(read, stopping).await;
        };
        self.run(|gate| routes::of_records(shared, gate), sampling)
            .await
    }

    async fn run(
        self,
        routes: impl FnOnce(Arc<Gate>) -> Router,
        background: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let Options {
            names,
            users,
            tls,
            connections_most,
            ..
        } = self.options;
        let clients = Builder::new_multi_thread()
            .thread_name("tierra-http")
            .on_thread_start(BlockingThread::always)
            .enable_all()
            .build()?;
        let accepting = Accepting {
            routes: routes(Arc::new(Gate::new(names, users))),
            tls: tls.map(|tls| TlsAcceptor::from(tls.config_for(PROTOCOL))),
            room: Arc::new(Semaphore::new(connections_most)),
            stopping: self.stop.subscribe(),
        };
        let background = clients.spawn(background);
        let served = clients.spawn(accepting.accept(self.listener)).await;
        background.abort();
        clients.shutdown_background();
        served.map_err(io::Error::other)?
    }
}

/// What new connections get.
struct Accepting {
    routes: Router,
    tls: Option<TlsAcceptor>,
    room: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

impl Accepting {
    async fn accept(mut self, listener: Listener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = self.stopping.wait_for(|stop| *stop) => break,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((socket, _)) => {
                    let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
                        refuse(socket, self.tls.is_some());
                        continue;
                    };
                    let served = handle(
                        socket,
                        self.tls.clone(),
                        self.routes.clone(),
                        self.stopping.clone(),
                    );
                    connections.spawn(async move {
                        let _permit = permit;
                        served.await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        // What goes on after that is dropped with its session, which stops its statement.
        let _ = timeout(FINISH, all).await;
        connections.shutdown().await;
        Ok(())
    }
}

async fn handle(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    routes: Router,
    stopping: watch::Receiver<bool>,
) {
    // Rows are sent in large parts, and answers must not wait for the next ones.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "a socket that is not TCP's");
    }
    if let Err(error) = serve(socket, tls, routes, stopping).await {
        tracing::debug!(%error, "a connection ended");
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
