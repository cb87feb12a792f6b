//! The last hour: numbers of each second, so that a page that is opened late shows what was.
//!
//! Invariant: a sample is taken once a second whether or not somebody looks, and its time is later than that of the one before,
//! also if the clock is set back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tierra_sql::{TIME_BOUNDS_S, Totals};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::shared::Shared;

/// Samples that are kept: an hour.
const SAMPLES_MOST: usize = 3_600;
const EVERY: Duration = Duration::from_secs(1);

/// The numbers of a sample besides the classes of times, by name. Those that only grow count from the open of the database.
const NAMES: [&str; 17] = [
    "near_budget_bytes",
    "near_used_bytes",
    "always_near_bytes",
    "read_near_bytes",
    "read_far_bytes",
    "cells_near",
    "cells_far",
    "lookups",
    "suspensions",
    "moved_near_bytes",
    "moved_far_bytes",
    "written_bytes",
    "written_lines",
    "statements",
    "failed",
    "running",
    "sessions",
];

type Numbers = [u64; NAMES.len() + TIME_BOUNDS_S.len() + 1];

/// The samples of the last hour.
pub(crate) struct Samples {
    /// When the first one could be taken, by the clock and by a watch that is never set.
    began: (SystemTime, Instant),
    ring: Mutex<VecDeque<(u64, Numbers)>>,
}

/// Samples as the page gets them.
#[derive(Serialize)]
pub(crate) struct Answer {
    names: [&'static str; NAMES.len()],
    /// Behind the named numbers stand those of statements by their time: up to each of these bounds, and above.
    time_bounds_s: [f64; TIME_BOUNDS_S.len()],
    now_ms: u64,
    /// The time of each sample, and its numbers.
    samples: Vec<(u64, Vec<u64>)>,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            began: (SystemTime::now(), Instant::now()),
            ring: Mutex::default(),
        }
    }
}

impl Samples {
    fn ring(&self) -> MutexGuard<'_, VecDeque<(u64, Numbers)>> {
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

    fn add(&self, numbers: Numbers) {
        let at_ms = self.now_ms();
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
        let samples = ring.range(first..);
        let samples = samples.map(|(at_ms, numbers)| (*at_ms, numbers.to_vec()));
        Answer {
            names: NAMES,
            time_bounds_s: TIME_BOUNDS_S,
            now_ms: self.now_ms(),
            samples: samples.collect(),
        }
    }
}

/// Takes samples until the server stops.
pub(crate) async fn take_every_second(shared: Arc<Shared>, mut stopping: watch::Receiver<bool>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        shared.samples.add(read(&shared));
        shared.copies.ask_in_time(&shared.database);
    }
}

fn read(shared: &Shared) -> Numbers {
    let tiers = shared.database.tiers_without_page_sizes();
    let near = &tiers[0];
    let written = tiers.iter().filter_map(|tier| tier.written());
    let (bytes, lines) = written.fold((0, 0), |(bytes, lines), one| {
        (bytes + one.bytes, lines + one.lines)
    });
    let moved = shared.database.moved();
    let totals = shared.monitor.totals();
    let Totals { work, .. } = totals;
    let named = [
        near.capacity_bytes,
        near.used_bytes,
        near.always_near_bytes.unwrap_or(0),
        work.bytes_near,
        work.bytes_far,
        work.cells_near,
        work.cells_far,
        work.lookups,
        work.suspensions,
        moved.near_bytes,
        moved.far_bytes,
        bytes,
        lines,
        totals.statements,
        totals.failed,
        totals.running,
        totals.sessions,
    ];
    let mut numbers = [0; NAMES.len() + TIME_BOUNDS_S.len() + 1];
    numbers[..NAMES.len()].copy_from_slice(&named);
    numbers[NAMES.len()..].copy_from_slice(&totals.by_time);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_and_only_news_is_sent() {
        let samples = Samples::default();
        for number in 0..SAMPLES_MOST as u64 + 10 {
            let mut numbers: Numbers = [0; NAMES.len() + TIME_BOUNDS_S.len() + 1];
            numbers[0] = number;
            samples.ring().push_back((number, numbers));
            if samples.ring().len() > SAMPLES_MOST {
                samples.ring().pop_front();
            }
        }
        let all = samples.since(0);
        assert_eq!(all.samples.len(), SAMPLES_MOST);
        assert_eq!(all.samples[0].1[0], 10);
        let news = samples.since(SAMPLES_MOST as u64 + 7);
        let times: Vec<u64> = news.samples.iter().map(|(at_ms, _)| *at_ms).collect();
        assert_eq!(times, [SAMPLES_MOST as u64 + 8, SAMPLES_MOST as u64 + 9]);
    }
}
