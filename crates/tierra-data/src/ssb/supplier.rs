//! The dimension `supplier`.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Int32Array},
    datatypes::DataType::{self, Int32, Utf8View},
};

use super::place::{Places, names};
use crate::draw::Draw;

/// Names and types, in order.
pub(super) const COLUMNS: [(&str, DataType); 7] = [
    ("s_suppkey", Int32),
    ("s_name", Utf8View),
    ("s_address", Utf8View),
    ("s_city", Utf8View),
    ("s_nation", Utf8View),
    ("s_region", Utf8View),
    ("s_phone", Utf8View),
];

/// The columns of `rows`.
pub(super) fn columns(rows: Range<u64>) -> Vec<ArrayRef> {
    const CITY: Draw = Draw::named("supplier.city");
    const ADDRESS: Draw = Draw::named("supplier.address");
    const PHONE: Draw = Draw::named("supplier.phone");
    let keys = rows.clone().map(|row| row as i32 + 1);
    let places = Places::of(rows.clone(), CITY, ADDRESS, PHONE);
    vec![
        Arc::new(Int32Array::from_iter_values(keys)),
        Arc::new(names("Supplier", rows)),
        Arc::new(places.address),
        Arc::new(places.city),
        Arc::new(places.nation),
        Arc::new(places.region),
        Arc::new(places.phone),
    ]
}
