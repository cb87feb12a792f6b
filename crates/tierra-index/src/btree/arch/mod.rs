//! Comparing a byte with all fingerprints of a leaf: a multiple of sixteen, at most sixty-four.

/// A bit for each of the bytes that equals `fingerprint`.
#[inline(always)]
pub(super) fn equal<const LEAF_SLOTS: usize>(
    fingerprints: &[u8; LEAF_SLOTS],
    fingerprint: u8,
) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        x86_64::equal(fingerprints, fingerprint)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        portable(fingerprints, fingerprint)
    }
}

/// For any processor; the oracle of the others.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable<const LEAF_SLOTS: usize>(fingerprints: &[u8; LEAF_SLOTS], fingerprint: u8) -> u64 {
    let bytes = fingerprints.iter().enumerate();
    bytes.fold(0, |bits, (index, byte)| {
        bits | u64::from(*byte == fingerprint) << index
    })
}

/// SSE2, which every x86-64 has.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

    #[inline(always)]
    pub(super) fn equal<const LEAF_SLOTS: usize>(
        fingerprints: &[u8; LEAF_SLOTS],
        fingerprint: u8,
    ) -> u64 {
        const { assert!(LEAF_SLOTS.is_multiple_of(16) && LEAF_SLOTS <= 64) };
        let mut bits = 0;
        for (part, bytes) in fingerprints.chunks_exact(16).enumerate() {
            // SAFETY: sixteen bytes are read from a slice of sixteen, at any alignment; SSE2 belongs to
            // the target.
            let equal = unsafe {
                let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
                _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(fingerprint as i8)))
            };
            bits |= (equal as u64 & 0xFFFF) << (16 * part);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF_SLOTS: usize = 48;

    #[test]
    fn every_way_finds_the_same_bytes() {
        for fingerprint in [0, 1, 127, 128, 255] {
            for shift in 0..LEAF_SLOTS {
                let mut fingerprints = [0; LEAF_SLOTS];
                for (index, byte) in fingerprints.iter_mut().enumerate() {
                    *byte = if index % 5 == 0 || index == shift {
                        fingerprint
                    } else {
                        index as u8
                    };
                }
                assert_eq!(
                    equal(&fingerprints, fingerprint),
                    portable(&fingerprints, fingerprint)
                );
                assert_eq!(equal(&fingerprints, fingerprint) >> shift & 1, 1);
            }
        }
    }
}
