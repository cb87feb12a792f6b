//! Functions that tell of the server, the session and the things in the catalog.

use super::function::{Function, function};
use crate::contents::{FACTS, INDEX_METHOD, OWNER, Objects};
use crate::error::{Error, Result};
use crate::names::{
    FUNCTIONS as TYPE_FUNCTIONS, TypeFunction, format_type, parts, quoted, searched,
};
use crate::session::Session;
use crate::types::Type;
use crate::value::Value;

const T: Type = Type::TEXT;
const C: Type = Type::REGCLASS;
const N: Type = Type::NAME;
const B: Type = Type::BOOL;
const O: Type = Type::OID;
const I: Type = Type::INT4;
const I8: Type = Type::INT8;
const ANY: Type = Type::ANY;

/// UTF8, the only encoding.
pub(crate) const ENCODING: i64 = 6;

pub(super) const FUNCTIONS: &[Function] = &[
    function("version", &[], T, |session, _| {
        Ok(session.objects.contents.version.as_str().into())
    }),
    function("current_database", &[], N, |session, _| {
        Ok(database(session))
    }),
    function("current_catalog", &[], N, |session, _| {
        Ok(database(session))
    }),
    function("current_schema", &[], N, |_, _| Ok("public".into())),
    function("current_schemas", &[B], Type::NAME_ARRAY, |_, a| {
        let names = searched(a[0].is_true()).iter();
        Ok(Value::array(names.map(|name| Value::text(name)).collect()))
    }),
    function("current_user", &[], N, |session, _| Ok(user(session))),
    function("current_role", &[], N, |session, _| Ok(user(session))),
    function("session_user", &[], N, |session, _| Ok(user(session))),
    function("user", &[], N, |session, _| Ok(user(session))),
    function("pg_backend_pid", &[], I, |session, _| {
        Ok(Value::Int(session.objects.contents.process.into()))
    }),
    function("pg_is_in_recovery", &[], B, |_, _| Ok(false.into())),
    function("pg_advisory_unlock_all", &[], Type::VOID, |_, _| {
        Ok("".into())
    }),
    function("pg_my_temp_schema", &[], O, |_, _| Ok(Value::Int(0))),
    function("pg_is_other_temp_schema", &[O], B, |_, _| Ok(false.into())),
    function("getdatabaseencoding", &[], N, |_, _| Ok("UTF8".into())),
    function("pg_client_encoding", &[], N, |session, _| {
        setting(session, "client_encoding", true)
    }),
    function("pg_encoding_to_char", &[I], N, |_, a| {
        Ok(if a[0].as_int() == ENCODING {
            "UTF8"
        } else {
            ""
        }
        .into())
    }),
    function("pg_char_to_encoding", &[N], I, |_, a| {
        let name = a[0].as_text().to_lowercase().replace('-', "");
        Ok(Value::Int(if name == "utf8" { ENCODING } else { -1 }))
    }),
    function("current_setting", &[T], T, |session, a| {
        setting(session, a[0].as_text(), false)
    }),
    function("current_setting", &[T, B], T, |session, a| {
        setting(session, a[0].as_text(), a[1].is_true())
    }),
    // What it is already. A query changes nothing.
    function("set_config", &[T, T, B], T, |session, a| {
        let now = setting(session, a[0].as_text(), false)?;
        match now == a[1] {
            true => Ok(now),
            false => Err(Error::unsupported(format_args!(
                "set_config of \"{}\", instead of SET,",
                a[0].as_text()
            ))),
        }
    }),
    function("format_type", &[O, I], T, |_, a| {
        let modifier = (!a[1].is_null()).then(|| a[1].as_int());
        Ok(if a[0].is_null() {
            Value::Null
        } else {
            format_type(a[0].as_int(), modifier).into()
        })
    })
    .called_on_null(),
    function("pg_get_userbyid", &[O], N, |session, a| {
        let oid = a[0].as_int();
        Ok(if oid == OWNER.into() {
            user(session)
        } else {
            format!("unknown (OID={oid})").into()
        })
    }),
    function("pg_table_is_visible", &[O], B, |session, a| {
        let relation = session.objects.relation(a[0].as_int());
        Ok(relation
            .map(|relation| session.objects.is_visible(relation))
            .into())
    }),
    function("pg_type_is_visible", &[O], B, |_, a| {
        let ty = u32::try_from(a[0].as_int())
            .ok()
            .and_then(|oid| Type(oid).row());
        Ok(ty.map(|_| true).into())
    }),
    function("pg_function_is_visible", &[O], B, |_, a| {
        Ok(type_function(&a[0]).map(|_| true).into())
    }),
    function("pg_collation_is_visible", &[O], B, |_, a| {
        Ok([100, 950].contains(&a[0].as_int()).then_some(true).into())
    }),
    function("pg_opclass_is_visible", &[O], B, |_, _| Ok(true.into())),
    nothing("pg_statistics_obj_is_visible", &[O], B),
    nothing("pg_operator_is_visible", &[O], B),
    nothing("pg_opfamily_is_visible", &[O], B),
    nothing("pg_conversion_is_visible", &[O], B),
    nothing("pg_ts_config_is_visible", &[O], B),
    nothing("pg_ts_dict_is_visible", &[O], B),
    nothing("pg_ts_parser_is_visible", &[O], B),
    nothing("pg_ts_template_is_visible", &[O], B),
    nothing("obj_description", &[O], T),
    nothing("obj_description", &[O, N], T),
    nothing("col_description", &[O, I], T),
    nothing("shobj_description", &[O, N], T),
    function("pg_get_expr", &[T, O], T, |_, a| Ok(a[0].clone())),
    function("pg_get_expr", &[T, O, B], T, |_, a| Ok(a[0].clone())),
    function("pg_get_indexdef", &[O], T, |session, a| {
        Ok(index_definition(session, &a[0], 0, false))
    }),
    function("pg_get_indexdef", &[O, I, B], T, |session, a| {
        Ok(index_definition(
            session,
            &a[0],
            a[1].as_int(),
            a[2].is_true(),
        ))
    }),
    function("pg_get_constraintdef", &[O], T, |session, a| {
        Ok(constraint_definition(session, &a[0]))
    }),
    function("pg_get_constraintdef", &[O, B], T, |session, a| {
        Ok(constraint_definition(session, &a[0]))
    }),
    nothing("pg_get_viewdef", &[O], T),
    nothing("pg_get_viewdef", &[O, B], T),
    nothing("pg_get_ruledef", &[O], T),
    nothing("pg_get_ruledef", &[O, B], T),
    nothing("pg_get_triggerdef", &[O], T),
    nothing("pg_get_triggerdef", &[O, B], T),
    nothing("pg_get_partkeydef", &[O], T),
    nothing("pg_get_partition_constraintdef", &[O], T),
    nothing("pg_get_statisticsobjdef_columns", &[O], T),
    function("pg_get_serial_sequence", &[T, T], T, |session, a| {
        let parts = parts(a[0].as_text())?;
        let (schema, table) = match parts.as_slice() {
            [table] => (None, table),
            [.., schema, table] => (Some(schema.as_str()), table),
            [] => return Ok(Value::Null),
        };
        let missing = || {
            Error::new(
                "42P01",
                format!("relation \"{}\" does not exist", a[0].as_text()),
            )
        };
        let relation = session
            .objects
            .relation_named(schema, table)
            .ok_or_else(missing)?;
        match relation
            .columns
            .iter()
            .any(|column| column.name == a[1].as_text())
        {
            true => Ok(Value::Null),
            false => Err(Error::new(
                "42703",
                format!("column \"{}\" does not exist", a[1].as_text()),
            )),
        }
    }),
    function("pg_get_function_result", &[O], T, |_, a| {
        Ok(type_function(&a[0])
            .map(|function| format_type(function.result.into(), None))
            .into())
    }),
    function("pg_get_function_arguments", &[O], T, |_, a| {
        Ok(arguments_of(&a[0]))
    }),
    function("pg_get_function_identity_arguments", &[O], T, |_, a| {
        Ok(arguments_of(&a[0]))
    }),
    nothing("pg_get_functiondef", &[O], T),
    nothing("pg_get_function_sqlbody", &[O], T),
    // What tables take near and far, tierra_columns says.
    nothing("pg_relation_size", &[C], I8),
    nothing("pg_relation_size", &[C, T], I8),
    nothing("pg_table_size", &[C], I8),
    nothing("pg_indexes_size", &[C], I8),
    nothing("pg_total_relation_size", &[C], I8),
    nothing("pg_database_size", &[ANY], I8),
    nothing("pg_tablespace_size", &[ANY], I8),
    nothing("pg_stat_get_numscans", &[O], I8),
    function("parse_ident", &[T], Type::TEXT_ARRAY, |_, a| {
        Ok(Value::array(
            parts(a[0].as_text())?
                .into_iter()
                .map(Value::from)
                .collect(),
        ))
    }),
    function("pg_tablespace_location", &[O], T, |_, _| Ok("".into())),
    function("pg_size_pretty", &[I8], T, |_, a| {
        Ok(pretty_size(a[0].as_int()).into())
    }),
    nothing("pg_relation_filenode", &[C], O),
    function("pg_relation_is_publishable", &[C], B, |_, _| {
        Ok(false.into())
    }),
    function("pg_relation_is_updatable", &[C, B], I, |session, a| {
        let is_table = session
            .objects
            .relation(a[0].as_int())
            .is_some_and(|relation| relation.rows.is_some());
        Ok(Value::Int(if is_table { 28 } else { 0 }))
    }),
    function(
        "pg_column_is_updatable",
        &[C, Type::INT2, B],
        B,
        |session, a| {
            Ok(session
                .objects
                .relation(a[0].as_int())
                .is_some_and(|relation| relation.rows.is_some())
                .into())
        },
    ),
    function("pg_indexam_has_property", &[O, T], B, |_, a| {
        let is_known = a[0].as_int() == INDEX_METHOD.into();
        let truth = match a[1].as_text() {
            "can_unique" | "can_multi_col" => Some(true),
            "can_order" | "can_exclude" | "can_include" => Some(false),
            _ => None,
        };
        Ok(truth.filter(|_| is_known).into())
    }),
    function("to_regclass", &[T], C, |session, a| {
        number(session, Type::REGCLASS, &a[0])
    }),
    function("to_regtype", &[T], Type::REGTYPE, |session, a| {
        number(session, Type::REGTYPE, &a[0])
    }),
    function("to_regnamespace", &[T], Type::REGNAMESPACE, |session, a| {
        number(session, Type::REGNAMESPACE, &a[0])
    }),
    function("to_regrole", &[T], Type::REGROLE, |session, a| {
        number(session, Type::REGROLE, &a[0])
    }),
    function("to_regproc", &[T], Type::REGPROC, |session, a| {
        number(session, Type::REGPROC, &a[0])
    }),
    function("to_regprocedure", &[T], Type::REGPROCEDURE, |session, a| {
        number(session, Type::REGPROCEDURE, &a[0])
    }),
    // How information_schema tells the lengths of types.
    function("_pg_truetypid", &[O], O, |_, a| Ok(a[0].clone())),
];

/// A function of what Tierra has not, or does not count.
const fn nothing(name: &'static str, arguments: &'static [Type], result: Type) -> Function {
    function(name, arguments, result, |_, _| Ok(Value::Null))
}

fn database(session: &Session<'_>) -> Value {
    session.objects.contents.database.as_str().into()
}

fn user(session: &Session<'_>) -> Value {
    session.objects.contents.user.as_str().into()
}

fn setting(session: &Session<'_>, name: &str, may_be_missing: bool) -> Result<Value> {
    let wanted = name.to_lowercase();
    let settings = session
        .objects
        .contents
        .settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let found = settings
        .chain(FACTS.iter().copied())
        .find(|(name, _)| *name == wanted);
    match found {
        Some((_, value)) => Ok(value.into()),
        None if may_be_missing => Ok(Value::Null),
        None => Err(Error::new(
            "42704",
            format!("unrecognized configuration parameter \"{name}\""),
        )),
    }
}

/// The number of the thing with this name; NULL if there is none.
fn number(session: &Session<'_>, ty: Type, name: &Value) -> Result<Value> {
    Ok(session.objects.number_of(ty, name.as_text())?.into())
}

fn type_function(oid: &Value) -> Option<&'static TypeFunction> {
    TYPE_FUNCTIONS
        .iter()
        .find(|function| i64::from(function.oid) == oid.as_int())
}

fn arguments_of(oid: &Value) -> Value {
    let arguments = type_function(oid).map(|function| {
        let types = function
            .arguments
            .iter()
            .map(|ty| format_type((*ty).into(), None));
        types.collect::<Vec<_>>().join(", ")
    });
    arguments.into()
}

/// The statement that makes an index, or one of its columns. Where it is made `pretty`, a schema that is searched is not named.
fn index_definition(session: &Session<'_>, oid: &Value, column: i64, is_pretty: bool) -> Value {
    let objects: &Objects<'_> = session.objects;
    let Some((index, table)) = objects.index(oid.as_int()) else {
        return Value::Null;
    };
    if column != 0 {
        let place = usize::try_from(column - 1).ok();
        let column = place.and_then(|place| index.columns.get(place));
        return column
            .map_or(String::new(), |column| quoted(&column.name))
            .into();
    }
    let schema = match is_pretty && objects.is_visible(table) {
        true => String::new(),
        false => format!("{}.", table.schema_name()),
    };
    index.definition(table, &schema).into()
}

fn constraint_definition(session: &Session<'_>, oid: &Value) -> Value {
    let found = session
        .objects
        .keys()
        .find(|(index, _)| i64::from(index.constraint) == oid.as_int());
    found
        .map(|(index, _)| format!("PRIMARY KEY ({})", index.column_names()))
        .into()
}

fn pretty_size(bytes: i64) -> String {
    let mut size = i128::from(bytes);
    for (place, unit) in ["bytes", "kB", "MB", "GB", "TB", "PB"].iter().enumerate() {
        // What is rounded has been halved once too often.
        let most = if place == 0 { 10 * 1024 } else { 20 * 1024 - 1 };
        if size.abs() < most || place == 5 {
            let shown = if place == 0 {
                size
            } else {
                (size + size.signum()) / 2
            };
            return format!("{shown} {unit}");
        }
        size = if place == 0 { size >> 9 } else { size >> 10 };
    }
    bytes.to_string()
}
