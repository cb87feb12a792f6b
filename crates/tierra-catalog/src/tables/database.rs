//! The database, its schemas, users, settings and sessions.

use super::rows::Rows;
use crate::contents::{
    DATABASE, FACTS, INDEX_METHOD, INDEX_METHOD_NAME, OWNER, Objects, SCHEMAS, TABLE_METHOD,
    TABLE_METHOD_NAME, TABLESPACE,
};
use crate::functions::ENCODING;
use crate::value::Value;

pub(super) fn pg_namespace(_: &Objects<'_>, rows: &mut Rows<'_>) {
    for (oid, name) in SCHEMAS {
        rows.add(&[
            ("oid", oid.into()),
            ("nspname", name.into()),
            ("nspowner", OWNER.into()),
        ]);
    }
}

pub(super) fn pg_am(_: &Objects<'_>, rows: &mut Rows<'_>) {
    for (oid, name, kind) in [
        (TABLE_METHOD, TABLE_METHOD_NAME, "t"),
        (INDEX_METHOD, INDEX_METHOD_NAME, "i"),
    ] {
        rows.add(&[
            ("oid", oid.into()),
            ("amname", name.into()),
            ("amtype", kind.into()),
        ]);
    }
}

pub(super) fn pg_database(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[
        ("oid", DATABASE.into()),
        ("datname", objects.contents.database.as_str().into()),
        ("datdba", OWNER.into()),
        ("encoding", Value::Int(ENCODING)),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", Value::Int(-1)),
        ("dattablespace", TABLESPACE.0.into()),
        ("datcollate", "C".into()),
        ("datctype", "C.UTF-8".into()),
    ]);
}

pub(super) fn pg_tablespace(_: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[
        ("oid", TABLESPACE.0.into()),
        ("spcname", TABLESPACE.1.into()),
        ("spcowner", OWNER.into()),
    ]);
}

pub(super) fn pg_language(_: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[
        ("oid", 12_u32.into()),
        ("lanname", "internal".into()),
        ("lanowner", OWNER.into()),
    ]);
}

/// The values of a role that `pg_authid` and `pg_roles` have both.
fn role(objects: &Objects<'_>) -> Vec<(&'static str, Value)> {
    vec![
        ("oid", OWNER.into()),
        ("rolname", objects.contents.user.as_str().into()),
        ("rolsuper", (!objects.contents.reads_only).into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", false.into()),
        ("rolcreatedb", false.into()),
        ("rolcanlogin", true.into()),
        ("rolreplication", false.into()),
        ("rolbypassrls", false.into()),
        ("rolconnlimit", Value::Int(-1)),
    ]
}

pub(super) fn pg_authid(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&role(objects));
}

pub(super) fn pg_roles(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    let mut role = role(objects);
    role.push(("rolpassword", "********".into()));
    rows.add(&role);
}

pub(super) fn pg_user(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[
        ("usename", objects.contents.user.as_str().into()),
        ("usesysid", OWNER.into()),
        ("usecreatedb", false.into()),
        ("usesuper", (!objects.contents.reads_only).into()),
        ("userepl", false.into()),
        ("usebypassrls", false.into()),
        ("passwd", "********".into()),
    ]);
}

pub(super) fn pg_settings(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    let settings = objects.contents.settings.iter();
    let settings = settings.map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in settings.chain(FACTS) {
        rows.add(&[
            ("name", name.into()),
            ("setting", value.into()),
            ("category", "Tierra".into()),
            ("context", "user".into()),
            ("vartype", "string".into()),
            ("source", "session".into()),
            ("pending_restart", false.into()),
        ]);
    }
}

/// The session of the query alone: `tierra_queries` has the others.
pub(super) fn pg_stat_activity(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[
        ("datid", DATABASE.into()),
        ("datname", objects.contents.database.as_str().into()),
        ("pid", Value::Int(objects.contents.process.into())),
        ("usesysid", OWNER.into()),
        ("usename", objects.contents.user.as_str().into()),
        (
            "application_name",
            objects.contents.application.as_str().into(),
        ),
        ("state", "active".into()),
        ("backend_type", "client backend".into()),
    ]);
}

/// There is no GSSAPI.
pub(super) fn pg_stat_gssapi(objects: &Objects<'_>, rows: &mut Rows<'_>) {
    rows.add(&[
        ("pid", Value::Int(objects.contents.process.into())),
        ("gss_authenticated", false.into()),
        ("encrypted", false.into()),
    ]);
}
