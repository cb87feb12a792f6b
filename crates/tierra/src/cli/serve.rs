//! `tierra serve`: serves a database to clients of PostgreSQL, and over HTTP, until Ctrl-C or a signal to terminate.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use clap::Args;
use sd_notify::{NotifyState, notify};
use tierra::sql::SessionOptions;
use tierra_postgres::{Options, Server, Tls, Users};
use tokio::signal::unix::{SignalKind, signal};

use super::{CommandError, open::OpenOptions};

/// The arguments of `tierra serve`.
#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Database directory
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Create the database if there is none
    #[arg(long)]
    create: bool,
    /// Where to listen for clients of PostgreSQL
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5432")]
    postgres: SocketAddr,
    /// Also listen for HTTP: SQL, metrics, and a page for a browser; on 127.0.0.1:7433 unless an address is given
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:7433")]
    http: Option<SocketAddr>,
    /// A name by which HTTP clients may call this machine, besides localhost and addresses; may be repeated
    #[arg(long, value_name = "NAME", requires = "http")]
    http_name: Vec<String>,
    /// File of users, a line of `tierra user` each; without it everybody on this machine may connect, and nobody else
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Certificate for TLS, in PEM format, followed by those that signed it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse connections without TLS
    #[arg(long, requires = "tls_cert")]
    require_tls: bool,
    /// The most connections at a time, of each protocol
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,
    /// Let statements name files and directories of this machine: FROM 'file', COPY TO 'file', CREATE TIER, BACKUP DATABASE
    #[arg(long)]
    allow_files: bool,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) async fn run(arguments: &ServeArguments) -> Result<(), CommandError> {
    let users = arguments.users.as_deref().map(Users::read).transpose()?;
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate, key)?),
        _ => None,
    };
    let database = match arguments.create {
        true => arguments.open.open_or_create(&arguments.db)?,
        false => arguments.open.open(&arguments.db)?,
    };
    let who = match users {
        Some(_) => "users of the file",
        None => "everybody on this machine",
    };
    let how = match (&tls, arguments.require_tls) {
        (None, _) => "without TLS",
        (Some(_), false) => "with TLS if they ask for it",
        (Some(_), true) => "with TLS",
    };
    let connections_most = arguments.max_connections.into();
    let session = SessionOptions {
        refuses_files: !arguments.allow_files,
        ..database.session_options().clone()
    };
    let http = arguments.http.map(|address| {
        let options = tierra_http::Options {
            address,
            names: arguments.http_name.clone(),
            users: users.clone(),
            tls: tls.clone(),
            connections_most,
        };
        tierra_http::Server::bind(options)
    });
    let http = http.transpose()?;
    let has_tls = tls.is_some();
    let options = Options {
        address: arguments.postgres,
        users,
        tls,
        requires_tls: arguments.require_tls,
        connections_most,
        session: session.clone(),
    };
    let server = Server::bind(Arc::clone(database.engine()), options)?;
    let address = server.address().map_err(CommandError::Signal)?;
    let (postgres_handle, http_handle) = (
        server.handle(),
        http.as_ref().map(tierra_http::Server::handle),
    );
    let stop = move || {
        postgres_handle.stop();
        http_handle.iter().for_each(tierra_http::Handle::stop);
    };
    let stop_all = stop.clone();
    let mut interrupted = signal(SignalKind::interrupt()).map_err(CommandError::Signal)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(CommandError::Signal)?;
    tokio::spawn(async move {
        let mut is_stopping = false;
        loop {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
            }
            if is_stopping {
                eprintln!(
                    "error: stopped twice, so ended at once; what was not committed is undone when the database is next opened"
                );
                std::process::exit(130);
            }
            is_stopping = true;
            tell(NotifyState::Stopping);
            eprintln!("stopping: statements that run may end, for a minute at most");
            stop();
        }
    });
    eprintln!("listening for clients of PostgreSQL on {address}, for {who}, {how}");
    // Both protocols are listened for, and clients wait in line until they are served.
    tell(NotifyState::Ready);
    let over_http = async {
        let Some(http) = http else { return Ok(()) };
        let address = http.address()?;
        let (scheme, how) = match has_tls {
            true => ("https", "with TLS"),
            false => ("http", "without TLS"),
        };
        eprintln!("listening for HTTP on {scheme}://{address}, for {who}, {how}");
        let engine = Arc::clone(database.engine());
        http.serve_database(engine, session).await
    };
    // One that cannot be served ends the other.
    let ended = |served: std::io::Result<()>| served.inspect_err(|_| stop_all());
    let (postgres, http) = tokio::join!(async { ended(server.run().await) }, async {
        ended(over_http.await)
    });
    postgres.and(http).map_err(tierra::Error::Threads)?;
    Ok(())
}

/// Tells systemd, if that has started this process, how far it is.
fn tell(state: NotifyState<'_>) {
    if let Err(error) = notify(&[state]) {
        tracing::warn!(%error, "the service manager was not told");
    }
}
