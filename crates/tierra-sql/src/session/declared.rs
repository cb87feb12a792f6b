//! The types that PREPARE declares, in a statement of which the planner would not heed them.
//!
//! The planner gives a parameter in the VALUES of an INSERT the type of its column, and no parameter of an INSERT the declared one. So
//! each becomes a cast: an argument is a value of the declared type before it is stored.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, VisitorMut};

use crate::types;
use crate::visit::visit_mut;

/// Casts the parameters of an INSERT to the types that PREPARE declares for them. A list is left as it is.
pub(super) fn cast_to_declared(statement: &mut ast::Statement, declared: &[ast::DataType]) {
    if declared.is_empty() || !matches!(statement, ast::Statement::Insert(_)) {
        return;
    }
    let _ = visit_mut(statement, &mut Declared(declared));
}

/// The types that PREPARE declares.
struct Declared<'a>(&'a [ast::DataType]);

impl VisitorMut for Declared<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let Some(data_type) = declared_type(expr, self.0) {
            let parameter = std::mem::replace(expr, ast::Expr::value(ast::Value::Null));
            *expr = ast::Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(parameter),
                data_type,
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }
}

/// The type of the parameter `expr`, if it is one that is cast.
fn declared_type(expr: &ast::Expr, declared: &[ast::DataType]) -> Option<ast::DataType> {
    let ast::Expr::Value(value) = expr else {
        return None;
    };
    let ast::Value::Placeholder(name) = &value.value else {
        return None;
    };
    let number: usize = name.strip_prefix('$')?.parse().ok()?;
    let data_type = declared.get(number.checked_sub(1)?)?;
    let is_known = types::from_sql("", data_type).is_ok()
        || matches!(
            data_type,
            ast::DataType::SmallInt(None) | ast::DataType::TinyInt(None)
        );
    is_known.then(|| data_type.clone())
}
