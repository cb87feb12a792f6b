//! `tierra kv`: a server of records, until Ctrl-C or a signal to terminate.

use clap::Args;
use tierra_kv::{Config, Server};
use tokio::signal::unix::{SignalKind, signal};

use super::CommandError;

/// What `tierra kv` takes.
#[derive(Args)]
pub(crate) struct Arguments {
    /// `--config FILE`, and any setting of docs/kv.md as `--NAME VALUE`: `--port 7000 --near-memory 8gb`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "--NAME VALUE"
    )]
    settings: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<(), CommandError> {
    let config = Config::from_arguments(arguments.settings)?;
    let (places, wanted) = (config.unixsocket.clone(), config.maxclients);
    let mut server = Server::bind(config)?;
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
    if server.port() > 0 {
        eprintln!("serving records on port {}", server.port());
    }
    if let Some(path) = places {
        eprintln!("serving records on {}", path.display());
    }
    if server.max_clients() < wanted {
        eprintln!(
            "{} clients at most instead of the {wanted} of maxclients: raise the limit of open files (ulimit -n)",
            server.max_clients()
        );
    }
    // The server has its own loop, which must not share a thread with tasks.
    tokio::task::block_in_place(|| server.run())?;
    Ok(())
}
