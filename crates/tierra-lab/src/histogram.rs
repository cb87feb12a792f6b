//! A histogram of times; a bucket is at most a thirty-second of its times wide.
//!
//! Buckets are linear within each doubling (as in HdrHistogram), so nanoseconds and seconds fit one histogram of 15 KiB, and
//! recording a time is an addition.
//!
//! ```
//! use tierra_lab::histogram::Histogram;
//!
//! let mut times = Histogram::new();
//! (1..=1000).for_each(|time_ns| times.add(time_ns, 1));
//! let median = times.quantile(0.5).unwrap();
//! assert!((500..=516).contains(&median));
//! ```

/// Buckets of a doubling, as bits.
const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
const BUCKETS: usize = STEPS * (u64::BITS - STEP_BITS + 1) as usize;

/// Counts of times.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram {
            buckets: vec![0; BUCKETS].into(),
            count: 0,
        }
    }

    /// Counts a time for that many requests.
    #[inline]
    pub fn add(&mut self, time_ns: u64, requests: u64) {
        self.buckets[bucket(time_ns)] += requests;
        self.count += requests;
    }

    /// Counts what another one has counted, too.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
        self.count += other.count;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time that a part of the requests, 0 to 1, did not exceed, at most a thirty-second too long; `None` if it is empty.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let wanted = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut passed = 0;
        let found = self.buckets.iter().position(|&count| {
            passed += count;
            passed >= wanted
        })?;
        Some(longest(found))
    }
}

fn bucket(time: u64) -> usize {
    match time.checked_ilog2().unwrap_or(0).checked_sub(STEP_BITS) {
        None => time as usize,
        // The leading bit and as many more as there are steps.
        Some(doubling) => (doubling as usize * STEPS) + (time >> doubling) as usize,
    }
}

/// The longest time of a bucket.
fn longest(bucket: usize) -> u64 {
    let doubling = (bucket / STEPS).saturating_sub(1);
    let step = (bucket - doubling * STEPS) as u64;
    step << doubling | ((1 << doubling) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn buckets_are_in_order_and_narrow(time in any::<u64>(), shift in 0u32..64) {
            let time = time >> shift;
            let (at, most) = (bucket(time), longest(bucket(time)));
            prop_assert!(at < BUCKETS);
            prop_assert!(time <= most && most - time <= time >> STEP_BITS);
            prop_assert!(most == u64::MAX || bucket(most + 1) == at + 1);
        }

        #[test]
        fn quantiles_are_those_of_the_times(
            mut times in prop::collection::vec(0u64..1 << 40, 1..200),
            part in 0.0f64..=1.0,
        ) {
            let (mut histogram, mut rest) = (Histogram::new(), Histogram::new());
            let (some, others) = times.split_at(times.len() / 2);
            some.iter().for_each(|&time| histogram.add(time, 1));
            others.iter().for_each(|&time| rest.add(time, 1));
            histogram.merge(&rest);
            times.sort_unstable();
            let at = ((times.len() as f64 * part).ceil() as usize).max(1) - 1;
            let found = histogram.quantile(part).unwrap();
            prop_assert!(found >= times[at] && found - times[at] <= times[at] >> STEP_BITS);
            prop_assert_eq!(histogram.count(), times.len() as u64);
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::new().quantile(0.5), None);
    }
}
