//! Comparing the sixteen bytes at the head of a group at once.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::equal_bytes;

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(not(target_arch = "x86_64"))]
pub(super) use portable::equal_bytes;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_implementation_finds_the_same_bytes(bytes: [u8; 16], at in 0usize..16, other: u8) {
            for wanted in [bytes[at], other] {
                prop_assert_eq!(super::equal_bytes(&bytes, wanted), super::portable::equal_bytes(&bytes, wanted));
            }
        }
    }
}
