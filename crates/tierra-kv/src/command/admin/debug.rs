//! DEBUG SLEEP, where the configuration allows it.

use super::super::{ADMIN, Call, Command, DANGEROUS, Failure, Group, NOSCRIPT, Outcome};
use super::help::help;
use crate::config::DebugCommand;
use crate::number::parse_double;

const fn of(name: &'static str, arity: i16, run: super::super::Run) -> Command {
    Command::new(name, arity, Group::Server, run).flags(ADMIN | NOSCRIPT | DANGEROUS)
}

pub(super) const DEBUG: Command = Command::container(
    "debug",
    Group::Server,
    &[
        of("sleep", 3, sleep)
            .about("1.0.0", "Does nothing for so many seconds")
            .arguments("seconds:double"),
        of("help", 2, help).about("1.0.0", "What subcommands there are"),
    ],
)
.flags(ADMIN | NOSCRIPT | DANGEROUS)
.about("1.0.0", "For tests");

/// The longest sleep in seconds: the server cannot be woken up.
const SLEEP_MAX_S: f64 = 3600.0;

fn sleep(call: &mut Call<'_>) -> Outcome {
    let allowed = match call.shared.config.enable_debug_command {
        DebugCommand::No => false,
        DebugCommand::Local => call.client.is_local,
        DebugCommand::Yes => true,
    };
    if !allowed {
        return Err("ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.".into());
    }
    let seconds = parse_double(call.arg(2))
        .filter(|seconds| (0.0..=SLEEP_MAX_S).contains(seconds))
        .ok_or(Failure::FLOAT)?;
    std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
    call.reply.ok();
    Ok(())
}
