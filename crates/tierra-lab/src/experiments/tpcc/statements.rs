//! The statements of the transactions, prepared once in each session.

use crate::peers::postgres::{Client, ClientError};

/// Names and texts of the prepared statements.
const STATEMENTS: [(&str, &str); 33] = [
    ("w_tax", "SELECT w_tax FROM warehouse WHERE w_id = $1"),
    (
        "d_next",
        "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
    ),
    (
        "d_set_next",
        "UPDATE district SET d_next_o_id = $1 WHERE d_w_id = $2 AND d_id = $3",
    ),
    (
        "c_discount",
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    ),
    (
        "o_insert",
        "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)",
    ),
    ("no_insert", "INSERT INTO new_order VALUES ($1, $2, $3)"),
    (
        "i_find",
        "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1",
    ),
    (
        "s_find",
        "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist \
         FROM stock \
         WHERE s_w_id = $1 AND s_i_id = $2",
    ),
    (
        "s_set",
        "UPDATE stock SET s_quantity = $1, s_ytd = $2, s_order_cnt = $3, s_remote_cnt = $4 \
         WHERE s_w_id = $5 AND s_i_id = $6",
    ),
    (
        "ol_insert",
        "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8, $9)",
    ),
    (
        "w_find",
        "SELECT w_name, w_ytd FROM warehouse WHERE w_id = $1",
    ),
    ("w_set", "UPDATE warehouse SET w_ytd = $1 WHERE w_id = $2"),
    (
        "d_find",
        "SELECT d_name, d_ytd FROM district WHERE d_w_id = $1 AND d_id = $2",
    ),
    (
        "d_set",
        "UPDATE district SET d_ytd = $1 WHERE d_w_id = $2 AND d_id = $3",
    ),
    (
        "c_named",
        "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first, c_id",
    ),
    (
        "c_find",
        "SELECT c_balance, c_ytd_payment, c_payment_cnt, c_credit, c_data \
         FROM customer \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    ),
    (
        "c_pay",
        "UPDATE customer SET c_balance = $1, c_ytd_payment = $2, c_payment_cnt = $3 \
         WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6",
    ),
    (
        "c_pay_bad",
        "UPDATE customer SET c_balance = $1, c_ytd_payment = $2, c_payment_cnt = $3, c_data = $4 \
         WHERE c_w_id = $5 AND c_d_id = $6 AND c_id = $7",
    ),
    (
        "h_insert",
        "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    ),
    (
        "c_show",
        "SELECT c_balance, c_first, c_middle, c_last \
         FROM customer \
         WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    ),
    (
        "o_last",
        "SELECT o_id, o_entry_d, o_carrier_id, o_ol_cnt \
         FROM orders \
         WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
    ),
    (
        "ol_show",
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
         FROM order_line \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    ),
    (
        "no_first",
        "SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2",
    ),
    (
        "no_delete",
        "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
    ),
    (
        "o_find",
        "SELECT o_c_id, o_ol_cnt FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3",
    ),
    (
        "o_set",
        "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 AND o_id = $4",
    ),
    (
        "ol_sum",
        "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    ),
    (
        "ol_set",
        "UPDATE order_line SET ol_delivery_d = $1 \
         WHERE ol_w_id = $2 AND ol_d_id = $3 AND ol_o_id = $4 AND ol_number = $5",
    ),
    (
        "c_owes",
        "SELECT c_balance, c_delivery_cnt FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    ),
    (
        "c_deliver",
        "UPDATE customer SET c_balance = $1, c_delivery_cnt = $2 \
         WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5",
    ),
    (
        "s_low",
        "SELECT count(DISTINCT s_i_id) \
         FROM order_line \
         JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id \
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_w_id = $5 AND s_quantity < $6",
    ),
    ("begin", "BEGIN"),
    ("commit", "COMMIT"),
];

/// Prepares all statements.
pub(super) fn prepare(client: &mut Client) -> Result<(), ClientError> {
    let mut statements = STATEMENTS.iter();
    statements.try_for_each(|(name, sql)| client.prepare(name, sql))
}
