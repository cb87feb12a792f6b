//! Tables that describe the database: `tierra_tiers` and `tierra_replicas`, made anew for every statement that
//! names one. A table of the same name hides them.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::exec_err;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use tierra_engine::{Database, TierInfo};

const TIERS: &str = "tierra_tiers";
const REPLICAS: &str = "tierra_replicas";

/// Whether a table that describes the database has that name.
pub(crate) fn is_name(name: &str) -> bool {
    [TIERS, REPLICAS].contains(&name)
}

/// The table of that name that describes the database, if there is one.
pub(crate) fn find(database: &Database, name: &str) -> Result<Option<SystemTable>> {
    match name {
        TIERS => tiers(database).map(Some),
        REPLICAS => replicas(database).map(Some),
        _ => Ok(None),
    }
}

/// Rows that can be read and not written.
#[derive(Debug)]
pub(crate) struct SystemTable {
    rows: MemTable,
}

impl SystemTable {
    /// Of columns: their names, whether they may be NULL, and their values.
    pub(crate) fn new<const N: usize>(columns: [(&str, bool, ArrayRef); N]) -> Result<Self> {
        let fields = columns.iter().map(|(name, nullable, values)| {
            Field::new(*name, values.data_type().clone(), *nullable)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let values = columns.into_iter().map(|(_, _, values)| values).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), values)?;
        Ok(Self {
            rows: MemTable::try_new(schema, vec![vec![batch]])?,
        })
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.scan(state, projection, filters, limit).await
    }

    async fn insert_into(
        &self,
        _state: &dyn Session,
        _input: Arc<dyn ExecutionPlan>,
        _insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        exec_err!("a table that describes the database cannot be written")
    }
}

/// The tiers that are there, near memory first, and those that are missing.
fn tiers(database: &Database) -> Result<SystemTable> {
    let (there, missing) = (database.tiers(), database.missing_tiers());
    let pad = missing.iter();
    let text = |of: fn(&TierInfo) -> Option<String>| -> ArrayRef {
        let values = there.iter().map(of).chain(pad.clone().map(|_| None));
        Arc::new(values.collect::<StringArray>())
    };
    let number = |of: fn(&TierInfo) -> Option<u64>| -> ArrayRef {
        let values = there.iter().map(of).chain(pad.clone().map(|_| None));
        let values = values.map(|value| value.map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
        Arc::new(values.collect::<Int64Array>())
    };
    let names = there.iter().map(|tier| &tier.name);
    let names = names.chain(missing.iter().map(|(name, _)| name));
    let is_missing = there.iter().map(|_| false);
    let is_missing: Vec<_> = is_missing.chain(missing.iter().map(|_| true)).collect();
    let why = there.iter().map(|_| None);
    let why = why.chain(missing.iter().map(|(_, why)| Some(why)));
    SystemTable::new([
        (
            "name",
            false,
            Arc::new(StringArray::from_iter_values(names)),
        ),
        ("speed", true, text(|tier| Some(tier.speed.to_string()))),
        (
            "medium",
            true,
            text(|tier| tier.medium.map(|medium| medium.to_string())),
        ),
        (
            "durability",
            true,
            text(|tier| tier.durability.map(|durability| durability.to_string())),
        ),
        (
            "capacity_bytes",
            true,
            number(|tier| Some(tier.capacity_bytes)),
        ),
        ("used_bytes", true, number(|tier| Some(tier.used_bytes))),
        (
            "page_size_bytes",
            true,
            number(|tier| tier.page_size_bytes.map(|bytes| bytes as u64)),
        ),
        ("missing", false, Arc::new(BooleanArray::from(is_missing))),
        ("why", true, Arc::new(why.collect::<StringArray>())),
    ])
}

/// Where tables, and columns that have tiers of their own, are to have copies.
fn replicas(database: &Database) -> Result<SystemTable> {
    let missing = database.missing_tiers();
    let (mut tables, mut columns, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let (mut tiers, mut gone) = (Vec::new(), Vec::new());
    for table in database.tables() {
        let Some(found) = database.table(&table) else {
            continue;
        };
        let replicas = found.replicas();
        let own = replicas.columns.into_iter();
        let own = own.map(|(column, tiers)| (Some(column), tiers));
        for (column, names) in std::iter::once((None, replicas.table)).chain(own) {
            for (name, number) in names.into_iter().zip(1_i64..) {
                gone.push(missing.iter().any(|(missing, _)| *missing == name));
                tables.push(table.clone());
                columns.push(column.clone());
                numbers.push(number);
                tiers.push(name);
            }
        }
    }
    SystemTable::new([
        (
            "table_name",
            false,
            Arc::new(StringArray::from_iter_values(tables)),
        ),
        ("column_name", true, Arc::new(StringArray::from(columns))),
        ("copy_number", false, Arc::new(Int64Array::from(numbers))),
        (
            "tier",
            false,
            Arc::new(StringArray::from_iter_values(tiers)),
        ),
        ("missing", false, Arc::new(BooleanArray::from(gone))),
    ])
}
