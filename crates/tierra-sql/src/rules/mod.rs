//! What SQL means that DataFusion's own rules do not say: numbers keep their digits, INSERT assigns
//! and does not convert, and an integer that overflows is an error.
//!
//! ```text
//! assignment, numbers, seconds --> DataFusion's type coercion --> microseconds, arithmetic, doubles --> optimiser
//! ```
//! The first three read a plan as it was written, before casts are added; the last three need its types
//! settled, and must see sums of constants before the optimiser folds them.

mod arithmetic;
mod assigned;
mod assignment;
mod csv_source;
mod doubles;
mod number;
mod numbers;

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use crate::time::{Microseconds, Seconds};

pub(crate) use assignment::{argument, name_of, shown};
pub(crate) use doubles::{CANONICAL, is_double, one_zero};
pub(crate) use number::{LONG_NUMBER, exactly, is_long, may_be_long};

/// A session whose statements mean what this module says.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = before_coercion();
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(Microseconds));
    rules.push(Arc::new(arithmetic::CheckArithmetic));
    rules.push(Arc::new(doubles::OneZero));
    *builder.analyzer() = Some(Analyzer::with_rules(rules));
    builder
        .expr_planners()
        .get_or_insert_with(Vec::new)
        .insert(0, Arc::new(numbers::ExactNumbers));
    builder
        .scalar_functions()
        .get_or_insert_with(Vec::new)
        .push(Arc::new(ScalarUDF::from(number::LongNumber::new())));
    builder
}

fn before_coercion() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(assignment::Assignment),
        Arc::new(numbers::ExactNumbers),
        Arc::new(Seconds),
    ]
}

/// Whether an expression of the node `plan` has a part that `is` so.
pub(crate) fn uses(plan: &LogicalPlan, is: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            found |= is(expr);
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })
    })?;
    Ok(found)
}

/// The plan of a statement to prepare: DataFusion optimises it before it is analysed, and would fold
/// constants that no rule has seen.
pub(crate) fn settle(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    let mut rules = before_coercion();
    rules.push(Arc::new(arithmetic::CheckArithmetic));
    rules
        .iter()
        .try_fold(plan, |plan, rule| rule.analyze(plan, config))
}
