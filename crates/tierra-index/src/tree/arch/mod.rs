//! Comparing a node with a key, for each instruction set, and the choice between them.
//!
//! A whole call of [`lower_bounds`] runs inside one function that switches the instructions on. A
//! coroutine is compiled without them, so [`less`], its way to compare, costs a call for each node; plain
//! code would be inlined but costs more, unsigned 64-bit values without AVX most of all.

mod compare;
mod level;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use tierra_interleave::Mode;

use super::batch;
use super::levels::Levels;
use super::node::{LANES, Value};
pub(super) use compare::Compare;
pub(crate) use level::Available;
use level::Level;
use scalar::Scalar;
#[cfg(target_arch = "x86_64")]
use x86_64::{Avx2, Avx512};

// Stand-ins for bounds only: elsewhere no CPU supports these levels.
#[cfg(not(target_arch = "x86_64"))]
use scalar::{Scalar as Avx2, Scalar as Avx512};

/// How many of the first `LANES` of `values` are less than `key`, with the instructions of a level.
#[inline(always)]
pub(super) fn less<K>(level: Available, values: &[K], key: K) -> usize
where
    K: Value,
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

/// The ranks of `keys`, for as many places in `ranks`, with the instructions of a level. The
/// slice must have at least `LANES` values, which is checked.
#[inline]
pub(super) fn lower_bounds<K, M>(
    level: Available,
    levels: &Levels<K>,
    sorted: &[K],
    keys: &[K],
    ranks: &mut [usize],
) where
    K: Value,
    M: Mode,
    Scalar: Compare<K>,
    Avx2: Compare<K>,
    Avx512: Compare<K>,
{
    assert!(sorted.len() >= LANES, "a leaf is read as a whole");
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the instructions, and the length was checked.
        Level::Avx512 => unsafe {
            x86_64::avx512_lower_bounds::<K, M>(levels, sorted, keys, ranks)
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86_64::avx2_lower_bounds::<K, M>(levels, sorted, keys, ranks) },
        // SAFETY: no instructions are needed but those of every CPU, and the length was checked.
        _ => unsafe { batch::lower_bounds::<K, Scalar, M>(levels, sorted, keys, ranks) },
    }
}
