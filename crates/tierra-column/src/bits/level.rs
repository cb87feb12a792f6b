//! Instruction sets the kernels are written for, and which of them this CPU has.

use std::{fmt, str::FromStr, sync::LazyLock};

/// An instruction set, in ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust for any CPU; the oracle of the others.
    Scalar,
    /// x86-64 with SSE 4.2 and POPCNT (Nehalem, Bulldozer and later).
    Sse42,
    /// x86-64 with AVX2, BMI, LZCNT and POPCNT (Haswell, Zen and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, VBMI and VBMI2 (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Level {
    /// All of them, slowest first.
    pub const ALL: [Level; 4] = [Level::Scalar, Level::Sse42, Level::Avx2, Level::Avx512];

    /// The fastest level this CPU has; asked of the CPU once.
    pub fn detect() -> Level {
        static FASTEST: LazyLock<Level> = LazyLock::new(|| {
            Level::ALL
                .into_iter()
                .filter(|level| level.is_supported())
                .fold(Level::Scalar, Level::max)
        });
        *FASTEST
    }

    /// Every level this CPU has, slowest first.
    pub fn available() -> impl Iterator<Item = Level> {
        // Each level has those before it: `is_supported` asks for their features too.
        Level::ALL
            .into_iter()
            .filter(|level| *level <= Level::detect())
    }

    #[cfg(target_arch = "x86_64")]
    fn is_supported(self) -> bool {
        let sse42 = || is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt");
        let avx2 = || {
            sse42()
                && is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
        };
        match self {
            Level::Scalar => true,
            Level::Sse42 => sse42(),
            Level::Avx2 => avx2(),
            Level::Avx512 => {
                avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vbmi2")
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_supported(self) -> bool {
        self == Level::Scalar
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Scalar => "scalar",
            Level::Sse42 => "sse4.2",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        })
    }
}

/// A word that names no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of 'scalar', 'sse4.2', 'avx2' and 'avx512'")]
pub struct ParseLevelError(String);

impl FromStr for Level {
    type Err = ParseLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Level::ALL.into_iter();
        all.find(|level| level.to_string() == text)
            .ok_or_else(|| ParseLevelError(text.to_owned()))
    }
}

/// Proof that this CPU has a level. Its holder may run that level's code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Available(Level);

impl Available {
    /// `None` if this CPU lacks the level.
    pub(super) fn new(level: Level) -> Option<Self> {
        (level <= Level::detect()).then_some(Self(level))
    }

    pub(super) fn fastest() -> Self {
        Self(Level::detect())
    }

    #[inline(always)]
    pub(super) fn level(self) -> Level {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!("sse9".parse::<Level>().is_err());
    }

    #[test]
    fn a_cpu_with_a_level_has_those_before_it() {
        let available = Vec::from_iter(Level::available());
        assert_eq!(available, Level::ALL[..available.len()]);
        assert!(available.iter().all(|level| level.is_supported()));
    }
}
