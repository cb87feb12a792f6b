//! Rows of VALUES with a subquery are queries of one row each: `VALUES (1, (SELECT max(x) FROM t))`.
//!
//! DataFusion evaluates VALUES before it has run a subquery, and refuses IN and EXISTS there. The rows without a subquery stay together.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{EmptyRelation, Projection, Union, Values};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub(super) struct RowSubqueries;

impl AnalyzerRule for RowSubqueries {
    fn name(&self) -> &str {
        "row_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Values(Values { schema, values }) = &plan else {
        return Ok(Transformed::no(plan));
    };
    if !values.iter().any(|row| has_subquery(row)) {
        return Ok(Transformed::no(plan));
    }
    let mut parts: Vec<Arc<LogicalPlan>> = Vec::new();
    for rows in values.chunk_by(|row, next| !has_subquery(row) && !has_subquery(next)) {
        parts.push(Arc::new(match rows {
            [row] if has_subquery(row) => one_row(row, schema)?,
            rows => LogicalPlan::Values(Values {
                schema: Arc::clone(schema),
                values: rows.to_vec(),
            }),
        }));
    }
    let schema = Arc::clone(schema);
    Ok(Transformed::yes(match parts.as_slice() {
        [only] => LogicalPlan::clone(only),
        _ => LogicalPlan::Union(Union {
            inputs: parts,
            schema,
        }),
    }))
}

fn one_row(row: &[Expr], schema: &DFSchemaRef) -> Result<LogicalPlan> {
    let cells = row.iter().zip(schema.fields());
    let cells = cells.map(|(cell, field)| cell.clone().unalias().alias(field.name()));
    let no_columns = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    let schema = Arc::clone(schema);
    let row = Projection::try_new_with_schema(cells.collect(), Arc::new(no_columns), schema)?;
    Ok(LogicalPlan::Projection(row))
}

fn has_subquery(row: &[Expr]) -> bool {
    let is_subquery = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    };
    // The closure never fails.
    row.iter()
        .any(|cell| cell.exists(is_subquery).unwrap_or(true))
}
