//! Which of PostgreSQL's types an Arrow type is.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, IntervalUnit, Schema, TimeUnit};
use pgwire::api::Type;

/// The numbers of types.
pub(crate) mod oid {
    pub(crate) const BOOL: u32 = 16;
    pub(crate) const BYTEA: u32 = 17;
    pub(crate) const NAME: u32 = 19;
    pub(crate) const INT8: u32 = 20;
    pub(crate) const INT2: u32 = 21;
    pub(crate) const INT4: u32 = 23;
    pub(crate) const TEXT: u32 = 25;
    pub(crate) const OID: u32 = 26;
    pub(crate) const JSON: u32 = 114;
    pub(crate) const FLOAT4: u32 = 700;
    pub(crate) const FLOAT8: u32 = 701;
    pub(crate) const UNKNOWN: u32 = 705;
    pub(crate) const BPCHAR: u32 = 1042;
    pub(crate) const VARCHAR: u32 = 1043;
    pub(crate) const DATE: u32 = 1082;
    pub(crate) const TIME: u32 = 1083;
    pub(crate) const TIMESTAMP: u32 = 1114;
    pub(crate) const TIMESTAMPTZ: u32 = 1184;
    pub(crate) const INTERVAL: u32 = 1186;
    pub(crate) const NUMERIC: u32 = 1700;
    pub(crate) const UUID: u32 = 2950;
}

/// A column as RowDescription has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) oid: u32,
    /// Bytes of a value; -1 if they differ.
    pub(crate) size: i16,
    /// Precision and scale; -1 if there are none.
    pub(crate) modifier: i32,
}

/// The columns of a result.
pub(crate) fn fields_of(schema: &Schema) -> Arc<[Field]> {
    schema
        .fields()
        .iter()
        .map(|field| field_of(field))
        .collect()
}

fn field_of(field: &ArrowField) -> Field {
    let ty = field.data_type();
    let oid = oid_of(ty);
    Field {
        // A zero would end it early, and what follows would be read as its type.
        name: field.name().replace('\0', "\\0"),
        oid,
        size: size_of(oid),
        modifier: match ty {
            DataType::Decimal128(precision, scale) if *scale >= 0 => {
                ((i32::from(*precision) << 16) | i32::from(*scale)) + 4
            }
            _ => -1,
        },
    }
}

fn size_of(oid: u32) -> i16 {
    match oid {
        oid::BOOL => 1,
        oid::INT2 => 2,
        oid::INT4 | oid::FLOAT4 | oid::DATE | oid::OID => 4,
        oid::INT8 | oid::FLOAT8 | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ => 8,
        oid::INTERVAL | oid::UUID => 16,
        oid::NAME => 64,
        _ => -1,
    }
}

/// The number of the type that values of `ty` have on the wire. What PostgreSQL has no type for is text.
pub(crate) fn oid_of(ty: &DataType) -> u32 {
    match ty {
        DataType::Boolean => oid::BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => oid::INT2,
        DataType::Int32 | DataType::UInt16 => oid::INT4,
        DataType::Int64 | DataType::UInt32 => oid::INT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => oid::NUMERIC,
        DataType::Float16 | DataType::Float32 => oid::FLOAT4,
        DataType::Float64 => oid::FLOAT8,
        DataType::Date32 => oid::DATE,
        DataType::Date64 | DataType::Timestamp(_, None) => oid::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => oid::TIMESTAMPTZ,
        DataType::Time32(_) | DataType::Time64(_) => oid::TIME,
        DataType::Duration(_) | DataType::Interval(_) => oid::INTERVAL,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => oid::BYTEA,
        DataType::Dictionary(_, value) => oid_of(value),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => match item.data_type() {
            // Arrays of arrays are tables of equal rows in PostgreSQL. Lists of lists need not be.
            item if is_list(item) => oid::TEXT,
            item => array_of(oid_of(item)).unwrap_or(oid::TEXT),
        },
        _ => oid::TEXT,
    }
}

fn is_list(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::FixedSizeList(..)
    )
}

/// The array type of an element type.
fn array_of(element: u32) -> Option<u32> {
    let mut all = ARRAYS.iter();
    let found = all.find(|(_, of)| of.oid() == element);
    found.map(|(array, _)| array.oid())
}

/// The element type of an array type.
pub(crate) fn element_of(array: u32) -> Option<u32> {
    let mut all = ARRAYS.iter();
    let found = all.find(|(of, _)| of.oid() == array);
    found.map(|(_, element)| element.oid())
}

const ARRAYS: &[(Type, Type)] = &[
    (Type::BOOL_ARRAY, Type::BOOL),
    (Type::BYTEA_ARRAY, Type::BYTEA),
    (Type::NAME_ARRAY, Type::NAME),
    (Type::INT8_ARRAY, Type::INT8),
    (Type::INT2_ARRAY, Type::INT2),
    (Type::INT4_ARRAY, Type::INT4),
    (Type::TEXT_ARRAY, Type::TEXT),
    (Type::OID_ARRAY, Type::OID),
    (Type::FLOAT4_ARRAY, Type::FLOAT4),
    (Type::FLOAT8_ARRAY, Type::FLOAT8),
    (Type::BPCHAR_ARRAY, Type::BPCHAR),
    (Type::VARCHAR_ARRAY, Type::VARCHAR),
    (Type::DATE_ARRAY, Type::DATE),
    (Type::TIME_ARRAY, Type::TIME),
    (Type::TIMESTAMP_ARRAY, Type::TIMESTAMP),
    (Type::TIMESTAMPTZ_ARRAY, Type::TIMESTAMPTZ),
    (Type::INTERVAL_ARRAY, Type::INTERVAL),
    (Type::NUMERIC_ARRAY, Type::NUMERIC),
    (Type::UUID_ARRAY, Type::UUID),
];

/// The Arrow type that a parameter of this type has; `None` if any will do, or the type is unknown.
pub(crate) fn type_of(oid: u32) -> Option<DataType> {
    Some(match oid {
        oid::BOOL => DataType::Boolean,
        oid::INT2 => DataType::Int16,
        oid::INT4 => DataType::Int32,
        oid::INT8 | oid::OID => DataType::Int64,
        oid::FLOAT4 => DataType::Float32,
        oid::FLOAT8 => DataType::Float64,
        // How many digits it has only its value tells.
        oid::NUMERIC => DataType::Decimal128(38, 10),
        oid::DATE => DataType::Date32,
        oid::TIME => DataType::Time64(TimeUnit::Microsecond),
        oid::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        oid::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        oid::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        oid::BYTEA => DataType::Binary,
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::UUID | oid::JSON => {
            DataType::Utf8
        }
        array => {
            let item = type_of(element_of(array)?)?;
            DataType::new_list(item, true)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_their_digits_and_lists_their_items() {
        let schema = Schema::new(vec![
            ArrowField::new("d", DataType::Decimal128(9, 2), true),
            ArrowField::new("l", DataType::new_list(DataType::Int64, true), true),
            ArrowField::new(
                "n\0",
                DataType::new_list(DataType::new_list(DataType::Int64, true), true),
                true,
            ),
        ]);
        let fields = fields_of(&schema);
        assert_eq!(fields[0].modifier, (9 << 16 | 2) + 4);
        assert_eq!((fields[1].oid, fields[2].oid), (1016, oid::TEXT));
        assert_eq!(fields[2].name, "n\\0");
        assert_eq!(
            type_of(1016),
            Some(DataType::new_list(DataType::Int64, true))
        );
        assert_eq!(type_of(oid::UNKNOWN), None);
    }
}
