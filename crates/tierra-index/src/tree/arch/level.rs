//! Which instruction sets this CPU has.

use std::sync::LazyLock;

/// An instruction set, in ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Plain Rust for any CPU; the oracle of the others.
    Scalar,
    /// x86-64 with AVX2 and POPCNT (Haswell, Zen and later).
    Avx2,
    /// x86-64 with AVX-512 F, and what the level before has (Skylake-X, Zen 4 and later).
    Avx512,
}

impl Level {
    #[cfg(target_arch = "x86_64")]
    fn is_supported(self) -> bool {
        let avx2 = || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt");
        match self {
            Level::Scalar => true,
            Level::Avx2 => avx2(),
            Level::Avx512 => avx2() && is_x86_feature_detected!("avx512f"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_supported(self) -> bool {
        self == Level::Scalar
    }
}

/// Proof that this CPU has a level. Its holder may run that level's code.
#[derive(Clone, Copy, Debug)]
pub struct Available(pub(super) Level);

impl Available {
    /// Every level this CPU has, slowest first.
    pub(crate) fn all() -> impl Iterator<Item = Available> {
        [Level::Scalar, Level::Avx2, Level::Avx512]
            .into_iter()
            .filter(|level| level.is_supported())
            .map(Available)
    }

    /// The fastest level this CPU has; asked of the CPU once.
    pub(crate) fn fastest() -> Available {
        static FASTEST: LazyLock<Available> =
            LazyLock::new(|| Available::all().last().unwrap_or(Available(Level::Scalar)));
        *FASTEST
    }
}
