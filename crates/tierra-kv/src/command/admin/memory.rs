//! MEMORY: what records take, and where.

use super::super::options::OptionWords;
use super::super::{Call, Command, Group, Outcome, READONLY};
use super::help::help;
use crate::keyspace::{DATABASES, DbId};

const fn of(name: &'static str, arity: i16, run: super::super::Run) -> Command {
    Command::new(name, arity, Group::Server, run)
}

pub(super) const MEMORY: Command = Command::container(
    "memory",
    Group::Server,
    &[
        of("usage", -3, usage)
            .flags(READONLY)
            .keys(2, 2, 1, "RO")
            .about("4.0.0", "How many bytes a key and its value take")
            .arguments("key [SAMPLES count:integer]"),
        of("stats", 2, stats).about("4.0.0", "How many bytes are used for what"),
        of("doctor", 2, doctor).about("4.0.0", "What is wrong with memory"),
        of("purge", 2, purge).about(
            "4.0.0",
            "Gives memory back: it is given back at once anyway",
        ),
        of("help", 2, help).about("4.0.0", "What subcommands there are"),
    ],
)
.about("4.0.0", "What memory is used for");

fn usage(call: &mut Call<'_>) -> Outcome {
    let mut options = OptionWords::new(call.args, 3);
    while options.left() > 0 {
        // Records know their size: how many of their elements are looked at makes no difference.
        if !options.take_with("SAMPLES", 1) {
            return Err(super::super::Failure::SYNTAX);
        }
        if options.integer()? < 0 {
            return Err(super::super::Failure::SYNTAX);
        }
    }
    let key = call.key(2);
    match call.db().peek(&key) {
        Some(entry) => call
            .reply
            .integer(call.keyspace.selected().memory_usage(entry) as i64),
        None => call.reply.null(),
    }
    Ok(())
}

fn stats(call: &mut Call<'_>) -> Outcome {
    let report = call.keyspace.report();
    let used = call.keyspace.used_bytes();
    let keys: usize = (0..DATABASES as DbId)
        .map(|id| call.keyspace.len_of(id))
        .sum();
    let numbers = [
        (
            "peak.allocated",
            call.shared.stats.used_bytes_peak.max(used),
        ),
        ("total.allocated", used),
        ("keys.count", keys as u64),
        ("keys.bytes-per-key", used / keys.max(1) as u64),
        (
            "dataset.bytes",
            report.near.object_bytes + report.far.object_bytes,
        ),
        ("tables.bytes", report.table_bytes),
        ("near.allocated", report.near.object_bytes),
        ("near.held", report.near.held_bytes),
        ("far.allocated", report.far.object_bytes),
        ("far.held", report.far.held_bytes),
    ];
    call.reply.map(numbers.len());
    for (name, number) in numbers {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(number as i64);
    }
    Ok(())
}

fn doctor(call: &mut Call<'_>) -> Outcome {
    let max = call.shared.config.maxmemory;
    let stored = call.keyspace.stored_bytes();
    let text = match stored {
        stored if max > 0 && stored > max => {
            "More memory is used than maxmemory allows: nothing can be added until keys are deleted or expire."
        }
        _ => "Nothing is wrong with memory. INFO memory says how much of each tier is used.",
    };
    call.reply.verbatim(text);
    Ok(())
}

fn purge(call: &mut Call<'_>) -> Outcome {
    call.reply.ok();
    Ok(())
}
