//! Hides casts that lose part of a value from the estimates of filters.
//!
//! DataFusion estimates the result of a filter from the bounds of its columns, and maps bounds through a cast and back.
//! For `CAST(time AS DATE)` an hour becomes a day, the estimate exceeds the number of rows, and planning fails. An identity
//! function around the cast prevents that, and around the difference of two dates, whose bounds have another type than it. It is added last, when no other rule reads the cast.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::logical_plan::Filter;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::ApplyOrder;

use super::plan::EachNode;
use crate::tree::TreeNode;

/// Puts [`Handed`] around casts that lose information.
pub(super) const RULE: EachNode = EachNode {
    name: "lossy_casts",
    order: ApplyOrder::BottomUp,
    rewrite,
};

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(Filter {
        predicate, input, ..
    }) = plan
    else {
        return Ok(Transformed::no(plan));
    };
    let schema = Arc::clone(input.schema());
    let predicate = predicate.transform_down(|expr| match expr {
        Expr::Cast(cast) if is_lossy(&cast.expr.get_type(&schema)?, cast.field.data_type()) => {
            let handed = Expr::ScalarFunction(handed(Expr::Cast(cast)));
            Ok(Transformed::new(handed, true, TreeNodeRecursion::Jump))
        }
        // Days by their type, and a duration by their bounds.
        Expr::BinaryExpr(difference) if is_of_dates(&difference, &schema)? => {
            let handed = Expr::ScalarFunction(handed(Expr::BinaryExpr(difference)));
            Ok(Transformed::new(handed, true, TreeNodeRecursion::Jump))
        }
        Expr::ScalarFunction(function) if is_handed(&function) => {
            let function = Expr::ScalarFunction(function);
            Ok(Transformed::new(function, false, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })?;
    predicate.map_data(|predicate| Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
}

fn is_of_dates(difference: &BinaryExpr, schema: &DFSchema) -> Result<bool> {
    Ok(difference.op == Operator::Minus
        && difference.left.get_type(schema)? == DataType::Date32
        && difference.right.get_type(schema)? == DataType::Date32)
}

fn handed(value: Expr) -> ScalarFunction {
    let function = ScalarUDF::from(Handed {
        signature: Signature::any(1, Volatility::Immutable),
    });
    ScalarFunction::new_udf(Arc::new(function), vec![value])
}

fn is_handed(function: &ScalarFunction) -> bool {
    function.func.inner().downcast_ref::<Handed>().is_some()
}

/// Whether a value may come back from `to` as a different one.
fn is_lossy(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Duration, Float64, Int64, Timestamp};
    match (from, to) {
        // Bounds of another kind, which DataFusion compares with those of the value.
        (Duration(_), _) | (_, Duration(_)) => true,
        (from, to) if is_text(from) != is_text(to) => true,
        (Timestamp(_, _), Date32) | (Int64, Float64) => true,
        (Float64, to) => to.is_integer() || matches!(to, Decimal128(_, _)),
        (Decimal128(_, from), Decimal128(_, to)) => to < from,
        (Decimal128(_, _), to) => to.is_integer() || *to == Float64,
        _ => false,
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// The function `x -> x`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Handed {
    signature: Signature,
}

impl ScalarUDFImpl for Handed {
    fn name(&self) -> &str {
        "tierra_handed"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [ty] => Ok(ty.clone()),
            _ => internal_err!("one value is handed on"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("one value is handed on"),
        }
    }
}
