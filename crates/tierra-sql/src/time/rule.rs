//! The rules that leave no nanoseconds in a plan, and read integers as seconds.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TryCast, Union, Values, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::rules::is_foreign;

/// The function that the rule adds.
const MICROSECONDS: &str = "microseconds";

/// An integer that is cast to a TIMESTAMP counts seconds.
#[derive(Debug)]
pub(crate) struct Seconds;

impl AnalyzerRule for Seconds {
    fn name(&self) -> &str {
        "integers_are_seconds"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| map_expressions(plan, as_seconds))
            .map(|settled| settled.data)
    }
}

/// Nothing behind type coercion is of nanoseconds.
#[derive(Debug)]
pub(crate) struct Microseconds;

impl AnalyzerRule for Microseconds {
    fn name(&self) -> &str {
        "microseconds"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(settle_plan)
            .map(|settled| settled.data)
    }
}

/// `plan` with its expressions as `settle` makes them, under the names they had.
fn map_expressions(
    plan: LogicalPlan,
    settle: fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::Join(join) = &plan {
        schema.merge(&join.schema);
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        expr.transform_up(|expr| settle(expr, &schema))
            .map(|settled| settled.update_data(|expr| name.restore(expr)))
    })
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
    if *unit == TimeUnit::Second || !argument.get_type(schema).is_ok_and(|ty| ty.is_integer()) {
        return Ok(Transformed::no(expr));
    }
    let seconds = DataType::Timestamp(TimeUnit::Second, zone.clone());
    Ok(Transformed::yes(match expr {
        Expr::Cast(cast) => {
            let inner = Cast::new(cast.expr, seconds);
            Expr::Cast(Cast::new_from_field(
                Box::new(Expr::Cast(inner)),
                cast.field,
            ))
        }
        Expr::TryCast(cast) => {
            let inner = TryCast::new(cast.expr, seconds);
            Expr::TryCast(TryCast::new_from_field(
                Box::new(Expr::TryCast(inner)),
                cast.field,
            ))
        }
        other => other,
    }))
}

fn settle_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::TableScan(scan) = &plan {
        return match is_foreign(scan) {
            true => settle_columns(plan),
            false => Ok(Transformed::no(plan)),
        };
    }
    let settled = map_expressions(plan, settle)?;
    settled.map_data(|plan| match plan {
        // These keep the schema that they were made with.
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

/// `plan`, with its columns of nanoseconds cut to microseconds.
fn settle_columns(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(plan.schema());
    let mut found = false;
    let exprs = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match settled(field.data_type()) {
            Some(ty) => {
                found = true;
                cut(column, field.data_type(), ty).alias_qualified(qualifier.cloned(), field.name())
            }
            None => column,
        }
    });
    let exprs = exprs.collect();
    if !found {
        return Ok(Transformed::no(plan));
    }
    let projection = Projection::try_new(exprs, Arc::new(plan))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
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

/// `expr` of a type with nanoseconds as one of type `to`.
fn cut(expr: Expr, from: &DataType, to: DataType) -> Expr {
    match from {
        DataType::Timestamp(_, _) => {
            let func = Arc::new(ScalarUDF::from(Floor::new()));
            Expr::ScalarFunction(ScalarFunction::new_udf(func, vec![expr]))
        }
        _ => Expr::Cast(Cast::new(Box::new(expr), to)),
    }
}

/// The type of microseconds instead of one of nanoseconds, also within arrays.
fn settled(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
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

/// The microsecond that a nanosecond lies in, also before 1970.
fn floor(nanoseconds: i64) -> i64 {
    nanoseconds.div_euclid(1_000)
}

/// A timestamp of nanoseconds cut to microseconds.
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

    /// The name of what it is called with.
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
                // The optimiser may have found another way to the same.
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
