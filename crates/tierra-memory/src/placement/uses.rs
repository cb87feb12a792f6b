//! What was read of an object, what a near copy of it would have saved, and the room that one takes.
//!
//! For objects of many lines that many threads read at a time, such as a column's chunk. How much of one is read
//! varies more than how often, so lines are counted, sequential and random ones; a [`Heat`](super::Heat) of seven bits counts uses
//! of records, which are read completely.
//!
//! Invariant: each count is taken once, by the thread that settles; readers never wait.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::costs::Costs;
use crate::LINE_BYTES;

/// After this time a use counts the `e`th part: reads are assumed to continue that went on as long.
const MEAN_LIFETIME: Duration = Duration::from_secs(30);
/// And the `e`th part of what counts as read just now: a round or two of the mover.
const MOMENT: Duration = Duration::from_millis(1500);
/// The ratio of lately to just now, for an object that is read at a constant rate.
pub(super) const MOMENTS: f64 = MEAN_LIFETIME.as_millis() as f64 / MOMENT.as_millis() as f64;
/// How long an object whose copy was taken waits for another one.
const COOLDOWN: Duration = Duration::from_secs(15);

/// What was read of an object.
#[derive(Debug, Default)]
pub struct Uses {
    streamed_lines: AtomicU64,
    looked_up_lines: AtomicU64,
    /// The bits of an `f64` each, written by one thread.
    in_order_ns: AtomicU64,
    alone_ns: AtomicU64,
    just_now_ns: AtomicU64,
    cooldown_s: AtomicU64,
    /// 0: unknown.
    near_bytes: AtomicU64,
}

/// What a near copy of an object saves, or would, as of when it was settled ([`Uses::settle`]).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saved {
    /// Nanoseconds of the last half minute, of old uses less than of new ones: by lines that were read in order.
    pub in_order_ns: f64,
    /// And by those that were looked up.
    pub alone_ns: f64,
    /// Of the last second and a half, by both.
    pub just_now_ns: f64,
    /// Whether its copy was taken in the last quarter of a minute ([`Uses::start_cooldown`]).
    pub is_cooling_down: bool,
}

impl Uses {
    /// As many bytes were read sequentially. Called once for a whole sequential read of a thread.
    #[inline]
    pub fn streamed(&self, bytes: u64) {
        let lines = bytes.div_ceil(LINE_BYTES as u64);
        // Relaxed, here and below: statistics.
        self.streamed_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// As many lines were read at random. Called for a sample of them ([`sample`]).
    #[inline]
    pub fn looked_up(&self, lines: u64) {
        self.looked_up_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// Nanoseconds that a near copy saves, or would: [`Saved::recent_saving_ns`] as of the last [`Uses::settle`].
    pub fn saved_ns(&self) -> f64 {
        value(&self.in_order_ns) + value(&self.alone_ns)
    }

    /// A near copy of it has, or would have, as many bytes: where it is not made of the stored ones as they are.
    pub fn note_near_bytes(&self, bytes: u64) {
        self.near_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The bytes of a near copy, if they were noted.
    pub fn near_bytes(&self) -> Option<u64> {
        Some(self.near_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Its near copy was taken for another object.
    pub fn start_cooldown(&self) {
        set(&self.cooldown_s, COOLDOWN.as_secs_f64());
    }

    /// Whether something was read since it was settled.
    pub fn has_news(&self) -> bool {
        let counts = [&self.streamed_lines, &self.looked_up_lines];
        counts.iter().any(|lines| lines.load(Ordering::Relaxed) > 0)
    }

    /// Takes what was counted into account, `elapsed` after the last call. Called by one thread.
    pub fn settle(&self, elapsed: Duration, costs: &Costs) -> Saved {
        let take = |lines: &AtomicU64| match lines.load(Ordering::Relaxed) {
            0 => 0.0,
            _ => lines.swap(0, Ordering::Relaxed) as f64,
        };
        let in_order_ns = take(&self.streamed_lines) * costs.streamed_ns;
        let alone_ns = take(&self.looked_up_lines) * costs.looked_up_ns;
        let kept = |life: Duration| (-elapsed.as_secs_f64() / life.as_secs_f64()).exp();
        let (kept, kept_now) = (kept(MEAN_LIFETIME), kept(MOMENT));
        let add = |to: &AtomicU64, kept, saved_ns| set(to, value(to) * kept + saved_ns);
        let cooldown_s = (value(&self.cooldown_s) - elapsed.as_secs_f64()).max(0.0);
        Saved {
            in_order_ns: add(&self.in_order_ns, kept, in_order_ns),
            alone_ns: add(&self.alone_ns, kept, alone_ns),
            just_now_ns: add(&self.just_now_ns, kept_now, in_order_ns + alone_ns),
            is_cooling_down: set(&self.cooldown_s, cooldown_s) > 0.0,
        }
    }
}

impl Saved {
    /// Of the last half minute, by both.
    pub fn recent_saving_ns(&self) -> f64 {
        self.in_order_ns + self.alone_ns
    }
}

fn value(bits: &AtomicU64) -> f64 {
    f64::from_bits(bits.load(Ordering::Relaxed))
}

fn set(bits: &AtomicU64, value: f64) -> f64 {
    bits.store(value.to_bits(), Ordering::Relaxed);
    value
}

/// The number of lookups that a sampled one stands for.
pub const SAMPLED: u64 = 64;

thread_local! {
    /// Lookups until the next sampled one, and the state of the random numbers.
    static NEXT: Cell<(usize, u32)> = const { Cell::new((SAMPLED as usize / 2, 0x9e37_79b9)) };
}

/// Calls `used` with some of the numbers below `count`, one of [`SAMPLED`] on average, at random distances, so that no pattern of
/// lookups escapes. Costs about as much as two additions if none is sampled.
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
        let saved = |in_order_ns, alone_ns, just_now_ns| Saved {
            in_order_ns,
            alone_ns,
            just_now_ns,
            is_cooling_down: false,
        };
        let all = saved(110.0, 200.0, 310.0);
        assert_eq!(uses.settle(MEAN_LIFETIME, &COSTS), all);
        let (kept, kept_now) = ((-1.0 / MOMENTS).exp(), (-1.0f64).exp());
        let expected = saved(110.0 * kept, 200.0 * kept, 310.0 * kept_now);
        assert_eq!(uses.settle(MOMENT, &COSTS), expected);
        uses.looked_up(1);
        let now = uses.settle(Duration::ZERO, &COSTS);
        assert_eq!(now.just_now_ns, expected.just_now_ns + 100.0);
        assert_eq!(now.recent_saving_ns(), expected.recent_saving_ns() + 100.0);
        assert_eq!(uses.saved_ns(), now.recent_saving_ns());
    }

    #[test]
    fn an_object_that_lost_its_copy_cools_down() {
        let uses = Uses::default();
        let is_cooling_down = |time| uses.settle(time, &COSTS).is_cooling_down;
        assert!(!is_cooling_down(Duration::ZERO));
        uses.start_cooldown();
        assert!(is_cooling_down(COOLDOWN / 2) && is_cooling_down(COOLDOWN / 4));
        assert!(!is_cooling_down(COOLDOWN / 4) && !is_cooling_down(COOLDOWN));
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
