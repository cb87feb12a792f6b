//! From a request to its reply: may it be executed, now or in a transaction, and what came of it.

use std::time::Instant;

use super::{
    Ahead, Call, Command, DENYOOM, Failure, NO_AUTH, NO_MULTI, Outcome, READONLY, Resolved,
    SKIP_SLOWLOG, UNQUEUED, WRITE, admin, sorted,
};
use crate::keyspace::{Found, Keyspace, Room};
use crate::protocol::{Args, Reply};
use crate::server::{Client, Pause, Shared};

/// With more arguments any command may take long.
const MANY_ARGUMENTS: usize = 32;
/// As may one whose reply is longer.
const LONG_REPLY_BYTES: usize = 64 * 1024;
/// Of an unknown command so many bytes are repeated.
const SHOWN_BYTES: usize = 128;

/// Executes or queues or refuses a request and writes its reply.
pub(crate) fn process(
    keyspace: &mut Keyspace,
    shared: &mut Shared,
    client: &mut Client,
    reply: &mut Reply,
    args: Args<'_>,
    resolved: Resolved,
    found: &[Found],
) {
    let before = reply.len();
    match admit(keyspace, shared, client, args, resolved) {
        Ok((id, command)) => {
            client.last_command = Some(id);
            match &mut client.queue {
                Some(queue) if command.flags & UNQUEUED == 0 => {
                    queue.add(id, command, args, found);
                    reply.make_some_room();
                    reply.simple("QUEUED");
                }
                _ => {
                    run(
                        Call {
                            command,
                            args,
                            ahead: Ahead::new(found),
                            keyspace,
                            client,
                            reply,
                            shared,
                        },
                        id,
                    );
                }
            }
        }
        Err(_) if resolved == Resolved::Unknown && is_browser(args.at(0)) => client.closing = true,
        Err(mut failure) => {
            if let Resolved::Command(id) = resolved {
                shared.stats.calls[id as usize].rejected += 1;
                if shared.table.get(id).command.name == "exec" {
                    failure = give_up(shared, client, &failure);
                }
            }
            if let Some(queue) = &mut client.queue {
                let queued = queue.abort();
                shared.leave(queued);
            }
            shared.stats.error(failure.text());
            reply.error(failure.text());
        }
    }
    client.conclude(reply, before);
}

/// The command that a request asks for, if there is one, its arguments are as many as it takes, and the
/// client may have it executed.
#[inline]
fn admit(
    keyspace: &mut Keyspace,
    shared: &mut Shared,
    client: &Client,
    args: Args<'_>,
    resolved: Resolved,
) -> Result<(u16, &'static Command), Failure> {
    let (id, command) = check(shared, client, args, resolved)?;
    // Whatever the command is, as in Redis; one whose room is still being made is executed.
    if shared.make_room(keyspace) == Room::None {
        // What is queued takes memory, whatever it does later.
        let needs_memory = match &client.queue {
            Some(queue) if command.name == "exec" => queue.flags() & DENYOOM != 0,
            Some(_) => command.flags & UNQUEUED == 0,
            None => command.flags & DENYOOM != 0,
        };
        if needs_memory {
            return Err(Failure::MEMORY);
        }
    }
    Ok((id, command))
}

/// The same, whatever memory there is. A function of its own would cost every request a call.
#[inline(always)]
fn check(
    shared: &Shared,
    client: &Client,
    args: Args<'_>,
    resolved: Resolved,
) -> Result<(u16, &'static Command), Failure> {
    let id = match resolved {
        Resolved::Command(id) => id,
        Resolved::Unknown => return Err(unknown(args)),
        Resolved::UnknownSubcommand(id) => return Err(unknown_subcommand(shared, id, args)),
    };
    let command = shared.table.get(id).command;
    if !command.takes(args.len()) {
        return Err(Failure::arity(&shared.table.get(id).full_name));
    }
    if !client.authenticated && shared.is_guarded() && command.flags & NO_AUTH == 0 {
        return Err(Failure::NO_AUTH);
    }
    if command.flags & NO_MULTI != 0 && client.queue.is_some() {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    // What a monitor is told would come between the replies.
    if client.is_monitor && command.flags & (READONLY | WRITE) != 0 {
        return Err(Failure::MONITOR);
    }
    Ok((id, command))
}

/// The number of the command, where it has to wait for the end of a pause. What is refused in any case is so at once, and
/// monitors, which Redis takes for replicas, never wait.
#[cold]
pub(crate) fn held(
    shared: &Shared,
    pause: Pause,
    client: &Client,
    args: Args<'_>,
    resolved: Resolved,
) -> Option<u16> {
    let (id, command) = check(shared, client, args, resolved).ok()?;
    let flags = match &client.queue {
        Some(queue) if command.name == "exec" => queue.flags(),
        _ => command.flags,
    };
    let is_held = !client.is_monitor && (pause.everything || flags & WRITE != 0);
    is_held.then_some(id)
}

/// An EXEC that is refused ends its transaction.
#[cold]
fn give_up(shared: &mut Shared, client: &mut Client, why: &Failure) -> Failure {
    if let Some(queue) = client.queue.take() {
        shared.leave(queue);
    }
    shared.watches.forget(client.id, &mut client.watched);
    let why = why.text();
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    Failure::Owned([b"EXECABORT Transaction discarded because of: ", why].concat())
}

/// Whether it is a web page that talks to us through somebody's browser: its request does not get to the
/// lines after its head, which would be commands.
#[cold]
fn is_browser(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}

#[cold]
fn unknown(args: Args<'_>) -> Failure {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend(Failure::shown(args.at(0)).iter().take(SHOWN_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut shown = Vec::new();
    for arg in args.from(1).iter() {
        if shown.len() >= SHOWN_BYTES {
            break;
        }
        let room = SHOWN_BYTES - shown.len();
        shown.push(b'\'');
        shown.extend(Failure::shown(arg).iter().take(room));
        shown.extend_from_slice(b"' ");
    }
    text.extend(shown);
    Failure::Owned(text)
}

#[cold]
fn unknown_subcommand(shared: &Shared, id: u16, args: Args<'_>) -> Failure {
    let command = shared.table.get(id).command;
    if command.name == "debug" {
        return Failure::subcommand(command.name, args.at(1));
    }
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend(Failure::shown(args.at(1)).iter().take(SHOWN_BYTES));
    text.extend_from_slice(format!("'. Try {} HELP.", command.name.to_uppercase()).as_bytes());
    Failure::Owned(text)
}

/// Executes a command that has been admitted.
#[inline]
pub(super) fn run(mut call: Call<'_>, id: u16) {
    call.reply.make_some_room();
    let written = call.reply.len();
    let has_clock = call.command.flags & call.shared.untimed == 0;
    let outcome = if has_clock || call.args.len() > MANY_ARGUMENTS {
        timed(&mut call, id)
    } else {
        let outcome = (call.command.run)(&mut call);
        if call.reply.len() > written + LONG_REPLY_BYTES {
            // Few were executed since the clock was read.
            let (begun, timed_ns) = (call.shared.clock, call.shared.stats.timed_ns);
            note_time(&mut call, id, begun, timed_ns);
        }
        outcome
    };
    call.shared.stats.commands += 1;
    let calls = &mut call.shared.stats.calls[id as usize];
    calls.calls += 1;
    if let Err(failure) = outcome {
        calls.failed += 1;
        call.shared.stats.error(failure.text());
        // A reply that is followed by an error would be two.
        call.reply.cut(written);
        call.reply.error(failure.text());
    }
    if !call.shared.monitors.is_empty() {
        admin::tell(&mut call);
    }
    if call.shared.blocked.is_stirred() {
        sorted::serve(&mut call);
    }
}

/// Commands that may take long have a clock of their own.
fn timed(call: &mut Call<'_>, id: u16) -> Outcome {
    let (begun, timed_ns) = (Instant::now(), call.shared.stats.timed_ns);
    call.shared.clock = begun;
    let outcome = (call.command.run)(call);
    note_time(call, id, begun, timed_ns);
    outcome
}

/// Notes how long a command took, and that it was slow. `timed_ns` is the time that had been noted when it began: what
/// those of a transaction have noted since is within its own.
fn note_time(call: &mut Call<'_>, id: u16, begun: Instant, timed_ns: u64) {
    call.shared.clock = Instant::now();
    let spent = call.shared.clock.duration_since(begun);
    call.shared.stats.timed_ns = timed_ns + spent.as_nanos() as u64;
    call.shared.stats.calls[id as usize].spent_ns += spent.as_nanos() as u64;
    let slower_than = call.shared.config.slowlog_log_slower_than;
    if slower_than >= 0
        && spent.as_micros() as i64 >= slower_than
        && call.command.flags & SKIP_SLOWLOG == 0
    {
        let (at_s, limit) = (
            call.keyspace.now() / 1000,
            call.shared.config.slowlog_max_len,
        );
        call.shared.slowlog.add(
            call.args,
            call.client,
            at_s,
            spent.as_micros() as u64,
            limit,
        );
    }
}
