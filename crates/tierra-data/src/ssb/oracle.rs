//! The answers to the 13 queries by plain loops over the generated rows: no plan, no index, no
//! encoding, nothing shared with the database whose answers they check.
//!
//! Each query is restated by hand as three functions of a fact and its dimensions: does it count,
//! which group is it in, what does it add.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    fmt,
};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int32Type,
};

use super::{Order, QUERIES, Query, Table};
use crate::{Part, Scale, Source};

/// One field of a result row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Datum {
    /// SQL's NULL: a sum of no rows.
    Null,
    /// Any integer.
    Int(i64),
    /// A text.
    Text(String),
}

/// The right answer to one query.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The query.
    pub query: Query,
    /// Its result in its order; rows that tie are sorted by their other columns.
    pub rows: Vec<Vec<Datum>>,
    /// How many rows of `lineorder` went into it.
    pub selected: u64,
}

/// How a result differs from the right answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// So many rows are right, so many were given.
    Count {
        /// Rows of the right answer.
        expected: usize,
        /// Rows of the result.
        found: usize,
    },
    /// The row at this place of the sorted results differs.
    Row {
        /// The right row.
        expected: Vec<Datum>,
        /// The row found in its place.
        found: Vec<Datum>,
    },
    /// The right rows, but not in the order that the query asks for, from this row (from 0) on.
    Order(usize),
}

impl Answer {
    /// Whether `rows` is a right result: the same rows, in an order that ORDER BY allows.
    ///
    /// # Errors
    /// The first [`Mismatch`] found.
    pub fn check(&self, rows: &[Vec<Datum>]) -> Result<(), Mismatch> {
        if rows.len() != self.rows.len() {
            return Err(Mismatch::Count {
                expected: self.rows.len(),
                found: rows.len(),
            });
        }
        let sorted = |rows: &[Vec<Datum>]| {
            let mut rows = rows.to_vec();
            rows.sort_unstable();
            rows
        };
        for (expected, found) in sorted(&self.rows).into_iter().zip(sorted(rows)) {
            if expected != found {
                return Err(Mismatch::Row { expected, found });
            }
        }
        let misplaced = rows
            .windows(2)
            .position(|pair| by_order(self.query.order, &pair[0], &pair[1]).is_gt());
        misplaced.map_or(Ok(()), |row| Err(Mismatch::Order(row + 1)))
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(value) => value.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |row: &[Datum]| {
            let fields: Vec<String> = row.iter().map(Datum::to_string).collect();
            fields.join(", ")
        };
        match self {
            Self::Count { expected, found } => write!(f, "{found} rows instead of {expected}"),
            Self::Row { expected, found } => {
                write!(f, "row ({}) instead of ({})", row(found), row(expected))
            }
            Self::Order(at) => write!(f, "row {at} is out of the order that ORDER BY asks for"),
        }
    }
}

impl std::error::Error for Mismatch {}

fn by_order(order: &[Order], left: &[Datum], right: &[Datum]) -> Ordering {
    let compare = |key: &Order| match *key {
        Order::Ascending(column) => left[column].cmp(&right[column]),
        Order::Descending(column) => right[column].cmp(&left[column]),
    };
    order
        .iter()
        .map(compare)
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// A customer or supplier.
struct Place {
    city: String,
    nation: String,
    region: String,
}

struct Product {
    mfgr: String,
    category: String,
    brand1: String,
}

struct Day {
    year: i32,
    year_month_number: i32,
    year_month: String,
    week: i32,
}

/// A line of an order joined with its dimensions.
struct Fact<'a> {
    customer: &'a Place,
    supplier: &'a Place,
    part: &'a Product,
    day: &'a Day,
    quantity: i32,
    discount: i32,
    extended_price: i32,
    revenue: i32,
    supply_cost: i32,
}

/// A query restated by hand.
struct Restated {
    counts: fn(&Fact) -> bool,
    group: fn(&Fact) -> Vec<Datum>,
    adds: fn(&Fact) -> i64,
    /// Where the sum stands among the result's columns.
    sum_column: usize,
}

/// The right answers to all 13 queries, in their order, on the data of `scale`.
pub fn answers(scale: Scale) -> Vec<Answer> {
    let customers = places(Table::Customer, scale);
    let suppliers = places(Table::Supplier, scale);
    let parts = products(scale);
    let days = days(scale);
    let queries = restated();
    let mut groups = vec![BTreeMap::<Vec<Datum>, i64>::new(); queries.len()];
    let mut selected = vec![0; queries.len()];
    for batch in Table::Lineorder.generate(scale, Part::WHOLE, 8_192) {
        let column = |name: &str| ints(&batch, name);
        let (customer, supplier) = (column("lo_custkey"), column("lo_suppkey"));
        let (part, date) = (column("lo_partkey"), column("lo_orderdate"));
        let (quantity, discount) = (column("lo_quantity"), column("lo_discount"));
        let (price, revenue) = (column("lo_extendedprice"), column("lo_revenue"));
        let cost = column("lo_supplycost");
        for row in 0..batch.num_rows() {
            let fact = Fact {
                customer: &customers[&customer[row]],
                supplier: &suppliers[&supplier[row]],
                part: &parts[&part[row]],
                day: &days[&date[row]],
                quantity: quantity[row],
                discount: discount[row],
                extended_price: price[row],
                revenue: revenue[row],
                supply_cost: cost[row],
            };
            for (i, query) in queries.iter().enumerate() {
                if (query.counts)(&fact) {
                    selected[i] += 1;
                    *groups[i].entry((query.group)(&fact)).or_default() += (query.adds)(&fact);
                }
            }
        }
    }
    (QUERIES.into_iter().zip(queries).zip(groups).zip(selected))
        .map(|(((query, restated), groups), selected)| {
            let mut rows: Vec<Vec<Datum>> = groups
                .into_iter()
                .map(|(mut row, sum)| {
                    row.insert(restated.sum_column, Datum::Int(sum));
                    row
                })
                .collect();
            if rows.is_empty() && query.order.is_empty() {
                // Without GROUP BY there is one row even if nothing was selected.
                rows.push(vec![Datum::Null]);
            }
            rows.sort_by(|left, right| by_order(query.order, left, right));
            Answer {
                query,
                rows,
                selected,
            }
        })
        .collect()
}

fn restated() -> [Restated; 13] {
    fn int(value: i32) -> Datum {
        Datum::Int(value.into())
    }
    fn text(value: &str) -> Datum {
        Datum::Text(value.to_owned())
    }
    fn is_uk(city: &str) -> bool {
        city == "UNITED KI1" || city == "UNITED KI5"
    }
    let discounted = |counts| Restated {
        counts,
        group: |_| vec![],
        adds: |f| i64::from(f.extended_price) * i64::from(f.discount),
        sum_column: 0,
    };
    let by_brand = |counts| Restated {
        counts,
        group: |f| vec![int(f.day.year), text(&f.part.brand1)],
        adds: |f| f.revenue.into(),
        sum_column: 0,
    };
    let by_city = |counts| Restated {
        counts,
        group: |f| {
            let (from, to) = (&f.customer.city, &f.supplier.city);
            vec![text(from), text(to), int(f.day.year)]
        },
        adds: |f| f.revenue.into(),
        sum_column: 3,
    };
    let profit = |counts, group, sum_column| Restated {
        counts,
        group,
        adds: |f| i64::from(f.revenue) - i64::from(f.supply_cost),
        sum_column,
    };
    [
        discounted(|f| f.day.year == 1993 && (1..=3).contains(&f.discount) && f.quantity < 25),
        discounted(|f| {
            f.day.year_month_number == 199_401
                && (4..=6).contains(&f.discount)
                && (26..=35).contains(&f.quantity)
        }),
        discounted(|f| {
            (f.day.week, f.day.year) == (6, 1994)
                && (5..=7).contains(&f.discount)
                && (26..=35).contains(&f.quantity)
        }),
        by_brand(|f| f.part.category == "MFGR#12" && f.supplier.region == "AMERICA"),
        by_brand(|f| {
            ("MFGR#2221"..="MFGR#2228").contains(&&*f.part.brand1) && f.supplier.region == "ASIA"
        }),
        by_brand(|f| f.part.brand1 == "MFGR#2239" && f.supplier.region == "EUROPE"),
        Restated {
            group: |f| {
                let (from, to) = (&f.customer.nation, &f.supplier.nation);
                vec![text(from), text(to), int(f.day.year)]
            },
            ..by_city(|f| {
                f.customer.region == "ASIA" && f.supplier.region == "ASIA" && f.day.year <= 1997
            })
        },
        by_city(|f| {
            f.customer.nation == "UNITED STATES"
                && f.supplier.nation == "UNITED STATES"
                && f.day.year <= 1997
        }),
        by_city(|f| is_uk(&f.customer.city) && is_uk(&f.supplier.city) && f.day.year <= 1997),
        by_city(|f| {
            is_uk(&f.customer.city) && is_uk(&f.supplier.city) && f.day.year_month == "Dec1997"
        }),
        profit(
            |f| {
                f.customer.region == "AMERICA"
                    && f.supplier.region == "AMERICA"
                    && ["MFGR#1", "MFGR#2"].contains(&&*f.part.mfgr)
            },
            |f| vec![int(f.day.year), text(&f.customer.nation)],
            2,
        ),
        profit(
            |f| {
                f.customer.region == "AMERICA"
                    && f.supplier.region == "AMERICA"
                    && f.day.year >= 1997
                    && ["MFGR#1", "MFGR#2"].contains(&&*f.part.mfgr)
            },
            |f| {
                let (nation, category) = (&f.supplier.nation, &f.part.category);
                vec![int(f.day.year), text(nation), text(category)]
            },
            3,
        ),
        profit(
            |f| {
                f.customer.region == "AMERICA"
                    && f.supplier.nation == "UNITED STATES"
                    && f.day.year >= 1997
                    && f.part.category == "MFGR#14"
            },
            |f| {
                let (city, brand) = (&f.supplier.city, &f.part.brand1);
                vec![int(f.day.year), text(city), text(brand)]
            },
            3,
        ),
    ]
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> &'a [i32] {
    let column = batch.column_by_name(name).expect("the schema is ours");
    column.as_primitive::<Int32Type>().values()
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = batch.column_by_name(name).expect("the schema is ours");
    let texts = column.as_string_view().iter();
    texts
        .map(|text| text.unwrap_or_default().to_owned())
        .collect()
}

/// The rows of a dimension by its key, which is its first column.
fn by_key<T>(table: Table, scale: Scale, rows: impl Fn(&RecordBatch) -> Vec<T>) -> HashMap<i32, T> {
    let batches = table.generate(scale, Part::WHOLE, 8_192);
    let key = table.primary_key().expect("every dimension has a key");
    let keyed = |batch: RecordBatch| {
        let keys = ints(&batch, key).to_vec();
        keys.into_iter().zip(rows(&batch)).collect::<Vec<_>>()
    };
    batches.flat_map(keyed).collect()
}

fn places(table: Table, scale: Scale) -> HashMap<i32, Place> {
    let prefix = if table == Table::Customer { "c" } else { "s" };
    by_key(table, scale, |batch| {
        let column = |name: &str| texts(batch, &format!("{prefix}_{name}"));
        (column("city")
            .into_iter()
            .zip(column("nation"))
            .zip(column("region")))
        .map(|((city, nation), region)| Place {
            city,
            nation,
            region,
        })
        .collect()
    })
}

fn products(scale: Scale) -> HashMap<i32, Product> {
    by_key(Table::Part, scale, |batch| {
        let column = |name| texts(batch, name);
        (column("p_mfgr")
            .into_iter()
            .zip(column("p_category"))
            .zip(column("p_brand1")))
        .map(|((mfgr, category), brand1)| Product {
            mfgr,
            category,
            brand1,
        })
        .collect()
    })
}

fn days(scale: Scale) -> HashMap<i32, Day> {
    by_key(Table::Date, scale, |batch| {
        let months = ints(batch, "d_yearmonthnum").iter();
        (texts(batch, "d_yearmonth")
            .into_iter()
            .enumerate()
            .zip(months))
        .map(|((row, year_month), &year_month_number)| Day {
            year: ints(batch, "d_year")[row],
            year_month_number,
            year_month,
            week: ints(batch, "d_weeknuminyear")[row],
        })
        .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(order: &'static [Order], rows: &[[i64; 2]]) -> Answer {
        let query = Query {
            order,
            ..QUERIES[0]
        };
        Answer {
            query,
            rows: data(rows),
            selected: 0,
        }
    }

    fn data(rows: &[[i64; 2]]) -> Vec<Vec<Datum>> {
        rows.iter()
            .map(|row| row.map(Datum::Int).to_vec())
            .collect()
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        let right = answer(&[Order::Descending(0)], &[[3, 1], [2, 1], [2, 9], [1, 1]]);
        assert_eq!(right.check(&right.rows), Ok(()));
        // Rows that tie may swap; others may not.
        assert_eq!(
            right.check(&data(&[[3, 1], [2, 9], [2, 1], [1, 1]])),
            Ok(())
        );
        let swapped = right.check(&data(&[[2, 1], [3, 1], [2, 9], [1, 1]]));
        assert_eq!(swapped, Err(Mismatch::Order(1)));
        let missing = right.check(&data(&[[3, 1], [2, 1], [1, 1]]));
        assert!(matches!(missing, Err(Mismatch::Count { .. })));
        let doubled = right.check(&data(&[[3, 1], [2, 1], [2, 1], [1, 1]]));
        let message = doubled.expect_err("a row is there twice").to_string();
        assert_eq!(message, "row (2, 1) instead of (2, 9)");
    }
}
