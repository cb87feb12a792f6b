//! Rows of a table as they are made, by the names of its columns.

use crate::contents::Declared;
use crate::types::Type;
use crate::value::{Part, Value};

/// Rows that are being made.
pub(super) struct Rows<'a> {
    table: &'a Declared,
    rows: Vec<Part>,
}

impl<'a> Rows<'a> {
    pub(super) fn of(table: &'a Declared) -> Self {
        Self {
            table,
            rows: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Vec<Part> {
        self.rows
    }

    /// Adds a row with these values; other columns are NULL or, where they cannot be, zero.
    pub(super) fn add(&mut self, values: &[(&str, Value)]) {
        debug_assert!(
            values.iter().all(|(name, _)| self
                .table
                .columns
                .iter()
                .any(|column| column.name == *name)),
            "{} has not all of these columns",
            self.table.name
        );
        let columns = self.table.columns.iter().map(|column| {
            let given = values.iter().find(|(name, _)| *name == column.name);
            match given {
                Some((_, value)) => value.clone(),
                None if column.is_nullable => Value::Null,
                None => zero(column.ty),
            }
        });
        let number = std::iter::once(self.table.oid.into());
        self.rows.push(columns.chain(number).collect());
    }
}

fn zero(ty: Type) -> Value {
    match ty {
        Type::BOOL => false.into(),
        Type::INT2VECTOR | Type::OIDVECTOR => Value::vector(Vec::new()),
        _ if ty.element().is_some() => Value::array(Vec::new()),
        _ if ty.is_text() => "".into(),
        _ => Value::Int(0),
    }
}

pub(super) fn yes_or_no(truth: bool) -> Value {
    if truth { "YES" } else { "NO" }.into()
}
