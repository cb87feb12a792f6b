//! The consistency conditions of the specification, clause 3.3.2.1 to 3.3.2.12, each a query that counts what violates it.
//!
//! The eleventh is about the tables as they were at first; since then a delivery takes a new order away, so these are counted.

use super::tables::{DISTRICTS, Size};
use crate::error::{Context, LabError};
use crate::peers::postgres::Client;

/// Their number.
pub(super) const COUNT: u64 = 12;

const ORDER_OF_LINE: &str = "o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id";

/// What was acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acknowledged {
    pub(super) new_orders: u64,
    pub(super) payments: u64,
    /// Orders, not transactions, each of which delivers up to ten.
    pub(super) delivered: u64,
}

impl std::ops::AddAssign for Acknowledged {
    fn add_assign(&mut self, other: Acknowledged) {
        self.new_orders += other.new_orders;
        self.payments += other.payments;
        self.delivered += other.delivered;
    }
}

/// Counts what violates each condition, by its number; the last counts differences from what was acknowledged.
pub(super) fn violations(
    client: &mut Client,
    who: &str,
    size: Size,
    done: Acknowledged,
) -> Result<Vec<(String, u64)>, LabError> {
    let mut counted = Vec::new();
    for (number, sql) in (1..).zip(queries(size, done)) {
        let found = client.query(&sql);
        let found = found.by(who, format!("checking condition {number}: {sql}"))?;
        let count = found
            .rows
            .first()
            .and_then(|row| row.first()?.as_deref()?.parse().ok());
        let count = count.ok_or("it has no number").by(who, sql)?;
        let name = match number {
            1..=COUNT => format!("3.3.2.{number}"),
            _ => "what was acknowledged is there, and nothing else".to_owned(),
        };
        counted.push((name, count));
    }
    Ok(counted)
}

fn queries(size: Size, done: Acknowledged) -> Vec<String> {
    // Customers with what they have paid, and what was delivered to them.
    let accounts = "customer
        LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h
            ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
        LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount FROM orders JOIN order_line ON ORDER_OF_LINE
                WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS o
            ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id"
        .replace("ORDER_OF_LINE", ORDER_OF_LINE);
    let districts = size.warehouses * DISTRICTS;
    let orders = districts * size.customers + done.new_orders;
    let waiting =
        districts * (size.customers - size.delivered()) + done.new_orders - done.delivered;
    let payments = districts * size.customers + done.payments;
    vec![
        "SELECT count(*) FROM warehouse LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id
         WHERE ytd IS NULL OR ytd <> w_ytd".to_owned(),
        "SELECT count(*) FROM district
         LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM orders GROUP BY o_w_id, o_d_id) AS o
             ON o_w_id = d_w_id AND o_d_id = d_id
         LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS waiting FROM new_order GROUP BY no_w_id, no_d_id) AS n
             ON no_w_id = d_w_id AND no_d_id = d_id
         WHERE newest IS NULL OR newest <> d_next_o_id - 1 OR waiting <> d_next_o_id - 1".to_owned(),
        "SELECT count(*) FROM (SELECT max(no_o_id) - min(no_o_id) + 1 AS span, count(*) AS orders FROM new_order
             GROUP BY no_w_id, no_d_id) AS n WHERE span <> orders".to_owned(),
        "SELECT count(*) FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS counted FROM orders GROUP BY o_w_id, o_d_id) AS o
         FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY ol_w_id, ol_d_id) AS l
             ON o_w_id = ol_w_id AND o_d_id = ol_d_id
         WHERE counted IS NULL OR lines IS NULL OR counted <> lines".to_owned(),
        "SELECT count(*) FROM orders FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
         WHERE o_id IS NULL OR (o_carrier_id IS NULL AND no_o_id IS NULL) OR (o_carrier_id IS NOT NULL AND no_o_id IS NOT NULL)".to_owned(),
        format!("SELECT count(*) FROM orders FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM order_line
             GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON {ORDER_OF_LINE}
         WHERE o_id IS NULL OR lines IS NULL OR lines <> o_ol_cnt"),
        format!("SELECT count(*) FROM order_line LEFT JOIN orders ON {ORDER_OF_LINE}
         WHERE o_id IS NULL OR (ol_delivery_d IS NULL AND o_carrier_id IS NOT NULL)
             OR (ol_delivery_d IS NOT NULL AND o_carrier_id IS NULL)"),
        "SELECT count(*) FROM warehouse LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id
         WHERE paid IS NULL OR paid <> w_ytd".to_owned(),
        "SELECT count(*) FROM district LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS h
             ON h_w_id = d_w_id AND h_d_id = d_id
         WHERE paid IS NULL OR paid <> d_ytd".to_owned(),
        format!("SELECT count(*) FROM {accounts} WHERE c_balance <> coalesce(amount, 0) - coalesce(paid, 0)"),
        format!("SELECT count(*) FROM (SELECT (SELECT count(*) FROM orders) - (SELECT count(*) FROM new_order) AS gone) AS d
         WHERE gone <> {}", orders - waiting),
        format!("SELECT count(*) FROM {accounts} WHERE c_balance + c_ytd_payment <> coalesce(amount, 0)"),
        format!("SELECT count(*) FROM (SELECT (SELECT count(*) FROM orders) AS o, (SELECT count(*) FROM new_order) AS n,
             (SELECT count(*) FROM history) AS h) AS d WHERE o <> {orders} OR n <> {waiting} OR h <> {payments}"),
    ]
}
