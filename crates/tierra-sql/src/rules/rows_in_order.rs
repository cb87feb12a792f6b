//! The order of a subquery in FROM, where it counts, as in PostgreSQL and DuckDB.
//!
//! ```text
//! SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY y)
//!     array_agg(x ORDER BY y): y becomes a further column of the subquery
//! SELECT x FROM (SELECT x FROM t ORDER BY y) WHERE x > 1 LIMIT 3
//!     .. WHERE x > 1 ORDER BY y LIMIT 3
//! SELECT x FROM (SELECT x FROM t ORDER BY y)
//!     the same: an order that columns are chosen from stays
//! SELECT count(*) FROM (SELECT x FROM t ORDER BY y)
//!     any other order is left out
//! ```
//! DataFusion leaves the order of a subquery out wherever it has no LIMIT, and hands ordered rows on to an aggregate as threads come.

use std::sync::Arc;

use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNodeRecursion, TreeNodeRewriter,
};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::{Filter, Limit, Projection, Sort, SubqueryAlias};
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};
use datafusion::optimizer::AnalyzerRule;

use super::plan::{map_under_names, uses};
use crate::tree::{TreeNode, apply_with_subqueries, transform_up_with_subqueries};

/// The functions that depend on the order of rows.
const IN_ORDER: [&str; 5] = [
    "array_agg",
    "string_agg",
    "first_value",
    "last_value",
    "nth_value",
];
/// How the names of the further columns begin.
const KEYS: &str = "tierra_order_";

/// The rule. The planner leaves all orders to it.
#[derive(Debug)]
pub(super) struct RowsInOrder;

impl AnalyzerRule for RowsInOrder {
    fn name(&self) -> &str {
        "rows_in_order"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_order(&plan)? {
            return Ok(plan);
        }
        let plan = transform_up_with_subqueries(plan, |plan| match plan {
            LogicalPlan::Aggregate(_) => aggregated_in_order(plan),
            LogicalPlan::Limit(limit) => first_in_order(limit),
            other => Ok(Transformed::no(other)),
        });
        let plan = answered_in_order(plan.data()?)?;
        without_idle(plan)
    }
}

fn has_order(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    apply_with_subqueries(plan, |plan| {
        has |= matches!(plan, LogicalPlan::Sort(_));
        Ok(match has {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(has)
}

fn aggregated_in_order(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, asks_for_order)? {
        return Ok(Transformed::no(plan));
    }
    let Some(Ordered { rows, keys, .. }) = ordered(plan.inputs()[0])? else {
        return Ok(Transformed::no(plan));
    };
    let ordered = map_under_names(plan, |expr| {
        expr.transform_up(|expr| match expr {
            Expr::AggregateFunction(mut call) if depends_on_order(&call) => {
                call.params.order_by = keys.clone();
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })
    })?;
    let exprs = ordered.data.expressions();
    let plan = ordered.data.with_new_exprs(exprs, vec![rows])?;
    Ok(Transformed::yes(plan))
}

/// The first rows of those that a condition above an order keeps.
fn first_in_order(limit: Limit) -> Result<Transformed<LogicalPlan>> {
    Ok(match sorted_above(&limit.input)? {
        Some(input) => Transformed::yes(LogicalPlan::Limit(Limit {
            input: Arc::new(input),
            ..limit
        })),
        None => Transformed::no(LogicalPlan::Limit(limit)),
    })
}

/// A query whose rows come from an order through conditions.
fn answered_in_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    match is_of_statement(&plan) {
        true => plan
            .map_children(|query| Ok(Transformed::yes(answered_in_order(query)?)))
            .data(),
        false => Ok(sorted_above(&plan)?.unwrap_or(plan)),
    }
}

/// The rows of a plan that has conditions above an order, sorted above them.
fn sorted_above(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let Some(Ordered {
        rows,
        keys,
        is_filtered: true,
    }) = ordered(plan)?
    else {
        return Ok(None);
    };
    let sorted = LogicalPlan::Sort(Sort {
        expr: keys,
        input: Arc::new(rows),
        fetch: None,
    });
    let columns = plan.schema().columns().into_iter().map(Expr::from);
    let plan = Projection::try_new(columns.collect(), Arc::new(sorted))?;
    Ok(Some(LogicalPlan::Projection(plan)))
}

/// The plan without orders that nothing depends on.
fn without_idle(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite(&mut IdleOrders { counts: vec![true] }).data()
}

/// Leaves idle orders out, from the top.
struct IdleOrders {
    /// Whether something above depends on the order of rows: of the operator to come, and of those above it.
    counts: Vec<bool>,
}

impl TreeNodeRewriter for IdleOrders {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let counts = self.counts.last().copied().unwrap_or(true);
        let (mut plan, mut is_changed) = (plan, false);
        while let LogicalPlan::Sort(Sort {
            input, fetch: None, ..
        }) = &plan
            && !counts
        {
            (plan, is_changed) = (input.as_ref().clone(), true);
        }
        self.counts.push(match &plan {
            LogicalPlan::Limit(_) => true,
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => counts,
            plan => counts && is_of_statement(plan),
        });
        let plan = plan.map_subqueries(|query| without_idle(query).map(Transformed::yes))?;
        Ok(Transformed::new(
            plan.data,
            plan.transformed || is_changed,
            TreeNodeRecursion::Continue,
        ))
    }

    fn f_up(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.counts.pop();
        Ok(Transformed::no(plan))
    }
}

/// Whether it does something with the rows of a query, or tells about it.
fn is_of_statement(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Extension(_)
    )
}

fn asks_for_order(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if depends_on_order(call))
}

fn depends_on_order(call: &AggregateFunction) -> bool {
    let AggregateFunction { func, params } = call;
    params.order_by.is_empty() && !params.distinct && IN_ORDER.contains(&func.name())
}

/// Rows with what they are ordered by.
struct Ordered {
    rows: LogicalPlan,
    /// Of columns of these rows.
    keys: Vec<SortExpr>,
    /// Whether there are conditions above the order.
    is_filtered: bool,
}

/// The rows of a plan that has an order, with its keys as further columns.
fn ordered(plan: &LogicalPlan) -> Result<Option<Ordered>> {
    let input = match plan {
        LogicalPlan::Sort(sort @ Sort { fetch: None, .. }) => return with_keys(sort),
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Limit(_) => plan.inputs()[0],
        _ => return Ok(None),
    };
    let Some(mut ordered) = ordered(input)? else {
        return Ok(None);
    };
    let rows = Arc::new(ordered.rows);
    ordered.rows = match plan {
        LogicalPlan::Projection(Projection { expr, .. }) => {
            let further = ordered.keys.iter().map(|key| key.expr.clone());
            let exprs = expr.iter().cloned().chain(further).collect();
            LogicalPlan::Projection(Projection::try_new(exprs, rows)?)
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { alias, .. }) => {
            for key in &mut ordered.keys {
                if let Expr::Column(column) = &mut key.expr {
                    column.relation = Some(alias.clone());
                }
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(rows, alias.clone())?)
        }
        LogicalPlan::Filter(Filter { predicate, .. }) => {
            ordered.is_filtered = true;
            LogicalPlan::Filter(Filter::try_new(predicate.clone(), rows)?)
        }
        LogicalPlan::Limit(limit) => LogicalPlan::Limit(Limit {
            input: rows,
            ..limit.clone()
        }),
        _ => return Ok(None),
    };
    Ok(Some(ordered))
}

/// The keys are computed once, below the sort: they may be drawn.
fn with_keys(sort: &Sort) -> Result<Option<Ordered>> {
    let below = sort.input.schema();
    // The planner lets elements of lists be ordered by what is no longer there.
    let is_there = |key: &SortExpr| {
        let columns = key.expr.column_refs();
        columns.into_iter().all(|column| below.has_column(column))
    };
    if !sort.expr.iter().all(is_there) {
        return Ok(None);
    }
    let (mut named, mut keys) = (Vec::new(), Vec::new());
    for (key, name) in sort.expr.iter().zip(free_names(below)) {
        named.push(key.expr.clone().alias(&name));
        keys.push(SortExpr {
            expr: Expr::Column(Column::new_unqualified(name)),
            ..key.clone()
        });
    }
    let columns = below.columns().into_iter().map(Expr::from);
    let exprs = columns.chain(named).collect();
    let rows = LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&sort.input))?);
    Ok(Some(Ordered {
        rows: LogicalPlan::Sort(Sort {
            expr: keys.clone(),
            input: Arc::new(rows),
            fetch: None,
        }),
        keys,
        is_filtered: false,
    }))
}

fn free_names(taken: &DFSchema) -> impl Iterator<Item = String> {
    let names = (0..).map(|number| format!("{KEYS}{number}"));
    names.filter(|name| !taken.has_column_with_unqualified_name(name))
}
