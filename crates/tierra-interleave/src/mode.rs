//! Modes: what happens between asking for a place in memory and using what lies there.
//!
//! A lookup is written once, generic over [`Mode`], and compiled once per mode; data structures
//! never mention one. A mode is told every address before it is used ([`Mode::issue`]) and is asked
//! again when the lookup is about to use it ([`Mode::arrive`]). The native modes prefetch or do
//! nothing in the first and do nothing in the second. A mode that emulates slower memory decides by
//! address whether a line is far, keeps its completion time as the [`Mode::Ticket`], and waits for
//! it in `arrive`.
//!
//! Invariant: a mode changes when a lookup runs, never what it answers.

use core::fmt;
use core::str::FromStr;

use crate::arch::prefetch_line;

/// Bytes in a cache line, the unit in which memory is asked for.
pub const LINE_BYTES: usize = 64;

/// How the loads of a lookup behave.
pub trait Mode: Copy + Default + 'static {
    /// Whether a lookup gives way to another one between asking for memory and using it.
    const INTERLEAVED: bool;

    /// The mode's name, as results and messages show it.
    const NAME: &'static str;

    /// What a load has to remember from being issued until it arrives.
    type Ticket: Copy + Unpin;

    /// The mode as the lookup of input `index` gets it. Overridden by modes that tell lookups apart;
    /// they answer [`id`](Self::id) with it.
    #[inline(always)]
    fn for_lookup(index: usize) -> Self {
        let _ = index;
        Self::default()
    }

    /// The index that [`for_lookup`](Self::for_lookup) was given, if the mode keeps it.
    #[inline(always)]
    fn id(self) -> Option<usize> {
        None
    }

    /// Asks for the `len_bytes` bytes at `address`. Called once per load, before the bytes are used.
    ///
    /// `len_bytes` is at least 1, and the whole range belongs to one live object.
    fn issue(self, address: *const u8, len_bytes: usize) -> Self::Ticket;

    /// Called when the bytes are about to be used. Returns when they may be.
    fn arrive(self, ticket: Self::Ticket);
}

/// Every load is made where it stands, as a plain loop would make it: the processor alone decides
/// what overlaps. The baseline, and the right choice for a single lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain;

impl Mode for Plain {
    const INTERLEAVED: bool = false;
    const NAME: &'static str = "plain";
    type Ticket = ();

    #[inline(always)]
    fn issue(self, _address: *const u8, _len_bytes: usize) {}

    #[inline(always)]
    fn arrive(self, (): ()) {}
}

/// A load prefetches its lines and gives way; when the lookup's turn comes again they are near.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interleaved;

impl Mode for Interleaved {
    const INTERLEAVED: bool = true;
    const NAME: &'static str = "interleaved";
    type Ticket = ();

    #[inline(always)]
    fn issue(self, address: *const u8, len_bytes: usize) {
        prefetch_line(address);
        // Lines after the first. For a naturally aligned value of at most a line the compiler
        // cannot see that there is none, so `Load` passes 1 where its type proves it.
        let mut offset = LINE_BYTES - address.addr() % LINE_BYTES;
        while offset < len_bytes {
            prefetch_line(address.wrapping_add(offset));
            offset += LINE_BYTES;
        }
    }

    #[inline(always)]
    fn arrive(self, (): ()) {}
}

/// The mode a caller wants, as a value of run time: a setting, a flag, a column of a result.
///
/// It is turned into a [`Mode`] once per group, by [`in_mode!`](crate::in_mode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Execution {
    /// One lookup after the other: [`Plain`].
    Plain,
    /// Lookups take turns at their loads: [`Interleaved`].
    #[default]
    Interleaved,
}

impl Execution {
    /// Every kind of execution, in the order in which results list them.
    pub const ALL: [Execution; 2] = [Execution::Plain, Execution::Interleaved];

    /// The name that `Display` writes and `FromStr` reads.
    pub const fn name(self) -> &'static str {
        match self {
            Execution::Plain => Plain::NAME,
            Execution::Interleaved => Interleaved::NAME,
        }
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Execution {
    type Err = ParseExecutionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Execution::ALL
            .into_iter()
            .find(|execution| execution.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ParseExecutionError { text: text.into() })
    }
}

/// A text that names no [`Execution`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseExecutionError {
    text: Box<str>,
}

impl fmt::Display for ParseExecutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown execution {:?}: expected 'plain' or 'interleaved'",
            self.text
        )
    }
}

impl core::error::Error for ParseExecutionError {}

/// Evaluates an expression with a type name bound to the mode that an [`Execution`] asks for.
///
/// The expression is compiled once per mode, so dispatch costs one branch per group of lookups.
///
/// ```
/// use tierra_interleave::{Cx, Execution, GroupSize, for_each, in_mode};
///
/// let places = [10u64, 20, 30];
/// let mut sum = 0;
/// let execution: Execution = "interleaved".parse()?;
/// in_mode!(execution, M => for_each(
///     GroupSize::DEFAULT,
///     &places,
///     |cx: Cx<M>, place| cx.load(place),
///     |_, value| sum += *value,
/// ));
/// assert_eq!(sum, 60);
/// # Ok::<(), tierra_interleave::ParseExecutionError>(())
/// ```
#[macro_export]
macro_rules! in_mode {
    ($execution:expr, $mode:ident => $body:expr) => {
        match $execution {
            $crate::Execution::Plain => {
                type $mode = $crate::Plain;
                $body
            }
            $crate::Execution::Interleaved => {
                type $mode = $crate::Interleaved;
                $body
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_reads_what_it_writes() {
        for execution in Execution::ALL {
            assert_eq!(execution.to_string().parse(), Ok(execution));
            assert_eq!(execution.name().to_uppercase().parse(), Ok(execution));
        }
    }

    #[test]
    fn unknown_execution_says_what_was_expected() {
        let error = "coroutines".parse::<Execution>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown execution \"coroutines\": expected 'plain' or 'interleaved'"
        );
    }
}
