//! Aggregates that order their values themselves, whichever way rows come and whatever order others ask for.
//!
//! - Where rows come in the opposite order, DataFusion gave `array_agg(DISTINCT x ORDER BY x)` and `string_agg` of DISTINCT the opposite one,
//!   and counted an nth value from the other end. `(array_agg(x ORDER BY y))[3]`, an nth value as well, then was a value of another row.
//! - It refused `string_agg` and nth values beside others with another order, though `string_agg` sorts what it holds.
//!
//! So these functions are their own reverse, an nth value is one of an `array_agg`, and none insists on the order of its input.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{ScalarValue, internal_err, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::{ArrayAgg, array_agg_udaf};
use datafusion::functions_aggregate::nth_value::NthValueAgg;
use datafusion::functions_aggregate::string_agg::StringAgg;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, LogicalPlan, ReversedUDAF, Signature,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_plan::expressions::Literal;

use super::plan::uses;
use crate::tree::{TreeNode, map_expressions, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct OrderThemselves;

impl AnalyzerRule for OrderThemselves {
    fn name(&self) -> &str {
        "self_ordered"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = transform_up_with_subqueries(plan, |plan| {
            if !uses(&plan, is_ordered)? {
                return Ok(Transformed::no(plan));
            }
            map_expressions(plan, |expr| {
                expr.transform_up(|expr| Ok(self_ordered(expr)))
            })
        });
        rewritten.data()
    }
}

fn is_ordered(expr: &Expr) -> bool {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
        return false;
    };
    let inner = func.inner();
    !params.order_by.is_empty()
        && (inner.is::<NthValueAgg>()
            || inner.is::<StringAgg>()
            || inner.is::<ArrayAgg>() && params.distinct)
}

fn self_ordered(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(call) if is_ordered(&Expr::AggregateFunction(call.clone())) => {
            let func = Arc::new(AggregateUDF::from(SelfOrdered {
                inner: call.func,
                is_distinct: call.params.distinct,
            }));
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, ..call }))
        }
        other => Transformed::no(other),
    }
}

/// DataFusion's function, which takes rows in any order.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SelfOrdered {
    inner: Arc<AggregateUDF>,
    is_distinct: bool,
}

impl AggregateUDFImpl for SelfOrdered {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.inner.inner().is::<NthValueAgg>() {
            true => Ok(Box::new(Nth::new(arguments)?)),
            false => self.inner.accumulator(arguments),
        }
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        match self.inner.inner().is::<NthValueAgg>() {
            true => array_agg_udaf().state_fields(arguments),
            false => self.inner.state_fields(arguments),
        }
    }

    /// Distinct values are sorted when they are known. Others are sorted sooner if rows come in their order.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.is_distinct {
            true => AggregateOrderSensitivity::Beneficial,
            false => AggregateOrderSensitivity::SoftRequirement,
        }
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _is_ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        // Of a function without a reverse DataFusion forgets the order that it asks for.
        ReversedUDAF::Identical
    }
}

/// The nth of ordered values, from the end if n is negative.
#[derive(Debug)]
struct Nth {
    values: Box<dyn Accumulator>,
    n: i64,
}

impl Nth {
    fn new(arguments: AccumulatorArgs<'_>) -> Result<Self> {
        let (Some(value), Some(n)) = (
            arguments.expr_fields.first(),
            arguments
                .exprs
                .get(1)
                .and_then(|n| n.downcast_ref::<Literal>()),
        ) else {
            return not_impl_err!("nth_value of a number that is not constant");
        };
        let ScalarValue::Int64(Some(n)) = n.value().cast_to(&DataType::Int64)? else {
            return not_impl_err!("nth_value of the number NULL");
        };
        let list = DataType::new_list(value.data_type().clone(), true);
        let values = array_agg_udaf().accumulator(AccumulatorArgs {
            return_field: Arc::new(Field::new("values", list, true)),
            exprs: &arguments.exprs[..1],
            expr_fields: &arguments.expr_fields[..1],
            ..arguments
        })?;
        Ok(Self { values, n })
    }
}

impl Accumulator for Nth {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        // The number stands between the value and the keys.
        let [value, _, keys @ ..] = columns else {
            return internal_err!("nth_value takes a value and a constant");
        };
        let columns: Vec<ArrayRef> = std::iter::once(value).chain(keys).cloned().collect();
        self.values.update_batch(&columns)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::List(list) = self.values.evaluate()? else {
            return internal_err!("array_agg is no list");
        };
        let values = list.value(0);
        let count = values.len() as i64;
        let place = match self.n {
            n if n > 0 => n - 1,
            n => count.saturating_add(n),
        };
        match self.n != 0 && (0..count).contains(&place) {
            true => ScalarValue::try_from_array(&values, place as usize),
            false => ScalarValue::try_from(values.data_type()),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}
