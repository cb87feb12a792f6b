//! The SQL types that a column can have, and what each becomes in memory and in a chunk.

use std::fmt;

use arrow::datatypes::{DataType, TimeUnit};

/// A column's type as SQL names it. Every type has NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogicalType {
    /// `false < true`.
    Boolean,
    /// 32 bits, signed.
    Integer,
    /// 64 bits, signed.
    BigInt,
    /// `precision` decimal digits, `scale` of them behind the point.
    Decimal {
        /// Digits in total, 1 to 38.
        precision: u8,
        /// Digits behind the point, at most `precision`.
        scale: u8,
    },
    /// IEEE 754 binary64 in its total order: `-0.0 < 0.0`, NaN above infinity, as arrow compares.
    Double,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01, no time zone.
    Timestamp,
    /// UTF-8, compared byte by byte.
    Varchar,
}

/// How a chunk treats a type: kernels specialise on this and on a width, never on the SQL type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Physical {
    /// Values map order-preserving to `u64` (see [`crate::ordinal`]) and can be packed.
    Ordinal,
    /// DECIMAL beyond 18 digits: plain 16 bytes.
    Wide,
    /// Strings.
    Bytes,
}

/// DECIMAL up to this many digits fits an `i64` and is packed like any integer.
pub(crate) const NARROW_DECIMAL_DIGITS: u8 = 18;

impl LogicalType {
    /// The arrow type of the arrays that hold this type's values.
    pub fn arrow(self) -> DataType {
        match self {
            LogicalType::Boolean => DataType::Boolean,
            LogicalType::Integer => DataType::Int32,
            LogicalType::BigInt => DataType::Int64,
            LogicalType::Decimal { precision, scale } => {
                DataType::Decimal128(precision, scale as i8)
            }
            LogicalType::Double => DataType::Float64,
            LogicalType::Date => DataType::Date32,
            LogicalType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            LogicalType::Varchar => DataType::Utf8View,
        }
    }

    /// The type whose arrays are `data_type`, if a column can have it.
    pub fn of_arrow(data_type: &DataType) -> Option<LogicalType> {
        Some(match data_type {
            DataType::Boolean => LogicalType::Boolean,
            DataType::Int32 => LogicalType::Integer,
            DataType::Int64 => LogicalType::BigInt,
            // No column has digits before the first or beyond the last one of its precision.
            &DataType::Decimal128(precision @ 1..=38, scale) => LogicalType::Decimal {
                precision,
                scale: u8::try_from(scale)
                    .ok()
                    .filter(|scale| *scale <= precision)?,
            },
            DataType::Float64 => LogicalType::Double,
            DataType::Date32 => LogicalType::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => LogicalType::Timestamp,
            DataType::Utf8View => LogicalType::Varchar,
            _ => return None,
        })
    }

    /// How chunks store it.
    pub fn physical(self) -> Physical {
        match self {
            LogicalType::Varchar => Physical::Bytes,
            LogicalType::Decimal { precision, .. } if precision > NARROW_DECIMAL_DIGITS => {
                Physical::Wide
            }
            LogicalType::Boolean
            | LogicalType::Integer
            | LogicalType::BigInt
            | LogicalType::Decimal { .. }
            | LogicalType::Double
            | LogicalType::Date
            | LogicalType::Timestamp => Physical::Ordinal,
        }
    }

    /// Bits of an ordinal of this type when nothing is known about its values; 0 for types
    /// without ordinals.
    pub(crate) fn natural_width(self) -> u8 {
        match (self.physical(), self) {
            (Physical::Wide | Physical::Bytes, _) => 0,
            (Physical::Ordinal, LogicalType::Boolean) => 1,
            (Physical::Ordinal, LogicalType::Integer | LogicalType::Date) => 32,
            (
                Physical::Ordinal,
                LogicalType::BigInt
                | LogicalType::Decimal { .. }
                | LogicalType::Double
                | LogicalType::Timestamp
                | LogicalType::Varchar,
            ) => 64,
        }
    }

    /// Type, precision and scale as they are stored.
    pub fn tag(self) -> [u8; 3] {
        match self {
            LogicalType::Boolean => [1, 0, 0],
            LogicalType::Integer => [2, 0, 0],
            LogicalType::BigInt => [3, 0, 0],
            LogicalType::Decimal { precision, scale } => [4, precision, scale],
            LogicalType::Double => [5, 0, 0],
            LogicalType::Date => [6, 0, 0],
            LogicalType::Timestamp => [7, 0, 0],
            LogicalType::Varchar => [8, 0, 0],
        }
    }

    /// The type stored as `tag`, if there is one.
    pub fn of_tag(tag: [u8; 3]) -> Option<LogicalType> {
        Some(match tag {
            [1, 0, 0] => LogicalType::Boolean,
            [2, 0, 0] => LogicalType::Integer,
            [3, 0, 0] => LogicalType::BigInt,
            [4, precision @ 1..=38, scale] if scale <= precision => {
                LogicalType::Decimal { precision, scale }
            }
            [5, 0, 0] => LogicalType::Double,
            [6, 0, 0] => LogicalType::Date,
            [7, 0, 0] => LogicalType::Timestamp,
            [8, 0, 0] => LogicalType::Varchar,
            _ => return None,
        })
    }
}

impl fmt::Display for LogicalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogicalType::Boolean => f.write_str("BOOLEAN"),
            LogicalType::Integer => f.write_str("INTEGER"),
            LogicalType::BigInt => f.write_str("BIGINT"),
            LogicalType::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            LogicalType::Double => f.write_str("DOUBLE"),
            LogicalType::Date => f.write_str("DATE"),
            LogicalType::Timestamp => f.write_str("TIMESTAMP"),
            LogicalType::Varchar => f.write_str("VARCHAR"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_its_tag_and_its_arrow_type() {
        for ty in [
            LogicalType::Boolean,
            LogicalType::Integer,
            LogicalType::BigInt,
            LogicalType::Decimal {
                precision: 18,
                scale: 2,
            },
            LogicalType::Decimal {
                precision: 38,
                scale: 38,
            },
            LogicalType::Double,
            LogicalType::Date,
            LogicalType::Timestamp,
            LogicalType::Varchar,
        ] {
            assert_eq!(LogicalType::of_tag(ty.tag()), Some(ty));
            assert_eq!(LogicalType::of_arrow(&ty.arrow()), Some(ty));
        }
        for (precision, scale) in [(0, 0), (39, 0), (5, 6), (5, -1)] {
            let ty = DataType::Decimal128(precision, scale);
            assert_eq!(LogicalType::of_arrow(&ty), None, "{ty}");
        }
        assert_eq!(LogicalType::of_tag([4, 39, 0]), None);
        assert_eq!(LogicalType::of_tag([4, 5, 6]), None);
        assert_eq!(LogicalType::of_tag([0, 0, 0]), None);
    }
}
