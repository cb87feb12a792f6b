//! The names of columns that are given none.

use sqlparser::ast::{Expr as Syntax, Function, FunctionArguments, Value as Literal};

use super::{folded, path};
use crate::types::Type;

/// Whether a value has a name of its own, rather than that of its type.
fn is_named(syntax: &Syntax) -> bool {
    match syntax {
        Syntax::Nested(inner) | Syntax::Collate { expr: inner, .. } => is_named(inner),
        Syntax::Cast { expr, .. } => is_named(expr),
        Syntax::Case { .. } | Syntax::TypedString(_) | Syntax::Value(_) => false,
        other => name_of(other) != "?column?",
    }
}

/// The name that a column has if it is given none.
pub(super) fn name_of(syntax: &Syntax) -> String {
    let none = || "?column?".to_owned();
    match syntax {
        Syntax::Identifier(name) => folded(name),
        Syntax::CompoundIdentifier(names) => names.last().map_or_else(none, folded),
        Syntax::Nested(inner) | Syntax::Collate { expr: inner, .. } => name_of(inner),
        Syntax::Function(Function { name, args, .. }) => match args {
            FunctionArguments::Subquery(_) => "array".to_owned(),
            _ => path(name)
                .ok()
                .and_then(|mut path| path.pop())
                .unwrap_or_else(none),
        },
        Syntax::Cast {
            expr, data_type, ..
        } => match is_named(expr) {
            true => name_of(expr),
            false => match Type::of_sql(data_type) {
                // An array is called as its elements.
                Ok((ty, _)) => {
                    let row = ty.element().unwrap_or(ty).row();
                    row.map_or_else(none, |row| row.name.to_owned())
                }
                Err(_) => none(),
            },
        },
        Syntax::Case { else_result, .. } => match else_result.as_deref().map(name_of) {
            Some(name) if name != "?column?" => name,
            _ => "case".to_owned(),
        },
        Syntax::Exists { negated: false, .. } => "exists".to_owned(),
        Syntax::Array(_) => "array".to_owned(),
        Syntax::Substring { .. } => "substring".to_owned(),
        Syntax::Position { .. } => "position".to_owned(),
        Syntax::Trim { .. } => "btrim".to_owned(),
        Syntax::Tuple(_) => "row".to_owned(),
        Syntax::Value(value) if matches!(value.value, Literal::Boolean(_)) => "bool".to_owned(),
        Syntax::TypedString(string) => match Type::of_sql(&string.data_type) {
            Ok((ty, _)) => ty.row().map_or_else(none, |row| row.name.to_owned()),
            Err(_) => none(),
        },
        Syntax::CompoundFieldAccess { root, access_chain } => {
            let last = access_chain.iter().rev().find_map(|access| match access {
                sqlparser::ast::AccessExpr::Dot(Syntax::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            last.unwrap_or_else(|| name_of(root))
        }
        _ => none(),
    }
}
