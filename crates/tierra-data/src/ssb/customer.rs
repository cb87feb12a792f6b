//! The dimension `customer`.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Int32Array, StringViewArray},
    datatypes::DataType::{self, Int32, Utf8View},
};

use super::place::{Places, names};
use crate::draw::Draw;

/// Names and types, in order.
pub(super) const COLUMNS: [(&str, DataType); 8] = [
    ("c_custkey", Int32),
    ("c_name", Utf8View),
    ("c_address", Utf8View),
    ("c_city", Utf8View),
    ("c_nation", Utf8View),
    ("c_region", Utf8View),
    ("c_phone", Utf8View),
    ("c_mktsegment", Utf8View),
];

const SEGMENTS: [&str; 5] = [
    "AUTOMOBILE",
    "BUILDING",
    "FURNITURE",
    "MACHINERY",
    "HOUSEHOLD",
];

/// The columns of `rows`.
pub(super) fn columns(rows: Range<u64>) -> Vec<ArrayRef> {
    const CITY: Draw = Draw::named("customer.city");
    const ADDRESS: Draw = Draw::named("customer.address");
    const PHONE: Draw = Draw::named("customer.phone");
    const SEGMENT: Draw = Draw::named("customer.mktsegment");
    let keys = rows.clone().map(|row| row as i32 + 1);
    let places = Places::of(rows.clone(), CITY, ADDRESS, PHONE);
    let segments = rows.clone().map(|row| SEGMENT.pick(row, &SEGMENTS));
    vec![
        Arc::new(Int32Array::from_iter_values(keys)),
        Arc::new(names("Customer", rows)),
        Arc::new(places.address),
        Arc::new(places.city),
        Arc::new(places.nation),
        Arc::new(places.region),
        Arc::new(places.phone),
        Arc::new(StringViewArray::from_iter_values(segments)),
    ]
}
