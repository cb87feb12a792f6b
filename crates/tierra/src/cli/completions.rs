//! `tierra completions`: the script by which a shell completes commands and flags.

use std::io::{Write, stdout};

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::{Cli, CommandError, NAME};

/// The arguments of `tierra completions`.
#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(arguments: &CompletionsArguments) -> Result<(), CommandError> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut Cli::command(), NAME, &mut script);
    stdout().write_all(&script).map_err(CommandError::Output)
}
