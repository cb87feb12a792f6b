//! TPC-H: the rows of the crate `tpchgen`, which repeats the C program's output exactly, and the
//! 22 queries with the parameters that the specification gives for validation.
//!
//! Types: identifiers are BIGINT, numbers INTEGER, money and rates DECIMAL(15,2), dates DATE,
//! texts VARCHAR. Below scale 0.01 there are so few suppliers that `partsupp` repeats pairs of
//! part and supplier, as with the C program.

mod queries;

use arrow::{array::RecordBatch, datatypes::SchemaRef, error::ArrowError};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

pub use queries::QUERIES;

use crate::{Batches, Part, Scale, Source};

/// The eight tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// 5 regions.
    Region,
    /// 25 nations.
    Nation,
    /// 10,000 x scale suppliers.
    Supplier,
    /// 150,000 x scale customers, of whom a third never order.
    Customer,
    /// 200,000 x scale parts.
    Part,
    /// Each part from 4 suppliers.
    Partsupp,
    /// 1,500,000 x scale orders.
    Orders,
    /// 1 to 7 lines an order.
    Lineitem,
}

impl Table {
    /// All tables, each after those it refers to.
    pub const ALL: [Self; 8] = [
        Self::Region,
        Self::Nation,
        Self::Supplier,
        Self::Customer,
        Self::Part,
        Self::Partsupp,
        Self::Orders,
        Self::Lineitem,
    ];
}

impl Source for Table {
    fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Nation => "nation",
            Self::Supplier => "supplier",
            Self::Customer => "customer",
            Self::Part => "part",
            Self::Partsupp => "partsupp",
            Self::Orders => "orders",
            Self::Lineitem => "lineitem",
        }
    }

    fn schema(self) -> SchemaRef {
        match self {
            Self::Region => RegionArrow::schema_ref(),
            Self::Nation => NationArrow::schema_ref(),
            Self::Supplier => SupplierArrow::schema_ref(),
            Self::Customer => CustomerArrow::schema_ref(),
            Self::Part => PartArrow::schema_ref(),
            Self::Partsupp => PartSuppArrow::schema_ref(),
            Self::Orders => OrderArrow::schema_ref(),
            Self::Lineitem => LineItemArrow::schema_ref(),
        }
    }

    fn primary_key(self) -> Option<&'static str> {
        match self {
            Self::Region => Some("r_regionkey"),
            Self::Nation => Some("n_nationkey"),
            Self::Supplier => Some("s_suppkey"),
            Self::Customer => Some("c_custkey"),
            Self::Part => Some("p_partkey"),
            Self::Partsupp => None,
            Self::Orders => Some("o_orderkey"),
            Self::Lineitem => None,
        }
    }

    fn expected_rows(self, scale: Scale) -> u64 {
        let factor = scale.factor();
        let rows = match self {
            Self::Region => 5,
            Self::Nation => 25,
            Self::Supplier => SupplierGenerator::calculate_row_count(factor, 1, 1),
            Self::Customer => CustomerGenerator::calculate_row_count(factor, 1, 1),
            Self::Part => PartGenerator::calculate_row_count(factor, 1, 1),
            Self::Partsupp => 4 * PartGenerator::calculate_row_count(factor, 1, 1),
            Self::Orders => OrderGenerator::calculate_row_count(factor, 1, 1),
            Self::Lineitem => 4 * OrderGenerator::calculate_row_count(factor, 1, 1),
        };
        rows as u64
    }

    fn generate(self, scale: Scale, part: Part, batch_rows: usize) -> Batches {
        assert!(batch_rows > 0, "a batch holds at least one row");
        let factor = scale.factor();
        // Their parts count from one, in 32 bits with a sign.
        let index = i32::try_from(part.index()).unwrap_or(i32::MAX - 1) + 1;
        let count = i32::try_from(part.count()).unwrap_or(i32::MAX);
        macro_rules! batches {
            ($arrow:ident, $generator:ident) => {
                boxed(
                    $arrow::new($generator::new(factor, index, count)).with_batch_size(batch_rows),
                )
            };
        }
        match self {
            // The two smallest tables know no parts: all their rows are the first part's.
            Self::Region | Self::Nation if part.index() > 0 => Box::new(std::iter::empty()),
            Self::Region => batches!(RegionArrow, RegionGenerator),
            Self::Nation => batches!(NationArrow, NationGenerator),
            Self::Supplier => batches!(SupplierArrow, SupplierGenerator),
            Self::Customer => batches!(CustomerArrow, CustomerGenerator),
            Self::Part => batches!(PartArrow, PartGenerator),
            Self::Partsupp => batches!(PartSuppArrow, PartSuppGenerator),
            Self::Orders => batches!(OrderArrow, OrderGenerator),
            Self::Lineitem => batches!(LineItemArrow, LineItemGenerator),
        }
    }
}

fn boxed(
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
) -> Batches {
    Box::new(batches.map(|batch| batch.expect("the generator's columns fit its own schema")))
}
