//! Values on the wire: Arrow's types as PostgreSQL's, as text and binary, both ways.

pub(crate) mod argument;
mod array;
pub(crate) mod column;
mod digits;
mod moment;
mod number;
pub(crate) mod read;
mod types;

pub(crate) use self::types::{Field, fields_of, oid, oid_of, type_of};

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

impl Format {
    pub(crate) fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }

    pub(crate) fn of_code(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }
}
