//! SLOWLOG: the commands that took longest lately.

use super::super::{ADMIN, Call, Command, DANGEROUS, Failure, Group, Outcome};
use super::help::help;
use crate::number::parse_i64;

/// As many entries are shown where a client does not say how many.
const SHOWN: usize = 10;

const fn of(name: &'static str, arity: i16, run: super::super::Run) -> Command {
    Command::new(name, arity, Group::Server, run).flags(ADMIN | DANGEROUS)
}

pub(super) const SLOWLOG: Command = Command::container(
    "slowlog",
    Group::Server,
    &[
        of("get", -2, get)
            .about("2.2.12", "The commands that took longest lately")
            .arguments("[count:integer]"),
        of("len", 2, len).about("2.2.12", "How many there are"),
        of("reset", 2, reset).about("2.2.12", "Forgets them"),
        of("help", 2, help).about("6.2.0", "What subcommands there are"),
    ],
)
.about("2.2.12", "The commands that took longest lately");

fn get(call: &mut Call<'_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(Failure::subcommand("slowlog", call.arg(1)));
    }
    let count = match call.args.get(2) {
        None => SHOWN,
        Some(text) => {
            let count = parse_i64(text)
                .filter(|&count| count >= -1)
                .ok_or("ERR count should be greater than or equal to -1")?;
            usize::try_from(count).unwrap_or(usize::MAX)
        }
    };
    let entries = call.shared.slowlog.entries().take(count);
    call.reply.array(entries.len());
    for slow in entries {
        call.reply.array(6);
        call.reply.integer(slow.id as i64);
        call.reply.integer(slow.at_s as i64);
        call.reply.integer(slow.spent_us as i64);
        call.reply.array(slow.args.len());
        slow.args.iter().for_each(|arg| call.reply.bulk(arg));
        call.reply.bulk(slow.address.as_bytes());
        call.reply.bulk(&slow.name);
    }
    Ok(())
}

fn len(call: &mut Call<'_>) -> Outcome {
    call.reply
        .integer(call.shared.slowlog.entries().len() as i64);
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Outcome {
    call.shared.slowlog.clear();
    call.reply.ok();
    Ok(())
}
