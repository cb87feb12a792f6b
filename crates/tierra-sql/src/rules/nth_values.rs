//! An nth value is always counted from the same end.
//!
//! Where rows come in the opposite order, DataFusion counts from the other end. `(array_agg(x ORDER BY y))[3]`, an nth value as well, then
//! gave its partial results in that order to a merge that took them for ordered as they were asked for, and was a value of another
//! row. So the function is its own reverse.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::nth_value::NthValueAgg;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, ReversedUDAF, Signature,
};
use datafusion::optimizer::AnalyzerRule;

use super::plan::uses;

/// The rule.
#[derive(Debug)]
pub(super) struct FromOneEnd;

impl AnalyzerRule for FromOneEnd {
    fn name(&self) -> &str {
        "nth_values_from_one_end"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            if !uses(&plan, is_reversible)? {
                return Ok(Transformed::no(plan));
            }
            plan.map_expressions(|expr| expr.transform_up(|expr| Ok(from_one_end(expr))))
        });
        rewritten.data()
    }
}

fn is_reversible(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if call.func.inner().is::<NthValueAgg>())
}

fn from_one_end(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(call) if call.func.inner().is::<NthValueAgg>() => {
            let func = Arc::new(AggregateUDF::from(NthValue(call.func)));
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, ..call }))
        }
        other => Transformed::no(other),
    }
}

/// DataFusion's function, which asks for the same order whichever way rows come.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NthValue(Arc<AggregateUDF>);

impl AggregateUDFImpl for NthValue {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        // Of a function without a reverse DataFusion forgets the order that it asks for.
        ReversedUDAF::Identical
    }
}
