//! Types, by their numbers, and what PostgreSQL says of each.

use std::collections::HashMap;
use std::sync::LazyLock;

use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType};

use crate::error::{Error, Result};

/// A type: its number in `pg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type(pub u32);

/// What `pg_type` says of a type.
pub(crate) struct TypeRow {
    pub(crate) ty: Type,
    pub(crate) name: &'static str,
    pub(crate) len: i16,
    pub(crate) by_value: bool,
    pub(crate) kind: &'static str,
    pub(crate) category: u8,
    pub(crate) is_preferred: bool,
    pub(crate) delimiter: &'static str,
    pub(crate) element: Type,
    pub(crate) array: Type,
    pub(crate) align: &'static str,
    pub(crate) storage: &'static str,
    pub(crate) collation: u32,
    pub(crate) sql_name: &'static str,
    /// Subscript, input, output, receive, send, modin, modout and analyze.
    pub(crate) functions: [u32; 8],
}

pub(crate) static TYPES: LazyLock<Vec<TypeRow>> = LazyLock::new(|| {
    let lines = include_str!("data/types.txt").lines().skip(1);
    lines.map(type_row).collect()
});

static PLACES: LazyLock<HashMap<Type, usize>> = LazyLock::new(|| {
    let places = TYPES.iter().enumerate();
    places.map(|(place, row)| (row.ty, place)).collect()
});

fn type_row(line: &'static str) -> TypeRow {
    let fields: Vec<&str> = line.split('|').collect();
    let number = |place: usize| {
        fields[place]
            .parse::<u32>()
            .expect("the file holds numbers")
    };
    TypeRow {
        ty: Type(number(0)),
        name: fields[1],
        len: fields[2].parse().expect("the file holds lengths"),
        by_value: fields[3] == "t",
        kind: fields[4],
        category: fields[5].as_bytes()[0],
        is_preferred: fields[6] == "t",
        delimiter: fields[7],
        element: Type(number(8)),
        array: Type(number(9)),
        align: fields[10],
        storage: fields[11],
        collation: number(12),
        sql_name: fields[13],
        functions: std::array::from_fn(|place| number(14 + place)),
    }
}

/// The most letters of a text type that are told.
const LETTERS_MOST: usize = 1 << 16;

impl Type {
    /// `bool`.
    pub const BOOL: Self = Self(16);
    pub(crate) const CHAR: Self = Self(18);
    pub(crate) const NAME: Self = Self(19);
    /// `int8`.
    pub const INT8: Self = Self(20);
    pub(crate) const INT2: Self = Self(21);
    pub(crate) const INT2VECTOR: Self = Self(22);
    /// `int4`.
    pub const INT4: Self = Self(23);
    pub(crate) const REGPROC: Self = Self(24);
    /// `text`.
    pub const TEXT: Self = Self(25);
    pub(crate) const OID: Self = Self(26);
    pub(crate) const OIDVECTOR: Self = Self(30);
    pub(crate) const FLOAT4: Self = Self(700);
    /// `float8`.
    pub const FLOAT8: Self = Self(701);
    /// A literal or a parameter of which nothing has said yet what it is.
    pub const UNKNOWN: Self = Self(705);
    pub(crate) const BPCHAR: Self = Self(1042);
    pub(crate) const VARCHAR: Self = Self(1043);
    /// `date`.
    pub const DATE: Self = Self(1082);
    /// `timestamp`.
    pub const TIMESTAMP: Self = Self(1114);
    pub(crate) const TIMESTAMPTZ: Self = Self(1184);
    /// `numeric`.
    pub const NUMERIC: Self = Self(1700);
    pub(crate) const REGPROCEDURE: Self = Self(2202);
    pub(crate) const REGCLASS: Self = Self(2205);
    pub(crate) const REGTYPE: Self = Self(2206);
    pub(crate) const REGROLE: Self = Self(4096);
    pub(crate) const REGNAMESPACE: Self = Self(4089);
    pub(crate) const NAME_ARRAY: Self = Self(1003);
    pub(crate) const TEXT_ARRAY: Self = Self(1009);
    pub(crate) const RECORD: Self = Self(2249);
    pub(crate) const ANY: Self = Self(2276);
    pub(crate) const ANYARRAY: Self = Self(2277);
    pub(crate) const ANYELEMENT: Self = Self(2283);
    pub(crate) const VOID: Self = Self(2278);

    pub(crate) fn row(self) -> Option<&'static TypeRow> {
        PLACES.get(&self).map(|place| &TYPES[*place])
    }

    /// Its name, as errors tell it.
    pub(crate) fn sql_name(self) -> &'static str {
        self.row().map_or("???", |row| row.sql_name)
    }

    /// Bytes of a value; -1 if they differ.
    #[must_use]
    pub fn size(self) -> i16 {
        self.row().map_or(-1, |row| row.len)
    }

    /// The type of an array's elements.
    pub(crate) fn element(self) -> Option<Self> {
        let row = self.row()?;
        // Of a name and of a box a part can be taken as well, but these are no arrays.
        let is_array = row.category == b'A' && row.element != Self(0);
        is_array.then_some(row.element)
    }

    /// The type of arrays of it.
    pub(crate) fn array(self) -> Result<Self> {
        // A literal's type is text in the end.
        if self == Self::UNKNOWN {
            return Ok(Self::TEXT_ARRAY);
        }
        let array = self.row().map(|row| row.array).filter(|ty| *ty != Self(0));
        array.ok_or_else(|| Error::unsupported(format_args!("an array of {}", self.sql_name())))
    }

    /// Types whose values can be compared with each other have the same class.
    pub(crate) fn class(self) -> u8 {
        match self.row().map_or(b'U', |row| row.category) {
            // "char" is of a category of its own.
            b'Z' if self == Self::CHAR => b'S',
            // What is stored as text.
            _ if self == Self(194) || self == Self(114) => b'S',
            category => category,
        }
    }

    pub(crate) fn is_text(self) -> bool {
        self.class() == b'S' || self == Self::UNKNOWN || self == Self::VOID || self == Self(2275)
    }

    /// Numbers without a fraction: integers, numbers of things, and those that are shown as the names of things.
    pub(crate) fn is_whole(self) -> bool {
        self.class() == b'N' && !matches!(self, Self::FLOAT4 | Self::FLOAT8 | Self::NUMERIC)
            || self == Self(28)
    }

    /// Whether values are shown as the names of things.
    pub(crate) fn is_reference(self) -> bool {
        let names = [
            "regclass",
            "regtype",
            "regproc",
            "regprocedure",
            "regnamespace",
            "regrole",
        ];
        self.row().is_some_and(|row| names.contains(&row.name))
    }

    /// The type of this name, in SQL or in `pg_type`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let alias = match name {
            "int" => "integer",
            "decimal" => "numeric",
            "float" => "double precision",
            other => other,
        };
        if let Some(element) = alias.strip_suffix("[]") {
            return Self::named(element)?.array().ok();
        }
        let quoted = alias
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let found = match quoted {
            Some(name) => TYPES.iter().find(|row| row.name == name),
            None => TYPES.iter().find(|row| row.sql_name == alias).or_else(|| {
                TYPES
                    .iter()
                    .find(|row| row.name == alias && alias != "char")
            }),
        };
        found.map(|row| row.ty)
    }

    /// The type that a cast names, and the most letters that it keeps.
    pub(crate) fn of_sql(ty: &DataType) -> Result<(Self, Option<usize>)> {
        let named = |name: &str| Self::named(name).map(|ty| (ty, None));
        let letters = |ty, length: &Option<CharacterLength>| match length {
            None => Some((ty, None)),
            Some(CharacterLength::IntegerLength { length, .. }) => {
                let length = usize::try_from(*length).ok();
                let length = length.filter(|length| (1..=LETTERS_MOST).contains(length))?;
                Some((ty, Some(length)))
            }
            Some(CharacterLength::Max) => None,
        };
        let found = match ty {
            DataType::Character(None) | DataType::Char(None) => Some((Self::BPCHAR, Some(1))),
            DataType::Character(length) | DataType::Char(length) => letters(Self::BPCHAR, length),
            DataType::CharacterVarying(length)
            | DataType::CharVarying(length)
            | DataType::Varchar(length) => letters(Self::VARCHAR, length),
            DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
                let (element, most) = Self::of_sql(element)?;
                Some((element.array()?, most))
            }
            DataType::Custom(name, arguments) if arguments.is_empty() => {
                let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).collect();
                let (last, schema) = match parts.as_slice() {
                    [last] => (*last, None),
                    [schema, last] => (*last, Some(*schema)),
                    _ => return Err(Error::unsupported(ty)),
                };
                let name = match last.quote_style {
                    Some(_) => format!("\"{}\"", last.value),
                    None => last.value.to_lowercase(),
                };
                match schema.map(|schema| schema.value.as_str()) {
                    Some("information_schema") => match name.as_str() {
                        "sql_identifier" => Some((Self::NAME, None)),
                        "character_data" | "yes_or_no" => Some((Self::VARCHAR, None)),
                        "cardinal_number" => Some((Self::INT4, None)),
                        _ => None,
                    },
                    None | Some("pg_catalog") => match name.as_str() {
                        "char" => Some((Self::CHAR, None)),
                        name => named(name),
                    },
                    Some(_) => None,
                }
            }
            other => named(&other.to_string().to_lowercase()),
        };
        found.ok_or_else(|| {
            Error::new(
                "42704",
                format!("type \"{ty}\" does not exist in the system catalog"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_names_and_arrays() {
        assert_eq!(Type::named("integer"), Some(Type::INT4));
        assert_eq!(Type::named("int4"), Some(Type::INT4));
        assert_eq!(Type::named("\"char\""), Some(Type::CHAR));
        assert_eq!(Type::named("character varying"), Some(Type::VARCHAR));
        assert_eq!(Type::named("text[]"), Some(Type::TEXT_ARRAY));
        assert_eq!(Type::named("nosuch"), None);
        assert_eq!(Type::OID.array(), Ok(Type(1028)));
        assert_eq!(Type::INT2VECTOR.element(), Some(Type::INT2));
        assert_eq!(Type::NAME.element(), None);
        assert!(Type::REGCLASS.is_whole() && !Type::FLOAT8.is_whole());
    }
}
