//! Gates for lookups in memory that may be far, or emulated as far.
//!
//! What a [`Gate`] has measured of real memory is wrong while far memory is emulated, and the other way
//! round. So there are two gates, one for real memory and one for emulated memory. The second restarts when
//! another far memory is emulated than before. Switching emulation off and on keeps the state of both.
//!
//! Invariant: nothing measured under one far memory is used under another. A thread that is within a group
//! when emulation is switched may report that group to the wrong one: a measurement like any other
//! interruption, which a gate survives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tierra_interleave::{Execution, Gate, GroupSize};

use crate::emulation::{self, FarMemory};

/// An earlier measurement of a kind of lookup, with which a gate starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateStart {
    /// The far memory that was emulated, if any.
    pub far: Option<FarMemory>,
    /// How many lookups take turns.
    pub size: GroupSize,
    /// The mode that was cheaper.
    pub first: Execution,
}

/// A gate whose lookups may meet emulated far memory.
///
/// ```
/// use tierra_interleave::{Cx, Lookups, for_each};
/// use tierra_memory::{MemoryGate, in_mode};
///
/// let places: Vec<u64> = (0..10_000).collect();
/// let gate = MemoryGate::default(); // kept beside `places`
/// let (mut lookups, mut sum) = (Lookups::default(), 0);
/// lookups.run(gate.now(), places.len(), |execution, size, part| {
///     in_mode!(execution, M => for_each(
///         size,
///         &places[part],
///         |cx: Cx<M>, place| cx.load(place),
///         |_, place| sum += *place,
///     ))
/// });
/// assert_eq!(sum, 49_995_000);
/// ```
#[derive(Debug)]
pub struct MemoryGate {
    starts: Arc<[GateStart]>,
    native: Gate,
    emulated: Gate,
    /// The number of the far memory that `emulated` has met.
    met: AtomicU32,
}

impl MemoryGate {
    /// A gate that starts with what `starts` say of the memory that it meets, and finds out how many
    /// lookups should take turns where they say nothing.
    pub fn new(starts: Arc<[GateStart]>) -> Self {
        let gate = MemoryGate {
            starts,
            native: Gate::finding_size(),
            emulated: Gate::finding_size(),
            met: AtomicU32::new(0),
        };
        gate.begin(&gate.native, None);
        gate
    }

    /// The gate to ask for the next lookups. Costs a load of a number, unless another far memory is
    /// emulated than before.
    #[inline]
    pub fn now(&self) -> &Gate {
        match emulation::emulated() {
            0 => &self.native,
            number => {
                if self.met.load(Ordering::Relaxed) != number {
                    let (far, number) = emulation::last_emulated();
                    self.meet(far, number);
                }
                &self.emulated
            }
        }
    }

    /// Restarts. Threads that do so at the same time lose a measurement at worst.
    fn meet(&self, far: Option<FarMemory>, number: u32) {
        self.begin(&self.emulated, far);
        self.met.store(number, Ordering::Relaxed);
    }

    fn begin(&self, gate: &Gate, far: Option<FarMemory>) {
        match self.starts.iter().find(|start| start.far == far) {
            Some(start) => gate.restart(Some(start.size), start.first),
            None => gate.restart(None, Execution::Interleaved),
        }
    }
}

impl Default for MemoryGate {
    fn default() -> Self {
        MemoryGate::new(Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(far: Option<FarMemory>, size: usize, first: Execution) -> GateStart {
        GateStart {
            far,
            size: GroupSize::new(size).unwrap(),
            first,
        }
    }

    fn learn(gate: &Gate, ticks_each: [u64; 2]) {
        for _ in 0..100 {
            let choice = gate.choose();
            let each = ticks_each[usize::from(choice.execution == Execution::Interleaved)];
            gate.report(choice, choice.lookups, each * choice.lookups as u64);
        }
    }

    fn seen(gate: &Gate) -> (usize, Execution, Option<f64>) {
        let ticks = gate.ticks_per_lookup(Execution::Plain);
        (gate.size().get(), gate.execution(), ticks)
    }

    #[test]
    fn it_starts_with_what_was_measured_under_the_same_memory_only() {
        use Execution::{Interleaved, Plain};
        let starts = [
            start(None, 24, Plain),
            start(Some(FarMemory::OPTANE), 16, Interleaved),
        ];
        let gate = MemoryGate::new(Arc::new(starts));
        assert_eq!(seen(&gate.native), (24, Plain, None));
        gate.meet(Some(FarMemory::OPTANE), 1);
        assert_eq!(seen(&gate.emulated), (16, Interleaved, None));
        gate.meet(Some(FarMemory::CXL), 2);
        assert_eq!(seen(&gate.emulated), (48, Interleaved, None), "unknown");
    }

    #[test]
    fn what_was_learnt_under_one_memory_is_not_used_under_another() {
        use Execution::{Interleaved, Plain};
        let gate = MemoryGate::default();
        learn(&gate.native, [10, 20]);
        gate.meet(Some(FarMemory::OPTANE), 1);
        assert_eq!(seen(&gate.emulated), (48, Interleaved, None));
        learn(&gate.emulated, [3000, 300]);
        assert_eq!(
            gate.native.execution(),
            Plain,
            "the native one is as it was"
        );
        gate.meet(Some(FarMemory::CXL), 2);
        assert_eq!(seen(&gate.emulated), (48, Interleaved, None));
    }
}
