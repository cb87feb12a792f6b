//! The one catalog with its one schema, tables, columns and primary keys, in the nested shape that ADBC asks for.

use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{
    COLUMN_SCHEMA, CONSTRAINT_SCHEMA, GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA,
    OBJECTS_DB_SCHEMA_SCHEMA, TABLE_SCHEMA, USAGE_SCHEMA,
};
use arrow::array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, ListArray, RecordBatch, StringArray,
    StructArray, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::comparison::like;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use tierra::column::LogicalType;
use tierra::engine::{ColumnSpec, Database, Table};

/// The only catalog.
pub(crate) const CATALOG: &str = "tierra";
/// Its only schema.
pub(crate) const SCHEMA: &str = "public";
/// The only kind of tables.
const TABLE: &str = "table";

/// Whether names of a catalog and a schema, where they are given, are those of the database.
pub(crate) fn is_here(catalog: Option<&str>, schema: Option<&str>) -> bool {
    catalog.is_none_or(|name| name == CATALOG) && schema.is_none_or(|name| name == SCHEMA)
}

/// Which objects are asked for: patterns as those of LIKE, in which nothing is escaped, and kinds of tables.
#[derive(Debug, Default)]
pub(crate) struct Filter<'a> {
    pub(crate) catalog: Option<&'a str>,
    pub(crate) schema: Option<&'a str>,
    pub(crate) table: Option<&'a str>,
    pub(crate) types: Option<&'a [&'a str]>,
    pub(crate) column: Option<&'a str>,
}

type Arrays<T> = std::result::Result<T, ArrowError>;

/// Whether `name` is like `pattern`.
fn is_like(name: &str, pattern: Option<&str>) -> Arrays<bool> {
    let Some(pattern) = pattern else {
        return Ok(true);
    };
    let name = StringArray::from(vec![name]);
    // LIKE has escapes, and `adbc.h` has none.
    let pattern = pattern.replace('\\', "\\\\");
    Ok(like(&name, &StringArray::new_scalar(pattern))?.value(0))
}

fn filtered<T>(
    all: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> &str,
    pattern: Option<&str>,
) -> Arrays<Vec<T>> {
    let mut kept = Vec::new();
    for one in all {
        if is_like(name(&one), pattern)? {
            kept.push(one);
        }
    }
    Ok(kept)
}

/// The kinds of tables.
pub(crate) fn types() -> Result<RecordBatch> {
    let kinds: ArrayRef = Arc::new(StringArray::from(vec![TABLE]));
    Ok(RecordBatch::try_new(
        Arc::clone(&GET_TABLE_TYPES_SCHEMA),
        vec![kinds],
    )?)
}

/// What `filter` asks for, down to `depth`.
pub(crate) fn objects(
    database: &Database,
    depth: ObjectDepth,
    filter: &Filter<'_>,
) -> Result<RecordBatch> {
    let catalogs = filtered([CATALOG], |name| name, filter.catalog)?;
    let count = catalogs.len();
    let schemas = match depth {
        ObjectDepth::Catalogs => null_lists(&OBJECTS_DB_SCHEMA_SCHEMA, count),
        _ => one_list(
            &OBJECTS_DB_SCHEMA_SCHEMA,
            schemas(database, depth, filter)?,
            count,
        )?,
    };
    let columns = vec![Arc::new(StringArray::from(catalogs)) as ArrayRef, schemas];
    Ok(RecordBatch::try_new(
        Arc::clone(&GET_OBJECTS_SCHEMA),
        columns,
    )?)
}

fn schemas(database: &Database, depth: ObjectDepth, filter: &Filter<'_>) -> Arrays<ArrayRef> {
    let names = filtered([SCHEMA], |name| name, filter.schema)?;
    let count = names.len();
    let tables = match depth {
        ObjectDepth::Catalogs | ObjectDepth::Schemas => null_lists(&TABLE_SCHEMA, count),
        ObjectDepth::Tables | ObjectDepth::Columns | ObjectDepth::All => {
            one_list(&TABLE_SCHEMA, tables(database, depth, filter)?, count)?
        }
    };
    structs(
        &OBJECTS_DB_SCHEMA_SCHEMA,
        vec![Arc::new(StringArray::from(names)), tables],
    )
}

fn tables(database: &Database, depth: ObjectDepth, filter: &Filter<'_>) -> Arrays<ArrayRef> {
    let is_asked = filter.types.is_none_or(|types| types.contains(&TABLE));
    let names = match is_asked {
        true => filtered(database.tables(), String::as_str, filter.table)?,
        false => Vec::new(),
    };
    // One may be dropped meanwhile.
    let tables = names.iter().filter_map(|name| database.table(name));
    let tables: Vec<_> = tables.collect();
    let names = tables.iter().map(|table| table.spec().name.as_str());
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let kinds: ArrayRef = Arc::new(StringArray::from(vec![TABLE; tables.len()]));
    let (columns, constraints) = match depth {
        ObjectDepth::Columns | ObjectDepth::All => {
            (columns(&tables, filter)?, constraints(&tables)?)
        }
        _ => (
            null_lists(&COLUMN_SCHEMA, tables.len()),
            null_lists(&CONSTRAINT_SCHEMA, tables.len()),
        ),
    };
    structs(&TABLE_SCHEMA, vec![names, kinds, columns, constraints])
}

/// A list of columns for each table.
fn columns(tables: &[Arc<Table>], filter: &Filter<'_>) -> Arrays<ArrayRef> {
    let (mut all, mut counts) = (Vec::new(), Vec::new());
    for table in tables {
        let placed = (1..).zip(&table.spec().columns);
        let kept = filtered(placed, |(_, column)| &column.name, filter.column)?;
        counts.push(kept.len());
        all.extend(kept);
    }
    let text = |of: &dyn Fn(&ColumnSpec) -> String| -> ArrayRef {
        let texts = all.iter().map(|(_, column)| of(column));
        Arc::new(StringArray::from_iter_values(texts))
    };
    let small = |of: &dyn Fn(&Xdbc) -> Option<i16>| -> ArrayRef {
        let numbers = all.iter().map(|(_, column)| of(&Xdbc::of(column.ty)));
        Arc::new(numbers.collect::<Int16Array>())
    };
    let places = all.iter().map(|(place, _)| *place);
    let sizes = all.iter().map(|(_, column)| Xdbc::of(column.ty).size);
    let nullable = all.iter().map(|(_, column)| i16::from(column.nullable));
    let none = |ty: &DataType| new_null_array(ty, all.len());
    let no: ArrayRef = Arc::new(BooleanArray::from(vec![false; all.len()]));
    let columns = structs(
        &COLUMN_SCHEMA,
        vec![
            text(&|column| column.name.clone()),
            Arc::new(Int32Array::from_iter_values(places)),
            none(&DataType::Utf8),
            small(&|xdbc| Some(xdbc.ty)),
            text(&|column| column.ty.to_string()),
            Arc::new(sizes.collect::<Int32Array>()),
            small(&|xdbc| xdbc.digits),
            small(&|xdbc| xdbc.radix),
            Arc::new(Int16Array::from_iter_values(nullable)),
            none(&DataType::Utf8),
            small(&|xdbc| Some(xdbc.sql_ty)),
            small(&|xdbc| xdbc.datetime),
            none(&DataType::Int32),
            text(&|column| (if column.nullable { "YES" } else { "NO" }).to_owned()),
            none(&DataType::Utf8),
            none(&DataType::Utf8),
            none(&DataType::Utf8),
            Arc::clone(&no),
            no,
        ],
    )?;
    lists(&COLUMN_SCHEMA, columns, counts)
}

/// A list for each table: its primary key, if it has one.
fn constraints(tables: &[Arc<Table>]) -> Arrays<ArrayRef> {
    let (mut counts, mut sizes, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for table in tables {
        let spec = table.spec();
        let key = &spec.primary_key;
        counts.push(usize::from(!key.is_empty()));
        if !key.is_empty() {
            sizes.push(key.len());
            names.extend(key.iter().map(|place| spec.columns[*place].name.as_str()));
        }
    }
    let count = sizes.len();
    let keys = structs(
        &CONSTRAINT_SCHEMA,
        vec![
            new_null_array(&DataType::Utf8, count),
            Arc::new(StringArray::from(vec!["PRIMARY KEY"; count])),
            lists(&DataType::Utf8, Arc::new(StringArray::from(names)), sizes)?,
            null_lists(&USAGE_SCHEMA, count),
        ],
    )?;
    lists(&CONSTRAINT_SCHEMA, keys, counts)
}

fn structs(ty: &DataType, arrays: Vec<ArrayRef>) -> Arrays<ArrayRef> {
    let DataType::Struct(fields) = ty else {
        return Err(ArrowError::SchemaError(format!("{ty} has no fields")));
    };
    Ok(Arc::new(StructArray::try_new(
        fields.clone(),
        arrays,
        None,
    )?))
}

/// Lists of so many of `values`.
fn lists(ty: &DataType, values: ArrayRef, counts: Vec<usize>) -> Arrays<ArrayRef> {
    let item = Arc::new(Field::new_list_field(ty.clone(), true));
    let ends = OffsetBuffer::from_lengths(counts);
    Ok(Arc::new(ListArray::try_new(item, ends, values, None)?))
}

/// One list, of all `values`; none if nothing holds it.
fn one_list(ty: &DataType, values: ArrayRef, count: usize) -> Arrays<ArrayRef> {
    match count {
        0 => Ok(null_lists(ty, 0)),
        _ => lists(ty, Arc::clone(&values), vec![values.len()]),
    }
}

/// Lists that were not asked for.
fn null_lists(ty: &DataType, count: usize) -> ArrayRef {
    new_null_array(&DataType::new_list(ty.clone(), true), count)
}

/// A type in the numbers of ODBC and JDBC.
struct Xdbc {
    ty: i16,
    /// Digits, bits of a DOUBLE, or letters of a date.
    size: Option<i32>,
    /// Digits after the point.
    digits: Option<i16>,
    radix: Option<i16>,
    sql_ty: i16,
    /// Which type of dates and times.
    datetime: Option<i16>,
}

impl Xdbc {
    fn of(ty: LogicalType) -> Self {
        let exact = |ty, size, digits| Self {
            ty,
            size: Some(size),
            digits: Some(digits),
            radix: Some(10),
            sql_ty: ty,
            datetime: None,
        };
        let other = |ty, size| Self {
            ty,
            size,
            digits: None,
            radix: None,
            sql_ty: ty,
            datetime: None,
        };
        match ty {
            LogicalType::Boolean => other(16, None),
            LogicalType::Integer => exact(4, 10, 0),
            LogicalType::BigInt => exact(-5, 19, 0),
            LogicalType::Decimal { precision, scale } => {
                exact(3, i32::from(precision), i16::from(scale))
            }
            LogicalType::Double => Self {
                radix: Some(2),
                ..other(8, Some(53))
            },
            LogicalType::Date => Self {
                sql_ty: 9,
                datetime: Some(1),
                ..other(91, Some(10))
            },
            LogicalType::Timestamp => Self {
                sql_ty: 9,
                datetime: Some(3),
                digits: Some(6),
                ..other(93, Some(26))
            },
            LogicalType::Varchar => other(12, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_that_of_like() {
        for (name, pattern, expected) in [
            ("readings", None, true),
            ("readings", Some("read%"), true),
            ("readings", Some("reading_"), true),
            ("readings", Some("reading"), false),
            ("readings", Some(""), false),
            ("a\\b", Some("a\\b"), true),
            ("a\\xb", Some("a\\_b"), true),
            ("a_b", Some("a\\_b"), false),
        ] {
            assert_eq!(
                is_like(name, pattern).unwrap(),
                expected,
                "{name} {pattern:?}"
            );
        }
    }
}
