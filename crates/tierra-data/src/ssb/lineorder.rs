//! The fact table `lineorder`.
//!
//! Seven orders in a row have 1 to 7 lines, each number once, in a shuffled order: a **run** of 28
//! rows. So row r lies in run r / 28, and any range of rows is made without those before it.
//!
//! ```text
//! run 0: order 0 (3 lines), order 1 (7), order 2 (1), .. order 6   rows  0..28
//! run 1: order 7 (5 lines), ..                                      rows 28..56
//! ```

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, Int32Array, StringViewArray},
    datatypes::DataType::{self, Int32, Utf8View},
};

use super::{Table, date, part};
use crate::{Scale, draw::Draw};

/// Names and types, in order.
pub(super) const COLUMNS: [(&str, DataType); 17] = [
    ("lo_orderkey", Int32),
    ("lo_linenumber", Int32),
    ("lo_custkey", Int32),
    ("lo_partkey", Int32),
    ("lo_suppkey", Int32),
    ("lo_orderdate", Int32),
    ("lo_orderpriority", Utf8View),
    ("lo_shippriority", Utf8View),
    ("lo_quantity", Int32),
    ("lo_extendedprice", Int32),
    ("lo_ordtotalprice", Int32),
    ("lo_discount", Int32),
    ("lo_revenue", Int32),
    ("lo_supplycost", Int32),
    ("lo_tax", Int32),
    ("lo_commitdate", Int32),
    ("lo_shipmode", Utf8View),
];

/// Orders in a run, and the most lines of an order.
const RUN_ORDERS: u64 = 7;
/// Rows in a run: 1 + 2 + .. + 7.
const RUN_ROWS: u64 = RUN_ORDERS * (RUN_ORDERS + 1) / 2;

const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
const SHIP_MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];

/// The streams of an order's values, read at the order's number.
mod per_order {
    use super::Draw;
    pub(super) const LINES: Draw = Draw::named("lineorder.lines");
    pub(super) const CUSTOMER: Draw = Draw::named("lineorder.custkey");
    pub(super) const DATE: Draw = Draw::named("lineorder.orderdate");
    pub(super) const PRIORITY: Draw = Draw::named("lineorder.orderpriority");
}

/// The streams of a line's values, read at the line's row number.
mod per_line {
    use super::Draw;
    pub(super) const PART: Draw = Draw::named("lineorder.partkey");
    pub(super) const SUPPLIER: Draw = Draw::named("lineorder.suppkey");
    pub(super) const QUANTITY: Draw = Draw::named("lineorder.quantity");
    pub(super) const DISCOUNT: Draw = Draw::named("lineorder.discount");
    pub(super) const TAX: Draw = Draw::named("lineorder.tax");
    pub(super) const COMMIT: Draw = Draw::named("lineorder.commitdate");
    pub(super) const SHIP_MODE: Draw = Draw::named("lineorder.shipmode");
}

/// The priced part of a line, of which an order's total needs all.
#[derive(Clone, Copy)]
struct Line {
    part: i32,
    quantity: i32,
    discount: i32,
    tax: i32,
    extended_price: i32,
    revenue: i32,
}

impl Line {
    fn at(row: u64, parts: u64) -> Self {
        let part = per_line::PART.below(row, parts) as i32 + 1;
        let quantity = per_line::QUANTITY.between(row, 1, 50);
        let discount = per_line::DISCOUNT.between(row, 0, 10);
        let extended_price = quantity * part::price_cents(part);
        Self {
            part,
            quantity,
            discount,
            tax: per_line::TAX.between(row, 0, 8),
            extended_price,
            // In 64 bits: the product passes 2^31 before the division.
            revenue: (i64::from(extended_price) * i64::from(100 - discount) / 100) as i32,
        }
    }

    fn taxed(self) -> i64 {
        i64::from(self.revenue) * i64::from(100 + self.tax) / 100
    }
}

/// The order with this number's key: as in TPC-H, only 8 of every 32 keys are used.
fn order_key(order: u64) -> i32 {
    (order / 8 * 32 + order % 8 + 1) as i32
}

/// The columns of `rows`.
pub(super) fn columns(scale: Scale, rows: Range<u64>) -> Vec<ArrayRef> {
    let customers = Table::Customer.rows(scale);
    let suppliers = Table::Supplier.rows(scale);
    let parts = Table::Part.rows(scale);
    let capacity = (rows.end - rows.start) as usize;
    let mut ints: [Vec<i32>; 14] = std::array::from_fn(|_| Vec::with_capacity(capacity));
    let mut priorities = Vec::with_capacity(capacity);
    let mut ship_modes = Vec::with_capacity(capacity);

    for run in rows.start / RUN_ROWS..rows.end.div_ceil(RUN_ROWS) {
        let mut first_row = run * RUN_ROWS;
        let deck: [u16; RUN_ORDERS as usize] = per_order::LINES.shuffled(run);
        for (order, drawn) in (run * RUN_ORDERS..).zip(deck) {
            let order_rows = first_row..first_row + u64::from(drawn) + 1;
            first_row = order_rows.end;
            if order_rows.end <= rows.start || order_rows.start >= rows.end {
                continue;
            }
            let mut lines = [Line::at(order_rows.start, parts); RUN_ORDERS as usize];
            let count = usize::from(drawn) + 1;
            for (line, row) in lines.iter_mut().zip(order_rows.clone()) {
                *line = Line::at(row, parts);
            }
            let total: i64 = lines[..count].iter().map(|line| line.taxed()).sum();
            let customer = per_order::CUSTOMER.below(order, customers) as i32 + 1;
            let day = per_order::DATE.below(order, date::ORDER_DAYS as u64) as usize;
            let priority = per_order::PRIORITY.pick(order, &PRIORITIES);
            for (number, (row, line)) in (1..).zip(order_rows.zip(lines)) {
                if !rows.contains(&row) {
                    continue;
                }
                let commit_day = day + per_line::COMMIT.between(row, 30, 90) as usize;
                let values = [
                    order_key(order),
                    number,
                    customer,
                    line.part,
                    per_line::SUPPLIER.below(row, suppliers) as i32 + 1,
                    date::KEYS[day],
                    line.quantity,
                    line.extended_price,
                    total as i32,
                    line.discount,
                    line.revenue,
                    part::price_cents(line.part) * 6 / 10,
                    line.tax,
                    date::KEYS[commit_day],
                ];
                for (column, value) in ints.iter_mut().zip(values) {
                    column.push(value);
                }
                priorities.push(priority);
                ship_modes.push(per_line::SHIP_MODE.pick(row, &SHIP_MODES));
            }
        }
    }

    let words =
        |words: Vec<&str>| -> ArrayRef { Arc::new(StringViewArray::from_iter_values(words)) };
    let mut columns: Vec<ArrayRef> = ints
        .into_iter()
        .map(|values| Arc::new(Int32Array::from(values)) as ArrayRef)
        .collect();
    columns.insert(6, words(priorities));
    columns.insert(7, words(vec!["0"; capacity]));
    columns.push(words(ship_modes));
    columns
}
