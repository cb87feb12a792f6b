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

use crate::arch::Scatter;

/// The most replicas beside the master: as many as one scattered store reaches.
pub const MAX_REPLICAS: usize = 8;

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
}
