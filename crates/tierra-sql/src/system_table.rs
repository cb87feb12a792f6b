//! Tables that describe the database: `tierra_tiers`, `tierra_replicas`, `tierra_columns`, `tierra_faults` and
//! `tierra_scrub`. They are made anew for every statement that names one. Only a table made through the engine can hide one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::exec_err;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use tierra_column::Encoding;
use tierra_engine::{ColumnPlacement, CopyInfo, Database, Fault, TierInfo};
use tierra_memory::Counters;

const TIERS: &str = "tierra_tiers";
const REPLICAS: &str = "tierra_replicas";
const COLUMNS: &str = "tierra_columns";
const FAULTS: &str = "tierra_faults";
const SCRUB: &str = "tierra_scrub";

/// Whether a table of that name describes the database.
pub(crate) fn is_name(name: &str) -> bool {
    [TIERS, REPLICAS, COLUMNS, FAULTS, SCRUB].contains(&name)
}

/// The table of that name that describes the database, if there is one.
pub(crate) fn find(database: &Database, name: &str) -> Result<Option<SystemTable>> {
    match name {
        TIERS => tiers(database).map(Some),
        REPLICAS => replicas(database).map(Some),
        COLUMNS => columns(database).map(Some),
        FAULTS => faults(database).map(Some),
        SCRUB => scrub(database).map(Some),
        _ => Ok(None),
    }
}

/// Rows that can only be read.
#[derive(Debug)]
pub(crate) struct SystemTable {
    rows: MemTable,
}

impl SystemTable {
    /// A table of columns: their names, whether they may be NULL, and their values.
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

/// The present tiers, near memory first, and the missing ones.
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
    let counter = |of: fn(&Counters) -> u64| -> ArrayRef {
        let values = there.iter().map(|tier| tier.counters.as_ref().map(of));
        let values = values.chain(pad.clone().map(|_| None));
        let values = values.map(|value| value.map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
        Arc::new(values.collect::<Int64Array>())
    };
    let amplification = there.iter().map(|tier| tier.write_amplification);
    let amplification = amplification.chain(pad.clone().map(|_| None));
    let amplification: ArrayRef = Arc::new(amplification.collect::<Float64Array>());
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
            "access",
            true,
            text(|tier| tier.access.map(|access| access.to_string())),
        ),
        (
            "capacity_bytes",
            true,
            number(|tier| Some(tier.capacity_bytes)),
        ),
        ("used_bytes", true, number(|tier| Some(tier.used_bytes))),
        (
            "always_near_bytes",
            true,
            number(|tier| tier.always_near_bytes),
        ),
        (
            "page_size_bytes",
            true,
            number(|tier| tier.page_size_bytes.map(|bytes| bytes as u64)),
        ),
        ("missing", false, Arc::new(BooleanArray::from(is_missing))),
        ("why", true, Arc::new(why.collect::<StringArray>())),
        (
            "written_bytes",
            true,
            number(|tier| Some(tier.written()?.bytes)),
        ),
        (
            "written_lines",
            true,
            number(|tier| Some(tier.written()?.lines)),
        ),
        (
            "extent_bytes",
            true,
            counter(|counters| counters.extents.bytes),
        ),
        (
            "extent_lines",
            true,
            counter(|counters| counters.extents.lines),
        ),
        ("log_bytes", true, counter(|counters| counters.logs.bytes)),
        ("log_lines", true, counter(|counters| counters.logs.lines)),
        (
            "superblock_bytes",
            true,
            counter(|counters| counters.superblock.bytes),
        ),
        (
            "superblock_lines",
            true,
            counter(|counters| counters.superblock.lines),
        ),
        (
            "repair_bytes",
            true,
            counter(|counters| counters.repair.bytes),
        ),
        (
            "repair_lines",
            true,
            counter(|counters| counters.repair.lines),
        ),
        ("write_amplification", true, amplification),
        (
            "checked_bytes",
            true,
            counter(|counters| counters.checked_bytes),
        ),
        (
            "failed_checks",
            true,
            counter(|counters| counters.failed_checks),
        ),
        ("lost_pages", true, counter(|counters| counters.lost_pages)),
    ])
}

/// The tiers for the copies of tables, and of columns that have their own, and the copies that exist.
fn replicas(database: &Database) -> Result<SystemTable> {
    let copies = database
        .copies()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    let text = |of: fn(&CopyInfo) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(copies.iter().map(of)))
    };
    let number = |of: fn(&CopyInfo) -> u64| -> ArrayRef {
        let values = copies.iter().map(of);
        let values = values.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        Arc::new(Int64Array::from_iter_values(values))
    };
    let flag = |of: fn(&CopyInfo) -> bool| -> ArrayRef {
        Arc::new(BooleanArray::from_iter(
            copies.iter().map(|copy| Some(of(copy))),
        ))
    };
    let columns = copies.iter().map(|copy| copy.column.as_deref());
    let encodings = copies.iter().map(|copy| copy.encoding.map(Encoding::name));
    SystemTable::new([
        ("table_name", false, text(|copy| &copy.table)),
        (
            "column_name",
            true,
            Arc::new(columns.collect::<StringArray>()),
        ),
        ("copy_number", false, number(|copy| copy.number)),
        ("tier", false, text(|copy| &copy.tier)),
        (
            "encoding",
            true,
            Arc::new(encodings.collect::<StringArray>()),
        ),
        ("missing", false, flag(|copy| copy.is_missing)),
        ("extents", false, number(|copy| copy.extents)),
        ("bytes", false, number(|copy| copy.bytes)),
        ("complete", false, flag(|copy| copy.is_complete)),
    ])
}

/// For each column: its stored and near bytes, its encodings, the bytes of its index, and the time that near copies save or would save.
fn columns(database: &Database) -> Result<SystemTable> {
    let columns = database.placements();
    let text = |of: fn(&ColumnPlacement) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(columns.iter().map(of)))
    };
    let number = |of: fn(&ColumnPlacement) -> u64| -> ArrayRef {
        let values = columns.iter().map(of);
        let values = values.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        Arc::new(Int64Array::from_iter_values(values))
    };
    let encodings = |of: fn(&ColumnPlacement) -> &BTreeSet<Encoding>| -> ArrayRef {
        let names = columns.iter().map(|column| {
            let names: Vec<_> = of(column).iter().map(Encoding::to_string).collect();
            (!names.is_empty()).then(|| names.join(", "))
        });
        Arc::new(names.collect::<StringArray>())
    };
    let heat = columns.iter().map(|column| column.heat.as_secs_f64() * 1e3);
    SystemTable::new([
        ("table_name", false, text(|column| &column.table)),
        ("column_name", false, text(|column| &column.column)),
        ("bytes", false, number(|column| column.stored_bytes)),
        ("near_bytes", false, number(|column| column.near_bytes)),
        ("encodings", true, encodings(|column| &column.encodings)),
        (
            "lookup_encodings",
            true,
            encodings(|column| &column.lookup_encodings),
        ),
        ("index_bytes", false, number(|column| column.index_bytes)),
        (
            "index_near_bytes",
            false,
            number(|column| column.index_near_bytes),
        ),
        (
            "heat_ms",
            false,
            Arc::new(Float64Array::from_iter_values(heat)),
        ),
    ])
}

/// The faults found in stored data since the database was opened, the newest last.
fn faults(database: &Database) -> Result<SystemTable> {
    let (faults, _) = database.faults();
    let text = |of: fn(&Fault) -> Option<String>| -> ArrayRef {
        Arc::new(faults.iter().map(of).collect::<StringArray>())
    };
    let number = |of: fn(&Fault) -> Option<u64>| -> ArrayRef {
        let values = faults.iter().map(of);
        let values = values.map(|value| value.map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
        Arc::new(values.collect::<Int64Array>())
    };
    let found = faults.iter().map(|fault| microseconds(fault.at));
    let found = TimestampMicrosecondArray::from_iter_values(found);
    SystemTable::new([
        ("found_at", false, Arc::new(found)),
        ("tier", false, text(|fault| Some(fault.tier.clone()))),
        ("extent", true, number(|fault| fault.extent)),
        ("table_name", true, text(|fault| fault.table.clone())),
        ("column_name", true, text(|fault| fault.column.clone())),
        (
            "segment",
            true,
            number(|fault| fault.segment.map(u64::from)),
        ),
        (
            "first_row",
            true,
            number(|fault| Some(fault.rows.as_ref()?.start)),
        ),
        (
            "end_row",
            true,
            number(|fault| Some(fault.rows.as_ref()?.end)),
        ),
        ("kind", false, text(|fault| Some(fault.kind.to_string()))),
        (
            "outcome",
            false,
            text(|fault| Some(fault.outcome.to_string())),
        ),
    ])
}

/// One row: the scrubber's position, and the number of all faults.
fn scrub(database: &Database) -> Result<SystemTable> {
    let (progress, (_, totals)) = (database.scrub_progress(), database.faults());
    let number = |value: u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values([
            i64::try_from(value).unwrap_or(i64::MAX)
        ]))
    };
    let began = progress.pass_began.map(microseconds);
    SystemTable::new([
        ("pace_bytes_per_s", false, number(progress.bytes_per_s)),
        (
            "running",
            false,
            Arc::new(BooleanArray::from(vec![progress.is_running])),
        ),
        (
            "pass_began",
            true,
            Arc::new(TimestampMicrosecondArray::from_iter([began])),
        ),
        ("pass_bytes", false, number(progress.pass_bytes)),
        ("pass_total_bytes", false, number(progress.pass_total_bytes)),
        ("passes", false, number(progress.passes)),
        ("damaged_copies", false, number(progress.damaged_copies)),
        ("repaired_copies", false, number(progress.repaired_copies)),
        ("faults_found", false, number(totals.found)),
        ("faults_repaired", false, number(totals.repaired)),
        ("faults_lost", false, number(totals.lost)),
    ])
}

/// Since 1970, UTC.
pub(crate) fn microseconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
