//! What becomes of a row of MERGE or ON CONFLICT is decided once.
//!
//! ```text
//! Projection: row, CASE conditions .. AS action, CASE tierra_action() WHEN 1 THEN .. AS value 0, ..
//!     becomes
//! Projection: row, action, CASE action WHEN 1 THEN .. AS value 0, ..
//!   Projection: all columns, CASE conditions .. AS action
//! ```
//! A condition with `random()` is true once and false the next time. If every column asked for itself, a row would get values
//! of one clause and NULLs of another.
//!
//! Invariant: the upper projection uses the action more than once, so DataFusion does not put its expression in its place.

use std::sync::Arc;

use crate::tree::TreeNode;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

/// The function that stands for the action.
pub(crate) const ACTION: &str = "tierra_action";
/// The place of the action in the select list.
const PLACE: usize = 1;

/// The function [`ACTION`], which is never called: the rule replaces it by a column.
pub(crate) fn action() -> ScalarUDF {
    ScalarUDF::from(Action {
        signature: Signature::nullary(Volatility::Volatile),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Action {
    signature: Signature,
}

impl ScalarUDFImpl for Action {
    fn name(&self) -> &str {
        ACTION
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("the action of a row was not computed before its values")
    }
}

/// The rule.
#[derive(Debug)]
pub(super) struct ActionOnce;

impl AnalyzerRule for ActionOnce {
    fn name(&self) -> &str {
        "action_once"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down(|plan| match plan {
            LogicalPlan::Projection(projection) if projection.expr.iter().any(uses_action) => {
                let computed = LogicalPlan::Projection(computed_below(projection)?);
                Ok(Transformed::yes(computed))
            }
            plan => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// `projection` above one that computes its action.
fn computed_below(projection: Projection) -> Result<Projection> {
    let Projection {
        mut expr, input, ..
    } = projection;
    if expr.len() <= PLACE {
        return internal_err!("no action among {} columns", expr.len());
    }
    let mut name = "action".to_string();
    while input.schema().has_column_with_unqualified_name(&name) {
        name.push('\'');
    }
    let output = expr[PLACE].qualified_name().1;
    let column = Expr::Column(Column::new_unqualified(name.clone()));
    let decided = std::mem::replace(&mut expr[PLACE], column.clone().alias(output));
    let mut below: Vec<Expr> = input
        .schema()
        .columns()
        .into_iter()
        .map(Expr::from)
        .collect();
    below.push(decided.unalias().alias(name));
    let below = LogicalPlan::Projection(Projection::try_new(below, input)?);
    let above = expr.into_iter().map(|expr| {
        let replaced = expr.transform_up(|expr| match is_action(&expr) {
            true => Ok(Transformed::yes(column.clone())),
            false => Ok(Transformed::no(expr)),
        });
        replaced.data()
    });
    Projection::try_new(above.collect::<Result<_>>()?, Arc::new(below))
}

fn uses_action(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_action(expr))).unwrap_or(true)
}

fn is_action(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().is::<Action>(),
        _ => false,
    }
}
