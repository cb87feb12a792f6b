//! VALUES with subqueries: `INSERT INTO t VALUES (1, (SELECT max(x) FROM u))`.
//!
//! DataFusion computes the cells of VALUES while it plans, and a subquery has no rows then. So each row that has one becomes a query:
//! ```text
//! Values: (1, (subquery)), (2, 3)     Union
//!                                       Projection: 1 AS column1, (subquery) AS column2
//!                                         EmptyRelation: one row
//!                                       Values: (2, 3)
//! ```
//! The rule comes behind that of assignment, which reads VALUES as they are.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{EmptyRelation, Projection, Union, Values};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub(super) struct ValueSubqueries;

impl AnalyzerRule for ValueSubqueries {
    fn name(&self) -> &str {
        "value_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Values(values) if values.values.iter().any(|row| has_subquery(row)) => {
                Ok(Transformed::yes(as_queries(values)?))
            }
            plan => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// The rows of `values`, those with subqueries as queries.
fn as_queries(values: Values) -> Result<LogicalPlan> {
    let Values {
        schema,
        values: rows,
    } = values;
    let mut parts: Vec<Arc<LogicalPlan>> = Vec::new();
    let mut plain: Vec<Vec<Expr>> = Vec::new();
    let of_plain = |rows: Vec<Vec<Expr>>| {
        let schema = Arc::clone(&schema);
        Arc::new(LogicalPlan::Values(Values {
            schema,
            values: rows,
        }))
    };
    for row in rows {
        if !has_subquery(&row) {
            plain.push(row);
            continue;
        }
        if !plain.is_empty() {
            parts.push(of_plain(std::mem::take(&mut plain)));
        }
        parts.push(Arc::new(as_query(row, &schema)?));
    }
    if !plain.is_empty() {
        parts.push(of_plain(plain));
    }
    Ok(match <[_; 1]>::try_from(parts) {
        Ok([part]) => Arc::unwrap_or_clone(part),
        Err(parts) => LogicalPlan::Union(Union::try_new(parts)?),
    })
}

/// One row of VALUES with that schema.
fn as_query(row: Vec<Expr>, schema: &DFSchema) -> Result<LogicalPlan> {
    let none = DFSchema::empty();
    let cells = row.into_iter().zip(schema.fields()).map(|(cell, field)| {
        let ty = field.data_type();
        let cell = match cell.get_type(&none).is_ok_and(|found| found == *ty) {
            true => cell,
            false => Expr::Cast(Cast::new(Box::new(cell), ty.clone())),
        };
        cell.alias(field.name())
    });
    let one_row = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    let projection = Projection::try_new(cells.collect(), Arc::new(one_row))?;
    Ok(LogicalPlan::Projection(projection))
}

fn has_subquery(row: &[Expr]) -> bool {
    let is_subquery = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    };
    row.iter()
        .any(|cell| cell.exists(is_subquery).unwrap_or(true))
}
