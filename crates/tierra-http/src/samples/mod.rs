//! The last hour: numbers of each second, so that a page that is opened late shows what was.
//!
//! ```text
//! samples/mod.rs -- keeps them
//!   database.rs  -- which numbers a database has
//! ```
//!
//! Invariant: a sample is taken once a second whether or not somebody looks, and its time is later than that of the one before,
//! also if the clock is set back.

mod database;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

pub(crate) use self::database::{of_database, read};

/// Samples that are kept: an hour.
const SAMPLES_MOST: usize = 3_600;
const EVERY: Duration = Duration::from_secs(1);

/// The samples of the last hour.
pub(crate) struct Samples {
    /// What the numbers of a sample are. Those that only grow count from the start.
    names: Vec<String>,
    /// Behind the named numbers stand those of statements by their time: up to each of these bounds, and above.
    time_bounds_s: &'static [f64],
    /// When the first one could be taken, by the clock and by a watch that is never set.
    began: (SystemTime, Instant),
    ring: Mutex<VecDeque<(u64, Vec<u64>)>>,
}

/// Samples as the page gets them.
#[derive(Serialize)]
pub(crate) struct Answer {
    version: &'static str,
    names: Vec<String>,
    time_bounds_s: &'static [f64],
    now_ms: u64,
    /// The time of each sample, and its numbers.
    samples: Vec<(u64, Vec<u64>)>,
}

impl Samples {
    pub(crate) fn new(names: Vec<String>, time_bounds_s: &'static [f64]) -> Self {
        Self {
            names,
            time_bounds_s,
            began: (SystemTime::now(), Instant::now()),
            ring: Mutex::default(),
        }
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<(u64, Vec<u64>)>> {
        // A sample is added as a whole.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since 1970 by the watch.
    pub(crate) fn now_ms(&self) -> u64 {
        let (clock, watch) = self.began;
        let now = clock + watch.elapsed();
        now.duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }

    fn add(&self, at_ms: u64, numbers: Vec<u64>) {
        let mut ring = self.ring();
        if ring.len() == SAMPLES_MOST {
            ring.pop_front();
        }
        ring.push_back((at_ms, numbers));
    }

    /// The samples after a time.
    pub(crate) fn since(&self, since_ms: u64) -> Answer {
        let ring = self.ring();
        let first = ring.partition_point(|(at_ms, _)| *at_ms <= since_ms);
        Answer {
            version: env!("CARGO_PKG_VERSION"),
            names: self.names.clone(),
            time_bounds_s: self.time_bounds_s,
            now_ms: self.now_ms(),
            samples: ring.range(first..).cloned().collect(),
        }
    }

    /// Takes what `read` reads each second, until the server stops.
    pub(crate) async fn take_every_second(
        &self,
        read: impl Fn() -> Vec<u64>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            let numbers = read();
            debug_assert_eq!(
                numbers.len(),
                self.names.len()
                    + self.time_bounds_s.len()
                    + usize::from(!self.time_bounds_s.is_empty())
            );
            self.add(self.now_ms(), numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_and_only_news_is_sent() {
        let samples = Samples::new(vec!["number".to_string()], &[]);
        for number in 0..SAMPLES_MOST as u64 + 10 {
            samples.add(number, vec![number]);
        }
        let all = samples.since(0);
        assert_eq!(all.samples.len(), SAMPLES_MOST);
        assert_eq!(all.samples[0].1[0], 10);
        let news = samples.since(SAMPLES_MOST as u64 + 7);
        let times: Vec<u64> = news.samples.iter().map(|(at_ms, _)| *at_ms).collect();
        assert_eq!(times, [SAMPLES_MOST as u64 + 8, SAMPLES_MOST as u64 + 9]);
    }
}
