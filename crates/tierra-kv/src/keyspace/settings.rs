//! The settings of a keyspace: where records go, and what is packed into one.
//!
//! The static policies are those of TieredMemDB, a fork of Redis, under its names, so that its users find them:
//! by size, or by size with a threshold that is adjusted until a ratio holds. `dynamic` is ours
//! ([`tierra_memory::placement`]): by heat, within a budget.

use std::fmt;
use std::str::FromStr;

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

fn bytes(text: &str) -> Result<u64, String> {
    size::parse(text).ok_or_else(|| "argument must be a memory value".to_owned())
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

#[cfg(test)]
mod tests {
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
