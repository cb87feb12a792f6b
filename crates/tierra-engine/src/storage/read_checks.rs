//! How often stored bytes are compared with their checksums by who reads them.
//!
//! ```text
//! first   check before the first reading, and again once damage was found anywhere; then read and believe
//! every   check before the first reading, and behind every reading before what was read is believed
//! ```
//! Memory reports what it cannot correct, as a lost page ([`crate::storage::losses`]), so that bytes which were right once are believed by
//! default, until a reader or a scrub pass finds damage ([`crate::storage::verified`]). Where they may change without a report (memory without
//! ECC, a file that others write to), every reading can be checked. That is done behind the reading: the bytes are in a cache by then, and
//! bytes that changed while they were read are noticed, too.
//!
//! Near memory is not checked behind each reading: copies of chunks, chunk headers, dictionaries, the tail.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::storage::revalidation::RevalidationReason;

/// How often stored bytes are compared with their checksums when they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyReads {
    /// Before a block is read first, and again after damage was found anywhere in the database. What changes in between without
    /// the memory saying so is found by a scrub pass.
    #[default]
    First,
    /// Behind each reading of a block. A lookup of one cell checks the block that holds it.
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

/// The choice of one database, which can be changed while it is used. Clones are of the same database.
#[derive(Clone, Debug, Default)]
pub struct ReadChecks(Arc<Choice>);

#[derive(Debug, Default)]
struct Choice {
    every: AtomicBool,
    opened_with_every: AtomicBool,
}

impl ReadChecks {
    /// What readings that begin from now on do.
    pub fn set(&self, reads: VerifyReads) {
        let every = reads == VerifyReads::Every;
        if self.0.every.swap(every, Ordering::Relaxed) != every {
            match every {
                true => RevalidationReason::begin(),
                false => RevalidationReason::end(),
            }
        }
    }

    /// What readings do from when the database is opened.
    pub(crate) fn open_with(&self, reads: VerifyReads) {
        let every = reads == VerifyReads::Every;
        self.0.opened_with_every.store(every, Ordering::Relaxed);
        self.set(reads);
    }

    /// As when the database was opened.
    pub fn reset(&self) {
        self.set(match self.0.opened_with_every.load(Ordering::Relaxed) {
            true => VerifyReads::Every,
            false => VerifyReads::First,
        });
    }

    /// What readings do now.
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
