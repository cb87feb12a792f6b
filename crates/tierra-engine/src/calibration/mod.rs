//! How much this machine's lookups gain from interleaving, which instructions suit its scans ([`levels`]), and how long reading
//! lines takes in each tier, by which replicas are chosen; measured and stored in the database's directory.
//!
//! For each kind of lookup, each tier of its structure, and each emulated far memory: the group size, and whether interleaving is
//! cheaper than one lookup after the other. Gates start with these values ([`Calibration::gate`]) and go on measuring; without
//! them they learn from the lookups that run. A measurement under one far memory says nothing about another.
//!
//! Invariant: a calibration changes the speed of lookups and scans, never their results.

mod file;
mod levels;
mod log_profile;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tierra_column::{LogicalType, Physical};
use tierra_memory::placement::LineTimes;
use tierra_memory::{GateStart, MemoryGate, Speed};

pub(crate) use file::CALIBRATION_FILE;
pub use levels::{LevelProfile, Mix, MixRow, Operator, Situation};
pub use log_profile::write_profile;
pub(crate) use log_profile::{LOG_METHOD, PROFILE_FILE, method_of};

/// The kind of a lookup. Kinds differ in how many lines a lookup touches one after the other, and in the computation in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKind {
    /// A key in the index of a primary key: in a run if it is far; in a copy of a run or a hash table if it is near.
    Key,
    /// A cell of a row: in a chunk, and then in a dictionary if the chunk holds codes. The tier is the chunk's.
    Cell,
    /// A number in a dictionary, level by level: it uses no group.
    Number,
    /// A string in a dictionary.
    Text,
    /// A code in an inverted index: the position of its list.
    List,
    /// Such a list.
    Stretch,
    /// A key in the build side of a join.
    Join,
}

impl LookupKind {
    /// All kinds.
    pub const ALL: [LookupKind; 7] = [
        LookupKind::Key,
        LookupKind::Cell,
        LookupKind::Number,
        LookupKind::Text,
        LookupKind::List,
        LookupKind::Stretch,
        LookupKind::Join,
    ];

    /// The name that `Display` writes and `FromStr` reads.
    pub const fn name(self) -> &'static str {
        match self {
            LookupKind::Key => "key",
            LookupKind::Cell => "cell",
            LookupKind::Number => "number",
            LookupKind::Text => "text",
            LookupKind::List => "list",
            LookupKind::Stretch => "stretch",
            LookupKind::Join => "join",
        }
    }

    /// The kind of a lookup of a value of this type in its column's dictionary.
    pub(crate) fn in_dictionary(ty: LogicalType) -> LookupKind {
        match ty.physical() {
            Physical::Bytes => LookupKind::Text,
            Physical::Ordinal | Physical::Wide => LookupKind::Number,
        }
    }
}

impl fmt::Display for LookupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LookupKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = LookupKind::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or_else(|| format!("{text:?} is no kind of lookup"))
    }
}

/// The measurements for lookups of one kind in one tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GateCalibration {
    pub(crate) kind: LookupKind,
    pub(crate) speed: Speed,
    pub(crate) start: GateStart,
}

/// The initial values of gates, and the levels of scans.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    entries: Vec<GateCalibration>,
    levels: LevelProfile,
    tiers: Vec<(String, LineTimes)>,
}

impl Calibration {
    pub(crate) fn new(entries: Vec<GateCalibration>) -> Self {
        Self {
            entries,
            levels: LevelProfile::default(),
            tiers: Vec::new(),
        }
    }

    /// The same with these levels of scans.
    #[must_use]
    pub fn with_levels(self, levels: Vec<(Situation, Mix)>) -> Self {
        Self {
            levels: LevelProfile::new(levels),
            ..self
        }
    }

    /// The same with how long reading lines takes in tiers, by their names.
    #[must_use]
    pub fn with_tiers(self, tiers: Vec<(String, LineTimes)>) -> Self {
        Self { tiers, ..self }
    }

    /// How long reading lines takes in a tier, if it was measured.
    pub(crate) fn line_times(&self, tier: &str) -> Option<LineTimes> {
        let found = self.tiers.iter().find(|(name, _)| name == tier);
        found.map(|(_, times)| *times)
    }

    /// The levels of scans.
    pub fn levels(&self) -> &LevelProfile {
        &self.levels
    }

    /// A gate for lookups of a kind in a structure of a tier.
    pub fn gate(&self, kind: LookupKind, speed: Speed) -> MemoryGate {
        let of_both = |entry: &&GateCalibration| (entry.kind, entry.speed) == (kind, speed);
        let starts = self.entries.iter().filter(of_both).map(|entry| entry.start);
        MemoryGate::new(starts.collect())
    }

    /// A gate for a column's dictionary.
    pub(crate) fn dictionary_gate(&self, ty: LogicalType) -> Arc<MemoryGate> {
        Arc::new(self.gate(LookupKind::in_dictionary(ty), Speed::Near))
    }
}

#[cfg(test)]
mod tests {
    use tierra_interleave::{Execution, GroupSize};

    use super::*;

    #[test]
    fn a_gate_starts_with_what_was_measured_of_its_kind_and_tier() {
        let entry = |kind, speed, size, first| GateCalibration {
            kind,
            speed,
            start: GateStart {
                far: None,
                size: GroupSize::new(size).unwrap(),
                first,
            },
        };
        let calibration = Calibration::new(vec![
            entry(LookupKind::Cell, Speed::Near, 16, Execution::Plain),
            entry(LookupKind::Cell, Speed::Far, 32, Execution::Interleaved),
        ]);
        let seen = |kind, speed| {
            let gate = calibration.gate(kind, speed);
            (gate.now().size().get(), gate.now().execution())
        };
        let interleaved = Execution::Interleaved;
        assert_eq!(seen(LookupKind::Cell, Speed::Near), (16, Execution::Plain));
        assert_eq!(seen(LookupKind::Cell, Speed::Far), (32, interleaved));
        assert_eq!(seen(LookupKind::Key, Speed::Near), (48, interleaved));
    }
}
