//! Joins runs: several sources of ordered entries become one run.
//!
//! Invariant: runs are read leaf by leaf, each checked before it is used.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tierra_column::FormatError;

use super::KeyRun;
use super::build::{BuiltRun, RunBuilder};
use super::layout::Entry;

/// Why runs were not joined.
#[derive(Debug)]
pub(crate) enum MergeError {
    /// This run is damaged.
    Damaged(Arc<KeyRun>, FormatError),
    /// The result is no longer needed.
    Interrupted,
}

/// Ordered entries, read some at a time.
struct Source<'a> {
    /// Entries that were read.
    entries: Cow<'a, [Entry]>,
    at: usize,
    /// The run with the remaining entries, and the number of its next leaf.
    run: Option<(Arc<KeyRun>, usize)>,
}

impl Source<'_> {
    /// The next entry; `None` after the last.
    #[inline]
    fn head(&self) -> Option<Entry> {
        self.entries.get(self.at).copied()
    }

    /// Moves to the entry after it.
    #[inline]
    fn advance(&mut self, stop: &AtomicBool) -> Result<(), MergeError> {
        self.at += 1;
        match self.at < self.entries.len() {
            true => Ok(()),
            false => self.refill(stop),
        }
    }

    fn refill(&mut self, stop: &AtomicBool) -> Result<(), MergeError> {
        let Some((run, leaf)) = &mut self.run else {
            return Ok(());
        };
        if stop.load(Ordering::Relaxed) {
            return Err(MergeError::Interrupted);
        }
        let read = run.read_leaf(*leaf, self.entries.to_mut());
        read.map_err(|error| MergeError::Damaged(run.clone(), error))?;
        (self.at, *leaf) = (0, *leaf + 1);
        Ok(())
    }
}

/// One run of all entries of `runs` and of `sorted`. Ends early once `stop` is set.
pub(crate) fn merge(
    runs: &[Arc<KeyRun>],
    sorted: &[Entry],
    stop: &AtomicBool,
) -> Result<BuiltRun, MergeError> {
    merge_without(runs, sorted, |_| false, stop)
}

/// As [`merge`], without the entries of rows of which `goes` says that they go.
pub(crate) fn merge_without(
    runs: &[Arc<KeyRun>],
    sorted: &[Entry],
    goes: impl Fn(u64) -> bool,
    stop: &AtomicBool,
) -> Result<BuiltRun, MergeError> {
    debug_assert!(sorted.is_sorted());
    let mut sources = vec![Source {
        entries: Cow::Borrowed(sorted),
        at: 0,
        run: None,
    }];
    for run in runs {
        let mut source = Source {
            entries: Cow::Owned(Vec::new()),
            at: 0,
            run: Some((run.clone(), 0)),
        };
        source.refill(stop)?;
        sources.push(source);
    }
    let mut builder = RunBuilder::default();
    loop {
        // The source with the least head, and the entry up to which it stays so.
        let (mut least, mut until) = (None, None);
        for source in &mut sources {
            let Some(head) = source.head() else {
                continue;
            };
            match &least {
                Some((_, first)) if *first <= head => {
                    until = Some(until.map_or(head, |until: Entry| until.min(head)));
                }
                _ => {
                    until = least.take().map(|(_, first)| first).or(until);
                    least = Some((source, head));
                }
            }
        }
        let Some((source, _)) = least else {
            return Ok(builder.finish());
        };
        while let Some((normalized_key, row)) = source.head() {
            if until.is_some_and(|until| until < (normalized_key, row)) {
                break;
            }
            if !goes(row) {
                builder.push(normalized_key, row);
            }
            source.advance(stop)?;
        }
    }
}
