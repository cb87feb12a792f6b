//! SSE 4.2: registers of 16 bytes, codes in 32-bit lanes up to 25 bits and in 64-bit lanes above. It has neither gathers nor
//! shifts by a distance of each lane's own: bitmaps are tested lane by lane, and `windows` multiplies instead.

mod lanes32;
mod lanes64;
mod methods;
mod windows;

use super::super::generic::{Codes, Kernel};
use crate::bits::{packing::Block, vector::Unpacked};
use lanes32::Lanes32;
use lanes64::Lanes64;
use methods::sse42;
use windows::{OneByOne, Windows32};

/// Runs code that the compiler may vectorise.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "sse4.2,popcnt")]
pub(in crate::bits::arch) unsafe fn compiled<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Runs a kernel on packed codes.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "sse4.2,popcnt")]
pub(in crate::bits::arch) unsafe fn on_codes<K: Kernel>(block: Block<'_>, kernel: K) -> K::Output {
    let width = block.width();
    // SAFETY: the CPU has the features by the caller's promise. The way to unpack is for the
    // block's width, which is among those it can do.
    unsafe {
        match width {
            0..=25 => kernel.run(Codes::packed(block, Windows32::new(width))),
            32 => kernel.run(Codes::packed(block, Unpacked::<Lanes32>::new())),
            26..=57 => kernel.run(Codes::packed(block, OneByOne::<false>::new(width))),
            64 => kernel.run(Codes::packed(block, Unpacked::<Lanes64>::new())),
            _ => kernel.run(Codes::packed(block, OneByOne::<true>::new(width))),
        }
    }
}

/// Runs a kernel on unpacked 32-bit values.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "sse4.2,popcnt")]
pub(in crate::bits::arch) unsafe fn on_u32s<K: Kernel>(values: &[u32], kernel: K) -> K::Output {
    // SAFETY: the caller's promise.
    unsafe { kernel.run(Codes::<Unpacked<Lanes32>>::unpacked(values)) }
}

/// Runs a kernel on unpacked 64-bit values.
///
/// # Safety
/// The CPU has the level.
#[target_feature(enable = "sse4.2,popcnt")]
pub(in crate::bits::arch) unsafe fn on_u64s<K: Kernel>(values: &[u64], kernel: K) -> K::Output {
    // SAFETY: the caller's promise.
    unsafe { kernel.run(Codes::<Unpacked<Lanes64>>::unpacked(values)) }
}
