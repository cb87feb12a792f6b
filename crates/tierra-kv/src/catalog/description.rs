//! What is known of a command beside what it does: how it is called, what it takes, and what kind of command it is.

/// Changes what is stored.
pub(crate) const WRITE: u16 = 1;
/// Reads what is stored.
pub(crate) const READONLY: u16 = 1 << 1;
/// Needs memory, and is refused above `maxmemory`.
pub(crate) const DENYOOM: u16 = 1 << 2;
/// For administrators of the server.
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
    /// No argument is a key.
    pub(crate) const NONE: Self = Self {
        first: 0,
        last: 0,
        step: 0,
        counted: 0,
        access: "",
    };

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

/// A command, or a subcommand of one, as COMMAND reports it.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) name: &'static str,
    /// How many arguments it takes with its name; at least so many where negative.
    pub(crate) arity: i16,
    pub(crate) flags: u16,
    pub(crate) group: Group,
    pub(crate) keys: KeyArgs,
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    /// What its arguments are called, in the language of `command/arguments.rs`.
    pub(crate) arguments: &'static str,
}

impl Description {
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
