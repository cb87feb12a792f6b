//! The commands of a transaction that has begun (MULTI), until EXEC executes them.

use crate::catalog::{Description, KeyArgs};
use crate::keyspace::Found;
use crate::protocol::{Arg, Args};

/// A piece takes no more commands once it has so many bytes, or so many commands.
const PIECE_BYTES: usize = 256 * 1024;
const PIECE_COMMANDS: usize = 4096;

/// The commands of a transaction, as they came, in pieces: what is queued is not copied to make room for more, and is freed piece
/// by piece.
#[derive(Debug, Default)]
pub(crate) struct TransactionQueue {
    pieces: Vec<Piece>,
    bytes: usize,
    /// How many were queued, whether or not they are kept.
    count: usize,
    flags: u16,
    aborted: bool,
}

/// Some of them.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    bytes: Vec<u8>,
    args: Vec<Arg>,
    /// What batches have found of the keys of commands that came in one batch with MULTI.
    found: Vec<Found>,
    commands: Vec<Queued>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    id: u16,
    keys: &'static KeyArgs,
    /// Where its arguments, and what was found of its keys, end.
    end: usize,
    found_end: usize,
}

impl TransactionQueue {
    /// How much memory it takes in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a command, with what was found of its keys if they have been looked up already; not where none will be
    /// executed.
    pub(crate) fn add(
        &mut self,
        id: u16,
        command: &'static Description,
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
            keys: &command.keys,
            end: piece.args.len(),
            found_end: piece.found.len(),
        });
        self.bytes +=
            bytes + args.len() * size_of::<Arg>() + size_of_val(found) + size_of::<Queued>();
        self.flags |= command.flags;
        self.count += 1;
    }

    /// One of its commands was refused: none will be executed, or kept. What was queued, for the caller to free.
    pub(crate) fn abort(&mut self) -> TransactionQueue {
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

    /// Whether one of its commands was refused.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}

impl Piece {
    /// Whether a command with so many bytes of arguments goes into it.
    fn takes(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= PIECE_BYTES && self.commands.len() < PIECE_COMMANDS
    }

    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The number of a command.
    pub(crate) fn id(&self, at: usize) -> u16 {
        self.commands[at].id
    }

    /// The arguments of a command, and what was found of its keys when it came.
    pub(crate) fn parts(&self, at: usize) -> (Args<'_>, &[Found]) {
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

    /// The keys of a command that have not been looked up yet.
    pub(crate) fn unknown_keys(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        let (args, found) = self.parts(at);
        let count = if found.is_empty() { args.len() } else { 0 };
        let indices = self.commands[at].keys.indices(count);
        indices.map(move |index| args.at(index))
    }
}
