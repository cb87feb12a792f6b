//! The lookups of one statement: how they are to run, and what they have done so far.
//!
//! A statement looks into several structures: an index by key, dictionaries, the chunks that hold a
//! row. Each structure keeps a [`Gate`] of its own, because the cheaper mode of one says nothing about
//! another. The statement passes its [`Lookups`] down with every call: it says whether gates are asked
//! at all, and counts the lookups.
//!
//! Invariant: every lookup asked for is run exactly once, whatever the scheduling.

use core::fmt;
use core::ops::Range;
use core::str::FromStr;

use crate::arch::ticks;
use crate::gate::{Choice, Gate};
use crate::group_size::GroupSize;
use crate::mode::Execution;
use crate::report::GroupReport;

/// Fewer lookups than this hide little latency behind each other, and tell a gate nothing.
const MIN_GATED: usize = 4;

/// What chooses the mode of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduling {
    /// The gate of what is looked into, by the clock.
    #[default]
    Auto,
    /// The caller: every lookup runs in this mode.
    Fixed(Execution),
}

impl Scheduling {
    /// The name that `Display` writes and `FromStr` reads.
    pub const fn name(self) -> &'static str {
        match self {
            Scheduling::Auto => "auto",
            Scheduling::Fixed(execution) => execution.name(),
        }
    }
}

impl From<Execution> for Scheduling {
    fn from(execution: Execution) -> Self {
        Scheduling::Fixed(execution)
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheduling {
    type Err = ParseSchedulingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.eq_ignore_ascii_case(Scheduling::Auto.name()) {
            return Ok(Scheduling::Auto);
        }
        text.parse()
            .map(Scheduling::Fixed)
            .map_err(|_| ParseSchedulingError { text: text.into() })
    }
}

/// A text that names no [`Scheduling`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSchedulingError {
    text: Box<str>,
}

impl fmt::Display for ParseSchedulingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown execution {:?}: expected 'auto', 'plain' or 'interleaved'",
            self.text
        )
    }
}

impl core::error::Error for ParseSchedulingError {}

/// How a statement's lookups run, and what they have done.
///
/// ```
/// use tierra_interleave::{Cx, Gate, GroupSize, Lookups, Scheduling, for_each, in_mode};
///
/// let places: Vec<u64> = (0..10_000).collect();
/// let gate = Gate::new(GroupSize::DEFAULT); // kept beside `places`
/// let mut lookups = Lookups::new(Scheduling::Auto);
/// let mut sum = 0;
/// lookups.run(&gate, places.len(), |execution, size, part| {
///     in_mode!(execution, M => for_each(
///         size,
///         &places[part.clone()],
///         |cx: Cx<M>, place| cx.load(place),
///         |_, place| sum += *place,
///     ))
/// });
/// assert_eq!(sum, 49_995_000);
/// assert_eq!(lookups.report().lookups, 10_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    scheduling: Scheduling,
    size: Option<GroupSize>,
    report: GroupReport,
}

impl Lookups {
    /// None so far.
    pub fn new(scheduling: impl Into<Scheduling>) -> Self {
        Lookups {
            scheduling: scheduling.into(),
            size: None,
            report: GroupReport::default(),
        }
    }

    /// The same in groups of `size`, whatever their gates would take.
    pub fn in_groups_of(self, size: GroupSize) -> Self {
        Lookups {
            size: Some(size),
            ..self
        }
    }

    /// What chooses their mode.
    pub fn scheduling(&self) -> Scheduling {
        self.scheduling
    }

    /// What they have done.
    pub fn report(&self) -> GroupReport {
        self.report
    }

    /// Runs `count` lookups into the structure that `gate` belongs to. `run_batch` is called with
    /// ranges that cover `0..count` in order, each to be looked up in the given mode.
    #[inline]
    pub fn run(
        &mut self,
        gate: &Gate,
        count: usize,
        mut run_batch: impl FnMut(Execution, GroupSize, Range<usize>) -> GroupReport,
    ) {
        // Called in one place, so that all schedulings run the same code.
        let mut at = 0;
        while at < count {
            let rest = |execution| Choice {
                execution,
                size: gate.size(),
                lookups: count - at,
            };
            let (mut choice, is_gated) = match self.scheduling {
                Scheduling::Fixed(execution) => (rest(execution), false),
                Scheduling::Auto if count < MIN_GATED => (rest(Execution::Plain), false),
                Scheduling::Auto => (gate.choose(), true),
            };
            choice.size = self.size.unwrap_or(choice.size);
            let end = count.min(at.saturating_add(choice.lookups));
            let start = is_gated.then(ticks);
            self.report += run_batch(choice.execution, choice.size, at..end);
            if let Some(start) = start {
                gate.report(choice, end - at, ticks().saturating_sub(start));
            }
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(scheduling: Scheduling, count: usize) -> (Vec<Range<usize>>, Vec<Execution>) {
        let gate = Gate::new(GroupSize::DEFAULT);
        let (mut ranges, mut executions) = (Vec::new(), Vec::new());
        let mut lookups = Lookups::new(scheduling);
        lookups.run(&gate, count, |execution, size, range| {
            assert_eq!(size, GroupSize::DEFAULT);
            executions.push(execution);
            ranges.push(range.clone());
            GroupReport {
                lookups: range.len() as u64,
                suspensions: 0,
            }
        });
        assert_eq!(lookups.report().lookups, count as u64);
        (ranges, executions)
    }

    #[test]
    fn every_lookup_is_run_once_and_in_order() {
        for scheduling in [Scheduling::Auto, Execution::Plain.into()] {
            for count in [0, 1, MIN_GATED - 1, MIN_GATED, 31, 32, 33, 10_000] {
                let (ranges, _) = ranges(scheduling, count);
                let run: Vec<usize> = ranges.into_iter().flatten().collect();
                assert_eq!(run, (0..count).collect::<Vec<_>>(), "{scheduling} {count}");
            }
        }
    }

    #[test]
    fn a_gate_tries_both_modes_and_a_few_lookups_are_not_worth_asking_it() {
        let (_, executions) = ranges(Scheduling::Auto, 10_000);
        assert!(executions.contains(&Execution::Plain));
        assert!(executions.contains(&Execution::Interleaved));
        assert_eq!(
            ranges(Scheduling::Auto, MIN_GATED - 1).1,
            [Execution::Plain]
        );
        for execution in Execution::ALL {
            assert_eq!(ranges(execution.into(), 10_000).1, [execution]);
        }
    }

    #[test]
    fn a_size_can_be_asked_for() {
        let size = GroupSize::new(7).unwrap();
        for scheduling in [Scheduling::Auto, Execution::Interleaved.into()] {
            let mut lookups = Lookups::new(scheduling).in_groups_of(size);
            lookups.run(&Gate::finding_size(), 10_000, |_, asked, part| {
                assert_eq!(asked, size);
                GroupReport {
                    lookups: part.len() as u64,
                    suspensions: 0,
                }
            });
            assert_eq!(lookups.report().lookups, 10_000);
        }
    }

    #[test]
    fn scheduling_reads_what_it_writes() {
        for scheduling in [
            Scheduling::Auto,
            Execution::Plain.into(),
            Execution::Interleaved.into(),
        ] {
            assert_eq!(scheduling.to_string().parse(), Ok(scheduling));
        }
        assert_eq!(
            "often".parse::<Scheduling>().unwrap_err().to_string(),
            "unknown execution \"often\": expected 'auto', 'plain' or 'interleaved'"
        );
    }
}
