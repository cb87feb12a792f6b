//! What an object's readers read of it, and what a near copy of it would have saved them.
//!
//! For objects of many lines that many threads read at a time, such as a column's chunk. How much of one is read
//! differs more than how often, so lines are counted, in order and alone; a [`Heat`](super::Heat) of seven bits counts uses of
//! records, which are read whole.
//!
//! Invariant: what is counted is taken once, by whoever settles; readers wait for nobody.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::costs::Costs;
use crate::LINE_BYTES;

/// What was read of an object.
#[derive(Debug, Default)]
pub struct Uses {
    streamed_lines: AtomicU64,
    looked_up_lines: AtomicU64,
    /// The bits of an `f64`, written by one thread.
    saved_ns: AtomicU64,
}

impl Uses {
    /// So many bytes were read in order. Called once for all that a thread reads at a stretch.
    #[inline]
    pub fn streamed(&self, bytes: u64) {
        let lines = bytes.div_ceil(LINE_BYTES as u64);
        // Relaxed, here and below: statistics.
        self.streamed_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// So many lines were read each on its own. Called for some of them, which stand for all ([`sample`]).
    #[inline]
    pub fn looked_up(&self, lines: u64) {
        self.looked_up_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// Nanoseconds that a near copy saves, or would: of old uses less than of new ones, as of the last [`Uses::settle`].
    pub fn saved_ns(&self) -> f64 {
        f64::from_bits(self.saved_ns.load(Ordering::Relaxed))
    }

    /// Whether something was read since it was settled.
    pub fn has_news(&self) -> bool {
        let counts = [&self.streamed_lines, &self.looked_up_lines];
        counts.iter().any(|lines| lines.load(Ordering::Relaxed) > 0)
    }

    /// Takes what was counted into account; of what was known, the part `kept` still counts. One thread does this.
    pub fn settle(&self, kept: f64, costs: &Costs) -> f64 {
        let take = |lines: &AtomicU64| match lines.load(Ordering::Relaxed) {
            0 => 0.0,
            _ => lines.swap(0, Ordering::Relaxed) as f64,
        };
        let streamed_ns = take(&self.streamed_lines) * costs.streamed_ns;
        let looked_up_ns = take(&self.looked_up_lines) * costs.looked_up_ns;
        let saved_ns = self.saved_ns() * kept + streamed_ns + looked_up_ns;
        self.saved_ns.store(saved_ns.to_bits(), Ordering::Relaxed);
        saved_ns
    }
}

/// So many look-ups one that is sampled stands for.
pub const SAMPLED: u64 = 64;

thread_local! {
    /// Look-ups until the next one that is sampled, and the state of the random numbers.
    static NEXT: Cell<(usize, u32)> = const { Cell::new((SAMPLED as usize / 2, 0x9e37_79b9)) };
}

/// Calls `used` with some of the numbers below `count`, one of [`SAMPLED`] on average, at distances that are random, so that no
/// pattern of look-ups escapes. Costs about as much as two additions where it is none.
#[inline]
pub fn sample(count: usize, used: impl FnMut(usize)) {
    let (left, state) = NEXT.get();
    match left >= count {
        true => NEXT.set((left - count, state)),
        false => sample_some(count, used),
    }
}

#[cold]
fn sample_some(count: usize, mut used: impl FnMut(usize)) {
    let (mut at, mut state) = NEXT.get();
    while at < count {
        used(at);
        // Xorshift, Marsaglia 2003.
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        at += 1 + state as usize % (2 * SAMPLED as usize - 1);
    }
    NEXT.set((at - count, state));
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        streamed_ns: 10.0,
        looked_up_ns: 100.0,
        copied_ns: 1.0,
    };

    #[test]
    fn what_is_read_counts_once_and_fades() {
        let uses = Uses::default();
        uses.streamed(640);
        uses.streamed(1);
        uses.looked_up(2);
        assert_eq!(uses.saved_ns(), 0.0);
        assert_eq!(uses.settle(0.5, &COSTS), 11.0 * 10.0 + 2.0 * 100.0);
        assert_eq!(uses.settle(0.5, &COSTS), 155.0);
        uses.looked_up(1);
        assert_eq!(uses.settle(0.5, &COSTS), 177.5);
        assert_eq!(uses.saved_ns(), 177.5);
    }

    #[test]
    fn samples_stand_for_all_however_many_are_asked_for_together() {
        for together in [1, 3, 64, 1000] {
            let mut counts = vec![0u64; together];
            let rounds = 2_000_000 / together;
            for _ in 0..rounds {
                sample(together, |at| counts[at] += SAMPLED);
            }
            let all = counts.iter().sum::<u64>() as f64 / (rounds * together) as f64;
            assert!((all - 1.0).abs() < 0.02, "{together}: {all}");
            let most = counts.iter().max().unwrap();
            assert!(*most as f64 / (rounds as f64) < 3.0, "{together}: {most}");
        }
    }
}
