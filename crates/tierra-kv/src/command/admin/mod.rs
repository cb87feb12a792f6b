//! Commands about the server.

mod client;
mod command;
mod config;
mod debug;
mod help;
mod info;
mod latency;
mod memory;
mod monitor;
mod slowlog;

pub(super) use client::{CLIENT, set_name};
pub(super) use command::COMMAND;
pub(super) use help::help;
pub(super) use monitor::tell;

use super::{Call, Command, FAST, Failure, Group, NO_MULTI, NOSCRIPT, Outcome};

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::Server, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("info", -1, info::info)
        .about("1.0.0", "What there is to know about the server")
        .arguments("[section*]"),
    of("time", 1, time)
        .flags(FAST)
        .about("2.6.0", "What time it is"),
    of("shutdown", -1, shutdown)
        .flags(super::ADMIN | NOSCRIPT | NO_MULTI)
        .about("1.0.0", "Ends the server")
        .arguments("[nosave_save<NOSAVE|SAVE>] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]"),
    config::CONFIG,
    memory::MEMORY,
    slowlog::SLOWLOG,
    latency::LATENCY,
    debug::DEBUG,
    monitor::MONITOR,
    of("role", 1, role).flags(NOSCRIPT | FAST).about(
        "2.8.12",
        "What part the server has in replication: there is none",
    ),
];

/// A master without replicas.
fn role(call: &mut Call<'_>) -> Outcome {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

fn time(call: &mut Call<'_>) -> Outcome {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    call.reply.array(2);
    call.reply.bulk_integer(now.as_secs() as i64);
    call.reply.bulk_integer(i64::from(now.subsec_micros()));
    Ok(())
}

/// NOSAVE and NOW are as good as nothing. SAVE fails, as it does in Redis where nothing can be saved, and with FORCE the
/// server ends nevertheless.
fn shutdown(call: &mut Call<'_>) -> Outcome {
    let (mut save, mut nosave, mut now, mut force, mut abort) = Default::default();
    for option in call.args.from(1).iter() {
        let known = [
            ("SAVE", &mut save),
            ("NOSAVE", &mut nosave),
            ("NOW", &mut now),
            ("FORCE", &mut force),
            ("ABORT", &mut abort),
        ];
        let mut named = known
            .into_iter()
            .filter(|(name, _)| option.eq_ignore_ascii_case(name.as_bytes()));
        let (_, given) = named.next().ok_or(Failure::SYNTAX)?;
        *given = true;
    }
    if (save && nosave) || (abort && (save || nosave || now || force)) {
        return Err(Failure::SYNTAX);
    }
    if abort {
        return Err("ERR No shutdown in progress.".into());
    }
    if save && !force {
        return Err("ERR Errors trying to SHUTDOWN: nothing can be saved, records are in memory alone. SHUTDOWN NOSAVE ends the server and drops them.".into());
    }
    call.shared.stopping = true;
    call.client.closing = true;
    Ok(())
}
