//! The nine tables, as far as the transactions need their columns, and the rows with which they begin.
//!
//! What the specification says of the numbers is kept (clause 4.3.3.1): the newest 30 % of the orders are not delivered, amounts of
//! delivered ones are zero, each customer has paid ten. Texts are shorter.

use super::random::{cents, last_name};
use crate::error::{Context, LabError};
use crate::peers::postgres::Client;
use crate::random::Random;

/// Districts of a warehouse.
pub(super) const DISTRICTS: u64 = 10;
/// When everything was there.
pub(super) const BEGUN: &str = "2026-01-01 00:00:00";
/// What a customer has paid, in cents.
const PAID: i64 = 1_000;
/// It has no divisor in common with the number of customers.
const STRIDE: u64 = 7;

pub(super) const TABLES: &str = "
CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_name VARCHAR, w_street VARCHAR, w_city VARCHAR, w_zip VARCHAR,
    w_tax DECIMAL(4, 4), w_ytd DECIMAL(12, 2));
CREATE TABLE district (d_w_id INTEGER, d_id INTEGER, d_name VARCHAR, d_street VARCHAR, d_city VARCHAR, d_zip VARCHAR,
    d_tax DECIMAL(4, 4), d_ytd DECIMAL(12, 2), d_next_o_id INTEGER, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_w_id INTEGER, c_d_id INTEGER, c_id INTEGER, c_first VARCHAR, c_middle VARCHAR, c_last VARCHAR,
    c_street VARCHAR, c_city VARCHAR, c_zip VARCHAR, c_phone VARCHAR, c_since TIMESTAMP, c_credit VARCHAR,
    c_credit_lim DECIMAL(12, 2), c_discount DECIMAL(4, 4), c_balance DECIMAL(12, 2), c_ytd_payment DECIMAL(12, 2),
    c_payment_cnt INTEGER, c_delivery_cnt INTEGER, c_data VARCHAR, PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE TABLE history (h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER, h_w_id INTEGER, h_date TIMESTAMP,
    h_amount DECIMAL(6, 2), h_data VARCHAR);
CREATE TABLE orders (o_w_id INTEGER, o_d_id INTEGER, o_id INTEGER, o_c_id INTEGER, o_entry_d TIMESTAMP, o_carrier_id INTEGER,
    o_ol_cnt INTEGER, o_all_local INTEGER, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE new_order (no_w_id INTEGER, no_d_id INTEGER, no_o_id INTEGER, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (ol_w_id INTEGER, ol_d_id INTEGER, ol_o_id INTEGER, ol_number INTEGER, ol_i_id INTEGER,
    ol_supply_w_id INTEGER, ol_delivery_d TIMESTAMP, ol_quantity INTEGER, ol_amount DECIMAL(8, 2), ol_dist_info VARCHAR,
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_im_id INTEGER, i_name VARCHAR, i_price DECIMAL(5, 2), i_data VARCHAR);
CREATE TABLE stock (s_w_id INTEGER, s_i_id INTEGER, s_quantity INTEGER, s_dist VARCHAR, s_ytd INTEGER, s_order_cnt INTEGER,
    s_remote_cnt INTEGER, s_data VARCHAR, PRIMARY KEY (s_w_id, s_i_id))";

/// What its users would add to PostgreSQL. Tierra has no indexes but keys.
pub(super) const INDEXES: &str = "
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX order_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
ANALYZE";

/// How many rows there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) warehouses: u64,
    /// Of a district; as many orders are there.
    pub(super) customers: u64,
    pub(super) items: u64,
}

impl Size {
    /// The numbers of the specification.
    pub(super) const FULL: Size = Size {
        warehouses: 10,
        customers: 3_000,
        items: 100_000,
    };
    pub(super) const QUICK: Size = Size {
        warehouses: 2,
        customers: 30,
        items: 200,
    };

    /// Orders of a district that are delivered at first: those before.
    pub(super) fn delivered(self) -> u64 {
        self.customers * 7 / 10
    }

    /// Names of customers: each is there in every district.
    pub(super) fn names(self) -> u64 {
        self.customers.min(1_000)
    }

    fn districts(self) -> impl Iterator<Item = (u64, u64)> {
        (1..=self.warehouses).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
    }
}

/// Fills the tables by COPY.
pub(super) fn fill(client: &mut Client, who: &str, size: Size, seed: u64) -> Result<(), LabError> {
    let random = &mut Random::new(seed);
    let mut copy = |table: &str, lines: &mut dyn Iterator<Item = String>| {
        let copied = client.copy_in(table, lines);
        copied.by(who, format!("filling {table}")).map(drop)
    };
    let paid = PAID * size.customers as i64;
    copy(
        "warehouse",
        &mut (1..=size.warehouses).map(|w| {
            let (tax, ytd) = (tax(random), cents(paid * DISTRICTS as i64));
            format!("{w}\tw{w}\tstreet {w}\tcity {w}\t{w:04}11111\t{tax}\t{ytd}\n")
        }),
    )?;
    copy(
        "district",
        &mut size.districts().map(|(w, d)| {
            let (tax, ytd, next) = (tax(random), cents(paid), size.customers + 1);
            format!("{w}\t{d}\td{d}\tstreet {d}\tcity {d}\t{d:04}11111\t{tax}\t{ytd}\t{next}\n")
        }),
    )?;
    copy(
        "item",
        &mut (1..=size.items).map(|i| {
            let price = cents(100 + random.below(9_901) as i64);
            format!(
                "{i}\t{}\titem {i}\t{price}\t{}\n",
                1 + random.below(10_000),
                data(random)
            )
        }),
    )?;
    let stock = (1..=size.warehouses).flat_map(|w| (1..=size.items).map(move |i| (w, i)));
    copy(
        "stock",
        &mut stock.map(|(w, i)| {
            let quantity = 10 + random.below(91);
            format!(
                "{w}\t{i}\t{quantity}\tdistrict {i:015}\t0\t0\t0\t{}\n",
                data(random)
            )
        }),
    )?;
    let customers = move || {
        size.districts()
            .flat_map(move |(w, d)| (1..=size.customers).map(move |c| (w, d, c)))
    };
    copy("customer", &mut customers().map(|(w, d, c)| {
        // The first ones have each name once.
        let name = match c <= size.names() {
            true => last_name(c - 1),
            false => last_name(random.below(size.names())),
        };
        let credit = if random.below(10) == 0 { "BC" } else { "GC" };
        let discount = format!("0.{:04}", random.below(5_001));
        let (balance, payment, first) = (cents(-PAID), cents(PAID), random.below(100_000));
        format!(
            "{w}\t{d}\t{c}\tfirst {first:05}\tOE\t{name}\tstreet {c}\tcity\t{c:04}11111\t{c:016}\t{BEGUN}\t{credit}\t50000.00\t\
             {discount}\t{balance}\t{payment}\t1\t0\t{}\n",
            data(random)
        )
    }))?;
    copy(
        "history",
        &mut customers().map(|(w, d, c)| {
            format!(
                "{c}\t{d}\t{w}\t{d}\t{w}\t{BEGUN}\t{}\t{}\n",
                cents(PAID),
                data(random)
            )
        }),
    )?;
    let lines_of =
        |w: u64, d: u64, o: u64| 5 + Random::new(seed ^ ((w << 40) | (d << 32) | o)).below(11);
    copy(
        "orders",
        &mut customers().map(|(w, d, o)| {
            let customer = customer_of(o, size);
            let carrier = match o <= size.delivered() {
                true => (1 + random.below(10)).to_string(),
                false => "\\N".to_owned(),
            };
            format!(
                "{w}\t{d}\t{o}\t{customer}\t{BEGUN}\t{carrier}\t{}\t1\n",
                lines_of(w, d, o)
            )
        }),
    )?;
    let waiting = customers().filter(|(_, _, o)| *o > size.delivered());
    copy(
        "new_order",
        &mut waiting.map(|(w, d, o)| format!("{w}\t{d}\t{o}\n")),
    )?;
    let lines =
        customers().flat_map(|(w, d, o)| (1..=lines_of(w, d, o)).map(move |l| (w, d, o, l)));
    copy("order_line", &mut lines.map(|(w, d, o, line)| {
        let item = 1 + random.below(size.items);
        let (delivered, amount) = match o <= size.delivered() {
            true => (BEGUN, cents(0)),
            false => ("\\N", cents(1 + random.below(999_999) as i64)),
        };
        format!("{w}\t{d}\t{o}\t{line}\t{item}\t{w}\t{delivered}\t5\t{amount}\tdistrict {item:015}\n")
    }))
}

/// Whose order it is: of each customer of a district there is one, but not in their order.
fn customer_of(order: u64, size: Size) -> u64 {
    order * STRIDE % size.customers + 1
}

fn tax(random: &mut Random) -> String {
    format!("0.{:04}", random.below(2_001))
}

fn data(random: &mut Random) -> String {
    format!("{:016x}{:016x}", random.bits(), random.bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_customer_has_one_order() {
        for size in [Size::FULL, Size::QUICK] {
            let orders = 1..=size.customers;
            let mut customers: Vec<u64> = orders.map(|o| customer_of(o, size)).collect();
            customers.sort_unstable();
            assert!(customers.into_iter().eq(1..=size.customers));
        }
    }
}
