//! EXISTS asks for any row: ORDER BY and LIMIT of its subquery are left out, unless LIMIT or OFFSET may leave no row.
//!
//! With them the rows of each value outside would be sorted and counted.

use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::{FetchType, Limit, SkipType};

/// The plan whose rows exist if rows of `plan` do; `None` if that is `plan` itself.
pub(super) fn of_any_row(plan: &LogicalPlan) -> Option<LogicalPlan> {
    let below = match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none_or(|fetch| fetch > 0) => &sort.input,
        LogicalPlan::Limit(limit) if keeps_a_row(limit) => &limit.input,
        _ => return None,
    };
    Some(of_any_row(below).unwrap_or_else(|| below.as_ref().clone()))
}

fn keeps_a_row(limit: &Limit) -> bool {
    let is_first = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
    let has_rows = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(rows)) if rows.is_none_or(|rows| rows > 0));
    is_first && has_rows
}
