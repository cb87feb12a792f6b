//! Computed doubles have one zero and one NaN.
//!
//! Arrow compares doubles bit by bit: -0.0 is less than 0.0, and a NaN with its sign set, as processors make them, is less
//! than all numbers. Tables store neither. Here each expression that may yield one passes through [`Canonical`]: arithmetic,
//! functions, casts, aggregates, and values of [files](crate::foreign). So joins, lists, groups, orders and windows agree.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use tierra_engine::canonical_double;

use super::plan::{map_under_names, schema_below, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The function that the rule adds.
pub(crate) const CANONICAL: &str = "one_zero";

/// Functions and aggregates that return one of their arguments.
const HAND_ON: &[&str] = &[
    "coalesce",
    "nullif",
    "nvl",
    "nvl2",
    "greatest",
    "least",
    "abs",
    "min",
    "max",
    "first_value",
    "last_value",
    "nth_value",
    "lead",
    "lag",
];

/// The rule.
#[derive(Debug)]
pub(super) struct OneZero;

impl AnalyzerRule for OneZero {
    fn name(&self) -> &str {
        "one_zero"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, settle_plan).map(|settled| settled.data)
    }
}

fn settle_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, may_compute)? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    let settled = map_under_names(plan, |expr| {
        expr.transform_up(|expr| Ok(settle(expr, &schema)))
    })?;
    let computes = match &settled.data {
        LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
        LogicalPlan::Window(window) => &window.window_expr,
        _ => return Ok(settled),
    };
    let computed: Vec<bool> = computes.iter().map(computes_anew).collect();
    let handed_on = settled.data.schema().fields().len() - computed.len();
    let was_transformed = settled.transformed;
    settle_output(settled.data, |place| {
        place >= handed_on && computed[place - handed_on]
    })
    .map(|mut output| {
        output.transformed |= was_transformed;
        output
    })
}

/// `plan` with [`Canonical`] around the doubles for which `may_differ`.
fn settle_output(
    plan: LogicalPlan,
    may_differ: impl Fn(usize) -> bool,
) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(plan.schema());
    let settles = |place: usize| is_double(schema.field(place).data_type()) && may_differ(place);
    let places = 0..schema.fields().len();
    if !places.clone().any(settles) {
        return Ok(Transformed::no(plan));
    }
    let exprs = places.map(|place| {
        let (qualifier, field) = schema.qualified_field(place);
        let column = Expr::Column(Column::from((qualifier, field)));
        match settles(place) {
            true => canonical(column).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let projection = Projection::try_new(exprs.collect(), Arc::new(plan))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Whether an aggregate or window function yields values that are not among its arguments.
fn computes_anew(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => computes_anew(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, .. }) => !HAND_ON.contains(&func.name()),
        Expr::WindowFunction(function) => {
            let WindowFunction { fun, .. } = function.as_ref();
            !HAND_ON.contains(&fun.name())
        }
        _ => true,
    }
}

/// Whether `expr`, if it is a double, may differ in form from its parts.
fn may_compute(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float32(_) | ScalarValue::Float64(_), _) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_arithmetic(*op),
        Expr::ScalarFunction(call) => call.name() != CANONICAL && !HAND_ON.contains(&call.name()),
        Expr::Negative(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_) => true,
        _ => false,
    }
}

fn settle(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_computed = match &expr {
        Expr::Literal(value, _) => return settle_literal(expr.clone(), value),
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => false,
        Expr::Cast(_) | Expr::TryCast(_) => !casts_whole(&expr, schema),
        other => may_compute(other),
    };
    if !is_computed || !expr.get_type(schema).is_ok_and(|ty| is_double(&ty)) {
        return Transformed::no(expr);
    }
    Transformed::yes(canonical(match expr {
        // Arithmetic accepts either zero as an operand, except as a divisor.
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => Expr::BinaryExpr(BinaryExpr {
            left: Box::new(bare(*left)),
            op,
            right: match op {
                Operator::Plus | Operator::Minus | Operator::Multiply => Box::new(bare(*right)),
                _ => right,
            },
        }),
        Expr::Negative(inner) => Expr::Negative(Box::new(bare(*inner))),
        other => other,
    }))
}

fn settle_literal(expr: Expr, value: &ScalarValue) -> Transformed<Expr> {
    let Expr::Literal(_, metadata) = &expr else {
        return Transformed::no(expr);
    };
    let settled = match value {
        ScalarValue::Float64(Some(value)) => Float64Type::canonical(*value).into(),
        ScalarValue::Float32(Some(value)) => Float32Type::canonical(*value).into(),
        _ => return Transformed::no(expr),
    };
    Transformed::yes(Expr::Literal(settled, metadata.clone()))
}

fn is_arithmetic(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// Whether the argument of a cast has neither a signed zero nor NaN.
fn casts_whole(expr: &Expr, schema: &DFSchema) -> bool {
    let (Expr::Cast(datafusion::logical_expr::Cast { expr, .. })
    | Expr::TryCast(datafusion::logical_expr::TryCast { expr, .. })) = expr
    else {
        return false;
    };
    expr.get_type(schema)
        .is_ok_and(|ty| ty.is_integer() || ty.is_decimal() || ty.is_null())
}

/// The function [`Canonical`].
pub(crate) fn one_zero() -> ScalarUDF {
    ScalarUDF::from(Canonical::new())
}

pub(crate) fn is_double(ty: &DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float64)
}

fn canonical(expr: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(one_zero()), vec![expr]))
}

/// `expr` without the function that the rule added.
fn bare(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut call) if call.name() == CANONICAL && call.args.len() == 1 => {
            call.args.remove(0)
        }
        other => other,
    }
}

/// A double as tables store it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Canonical {
    signature: Signature,
}

impl Canonical {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

trait Double: ArrowPrimitiveType + Sized {
    fn canonical(value: Self::Native) -> Self::Native;

    fn canonical_values(values: &ArrayRef) -> ArrayRef {
        let values: &PrimitiveArray<Self> = values.as_primitive();
        Arc::new(values.unary::<_, Self>(Self::canonical))
    }
}

impl Double for Float64Type {
    #[inline]
    fn canonical(value: f64) -> f64 {
        canonical_double(value)
    }
}

impl Double for Float32Type {
    #[inline]
    fn canonical(value: f32) -> f32 {
        match value.is_nan() {
            true => f32::NAN,
            false => value + 0.0,
        }
    }
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        CANONICAL
    }

    /// The name of its argument.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value] => Ok(value.schema_name().to_string()),
            _ => internal_err!("{CANONICAL} takes one argument"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = &args.arg_fields[0];
        let field = Field::new(self.name(), value.data_type().clone(), value.is_nullable());
        Ok(Arc::new(field))
    }

    /// An interval of the result's type. With an untyped one, enclosing functions could not derive the order of their results.
    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match inputs[0].data_type() {
            ty if ty.is_floating() => Interval::make_unbounded(&ty),
            // The argument has no computed bounds.
            _ => Interval::make_unbounded(&DataType::Float64),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("{CANONICAL} takes one argument");
        };
        Ok(match value {
            ColumnarValue::Scalar(ScalarValue::Float64(value)) => {
                ColumnarValue::Scalar(ScalarValue::Float64(value.map(Float64Type::canonical)))
            }
            ColumnarValue::Scalar(ScalarValue::Float32(value)) => {
                ColumnarValue::Scalar(ScalarValue::Float32(value.map(Float32Type::canonical)))
            }
            ColumnarValue::Array(values) => ColumnarValue::Array(match values.data_type() {
                DataType::Float64 => Float64Type::canonical_values(values),
                DataType::Float32 => Float32Type::canonical_values(values),
                _ => return internal_err!("{CANONICAL} of {}", values.data_type()),
            }),
            ColumnarValue::Scalar(other) => return internal_err!("{CANONICAL} of {other:?}"),
        })
    }
}
