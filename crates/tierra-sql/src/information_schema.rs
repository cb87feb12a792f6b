//! information_schema, with the types of columns as PostgreSQL names them: the tables of that name that clients of PostgreSQL ask for
//! (`tierra-catalog`) have the same. DESCRIBE names them as CREATE TABLE does.
//!
//! DataFusion's own describes columns by their Arrow types and counts them from 0. Its other tables are passed through;
//! only `columns` is replaced.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array, new_null_array};
use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProviderList, SchemaProvider, TableProvider,
};
use datafusion::error::Result;
use tierra_column::LogicalType;
use tierra_engine::{Database, Table};

use crate::names::{CATALOG, SCHEMA};
use crate::system_table::SystemTable;

/// The schema's name.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";
const COLUMNS: &str = "columns";

/// The schema.
#[derive(Debug)]
pub(crate) struct InformationSchema {
    database: Arc<Database>,
    others: InformationSchemaProvider,
}

impl InformationSchema {
    /// The schema of a database whose tables are in `catalog`.
    pub(crate) fn new(database: Arc<Database>, catalog: Arc<dyn CatalogProvider>) -> Self {
        // A separate list avoids a cycle: the session's list would hold this schema, which would hold the list.
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_string(), catalog);
        Self {
            database,
            others: InformationSchemaProvider::new(Arc::new(catalogs)),
        }
    }

    fn columns(&self) -> Result<SystemTable> {
        let names = self.database.tables();
        let tables = names.iter().filter_map(|name| self.database.table(name));
        let columns: Vec<Column> = tables.flat_map(|table| columns_of(&table)).collect();
        let text = |of: fn(&Column) -> &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(columns.iter().map(of)))
        };
        let number = |of: fn(&Column) -> Option<u64>| -> ArrayRef {
            Arc::new(columns.iter().map(of).collect::<UInt64Array>())
        };
        let none = |ty: &DataType| new_null_array(ty, columns.len());
        let (utf8, uint) = (DataType::Utf8, DataType::UInt64);
        SystemTable::new([
            ("table_catalog", false, text(|_| CATALOG)),
            ("table_schema", false, text(|_| SCHEMA)),
            ("table_name", false, text(|column| &column.table)),
            ("column_name", false, text(|column| &column.name)),
            (
                "ordinal_position",
                false,
                number(|column| Some(column.place)),
            ),
            ("column_default", true, none(&utf8)),
            (
                "is_nullable",
                false,
                text(|column| yes_or_no(column.nullable)),
            ),
            ("data_type", false, text(Column::standard_type)),
            ("character_maximum_length", true, none(&uint)),
            ("character_octet_length", true, none(&uint)),
            (
                "numeric_precision",
                true,
                number(|column| column.numeric().0),
            ),
            (
                "numeric_precision_radix",
                true,
                number(|column| column.numeric().1),
            ),
            ("numeric_scale", true, number(|column| column.numeric().2)),
            (
                "datetime_precision",
                true,
                number(Column::datetime_precision),
            ),
            ("interval_type", true, none(&utf8)),
        ])
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.others.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name.eq_ignore_ascii_case(COLUMNS) {
            return Ok(Some(Arc::new(self.columns()?)));
        }
        self.others.table(name).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.others.table_exist(name)
    }
}

/// One column of a table.
struct Column {
    table: String,
    name: String,
    /// Position, from 1.
    place: u64,
    ty: LogicalType,
    /// The type as CREATE TABLE writes it.
    data_type: String,
    nullable: bool,
}

impl Column {
    /// The type's name in PostgreSQL's information_schema.
    fn standard_type(&self) -> &'static str {
        match self.ty {
            LogicalType::Boolean => "boolean",
            LogicalType::Integer => "integer",
            LogicalType::BigInt => "bigint",
            LogicalType::Decimal { .. } => "numeric",
            LogicalType::Double => "double precision",
            LogicalType::Date => "date",
            LogicalType::Timestamp => "timestamp without time zone",
            LogicalType::Varchar => "text",
        }
    }

    /// Precision, its radix, and scale.
    fn numeric(&self) -> (Option<u64>, Option<u64>, Option<u64>) {
        match self.ty {
            LogicalType::Integer => (Some(32), Some(2), Some(0)),
            LogicalType::BigInt => (Some(64), Some(2), Some(0)),
            LogicalType::Double => (Some(53), Some(2), None),
            LogicalType::Decimal { precision, scale } => {
                (Some(u64::from(precision)), Some(10), Some(u64::from(scale)))
            }
            _ => (None, None, None),
        }
    }

    /// Digits of the fraction of a second.
    fn datetime_precision(&self) -> Option<u64> {
        match self.ty {
            LogicalType::Date => Some(0),
            LogicalType::Timestamp => Some(6),
            _ => None,
        }
    }
}

fn columns_of(table: &Table) -> Vec<Column> {
    let spec = table.spec();
    let columns = spec.columns.iter().zip(1..);
    columns
        .map(|(column, place)| Column {
            table: spec.name.clone(),
            name: column.name.clone(),
            place,
            ty: column.ty,
            data_type: column.ty.to_string(),
            nullable: column.nullable,
        })
        .collect()
}

fn yes_or_no(nullable: bool) -> &'static str {
    if nullable { "YES" } else { "NO" }
}

/// The columns of one table: names, types, and whether they may be NULL.
pub(crate) fn describe(table: &Table) -> Result<RecordBatch> {
    let columns = columns_of(table);
    let text = |of: fn(&Column) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(columns.iter().map(of)))
    };
    Ok(RecordBatch::try_from_iter([
        ("column_name", text(|column| &column.name)),
        ("data_type", text(|column| &column.data_type)),
        ("is_nullable", text(|column| yes_or_no(column.nullable))),
    ])?)
}
