//! The rows of the catalog.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use tierra_engine::{Database, Table};

use super::question::{Condition, Question, Subject};
use crate::error::Fault;

/// The only schema, database and access method, as they are called here.
const SCHEMA: &str = "public";
const DATABASE: &str = "tierra";
const METHOD: &str = "tierra";
/// The least number that PostgreSQL gives to a table of a user.
const OID_LEAST: u32 = 16_384;

/// A value: a text or NULL, if it is known.
type Value = Option<Option<String>>;

impl Question {
    /// The columns, whose rows are all texts.
    pub(crate) fn schema(&self) -> Schema {
        let columns = self.columns.iter();
        let fields = columns.map(|(name, _)| Field::new(name, DataType::Utf8, true));
        Schema::new(fields.collect::<Vec<_>>())
    }

    /// The answer to a user.
    pub(crate) fn rows(
        &self,
        database: &Database,
        user: &str,
        is_superuser: bool,
    ) -> Result<RecordBatch, Fault> {
        let mut names = database.tables();
        names.sort_unstable();
        let tables = names.iter().filter_map(|name| database.table(name));
        let tables: Vec<_> = tables
            .filter(|table| self.has(&table.spec().name, Some(&table.spec().name)))
            .collect();
        let rows: Vec<Vec<Option<String>>> = match self.subject {
            Subject::Nothing => Vec::new(),
            Subject::Tables => self.each(&tables, |table, what| of_table(table, user, what))?,
            Subject::Keys => {
                let keyed: Vec<_> = tables
                    .into_iter()
                    .filter(|table| !table.spec().primary_key.is_empty())
                    .collect();
                self.each(&keyed, |table, what| of_key(table, what))?
            }
            Subject::Columns => {
                let columns = tables.iter().flat_map(|table| {
                    (0..table.spec().columns.len()).map(move |place| (table, place))
                });
                let columns: Vec<_> = columns.collect();
                self.each(&columns, |(table, place), what| {
                    of_column(table, *place, what)
                })?
            }
            Subject::Schemas => self.one(SCHEMA, |what| of_schema(user, what))?,
            Subject::Databases => self.one(DATABASE, |what| of_database(user, what))?,
            Subject::Users => self.one(user, |what| of_user(user, is_superuser, what))?,
        };
        let columns = (0..self.columns.len()).map(|place| {
            let values = rows.iter().map(|row| row[place].as_deref());
            Arc::new(values.collect::<StringArray>()) as ArrayRef
        });
        RecordBatch::try_new(Arc::new(self.schema()), columns.collect())
            .map_err(|error| Fault::new("XX000", error.to_string()))
    }

    /// Whether a thing of this name, or of this table, is asked for.
    fn has(&self, name: &str, table: Option<&str>) -> bool {
        self.conditions.iter().all(|condition| match condition {
            Condition::Name(pattern) => pattern.matches(name),
            Condition::Schema(pattern) => pattern.matches(SCHEMA),
            Condition::Table(oid) => table.is_some_and(|table| oid_of(table) == *oid),
            Condition::NoTable => table.is_none(),
        })
    }

    fn each<T>(
        &self,
        things: &[T],
        value: impl Fn(&T, &str) -> Value,
    ) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let rows = things.iter().map(|thing| {
            let values = self.columns.iter().map(|(name, what)| {
                value(thing, what).ok_or_else(|| {
                    Fault::unsupported(&format!(
                        "column \"{name}\" of this query of the system catalog"
                    ))
                })
            });
            values.collect()
        });
        rows.collect()
    }

    fn one(
        &self,
        name: &str,
        value: impl Fn(&str) -> Value,
    ) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let things: &[()] = if self.has(name, None) { &[()] } else { &[] };
        self.each(things, |(), what| value(what))
    }
}

/// The number of a table. It is made of the name, so that it is the same in each query.
fn oid_of(table: &str) -> u32 {
    let hash = table.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    OID_LEAST + hash % (i32::MAX as u32 - OID_LEAST)
}

fn text(value: impl Into<String>) -> Value {
    Some(Some(value.into()))
}

fn truth(value: bool) -> Value {
    text(if value { "t" } else { "f" })
}

/// The parts of a table's description that PostgreSQL has and Tierra has not.
fn of_table(table: &Table, user: &str, what: &str) -> Value {
    let spec = table.spec();
    match what {
        "n.nspname" => text(SCHEMA),
        "c.relname" => text(&spec.name),
        "c.oid" => text(oid_of(&spec.name).to_string()),
        "c.relkind" => text("r"),
        "c.relpersistence" => text("p"),
        "c.relreplident" => text("d"),
        "am.amname" => text(METHOD),
        "c.relhasindex" => truth(!spec.primary_key.is_empty()),
        "c.relchecks" | "c.reltablespace" => text("0"),
        "c.relhasrules"
        | "c.relhastriggers"
        | "c.relrowsecurity"
        | "c.relforcerowsecurity"
        | "c.relispartition"
        | "false" => truth(false),
        "pg_catalog.pg_get_userbyid(c.relowner)" => text(user),
        "''" => text(""),
        // What its near and far copies take, tierra_columns says.
        "pg_catalog.pg_size_pretty(pg_catalog.pg_table_size(c.oid))" => Some(None),
        other if other.starts_with("casec.relkindwhen") => text("table"),
        other if other.starts_with("casec.relpersistencewhen") => text("permanent"),
        other if other.starts_with("casewhenc.reloftype=0") => text(""),
        other if other.starts_with("pg_catalog.array_to_string(c.reloptions") => text(""),
        other if other.starts_with("pg_catalog.obj_description(c.oid") => Some(None),
        _ => None,
    }
}

fn of_key(table: &Table, what: &str) -> Value {
    let spec = table.spec();
    let columns: Vec<&str> = spec
        .primary_key
        .iter()
        .map(|place| spec.columns[*place].name.as_str())
        .collect();
    let columns = columns.join(", ");
    let name = format!("{}_pkey", spec.name);
    match what {
        "c2.relname" => text(name),
        "i.indisprimary" | "i.indisunique" | "i.indisvalid" => truth(true),
        "i.indisclustered" | "i.indisreplident" | "condeferrable" | "condeferred" => truth(false),
        "c2.reltablespace" => text("0"),
        "contype" => text("p"),
        "pg_catalog.pg_get_indexdef(i.indexrelid,0,true)" => text(format!(
            "CREATE UNIQUE INDEX {name} ON {SCHEMA}.{} USING {METHOD} ({columns})",
            spec.name
        )),
        "pg_catalog.pg_get_constraintdef(con.oid,true)" => text(format!("PRIMARY KEY ({columns})")),
        _ => None,
    }
}

fn of_column(table: &Table, place: usize, what: &str) -> Value {
    let column = &table.spec().columns[place];
    let schema = table.schema();
    match what {
        "a.attname" => text(&column.name),
        "pg_catalog.format_type(a.atttypid,a.atttypmod)" => {
            text(type_name(schema.field(place).data_type()))
        }
        "a.attnotnull" => truth(!schema.field(place).is_nullable()),
        "a.attidentity" | "a.attgenerated" | "a.attcompression" => text(""),
        "a.attstorage" => text("p"),
        other if other.starts_with("(selectpg_catalog.pg_get_expr(d.adbin") => Some(None),
        other if other.starts_with("(selectc.collname") => Some(None),
        other if other.starts_with("casewhena.attstattarget=-1") => Some(None),
        other if other.starts_with("pg_catalog.col_description(") => Some(None),
        _ => None,
    }
}

/// A column's type as PostgreSQL writes it.
fn type_name(ty: &DataType) -> String {
    match ty {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        DataType::Decimal128(precision, scale) => format!("numeric({precision},{scale})"),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(..) => "timestamp without time zone".to_owned(),
        _ => "text".to_owned(),
    }
}

fn of_schema(user: &str, what: &str) -> Value {
    match what {
        "n.nspname" => text(SCHEMA),
        "pg_catalog.pg_get_userbyid(n.nspowner)" => text(user),
        other if other.starts_with("pg_catalog.array_to_string(n.nspacl") => Some(None),
        other if other.starts_with("pg_catalog.obj_description(n.oid") => Some(None),
        _ => None,
    }
}

fn of_database(user: &str, what: &str) -> Value {
    match what {
        "d.datname" => text(DATABASE),
        "pg_catalog.pg_get_userbyid(d.datdba)" => text(user),
        "pg_catalog.pg_encoding_to_char(d.encoding)" => text("UTF8"),
        "d.datcollate" | "d.datctype" => text("C"),
        "t.spcname" => text("pg_default"),
        "d.daticulocale" => Some(None),
        other if other.starts_with("cased.datlocproviderwhen") => text("libc"),
        other if other.starts_with("pg_catalog.array_to_string(d.datacl") => Some(None),
        other if other.starts_with("casewhenpg_catalog.has_database_privilege(") => Some(None),
        other if other.starts_with("pg_catalog.shobj_description(d.oid") => Some(None),
        _ => None,
    }
}

fn of_user(user: &str, is_superuser: bool, what: &str) -> Value {
    match what {
        "r.rolname" => text(user),
        "r.rolsuper" => truth(is_superuser),
        "r.rolinherit" | "r.rolcanlogin" => truth(true),
        "r.rolcreaterole" | "r.rolcreatedb" | "r.rolreplication" | "r.rolbypassrls" => truth(false),
        "r.rolconnlimit" => text("-1"),
        "r.rolvaliduntil" => Some(None),
        other if other.starts_with("array(selectb.rolname") => text("{}"),
        other if other.starts_with("pg_catalog.shobj_description(r.oid") => Some(None),
        _ => None,
    }
}
