//! `tierra kv`: serves records until Ctrl-C or a signal to terminate.

use clap::Args;
use tierra_kv::{Config, Server};
use tokio::signal::unix::{SignalKind, signal};

use super::kv_records::KvRecords;
use super::{CommandError, password};

/// The most connections of scrapers and browsers.
const SCRAPERS_MOST: usize = 16;

/// The arguments of `tierra kv`.
#[derive(Args)]
#[command(after_help = tierra_kv::settings_help())]
pub(crate) struct KvArguments {
    /// `--config FILE`, and settings: `--port 7000 --near-memory 8gb`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "--NAME VALUE"
    )]
    settings: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(arguments: KvArguments) -> Result<(), CommandError> {
    if let Err(error) = password::hide() {
        tracing::warn!(%error, "the password can be seen among processes: give it in a file, with --config");
    }
    let mut server = Server::bind(Config::from_arguments(arguments.settings)?)?;
    let metrics = server.http().map(|address| {
        tierra_http::Server::bind(tierra_http::Options {
            address,
            names: Vec::new(),
            users: None,
            tls: None,
            connections_most: SCRAPERS_MOST,
        })
    });
    let metrics = metrics.transpose()?;
    let handle = server.handle();
    let mut interrupted = signal(SignalKind::interrupt()).map_err(CommandError::Signal)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(CommandError::Signal)?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
        handle.stop();
    });
    for line in server.announcement() {
        eprintln!("{line}");
    }
    if let Some(metrics) = &metrics {
        let address = metrics.address().map_err(CommandError::Signal)?;
        eprintln!("page and metrics on http://{address}/, for everybody on this machine");
    }
    let metrics = metrics.map(|metrics| {
        let (stop, records) = (metrics.handle(), KvRecords(server.numbers()));
        (stop, tokio::spawn(metrics.serve_records(records)))
    });
    // The server runs its own loop, which must not share a thread with tasks.
    let served = tokio::task::block_in_place(|| server.run());
    if let Some((stop, told)) = metrics {
        stop.stop();
        if let Ok(Err(error)) = told.await {
            tracing::warn!(%error, "metrics were not told");
        }
    }
    served.map_err(CommandError::from)
}
