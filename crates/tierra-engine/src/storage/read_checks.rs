//! How often readers compare stored bytes with their checksums.
//!
//! ```text
//! first   check before the first read, and again once damage was found anywhere; otherwise trust the bytes
//! every   check before the first read, and after every read before its result is used
//! ```
//! Memory reports an uncorrectable error as a lost page ([`crate::storage::losses`]). Therefore bytes that were right once are
//! trusted by default, until a reader or a scrub pass finds damage ([`crate::storage::verified`]). If bytes may change without a
//! report (memory without ECC, a file that others write to), every read can be checked. The check follows the read: the bytes are
//! in a cache by then, and a change during the read is noticed, too.
//!
//! Near memory is not checked after each read: copies of chunks, chunk headers, dictionaries, the tail.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::storage::revalidation::RevalidationReason;

/// How often reads compare stored bytes with their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyReads {
    /// Before the first read of a block, and again after damage was found anywhere in the database. A change in between that the
    /// memory does not report is found by a scrub pass.
    #[default]
    First,
    /// After each read of a block. A lookup of one cell checks the block that holds it.
    Every,
}

/// A word that is neither `first` nor `every`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither 'first' nor 'every'")]
pub struct ParseVerifyReadsError(String);

impl FromStr for VerifyReads {
    type Err = ParseVerifyReadsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "first" => Ok(Self::First),
            "every" => Ok(Self::Every),
            other => Err(ParseVerifyReadsError(other.to_owned())),
        }
    }
}

impl fmt::Display for VerifyReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first",
            Self::Every => "every",
        })
    }
}

/// The setting of one database, which can be changed while it is open. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ReadChecks(Arc<Choice>);

#[derive(Debug, Default)]
struct Choice {
    every: AtomicBool,
    opened_with_every: AtomicBool,
}

impl ReadChecks {
    /// Sets the checks of reads that begin from now on.
    pub fn set(&self, reads: VerifyReads) {
        let every = reads == VerifyReads::Every;
        if self.0.every.swap(every, Ordering::Relaxed) != every {
            match every {
                true => RevalidationReason::begin(),
                false => RevalidationReason::end(),
            }
        }
    }

    /// Sets the checks with which the database is opened.
    pub(crate) fn open_with(&self, reads: VerifyReads) {
        let every = reads == VerifyReads::Every;
        self.0.opened_with_every.store(every, Ordering::Relaxed);
        self.set(reads);
    }

    /// Restores the setting with which the database was opened.
    pub fn reset(&self) {
        self.set(match self.0.opened_with_every.load(Ordering::Relaxed) {
            true => VerifyReads::Every,
            false => VerifyReads::First,
        });
    }

    /// The current setting.
    pub fn get(&self) -> VerifyReads {
        match self.0.every.load(Ordering::Relaxed) {
            true => VerifyReads::Every,
            false => VerifyReads::First,
        }
    }
}

impl Drop for Choice {
    fn drop(&mut self) {
        if *self.every.get_mut() {
            RevalidationReason::end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for reads in [VerifyReads::First, VerifyReads::Every] {
            assert_eq!(reads.to_string().parse(), Ok(reads));
        }
        assert!("always".parse::<VerifyReads>().is_err());
    }

    #[test]
    fn a_choice_is_of_all_its_clones() {
        let checks = ReadChecks::default();
        assert_eq!(checks.get(), VerifyReads::First);
        checks.clone().set(VerifyReads::Every);
        assert_eq!(checks.get(), VerifyReads::Every);
        assert!(crate::storage::revalidation::needs_revalidation());
        checks.reset();
        assert_eq!(checks.get(), VerifyReads::First);
        checks.open_with(VerifyReads::Every);
        checks.set(VerifyReads::First);
        checks.clone().reset();
        assert_eq!(checks.get(), VerifyReads::Every);
    }
}
