//! Where a record is put when it is made or outgrows its room.
//!
//! The static policies are those of TieredMemDB, a fork of Redis, under its names, so that its users find them:
//! by size, or by size with a threshold that is adjusted until a ratio holds. `dynamic` is ours
//! ([`tierra_memory::placement`]): by heat, within a budget.
//!
//! Whatever the policy wants, a record that one tier has no room for goes to the other.

use std::fmt;
use std::str::FromStr;

use tierra_memory::slab::RecordMemory;
use tierra_memory::{Size, Speed};

use crate::size;

/// Which tier records go to: the setting `memory-alloc-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// By heat: the hottest near, as far as `near-memory` goes.
    #[default]
    Dynamic,
    /// All near.
    OnlyDram,
    /// All far.
    OnlyPmem,
    /// Those of at least `static-threshold` bytes far.
    Threshold,
    /// Those of at least a threshold far that is adjusted until `dram-pmem-ratio` holds.
    Ratio,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Policy; 5] = [
        Policy::Dynamic,
        Policy::OnlyDram,
        Policy::OnlyPmem,
        Policy::Threshold,
        Policy::Ratio,
    ];

    /// The name of the setting's value.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Dynamic => "dynamic",
            Policy::OnlyDram => "only-dram",
            Policy::OnlyPmem => "only-pmem",
            Policy::Threshold => "threshold",
            Policy::Ratio => "ratio",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The settings that say where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `memory-alloc-policy`.
    pub policy: Policy,
    /// `near-memory`: bytes of near memory that records may hold.
    pub near_bytes: u64,
    /// `static-threshold`: bytes from which on a record goes far under [`Policy::Threshold`].
    pub static_threshold: usize,
    /// `initial-dynamic-threshold`: where the threshold of [`Policy::Ratio`] begins.
    pub initial_dynamic_threshold: usize,
    /// `dynamic-threshold-min`: and how low it may get.
    pub dynamic_threshold_min: usize,
    /// `dynamic-threshold-max`: and how high.
    pub dynamic_threshold_max: usize,
    /// `dram-pmem-ratio`: parts near and parts far under [`Policy::Ratio`].
    pub ratio: (u32, u32),
    /// `memory-ratio-check-period`: milliseconds after which that threshold is adjusted.
    pub ratio_check_period_ms: u64,
    /// `hash-max-listpack-entries`: fields from which on a hash is a table.
    pub hash_packed_entries_max: usize,
    /// `hash-max-listpack-value`: bytes of a field or value from which on it is.
    pub hash_packed_value_max: usize,
    /// `zset-max-listpack-entries`: as for hashes.
    pub set_packed_entries_max: usize,
    /// `zset-max-listpack-value`: as for hashes.
    pub set_packed_value_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::Dynamic,
            near_bytes: u64::MAX,
            static_threshold: 64,
            initial_dynamic_threshold: 64,
            dynamic_threshold_min: 24,
            dynamic_threshold_max: 10_000,
            ratio: (1, 3),
            ratio_check_period_ms: 100,
            hash_packed_entries_max: 128,
            hash_packed_value_max: 1024,
            set_packed_entries_max: 128,
            set_packed_value_max: 64,
        }
    }
}

/// The names of all settings, as CONFIG knows them.
pub(super) const NAMES: [&str; 12] = [
    "memory-alloc-policy",
    "near-memory",
    "static-threshold",
    "initial-dynamic-threshold",
    "dynamic-threshold-min",
    "dynamic-threshold-max",
    "dram-pmem-ratio",
    "memory-ratio-check-period",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
];

/// The greatest number of entries that a packed hash or set can have.
const PACKED_ENTRIES_MAX: usize = 4096;
/// The longest field, value or member that can be packed.
const PACKED_VALUE_MAX: usize = 64 << 10;

impl Settings {
    /// The value of a setting, as CONFIG GET shows it.
    pub fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "memory-alloc-policy" => self.policy.to_string(),
            "near-memory" => self.near_bytes.to_string(),
            "static-threshold" => self.static_threshold.to_string(),
            "initial-dynamic-threshold" => self.initial_dynamic_threshold.to_string(),
            "dynamic-threshold-min" => self.dynamic_threshold_min.to_string(),
            "dynamic-threshold-max" => self.dynamic_threshold_max.to_string(),
            "dram-pmem-ratio" => format!("{} {}", self.ratio.0, self.ratio.1),
            "memory-ratio-check-period" => self.ratio_check_period_ms.to_string(),
            "hash-max-listpack-entries" => self.hash_packed_entries_max.to_string(),
            "hash-max-listpack-value" => self.hash_packed_value_max.to_string(),
            "zset-max-listpack-entries" => self.set_packed_entries_max.to_string(),
            "zset-max-listpack-value" => self.set_packed_value_max.to_string(),
            _ => return None,
        })
    }

    /// Changes a setting. Whether it goes together with others is not asked ([`check`](Self::check)): these may change as well.
    ///
    /// # Errors
    /// What is wrong with the value, or that there is no such setting.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "memory-alloc-policy" => {
                let named = |policy: &Policy| policy.name().eq_ignore_ascii_case(value);
                self.policy = Policy::ALL.into_iter().find(named).ok_or_else(|| {
                    "argument must be 'dynamic', 'only-dram', 'only-pmem', 'threshold' or 'ratio'".to_owned()
                })?;
            }
            "near-memory" => self.near_bytes = bytes(value)?,
            "static-threshold" => self.static_threshold = number(value, 0, usize::MAX)?,
            "initial-dynamic-threshold" => {
                self.initial_dynamic_threshold = number(value, 0, usize::MAX)?
            }
            "dynamic-threshold-min" => {
                self.dynamic_threshold_min = number(value, 0, usize::MAX)?;
            }
            "dynamic-threshold-max" => {
                self.dynamic_threshold_max = number(value, 0, usize::MAX)?;
            }
            "dram-pmem-ratio" => self.ratio = ratio(value)?,
            "memory-ratio-check-period" => self.ratio_check_period_ms = number(value, 1, u64::MAX)?,
            "hash-max-listpack-entries" => {
                self.hash_packed_entries_max = number(value, 0, PACKED_ENTRIES_MAX)?
            }
            "hash-max-listpack-value" => {
                self.hash_packed_value_max = few_bytes(value, PACKED_VALUE_MAX)?
            }
            "zset-max-listpack-entries" => {
                self.set_packed_entries_max = number(value, 0, PACKED_ENTRIES_MAX)?
            }
            "zset-max-listpack-value" => {
                self.set_packed_value_max = few_bytes(value, PACKED_VALUE_MAX)?
            }
            _ => return Err(format!("there is no setting {name}")),
        }
        Ok(())
    }

    /// Whether all go together.
    ///
    /// # Errors
    /// The name of one that does not, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let (least, most) = (self.dynamic_threshold_min, self.dynamic_threshold_max);
        if least > most {
            let why = format!("{least} is above dynamic-threshold-max, which is {most}");
            return Err(("dynamic-threshold-min", why));
        }
        Ok(())
    }
}

fn number<T: FromStr + PartialOrd + fmt::Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| *number >= least && *number <= most);
    number.ok_or_else(|| format!("argument must be between {least} and {most} inclusive"))
}

/// A size as Redis writes it (`1gb` for 2^30 bytes, `1g` for 10^9), or as the rest of Tierra does.
fn bytes(text: &str) -> Result<u64, String> {
    let tierra = || text.parse().ok().map(|size: Size| size.0);
    let bytes = size::parse(text).or_else(tierra);
    bytes.ok_or_else(|| "argument must be a memory value".to_owned())
}

/// A size within limits.
fn few_bytes(text: &str, most: usize) -> Result<usize, String> {
    let bytes = usize::try_from(bytes(text)?).ok();
    let within = bytes.filter(|bytes| *bytes <= most);
    within.ok_or_else(|| format!("argument must be between 0 and {most} inclusive"))
}

fn ratio(text: &str) -> Result<(u32, u32), String> {
    let mut parts = text
        .split([' ', ':'])
        .filter(|part| !part.is_empty())
        .map(str::parse);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Ok(near)), Some(Ok(far)), None) if near != 0 || far != 0 => Ok((near, far)),
        _ => {
            Err("argument must be two numbers, parts near and parts far, such as '1 3'".to_owned())
        }
    }
}

/// What is made between two adjustments of a ratio's threshold at most: a part of all bytes, and at least as many.
const MADE_PART: u64 = 256;
const MADE_BYTES_MIN: u64 = 64 << 10;

/// What decides, with what it has found out.
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
    use super::super::{Expiry, Key, Keyspace, Options};
    use super::*;

    #[test]
    fn settings_read_what_they_show() {
        let mut settings = Settings::default();
        for name in NAMES {
            let shown = settings.get(name).unwrap();
            settings.set(name, &shown).unwrap();
        }
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.get("maxmemory"), None);
    }

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
        let mut keyspace = Keyspace::new(&Options {
            settings,
            ..Options::default()
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

    #[test]
    fn settings_refuse_what_makes_no_sense() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("memory-alloc-policy", "random"),
            ("near-memory", "lots"),
            ("near-memory", "99999999999gb"),
            ("dram-pmem-ratio", "0 0"),
            ("dram-pmem-ratio", "1"),
            ("dram-pmem-ratio", "1 2 3"),
            ("memory-ratio-check-period", "0"),
            ("dynamic-threshold-min", "-1"),
            ("hash-max-listpack-entries", "-1"),
            ("hash-max-listpack-entries", "70000"),
            ("no-such", "1"),
        ] {
            assert!(settings.set(name, value).is_err(), "{name} {value}");
        }
        assert_eq!(settings, Settings::default());
        for (value, bytes) in [
            ("1gb", 1 << 30),
            ("2k", 2000),
            ("512", 512),
            ("3MB", 3 << 20),
        ] {
            settings.set("near-memory", value).unwrap();
            assert_eq!(settings.near_bytes, bytes);
        }
        settings.set("dram-pmem-ratio", "1:4").unwrap();
        assert_eq!(settings.ratio, (1, 4));
        settings.set("dynamic-threshold-min", "20000").unwrap();
        let (name, why) = settings.check().unwrap_err();
        assert_eq!(
            (name, &*why),
            (
                "dynamic-threshold-min",
                "20000 is above dynamic-threshold-max, which is 10000"
            )
        );
        settings.set("dynamic-threshold-max", "20000").unwrap();
        assert_eq!(settings.check(), Ok(()));
    }
}
