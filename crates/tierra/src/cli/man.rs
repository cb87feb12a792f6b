//! `tierra man`: manual pages, one of `tierra` and one of each command, made of what `--help` says.

use std::io::{Write, stdout};
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use super::{Cli, CommandError, NAME};

/// The arguments of `tierra man`.
#[derive(Args)]
pub(crate) struct ManArguments {
    /// The command whose page is printed; without it, that of tierra
    #[arg(value_name = "COMMAND", value_parser = name_of_command)]
    command: Option<String>,
    /// Write the pages of all commands into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

/// The name of a command.
fn name_of_command(text: &str) -> Result<String, String> {
    match Cli::command().find_subcommand(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!(
            "there is no command of this name: `{NAME} --help` lists them"
        )),
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &ManArguments) -> Result<(), CommandError> {
    // Names of commands are complete once it is built.
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    if let Some(dir) = &arguments.out {
        for command in all.get_subcommands().chain([&all]) {
            let page = page(command);
            let written = page.generate_to(dir);
            written.map_err(|error| {
                CommandError::file("write", dir.join(page.get_filename()), error)
            })?;
        }
        return Ok(());
    }
    let named = arguments.command.as_ref();
    let command = named
        .and_then(|name| all.find_subcommand(name))
        .unwrap_or(&all);
    let mut text = Vec::new();
    let rendered = page(command).render(&mut text);
    let printed = rendered.and_then(|()| stdout().write_all(&text));
    printed.map_err(CommandError::Output)
}

fn page(command: &Command) -> Man {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone());
    man.source(format!("{NAME} {version}")).manual("Tierra")
}
