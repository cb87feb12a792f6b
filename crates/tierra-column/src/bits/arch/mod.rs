//! All that depends on the CPU: the kernels, generic over [`Vector`](super::vector::Vector)
//! (`generic`), and the vectors of each instruction set. Outside this folder and `vector`, one place
//! in this crate is unsafe: `reader/strings` builds arrays of strings it has checked itself.
//!
//! The functions here choose the level. They are safe: [`Available`] proves that the CPU has the
//! level, and [`Block`] or a slice that the codes are where the kernel reads.

mod generic;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub(super) use generic::{Kernel, MinMax, SelectBetween, SelectIn, Sum, UnpackFew, UnpackSelected};

use generic::{Target, UnpackAll};
use std::slice;

use super::{
    level::{Available, Level},
    packing::{self, Block, Unit},
};

/// Runs code that the compiler may vectorise for the level.
#[inline]
pub(super) fn compiled<R>(level: Available, work: impl FnOnce() -> R) -> R {
    match level.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the level's features.
        Level::Avx512 => unsafe { x86_64::avx512::compiled(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86_64::avx2::compiled(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Sse42 => unsafe { x86_64::sse42::compiled(work) },
        _ => work(),
    }
}

/// Packs the low `width` bits of each `value - base` into a [`packing::place`].
pub(super) fn pack<T: Unit>(level: Available, values: &[T], base: T, width: u8, out: &mut [u8]) {
    debug_assert_eq!(out.len(), packing::packed_bytes(values.len(), width));
    match level.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the level's features; the place has the bytes of the codes.
        Level::Avx512 if x86_64::avx512::can_pack::<T>(width) => unsafe {
            x86_64::avx512::pack(values, base, width, out)
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 if x86_64::avx2::can_pack(width) => unsafe {
            x86_64::avx2::pack(values, base, width, out)
        },
        _ => packing::pack(values, base, width, out),
    }
}

/// Unpacks every code, `plus` more, into as many places.
pub(super) fn unpack<T: Target>(level: Available, block: Block<'_>, plus: T, out: &mut [T]) {
    let (places, len) = (out.as_mut_ptr(), out.len());
    // SAFETY: the places are those of the slice, and the kernel leaves none without a value.
    let out = unsafe { slice::from_raw_parts_mut(places.cast(), len) };
    on_codes(level, block, UnpackAll { out, plus });
}

/// Appends every code, `plus` more.
pub(super) fn append<T: Target>(level: Available, block: Block<'_>, plus: T, out: &mut Vec<T>) {
    let n = block.n();
    out.reserve(n);
    let places = &mut out.spare_capacity_mut()[..n];
    on_codes(level, block, UnpackAll { out: places, plus });
    // SAFETY: the kernel has written all places, of which there are as many as codes.
    unsafe { out.set_len(out.len() + n) };
}

/// Runs a kernel on packed codes.
#[inline]
pub(super) fn on_codes<K: Kernel>(level: Available, block: Block<'_>, kernel: K) -> K::Output {
    match level.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the level's features.
        Level::Avx512 => unsafe { x86_64::avx512::on_codes(block, kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86_64::avx2::on_codes(block, kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Sse42 => unsafe { x86_64::sse42::on_codes(block, kernel) },
        _ => scalar::on_codes(block, kernel),
    }
}

/// Runs a kernel on packed codes, one code at a time, compiled for the level.
#[inline]
pub(super) fn on_single_codes<K: Kernel>(
    level: Available,
    block: Block<'_>,
    kernel: K,
) -> K::Output {
    compiled(level, || scalar::on_codes(block, kernel))
}

/// Runs a kernel on unpacked 32-bit values.
#[inline]
pub(super) fn on_u32s<K: Kernel>(level: Available, values: &[u32], kernel: K) -> K::Output {
    match level.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the level's features.
        Level::Avx512 => unsafe { x86_64::avx512::on_u32s(values, kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86_64::avx2::on_u32s(values, kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Sse42 => unsafe { x86_64::sse42::on_u32s(values, kernel) },
        _ => scalar::on_u32s(values, kernel),
    }
}

/// Runs a kernel on unpacked 64-bit values.
#[inline]
pub(super) fn on_u64s<K: Kernel>(level: Available, values: &[u64], kernel: K) -> K::Output {
    match level.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` proves that the CPU has the level's features.
        Level::Avx512 => unsafe { x86_64::avx512::on_u64s(values, kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86_64::avx2::on_u64s(values, kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Sse42 => unsafe { x86_64::sse42::on_u64s(values, kernel) },
        _ => scalar::on_u64s(values, kernel),
    }
}

/// Appends `dictionary[code]` for every code; `Err` with the largest code, and `out` as it was, if the
/// dictionary does not have it.
pub(super) fn gather<T: Copy>(
    level: Available,
    dictionary: &[T],
    codes: &[u32],
    out: &mut Vec<T>,
) -> Result<(), u32> {
    if let Some((_, largest)) = on_u32s(level, codes, MinMax { mask: None })
        && largest >= dictionary.len() as u64
    {
        return Err(largest as u32);
    }
    // SAFETY: every code is at most the largest, which the dictionary has.
    unsafe { generic::gather_unchecked(dictionary, codes, out) };
    Ok(())
}
