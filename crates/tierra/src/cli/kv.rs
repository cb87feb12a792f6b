//! `tierra kv`: serves records until Ctrl-C or a signal to terminate.

use clap::Args;
use tierra_kv::{Config, Server};
use tokio::signal::unix::{SignalKind, signal};

use super::{CommandError, password};

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
    // The server runs its own loop, which must not share a thread with tasks.
    tokio::task::block_in_place(|| server.run())?;
    Ok(())
}
