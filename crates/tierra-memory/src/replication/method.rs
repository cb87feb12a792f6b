//! How a write reaches the copies: building blocks, and what may be made of them.
//!
//! ```text
//!  [ Prefetch ]        the first line of each replica, while the master is written
//!  master: store       or past the cache, by streaming stores: Master::Streamed
//!  [ Flush ]           Master::Pre
//!  Copy                by stores | by scatter, all replicas at once | by streaming stores |
//!                      by a thread for each replica, which flushes and fences as well
//!  Flush               Waits::Each: a fence behind each | Waits::Once: none
//!  [ Flush ]           Master::Post
//!  Fence               Waits::Once: one for all
//! ```
//! Invariant: every value of these types is a method that keeps every promise; there is no way to say an
//! illegal one. Scattered stores cannot be named where the processor has none ([`Scatter::detect`]).

use std::fmt;

use super::switch::{Situation, Switch};
use crate::arch;

/// When a write waits for what it flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waits {
    /// Behind each copy.
    Each,
    /// Once, behind all of them.
    Once,
}

/// When the master is flushed. A flush that evicts the line makes the copies read it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Master {
    /// Before the replicas are written.
    Pre,
    /// Behind them.
    Post,
    /// Never: it is written past the cache, which the thesis has for replicas only, since PMDK's programs
    /// store to the master themselves. What is read again soon should not be written so.
    Streamed,
}

/// How a thread writes its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerCopy {
    /// By plain stores.
    Stores,
    /// By stores past the cache.
    Streams,
}

/// Leave to use scattered stores: this processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scatter(());

impl Scatter {
    /// `None` where the processor cannot store to eight places by one instruction.
    pub fn detect() -> Option<Scatter> {
        arch::has_scatter().then_some(Scatter(()))
    }
}

/// How bytes get into the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyBy {
    /// Plain stores, replica by replica.
    Stores,
    /// Eight bytes into up to eight replicas by one instruction.
    Scatter(Scatter),
    /// Stores past the cache, which need no flush.
    Streams,
    /// A thread for each replica, while the caller writes the master: for writes so large that waking
    /// threads is nothing. They wait for their own flushes.
    Threads(WorkerCopy),
}

/// One way through the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composition {
    /// When it waits.
    pub waits: Waits,
    /// When the master is flushed.
    pub master: Master,
    /// Whether the replicas' first lines are fetched ahead.
    pub prefetch: bool,
    /// How the replicas are written.
    pub copy: CopyBy,
}

impl Composition {
    /// What PMDK does (algorithm 3.1 of the replication thesis): master, then replica by replica, a fence
    /// behind each.
    pub const BASIC: Composition = Composition {
        waits: Waits::Each,
        master: Master::Pre,
        prefetch: false,
        copy: CopyBy::Stores,
    };

    /// Every composition that this processor can run, those that come to the same once.
    pub fn all() -> Vec<Composition> {
        let mut copies = vec![CopyBy::Stores, CopyBy::Streams];
        copies.extend(Scatter::detect().map(CopyBy::Scatter));
        let mut all = Vec::new();
        for waits in [Waits::Each, Waits::Once] {
            for master in [Master::Pre, Master::Post, Master::Streamed] {
                for prefetch in [false, true] {
                    all.extend(copies.iter().map(|&copy| Composition {
                        waits,
                        master,
                        prefetch,
                        copy,
                    }));
                }
            }
        }
        all.extend(Composition::THREADS);
        all
    }

    /// Those by threads: the master is written meanwhile, so little else is left to choose.
    pub const THREADS: [Composition; 2] = [
        Composition {
            copy: CopyBy::Threads(WorkerCopy::Stores),
            waits: Waits::Once,
            ..Composition::BASIC
        },
        Composition {
            copy: CopyBy::Threads(WorkerCopy::Streams),
            waits: Waits::Once,
            master: Master::Streamed,
            prefetch: false,
        },
    ];
}

/// As the thesis writes them: `SF` a single fence, `SCA` scatter, `MOVNT` replicas past the cache, `PF`
/// prefetch, `POST` the master flushed last, and `NTM` for a master written past the cache.
impl fmt::Display for Composition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = matches!(self.copy, CopyBy::Threads(_));
        let by_threads = CopyBy::Threads(WorkerCopy::Streams);
        let blocks = [
            (threads, "Threads"),
            (!threads && self.waits == Waits::Once, "SF"),
            (matches!(self.copy, CopyBy::Scatter(_)), "SCA"),
            (
                self.copy == CopyBy::Streams || self.copy == by_threads,
                "MOVNT",
            ),
            (self.prefetch, "PF"),
            (self.master == Master::Post, "POST"),
            (self.master == Master::Streamed, "NTM"),
        ];
        let names: Vec<_> = blocks.iter().filter(|block| block.0).collect();
        if names.is_empty() {
            return f.write_str("basic");
        }
        for (index, (_, name)) in names.into_iter().enumerate() {
            write!(f, "{}{name}", if index > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}

/// Which composition a write takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Always the same.
    Always(Composition),
    /// One for writes of up to so many bytes, another for longer ones.
    Threshold {
        /// The longest that counts as short.
        up_to_bytes: u64,
        /// For short writes.
        short: Composition,
        /// For longer ones.
        long: Composition,
    },
    /// What a calibrated decision tree says ([`Profile::switch`](super::Profile::switch)). A program has one
    /// as long as it lives.
    Switched(&'static Switch),
}

impl Method {
    /// The composition for a write of so many bytes in that situation.
    #[inline]
    pub(super) fn composition(
        &self,
        len_bytes: u64,
        situation: impl FnOnce() -> Situation,
    ) -> Composition {
        match *self {
            Method::Always(composition) => composition,
            Method::Threshold {
                up_to_bytes,
                short,
                long,
            } => match len_bytes <= up_to_bytes {
                true => short,
                false => long,
            },
            Method::Switched(switch) => switch.choose(situation()),
        }
    }
}

/// `Trs` a threshold, as the thesis writes it.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Always(composition) => composition.fmt(f),
            Method::Threshold {
                up_to_bytes,
                short,
                long,
            } => write!(f, "Trs({short} up to {up_to_bytes} bytes, {long})"),
            Method::Switched(_) => f.write_str("switched"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_composition_has_a_name_of_its_own() {
        let all = Composition::all();
        let names: HashSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(
            all.len(),
            2 + 12 * if Scatter::detect().is_some() { 3 } else { 2 }
        );
        assert!(all.contains(&Composition::BASIC) && names.contains("basic"));
        assert!(names.contains("SF+PF") && names.contains("SF+MOVNT+POST"));
    }

    #[test]
    fn a_threshold_counts_as_short() {
        let long = Composition {
            copy: CopyBy::Streams,
            ..Composition::BASIC
        };
        let method = Method::Threshold {
            up_to_bytes: 32,
            short: Composition::BASIC,
            long,
        };
        let nobody = || unreachable!("a threshold asks for the length only");
        assert_eq!(method.composition(32, nobody), Composition::BASIC);
        assert_eq!(method.composition(33, nobody), long);
    }
}
