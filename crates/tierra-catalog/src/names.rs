//! Names of things: as they are written in SQL, and what `regclass` and its kin make of them.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::contents::{INDEX_METHOD_NAME, OWNER, Objects, Relation, SCHEMAS, schema_name};
use crate::error::{Error, Result};
use crate::types::Type;

/// A function that reads or writes values of a type.
pub(crate) struct TypeFunction {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    pub(crate) language: u32,
    pub(crate) is_strict: bool,
    pub(crate) volatility: &'static str,
    pub(crate) result: u32,
    pub(crate) arguments: Vec<u32>,
}

pub(crate) static FUNCTIONS: LazyLock<Vec<TypeFunction>> = LazyLock::new(|| {
    let lines = include_str!("data/functions.txt").lines().skip(1);
    let functions = lines.map(|line| {
        let fields: Vec<&str> = line.split('|').collect();
        let number = |text: &str| text.parse::<u32>().expect("the file holds numbers");
        TypeFunction {
            oid: number(fields[0]),
            name: fields[1],
            language: number(fields[2]),
            is_strict: fields[3] == "t",
            volatility: fields[4],
            result: number(fields[5]),
            arguments: fields[6].split_whitespace().map(number).collect(),
        }
    });
    functions.collect()
});

static FUNCTION_NAMES: LazyLock<HashMap<i64, &str>> = LazyLock::new(|| {
    let names = FUNCTIONS
        .iter()
        .map(|function| (i64::from(function.oid), function.name));
    names.collect()
});

/// A word of SQL.
pub(crate) struct Keyword {
    pub(crate) word: &'static str,
    /// `U` if it can be a name without quotes.
    pub(crate) category: &'static str,
    pub(crate) is_bare: bool,
}

pub(crate) static KEYWORDS: LazyLock<Vec<Keyword>> = LazyLock::new(|| {
    let lines = include_str!("data/keywords.txt").lines().skip(1);
    let words = lines.map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        Keyword {
            word: fields[0],
            category: fields[1],
            is_bare: fields[2] == "t",
        }
    });
    words.collect()
});

impl Relation {
    /// The names of its columns, as a list of SQL.
    pub(crate) fn column_names(&self) -> String {
        let names = self.columns.iter().map(|column| quoted(&column.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The statement that makes this index of a table, whose name follows that of its schema.
    pub(crate) fn definition(&self, table: &Self, schema: &str) -> String {
        format!(
            "CREATE UNIQUE INDEX {} ON {schema}{} USING {INDEX_METHOD_NAME} ({})",
            quoted(&self.name),
            quoted(&table.name),
            self.column_names()
        )
    }
}

/// A name, quoted where SQL needs it.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !KEYWORDS
            .iter()
            .any(|keyword| keyword.word == name && keyword.category != "U");
    match is_plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The parts of a name as SQL writes it.
pub(crate) fn parts(text: &str) -> Result<Vec<String>> {
    let invalid = || Error::new("42602", "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let part;
        if let Some(inner) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut letters = inner.char_indices().peekable();
            let end = loop {
                match letters.next() {
                    Some((_, '"')) if letters.next_if(|(_, c)| *c == '"').is_some() => {
                        name.push('"')
                    }
                    Some((at, '"')) => break at + 1,
                    Some((_, letter)) => name.push(letter),
                    None => return Err(invalid()),
                }
            };
            (part, rest) = (name, &inner[end..]);
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            (part, rest) = (rest[..end].trim().to_lowercase(), &rest[end..]);
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

impl Objects<'_> {
    /// The number of the thing with this name; `None` if there is none.
    pub(crate) fn number_of(&self, ty: Type, text: &str) -> Result<Option<i64>> {
        if text == "-" {
            return Ok(Some(0));
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(text.parse().ok());
        }
        if ty == Type::REGTYPE {
            let name = text.trim();
            let (name, array) = match name.strip_suffix("[]") {
                Some(element) => (element, true),
                None => (name, false),
            };
            let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
            let folded = if name.starts_with('"') {
                name.to_owned()
            } else {
                name.to_lowercase()
            };
            // What stands in brackets is no part of a type.
            let bare = folded.split('(').next().unwrap_or_default().trim_end();
            let bare = if bare == "char" { "character" } else { bare };
            let found = Type::named(bare).map(|ty| if array { ty.array() } else { Ok(ty) });
            return Ok(found.transpose()?.map(|ty| ty.0.into()));
        }
        let name = match ty {
            // The arguments are not looked at: the names are unique.
            Type::REGPROCEDURE => text.split('(').next().unwrap_or_default(),
            _ => text,
        };
        let parts = parts(name)?;
        let (schema, last) = match parts.as_slice() {
            [last] => (None, last),
            [schema, last] => (Some(schema.as_str()), last),
            [database, schema, last] if *database == self.contents.database => {
                (Some(schema.as_str()), last)
            }
            _ => {
                return Err(Error::new(
                    "42601",
                    format!("improper qualified name: {text}"),
                ));
            }
        };
        Ok(match ty {
            Type::REGCLASS => self
                .relation_named(schema, last)
                .map(|relation| relation.oid.into()),
            Type::REGPROC | Type::REGPROCEDURE => match schema {
                None | Some("pg_catalog") => {
                    let found = FUNCTIONS.iter().find(|function| function.name == *last);
                    found.map(|function| function.oid.into())
                }
                Some(_) => None,
            },
            Type::REGNAMESPACE => {
                let found = SCHEMAS.iter().find(|(_, name)| name == last);
                found.map(|(oid, _)| (*oid).into())
            }
            Type::REGROLE => (*last == self.contents.user).then(|| OWNER.into()),
            other => return Err(Error::unsupported(other.sql_name())),
        })
    }

    /// The name of the thing with this number, as `regclass` and its kin show it.
    pub(crate) fn name_of(&self, ty: Type, oid: i64) -> String {
        let found = match ty {
            _ if oid == 0 => Some("-".to_owned()),
            Type::REGCLASS => self
                .relation(oid)
                .map(|relation| match self.is_visible(relation) {
                    true => quoted(&relation.name),
                    false => format!("{}.{}", relation.schema_name(), quoted(&relation.name)),
                }),
            Type::REGTYPE => {
                let found = u32::try_from(oid).ok().and_then(|oid| Type(oid).row());
                found.map(|row| row.sql_name.to_owned())
            }
            Type::REGPROC | Type::REGPROCEDURE => {
                FUNCTION_NAMES.get(&oid).map(|name| (*name).to_owned())
            }
            Type::REGNAMESPACE => schema_name(oid).map(str::to_owned),
            Type::REGROLE => (oid == OWNER.into()).then(|| quoted(&self.contents.user)),
            _ => None,
        };
        found.unwrap_or_else(|| oid.to_string())
    }
}

/// The error that there is no such thing.
pub(crate) fn not_there(ty: Type, text: &str) -> Error {
    match ty {
        Type::REGCLASS => Error::new("42P01", format!("relation \"{text}\" does not exist")),
        Type::REGTYPE => Error::new("42704", format!("type \"{text}\" does not exist")),
        Type::REGNAMESPACE => Error::new("3F000", format!("schema \"{text}\" does not exist")),
        Type::REGROLE => Error::new("42704", format!("role \"{text}\" does not exist")),
        _ => Error::no_function(format_args!("\"{text}\"")),
    }
}

/// A type with its modifier, as SQL writes it.
pub(crate) fn format_type(oid: i64, modifier: Option<i64>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let ty = Type(u32::try_from(oid).unwrap_or(0));
    let Some(row) = ty.row() else {
        return "???".to_owned();
    };
    let (base, brackets) = match row.sql_name.strip_suffix("[]") {
        Some(base) => (base, "[]"),
        None => (row.sql_name, ""),
    };
    let inner = ty.element().unwrap_or(ty);
    let name = match (inner, modifier) {
        (Type::BPCHAR, Some(-1)) => "bpchar".to_owned(),
        (Type::BPCHAR | Type::VARCHAR, Some(modifier)) if modifier >= 4 => {
            format!("{base}({})", modifier - 4)
        }
        (Type::NUMERIC, Some(modifier)) if modifier >= 4 => {
            let digits = modifier - 4;
            format!("{base}({},{})", digits >> 16 & 0xffff, digits & 0x7ff)
        }
        (Type::TIMESTAMP | Type::TIMESTAMPTZ, Some(modifier)) if modifier >= 0 => {
            let (name, zone) = base.split_once(' ').unwrap_or((base, ""));
            format!("{name}({modifier}) {zone}")
        }
        _ => base.to_owned(),
    };
    name + brackets
}

/// The schemas that are searched; with those that are searched unasked, or without.
pub(crate) fn searched(with_implicit: bool) -> &'static [&'static str] {
    if with_implicit {
        &["pg_catalog", "public"]
    } else {
        &["public"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(quoted("a_1"), "a_1");
        assert_eq!(quoted("A"), "\"A\"");
        assert_eq!(quoted("select"), "\"select\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(parts("Public.\"A.b\"\"\"").unwrap(), ["public", "A.b\""]);
        for bad in ["", ".", "a.", "\"a", "\"a\"b"] {
            assert_eq!(parts(bad).unwrap_err().code, "42602", "{bad}");
        }
    }

    #[test]
    fn types_are_written_with_their_modifiers() {
        assert_eq!(format_type(1700, Some((9 << 16 | 2) + 4)), "numeric(9,2)");
        assert_eq!(format_type(1043, Some(14)), "character varying(10)");
        assert_eq!(format_type(1114, None), "timestamp without time zone");
        assert_eq!(format_type(1114, Some(3)), "timestamp(3) without time zone");
        assert_eq!(format_type(1009, Some(-1)), "text[]");
        assert_eq!(format_type(1042, Some(-1)), "bpchar");
        assert_eq!(format_type(1042, None), "character");
    }
}
