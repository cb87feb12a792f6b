//! AVX2: registers of 32 bytes, codes in 32-bit lanes up to 32 bits and in 64-bit lanes above.

mod lanes32;
mod lanes64;
mod methods;
mod pack;
mod windows;

use super::super::generic::{Codes, Kernel};
use crate::bits::{packing::Block, vector::Unpacked};
use lanes32::Lanes32;
use lanes64::Lanes64;
use methods::avx2;
pub(in crate::bits::arch) use pack::{can_pack, pack};
use windows::{OneByOne, SplitWindows32, Windows32, Windows64};

/// Runs code that the compiler may vectorise.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in crate::bits::arch) unsafe fn compiled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Runs a kernel on packed codes.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in crate::bits::arch) unsafe fn on_codes<K: Kernel>(block: Block<'_>, kernel: K) -> K::Output {
    let width = block.width();
    // SAFETY: the CPU has the features by the caller's promise. The way to unpack is for the
    // block's width, which is among those it can do.
    unsafe {
        match width {
            0..=14 => kernel.run(Codes::packed(block, Windows32::<true>::new(width))),
            15..=26 | 28 => kernel.run(Codes::packed(block, Windows32::<false>::new(width))),
            27 | 29..=31 => kernel.run(Codes::packed(block, SplitWindows32::new(width))),
            32 => kernel.run(Codes::packed(block, Unpacked::<Lanes32>::new())),
            33..=57 => kernel.run(Codes::packed(block, Windows64::new(width))),
            64 => kernel.run(Codes::packed(block, Unpacked::<Lanes64>::new())),
            _ => kernel.run(Codes::packed(block, OneByOne::new(width))),
        }
    }
}

/// Runs a kernel on unpacked 32-bit values.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in crate::bits::arch) unsafe fn on_u32s<K: Kernel>(values: &[u32], kernel: K) -> K::Output {
    // SAFETY: the caller's promise.
    unsafe { kernel.run(Codes::<Unpacked<Lanes32>>::unpacked(values)) }
}

/// Runs a kernel on unpacked 64-bit values.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in crate::bits::arch) unsafe fn on_u64s<K: Kernel>(values: &[u64], kernel: K) -> K::Output {
    // SAFETY: the caller's promise.
    unsafe { kernel.run(Codes::<Unpacked<Lanes64>>::unpacked(values)) }
}
