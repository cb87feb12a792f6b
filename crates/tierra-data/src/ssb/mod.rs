//! The Star Schema Benchmark, after P. O'Neil, E. O'Neil, X. Chen, S. Revilak, "The Star Schema
//! Benchmark and Augmented Fact Table Indexing" (TPCTC 2009) and its specification, revision 3.
//!
//! ```text
//!   customer (30,000 x scale)          supplier (2,000 x scale)
//!          \  lo_custkey                  /  lo_suppkey
//!           +-------- lineorder ---------+        6,000,000 x scale
//!          /  lo_partkey                  \  lo_orderdate, lo_commitdate
//!   part (200,000 x floor(1 + log2 scale))  date (2,557 days, 1992-1998)
//! ```
//!
//! Column names, value domains and queries are the specification's; money is in integer cents and
//! dates are integers of the form 19940213, as there. Where the specification leaves freedom or
//! our generator differs from its C program:
//! - below scale 1, `part` shrinks in proportion; no dimension shrinks below a floor (1,000
//!   customers, 500 suppliers, 2,000 parts) that keeps each of the 250 cities and 1,000 brands;
//! - cities, brands and lines per order are dealt from shuffled decks, so that every 250
//!   customers, 1,000 parts or 7 orders hold each equally often, where the C program draws them;
//!   `lineorder` so has exactly 6,000,000 x scale rows and can be entered at any of them;
//! - `date` has every day of its seven years, 2,557 (the paper says 2,556, one short);
//! - any customer can order, and the holidays are those of a fixed list in `date.rs`.

mod customer;
mod date;
mod lineorder;
mod oracle;
mod part;
mod place;
mod queries;
mod supplier;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

pub use oracle::{Answer, Datum, Mismatch, answers};
pub use queries::{Order, QUERIES, Query};

use crate::{Batches, Part, Scale, Source, source::by_ranges};

/// The five tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The fact table: a row per line of an order.
    Lineorder,
    /// Who ordered.
    Customer,
    /// Who delivered.
    Supplier,
    /// What was ordered.
    Part,
    /// The days from 1992 to 1998.
    Date,
}

impl Table {
    /// All tables, the dimensions first.
    pub const ALL: [Self; 5] = [
        Self::Date,
        Self::Supplier,
        Self::Customer,
        Self::Part,
        Self::Lineorder,
    ];

    /// Exactly how many rows the table has at `scale`.
    pub fn rows(self, scale: Scale) -> u64 {
        match self {
            Self::Lineorder => scale.rows(6_000_000, 0),
            Self::Customer => scale.rows(30_000, 1_000),
            Self::Supplier => scale.rows(2_000, 500),
            Self::Part if scale.factor() >= 1.0 => {
                200_000 * (1.0 + scale.factor().log2()).floor() as u64
            }
            Self::Part => scale.rows(200_000, 2_000),
            Self::Date => date::DAYS as u64,
        }
    }
}

impl Source for Table {
    fn name(self) -> &'static str {
        match self {
            Self::Lineorder => "lineorder",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Part => "part",
            Self::Date => "date",
        }
    }

    fn schema(self) -> SchemaRef {
        let columns: &[(&str, DataType)] = match self {
            Self::Lineorder => &lineorder::COLUMNS,
            Self::Customer => &customer::COLUMNS,
            Self::Supplier => &supplier::COLUMNS,
            Self::Part => &part::COLUMNS,
            Self::Date => &date::COLUMNS,
        };
        let field = |(name, ty): &(&str, DataType)| Field::new(*name, ty.clone(), false);
        Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
    }

    fn primary_key(self) -> Option<&'static str> {
        match self {
            Self::Lineorder => None,
            Self::Customer => Some("c_custkey"),
            Self::Supplier => Some("s_suppkey"),
            Self::Part => Some("p_partkey"),
            Self::Date => Some("d_datekey"),
        }
    }

    fn expected_rows(self, scale: Scale) -> u64 {
        self.rows(scale)
    }

    fn generate(self, scale: Scale, part: Part, batch_rows: usize) -> Batches {
        let schema = self.schema();
        by_ranges(part.of(self.rows(scale)), batch_rows, move |rows| {
            let columns: Vec<ArrayRef> = match self {
                Self::Lineorder => lineorder::columns(scale, rows),
                Self::Customer => customer::columns(rows),
                Self::Supplier => supplier::columns(rows),
                Self::Part => part::columns(rows),
                Self::Date => date::columns(rows),
            };
            RecordBatch::try_new(schema.clone(), columns)
                .expect("each table's columns are made in the order and types of its COLUMNS")
        })
    }
}
