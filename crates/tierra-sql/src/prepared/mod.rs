//! Statements that are planned once: point queries, and writes by key.
//!
//! A plan holds everything that does not depend on the arguments. EXECUTE parses only the arguments, plans nothing, and
//! clones no schema and no name.

mod key;
mod point;
mod write;

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::sql::sqlparser::ast::Expr;

use crate::list::{List, marked_array};

pub(crate) use point::PointPlan;
pub(crate) use write::{Write, WritePlan};

/// An argument for a parameter.
pub(crate) enum Argument<'a> {
    /// An expression in the statement.
    Written(&'a Expr),
    /// A list taken out of the statement because it was too long, or bound by a program.
    List(Arc<List>),
    /// One value bound by a program.
    Value(Arc<List>),
}

impl<'a> Argument<'a> {
    /// An argument of EXECUTE; `lists` were taken out of it.
    pub(crate) fn written(argument: &'a Expr, lists: &[Arc<List>]) -> Self {
        let list = marked_array(argument).and_then(|number| lists.get(number));
        list.map_or(Argument::Written(argument), |list| {
            Argument::List(Arc::clone(list))
        })
    }

    /// An array, or its single value.
    pub(crate) fn bound(array: ArrayRef, is_value: bool) -> Self {
        let list = Arc::new(List::typed(array));
        match is_value {
            true => Argument::Value(list),
            false => Argument::List(list),
        }
    }
}
