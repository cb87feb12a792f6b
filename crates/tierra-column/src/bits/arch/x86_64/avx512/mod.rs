//! AVX-512 with byte permutations (VBMI): registers of 64 bytes, compares straight into mask bits.
//!
//! Codes unpack into the narrowest lanes that hold them, 64 codes at a time up to 8 bits, so that
//! a compare of narrow codes yields a whole word of the mask.

mod lanes;
mod lanes16;
mod lanes32;
mod lanes64;
mod lanes8;
mod pack;
mod windows;

use super::super::generic::{Codes, Kernel};
use crate::bits::{packing::Block, vector::Unpacked};
use lanes::{Lanes, avx512};
pub(in crate::bits::arch) use pack::{can_pack, pack};
use windows::{SplitWindows, SplitWindows32, Windows};

/// Runs code that the compiler may vectorise.
///
/// # Safety
/// The CPU has the level.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in crate::bits::arch) unsafe fn compiled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Runs a kernel on packed codes.
///
/// # Safety
/// The CPU has the level.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in crate::bits::arch) unsafe fn on_codes<K: Kernel>(block: Block<'_>, kernel: K) -> K::Output {
    let width = block.width();
    // SAFETY: the CPU has the features by the caller's promise. The way to unpack is for the
    // block's width, which is among those it can do.
    unsafe {
        match width {
            0..=8 => kernel.run(Codes::packed(block, Windows::<u8>::new(width))),
            9..=16 => kernel.run(Codes::packed(block, Windows::<u16>::new(width))),
            17..=30 => kernel.run(Codes::packed(block, Windows::<u32>::new(width))),
            32 => kernel.run(Codes::packed(block, Unpacked::<Lanes<u32>>::new())),
            31 => kernel.run(Codes::packed(block, SplitWindows32::new(width))),
            33..=58 | 60 => kernel.run(Codes::packed(block, Windows::<u64>::new(width))),
            64 => kernel.run(Codes::packed(block, Unpacked::<Lanes<u64>>::new())),
            _ => kernel.run(Codes::packed(block, SplitWindows::new(width))),
        }
    }
}

/// Runs a kernel on unpacked 32-bit values.
///
/// # Safety
/// The CPU has the level.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in crate::bits::arch) unsafe fn on_u32s<K: Kernel>(values: &[u32], kernel: K) -> K::Output {
    // SAFETY: the caller's promise.
    unsafe { kernel.run(Codes::<Unpacked<Lanes<u32>>>::unpacked(values)) }
}

/// Runs a kernel on unpacked 64-bit values.
///
/// # Safety
/// The CPU has the level.
#[target_feature(
    enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in crate::bits::arch) unsafe fn on_u64s<K: Kernel>(values: &[u64], kernel: K) -> K::Output {
    // SAFETY: the caller's promise.
    unsafe { kernel.run(Codes::<Unpacked<Lanes<u64>>>::unpacked(values)) }
}
