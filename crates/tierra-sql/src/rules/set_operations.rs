//! EXCEPT ALL and INTERSECT ALL count: a row with m copies on the left and n on the right yields max(m - n, 0) or
//! min(m, n) rows.
//!
//! The planner turns them into joins that only test whether the right side has the row. Here the copies of a row are
//! numbered on both sides, and a copy matches the copy with its number:
//! ```text
//! Projection: columns
//!   LeftAnti or LeftSemi Join: columns, number (NULL equals NULL)
//!     Window: row_number() PARTITION BY columns
//!     Window: row_number() PARTITION BY columns
//! ```
//! Without ALL the left side has each row once, and the join is right. The right side is then made distinct as well: otherwise
//! a row with a thousand copies would be compared with each of them.

use std::sync::Arc;

use crate::tree::transform_up_with_subqueries;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Distinct, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

/// The column that numbers a row's copies, on the left and on the right.
const COPY: [&str; 2] = ["tierra_left_copy", "tierra_right_copy"];

/// Numbers the copies of rows under ALL, and removes duplicates otherwise.
#[derive(Debug)]
pub(super) struct CountedCopies;

impl AnalyzerRule for CountedCopies {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, counted).data()
    }

    fn name(&self) -> &str {
        "counted_copies"
    }
}

fn counted(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else {
        return Ok(Transformed::no(plan));
    };
    if !is_set_operation(&join) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let is_distinct = |plan: &LogicalPlan| matches!(plan, LogicalPlan::Distinct(_));
    match (is_distinct(&join.left), is_distinct(&join.right)) {
        (true, true) => return Ok(Transformed::no(LogicalPlan::Join(join))),
        (true, false) => {
            let right = Arc::new(LogicalPlan::Distinct(Distinct::All(join.right)));
            return Ok(Transformed::yes(LogicalPlan::Join(Join { right, ..join })));
        }
        (false, _) => {}
    }
    let columns: Vec<Expr> = expressions(&join.left);
    let mut on = join.on.clone();
    on.push((named(COPY[0]), named(COPY[1])));
    let join = Join::try_new(
        Arc::new(numbered(&join.left, COPY[0])?),
        Arc::new(numbered(&join.right, COPY[1])?),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let plan = LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?;
    Ok(Transformed::yes(plan.build()?))
}

/// Whether the join comes from EXCEPT or INTERSECT: no other join compares all columns of two sides with NULL equal to
/// NULL before joins are optimised.
fn is_set_operation(join: &Join) -> bool {
    let width = join.left.schema().fields().len();
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == width
        && join.right.schema().fields().len() == width
}

fn expressions(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema()
        .columns()
        .into_iter()
        .map(Expr::from)
        .collect()
}

/// A column without a table.
fn named(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// `plan` with a number for each copy of equal rows, from 1.
fn numbered(plan: &LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let mut columns = expressions(plan);
    let number = row_number().partition_by(columns.clone()).build()?;
    columns.push(named(&number.schema_name().to_string()).alias(name));
    LogicalPlanBuilder::from(plan.clone())
        .window([number])?
        .project(columns)?
        .build()
}
