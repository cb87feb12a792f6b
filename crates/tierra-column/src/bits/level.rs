//! Instruction sets the kernels are written for, and which of them this CPU has.

use std::{fmt, sync::LazyLock};

/// An instruction set, in ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust for any CPU; the oracle of the others.
    Scalar,
    /// x86-64 with AVX2, BMI, LZCNT and POPCNT (Haswell, Zen and later).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, VBMI and VBMI2 (Ice Lake, Zen 4 and later).
    Avx512,
}

impl Level {
    const ALL: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];

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
        // A CPU with AVX-512 has AVX2: `is_supported` asks for the latter's features too.
        Level::ALL
            .into_iter()
            .filter(|level| *level <= Level::detect())
    }

    #[cfg(target_arch = "x86_64")]
    fn is_supported(self) -> bool {
        let avx2 = || {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt")
        };
        match self {
            Level::Scalar => true,
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
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        })
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
