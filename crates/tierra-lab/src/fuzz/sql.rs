//! A statement in all dialects at once: a list of pieces, most of them the same in each.
//!
//! Values are separate pieces, so that a statement can be written with parameters instead.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::construct::Construct;
use super::value::{Type, Value};

/// The dialect of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Tierra's.
    Tierra,
    /// DuckDB's.
    DuckDb,
    /// SQLite's: booleans are 0 and 1, DECIMALs integers, dates and times texts.
    Sqlite,
}

/// A statement, or a part of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sql(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    /// The same in all dialects.
    Text(Cow<'static, str>),
    /// In Tierra, DuckDB and SQLite.
    Each([Cow<'static, str>; 3]),
    /// A value of a type.
    Value(Type, Value),
    /// Nothing: says what the text around it is.
    Mark(Construct),
}

impl Sql {
    /// A part that differs: in Tierra, in DuckDB, in SQLite.
    pub(crate) fn each(
        tierra: impl Into<Cow<'static, str>>,
        duckdb: impl Into<Cow<'static, str>>,
        sqlite: impl Into<Cow<'static, str>>,
    ) -> Sql {
        Sql(vec![Piece::Each([
            tierra.into(),
            duckdb.into(),
            sqlite.into(),
        ])])
    }

    /// A literal.
    pub(crate) fn value(ty: Type, value: Value) -> Sql {
        Sql(vec![Piece::Value(ty, value)])
    }

    /// This, followed by that.
    #[must_use]
    pub(crate) fn and(mut self, more: impl Into<Sql>) -> Sql {
        self.0.extend(more.into().0);
        self
    }

    /// Several parts, with a text between them.
    pub(crate) fn joined(parts: impl IntoIterator<Item = Sql>, between: &'static str) -> Sql {
        let mut all = Sql::default();
        for (number, part) in parts.into_iter().enumerate() {
            if number > 0 {
                all = all.and(between);
            }
            all = all.and(part);
        }
        all
    }

    /// What is marked in it.
    pub(crate) fn constructs(&self) -> BTreeSet<Construct> {
        let marked = self.0.iter().filter_map(|piece| match piece {
            Piece::Mark(construct) => Some(*construct),
            _ => None,
        });
        marked.collect()
    }

    /// Whether it is marked as that.
    pub(crate) fn has(&self, construct: Construct) -> bool {
        let is_it = |piece: &Piece| matches!(piece, Piece::Mark(mark) if *mark == construct);
        self.0.iter().any(is_it)
    }

    /// Whether it is nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The statement in Tierra's dialect.
    pub(crate) fn plain(&self) -> String {
        self.text(Dialect::Tierra)
    }

    /// The statement in one dialect.
    pub(crate) fn text(&self, dialect: Dialect) -> String {
        self.write(
            |text, ty, value| text.push_str(&value.literal(ty, dialect)),
            dialect,
        )
    }

    /// Tierra's statement with parameters for its values, and the values.
    pub(crate) fn prepared(&self) -> (String, Vec<(Type, Value)>) {
        let mut values = Vec::new();
        let text = self.write(
            |text, ty, value| {
                values.push((ty, value.clone()));
                text.push_str(&format!("${}", values.len()));
            },
            Dialect::Tierra,
        );
        (text, values)
    }

    fn write(
        &self,
        mut value_into: impl FnMut(&mut String, Type, &Value),
        dialect: Dialect,
    ) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(same) => text.push_str(same),
                Piece::Each(own) => text.push_str(&own[dialect as usize]),
                Piece::Value(ty, value) => value_into(&mut text, *ty, value),
                Piece::Mark(_) => {}
            }
        }
        text
    }
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Sql {
        Sql(vec![Piece::Text(text.into())])
    }
}

impl From<String> for Sql {
    fn from(text: String) -> Sql {
        Sql(vec![Piece::Text(text.into())])
    }
}

impl From<Construct> for Sql {
    fn from(construct: Construct) -> Sql {
        Sql(vec![Piece::Mark(construct)])
    }
}

impl From<&Sql> for Sql {
    fn from(sql: &Sql) -> Sql {
        sql.clone()
    }
}

/// Parts one after another.
macro_rules! sql {
    ($($part:expr),* $(,)?) => { $crate::fuzz::sql::Sql::default()$(.and($part))* };
}
pub(crate) use sql;
