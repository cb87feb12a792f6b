//! Comparing a byte with all prints of a leaf: a multiple of sixteen, at most sixty-four.

/// A bit for each of the bytes that equals `print`.
#[inline(always)]
pub(super) fn equal<const PLACES: usize>(prints: &[u8; PLACES], print: u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        x86_64::equal(prints, print)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        portable(prints, print)
    }
}

/// For any processor; the oracle of the others.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable<const PLACES: usize>(prints: &[u8; PLACES], print: u8) -> u64 {
    let bytes = prints.iter().enumerate();
    bytes.fold(0, |bits, (place, byte)| {
        bits | u64::from(*byte == print) << place
    })
}

/// SSE2, which every x86-64 has.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

    #[inline(always)]
    pub(super) fn equal<const PLACES: usize>(prints: &[u8; PLACES], print: u8) -> u64 {
        const { assert!(PLACES.is_multiple_of(16) && PLACES <= 64) };
        let mut bits = 0;
        for (part, bytes) in prints.chunks_exact(16).enumerate() {
            // SAFETY: sixteen bytes are read from a slice of sixteen, at any alignment; SSE2 belongs to
            // the target.
            let equal = unsafe {
                let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
                _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(print as i8)))
            };
            bits |= (equal as u64 & 0xFFFF) << (16 * part);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 48;

    #[test]
    fn every_way_finds_the_same_bytes() {
        for print in [0, 1, 127, 128, 255] {
            for shift in 0..PLACES {
                let mut prints = [0; PLACES];
                for (place, byte) in prints.iter_mut().enumerate() {
                    *byte = if place % 5 == 0 || place == shift {
                        print
                    } else {
                        place as u8
                    };
                }
                assert_eq!(equal(&prints, print), portable(&prints, print));
                assert_eq!(equal(&prints, print) >> shift & 1, 1);
            }
        }
    }
}
