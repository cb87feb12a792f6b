//! What a connection tells about database and driver.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants;
use adbc_core::error::{Error, Result, Status};
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray,
    new_empty_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;

/// A value of the union's types.
enum Value {
    Text(&'static str),
    Truth(bool),
    Number(i64),
}

static TOLD: [(InfoCode, Value); 9] = [
    (InfoCode::VendorName, Value::Text("Tierra")),
    (
        InfoCode::VendorVersion,
        Value::Text(env!("CARGO_PKG_VERSION")),
    ),
    (
        InfoCode::VendorArrowVersion,
        Value::Text(arrow::ARROW_VERSION),
    ),
    (InfoCode::VendorSql, Value::Truth(true)),
    (InfoCode::VendorSubstrait, Value::Truth(false)),
    (InfoCode::DriverName, Value::Text("Tierra ADBC driver")),
    (
        InfoCode::DriverVersion,
        Value::Text(env!("CARGO_PKG_VERSION")),
    ),
    (
        InfoCode::DriverArrowVersion,
        Value::Text(arrow::ARROW_VERSION),
    ),
    (
        InfoCode::DriverAdbcVersion,
        Value::Number(constants::ADBC_VERSION_1_1_0 as i64),
    ),
];

/// The rows for `codes`, or for all. An unknown code has no row.
pub(crate) fn info(codes: Option<&HashSet<InfoCode>>) -> Result<RecordBatch> {
    let is_asked = |code: &InfoCode| codes.is_none_or(|codes| codes.contains(code));
    let (mut names, mut kinds, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut truths, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, value) in TOLD.iter().filter(|(code, _)| is_asked(code)) {
        names.push(u32::from(code));
        // The place of the value's type among those of the union.
        let (kind, place) = match *value {
            Value::Text(text) => {
                texts.push(text);
                (0, texts.len() - 1)
            }
            Value::Truth(truth) => {
                truths.push(truth);
                (1, truths.len() - 1)
            }
            Value::Number(number) => {
                numbers.push(number);
                (2, numbers.len() - 1)
            }
        };
        kinds.push(kind);
        places.push(place as i32);
    }
    let schema = Arc::clone(&GET_INFO_SCHEMA);
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        return Err(Error::with_message_and_status(
            "ADBC's schema of information has no union",
            Status::Internal,
        ));
    };
    let mut children: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(truths)),
        Arc::new(Int64Array::from(numbers)),
    ];
    let others = fields.iter().skip(children.len());
    children.extend(others.map(|(_, field)| new_empty_array(field.data_type())));
    let values = UnionArray::try_new(
        fields.clone(),
        ScalarBuffer::from(kinds),
        Some(ScalarBuffer::from(places)),
        children,
    )?;
    let columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(names)), Arc::new(values)];
    Ok(RecordBatch::try_new(schema, columns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_told() {
        assert_eq!(info(None).unwrap().num_rows(), TOLD.len());
        let some = HashSet::from([
            InfoCode::DriverAdbcVersion,
            InfoCode::VendorName,
            InfoCode::Other(12_345),
        ]);
        let told = info(Some(&some)).unwrap();
        assert_eq!(told.num_rows(), 2);
        assert_eq!(info(Some(&HashSet::new())).unwrap().num_rows(), 0);
    }
}
