//! Tables, their columns and keys.

use super::rows::Rows;
use crate::contents::{INDEX_METHOD, OWNER, Objects, PUBLIC, Relation, TABLE_METHOD};
use crate::types::Type;
use crate::value::Value;

pub(super) fn pg_class(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for relation in &objects.relations {
        let count = relation.rows.map_or(-1.0, |rows| rows as f64);
        let method = match relation.kind {
            "r" => TABLE_METHOD,
            "i" => INDEX_METHOD,
            _ => 0,
        };
        rows.add(&[
            ("oid", relation.oid.into()),
            ("relname", relation.name.as_str().into()),
            ("relnamespace", relation.schema.into()),
            ("relowner", OWNER.into()),
            ("relam", method.into()),
            (
                "relfilenode",
                if relation.kind == "v" {
                    0
                } else {
                    relation.oid
                }
                .into(),
            ),
            ("reltuples", Value::Float(count)),
            (
                "relhasindex",
                (relation.kind == "r" && relation.other.is_some()).into(),
            ),
            ("relpersistence", "p".into()),
            ("relkind", relation.kind.into()),
            ("relnatts", Value::Int(relation.columns.len() as i64)),
            ("relispopulated", true.into()),
            (
                "relreplident",
                if relation.schema == PUBLIC && relation.kind == "r" {
                    "d"
                } else {
                    "n"
                }
                .into(),
            ),
        ]);
    }
}

pub(super) fn pg_attribute(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for relation in &objects.relations {
        for (number, column) in (1_i64..).zip(&relation.columns) {
            let Some(ty) = column.ty.row() else { continue };
            rows.add(&[
                ("attrelid", relation.oid.into()),
                ("attname", column.name.as_str().into()),
                ("atttypid", ty.ty.0.into()),
                ("attstattarget", Value::Int(-1)),
                ("attlen", Value::Int(ty.len.into())),
                ("attnum", Value::Int(number)),
                ("attndims", Value::Int(i64::from(ty.category == b'A'))),
                ("attcacheoff", Value::Int(-1)),
                ("atttypmod", Value::Int(column.modifier.into())),
                ("attbyval", ty.by_value.into()),
                ("attalign", ty.align.into()),
                ("attstorage", ty.storage.into()),
                (
                    "attnotnull",
                    (!column.is_nullable && !relation.is_index()).into(),
                ),
                ("attislocal", true.into()),
                ("attcollation", collation(relation, ty.collation).into()),
            ]);
        }
    }
}

/// Texts of the catalog are in the order of their bytes, whatever the order of others.
fn collation(relation: &Relation, collation: u32) -> u32 {
    match (relation.schema, collation) {
        (PUBLIC, collation) => collation,
        (_, 100) => 950,
        (_, collation) => collation,
    }
}

/// The numbers of a key's columns.
fn numbers(relation: &Relation) -> Vec<Value> {
    relation
        .key
        .iter()
        .map(|place| Value::Int(*place as i64 + 1))
        .collect()
}

pub(super) fn pg_index(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (index, table) in objects.keys() {
        let count = Value::Int(index.columns.len() as i64);
        let each = |value: fn(Type) -> u32| {
            let values = index.columns.iter().map(|column| value(column.ty).into());
            Value::vector(values.collect())
        };
        rows.add(&[
            ("indexrelid", index.oid.into()),
            ("indrelid", table.oid.into()),
            ("indnatts", count.clone()),
            ("indnkeyatts", count),
            ("indisunique", true.into()),
            ("indisprimary", true.into()),
            ("indimmediate", true.into()),
            ("indisvalid", true.into()),
            ("indisready", true.into()),
            ("indislive", true.into()),
            ("indkey", Value::vector(numbers(table))),
            (
                "indcollation",
                each(|ty| ty.row().map_or(0, |row| row.collation)),
            ),
            (
                "indclass",
                each(|ty| super::types::operator_class(ty).map_or(0, |(_, oid, _)| oid)),
            ),
            ("indoption", each(|_| 0)),
        ]);
    }
}

pub(super) fn pg_constraint(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (index, table) in objects.keys() {
        rows.add(&[
            ("oid", index.constraint.into()),
            ("conname", index.name.as_str().into()),
            ("connamespace", PUBLIC.into()),
            ("contype", "p".into()),
            ("convalidated", true.into()),
            ("conrelid", table.oid.into()),
            ("conindid", index.oid.into()),
            ("confupdtype", " ".into()),
            ("confdeltype", " ".into()),
            ("confmatchtype", " ".into()),
            ("conislocal", true.into()),
            ("connoinherit", true.into()),
            ("conkey", Value::array(numbers(table))),
        ]);
    }
}

pub(super) fn pg_indexes(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (index, table) in objects.keys() {
        rows.add(&[
            ("schemaname", "public".into()),
            ("tablename", table.name.as_str().into()),
            ("indexname", index.name.as_str().into()),
            ("indexdef", index.definition(table, "public.").into()),
        ]);
    }
}

pub(super) fn pg_tables(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for table in objects
        .relations
        .iter()
        .filter(|relation| relation.kind == "r")
    {
        rows.add(&[
            ("schemaname", table.schema_name().into()),
            ("tablename", table.name.as_str().into()),
            ("tableowner", objects.contents.user.as_str().into()),
            ("hasindexes", table.other.is_some().into()),
            ("hasrules", false.into()),
            ("hastriggers", false.into()),
            ("rowsecurity", false.into()),
        ]);
    }
}

pub(super) fn pg_views(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for view in objects
        .relations
        .iter()
        .filter(|relation| relation.kind == "v")
    {
        rows.add(&[
            ("schemaname", view.schema_name().into()),
            ("viewname", view.name.as_str().into()),
            ("viewowner", objects.contents.user.as_str().into()),
        ]);
    }
}

pub(super) fn pg_stat_all_tables(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    statistics(objects, rows, |_| true);
}

pub(super) fn pg_stat_user_tables(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    statistics(objects, rows, |table| table.schema == PUBLIC);
}

/// Only the rows are counted.
fn statistics(objects: &Objects<'_>, rows: &mut Rows<'_>, is_wanted: fn(&Relation) -> bool) {
    let tables = objects
        .relations
        .iter()
        .filter(|relation| relation.kind == "r");
    for table in tables.filter(|table| is_wanted(table)) {
        rows.add(&[
            ("relid", table.oid.into()),
            ("schemaname", table.schema_name().into()),
            ("relname", table.name.as_str().into()),
            (
                "n_live_tup",
                table
                    .rows
                    .map(|rows| i64::try_from(rows).unwrap_or(i64::MAX))
                    .into(),
            ),
        ]);
    }
}
