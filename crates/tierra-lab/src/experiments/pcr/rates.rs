//! How many values a second operators read of one column under several policies, which take turns.

use std::time::Duration;

use tierra_memory::emulation::FarMemory;

use super::data::{Distribution, Store, array};
use super::operators::{Expected, Operator, Stored};
use super::policy::Policy;
use crate::error::LabError;
use crate::lab;
use crate::replicas::emulating;
use crate::row::Row;
use crate::turns::samples;

/// The key of the rate.
pub(super) const RATE: &str = "values_per_s";

/// What is read, and how often.
pub(super) struct Rates {
    /// The contenders.
    pub(super) policies: Vec<Policy>,
    /// Values of a column.
    pub(super) values: usize,
    /// Positions that each thread projects.
    pub(super) positions: usize,
    pub(super) rounds: usize,
    /// The time of a sample.
    pub(super) lasts: Duration,
}

impl Rates {
    /// A column's values, and the answers.
    pub(super) fn expected(&self, distribution: Distribution) -> Expected {
        let values = distribution.values(self.values);
        Expected::new(distribution, values, lab::threads(), self.positions)
    }

    /// The column in a table for each policy.
    pub(super) fn store<'a>(
        &self,
        store: &Store,
        expected: &'a Expected,
    ) -> Result<Vec<Stored<'a>>, LabError> {
        let values = array(&expected.values);
        let tables = self
            .policies
            .iter()
            .map(|policy| store.filled(&policy.to_string(), policy, &values));
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        drop(values);
        store.settle()?;
        let stored = tables
            .iter()
            .map(|table| Stored::new(table.snapshot(), expected));
        stored.collect()
    }

    /// The samples of each policy, while that memory is emulated and the engine has chosen the copies for it: values a second of all
    /// threads.
    pub(super) fn measure(
        &self,
        store: &Store,
        stored: &mut [Stored<'_>],
        operator: Operator,
        threads: usize,
        far: Option<FarMemory>,
    ) -> Result<Vec<Vec<u64>>, LabError> {
        emulating(far, || {
            store.choose_replicas()?;
            stored.iter_mut().for_each(Stored::follow_choice);
            self.take_turns(stored, operator, threads)
        })
    }

    /// The samples of columns as they are read now.
    pub(super) fn take_turns(
        &self,
        stored: &[Stored<'_>],
        operator: Operator,
        threads: usize,
    ) -> Result<Vec<Vec<u64>>, LabError> {
        samples(stored.len(), self.rounds, |turn| {
            let rate = stored[turn.contender].rate(operator, threads, self.lasts)?;
            Ok(rate as u64)
        })
    }

    /// The experiment's parameters.
    pub(super) fn parameters(&self) -> Row {
        Row::new()
            .count("values", self.values as u64)
            .count("positions_of_a_thread", self.positions as u64)
            .count("rounds", self.rounds as u64)
            .count("lasts_ms", self.lasts.as_millis() as u64)
    }
}
