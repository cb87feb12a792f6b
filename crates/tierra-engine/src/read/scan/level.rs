//! Which instructions a cursor's kernels use: those that its reading says, or those that the machine's profile says for what is
//! scanned and for how many threads of the process scan.
//!
//! The choice is a search in a short list. It is made when a cursor begins, and again when as many morsels later the number of
//! threads has changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use tierra_column::bits::{Kernels, Level};
use tierra_memory::Speed;
use tierra_memory::emulation;

use super::shared::Scan;
use crate::calibration::{Operator, Situation};

/// Cursors of the process, each of which is a thread's or a task's.
static CURSORS: AtomicUsize = AtomicUsize::new(0);

impl Scan {
    /// The instructions that one of its cursors took last; `None` before there is one.
    pub fn level(&self) -> Option<Level> {
        Level::ALL.get(self.level.load(Ordering::Relaxed)).copied()
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
    core: usize,
    /// For how many cursors the level was chosen last; `None`: it is fixed.
    cursors: Option<usize>,
}

impl Chosen {
    /// Of a cursor that begins with these kernels, and whose level is fixed or not.
    pub(super) fn new(scan: &Scan, kernels: Kernels, fixed: Option<Level>) -> Self {
        scan.note_level(kernels.level());
        // Relaxed, here and below: only the speed depends on it.
        let core = CURSORS.fetch_add(1, Ordering::Relaxed);
        Self {
            core,
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
        self.choose(scan, is_select, now)
    }

    #[cold]
    fn choose(&self, scan: &Scan, is_select: bool, cursors: usize) -> Option<Kernels> {
        let profile = scan.snapshot.table().storage().calibration.levels();
        if profile.entries().is_empty() {
            return None;
        }
        let cores = available_parallelism().map_or(1, usize::from);
        let filtered = scan.spec.filters.iter().map(|(column, _)| *column);
        let columns = scan.spec.projection.iter().copied().chain(filtered);
        let first = columns.clone().next();
        let is_far = first.is_some_and(|column| {
            let mut segments = scan.snapshot.segments().iter();
            segments.any(|segment| segment.speed(column) == Speed::Far)
        });
        let situation = Situation {
            speed: if is_far { Speed::Far } else { Speed::Near },
            far: emulation::current(),
            operator: match is_select {
                true => Operator::Select,
                false => Operator::Aggregate,
            },
            threads: cursors.min(cores),
            columns: columns.count(),
        };
        let mix = profile.mix(&situation)?;
        let kernels = Kernels::at(mix.level_of(self.core % cores))?;
        scan.note_level(kernels.level());
        Some(kernels)
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        CURSORS.fetch_sub(1, Ordering::Relaxed);
    }
}
