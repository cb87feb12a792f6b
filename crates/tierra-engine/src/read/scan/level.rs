//! Which instructions a cursor's kernels use: those that its reading says, or those that the machine's profile says for what is
//! scanned and for how many threads of the process scan.
//!
//! The choice is a search in a short list. It is made when a cursor begins, and again when as many morsels later the number of
//! threads has changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::available_parallelism;

use tierra_column::bits::{Kernels, Level};
use tierra_memory::Speed;
use tierra_memory::emulation;

use super::shared::Scan;
use crate::calibration::{Operator, Situation};

/// Cursors of the process, each of which is a thread's or a task's.
static CURSORS: AtomicUsize = AtomicUsize::new(0);
/// A bit for each number that one of them has.
static NUMBERS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// The lowest number that no cursor has: those that run at the same time have a mix's rows as it says, whatever ended before.
fn take_number() -> usize {
    // Nothing that holds it panics.
    let mut words = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let place = words.iter().position(|word| *word != u64::MAX);
    let place = place.unwrap_or_else(|| {
        words.push(0);
        words.len() - 1
    });
    let bit = words[place].trailing_ones();
    words[place] |= 1 << bit;
    place * 64 + bit as usize
}

fn give_back_number(number: usize) {
    let mut words = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    words[number / 64] &= !(1 << (number % 64));
}

/// Cores that the process may use.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, usize::from))
}

impl Scan {
    /// The instructions that one of its cursors took last; `None` before there is one.
    pub fn level(&self) -> Option<Level> {
        Level::ALL.get(self.level.load(Ordering::Relaxed)).copied()
    }

    /// The instructions that the machine's profile says for one of its cursors, whose number among the process's `cursors` is
    /// `number`, while `operator` takes most of the time; `None` if it says nothing.
    #[cold]
    pub fn level_for(&self, operator: Operator, number: usize, cursors: usize) -> Option<Level> {
        let profile = self.snapshot.table().storage().calibration.levels();
        if profile.entries().is_empty() {
            return None;
        }
        // Those of the operator: few values of what a select returns are unpacked.
        let mut columns = match operator {
            Operator::Select => Vec::from_iter(self.spec.filters.iter().map(|(column, _)| *column)),
            Operator::Aggregate => Vec::new(),
        };
        // Conditions may also have come to the cursor later.
        if columns.is_empty() {
            columns.clone_from(&self.spec.projection);
        }
        let first = columns.first().copied();
        columns.sort_unstable();
        columns.dedup();
        let is_far = first.is_some_and(|column| {
            let mut segments = self.snapshot.segments().iter();
            segments.any(|segment| segment.speed(column) == Speed::Far)
        });
        let situation = Situation {
            speed: if is_far { Speed::Far } else { Speed::Near },
            far: emulation::current(),
            operator,
            threads: cursors.min(cores()),
            columns: columns.len(),
        };
        Some(profile.mix(&situation)?.level_of(number % cores()))
    }

    fn note_level(&self, level: Level) {
        let place = Level::ALL.iter().position(|other| *other == level);
        self.level
            .store(place.unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}

/// How a cursor comes to its level.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Its number among the cursors: the core that it is taken to run on.
    number: usize,
    /// For how many cursors the level was chosen last; `None`: it is fixed.
    cursors: Option<usize>,
}

impl Chosen {
    /// Of a cursor that begins with these kernels, and whose level is fixed or not.
    pub(super) fn new(scan: &Scan, kernels: Kernels, fixed: Option<Level>) -> Self {
        scan.note_level(kernels.level());
        // Relaxed, here and below: only the speed depends on it.
        CURSORS.fetch_add(1, Ordering::Relaxed);
        Self {
            number: take_number(),
            cursors: fixed.is_none().then_some(0),
        }
    }

    /// Called before a morsel is read: other kernels, if others suit better now.
    #[inline]
    pub(super) fn changed(&mut self, scan: &Scan, is_select: bool) -> Option<Kernels> {
        let now = CURSORS.load(Ordering::Relaxed);
        if self.cursors? == now {
            return None;
        }
        self.cursors = Some(now);
        let operator = match is_select {
            true => Operator::Select,
            false => Operator::Aggregate,
        };
        let kernels = Kernels::at(scan.level_for(operator, self.number, now)?)?;
        scan.note_level(kernels.level());
        Some(kernels)
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        CURSORS.fetch_sub(1, Ordering::Relaxed);
        give_back_number(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_that_run_at_once_have_numbers_of_their_own() {
        // Other tests have cursors, too.
        let taken = Vec::from_iter((0..100).map(|_| take_number()));
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), taken.len());
        taken.into_iter().for_each(give_back_number);
    }
}
