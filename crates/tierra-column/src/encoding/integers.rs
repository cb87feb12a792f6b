//! A block's integers where they lie, for types whose values are one sum away from their ordinals: nothing is copied before it is
//! packed.
//!
//! Invariant: an integer is its ordinal with the sign bit of its type flipped, which is that bit added, modulo the type's size.

use std::ops::Range;

use crate::bits::{Kernels, width_of};
use crate::block::Summary;
use crate::ordinal;

/// A block of INTEGER and DATE, or of BIGINT and TIMESTAMP, without a NULL.
#[derive(Clone, Copy)]
pub(crate) enum Integers<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

impl Integers<'_> {
    pub(crate) fn rows(self) -> usize {
        match self {
            Integers::Narrow(values) => values.len(),
            Integers::Wide(values) => values.len(),
        }
    }

    /// Least and greatest.
    pub(crate) fn summary(self, kernels: Kernels) -> Summary {
        let (min, max) = kernels.compiled(|| match self {
            Integers::Narrow(values) => {
                let (min, max) = extremes(values, i32::MAX, i32::MIN, i32::min, i32::max);
                (ordinal::of_i32(min), ordinal::of_i32(max))
            }
            Integers::Wide(values) => {
                let (min, max) = extremes(values, i64::MAX, i64::MIN, i64::min, i64::max);
                (ordinal::of_i64(min), ordinal::of_i64(max))
            }
        });
        Summary {
            min,
            max,
            null_count: 0,
        }
    }

    /// Whether codes of this width can be computed at the size of the integers.
    pub(crate) fn have_codes(self, width: u8) -> bool {
        match self {
            Integers::Narrow(_) => width <= 32,
            Integers::Wide(_) => true,
        }
    }

    /// Packs `ordinal - base`, all of which have the width.
    pub(crate) fn pack(self, kernels: Kernels, base: u64, width: u8, out: &mut [u8]) {
        debug_assert!(self.have_codes(width));
        match self {
            Integers::Narrow(values) => {
                kernels.pack_from(values, ordinal::to_i32(base), width, out);
            }
            Integers::Wide(values) => kernels.pack_from(values, ordinal::to_i64(base), width, out),
        }
    }

    /// Those of some rows, as far as there are these.
    pub(crate) fn part(self, rows: Range<usize>) -> Self {
        let rows = rows.start..rows.end.min(self.rows());
        match self {
            Integers::Narrow(values) => Integers::Narrow(&values[rows]),
            Integers::Wide(values) => Integers::Wide(&values[rows]),
        }
    }

    /// The width that `ordinal - base` of every mini-block needs. All codes have the size of the integers.
    pub(crate) fn mini_widths(
        self,
        kernels: Kernels,
        base: u64,
        mini_len: usize,
        widths: &mut [u8],
    ) {
        kernels.compiled(|| match self {
            Integers::Narrow(values) => {
                let base = ordinal::to_i32(base);
                for (width, mini) in widths.iter_mut().zip(values.chunks(mini_len)) {
                    let bits = mini
                        .iter()
                        .fold(0, |bits, value| bits | value.wrapping_sub(base));
                    *width = width_of(u64::from(bits as u32));
                }
            }
            Integers::Wide(values) => {
                let base = ordinal::to_i64(base);
                for (width, mini) in widths.iter_mut().zip(values.chunks(mini_len)) {
                    let bits = mini
                        .iter()
                        .fold(0, |bits, value| bits | value.wrapping_sub(base));
                    *width = width_of(bits as u64);
                }
            }
        });
    }
}

#[inline(always)]
fn extremes<T: Copy>(
    values: &[T],
    greatest: T,
    least: T,
    min: fn(T, T) -> T,
    max: fn(T, T) -> T,
) -> (T, T) {
    values
        .iter()
        .fold((greatest, least), |(low, high), &value| {
            (min(low, value), max(high, value))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_and_widths_are_those_of_ordinals() {
        let narrow = [i32::MIN, -1, 0, 7, i32::MAX];
        let wide = [i64::MIN, -1, 0, 7, i64::MAX];
        let summary = |integers: Integers| integers.summary(Kernels::best());
        assert_eq!(summary(Integers::Narrow(&narrow)).min, 0);
        assert_eq!(summary(Integers::Narrow(&narrow)).max, u64::from(u32::MAX));
        assert_eq!(summary(Integers::Wide(&wide)).max, u64::MAX);
        let mut widths = [0; 3];
        let base = ordinal::of_i32(-1);
        Integers::Narrow(&narrow[1..4]).mini_widths(Kernels::best(), base, 2, &mut widths);
        assert_eq!(widths, [1, 4, 0]);
    }
}
