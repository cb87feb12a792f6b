//! Subqueries in VALUES: `INSERT INTO t VALUES ((SELECT max(id) + 1 FROM t), 'x')`.
//!
//! DataFusion computes VALUES before the subqueries of a plan. Columns with subqueries become those of a projection, which takes the
//! value of its row:
//!
//! ```text
//! VALUES (1, (SELECT 10)), (2, 20)
//!     SELECT column2, CASE column1 WHEN 0 THEN (SELECT 10) WHEN 1 THEN 20 END FROM (VALUES (0, 1), (1, 2))
//! ```

use std::collections::BTreeSet;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::logical_plan::Values;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::optimizer::AnalyzerRule;

use super::plan::uses;
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct ValuesOfQueries;

impl AnalyzerRule for ValuesOfQueries {
    fn name(&self) -> &str {
        "values_of_queries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, |plan| match &plan {
            LogicalPlan::Values(values) if uses(&plan, is_query)? => {
                Ok(Transformed::yes(computed(values)?))
            }
            _ => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

fn computed(values: &Values) -> Result<LogicalPlan> {
    let fields = values.schema.fields();
    let rows = &values.values;
    let has_query = |expr: &Expr| expr.exists(|expr| Ok(is_query(expr)));
    let mut with_queries = BTreeSet::new();
    for row in rows {
        for (place, expr) in row.iter().enumerate() {
            if has_query(expr)? {
                with_queries.insert(place);
            }
        }
    }
    let stored = rows.iter().enumerate().map(|(number, row)| {
        let others = row.iter().zip(fields).enumerate();
        let others = others.filter(|(place, _)| !with_queries.contains(place));
        let others = others.map(|(_, (expr, field))| cast(expr.clone(), field.data_type().clone()));
        std::iter::once(lit(number as i64)).chain(others).collect()
    });
    let stored = LogicalPlanBuilder::values(stored.collect())?.build()?;
    let mut columns = stored.schema().columns().into_iter().map(Expr::from);
    let row = columns.next().unwrap_or_default();
    let mut projected = Vec::with_capacity(fields.len());
    for (place, field) in fields.iter().enumerate() {
        let column = match with_queries.contains(&place) {
            false => columns.next().unwrap_or_default(),
            true => {
                let value = |row: &Vec<Expr>| cast(row[place].clone(), field.data_type().clone());
                let values = rows.iter().enumerate();
                let values = values
                    .map(|(number, row)| (Box::new(lit(number as i64)), Box::new(value(row))));
                Expr::Case(Case::new(
                    Some(Box::new(row.clone())),
                    values.collect(),
                    None,
                ))
            }
        };
        projected.push(column.alias(field.name()));
    }
    LogicalPlanBuilder::from(stored).project(projected)?.build()
}

fn is_query(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
    )
}
