//! The views of `information_schema`.

use super::rows::{Rows, yes_or_no};
use crate::contents::{Objects, Relation, SCHEMAS};
use crate::types::Type;
use crate::value::Value;

fn database(objects: &Objects<'_>) -> Value {
    objects.contents.database.as_str().into()
}

pub(super) fn catalog_name(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[("catalog_name", database(objects))]);
}

pub(super) fn enabled_roles(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[("role_name", objects.contents.user.as_str().into())]);
}

pub(super) fn character_sets(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[
        ("character_set_name", "UTF8".into()),
        ("character_repertoire", "UCS".into()),
        ("form_of_use", "UTF8".into()),
        ("default_collate_catalog", database(objects)),
        ("default_collate_schema", "pg_catalog".into()),
        ("default_collate_name", "C".into()),
    ]);
}

pub(super) fn schemata(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (_, name) in SCHEMAS {
        rows.add(&[
            ("catalog_name", database(objects)),
            ("schema_name", name.into()),
            ("schema_owner", objects.contents.user.as_str().into()),
        ]);
    }
}

/// What is no index.
fn relations<'a>(objects: &'a Objects<'_>) -> impl Iterator<Item = &'a Relation> {
    objects
        .relations
        .iter()
        .filter(|relation| !relation.is_index())
}

/// Whether statements may change its rows.
fn is_updatable(relation: &Relation) -> bool {
    relation.kind == "r"
}

pub(super) fn tables(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for relation in relations(objects) {
        rows.add(&[
            ("table_catalog", database(objects)),
            ("table_schema", relation.schema_name().into()),
            ("table_name", relation.name.as_str().into()),
            (
                "table_type",
                if relation.kind == "v" {
                    "VIEW"
                } else {
                    "BASE TABLE"
                }
                .into(),
            ),
            ("is_insertable_into", yes_or_no(is_updatable(relation))),
            ("is_typed", "NO".into()),
        ]);
    }
}

pub(super) fn views(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for view in relations(objects).filter(|relation| relation.kind == "v") {
        rows.add(&[
            ("table_catalog", database(objects)),
            ("table_schema", view.schema_name().into()),
            ("table_name", view.name.as_str().into()),
            ("check_option", "NONE".into()),
            ("is_updatable", "NO".into()),
            ("is_insertable_into", "NO".into()),
            ("is_trigger_updatable", "NO".into()),
            ("is_trigger_deletable", "NO".into()),
            ("is_trigger_insertable_into", "NO".into()),
        ]);
    }
}

/// Precision, its radix and scale of a number.
fn digits(ty: Type, modifier: i32) -> (Option<i64>, Option<i64>, Option<i64>) {
    match ty {
        Type::INT2 => (Some(16), Some(2), Some(0)),
        Type::INT4 => (Some(32), Some(2), Some(0)),
        Type::INT8 => (Some(64), Some(2), Some(0)),
        Type::FLOAT4 => (Some(24), Some(2), None),
        Type::FLOAT8 => (Some(53), Some(2), None),
        Type::NUMERIC if modifier >= 4 => {
            let digits = i64::from(modifier - 4);
            (Some(digits >> 16 & 0xffff), Some(10), Some(digits & 0xffff))
        }
        Type::NUMERIC => (None, Some(10), None),
        _ => (None, None, None),
    }
}

pub(super) fn columns(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for relation in relations(objects) {
        for (number, column) in (1_i64..).zip(&relation.columns) {
            let Some(ty) = column.ty.row() else { continue };
            let (precision, radix, scale) = digits(column.ty, column.modifier);
            let is_text = matches!(
                column.ty,
                Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME
            );
            let moment = match column.ty {
                Type::DATE => Some(0),
                Type::TIMESTAMP | Type::TIMESTAMPTZ => Some(6),
                _ => None,
            };
            let name = if ty.category == b'A' && ty.len < 0 {
                "ARRAY"
            } else {
                ty.sql_name
            };
            rows.add(&[
                ("table_catalog", database(objects)),
                ("table_schema", relation.schema_name().into()),
                ("table_name", relation.name.as_str().into()),
                ("column_name", column.name.as_str().into()),
                ("ordinal_position", Value::Int(number)),
                ("is_nullable", yes_or_no(column.is_nullable)),
                ("data_type", name.into()),
                (
                    "character_octet_length",
                    (is_text && column.ty != Type::NAME)
                        .then_some(1_i64 << 30)
                        .into(),
                ),
                ("numeric_precision", precision.into()),
                ("numeric_precision_radix", radix.into()),
                ("numeric_scale", scale.into()),
                ("datetime_precision", moment.map(i64::from).into()),
                ("udt_catalog", database(objects)),
                ("udt_schema", "pg_catalog".into()),
                ("udt_name", ty.name.into()),
                ("dtd_identifier", number.to_string().into()),
                ("is_self_referencing", "NO".into()),
                ("is_identity", "NO".into()),
                ("identity_cycle", "NO".into()),
                ("is_generated", "NEVER".into()),
                ("is_updatable", yes_or_no(is_updatable(relation))),
            ]);
        }
    }
}

/// The columns of keys, each with its place in the key.
fn key_columns<'a>(
    objects: &'a Objects<'_>,
) -> impl Iterator<Item = (&'a Relation, &'a Relation, i64, &'a str)> {
    objects.keys().flat_map(|(index, table)| {
        let columns = (1_i64..).zip(&index.columns);
        columns.map(move |(number, column)| (index, table, number, column.name.as_str()))
    })
}

/// The columns of tables that are never NULL, each with the name of the constraint that says so.
fn not_null<'a>(objects: &'a Objects<'_>) -> impl Iterator<Item = (&'a Relation, &'a str, String)> {
    let tables = objects
        .relations
        .iter()
        .filter(|relation| relation.kind == "r");
    tables.flat_map(|table| {
        let columns = (1..)
            .zip(&table.columns)
            .filter(|(_, column)| !column.is_nullable);
        columns.map(move |(number, column): (i64, _)| {
            let name = format!("{}_{}_{number}_not_null", table.schema, table.oid);
            (table, column.name.as_str(), name)
        })
    })
}

pub(super) fn table_constraints(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    let keys = objects
        .keys()
        .map(|(index, table)| (table, index.name.clone(), "PRIMARY KEY"));
    for (table, name, kind) in
        keys.chain(not_null(objects).map(|(table, _, name)| (table, name, "CHECK")))
    {
        rows.add(&[
            ("constraint_catalog", database(objects)),
            ("constraint_schema", table.schema_name().into()),
            ("constraint_name", name.into()),
            ("table_catalog", database(objects)),
            ("table_schema", table.schema_name().into()),
            ("table_name", table.name.as_str().into()),
            ("constraint_type", kind.into()),
            ("is_deferrable", "NO".into()),
            ("initially_deferred", "NO".into()),
            ("enforced", "YES".into()),
        ]);
    }
}

pub(super) fn check_constraints(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (table, column, name) in not_null(objects) {
        rows.add(&[
            ("constraint_catalog", database(objects)),
            ("constraint_schema", table.schema_name().into()),
            ("constraint_name", name.into()),
            ("check_clause", format!("{column} IS NOT NULL").into()),
        ]);
    }
}

pub(super) fn key_column_usage(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (index, table, number, column) in key_columns(objects) {
        rows.add(&[
            ("constraint_catalog", database(objects)),
            ("constraint_schema", "public".into()),
            ("constraint_name", index.name.as_str().into()),
            ("table_catalog", database(objects)),
            ("table_schema", "public".into()),
            ("table_name", table.name.as_str().into()),
            ("column_name", column.into()),
            ("ordinal_position", Value::Int(number)),
        ]);
    }
}

pub(super) fn constraint_column_usage(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (index, table, _, column) in key_columns(objects) {
        rows.add(&[
            ("table_catalog", database(objects)),
            ("table_schema", "public".into()),
            ("table_name", table.name.as_str().into()),
            ("column_name", column.into()),
            ("constraint_catalog", database(objects)),
            ("constraint_schema", "public".into()),
            ("constraint_name", index.name.as_str().into()),
        ]);
    }
}

/// What the user may do with each relation, of these.
fn grants<'a>(
    objects: &'a Objects<'_>,
    privileges: &'static [&'static str],
) -> impl Iterator<Item = (&'a Relation, &'static str)> {
    let reads_only = objects.contents.reads_only;
    let granted = privileges
        .iter()
        .filter(move |name| !reads_only || **name == "SELECT");
    relations(objects).flat_map(move |relation| granted.clone().map(move |name| (relation, *name)))
}

fn grant(objects: &Objects<'_>, relation: &Relation, name: &str) -> Vec<(&'static str, Value)> {
    let user = || Value::from(objects.contents.user.as_str());
    vec![
        ("grantor", user()),
        ("grantee", user()),
        ("table_catalog", database(objects)),
        ("table_schema", relation.schema_name().into()),
        ("table_name", relation.name.as_str().into()),
        ("privilege_type", name.into()),
        ("is_grantable", yes_or_no(!objects.contents.reads_only)),
    ]
}

pub(super) fn table_privileges(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    const ALL: &[&str] = &[
        "INSERT",
        "SELECT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "REFERENCES",
        "TRIGGER",
    ];
    for (relation, name) in grants(objects, ALL) {
        let mut values = grant(objects, relation, name);
        values.push(("with_hierarchy", yes_or_no(name == "SELECT")));
        rows.add(&values);
    }
}

pub(super) fn column_privileges(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    for (relation, name) in grants(objects, &["INSERT", "SELECT", "UPDATE", "REFERENCES"]) {
        for column in &relation.columns {
            let mut values = grant(objects, relation, name);
            values.push(("column_name", column.name.as_str().into()));
            rows.add(&values);
        }
    }
}
