//! `LIMIT`, as a condition on the numbers of rows.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count_all_window;
use datafusion::functions_window::expr_fn::rank;
use datafusion::logical_expr::logical_plan::{Limit, Projection, Sort, SubqueryAlias};
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, cast, lit};

/// The same rows, limited below the columns or the name that they get above.
pub(super) fn below_columns(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let below = |input: &Arc<LogicalPlan>| {
        let input = Arc::clone(input);
        Arc::new(LogicalPlan::Limit(Limit {
            input,
            ..limit.clone()
        }))
    };
    Ok(match limit.input.as_ref() {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let plan = Projection::try_new(expr.clone(), below(input))?;
            Some(LogicalPlan::Projection(plan))
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { alias, input, .. }) => {
            let plan = SubqueryAlias::try_new(below(input), alias.clone())?;
            Some(LogicalPlan::SubqueryAlias(plan))
        }
        _ => None,
    })
}

/// Whether `limit` may keep a row that can have any number from `first` to `last`, both counted from 1.
pub(super) fn may_keep(limit: &Limit, first: Column, last: Column) -> Expr {
    let count = |count: &Option<Box<Expr>>, of_null: i64| {
        let count = count.as_ref()?.as_ref().clone();
        Some(coalesce(vec![cast(count, DataType::Int64), lit(of_null)]))
    };
    let skip = count(&limit.skip, 0).unwrap_or(lit(0_i64));
    // A difference does not overflow.
    let behind = |row: Column| cast(Expr::Column(row), DataType::Int64) - skip.clone();
    let is_behind = behind(last).gt(lit(0_i64));
    match count(&limit.fetch, i64::MAX) {
        Some(fetch) => is_behind.and(behind(first).lt_eq(fetch)),
        None => is_behind,
    }
}

/// The rows that `limit` keeps, and those that its order does not tell from them: the same each time. None where no order says
/// which rows are the first.
pub(super) fn with_ties(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Sort(Sort { expr, input, .. }) = limit.input.as_ref() else {
        return Ok(None);
    };
    let first = rank().order_by(expr.clone()).build()?;
    let last = count_all_window().order_by(expr.clone()).build()?;
    let [first_number, last_number] =
        [&first, &last].map(|it| Column::new_unqualified(it.schema_name().to_string()));
    let kept = input.schema().columns().into_iter().map(Expr::from);
    LogicalPlanBuilder::from(input.as_ref().clone())
        .window([first, last])?
        .filter(may_keep(limit, first_number, last_number))?
        .project(kept)?
        .build()
        .map(Some)
}
