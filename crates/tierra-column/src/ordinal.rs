//! Order-preserving `u64` encodings of values: `a < b` in SQL exactly where `ordinal(a) < ordinal(b)`.
//!
//! Every encoding and every kernel works on ordinals, so they are written once for all types.
//! Each mapping is a bijection onto its image: what was stored comes back bit for bit, NaN
//! payloads and negative zero included.

use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

/// Ordinal of an INTEGER or DATE: within the low 32 bits.
#[inline]
pub fn of_i32(value: i32) -> u64 {
    u64::from(value as u32 ^ SIGN_32)
}

/// The INTEGER or DATE with this ordinal; only the low 32 bits count.
#[inline]
pub fn to_i32(ordinal: u64) -> i32 {
    (ordinal as u32 ^ SIGN_32) as i32
}

/// Ordinal of a BIGINT, TIMESTAMP, or DECIMAL of up to 18 digits.
#[inline]
pub fn of_i64(value: i64) -> u64 {
    value as u64 ^ SIGN_64
}

/// The BIGINT, TIMESTAMP or narrow DECIMAL with this ordinal.
#[inline]
pub fn to_i64(ordinal: u64) -> i64 {
    (ordinal ^ SIGN_64) as i64
}

/// Ordinal of a DOUBLE in IEEE 754 total order, the order of `f64::total_cmp`.
#[inline]
pub fn of_f64(value: f64) -> u64 {
    let bits = value.to_bits();
    // Negative numbers grow with their magnitude's complement, positive ones lie above them.
    bits ^ (((bits as i64 >> 63) as u64) | SIGN_64)
}

/// The DOUBLE with this ordinal.
#[inline]
pub fn to_f64(ordinal: u64) -> f64 {
    f64::from_bits(ordinal ^ (((!ordinal as i64 >> 63) as u64) | SIGN_64))
}

/// Ordinal of a wide DECIMAL for block statistics only: never decreasing, but values outside the
/// 64-bit range share the first or last ordinal.
#[inline]
pub(crate) fn of_i128_saturating(value: i128) -> u64 {
    of_i64(value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// Ordinal of a string for block statistics only: its first eight bytes, never decreasing.
#[inline]
pub(crate) fn of_prefix(bytes: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    let len = bytes.len().min(8);
    prefix[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(prefix)
}

/// An arrow type whose values have ordinals.
pub(crate) trait OrdinalType: ArrowPrimitiveType {
    fn to_ordinal(value: Self::Native) -> u64;
    fn from_ordinal(ordinal: u64) -> Self::Native;
}

macro_rules! ordinal_type {
    ($($arrow:ty => $to:expr, $from:expr;)*) => {$(
        impl OrdinalType for $arrow {
            #[inline]
            fn to_ordinal(value: Self::Native) -> u64 {
                $to(value)
            }
            #[inline]
            fn from_ordinal(ordinal: u64) -> Self::Native {
                $from(ordinal)
            }
        }
    )*};
}

ordinal_type! {
    Int32Type => of_i32, to_i32;
    Date32Type => of_i32, to_i32;
    Int64Type => of_i64, to_i64;
    TimestampMicrosecondType => of_i64, to_i64;
    Float64Type => of_f64, to_f64;
    // Only for narrow decimals, whose values fit: checked where values enter a chunk.
    Decimal128Type => (|value: i128| of_i64(value as i64)), (|ordinal| i128::from(to_i64(ordinal)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_keep_their_total_order_and_their_bits() {
        let mut values = vec![
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            1.5,
            -1.5,
            f64::MIN_POSITIVE,
            f64::MAX,
            f64::MIN,
            5e-324,
        ];
        values.sort_by(f64::total_cmp);
        for pair in values.windows(2) {
            assert!(of_f64(pair[0]) < of_f64(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(to_f64(of_f64(value)).to_bits(), value.to_bits());
        }
    }

    proptest! {
        #[test]
        fn integers_keep_their_order(a: i64, b: i64) {
            prop_assert_eq!(a.cmp(&b), of_i64(a).cmp(&of_i64(b)));
            prop_assert_eq!(to_i64(of_i64(a)), a);
            let (c, d) = (a as i32, b as i32);
            prop_assert_eq!(c.cmp(&d), of_i32(c).cmp(&of_i32(d)));
            prop_assert_eq!(to_i32(of_i32(c)), c);
            prop_assert!(of_i32(c) <= u64::from(u32::MAX));
        }

        #[test]
        fn doubles_keep_their_order(a: u64, b: u64) {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            prop_assert_eq!(x.total_cmp(&y), of_f64(x).cmp(&of_f64(y)));
            prop_assert_eq!(to_f64(of_f64(x)).to_bits(), a);
        }

        #[test]
        fn statistics_never_decrease(a: i128, b: i128, s: Vec<u8>, t: Vec<u8>) {
            if a <= b {
                prop_assert!(of_i128_saturating(a) <= of_i128_saturating(b));
            }
            if s <= t {
                prop_assert!(of_prefix(&s) <= of_prefix(&t));
            }
        }
    }
}
