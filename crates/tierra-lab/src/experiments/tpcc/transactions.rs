//! The five transactions, statement by statement as a program would send them. Both sides are sent the same.
//!
//! Values are read and written back, in transactions with a snapshot: the first that changed a row wins, and the other runs again. Clause
//! 2.4 to 2.8 of the specification, without what a terminal shows.

use super::random::{cents, last_name, non_uniform, to_cents};
use super::tables::{DISTRICTS, Size};
use crate::peers::postgres::{Answer, Client, ClientError};
use crate::random::Random;

/// When everything happens.
const NOW: &str = "2026-06-01 12:00:00";
/// The most of a customer's `c_data`.
const DATA_BYTES: usize = 500;

/// One of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [
        Kind::NewOrder,
        Kind::Payment,
        Kind::OrderStatus,
        Kind::Delivery,
        Kind::StockLevel,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock level",
        }
    }

    /// One of the mix: 45, 43, 4, 4 and 4 of a hundred.
    pub(super) fn draw(random: &mut Random) -> Kind {
        match random.below(100) {
            0..45 => Kind::NewOrder,
            45..88 => Kind::Payment,
            88..92 => Kind::OrderStatus,
            92..96 => Kind::Delivery,
            _ => Kind::StockLevel,
        }
    }
}

/// What a transaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// It committed; that many orders were delivered.
    Committed(u64),
    /// It was given up on purpose: an order of an item that does not exist.
    RolledBack,
}

/// A customer, by number or by name.
#[derive(Clone, Debug)]
enum Who {
    Number(u64),
    Name(String),
}

/// A transaction with everything that was drawn for it, so that it can run again.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) kind: Kind,
    w: u64,
    d: u64,
    who: Who,
    /// Of a payment: the warehouse and district of the customer.
    home: (u64, u64),
    /// Of an order: items, the warehouses that have them, quantities.
    lines: Vec<(u64, u64, i64)>,
    /// Cents that are paid, a carrier, a threshold.
    amount: i64,
}

impl Transaction {
    /// Draws one. A terminal is of any warehouse, so that sessions meet.
    pub(super) fn draw(random: &mut Random, size: Size) -> Transaction {
        let kind = Kind::draw(random);
        let (w, d) = (
            1 + random.below(size.warehouses),
            1 + random.below(DISTRICTS),
        );
        let another = |random: &mut Random| match size.warehouses {
            1 => w,
            many => (w + random.below(many - 1)) % many + 1,
        };
        let by_name = random.below(100) < 60 && kind != Kind::NewOrder;
        let who = match by_name {
            true => Who::Name(last_name(non_uniform(random, 255, size.names()))),
            false => Who::Number(1 + non_uniform(random, 1_023, size.customers)),
        };
        let home = match random.below(100) < 15 {
            true => (another(random), 1 + random.below(DISTRICTS)),
            false => (w, d),
        };
        let count = match kind {
            Kind::NewOrder => 5 + random.below(11),
            _ => 0,
        };
        let line = |random: &mut Random| {
            let supply = if random.below(100) == 0 {
                another(random)
            } else {
                w
            };
            let item = 1 + non_uniform(random, 8_191, size.items);
            (item, supply, 1 + random.below(10) as i64)
        };
        let mut lines: Vec<_> = (0..count).map(|_| line(random)).collect();
        if random.below(100) == 0
            && let Some(last) = lines.last_mut()
        {
            last.0 = size.items + 1;
        }
        // Else PostgreSQL's transactions would wait for each other, a second until it notices.
        lines.sort_unstable();
        let amount = match kind {
            Kind::Payment => 100 + random.below(499_901) as i64,
            _ => 1 + random.below(10) as i64,
        };
        Transaction {
            kind,
            w,
            d,
            who,
            home,
            lines,
            amount,
        }
    }

    /// Runs it once.
    ///
    /// # Errors
    /// If a statement fails, or finds what cannot be; nothing is rolled back then.
    pub(super) fn run(&self, client: &mut Client) -> Result<Done, ClientError> {
        client.execute("begin", &[])?;
        let done = match self.kind {
            Kind::NewOrder => self.new_order(client)?,
            Kind::Payment => self.payment(client)?,
            Kind::OrderStatus => self.order_status(client)?,
            Kind::Delivery => self.delivery(client)?,
            Kind::StockLevel => self.stock_level(client)?,
        };
        match done {
            Done::Committed(_) => client.execute("commit", &[])?,
            Done::RolledBack => client.query("ROLLBACK")?,
        };
        Ok(done)
    }

    fn new_order(&self, client: &mut Client) -> Result<Done, ClientError> {
        let (w, d) = (self.w.to_string(), self.d.to_string());
        let Who::Number(customer) = self.who else {
            unreachable!("an order is of a number");
        };
        let customer = customer.to_string();
        one(client, "w_tax", &[&w])?;
        let district = one(client, "d_next", &[&w, &d])?;
        let order = cell(&district, 1)?;
        let next = (whole(&district, 1)? + 1).to_string();
        change(client, "d_set_next", &[&next, &w, &d])?;
        one(client, "c_discount", &[&w, &d, &customer])?;
        let count = self.lines.len().to_string();
        let is_local = self.lines.iter().all(|(_, supply, _)| *supply == self.w);
        let all_local = u8::from(is_local).to_string();
        change(
            client,
            "o_insert",
            &[&w, &d, order, &customer, NOW, &count, &all_local],
        )?;
        change(client, "no_insert", &[&w, &d, order])?;
        for (number, (item, supply, quantity)) in (1..).zip(&self.lines) {
            let (item, number) = (item.to_string(), i32::to_string(&number));
            let found = client.execute("i_find", &[&item])?;
            if found.rows.is_empty() {
                return Ok(Done::RolledBack);
            }
            let price = money(&found, 0)?;
            let is_remote = i64::from(*supply != self.w);
            let supply = supply.to_string();
            let stock = one(client, "s_find", &[&supply, &item])?;
            let left = whole(&stock, 0)? - quantity;
            let left = if left < 10 { left + 91 } else { left }.to_string();
            let ytd = (whole(&stock, 1)? + quantity).to_string();
            let orders = (whole(&stock, 2)? + 1).to_string();
            let remote = (whole(&stock, 3)? + is_remote).to_string();
            change(
                client,
                "s_set",
                &[&left, &ytd, &orders, &remote, &supply, &item],
            )?;
            let (amount, quantity) = (cents(price * quantity), quantity.to_string());
            let info = cell(&stock, 4)?;
            let line = [
                &w, &d, order, &number, &item, &supply, &quantity, &amount, info,
            ];
            change(client, "ol_insert", &line)?;
        }
        Ok(Done::Committed(0))
    }

    fn payment(&self, client: &mut Client) -> Result<Done, ClientError> {
        let (w, d) = (self.w.to_string(), self.d.to_string());
        let (home_w, home_d) = (self.home.0.to_string(), self.home.1.to_string());
        let warehouse = one(client, "w_find", &[&w])?;
        let ytd = cents(money(&warehouse, 1)? + self.amount);
        change(client, "w_set", &[&ytd, &w])?;
        let district = one(client, "d_find", &[&w, &d])?;
        let ytd = cents(money(&district, 1)? + self.amount);
        change(client, "d_set", &[&ytd, &w, &d])?;
        let customer = self.customer(client, &home_w, &home_d)?;
        let found = one(client, "c_find", &[&home_w, &home_d, &customer])?;
        let balance = cents(money(&found, 0)? - self.amount);
        let paid = cents(money(&found, 1)? + self.amount);
        let count = (whole(&found, 2)? + 1).to_string();
        let amount = cents(self.amount);
        if cell(&found, 3)? == "BC" {
            let mut data = format!(
                "{customer} {home_d} {home_w} {d} {w} {amount} {}",
                cell(&found, 4)?
            );
            data.truncate(DATA_BYTES);
            let bad = [&balance, &paid, &count, &data, &home_w, &home_d, &customer];
            change(client, "c_pay_bad", &bad.map(String::as_str))?;
        } else {
            let good = [&balance, &paid, &count, &home_w, &home_d, &customer];
            change(client, "c_pay", &good.map(String::as_str))?;
        }
        let data = format!("{}    {}", cell(&warehouse, 0)?, cell(&district, 0)?);
        let history = [&customer, &home_d, &home_w, &d, &w, NOW, &amount, &data];
        change(client, "h_insert", &history)?;
        Ok(Done::Committed(0))
    }

    fn order_status(&self, client: &mut Client) -> Result<Done, ClientError> {
        let (w, d) = (self.w.to_string(), self.d.to_string());
        let customer = self.customer(client, &w, &d)?;
        one(client, "c_show", &[&w, &d, &customer])?;
        let order = one(client, "o_last", &[&w, &d, &customer])?;
        let lines = client.execute("ol_show", &[&w, &d, cell(&order, 0)?])?;
        expect(
            lines.rows.len() as i64,
            whole(&order, 3)?,
            "lines of an order",
        )?;
        Ok(Done::Committed(0))
    }

    /// Delivers the oldest order of each district.
    fn delivery(&self, client: &mut Client) -> Result<Done, ClientError> {
        let (w, carrier) = (self.w.to_string(), self.amount.to_string());
        let mut delivered = 0;
        for d in 1..=DISTRICTS {
            let d = d.to_string();
            let oldest = one(client, "no_first", &[&w, &d])?;
            let Some(order) = oldest.rows[0][0].as_deref() else {
                continue;
            };
            change(client, "no_delete", &[&w, &d, order])?;
            let found = one(client, "o_find", &[&w, &d, order])?;
            let customer = cell(&found, 0)?;
            change(client, "o_set", &[&carrier, &w, &d, order])?;
            for line in 1..=whole(&found, 1)? {
                change(client, "ol_set", &[NOW, &w, &d, order, &line.to_string()])?;
            }
            let sum = one(client, "ol_sum", &[&w, &d, order])?;
            let owes = one(client, "c_owes", &[&w, &d, customer])?;
            let balance = cents(money(&owes, 0)? + money(&sum, 0)?);
            let count = (whole(&owes, 1)? + 1).to_string();
            change(client, "c_deliver", &[&balance, &count, &w, &d, customer])?;
            delivered += 1;
        }
        Ok(Done::Committed(delivered))
    }

    /// Counts the items of the last twenty orders that are low.
    fn stock_level(&self, client: &mut Client) -> Result<Done, ClientError> {
        let (w, d) = (self.w.to_string(), self.d.to_string());
        let district = one(client, "d_next", &[&w, &d])?;
        let next = cell(&district, 1)?;
        let first = (whole(&district, 1)? - 20).to_string();
        let threshold = (10 + self.amount).to_string();
        one(client, "s_low", &[&w, &d, &first, next, &w, &threshold])?;
        Ok(Done::Committed(0))
    }

    /// The number of the customer; of those of a name it is the one in the middle.
    fn customer(&self, client: &mut Client, w: &str, d: &str) -> Result<String, ClientError> {
        match &self.who {
            Who::Number(number) => Ok(number.to_string()),
            Who::Name(name) => {
                let mut found = client.execute("c_named", &[w, d, name])?;
                let middle = found.rows.len().saturating_sub(1) / 2;
                let row = found.rows.get_mut(middle).and_then(|row| row[0].take());
                row.ok_or_else(|| {
                    ClientError::Unexpected(format!("no customer has the last name {name}"))
                })
            }
        }
    }
}

/// The answer of a query that has one row.
fn one(client: &mut Client, name: &str, arguments: &[&str]) -> Result<Answer, ClientError> {
    let answer = client.execute(name, arguments)?;
    expect(answer.rows.len() as i64, 1, name)?;
    Ok(answer)
}

/// Changes one row.
fn change(client: &mut Client, name: &str, arguments: &[&str]) -> Result<(), ClientError> {
    let changed = client.execute(name, arguments)?.count;
    expect(changed as i64, 1, name)
}

fn expect(found: i64, expected: i64, what: &str) -> Result<(), ClientError> {
    match found == expected {
        true => Ok(()),
        false => Err(ClientError::Unexpected(format!(
            "{what}: {found} rows in place of {expected}"
        ))),
    }
}

/// A cell of the only row.
fn cell(answer: &Answer, column: usize) -> Result<&str, ClientError> {
    let cell = answer.rows[0].get(column).and_then(Option::as_deref);
    cell.ok_or_else(|| ClientError::Unexpected(format!("a NULL in column {column}")))
}

fn whole(answer: &Answer, column: usize) -> Result<i64, ClientError> {
    let text = cell(answer, column)?;
    let unexpected = |_| ClientError::Unexpected(format!("{text} is no whole number"));
    text.parse().map_err(unexpected)
}

fn money(answer: &Answer, column: usize) -> Result<i64, ClientError> {
    let text = cell(answer, column)?;
    to_cents(text).ok_or_else(|| ClientError::Unexpected(format!("{text} is no amount")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_warehouse_is_another() {
        let random = &mut Random::new(7);
        let mut remote = 0;
        for _ in 0..10_000 {
            let drawn = Transaction::draw(random, Size::FULL);
            assert!((1..=10).contains(&drawn.home.0) && (1..=10).contains(&drawn.d));
            assert!(drawn.lines.iter().all(|line| (1..=10).contains(&line.1)));
            remote += u64::from(drawn.home.0 != drawn.w);
            assert_eq!(drawn.kind == Kind::NewOrder, !drawn.lines.is_empty());
        }
        assert!((1_300..1_700).contains(&remote), "{remote}");
    }
}
