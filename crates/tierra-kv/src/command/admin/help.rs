//! HELP, which every command with subcommands has.

use super::super::{Call, Failure, Outcome};

/// Lists the subcommands of a container.
pub(in crate::command) fn help(call: &mut Call<'_>) -> Outcome {
    let catalog = &call.shared.catalog;
    let Some(id) = catalog.find(call.arg(0)) else {
        return Err(Failure::SYNTAX);
    };
    let container = catalog.get(id);
    call.reply.array(1 + 2 * container.subcommands.len());
    call.reply.simple(&format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        container.command.name.to_uppercase()
    ));
    for id in container.subcommands.clone() {
        let subcommand = catalog.get(id).command;
        call.reply.simple(&subcommand.name.to_uppercase());
        call.reply.simple(&format!("    {}.", subcommand.summary));
    }
    Ok(())
}
