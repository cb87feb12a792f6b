//! The 13 queries, as data.

/// In which direction a result column is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest first.
    Ascending(usize),
    /// Greatest first.
    Descending(usize),
}

/// A query and the order it asks for, so that an answer can be checked where rows may tie.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// `q1.1` to `q4.3`.
    pub name: &'static str,
    /// One SELECT statement, without a semicolon.
    pub sql: &'static str,
    /// What ORDER BY says, by index of the result's columns.
    pub order: &'static [Order],
}

macro_rules! query {
    ($name:literal, $order:expr) => {
        Query {
            name: $name,
            sql: include_str!(concat!("../../queries/ssb/", $name, ".sql")),
            order: &$order,
        }
    };
}

use Order::{Ascending as Up, Descending as Down};

/// The 13 queries in their order.
pub const QUERIES: [Query; 13] = [
    query!("q1.1", []),
    query!("q1.2", []),
    query!("q1.3", []),
    query!("q2.1", [Up(1), Up(2)]),
    query!("q2.2", [Up(1), Up(2)]),
    query!("q2.3", [Up(1), Up(2)]),
    query!("q3.1", [Up(2), Down(3)]),
    query!("q3.2", [Up(2), Down(3)]),
    query!("q3.3", [Up(2), Down(3)]),
    query!("q3.4", [Up(2), Down(3)]),
    query!("q4.1", [Up(0), Up(1)]),
    query!("q4.2", [Up(0), Up(1), Up(2)]),
    query!("q4.3", [Up(0), Up(1), Up(2)]),
];
