//! The commands: what each is called, what it takes, and what it does.
//!
//! A [`Command`] is one line of its group's table, and everything that has to be known about commands
//! comes from there: which arguments are keys (so that they can be looked up ahead), how many arguments
//! there may be, what COMMAND tells, whether memory is needed. Semantics, replies and messages are those
//! of Redis 7.0; `docs/kv.md` lists what differs.

mod admin;
mod ahead;
mod arguments;
mod bits;
mod call;
mod connection;
mod dispatch;
mod failure;
mod glob;
mod hashes;
mod keys;
mod options;
mod sorted;
mod strings;
mod table;
mod timeout;
mod transaction;

pub(crate) use ahead::Ahead;
pub(crate) use call::Call;
pub(crate) use dispatch::{held, process};
pub(crate) use failure::{Failure, Outcome};
pub(crate) use glob::matches as glob_matches;
pub(crate) use sorted::Pop;
pub(crate) use table::{Resolved, Table};
pub(crate) use transaction::{Queue, Watched, Watches};

/// Changes what is stored.
pub(crate) const WRITE: u16 = 1;
/// Reads what is stored.
pub(crate) const READONLY: u16 = 1 << 1;
/// Needs memory, and is refused above `maxmemory`.
pub(crate) const DENYOOM: u16 = 1 << 2;
/// For those who look after the server.
pub(crate) const ADMIN: u16 = 1 << 3;
/// Not for scripts.
pub(crate) const NOSCRIPT: u16 = 1 << 4;
/// Takes constant or logarithmic time.
pub(crate) const FAST: u16 = 1 << 5;
/// Allowed without a password.
pub(crate) const NO_AUTH: u16 = 1 << 6;
/// Too dangerous for everyone.
pub(crate) const DANGEROUS: u16 = 1 << 7;
/// Takes as long as its own arguments or reply, which say whether a clock has to be read.
pub(crate) const UNTIMED: u16 = 1 << 8;
/// Runs at once in a transaction instead of being queued.
pub(crate) const UNQUEUED: u16 = 1 << 9;
/// Never noted as slow.
pub(crate) const SKIP_SLOWLOG: u16 = 1 << 10;
/// Not in a transaction.
pub(crate) const NO_MULTI: u16 = 1 << 11;
/// May wait, and what follows it on its connection with it.
pub(crate) const BLOCKING: u16 = 1 << 12;
/// May make wait what follows it on its connection.
pub(crate) const PAUSING: u16 = 1 << 13;

/// What a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    String,
    Bitmap,
    Hash,
    SortedSet,
    Generic,
    Connection,
    Server,
    Transactions,
}

impl Group {
    /// As COMMAND DOCS calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::Hash => "hash",
            Self::SortedSet => "sorted-set",
            Self::Generic => "generic",
            Self::Connection => "connection",
            Self::Server => "server",
            Self::Transactions => "transactions",
        }
    }

    /// As the categories of access control call it.
    pub(crate) fn category(self) -> Option<&'static str> {
        match self {
            Self::String => Some("string"),
            Self::Bitmap => Some("bitmap"),
            Self::Hash => Some("hash"),
            Self::SortedSet => Some("sortedset"),
            Self::Generic => Some("keyspace"),
            Self::Connection => Some("connection"),
            Self::Server => None,
            Self::Transactions => Some("transaction"),
        }
    }
}

/// Which arguments are keys: every `step`th from `first` to `last`, which counts from the end where it is
/// negative. `first` is 0 where there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyArgs {
    pub(crate) first: i8,
    pub(crate) last: i8,
    pub(crate) step: i8,
    /// The argument that says how many more keys follow it; 0 where there is none. These are not looked up ahead.
    pub(crate) counted: u8,
    /// What is done to them, in the words of Redis's key specifications; `;` between keys that differ.
    pub(crate) access: &'static str,
}

impl KeyArgs {
    /// The indices of the keys among `count` arguments, the command's name included.
    #[inline]
    pub(crate) fn indices(&self, count: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
        let last = if self.last < 0 {
            count as i64 + i64::from(self.last)
        } else {
            i64::from(self.last)
        };
        let (first, end) = match self.first {
            0 => (0, 0),
            first => (first as usize, (last + 1).clamp(0, count as i64) as usize),
        };
        (first..end).step_by(self.step.max(1) as usize)
    }
}

/// What a command does.
pub(crate) type Run = fn(&mut Call<'_>) -> Outcome;

/// A command, or a subcommand of one.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// How many arguments it takes with its name; at least so many where negative.
    pub(crate) arity: i16,
    pub(crate) flags: u16,
    pub(crate) group: Group,
    pub(crate) keys: KeyArgs,
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    /// What its arguments are called, in the language of [`arguments`].
    pub(crate) arguments: &'static str,
    pub(crate) run: Run,
    pub(crate) subcommands: &'static [Command],
}

impl Command {
    pub(crate) const fn new(name: &'static str, arity: i16, group: Group, run: Run) -> Self {
        let keys = KeyArgs {
            first: 0,
            last: 0,
            step: 0,
            counted: 0,
            access: "",
        };
        Self {
            name,
            arity,
            flags: 0,
            group,
            keys,
            since: "",
            summary: "",
            arguments: "",
            run,
            subcommands: &[],
        }
    }

    /// A command that consists of subcommands.
    pub(crate) const fn container(
        name: &'static str,
        group: Group,
        subcommands: &'static [Command],
    ) -> Self {
        let mut command = Self::new(name, -2, group, admin::no_subcommand);
        command.subcommands = subcommands;
        command
    }

    pub(crate) const fn flags(mut self, flags: u16) -> Self {
        self.flags = flags;
        self
    }

    /// Its first argument is a key.
    pub(crate) const fn key(self, access: &'static str) -> Self {
        self.keys(1, 1, 1, access)
    }

    pub(crate) const fn keys(
        mut self,
        first: i8,
        last: i8,
        step: i8,
        access: &'static str,
    ) -> Self {
        self.keys = KeyArgs {
            first,
            last,
            step,
            counted: 0,
            access,
        };
        self
    }

    /// An argument says how many keys follow it. Of several kinds of access the last is theirs.
    pub(crate) const fn counted_keys(mut self, at: u8, access: &'static str) -> Self {
        self.keys.counted = at;
        self.keys.access = access;
        self
    }

    pub(crate) const fn about(mut self, since: &'static str, summary: &'static str) -> Self {
        self.since = since;
        self.summary = summary;
        self
    }

    pub(crate) const fn arguments(mut self, arguments: &'static str) -> Self {
        self.arguments = arguments;
        self
    }

    /// Whether so many arguments, the name included, are right.
    #[inline]
    pub(crate) fn takes(&self, count: usize) -> bool {
        match self.arity {
            at_least if at_least < 0 => count >= usize::from(at_least.unsigned_abs()),
            exactly => count == exactly as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_where_the_table_says() {
        let indices = |first, last, step, count| {
            KeyArgs {
                first,
                last,
                step,
                counted: 0,
                access: "",
            }
            .indices(count)
            .collect::<Vec<_>>()
        };
        assert_eq!(indices(0, 0, 0, 5), []);
        assert_eq!(indices(1, 1, 1, 3), [1]);
        assert_eq!(indices(1, -1, 1, 4), [1, 2, 3]);
        assert_eq!(indices(1, -1, 2, 5), [1, 3]);
        assert_eq!(indices(1, 2, 1, 2), [1]);
        assert_eq!(indices(2, 2, 1, 1), []);
    }
}
