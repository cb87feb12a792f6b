//! CREATE TABLE and DROP TABLE. They say more than DataFusion's plans can carry: keys, an encoding, a tier and an
//! index per column, and the tiers of copies.
//!
//! ```sql
//! CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, amount DECIMAL(12, 2))
//!   WITH ('name.encoding' = 'dictionary', 'amount.tier' = 'far', 'replicas' = 'far, b');
//! ```

use std::sync::LazyLock;

use arrow::datatypes::{DataType, Schema};
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, CreateTable, CreateTableOptions, Expr, HiveFormat, IndexColumn,
    OrderByExpr, OrderByOptions, PrimaryKeyConstraint, SqlOption, TableConstraint,
};
use tierra_column::Encoding;
use tierra_engine::{ColumnSpec, Replicas, TableSpec};

use crate::error::DefinitionError;
use crate::names::{SCHEMA, identifier, single_name};
use crate::types;

/// The option that names the tiers of copies. It applies to a table, or to a column if a column's name precedes it.
const REPLICAS: &str = "replicas";

/// The prefix of the names of tables that describe the database.
const RESERVED: &str = "tierra_";

/// The table that a CREATE TABLE without a query describes, and the tiers of its copies.
pub(crate) fn table_spec(create: &CreateTable) -> Result<(TableSpec, Replicas), DefinitionError> {
    refuse_unknown_clauses(create)?;
    let name = new_table_name(&create.name)?;
    if create.columns.is_empty() {
        return Err(DefinitionError::NoColumns(name));
    }
    let mut key: Option<Vec<String>> = None;
    let mut declare_key = |columns: Vec<String>| match key.replace(columns) {
        None => Ok(()),
        Some(_) => Err(DefinitionError::TwoKeys(name.clone())),
    };
    let mut columns = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        let column_name = identifier(&column.name);
        let mut spec = ColumnSpec::new(
            column_name.clone(),
            types::from_sql(&column_name, &column.data_type)?,
        );
        for option in &column.options {
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => spec.nullable = false,
                ColumnOption::PrimaryKey(key) => {
                    refuse_key_options(key)?;
                    declare_key(vec![column_name.clone()])?;
                }
                other => {
                    return Err(DefinitionError::Unsupported(format!(
                        "column '{column_name}': {other}"
                    )));
                }
            }
        }
        columns.push(spec);
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                refuse_key_options(key)?;
                let parts = key.columns.iter().map(|column| match &column.column.expr {
                    Expr::Identifier(ident) if is_plain(column) => Ok(identifier(ident)),
                    _ => Err(DefinitionError::Unsupported(format!(
                        "PRIMARY KEY on {column}"
                    ))),
                });
                declare_key(parts.collect::<Result<_, _>>()?)?;
            }
            other => return Err(DefinitionError::Unsupported(other.to_string())),
        }
    }
    with_key_and_options(
        TableSpec {
            name,
            columns,
            primary_key: Vec::new(),
        },
        key,
        create,
    )
}

/// The table that CREATE TABLE AS SELECT describes, given the query's schema.
pub(crate) fn table_spec_of_query(
    create: &CreateTable,
    schema: &Schema,
) -> Result<(TableSpec, Replicas), DefinitionError> {
    refuse_unknown_clauses(create)?;
    let name = new_table_name(&create.name)?;
    if !create.columns.is_empty() || !create.constraints.is_empty() {
        return Err(DefinitionError::Unsupported(
            "CREATE TABLE with columns or a key AND a query".to_string(),
        ));
    }
    for field in schema.fields() {
        if let DataType::Timestamp(_, Some(_)) = field.data_type() {
            return Err(DefinitionError::Zone(field.name().clone()));
        }
    }
    let mut spec = spec_of_schema(name, schema)?;
    // That the planner finds no NULL in a column of the query says nothing about rows that come later.
    spec.columns
        .iter_mut()
        .for_each(|column| column.nullable = true);
    with_key_and_options(spec, None, create)
}

/// A table for rows of `schema`. Tierra chooses its encodings and its placement.
pub(crate) fn spec_of_schema(name: String, schema: &Schema) -> Result<TableSpec, DefinitionError> {
    let columns = schema.fields().iter().map(|field| {
        let ty = types::from_arrow(field.name(), field.data_type())?;
        Ok(ColumnSpec {
            nullable: field.is_nullable(),
            ..ColumnSpec::new(field.name(), ty)
        })
    });
    Ok(TableSpec {
        columns: columns.collect::<Result<_, _>>()?,
        name,
        primary_key: Vec::new(),
    })
}

/// The name of a table in the database's one schema.
pub(crate) fn table_name(name: &ast::ObjectName) -> Result<String, DefinitionError> {
    single_name(name).ok_or_else(|| {
        DefinitionError::Unsupported(format!("table name '{name}' outside schema '{SCHEMA}'"))
    })
}

/// The name of a table to be created.
fn new_table_name(name: &ast::ObjectName) -> Result<String, DefinitionError> {
    let name = table_name(name)?;
    refuse_reserved(&name)?;
    Ok(name)
}

/// Refuses names that begin with [`RESERVED`], so that no new table hides a table that describes the database, now or in
/// a later version. A table of such a name that an earlier version created stays.
pub(crate) fn refuse_reserved(name: &str) -> Result<(), DefinitionError> {
    match name.to_ascii_lowercase().starts_with(RESERVED) {
        true => Err(DefinitionError::Reserved(name.to_string())),
        false => Ok(()),
    }
}

/// Refuses clauses that the parser accepts and Tierra does not implement.
fn refuse_unknown_clauses(create: &CreateTable) -> Result<(), DefinitionError> {
    let refuse = |what: &str| Err(DefinitionError::Unsupported(what.to_string()));
    if create.or_replace {
        return refuse("CREATE OR REPLACE TABLE");
    }
    if create.temporary {
        return refuse("CREATE TEMPORARY TABLE");
    }
    if create.like.is_some() {
        return refuse("CREATE TABLE LIKE");
    }
    if create.partition_by.is_some() || create.order_by.is_some() || create.cluster_by.is_some() {
        return refuse("PARTITION BY, ORDER BY or CLUSTER BY in CREATE TABLE");
    }
    match &create.table_options {
        CreateTableOptions::None | CreateTableOptions::With(_) => {}
        other => {
            return refuse(&format!(
                "'{other}' in CREATE TABLE; use WITH ('COLUMN.encoding' = ..)"
            ));
        }
    }
    // The parser knows dozens more clauses. Without those that are read, nothing may be left.
    let mut rest = create.clone();
    rest.columns.clear();
    rest.constraints.clear();
    rest.query = None;
    rest.table_options = CreateTableOptions::None;
    rest.if_not_exists = false;
    rest.hive_formats = rest
        .hive_formats
        .filter(|formats| *formats != HiveFormat::default());
    match rest == CreateTableBuilder::new(create.name.clone()).build() {
        true => Ok(()),
        false => refuse(&format!("a clause of '{rest}'")),
    }
}

/// A key is ascending, checked immediately, and has no options.
fn refuse_key_options(key: &PrimaryKeyConstraint) -> Result<(), DefinitionError> {
    let PrimaryKeyConstraint {
        name: _,
        index_name,
        index_type,
        columns: _,
        index_options,
        characteristics,
    } = key;
    match index_name.is_some()
        || index_type.is_some()
        || !index_options.is_empty()
        || characteristics.is_some()
    {
        true => Err(DefinitionError::Unsupported(format!(
            "an option of '{key}'"
        ))),
        false => Ok(()),
    }
}

/// Whether a part of a key is a column without options.
fn is_plain(column: &IndexColumn) -> bool {
    let OrderByExpr {
        expr: _,
        options: OrderByOptions { asc, nulls_first },
        with_fill,
    } = &column.column;
    column.operator_class.is_none()
        && *asc != Some(false)
        && nulls_first.is_none()
        && with_fill.is_none()
}

fn with_key_and_options(
    mut spec: TableSpec,
    key: Option<Vec<String>>,
    create: &CreateTable,
) -> Result<(TableSpec, Replicas), DefinitionError> {
    for column in key.unwrap_or_default() {
        let place = place(&spec, &column, "the primary key")?;
        spec.columns[place].nullable = false;
        spec.primary_key.push(place);
    }
    let mut replicas = Replicas::default();
    if let CreateTableOptions::With(options) = &create.table_options {
        for option in options {
            let (key, value) = key_and_value(option)?;
            if !place_copies(&spec, &mut replicas, &key, &value)? {
                apply(&mut spec, key, &value.to_lowercase())?;
            }
        }
    }
    Ok((spec, replicas))
}

/// The `replicas` of a table after ALTER TABLE.
pub(crate) fn changed_replicas<'a>(
    spec: &TableSpec,
    mut replicas: Replicas,
    options: impl IntoIterator<Item = &'a SqlOption>,
) -> Result<Replicas, DefinitionError> {
    for option in options {
        let (key, value) = key_and_value(option)?;
        if !place_copies(spec, &mut replicas, &key, &value)? {
            return Err(DefinitionError::Fixed { option: key });
        }
    }
    Ok(replicas)
}

/// An option's name, and its value as written.
fn key_and_value(option: &SqlOption) -> Result<(String, String), DefinitionError> {
    let SqlOption::KeyValue { key, value } = option else {
        return Err(DefinitionError::UnknownOption {
            option: option.to_string(),
        });
    };
    let value = match value {
        Expr::Value(ast::ValueWithSpan {
            value: ast::Value::SingleQuotedString(text),
            ..
        }) => text.clone(),
        Expr::Identifier(ident) => identifier(ident),
        other => other.to_string(),
    };
    Ok((identifier(key), value))
}

/// Reads an option that names the tiers of copies; `false` if it is another option. An empty list of tiers means the
/// default: the database's for a table, the table's for a column.
fn place_copies(
    spec: &TableSpec,
    replicas: &mut Replicas,
    key: &str,
    value: &str,
) -> Result<bool, DefinitionError> {
    let column = match key.rsplit_once('.') {
        Some((column, REPLICAS)) => Some(column),
        None if key == REPLICAS => None,
        _ => return Ok(false),
    };
    let tiers: Vec<String> = match value.trim() {
        "" => Vec::new(),
        names => names.split(',').map(|name| name.trim().into()).collect(),
    };
    if tiers.iter().any(String::is_empty) {
        return Err(DefinitionError::OptionValue {
            option: key.to_string(),
            value: value.to_string(),
            valid: "names of tiers, separated by commas",
        });
    }
    let Some(column) = column else {
        replicas.table = tiers;
        return Ok(true);
    };
    place(spec, column, &format!("option '{key}'"))?;
    match tiers.is_empty() {
        true => replicas.columns.remove(column),
        false => replicas.columns.insert(column.to_string(), tiers),
    };
    Ok(true)
}

/// The names of all encodings, as a sentence lists them.
fn encodings() -> &'static str {
    static NAMES: LazyLock<String> = LazyLock::new(|| {
        let [others @ .., last] = Encoding::ALL.map(Encoding::name);
        format!("{} and {last}", others.join(", "))
    });
    &NAMES
}

fn apply(spec: &mut TableSpec, key: String, value: &str) -> Result<(), DefinitionError> {
    let Some((column, property)) = key.rsplit_once('.') else {
        return Err(DefinitionError::UnknownOption { option: key });
    };
    let wrong = |valid| DefinitionError::OptionValue {
        option: key.clone(),
        value: value.to_string(),
        valid,
    };
    match property {
        "encoding" => {
            let encoding = value.parse().map_err(|_| wrong(encodings()))?;
            let place = place(spec, column, &format!("option '{key}'"))?;
            spec.columns[place].encoding = Some(encoding);
        }
        "tier" => {
            let near = match value {
                "near" => true,
                "far" => false,
                _ => return Err(wrong("near and far")),
            };
            let place = place(spec, column, &format!("option '{key}'"))?;
            spec.columns[place].near = Some(near);
        }
        "near_encoding" => {
            let encoding = value.parse().map_err(|_| wrong(encodings()))?;
            let place = place(spec, column, &format!("option '{key}'"))?;
            spec.columns[place].near_encoding = Some(encoding);
        }
        "index" => {
            let index = value.parse().map_err(|_| wrong("inverted"))?;
            let place = place(spec, column, &format!("option '{key}'"))?;
            spec.columns[place].index = Some(index);
        }
        _ => return Err(DefinitionError::UnknownOption { option: key }),
    }
    Ok(())
}

fn place(spec: &TableSpec, column: &str, what: &str) -> Result<usize, DefinitionError> {
    spec.columns
        .iter()
        .position(|other| other.name == column)
        .ok_or_else(|| DefinitionError::UnknownColumn {
            what: what.to_string(),
            column: column.to_string(),
            table: spec.name.clone(),
            columns: spec
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
}
