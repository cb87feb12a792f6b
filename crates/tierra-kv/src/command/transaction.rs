//! MULTI, EXEC, WATCH: several commands with nothing in between, if nothing has changed before.

use std::collections::{HashMap, HashSet};

use super::ahead::{Ahead, fill};
use super::{Call, Command, FAST, Group, NOSCRIPT, Outcome, SKIP_SLOWLOG, UNQUEUED, dispatch};
use crate::keyspace::{DbId, Found, Key, Keyspace, WINDOW_KEYS};
use crate::protocol::{Arg, Args};

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

/// A piece takes no more commands once it has so many bytes, or so many commands.
const PIECE_BYTES: usize = 256 * 1024;
const PIECE_COMMANDS: usize = 4096;

/// The commands of a transaction, as they came, in pieces: what is queued is not copied to make room for more, and is freed piece
/// by piece.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pieces: Vec<Piece>,
    bytes: usize,
    /// How many were queued, whether or not they are kept.
    count: usize,
    flags: u16,
    aborted: bool,
}

/// Some of them.
#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    args: Vec<Arg>,
    /// What batches have found of the keys of commands that came in one batch with MULTI.
    found: Vec<Found>,
    commands: Vec<Queued>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    id: u16,
    command: &'static Command,
    /// Where its arguments, and what was found of its keys, end.
    end: usize,
    found_end: usize,
}

impl Queue {
    /// How much memory it takes in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a command, with what was found of its keys if they have been looked up already; not where none will be
    /// executed.
    pub(crate) fn add(
        &mut self,
        id: u16,
        command: &'static Command,
        args: Args<'_>,
        found: &[Found],
    ) {
        if self.aborted {
            return;
        }
        let bytes = args.iter().map(<[u8]>::len).sum::<usize>();
        if !(self.pieces.last()).is_some_and(|piece| piece.takes(bytes)) {
            let mut piece = Piece::default();
            // The first one is small in most transactions.
            if bytes > PIECE_BYTES || !self.pieces.is_empty() {
                piece.bytes.reserve_exact(bytes.max(PIECE_BYTES));
            }
            self.pieces.push(piece);
        }
        let piece = self.pieces.last_mut().expect("there is one now");
        piece.args.reserve(args.len());
        for arg in args.iter() {
            piece.args.push(Arg {
                start: piece.bytes.len() as u32,
                len: arg.len() as u32,
            });
            piece.bytes.extend_from_slice(arg);
        }
        // What a client has sent is within client-query-buffer-limit, which is less.
        debug_assert!(u32::try_from(piece.bytes.len()).is_ok());
        piece.found.extend_from_slice(found);
        piece.commands.push(Queued {
            id,
            command,
            end: piece.args.len(),
            found_end: piece.found.len(),
        });
        self.bytes +=
            bytes + args.len() * size_of::<Arg>() + size_of_val(found) + size_of::<Queued>();
        self.flags |= command.flags;
        self.count += 1;
    }

    /// One of its commands was refused: none will be executed, or kept. What was queued, for the caller to free.
    pub(crate) fn abort(&mut self) -> Queue {
        let aborted = Self {
            count: self.count,
            flags: self.flags,
            aborted: true,
            ..Self::default()
        };
        std::mem::replace(self, aborted)
    }

    /// Frees a piece, but for its bytes, which are returned.
    pub(crate) fn free_piece(&mut self) -> Option<Vec<u8>> {
        self.pieces.pop().map(|piece| piece.bytes)
    }

    /// The flags of any of its commands.
    pub(crate) fn flags(&self) -> u16 {
        self.flags
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

impl Piece {
    /// Whether a command with so many bytes of arguments goes into it.
    fn takes(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= PIECE_BYTES && self.commands.len() < PIECE_COMMANDS
    }

    /// The arguments of a command, and what was found of its keys when it came.
    fn parts(&self, at: usize) -> (Args<'_>, &[Found]) {
        let (first, found_first) = match at.checked_sub(1).map(|before| self.commands[before]) {
            Some(before) => (before.end, before.found_end),
            None => (0, 0),
        };
        let Queued { end, found_end, .. } = self.commands[at];
        (
            Args::new(&self.bytes, &self.args[first..end]),
            &self.found[found_first..found_end],
        )
    }

    /// The keys of a command that nobody has looked up yet.
    fn unknown_keys(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        let (args, found) = self.parts(at);
        let count = if found.is_empty() { args.len() } else { 0 };
        let indices = self.commands[at].command.keys.indices(count);
        indices.map(move |index| args.at(index))
    }

    /// Looks up the keys of commands from one on, as many as a window takes, and tells where the window ends.
    fn look_up(
        &self,
        first: usize,
        keyspace: &mut Keyspace,
        db: DbId,
        found: &mut Vec<Found>,
    ) -> usize {
        let mut group: [&[u8]; WINDOW_KEYS] = [&[]; WINDOW_KEYS];
        let (mut len, mut end) = (0, first);
        while end < self.commands.len() && len < WINDOW_KEYS {
            len += fill(&mut group[len..], self.unknown_keys(end));
            end += 1;
        }
        found.clear();
        keyspace.db(db).find_many(&group[..len], found);
        end
    }
}

/// A key that a client watches.
#[derive(Debug)]
pub(crate) struct Watched {
    db: DbId,
    key: Box<[u8]>,
    existed: bool,
}

/// Who watches which key, and who has seen one change.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    clients: HashMap<Box<[u8]>, Vec<(DbId, u64)>>,
    changed: HashSet<u64>,
}

impl Watches {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(crate) fn changed(&mut self, db: DbId, key: &[u8]) {
        for (of, client) in self.clients.get(key).into_iter().flatten() {
            if *of == db {
                self.changed.insert(*client);
            }
        }
    }

    /// All these keys have changed.
    pub(crate) fn changed_where(&mut self, mut has_changed: impl FnMut(DbId, &[u8]) -> bool) {
        for (key, clients) in &self.clients {
            for (of, client) in clients {
                if has_changed(*of, key) {
                    self.changed.insert(*client);
                }
            }
        }
    }

    /// A client watches none of these any more.
    pub(crate) fn forget(&mut self, client: u64, watched: &mut Vec<Watched>) {
        for watched in watched.drain(..) {
            if let Some(clients) = self.clients.get_mut(&watched.key) {
                clients.retain(|&(_, other)| other != client);
                if clients.is_empty() {
                    self.clients.remove(&watched.key);
                }
            }
        }
        self.changed.remove(&client);
    }
}

fn multi(call: &mut Call<'_>) -> Outcome {
    if call.client.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.client.queue = Some(Queue::default());
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call<'_>) -> Outcome {
    let queue = (call.client.queue.take()).ok_or("ERR DISCARD without MULTI")?;
    call.shared.leave(queue);
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
    let changed = expired || call.shared.watches.changed.contains(&call.client.id);
    call.shared
        .watches
        .forget(call.client.id, &mut call.client.watched);
    if queue.aborted {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if changed {
        call.shared.leave(queue);
        call.reply.null_array();
        return Ok(());
    }
    call.reply.array(queue.len());
    call.client.in_transaction = true;
    for piece in &queue.pieces {
        execute(call, piece);
    }
    call.client.in_transaction = false;
    call.shared.leave(queue);
    Ok(())
}

/// Executes the commands of a piece.
fn execute(call: &mut Call<'_>, piece: &Piece) {
    let (mut found, mut ahead, mut end) = (Vec::new(), 0, 0);
    for (at, &Queued { id, command, .. }) in piece.commands.iter().enumerate() {
        if at == end {
            end = piece.look_up(at, call.keyspace, call.client.db, &mut found);
            ahead = 0;
        }
        let (args, mut known) = piece.parts(at);
        if known.is_empty() {
            let keys = piece.unknown_keys(at).count();
            known = &found[ahead..(ahead + keys).min(found.len())];
            ahead += known.len();
        }
        let (keyspace, client, reply, shared) = (
            &mut *call.keyspace,
            &mut *call.client,
            &mut *call.reply,
            &mut *call.shared,
        );
        dispatch::run(
            Call {
                command,
                args,
                ahead: Ahead::new(known),
                keyspace,
                client,
                reply,
                shared,
            },
            id,
        );
    }
}

fn watch(call: &mut Call<'_>) -> Outcome {
    if call.client.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let (db, client) = (call.client.db, call.client.id);
    for index in 1..call.args.len() {
        let key = call.key(index);
        let watching = call.shared.watches.clients.get(key.bytes);
        if watching.is_some_and(|clients| clients.contains(&(db, client))) {
            continue;
        }
        let existed = call.db().find(&key).is_some();
        call.shared
            .watches
            .clients
            .entry(key.bytes.into())
            .or_default()
            .push((db, client));
        call.client.watched.push(Watched {
            db,
            key: key.bytes.into(),
            existed,
        });
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
