//! Types, and what belongs to them: functions that read and write values, collations, operators to index by.

use super::rows::Rows;
use crate::contents::{INDEX_METHOD, OWNER, Objects, PG_CATALOG};
use crate::names::FUNCTIONS;
use crate::types::{TYPES, Type};
use crate::value::Value;

/// How keys of a type are compared: the class's name and number, and that of its family.
const OPERATOR_CLASSES: &[(Type, (&str, u32, u32))] = &[
    (Type::BOOL, ("bool_ops", 424, 423)),
    (Type::DATE, ("date_ops", 3122, 434)),
    (Type::FLOAT8, ("float8_ops", 3123, 1970)),
    (Type::INT4, ("int4_ops", 1978, 1976)),
    (Type::INT8, ("int8_ops", 3124, 1976)),
    (Type::NUMERIC, ("numeric_ops", 3125, 1988)),
    (Type::TEXT, ("text_ops", 3126, 1994)),
    (Type::TIMESTAMP, ("timestamp_ops", 3128, 434)),
];

pub(super) fn operator_class(ty: Type) -> Option<(&'static str, u32, u32)> {
    let found = OPERATOR_CLASSES.iter().find(|(of, _)| *of == ty);
    found.map(|(_, class)| *class)
}

pub(super) fn pg_opclass(_: &Objects<'_>, rows: &mut Rows<'_>) {
    for (ty, (name, oid, family)) in OPERATOR_CLASSES {
        rows.add(&[
            ("oid", (*oid).into()),
            ("opcmethod", INDEX_METHOD.into()),
            ("opcname", (*name).into()),
            ("opcnamespace", PG_CATALOG.into()),
            ("opcowner", OWNER.into()),
            ("opcfamily", (*family).into()),
            ("opcintype", ty.0.into()),
            ("opcdefault", true.into()),
        ]);
    }
}

pub(super) fn pg_type(_: &Objects<'_>, rows: &mut Rows<'_>) {
    for ty in TYPES.iter() {
        let [
            subscript,
            input,
            output,
            receive,
            send,
            modin,
            modout,
            analyze,
        ] = ty.functions;
        rows.add(&[
            ("oid", ty.ty.0.into()),
            ("typname", ty.name.into()),
            ("typnamespace", PG_CATALOG.into()),
            ("typowner", OWNER.into()),
            ("typlen", Value::Int(ty.len.into())),
            ("typbyval", ty.by_value.into()),
            ("typtype", ty.kind.into()),
            (
                "typcategory",
                Value::from(char::from(ty.category).to_string()),
            ),
            ("typispreferred", ty.is_preferred.into()),
            ("typisdefined", true.into()),
            ("typdelim", ty.delimiter.into()),
            ("typsubscript", subscript.into()),
            ("typelem", ty.element.0.into()),
            ("typarray", ty.array.0.into()),
            ("typinput", input.into()),
            ("typoutput", output.into()),
            ("typreceive", receive.into()),
            ("typsend", send.into()),
            ("typmodin", modin.into()),
            ("typmodout", modout.into()),
            ("typanalyze", analyze.into()),
            ("typalign", ty.align.into()),
            ("typstorage", ty.storage.into()),
            ("typtypmod", Value::Int(-1)),
            ("typcollation", ty.collation.into()),
        ]);
    }
}

pub(super) fn pg_proc(_: &Objects<'_>, rows: &mut Rows<'_>) {
    for function in FUNCTIONS.iter() {
        let arguments = function.arguments.iter().map(|ty| Value::from(*ty));
        rows.add(&[
            ("oid", function.oid.into()),
            ("proname", function.name.into()),
            ("pronamespace", PG_CATALOG.into()),
            ("proowner", OWNER.into()),
            ("prolang", function.language.into()),
            ("procost", Value::Float(1.0)),
            ("prokind", "f".into()),
            ("proisstrict", function.is_strict.into()),
            ("provolatile", function.volatility.into()),
            ("proparallel", "s".into()),
            ("pronargs", Value::Int(function.arguments.len() as i64)),
            ("prorettype", function.result.into()),
            ("proargtypes", Value::vector(arguments.collect())),
            ("prosrc", function.name.into()),
        ]);
    }
}

pub(super) fn pg_collation(_: &Objects<'_>, rows: &mut Rows<'_>) {
    for (oid, name, provider, collate) in
        [(100_u32, "default", "d", None), (950, "C", "c", Some("C"))]
    {
        rows.add(&[
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", PG_CATALOG.into()),
            ("collowner", OWNER.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", Value::Int(-1)),
            ("collcollate", collate.into()),
            ("collctype", collate.into()),
        ]);
    }
}
