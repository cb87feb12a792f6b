//! LATENCY: no events are recorded, and it says so.

use super::super::{ADMIN, Call, Command, DANGEROUS, Failure, Group, NOSCRIPT, Outcome};
use super::help::help;

const fn of(name: &'static str, arity: i16, run: super::super::Run) -> Command {
    Command::new(name, arity, Group::Server, run).flags(ADMIN | NOSCRIPT | DANGEROUS)
}

pub(super) const LATENCY: Command = Command::container(
    "latency",
    Group::Server,
    &[
        of("latest", 2, nothing).about("2.8.13", "The latest events: none are recorded"),
        of("history", 3, nothing)
            .about("2.8.13", "The events of a kind: none are recorded")
            .arguments("event"),
        of("reset", -2, reset)
            .about("2.8.13", "Forgets events: none are recorded")
            .arguments("[event*]"),
        of("graph", 3, graph)
            .about(
                "2.8.13",
                "A picture of the events of a kind: none are recorded",
            )
            .arguments("event"),
        of("histogram", -2, histogram)
            .about(
                "7.0.0",
                "How often commands took how long: that is not recorded",
            )
            .arguments("[command*]"),
        of("doctor", 2, doctor).about("2.8.13", "What to look at instead"),
        of("help", 2, help).about("2.8.13", "What subcommands there are"),
    ],
)
.about("2.8.13", "Events that took long");

fn nothing(call: &mut Call<'_>) -> Outcome {
    call.reply.array(0);
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(0);
    Ok(())
}

fn graph(call: &mut Call<'_>) -> Outcome {
    let event = Failure::shown(call.arg(2));
    Err(Failure::Owned(
        [b"ERR No samples available for event '", event, b"'"].concat(),
    ))
}

fn histogram(call: &mut Call<'_>) -> Outcome {
    call.reply.map(0);
    Ok(())
}

fn doctor(call: &mut Call<'_>) -> Outcome {
    call.reply.verbatim("Events are not recorded. SLOWLOG GET has the commands that took longest, INFO commandstats the time of all.");
    Ok(())
}
