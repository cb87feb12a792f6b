//! Comparing a node with a key, for each instruction set, and the choice between them.
//!
//! A whole call of [`lower_bounds`] runs inside one function that switches the instructions on. A
//! coroutine is compiled without them, so [`less`], its way to compare, costs a call for each node; plain
//! code would be inlined but costs more, unsigned 64-bit values without AVX most of all.

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::LazyLock;

use tierra_interleave::Mode;

use super::batch::{self, Compare};
use super::{Key, LANES, Searcher};
use scalar::Scalar;
#[cfg(target_arch = "x86_64")]
use x86_64::{Avx2, Avx512};

// Stand-ins for bounds only: elsewhere no CPU supports these levels.
#[cfg(not(target_arch = "x86_64"))]
use scalar::{Scalar as Avx2, Scalar as Avx512};

/// An instruction set, in ascending order of speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
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

/// Proof that this CPU has a level: whoever holds one may run that level's code.
#[derive(Clone, Copy, Debug)]
pub struct Available(Level);

impl Available {
    /// Every level this CPU has, slowest first.
    pub(super) fn all() -> impl Iterator<Item = Available> {
        [Level::Scalar, Level::Avx2, Level::Avx512]
            .into_iter()
            .filter(|level| level.is_supported())
            .map(Available)
    }

    /// The fastest level this CPU has; asked of the CPU once.
    pub(super) fn fastest() -> Available {
        static FASTEST: LazyLock<Available> =
            LazyLock::new(|| Available::all().last().unwrap_or(Available(Level::Scalar)));
        *FASTEST
    }
}

/// How many of the first `LANES` of `values` are less than `key`, with the instructions of a level.
#[inline(always)]
pub(super) fn less<K>(level: Available, values: &[K], key: K) -> usize
where
    K: Key,
    Scalar: Compare<K>,
    Avx2: Compare<K>,
    Avx512: Compare<K>,
{
    let values = values[..LANES].as_ptr();
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the instructions, and the length was checked.
        Level::Avx512 => unsafe { x86_64::avx512_less(values, key) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86_64::avx2_less(values, key) },
        // SAFETY: no instructions are needed but those of every CPU, and the length was checked.
        _ => unsafe { Scalar::less(values, Scalar::splat(key)) },
    }
}

/// The ranks of `keys`, for as many places in `ranks`, with the instructions of a level. The searcher's
/// slice must have at least `LANES` values, which is checked.
#[inline]
pub(super) fn lower_bounds<K, M>(
    level: Available,
    searcher: Searcher<'_, K>,
    keys: &[K],
    ranks: &mut [usize],
) where
    K: Key,
    M: Mode,
    Scalar: Compare<K>,
    Avx2: Compare<K>,
    Avx512: Compare<K>,
{
    assert!(searcher.sorted.len() >= LANES, "a leaf is read as a whole");
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the instructions, and the length was checked.
        Level::Avx512 => unsafe { x86_64::avx512_lower_bounds::<K, M>(searcher, keys, ranks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86_64::avx2_lower_bounds::<K, M>(searcher, keys, ranks) },
        // SAFETY: no instructions are needed but those of every CPU, and the length was checked.
        _ => unsafe { batch::lower_bounds::<K, Scalar, M>(searcher, keys, ranks) },
    }
}
