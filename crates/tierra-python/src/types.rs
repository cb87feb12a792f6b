//! The names of types, as SQL writes them.

use arrow::datatypes::DataType;
use tierra::column::LogicalType;

/// The name of a column's or parameter's type.
pub(crate) fn name_of(ty: &DataType) -> String {
    match (LogicalType::of_arrow(ty), ty) {
        (Some(ty), _) => ty.to_string(),
        (None, DataType::Utf8 | DataType::LargeUtf8) => LogicalType::Varchar.to_string(),
        (None, DataType::Null) => "NULL".to_owned(),
        (None, DataType::Int8 | DataType::Int16) => "SMALLINT".to_owned(),
        (None, DataType::UInt64) => "BIGINT UNSIGNED".to_owned(),
        (None, DataType::Float32) => "REAL".to_owned(),
        (None, DataType::Time32(_) | DataType::Time64(_)) => "TIME".to_owned(),
        (None, DataType::Timestamp(_, Some(_))) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        (None, DataType::Timestamp(_, None)) => "TIMESTAMP".to_owned(),
        (None, DataType::Interval(_) | DataType::Duration(_)) => "INTERVAL".to_owned(),
        (
            None,
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
        ) => format!("{}[]", name_of(item.data_type())),
        (None, DataType::Dictionary(_, value)) => name_of(value),
        (None, other) => other.to_string(),
    }
}

/// Digits in all and after the point, of a DECIMAL.
pub(crate) fn digits(ty: &DataType) -> Option<(u8, i8)> {
    match ty {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}
