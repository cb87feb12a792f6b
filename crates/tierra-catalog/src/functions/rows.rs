//! Functions that return rows.

use crate::error::{Error, Result};
use crate::names::KEYWORDS;
use crate::plan::Column;
use crate::session::{ROW_STEPS, Session};
use crate::types::Type;
use crate::value::Value;

use super::function::Function;

/// The most rows of a series.
const SERIES_MOST: i64 = 1_000_000;

/// A function that returns rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RowsFunction {
    Unnest,
    Series,
    Subscripts,
    /// The items of an array, each with its number.
    ExpandArray,
    Keywords,
    /// What privileges or options consist of. There are none.
    Nothing(&'static [(&'static str, Type)]),
    /// A row of one value.
    Single(&'static Function),
}

const PRIVILEGES: &[(&str, Type)] = &[
    ("grantor", Type::OID),
    ("grantee", Type::OID),
    ("privilege_type", Type::TEXT),
    ("is_grantable", Type::BOOL),
];
const OPTIONS: &[(&str, Type)] = &[("option_name", Type::TEXT), ("option_value", Type::TEXT)];

impl RowsFunction {
    /// The function of this name, if it takes so many arguments.
    pub(crate) fn named(name: &str, count: usize) -> Option<Self> {
        Some(match (name, count) {
            ("unnest", 1) => Self::Unnest,
            ("generate_series", 2 | 3) => Self::Series,
            ("generate_subscripts", 2 | 3) => Self::Subscripts,
            ("_pg_expandarray", 1) => Self::ExpandArray,
            ("pg_get_keywords", 0) => Self::Keywords,
            ("aclexplode", 1) => Self::Nothing(PRIVILEGES),
            ("pg_options_to_table", 1) => Self::Nothing(OPTIONS),
            ("pg_listening_channels", 0) => Self::Nothing(&[("pg_listening_channels", Type::TEXT)]),
            _ => return None,
        })
    }

    /// Whether only the system catalog has it.
    pub(crate) fn is_of_catalog(self) -> bool {
        matches!(self, Self::ExpandArray | Self::Keywords | Self::Nothing(_))
    }

    /// The columns, for arguments of these types.
    pub(crate) fn columns(self, name: &str, arguments: &[Type]) -> Result<Vec<Column>> {
        let column = |name: &str, ty| Column {
            name: name.to_owned(),
            ty,
            fields: Vec::new(),
        };
        let element = || {
            let ty = arguments.first().copied().unwrap_or(Type::UNKNOWN);
            ty.element()
                .ok_or_else(|| Error::no_function(format_args!("{name}({})", ty.sql_name())))
        };
        Ok(match self {
            Self::Unnest => vec![column(name, element()?)],
            Self::Series => vec![column(
                name,
                if arguments.contains(&Type::INT8) {
                    Type::INT8
                } else {
                    Type::INT4
                },
            )],
            Self::Subscripts => {
                element()?;
                vec![column(name, Type::INT4)]
            }
            Self::ExpandArray => vec![column("x", element()?), column("n", Type::INT4)],
            Self::Keywords => vec![
                column("word", Type::TEXT),
                column("catcode", Type::CHAR),
                column("barelabel", Type::BOOL),
                column("catdesc", Type::TEXT),
                column("baredesc", Type::TEXT),
            ],
            Self::Nothing(columns) => columns.iter().map(|(name, ty)| column(name, *ty)).collect(),
            Self::Single(function) => vec![column(name, function.result)],
        })
    }

    pub(crate) fn width(self) -> usize {
        match self {
            Self::ExpandArray => 2,
            Self::Keywords => 5,
            Self::Nothing(columns) => columns.len(),
            _ => 1,
        }
    }

    pub(crate) fn rows(
        self,
        session: &Session<'_>,
        arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>> {
        if let Self::Single(function) = self {
            let is_null = function.is_strict && arguments.iter().any(Value::is_null);
            let value = if is_null {
                Value::Null
            } else {
                (function.run)(session, arguments)?
            };
            return Ok(vec![vec![value]]);
        }
        if arguments.iter().any(Value::is_null) {
            return Ok(Vec::new());
        }
        let one = |value| vec![value];
        let first = match arguments.first() {
            Some(Value::Array(array)) => array.first,
            _ => 1,
        };
        Ok(match self {
            Self::Unnest => arguments[0].items().iter().cloned().map(one).collect(),
            Self::Series => {
                let (from, to) = (arguments[0].as_int(), arguments[1].as_int());
                series(session, from, to, arguments.get(2).map_or(1, Value::as_int))?
            }
            Self::Subscripts => {
                let len = match arguments[1].as_int() {
                    1 => arguments[0].items().len() as i64,
                    _ => 0,
                };
                let mut places: Vec<_> = (first..first + len).map(Value::Int).map(one).collect();
                if arguments.get(2).is_some_and(Value::is_true) {
                    places.reverse();
                }
                places
            }
            Self::ExpandArray => {
                let items = (1..).zip(arguments[0].items());
                items
                    .map(|(n, item)| vec![item.clone(), Value::Int(n)])
                    .collect()
            }
            Self::Keywords => KEYWORDS
                .iter()
                .map(|keyword| {
                    let kind = match keyword.category {
                        "U" => "unreserved",
                        "C" => "unreserved (cannot be function or type name)",
                        "T" => "reserved (can be function or type name)",
                        _ => "reserved",
                    };
                    let label = if keyword.is_bare {
                        "can be bare label"
                    } else {
                        "requires AS"
                    };
                    vec![
                        keyword.word.into(),
                        keyword.category.into(),
                        keyword.is_bare.into(),
                        kind.into(),
                        label.into(),
                    ]
                })
                .collect(),
            Self::Nothing(_) | Self::Single(_) => Vec::new(),
        })
    }
}

fn series(session: &Session<'_>, from: i64, to: i64, by: i64) -> Result<Vec<Vec<Value>>> {
    if by == 0 {
        return Err(Error::new("22023", "step size cannot equal zero"));
    }
    let len = (i128::from(to) - i128::from(from)) / i128::from(by) + 1;
    if (to < from) != (by < 0) && to != from {
        return Ok(Vec::new());
    }
    if len > SERIES_MOST.into() {
        return Err(Error::too_much());
    }
    session.step(len as u64 * ROW_STEPS)?;
    let len = i64::try_from(len).unwrap_or(0);
    Ok((0..len)
        .map(|place| vec![Value::Int(from + place * by)])
        .collect())
}
