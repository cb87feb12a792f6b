//! The choice of a tier for a record that is created or outgrows its slot, by the settings and by the use of memory.
//!
//! Under any policy, a record that one tier has no room for goes to the other.

use tierra_memory::Speed;
use tierra_memory::slab::RecordMemory;

use super::settings::{Policy, Settings};

/// What is made between two adjustments of a ratio's threshold at most: a part of all bytes, and at least as many.
const MADE_PART: u64 = 256;
const MADE_BYTES_MIN: u64 = 64 << 10;

/// The settings, and the state by which they are applied.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    pub(super) settings: Settings,
    /// The threshold of [`Policy::Ratio`] now.
    dynamic_threshold: usize,
    /// The largest record made near since it was last adjusted, and the smallest made far, under that policy.
    largest_near: Option<usize>,
    smallest_far: Option<usize>,
    /// Bytes that may be made before it is adjusted again, whatever the clock says.
    left_bytes: u64,
    checked_ms: u64,
}

impl Chooser {
    pub(super) fn new(settings: Settings) -> Chooser {
        Chooser {
            dynamic_threshold: settings.initial_dynamic_threshold,
            largest_near: None,
            smallest_far: None,
            left_bytes: 0,
            settings,
            checked_ms: 0,
        }
    }

    /// The tier for a record of as many bytes.
    #[inline]
    pub(super) fn tier(&mut self, bytes: usize) -> Speed {
        let far_from = match self.settings.policy {
            // Near while there is room: what is new may be short-lived, and is hot as often as not.
            Policy::Dynamic | Policy::OnlyDram => usize::MAX,
            Policy::OnlyPmem => 0,
            Policy::Threshold => self.settings.static_threshold,
            Policy::Ratio => {
                self.left_bytes = self.left_bytes.saturating_sub(bytes as u64);
                if bytes >= self.dynamic_threshold {
                    self.smallest_far =
                        Some(self.smallest_far.map_or(bytes, |least| least.min(bytes)));
                } else {
                    self.largest_near = self.largest_near.max(Some(bytes));
                }
                self.dynamic_threshold
            }
        };
        if bytes >= far_from {
            Speed::Far
        } else {
            Speed::Near
        }
    }

    /// Whether so much was made under [`Policy::Ratio`] that its threshold cannot wait for the clock.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.left_bytes == 0 && self.settings.policy == Policy::Ratio
    }

    /// Adjusts the threshold, once a period.
    pub(super) fn check(&mut self, now_ms: u64, memory: &RecordMemory) {
        let due_ms = self
            .checked_ms
            .saturating_add(self.settings.ratio_check_period_ms);
        if self.settings.policy == Policy::Ratio && now_ms >= due_ms {
            self.checked_ms = now_ms;
            self.check_now(memory);
        }
    }

    /// Adjusts the threshold.
    pub(super) fn check_now(&mut self, memory: &RecordMemory) {
        let all_bytes = [Speed::Near, Speed::Far].map(|speed| memory.used(speed).object_bytes);
        self.left_bytes = (all_bytes.iter().sum::<u64>() / MADE_PART).max(MADE_BYTES_MIN);
        let excess = self.excess(memory).map(|(tier, _)| tier);
        self.adjust(excess);
    }

    /// By an eighth, and at least so far that of what was made since something would have gone to the other tier. Where
    /// nothing was made that could have, it stays: a threshold that went on would have to come back before it
    /// decides anything.
    fn adjust(&mut self, excess: Option<Speed>) {
        let (threshold, step) = (self.dynamic_threshold, self.dynamic_threshold / 8 + 1);
        let made = (self.largest_near.take(), self.smallest_far.take());
        self.dynamic_threshold = match (excess, made) {
            (Some(Speed::Near), (Some(largest), _)) => threshold.saturating_sub(step).min(largest),
            (Some(Speed::Far), (_, Some(smallest))) => {
                threshold.saturating_add(step).max(smallest + 1)
            }
            _ => threshold,
        }
        .min(self.settings.dynamic_threshold_max)
        .max(self.settings.dynamic_threshold_min);
    }

    /// The tier that holds more than its part by the ratio, and by how many bytes.
    pub(super) fn excess(&self, memory: &RecordMemory) -> Option<(Speed, u64)> {
        let near = memory.used(Speed::Near).object_bytes;
        let all = near + memory.used(Speed::Far).object_bytes;
        let (parts_near, parts_far) = self.settings.ratio;
        let parts = u128::from(parts_near) + u128::from(parts_far);
        let wanted = (u128::from(all) * u128::from(parts_near) / parts) as u64;
        match near.cmp(&wanted) {
            std::cmp::Ordering::Greater => Some((Speed::Near, near - wanted)),
            std::cmp::Ordering::Less => Some((Speed::Far, wanted - near)),
            std::cmp::Ordering::Equal => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Expiry, Key, Keyspace, KeyspaceOptions};
    use super::*;

    #[test]
    fn a_threshold_goes_where_records_are_told_apart_and_no_further() {
        let mut chooser = Chooser::new(Settings {
            policy: Policy::Ratio,
            ..Settings::default()
        });
        for _ in 0..3 {
            assert_eq!(chooser.tier(1100), Speed::Far);
            chooser.adjust(Some(Speed::Far));
            // Once is enough, and more of the same changes nothing.
            for _ in 0..10 {
                assert_eq!(chooser.tier(1100), Speed::Near);
                chooser.adjust(Some(Speed::Far));
            }
            assert_eq!(chooser.tier(1100), Speed::Near);
            chooser.adjust(Some(Speed::Near));
            for _ in 0..10 {
                chooser.adjust(Some(Speed::Near));
            }
        }
        // Records of several sizes go over one after the other.
        for (bytes, expected) in [(100, Speed::Near), (900, Speed::Near), (2000, Speed::Far)] {
            assert_eq!(chooser.tier(bytes), expected);
        }
        chooser.adjust(Some(Speed::Far));
        assert_eq!(chooser.tier(2000), Speed::Near);
        assert_eq!(chooser.tier(3000), Speed::Far);
        chooser.adjust(None);
        assert_eq!(chooser.tier(2000), Speed::Near);
        // What the settings do not allow is not done.
        assert_eq!(chooser.tier(20_000), Speed::Far);
        chooser.adjust(Some(Speed::Far));
        assert_eq!(
            (chooser.tier(20_000), chooser.tier(9_999)),
            (Speed::Far, Speed::Near)
        );
    }

    #[test]
    fn a_ratio_holds_while_records_are_made_and_grow() {
        let settings = Settings {
            policy: Policy::Ratio,
            ..Settings::default()
        };
        let mut keyspace = Keyspace::new(&KeyspaceOptions {
            settings,
            ..KeyspaceOptions::default()
        })
        .unwrap();
        // No time passes, so nothing is moved.
        for bytes in [1000, 1500, 3000] {
            for record in 0..3000u32 {
                let name = record.to_le_bytes();
                let (key, value) = (Key::new(&name), vec![7; bytes]);
                let db = keyspace.db(0);
                db.set_string(&key, &value, Expiry::Clear).unwrap();
            }
            let report = keyspace.report();
            let near = report.near.object_bytes as f64;
            let share = near / (near + report.far.object_bytes as f64);
            assert!(
                (share - 0.25).abs() < 0.02,
                "{share} of {bytes}-byte records"
            );
        }
    }
}
