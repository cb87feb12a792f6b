//! From a request to its reply: may it be executed, now or in a transaction, and what came of it.

use super::{
    Call, DENYOOM, Failure, FoundKeys, NO_AUTH, NO_MULTI, READONLY, Run, UNQUEUED, WRITE, execute,
};
use crate::catalog::{Description, ResolvedCommand};
use crate::clients::Client;
use crate::context::{Pause, Shared};
use crate::keyspace::{Found, Keyspace, Room};
use crate::protocol::{Args, Reply};

/// Of an unknown command so many bytes are repeated.
const SHOWN_BYTES: usize = 128;

/// Executes or queues or refuses a request and writes its reply. `runs` says what each command does.
#[expect(clippy::too_many_arguments, reason = "all that a command is given")]
pub(crate) fn process(
    runs: &[Run],
    keyspace: &mut Keyspace,
    shared: &mut Shared,
    client: &mut Client,
    reply: &mut Reply,
    args: Args<'_>,
    resolved: ResolvedCommand,
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
                    execute::run(
                        Call {
                            runs,
                            command,
                            args,
                            found_keys: FoundKeys::new(found),
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
        Err(_) if resolved == ResolvedCommand::Unknown && is_browser(args.at(0)) => {
            client.closing = true
        }
        Err(mut failure) => {
            if let ResolvedCommand::Command(id) = resolved {
                shared.stats.calls[id as usize].rejected += 1;
                if shared.catalog.get(id).command.name == "exec" {
                    failure = give_up(shared, client, &failure);
                }
            }
            if let Some(queue) = &mut client.queue {
                let queued = queue.abort();
                shared.defer_free(queued);
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
    resolved: ResolvedCommand,
) -> Result<(u16, &'static Description), Failure> {
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
    resolved: ResolvedCommand,
) -> Result<(u16, &'static Description), Failure> {
    let id = match resolved {
        ResolvedCommand::Command(id) => id,
        ResolvedCommand::Unknown => return Err(unknown(args)),
        ResolvedCommand::UnknownSubcommand(id) => return Err(unknown_subcommand(shared, id, args)),
    };
    let command = shared.catalog.get(id).command;
    if !command.takes(args.len()) {
        return Err(Failure::arity(&shared.catalog.get(id).full_name));
    }
    if !client.authenticated && shared.is_guarded() && command.flags & NO_AUTH == 0 {
        return Err(Failure::NO_AUTH);
    }
    if command.flags & NO_MULTI != 0 && client.queue.is_some() {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    // The output of MONITOR would come between the replies.
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
    resolved: ResolvedCommand,
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
        shared.defer_free(queue);
    }
    shared.watches.forget(client.id, &mut client.watched);
    let why = why.text();
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    Failure::Owned([b"EXECABORT Transaction discarded because of: ", why].concat())
}

/// Whether the request comes from a web page through a browser: its request does not get to the
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
    let command = shared.catalog.get(id).command;
    if command.name == "debug" {
        return Failure::subcommand(command.name, args.at(1));
    }
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend(Failure::shown(args.at(1)).iter().take(SHOWN_BYTES));
    text.extend_from_slice(format!("'. Try {} HELP.", command.name.to_uppercase()).as_bytes());
    Failure::Owned(text)
}
