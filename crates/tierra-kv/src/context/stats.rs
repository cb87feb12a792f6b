//! What is counted: plain numbers of one thread.

use std::collections::BTreeMap;

/// What is known about the calls of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallStats {
    pub(crate) calls: u64,
    /// Nanoseconds; calls too short for a clock of their own have an equal share of their batch's.
    pub(crate) spent_ns: u64,
    /// Calls refused before they were executed.
    pub(crate) rejected: u64,
    /// Calls that ended with an error.
    pub(crate) failed: u64,
}

/// Everything that INFO counts.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) commands: u64,
    pub(crate) connections: u64,
    pub(crate) rejected_connections: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
    pub(crate) changes: u64,
    pub(crate) query_buffer_limit_closed: u64,
    pub(crate) output_buffer_limit_closed: u64,
    pub(crate) ops_per_s: u64,
    pub(crate) input_bytes_per_s: u64,
    pub(crate) output_bytes_per_s: u64,
    pub(crate) used_bytes_peak: u64,
    /// Batches executed, and requests in them: how wide the window is.
    pub(crate) batches: u64,
    /// Nanoseconds of calls that have a clock of their own.
    pub(crate) timed_ns: u64,
    pub(crate) calls: Vec<CallStats>,
    /// How often each first word of an error was replied.
    pub(crate) errors: BTreeMap<String, u64>,
    sampled: (u64, u64, u64),
}

impl Stats {
    pub(crate) fn new(commands: usize) -> Self {
        Self {
            calls: vec![CallStats::default(); commands],
            ..Self::default()
        }
    }

    /// Forgets what CONFIG RESETSTAT forgets.
    pub(crate) fn reset(&mut self) {
        // Batches under way compare it with what it was.
        *self = Self {
            timed_ns: self.timed_ns,
            ..Self::new(self.calls.len())
        };
    }

    /// Counts an error by its first word.
    pub(crate) fn error(&mut self, text: &[u8]) {
        let word = text.split(|&byte| byte == b' ').next().unwrap_or_default();
        let word = String::from_utf8_lossy(word);
        if let Some(count) = self.errors.get_mut(&*word) {
            *count += 1;
        } else if self.errors.len() < 128 {
            self.errors.insert(word.into_owned(), 1);
        }
    }

    /// Notes how much happened since the last call, `elapsed_ms` ago.
    pub(crate) fn sample(&mut self, elapsed_ms: u64) {
        let now = (self.commands, self.input_bytes, self.output_bytes);
        let rate = |now: u64, before: u64| now.saturating_sub(before) * 1000 / elapsed_ms.max(1);
        self.ops_per_s = rate(now.0, self.sampled.0);
        self.input_bytes_per_s = rate(now.1, self.sampled.1);
        self.output_bytes_per_s = rate(now.2, self.sampled.2);
        self.sampled = now;
    }
}
