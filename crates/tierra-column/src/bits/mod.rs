//! Bit-packed codes: their layout, selections of rows, and the kernels that work on packed codes.
//!
//! A **block** is up to [`BLOCK_LEN`] codes of one **width** (0 to 64 bits), laid out bit after bit
//! without gaps, lowest bit first:
//!
//! ```text
//! width 5     byte 0           byte 1           byte 2
//!        7 6 5|4 3 2 1 0  7|6 5 4 3 2|1 0  ...
//!        code1|  code 0  c3|  code 2 |code 1   code i = bits [i * width, (i + 1) * width)
//! ```
//!
//! A random code therefore lies in one cache line, rarely in two, and every run of eight codes
//! starts on a byte. At least [`PAD_BYTES`] readable bytes follow the last packed byte, whatever
//! they hold, so that a kernel may load a whole register anywhere in a block.
//!
//! [`Kernels`] is how everyone else computes on codes. Each kernel is written once, in
//! `arch/generic`, over the verbs of the `Vector` trait; `arch/scalar` and, in `arch/x86_64`,
//! `sse42`, `avx2` and `avx512` implement the verbs. The fastest level is detected once ([`Level::detect`]); who wants
//! another makes [`Kernels::at`] it.
//!
//! ```
//! use tierra_column::bits::{Kernels, Mask, PAD_BYTES, packed_bytes};
//!
//! let kernels = Kernels::best();
//! let codes: Vec<u64> = (0..1000).map(|row| row % 7).collect();
//! let mut packed = vec![0; packed_bytes(codes.len(), 3) + PAD_BYTES];
//! kernels.pack(&codes, 3, &mut packed);
//!
//! let mut mask = Mask::first(codes.len());
//! kernels.select_between(&packed, 3, codes.len(), 2, 3, &mut mask);
//! assert_eq!(mask.iter().take(4).collect::<Vec<_>>(), [2, 3, 9, 10]);
//! assert_eq!(kernels.sum(&packed, 3, codes.len(), Some(&mask)), 143 * 2 + 143 * 3);
//! ```

mod arch;
mod code_bits;
mod kernels;
mod level;
mod mask;
mod packing;
#[cfg(test)]
mod tests;
mod vector;

pub(crate) use code_bits::CodeBits;
pub use kernels::{CodeOutOfRange, Kernels};
pub use level::{Level, ParseLevelError};
pub use mask::{Mask, SetBits};
pub(crate) use packing::width_of;
pub use packing::{Unit, max_code, packed_bytes};

/// Codes in a full block.
pub const BLOCK_LEN: usize = 1024;

/// Bytes that must be readable after the last packed byte of a block.
pub const PAD_BYTES: usize = 64;

/// The widest code in bits.
pub const MAX_WIDTH: u8 = 64;
