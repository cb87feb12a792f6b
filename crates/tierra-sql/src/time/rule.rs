//! The rules that remove nanoseconds from a plan, and read integers as seconds.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue, internal_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TryCast, Union, Values, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::digits;
use super::lengths::is_interval;
use super::scaled::of_difference;
use crate::rules::{map_under_names, schema_below, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The function that the rule adds.
const MICROSECONDS: &str = "microseconds";

/// The function that EXTRACT calls. Its result is a number.
const DATE_PART: &str = "date_part";

/// The functions that make arrays of timestamps.
const SERIES: &[&str] = &["generate_series", "range"];

/// An integer cast to a TIMESTAMP counts seconds; a moment cast to one with fewer digits is rounded.
#[derive(Debug)]
pub(crate) struct Seconds;

impl AnalyzerRule for Seconds {
    fn name(&self) -> &str {
        "integers_are_seconds"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let as_seconds = |plan: LogicalPlan| match uses(&plan, is_cast)? {
            true => map_expressions(plan, as_seconds),
            false => Ok(Transformed::no(plan)),
        };
        transform_up_with_subqueries(plan, as_seconds).map(|settled| settled.data)
    }
}

/// After type coercion, nothing in the plan is in nanoseconds.
#[derive(Debug)]
pub(crate) struct Microseconds;

impl AnalyzerRule for Microseconds {
    fn name(&self) -> &str {
        "microseconds"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, settle_plan).map(|settled| settled.data)
    }
}

/// `plan` with its expressions as changed by `settle`, under their old names.
fn map_expressions(
    plan: LogicalPlan,
    settle: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = schema_below(&plan)?;
    map_under_names(plan, |expr| expr.transform_up(|expr| settle(expr, &schema)))
}

fn is_cast(expr: &Expr) -> bool {
    let (Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })) = expr else {
        return false;
    };
    matches!(field.data_type(), DataType::Timestamp(_, _))
}

fn as_seconds(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (argument, to) = match &expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            (expr, field.data_type())
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let DataType::Timestamp(unit, zone) = to else {
        return Ok(Transformed::no(expr));
    };
    let (inner, digits) = match argument.get_type(schema) {
        Ok(ty) if ty.is_integer() && *unit != TimeUnit::Second => (TimeUnit::Second, None),
        Ok(ty) if ty.is_floating() || ty.is_decimal() => {
            return plan_err!("a number is no TIMESTAMP: use to_timestamp, of seconds since 1970");
        }
        Ok(ty)
            if matches!(unit, TimeUnit::Second | TimeUnit::Millisecond)
                && (ty.is_string() || matches!(ty, DataType::Timestamp(_, _)))
                && !digits::is_rounded(argument) =>
        {
            (TimeUnit::Microsecond, Some(*unit))
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let inner = DataType::Timestamp(inner, zone.clone());
    let of_digits = |moment: Expr| match digits {
        Some(unit) => Box::new(digits::rounded(moment, unit)),
        None => Box::new(moment),
    };
    Ok(Transformed::yes(match expr {
        Expr::Cast(cast) => {
            let inner = of_digits(Expr::Cast(Cast::new(cast.expr, inner)));
            Expr::Cast(Cast::new_from_field(inner, cast.field))
        }
        Expr::TryCast(cast) => {
            let inner = of_digits(Expr::TryCast(TryCast::new(cast.expr, inner)));
            Expr::TryCast(TryCast::new_from_field(inner, cast.field))
        }
        other => other,
    }))
}

fn settle_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // Plain columns need no visit, and neither does a schema without nanoseconds.
    let settled = match uses(&plan, may_yield)? {
        true => map_expressions(plan, settle)?,
        false => Transformed::no(plan),
    };
    let is_stale = |field: &FieldRef| self::settled(field.data_type()).is_some();
    if !settled.transformed && !settled.data.schema().fields().iter().any(is_stale) {
        return Ok(settled);
    }
    settled.map_data(|plan| match plan {
        // These operators keep the schema that they were made with.
        LogicalPlan::Values(Values { schema, values }) => Ok(LogicalPlan::Values(Values {
            schema: settle_schema(schema)?,
            values,
        })),
        LogicalPlan::Union(Union { inputs, schema }) => Ok(LogicalPlan::Union(Union {
            inputs,
            schema: settle_schema(schema)?,
        })),
        plan => plan.recompute_schema(),
    })
}

/// Whether `expr` may be in nanoseconds although its parts are not.
fn may_yield(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(
            ScalarValue::TimestampNanosecond(_, _) | ScalarValue::DurationNanosecond(_),
            _,
        )
        | Expr::ScalarFunction(_) => true,
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            settled(field.data_type()).is_some() || is_interval(field.data_type())
        }
        _ => false,
    }
}

fn settle_schema(schema: DFSchemaRef) -> Result<DFSchemaRef> {
    if !schema
        .fields()
        .iter()
        .any(|field| settled(field.data_type()).is_some())
    {
        return Ok(schema);
    }
    let fields = schema.iter().map(|(qualifier, field)| {
        let field = settle_field(field).unwrap_or_else(|| Arc::clone(field));
        (qualifier.cloned(), field)
    });
    let fields = fields.collect();
    let settled = DFSchema::new_with_metadata(fields, schema.metadata().clone())?;
    let settled = settled.with_functional_dependencies(schema.functional_dependencies().clone())?;
    Ok(Arc::new(settled))
}

fn settle(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Literal(ScalarValue::TimestampNanosecond(value, zone), metadata) => {
            let value = value.map(floor);
            Transformed::yes(Expr::Literal(
                ScalarValue::TimestampMicrosecond(value, zone),
                metadata,
            ))
        }
        Expr::Literal(ScalarValue::DurationNanosecond(value), metadata) => {
            let value = ScalarValue::DurationMicrosecond(value.map(floor));
            Transformed::yes(Expr::Literal(value, metadata))
        }
        Expr::Cast(cast)
            if is_interval(cast.field.data_type())
                && matches!(cast.expr.get_type(schema), Ok(DataType::Duration(_))) =>
        {
            Transformed::yes(of_difference(*cast.expr))
        }
        Expr::Cast(cast) => match settle_field(&cast.field) {
            Some(field) => Transformed::yes(match cast.expr.get_type(schema) {
                Ok(ty) if ty == *field.data_type() => *cast.expr,
                _ => Expr::Cast(Cast::new_from_field(cast.expr, field)),
            }),
            None => Transformed::no(Expr::Cast(cast)),
        },
        Expr::TryCast(cast) => match settle_field(&cast.field) {
            Some(field) => {
                Transformed::yes(Expr::TryCast(TryCast::new_from_field(cast.expr, field)))
            }
            None => Transformed::no(Expr::TryCast(cast)),
        },
        Expr::ScalarFunction(call) if call.name() == MICROSECONDS => {
            Transformed::no(Expr::ScalarFunction(call))
        }
        // Of a difference it counts all hours, of an interval those after the days.
        Expr::ScalarFunction(mut call) if call.name() == DATE_PART => {
            match call.args.as_mut_slice() {
                [_, of] if matches!(of.get_type(schema)?, DataType::Duration(_)) => {
                    *of = of_difference(std::mem::take(of));
                    Transformed::yes(Expr::ScalarFunction(call))
                }
                _ => Transformed::no(Expr::ScalarFunction(call)),
            }
        }
        // These count nanoseconds, and return NULL for timestamps outside their range.
        Expr::ScalarFunction(call) if SERIES.contains(&call.name()) => {
            let (series, ty) = series(call, schema)?;
            match settled(&ty) {
                Some(to) => Transformed::yes(cut(series, &ty, to)),
                None => Transformed::no(series),
            }
        }
        Expr::ScalarFunction(_) => {
            let ty = expr.get_type(schema)?;
            match settled(&ty) {
                Some(to) => Transformed::yes(cut(expr, &ty, to)),
                None => Transformed::no(expr),
            }
        }
        other => Transformed::no(other),
    })
}

/// A call of [`SERIES`] whose timestamps are cast to nanoseconds, and its type. A timestamp out of range is an error.
fn series(mut call: ScalarFunction, schema: &DFSchema) -> Result<(Expr, DataType)> {
    for arg in &mut call.args {
        if let DataType::Timestamp(TimeUnit::Microsecond, zone) = arg.get_type(schema)? {
            let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, zone);
            *arg = Expr::Cast(Cast::new(Box::new(arg.clone()), nanoseconds));
        }
    }
    let call = Expr::ScalarFunction(call);
    let ty = call.get_type(schema)?;
    Ok((call, ty))
}

/// `expr`, whose type has nanoseconds, as a value of type `to`.
fn cut(expr: Expr, from: &DataType, to: DataType) -> Expr {
    match from {
        DataType::Timestamp(_, _) => Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(microseconds()),
            vec![expr],
        )),
        _ => Expr::Cast(Cast::new(Box::new(expr), to)),
    }
}

/// The type with microseconds for one with nanoseconds, also within arrays.
pub(crate) fn settled(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Duration(TimeUnit::Nanosecond) => DataType::Duration(TimeUnit::Microsecond),
        DataType::List(item) => DataType::List(settle_field(item)?),
        DataType::LargeList(item) => DataType::LargeList(settle_field(item)?),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(settle_field(item)?, *size),
        DataType::Struct(fields) => {
            let is_settled = fields
                .iter()
                .all(|field| settled(field.data_type()).is_none());
            let fields = fields
                .iter()
                .map(|field| settle_field(field).unwrap_or_else(|| Arc::clone(field)));
            match is_settled {
                true => return None,
                false => DataType::Struct(fields.collect::<Fields>()),
            }
        }
        _ => return None,
    })
}

fn settle_field(field: &FieldRef) -> Option<FieldRef> {
    let ty = settled(field.data_type())?;
    Some(Arc::new(Field::clone(field).with_data_type(ty)))
}

/// The microsecond that contains a nanosecond, rounded down also before 1970.
fn floor(nanoseconds: i64) -> i64 {
    nanoseconds.div_euclid(1_000)
}

/// The function [`Floor`].
pub(crate) fn microseconds() -> ScalarUDF {
    ScalarUDF::from(Floor::new())
}

/// A timestamp in nanoseconds, rounded down to microseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Floor {
    signature: Signature,
}

impl Floor {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Floor {
    fn name(&self) -> &str {
        MICROSECONDS
    }

    /// The name of its argument.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value] => Ok(value.schema_name().to_string()),
            _ => internal_err!("{MICROSECONDS} takes one argument"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(settled(&types[0]).unwrap_or_else(|| types[0].clone()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = &args.arg_fields[0];
        let ty = self.return_type(&[value.data_type().clone()])?;
        Ok(Arc::new(Field::new(self.name(), ty, value.is_nullable())))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        let ty = inputs[0].data_type();
        Interval::make_unbounded(&settled(&ty).unwrap_or(ty))
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        Ok(input[0].sort_properties)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] =
            <[ColumnarValue; 1]>::try_from(args.args).or_else(|_| internal_err!("one argument"))?;
        Ok(match value {
            ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(value, zone)) => {
                ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(value.map(floor), zone))
            }
            ColumnarValue::Array(values) => match values.data_type().clone() {
                DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                    let values = values.as_primitive::<TimestampNanosecondType>();
                    let values: PrimitiveArray<TimestampMicrosecondType> = values.unary(floor);
                    ColumnarValue::Array(Arc::new(values.with_timezone_opt(zone)))
                }
                // The optimiser may have reached the same result in another way.
                _ => ColumnarValue::Array(values),
            },
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_nanoseconds_are_found_within_others() {
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let list = DataType::List(Arc::new(Field::new_list_field(nanoseconds, true)));
        let Some(DataType::List(item)) = settled(&list) else {
            panic!("{list}")
        };
        assert_eq!(
            *item.data_type(),
            DataType::Timestamp(TimeUnit::Microsecond, None)
        );
        assert_eq!(settled(item.data_type()), None);
    }

    #[test]
    fn nanoseconds_before_1970_lie_in_the_microsecond_before() {
        assert_eq!([floor(-1), floor(-1_000), floor(1_999)], [-1, -1, 1]);
    }
}
