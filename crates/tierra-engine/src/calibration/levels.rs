//! Which instructions the threads of scans use: a mix of levels for each memory, operator, number of threads and of columns that
//! they share.
//!
//! ```text
//! profile = F(memory, operator, threads, shared columns)
//! level    first core   last core   round robin
//! scalar            1          18            no      the first 18 threads
//! avx512           19          24            no      the other six
//! ```
//! Rows in round robin take turns among the cores that they have in common. Processors that lower their clocks under wide
//! registers gain from mixes. Where mixes gain nothing the profile has one row, of the best level.
//!
//! Source: Zarubin's thesis, section 4.3.3 and table 4.1.
//!
//! Invariant: a profile changes the speed of scans, never their rows.

use std::fmt;
use std::str::FromStr;

use tierra_column::bits::Level;
use tierra_memory::Speed;
use tierra_memory::emulation::FarMemory;

/// What dominates a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// All values are unpacked and summed.
    Aggregate,
    /// Values are compared, and few of them unpacked.
    Select,
}

impl Operator {
    /// Both.
    pub const ALL: [Operator; 2] = [Operator::Aggregate, Operator::Select];
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operator::Aggregate => "aggregate",
            Operator::Select => "select",
        })
    }
}

impl FromStr for Operator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        let named = all.find(|operator| operator.to_string() == text);
        named.ok_or_else(|| format!("{text:?} is no operator"))
    }
}

/// What a mix is chosen by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situation {
    /// Where the columns lie.
    pub speed: Speed,
    /// The far memory that is emulated, if any.
    pub far: Option<FarMemory>,
    /// What dominates the queries.
    pub operator: Operator,
    /// Threads that scan.
    pub threads: usize,
    /// Columns that they share.
    pub columns: usize,
}

/// A row of a mix: a level, and the cores that use it, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixRow {
    /// The level.
    pub level: Level,
    /// The first of its cores.
    pub first_core: usize,
    /// The last of its cores.
    pub last_core: usize,
    /// Whether it takes turns with other rows of the same cores.
    pub round_robin: bool,
}

/// The levels of some threads. Not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<MixRow>);

impl Mix {
    /// One level on all cores.
    pub fn uniform(level: Level, threads: usize) -> Mix {
        Mix(vec![MixRow {
            level,
            first_core: 1,
            last_core: threads.max(1),
            round_robin: false,
        }])
    }

    /// One level on the first half of the cores, another on the second.
    pub fn halves(first: Level, second: Level, threads: usize) -> Mix {
        let half = (threads / 2).max(1);
        let row = |level, first_core, last_core| MixRow {
            level,
            first_core,
            last_core,
            round_robin: false,
        };
        Mix(vec![
            row(first, 1, half),
            row(second, half + 1, threads.max(half + 1)),
        ])
    }

    /// Two levels on every other core.
    pub fn alternating(one: Level, other: Level, threads: usize) -> Mix {
        let row = |level| MixRow {
            level,
            first_core: 1,
            last_core: threads.max(1),
            round_robin: true,
        };
        Mix(vec![row(one), row(other)])
    }

    /// All mixes of these levels that are measured for so many threads, those of one level first.
    pub fn all(levels: &[Level], threads: usize) -> Vec<Mix> {
        let uniform = levels.iter().map(|level| Mix::uniform(*level, threads));
        let mut all = Vec::from_iter(uniform);
        for (at, one) in levels.iter().enumerate() {
            for other in &levels[at + 1..] {
                if threads >= 2 {
                    all.push(Mix::halves(*one, *other, threads));
                }
                // With two threads it is the same.
                if threads >= 3 {
                    all.push(Mix::alternating(*one, *other, threads));
                }
            }
        }
        all
    }

    /// Its rows.
    pub fn rows(&self) -> &[MixRow] {
        &self.0
    }

    /// The level, if it is the same on all cores.
    pub fn level(&self) -> Option<Level> {
        let first = self.0[0].level;
        self.0.iter().all(|row| row.level == first).then_some(first)
    }

    /// The level of a core, numbered from 0. Cores behind the last one begin again.
    pub fn level_of(&self, core: usize) -> Level {
        let last = self.0.iter().map(|row| row.last_core).max();
        let core = core % last.unwrap_or(1).max(1) + 1;
        let has_it = |row: &&MixRow| (row.first_core..=row.last_core).contains(&core);
        let count = self.0.iter().filter(has_it).count().max(1);
        let row = self.0.iter().filter(has_it).nth((core - 1) % count);
        row.unwrap_or(&self.0[0]).level
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, row) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let turns = if row.round_robin { "yes" } else { "no" };
            let MixRow {
                level,
                first_core,
                last_core,
                ..
            } = row;
            write!(f, "{comma}{level} {first_core} {last_core} {turns}")?;
        }
        Ok(())
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let row = |text: &str| {
            let expected = || format!("expected a level, two cores and yes or no, found {text:?}");
            let words: Vec<&str> = text.split(' ').collect();
            let &[level, first_core, last_core, turns] = &words[..] else {
                return Err(expected());
            };
            let core = |text: &str| text.parse().map_err(|_| expected());
            let row = MixRow {
                level: level
                    .parse()
                    .map_err(|error: tierra_column::bits::ParseLevelError| error.to_string())?,
                first_core: core(first_core)?,
                last_core: core(last_core)?,
                round_robin: match turns {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(expected()),
                },
            };
            let is_range = 1 <= row.first_core && row.first_core <= row.last_core;
            is_range.then_some(row).ok_or_else(expected)
        };
        text.split(", ").map(row).collect::<Result<_, _>>().map(Mix)
    }
}

/// The mixes that were measured to be the fastest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelProfile(Vec<(Situation, Mix)>);

impl LevelProfile {
    pub(super) fn new(entries: Vec<(Situation, Mix)>) -> Self {
        Self(entries)
    }

    /// Its entries.
    pub fn entries(&self) -> &[(Situation, Mix)] {
        &self.0
    }

    /// The mix for a situation, or for the one with the nearest numbers of threads and columns that was measured of its memory and
    /// operator; `None` without any.
    pub fn mix(&self, situation: &Situation) -> Option<&Mix> {
        let is_of = |entry: &&(Situation, Mix)| {
            let of = &entry.0;
            (of.speed, of.far, of.operator) == (situation.speed, situation.far, situation.operator)
        };
        let distance = |of: &Situation| {
            let apart =
                |one: usize, other: usize| (one.max(1) as f64 / other.max(1) as f64).log2().abs();
            // Threads matter more.
            apart(of.threads, situation.threads) * 16.0 + apart(of.columns, situation.columns)
        };
        let entries = self.0.iter().filter(is_of);
        let nearest =
            entries.min_by(|(one, _), (other, _)| distance(one).total_cmp(&distance(other)));
        nearest.map(|(_, mix)| mix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 4.1: aggregate on NVRAM, 24 threads, one shared column.
    fn table_4_1() -> Mix {
        "scalar 1 18 no, avx512 19 24 no".parse().unwrap()
    }

    #[test]
    fn the_table_of_the_thesis_says_which_core_runs_what() {
        let mix = table_4_1();
        assert_eq!(mix.level(), None);
        for core in 0..24 {
            let level = if core < 18 {
                Level::Scalar
            } else {
                Level::Avx512
            };
            assert_eq!(mix.level_of(core), level, "core {core}");
        }
        assert_eq!(mix.level_of(24), Level::Scalar);
    }

    #[test]
    fn rows_in_round_robin_take_turns() {
        let mix = Mix::alternating(Level::Scalar, Level::Avx2, 5);
        let levels = (0..5).map(|core| mix.level_of(core));
        let (scalar, avx2) = (Level::Scalar, Level::Avx2);
        assert!(levels.eq([scalar, avx2, scalar, avx2, scalar]));
    }

    #[test]
    fn mixes_are_read_back() {
        let levels = [Level::Scalar, Level::Sse42, Level::Avx512];
        for threads in 1..6 {
            for mix in Mix::all(&levels, threads) {
                assert_eq!(mix.to_string().parse(), Ok(mix));
            }
        }
        assert_eq!(
            (Mix::all(&levels, 1).len(), Mix::all(&levels, 2).len()),
            (3, 6)
        );
        for wrong in [
            "",
            "scalar",
            "scalar 1 2",
            "mmx 1 2 no",
            "scalar 0 2 no",
            "scalar 3 2 no",
            "scalar 1 2 maybe",
        ] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_nearest_situation_decides() {
        let situation = |threads, columns| Situation {
            speed: Speed::Far,
            far: None,
            operator: Operator::Aggregate,
            threads,
            columns,
        };
        let uniform = |level| Mix::uniform(level, 1);
        let profile = LevelProfile::new(vec![
            (situation(1, 1), uniform(Level::Avx512)),
            (situation(24, 1), table_4_1()),
            (situation(24, 4), uniform(Level::Avx2)),
        ]);
        let chosen = |threads, columns| profile.mix(&situation(threads, columns)).cloned();
        assert_eq!(chosen(2, 1), Some(uniform(Level::Avx512)));
        assert_eq!(chosen(18, 1), Some(table_4_1()));
        assert_eq!(chosen(36, 3), Some(uniform(Level::Avx2)));
        let near = Situation {
            speed: Speed::Near,
            ..situation(1, 1)
        };
        assert_eq!(profile.mix(&near), None);
    }
}
