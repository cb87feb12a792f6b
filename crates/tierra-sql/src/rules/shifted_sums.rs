//! Sums of `x + c`, `x - c` and `c - x` with different constants are made of one sum of x.
//!
//! ```text
//! Aggregate: sum(x) AS a, sum(x + 1) AS b, sum(7 - x) AS c, max(y)
//!
//! Projection: 1 * t + 0 * n AS a, 1 * t + 1 * n AS b, -1 * t + 7 * n AS c, max(y)
//!   Aggregate: exact_sum(x) AS t, count(x) AS n, max(y)
//! ```
//! The sum of x is exact, in 128 bits, because it may not fit a BIGINT where the sums that are asked for do. So each result
//! is exact, or the error of a sum that does not fit. `x + c` is not computed, and a value that would overflow is no error
//! here: the sum is right without it.
//!
//! A single sum of `x + c` stays as it is. With groups, two aggregates would cost more than one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, internal_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::logical_plan::{Aggregate, Projection};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;

use super::arithmetic::Shift;
use super::plan::EachNode;
use crate::exact_sum::{EXACT, ExactSum};
use crate::sum::{self, CheckedSum};

/// DataFusion's rule before which this one runs: it moves equal expressions below the aggregation.
pub(super) const BEFORE: &str = "common_sub_expression_eliminate";

/// The rule.
pub(super) const RULE: EachNode = EachNode {
    name: "shifted_sums",
    order: ApplyOrder::TopDown,
    rewrite,
};

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else {
        return Ok(Transformed::no(plan));
    };
    match of_shared_sums(aggregate)? {
        Some(rewritten) => Ok(Transformed::yes(rewritten)),
        None => Ok(Transformed::no(plan)),
    }
}

fn of_shared_sums(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    // DataFusion computes DISTINCT aggregates by groups only beside functions that it knows.
    if aggregate.aggr_expr.iter().any(is_distinct) {
        return Ok(None);
    }
    let below = aggregate.input.schema();
    let sums = aggregate.aggr_expr.iter().map(|expr| Sum::of(expr, below));
    let sums: Vec<Option<Sum>> = sums.collect();
    let mut shared: HashMap<Summed, (usize, bool)> = HashMap::new();
    for sum in sums.iter().flatten() {
        let (count, is_shifted) = shared.entry(sum.of).or_default();
        *count += 1;
        *is_shifted |= sum.is_shifted();
    }
    shared.retain(|_, (count, is_shifted)| *count > 1 && *is_shifted);
    if shared.is_empty() {
        return Ok(None);
    }

    let schema = &aggregate.schema;
    let keys = schema.fields().len() - aggregate.aggr_expr.len();
    let mut names: HashSet<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
    let mut made: HashMap<Summed, [Column; 2]> = HashMap::new();
    let mut aggregates = Vec::new();
    let column = |place: usize| Expr::Column(Column::from(schema.qualified_field(place)));
    let mut output: Vec<Expr> = (0..keys).map(column).collect();
    for (place, (expr, sum)) in aggregate.aggr_expr.iter().zip(&sums).enumerate() {
        let Some(sum) = sum.as_ref().filter(|sum| shared.contains_key(&sum.of)) else {
            aggregates.push(expr.clone());
            output.push(column(keys + place));
            continue;
        };
        let [total, count] = made.entry(sum.of).or_insert_with(|| {
            let exact_sum = Arc::new(AggregateUDF::from(ExactSum::default()));
            [exact_sum, count_udaf()].map(|func| {
                let call = sum.of.aggregated_by(func);
                let name = free_name(call.schema_name().to_string(), &mut names);
                aggregates.push(call.alias(&name));
                Column::new_unqualified(name)
            })
        });
        let (qualifier, field) = schema.qualified_field(keys + place);
        let shifted = ShiftedSum::new(sum, field.name());
        let operands = [total, count].map(|column| Expr::Column(column.clone()));
        let shifted = ScalarFunction::new_udf(Arc::new(shifted.into()), operands.to_vec());
        output
            .push(Expr::ScalarFunction(shifted).alias_qualified(qualifier.cloned(), field.name()));
    }
    let input = Arc::clone(&aggregate.input);
    let aggregate = Aggregate::try_new(input, aggregate.group_expr.clone(), aggregates)?;
    let projection = Projection::try_new(output, Arc::new(LogicalPlan::Aggregate(aggregate)))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}

fn is_distinct(expr: &Expr) -> bool {
    matches!(unaliased(expr), Expr::AggregateFunction(call) if call.params.distinct)
}

pub(super) fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        expr => expr,
    }
}

/// `name`, or a longer one that is not taken. It is taken then.
fn free_name(mut name: String, taken: &mut HashSet<String>) -> String {
    while !taken.insert(name.clone()) {
        name.push('\'');
    }
    name
}

/// What is summed: x, of the rows that pass a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Summed<'a> {
    x: &'a Expr,
    filter: Option<&'a Expr>,
}

impl Summed<'_> {
    fn aggregated_by(&self, func: Arc<AggregateUDF>) -> Expr {
        let filter = self.filter.map(|filter| Box::new(filter.clone()));
        let args = vec![self.x.clone()];
        let call = AggregateFunction::new_udf(func, args, false, filter, Vec::new(), None);
        Expr::AggregateFunction(call)
    }
}

/// A sum of `x + constant`, or of `constant - x`.
struct Sum<'a> {
    of: Summed<'a>,
    constant: i128,
    is_negated: bool,
}

impl<'a> Sum<'a> {
    /// `None` if `expr` is not a sum of integers.
    fn of(expr: &'a Expr, schema: &DFSchema) -> Option<Self> {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = unaliased(expr) else {
            return None;
        };
        func.inner().downcast_ref::<CheckedSum>()?;
        let [argument] = params.args.as_slice() else {
            return None;
        };
        if params.distinct || !params.order_by.is_empty() {
            return None;
        }
        let (mut x, mut constant, mut is_negated) = (argument, 0_i128, false);
        loop {
            x = match x {
                Expr::ScalarFunction(call) => {
                    let Some(shift) = Shift::of(call) else { break };
                    let by = i128::from(shift.constant);
                    constant = constant.checked_add(if is_negated { -by } else { by })?;
                    is_negated ^= shift.is_negated;
                    shift.of
                }
                // It loses nothing.
                Expr::Cast(cast)
                    if *cast.field.data_type() == DataType::Int64
                        && cast.expr.get_type(schema).ok()? == DataType::Int32 =>
                {
                    &cast.expr
                }
                _ => break,
            }
        }
        let ty = x.get_type(schema).ok()?;
        let filter = params.filter.as_deref();
        let is_integer = matches!(ty, DataType::Int32 | DataType::Int64);
        // Each call of a volatile function has its own values.
        let is_volatile = x.is_volatile() || filter.is_some_and(Expr::is_volatile);
        (is_integer && !is_volatile).then_some(Self {
            of: Summed { x, filter },
            constant,
            is_negated,
        })
    }

    fn is_shifted(&self) -> bool {
        self.constant != 0 || self.is_negated
    }
}

/// `factor * total + constant * count` as a BIGINT, of an exact sum and the number of values in it. NULL if there is none.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ShiftedSum {
    /// The aggregate that it stands for, for messages.
    sum: String,
    factor: i128,
    constant: i128,
    signature: Signature,
}

impl ShiftedSum {
    fn new(sum: &Sum, name: &str) -> Self {
        Self {
            sum: name.to_string(),
            factor: if sum.is_negated { -1 } else { 1 },
            constant: sum.constant,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }

    fn shifted(&self, total: i128, count: i64) -> Result<i64> {
        let shift = self.constant.checked_mul(i128::from(count));
        let total = total.checked_mul(self.factor).zip(shift);
        let sum = total.and_then(|(total, shift)| total.checked_add(shift));
        match sum.and_then(|sum| i64::try_from(sum).ok()) {
            Some(sum) => Ok(sum),
            None => sum::overflow(&self.sum, &DataType::Int64),
        }
    }
}

impl ScalarUDFImpl for ShiftedSum {
    fn name(&self) -> &str {
        "shifted_sum"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [total, count] = args else {
            return internal_err!("{} takes a sum and a count", self.name());
        };
        let (total, count) = (total.schema_name(), count.schema_name());
        let Self {
            factor, constant, ..
        } = self;
        Ok(format!("{factor} * {total} + {constant} * {count}"))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [total, count] = args.args.as_slice() else {
            return internal_err!("{} takes a sum and a count", self.name());
        };
        // The optimiser tries functions with NULLs that have no type.
        let totals = total.cast_to(&EXACT, None)?.to_array(args.number_rows)?;
        let counts = count.cast_to(&DataType::Int64, None)?;
        let counts = counts.to_array(args.number_rows)?;
        let totals = totals.as_primitive::<Decimal128Type>().iter();
        let sums = totals
            .zip(counts.as_primitive::<Int64Type>())
            .map(|sum| match sum {
                (Some(total), Some(count)) => self.shifted(total, count).map(Some),
                _ => Ok(None),
            });
        let sums = sums.collect::<Result<Int64Array>>()?;
        Ok(ColumnarValue::Array(Arc::new(sums)))
    }
}
