//! What users may do: `has_.._privilege` of a thing, or of a role on a thing; of a column, the column is named, too.
//!
//! A thing that is named and is not there is an error; of a number that is none's, nothing is known. All belongs to the user who asks.
//! Another number than theirs, and `public`, have what PostgreSQL gives to everybody.

use super::function::{Function, function};
use super::named;
use crate::contents::{DATABASE, OWNER, PUBLIC, Relation, TABLESPACE};
use crate::error::{Error, Result};
use crate::names::{FUNCTIONS as TYPE_FUNCTIONS, not_there};
use crate::session::Session;
use crate::types::Type;
use crate::value::Value;

const ANY: Type = Type::ANY;
const T: Type = Type::TEXT;
const B: Type = Type::BOOL;

pub(super) const FUNCTIONS: &[Function] = &[
    function("has_table_privilege", &[ANY, T], B, on_table),
    function("has_table_privilege", &[ANY, ANY, T], B, on_table),
    function("has_any_column_privilege", &[ANY, T], B, on_any_column),
    function("has_any_column_privilege", &[ANY, ANY, T], B, on_any_column),
    function("has_column_privilege", &[ANY, ANY, T], B, on_column),
    function("has_column_privilege", &[ANY, ANY, ANY, T], B, on_column),
    function("has_sequence_privilege", &[ANY, T], B, on_sequence),
    function("has_sequence_privilege", &[ANY, ANY, T], B, on_sequence),
    function("has_schema_privilege", &[ANY, T], B, on_schema),
    function("has_schema_privilege", &[ANY, ANY, T], B, on_schema),
    function("has_database_privilege", &[ANY, T], B, on_database),
    function("has_database_privilege", &[ANY, ANY, T], B, on_database),
    function("has_tablespace_privilege", &[ANY, T], B, on_tablespace),
    function("has_tablespace_privilege", &[ANY, ANY, T], B, on_tablespace),
    function("has_type_privilege", &[ANY, T], B, on_type),
    function("has_type_privilege", &[ANY, ANY, T], B, on_type),
    function("has_function_privilege", &[ANY, T], B, on_function),
    function("has_function_privilege", &[ANY, ANY, T], B, on_function),
    function("has_language_privilege", &[ANY, T], B, on_language),
    function("has_language_privilege", &[ANY, ANY, T], B, on_language),
    function("has_server_privilege", &[ANY, T], B, on_server),
    function("has_server_privilege", &[ANY, ANY, T], B, on_server),
    function(
        "has_foreign_data_wrapper_privilege",
        &[ANY, T],
        B,
        on_wrapper,
    ),
    function(
        "has_foreign_data_wrapper_privilege",
        &[ANY, ANY, T],
        B,
        on_wrapper,
    ),
    function("pg_has_role", &[ANY, T], B, has_role),
    function("pg_has_role", &[ANY, ANY, T], B, has_role),
];

const OF_TABLES: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "REFERENCES",
    "TRIGGER",
    "RULE",
];
const OF_COLUMNS: &[&str] = &["SELECT", "INSERT", "UPDATE", "REFERENCES"];
/// What a user has who may only read.
const OF_READERS: &[&str] = &["SELECT", "USAGE", "CONNECT", "EXECUTE"];

/// Who is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Owner,
    Everybody,
}

fn role(session: &Session<'_>, role: &Value) -> Result<Role> {
    match role {
        Value::Int(oid) if *oid == OWNER.into() => Ok(Role::Owner),
        Value::Int(_) => Ok(Role::Everybody),
        name if name.as_text() == session.objects.contents.user => Ok(Role::Owner),
        name if name.as_text() == "public" => Ok(Role::Everybody),
        name => Err(not_there(Type::REGROLE, name.as_text())),
    }
}

/// Whether one of the privileges is there, which are some of `known`. `of_all` are those that everybody has.
fn may(
    session: &Session<'_>,
    role: Role,
    privileges: &Value,
    known: &[&str],
    of_all: &[&str],
) -> Result<Value> {
    let mut may = false;
    for given in privileges.as_text().split(',').map(str::trim) {
        let whole = given.to_uppercase();
        let name = whole.strip_suffix(" WITH GRANT OPTION").unwrap_or(&whole);
        if !known.contains(&name) {
            let message = format!("unrecognized privilege type: \"{given}\"");
            return Err(Error::new("22023", message));
        }
        // Only the owner has the right to grant. Tables have no rules.
        let is_plain = name.len() == whole.len();
        may |= name != "RULE"
            && match role {
                Role::Owner if session.objects.contents.reads_only => {
                    is_plain && OF_READERS.contains(&name)
                }
                Role::Owner => true,
                Role::Everybody => is_plain && of_all.contains(&name),
            };
    }
    Ok(may.into())
}

/// Who is asked for, and on what; `fixed` arguments are always there.
fn split<'v>(session: &Session<'_>, a: &'v [Value], fixed: usize) -> Result<(Role, &'v [Value])> {
    match a.len() > fixed {
        true => Ok((role(session, &a[0])?, &a[1..])),
        false => Ok((Role::Owner, a)),
    }
}

fn relation<'s>(session: &'s Session<'_>, table: &Value) -> Result<Option<&'s Relation>> {
    let oid = match table {
        Value::Int(oid) => *oid,
        name => number(session, Type::REGCLASS, name.as_text())?,
    };
    Ok(session.objects.relation(oid))
}

/// What everybody may do with a table.
fn of_all(relation: &Relation) -> &'static [&'static str] {
    match relation.schema == PUBLIC {
        true => &[],
        false => &["SELECT"],
    }
}

fn on_table(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let (role, a) = split(session, a, 2)?;
    match relation(session, &a[0])? {
        Some(table) => may(session, role, &a[1], OF_TABLES, of_all(table)),
        None => Ok(Value::Null),
    }
}

fn on_any_column(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let (role, a) = split(session, a, 2)?;
    match relation(session, &a[0])? {
        Some(table) => may(session, role, &a[1], OF_COLUMNS, of_all(table)),
        None => Ok(Value::Null),
    }
}

fn on_column(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let (role, a) = split(session, a, 3)?;
    let Some(table) = relation(session, &a[0])? else {
        return Ok(Value::Null);
    };
    let is_there = match &a[1] {
        Value::Int(number) => (1..=table.columns.len() as i64).contains(number),
        name => {
            let name = name.as_text();
            if !table.columns.iter().any(|column| column.name == name) {
                let table = &table.name;
                let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
                return Err(Error::new("42703", message));
            }
            true
        }
    };
    match is_there {
        true => may(session, role, &a[2], OF_COLUMNS, of_all(table)),
        false => Ok(Value::Null),
    }
}

fn on_sequence(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let (_, a) = split(session, a, 2)?;
    match relation(session, &a[0])? {
        Some(table) => {
            let message = format!("\"{}\" is not a sequence", table.name);
            Err(Error::new("42809", message))
        }
        None => Ok(Value::Null),
    }
}

/// The privileges on a thing that is no table. `found` is the number of that of a name, or that it is not there.
fn on_thing(
    session: &Session<'_>,
    a: &[Value],
    known: &[&str],
    of_all: &[&str],
    found: impl Fn(&str) -> Result<i64>,
    is_there: impl Fn(i64) -> bool,
) -> Result<Value> {
    let (role, a) = split(session, a, 2)?;
    let oid = match &a[0] {
        Value::Int(oid) => *oid,
        name => found(name.as_text())?,
    };
    match is_there(oid) {
        true => may(session, role, &a[1], known, of_all),
        false => Ok(Value::Null),
    }
}

/// The number of the only thing of a kind.
fn only(kind: &str, code: &'static str, name: &str, known: &str, oid: u32) -> Result<i64> {
    match name == known {
        true => Ok(oid.into()),
        false => Err(Error::new(
            code,
            format!("{kind} \"{name}\" does not exist"),
        )),
    }
}

fn number(session: &Session<'_>, ty: Type, name: &str) -> Result<i64> {
    let found = session.objects.number_of(ty, name)?;
    found.ok_or_else(|| not_there(ty, name))
}

fn on_schema(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let is_there = |oid| crate::contents::schema_name(oid).is_some();
    let found = |name: &str| {
        let found = crate::contents::SCHEMAS
            .iter()
            .find(|(_, known)| *known == name);
        let found = found.map(|(oid, _)| i64::from(*oid));
        found.ok_or_else(|| not_there(Type::REGNAMESPACE, name))
    };
    on_thing(
        session,
        a,
        &["CREATE", "USAGE"],
        &["USAGE"],
        found,
        is_there,
    )
}

fn on_database(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let own = session.objects.contents.database.as_str();
    let found = |name: &str| only("database", "3D000", name, own, DATABASE);
    let known = ["CREATE", "TEMPORARY", "TEMP", "CONNECT"];
    let of_all = ["CONNECT", "TEMPORARY", "TEMP"];
    on_thing(session, a, &known, &of_all, found, |oid| {
        oid == DATABASE.into()
    })
}

fn on_tablespace(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let (oid, own) = TABLESPACE;
    let found = |name: &str| only("tablespace", "42704", name, own, oid);
    on_thing(session, a, &["CREATE"], &[], found, |found| {
        found == oid.into()
    })
}

fn on_language(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let found = |name: &str| only("language", "42704", name, "internal", 12);
    on_thing(session, a, &["USAGE"], &["USAGE"], found, |oid| oid == 12)
}

fn on_type(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let found = |name: &str| number(session, Type::REGTYPE, name);
    let is_there = |oid| u32::try_from(oid).is_ok_and(|oid| Type(oid).row().is_some());
    on_thing(session, a, &["USAGE"], &["USAGE"], found, is_there)
}

fn on_function(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    // Those that are run here are not listed, and have no number.
    const RUN_HERE: i64 = -1;
    let found = |name: &str| {
        let bare = name.split('(').next().unwrap_or_default().trim();
        let bare = bare.strip_prefix("pg_catalog.").unwrap_or(bare);
        match (0..8).any(|count| named(bare, count).next().is_some()) {
            true => Ok(RUN_HERE),
            false => number(session, Type::REGPROCEDURE, name),
        }
    };
    let is_there = |oid| {
        let mut all = TYPE_FUNCTIONS.iter();
        oid == RUN_HERE || all.any(|function| i64::from(function.oid) == oid)
    };
    on_thing(session, a, &["EXECUTE"], &["EXECUTE"], found, is_there)
}

fn on_server(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let found = |name: &str| only("server", "42704", name, "", 0);
    on_thing(session, a, &["USAGE"], &[], found, |_| false)
}

fn on_wrapper(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let found = |name: &str| only("foreign-data wrapper", "42704", name, "", 0);
    on_thing(session, a, &["USAGE"], &[], found, |_| false)
}

/// Whether the one role is a member of the other: of itself, and nobody else is there.
fn has_role(session: &Session<'_>, a: &[Value]) -> Result<Value> {
    let (who, a) = split(session, a, 2)?;
    let whose = role(session, &a[0])?;
    for given in a[1].as_text().split(',').map(str::trim) {
        let name = given.to_uppercase();
        let name = name.strip_suffix(" WITH GRANT OPTION").unwrap_or(&name);
        let name = name.strip_suffix(" WITH ADMIN OPTION").unwrap_or(name);
        if !["USAGE", "MEMBER", "SET"].contains(&name) {
            let message = format!("unrecognized privilege type: \"{given}\"");
            return Err(Error::new("22023", message));
        }
    }
    Ok((who == Role::Owner && whose == Role::Owner).into())
}
