//! Keys of windows and of ordered aggregates that compute become columns: `rank() OVER (ORDER BY length(s) > 3)` was an internal error.
//!
//! DataFusion gives the result of a function a range without a type, and cannot compare or add such ranges. It then takes the rows that
//! it has just sorted by such a key for rows in no order. A column has no such trouble, and is computed once for the sort and what needs it.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use super::computed::free;
use super::plan::map_under_names;
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn name(&self) -> &str {
        "computed_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let input = match &plan {
        LogicalPlan::Window(window) => Arc::clone(&window.input),
        LogicalPlan::Aggregate(aggregate) => Arc::clone(&aggregate.input),
        _ => return Ok(Transformed::no(plan)),
    };
    let mut columns = Columns {
        schema: input.schema(),
        keys: Vec::new(),
    };
    let before = plan.schema().columns().into_iter().map(Expr::from);
    let before: Vec<Expr> = before.collect();
    let rewritten = map_under_names(plan, |expr| {
        expr.transform_down(|mut expr| {
            let is_changed = match &mut expr {
                Expr::WindowFunction(function) => {
                    let params = &mut function.params;
                    let ordered = params.order_by.iter_mut().map(|key| &mut key.expr);
                    columns.replace(params.partition_by.iter_mut().chain(ordered))
                }
                Expr::AggregateFunction(function) => {
                    let params = &mut function.params;
                    // DISTINCT values are ordered by themselves alone: as columns too.
                    let of_values = |value: &Expr| {
                        let mut keys = params.order_by.iter();
                        params.distinct && keys.any(|key| key.expr == *value)
                    };
                    let values: Vec<bool> = params.args.iter().map(of_values).collect();
                    let values = params.args.iter_mut().zip(values);
                    let values = values.filter_map(|(value, is_key)| is_key.then_some(value));
                    let ordered = params.order_by.iter_mut().map(|key| &mut key.expr);
                    columns.replace(values.chain(ordered))
                }
                _ => return Ok(Transformed::no(expr)),
            };
            Ok(Transformed::new(expr, is_changed, TreeNodeRecursion::Jump))
        })
    })?;
    let keys = columns.keys;
    if keys.is_empty() {
        return Ok(Transformed::no(rewritten.data));
    }
    let kept = input.schema().columns().into_iter().map(Expr::from);
    let keys = keys.into_iter().enumerate();
    let keys = keys.map(|(place, key)| key.alias(free(input.schema(), place).name));
    let below = LogicalPlanBuilder::from(input.as_ref().clone())
        .project(kept.chain(keys).collect::<Vec<_>>())?
        .build()?;
    let exprs = rewritten.data.expressions();
    let plan = rewritten.data.with_new_exprs(exprs, vec![below])?;
    Ok(Transformed::yes(match plan {
        LogicalPlan::Window(_) => LogicalPlanBuilder::from(plan).project(before)?.build()?,
        plan => plan,
    }))
}

/// The keys that become columns behind those of a schema.
struct Columns<'a> {
    schema: &'a DFSchema,
    keys: Vec<Expr>,
}

impl Columns<'_> {
    /// Puts a column in place of each key that computes. Whether there is one.
    fn replace<'k>(&mut self, keys: impl Iterator<Item = &'k mut Expr>) -> bool {
        let mut is_changed = false;
        for key in keys.filter(|key| computes(key)) {
            let place = self.keys.iter().position(|known| known == key);
            let place = place.unwrap_or_else(|| {
                self.keys.push(key.clone());
                self.keys.len() - 1
            });
            *key = Expr::Column(free(self.schema, place));
            is_changed = true;
        }
        is_changed
    }
}

/// Whether a key is more than a column, a function or a cast of one, and has no subquery, which becomes a column itself.
fn computes(key: &Expr) -> bool {
    let (mut computes, mut has_subquery) = (false, false);
    let applied = key.apply(|expr| {
        has_subquery |= matches!(
            expr,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
        );
        computes |= matches!(
            expr,
            Expr::BinaryExpr(_)
                | Expr::Negative(_)
                | Expr::Not(_)
                | Expr::Between(_)
                | Expr::InList(_)
                | Expr::Like(_)
        );
        Ok(TreeNodeRecursion::Continue)
    });
    applied.is_ok() && computes && !has_subquery
}
