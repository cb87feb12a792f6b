//! `ARRAY(query)`: the values of a query's column as an array, in the query's order; an empty one for no rows.
//!
//! ```text
//! ARRAY(SELECT x FROM t ORDER BY y)
//!     (SELECT coalesce(array_agg(item), make_array()) FROM (SELECT x FROM t ORDER BY y) AS q(item))
//! ```
//! That the aggregate takes rows in that order is for [`rules`](crate::rules).

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Query, SetExpr, TableFactor, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::TierraDialect;
use crate::visit::visit_mut;

/// What becomes of `ARRAY(SELECT 1)`.
const ARRAY_OF_ONE: &str = "(SELECT coalesce(array_agg(tierra_array.item), make_array()) \
     FROM (SELECT 1) AS tierra_array(item))";

/// Writes out the arrays of queries in `statement`.
pub(crate) fn write_out(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut ArraysOfQueries);
}

struct ArraysOfQueries;

impl VisitorMut for ArraysOfQueries {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let FunctionArguments::Subquery(query) = &mut function.args
            && function.name.to_string().eq_ignore_ascii_case("array")
        {
            let mut array = array_of_one();
            if let Some(inner) = query_in(&mut array) {
                mem::swap(inner, query);
                *expr = array;
            }
        }
        ControlFlow::Continue(())
    }
}

fn array_of_one() -> Expr {
    let dialect = TierraDialect::default();
    let parser = Parser::new(&dialect).try_with_sql(ARRAY_OF_ONE);
    let parsed = parser.and_then(|mut parser| parser.parse_expr());
    parsed.expect("it is an expression")
}

fn query_in(array: &mut Expr) -> Option<&mut Box<Query>> {
    let Expr::Subquery(query) = array else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}
