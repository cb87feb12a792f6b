//! MULTI, EXEC, WATCH: several commands with nothing in between, if nothing has changed before.

use super::found_keys::{FoundKeys, fill};
use super::{Call, Command, FAST, Group, NOSCRIPT, Outcome, SKIP_SLOWLOG, UNQUEUED, execute};
use crate::clients::{Piece, TransactionQueue};
use crate::keyspace::{DbId, Found, Key, Keyspace, WINDOW_KEYS};

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::Transactions, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("multi", 1, multi)
        .flags(NOSCRIPT | FAST | UNQUEUED)
        .about(
            "1.2.0",
            "Begins a transaction: commands are queued from here on",
        ),
    of("exec", 1, exec)
        .flags(NOSCRIPT | UNQUEUED | SKIP_SLOWLOG)
        .about("1.2.0", "Executes the commands of a transaction"),
    of("discard", 1, discard)
        .flags(NOSCRIPT | FAST | UNQUEUED)
        .about("2.0.0", "Ends a transaction without executing it"),
    of("watch", -2, watch)
        .flags(NOSCRIPT | FAST | UNQUEUED)
        .keys(1, -1, 1, "RO")
        .about(
            "2.2.0",
            "Lets the next transaction fail if one of these keys changes before it",
        )
        .arguments("key*"),
    of("unwatch", 1, unwatch)
        .flags(NOSCRIPT | FAST)
        .about("2.2.0", "Watches no key any more"),
];

fn multi(call: &mut Call<'_>) -> Outcome {
    if call.client.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.client.queue = Some(TransactionQueue::default());
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_>) -> Outcome {
    let queue = (call.client.queue.take()).ok_or("ERR DISCARD without MULTI")?;
    call.shared.defer_free(queue);
    call.shared
        .watches
        .forget(call.client.id, &mut call.client.watched);
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut Call<'_>) -> Outcome {
    let queue = call.client.queue.take().ok_or("ERR EXEC without MULTI")?;
    let expired = call.client.watched.iter().any(|watched| {
        watched.existed
            && call
                .keyspace
                .db(watched.db)
                .find(&Key::new(&watched.key))
                .is_none()
    });
    let changed = expired || call.shared.watches.has_changed(call.client.id);
    call.shared
        .watches
        .forget(call.client.id, &mut call.client.watched);
    if queue.is_aborted() {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if changed {
        call.shared.defer_free(queue);
        call.reply.null_array();
        return Ok(());
    }
    call.reply.array(queue.len());
    call.client.in_transaction = true;
    for piece in queue.pieces() {
        execute_piece(call, piece);
    }
    call.client.in_transaction = false;
    call.shared.defer_free(queue);
    Ok(())
}

/// Executes the commands of a piece.
fn execute_piece(call: &mut Call<'_>, piece: &Piece) {
    let (mut found, mut found_keys, mut end) = (Vec::new(), 0, 0);
    for at in 0..piece.len() {
        if at == end {
            end = look_up(piece, at, call.keyspace, call.client.db, &mut found);
            found_keys = 0;
        }
        let (args, mut known) = piece.parts(at);
        if known.is_empty() {
            let keys = piece.unknown_keys(at).count();
            known = &found[found_keys..(found_keys + keys).min(found.len())];
            found_keys += known.len();
        }
        let id = piece.id(at);
        let command = call.shared.catalog.get(id).command;
        let (runs, keyspace, client, reply, shared) = (
            call.runs,
            &mut *call.keyspace,
            &mut *call.client,
            &mut *call.reply,
            &mut *call.shared,
        );
        execute::run(
            Call {
                runs,
                command,
                args,
                found_keys: FoundKeys::new(known),
                keyspace,
                client,
                reply,
                shared,
            },
            id,
        );
    }
}

/// Looks up the keys of the commands of a piece from one on, as many as a window takes, and returns where the window ends.
fn look_up(
    piece: &Piece,
    first: usize,
    keyspace: &mut Keyspace,
    db: DbId,
    found: &mut Vec<Found>,
) -> usize {
    let mut group: [&[u8]; WINDOW_KEYS] = [&[]; WINDOW_KEYS];
    let (mut len, mut end) = (0, first);
    while end < piece.len() && len < WINDOW_KEYS {
        len += fill(&mut group[len..], piece.unknown_keys(end));
        end += 1;
    }
    found.clear();
    keyspace.db(db).find_many(&group[..len], found);
    end
}

fn watch(call: &mut Call<'_>) -> Outcome {
    if call.client.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let (db, client) = (call.client.db, call.client.id);
    for index in 1..call.args.len() {
        let key = call.key(index);
        if call.shared.watches.has(db, key.bytes, client) {
            continue;
        }
        let existed = call.db().find(&key).is_some();
        let watched = call.shared.watches.add(db, key.bytes, client, existed);
        call.client.watched.push(watched);
    }
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call<'_>) -> Outcome {
    call.shared
        .watches
        .forget(call.client.id, &mut call.client.watched);
    call.reply.ok();
    Ok(())
}
