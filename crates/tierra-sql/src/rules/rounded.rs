//! ROUND of a DECIMAL has one type, from the planner to the rows.
//!
//! DataFusion gives `round(x, 2)` of a DECIMAL(10, 4) the type DECIMAL(10, 2), and DECIMAL(11, 4) where the number of places is no
//! literal. But its coercion puts a cast around the literal, and its optimiser removes it. What was planned for the one type was then
//! executed with the other: comparisons failed, and CASE and UNION rounded their other branches.
//!
//! | | what becomes of it |
//! |---|---|
//! | `round(x, 2)`, `round(x, 1 + 1)` | before coercion: the places are a literal of the type that no cast is put around |
//! | `round(x, places)` | after coercion: a function that keeps its type whatever becomes of `places` |

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions::math::round::RoundFunc;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use super::plan::{map_under_names, schema_below, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// Makes constant places literals.
#[derive(Debug)]
pub(super) struct ConstantPlaces;

impl AnalyzerRule for ConstantPlaces {
    fn name(&self) -> &str {
        "constant_places"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let context = SimplifyContext::builder().with_config_options(Arc::new(config.clone()));
        let simplifier = ExprSimplifier::new(context.build());
        let changes_types = Cell::new(false);
        let rewritten = rewrite(plan, |call, _| {
            let constant = constant(&call.args[1], &simplifier);
            let places = constant.and_then(|value| value.cast_to(&DataType::Int32).ok());
            Ok(places.map(|places| {
                // Of a literal the planner knew it.
                let was_known = matches!(call.args[1], Expr::Literal(_, _));
                changes_types.set(changes_types.get() || !was_known);
                let mut call = call.clone();
                call.args[1] = Expr::Literal(places, None);
                call
            }))
        })?;
        if !changes_types.get() {
            return Ok(rewritten.data);
        }
        let settled = transform_up_with_subqueries(rewritten.data, |plan| {
            let plan = plan.recompute_schema()?;
            Ok(Transformed::yes(plan))
        });
        settled.data()
    }
}

/// Keeps the type of other calls.
#[derive(Debug)]
pub(super) struct LastingType;

impl AnalyzerRule for LastingType {
    fn name(&self) -> &str {
        "lasting_type"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite(plan, |call, schema| {
            if matches!(call.args[1], Expr::Literal(_, _)) {
                return Ok(None);
            }
            let ty = Expr::ScalarFunction(call.clone()).get_type(schema);
            let Ok(ty @ (DataType::Decimal128(_, _) | DataType::Decimal256(_, _))) = ty else {
                return Ok(None);
            };
            let lasting = Rounded {
                round: RoundFunc::new(),
                signature: Signature::any(2, Volatility::Immutable),
                ty,
            };
            let function = Arc::new(ScalarUDF::from(lasting));
            Ok(Some(ScalarFunction::new_udf(function, call.args.clone())))
        })
        .data()
    }
}

/// `plan` with what `change` makes of the calls of `round` that have places.
fn rewrite(
    plan: LogicalPlan,
    change: impl Fn(&ScalarFunction, &DFSchema) -> Result<Option<ScalarFunction>>,
) -> Result<Transformed<LogicalPlan>> {
    transform_up_with_subqueries(plan, |plan| {
        if !uses(&plan, |expr| rounding(expr).is_some())? {
            return Ok(Transformed::no(plan));
        }
        let schema = schema_below(&plan)?;
        map_under_names(plan, |expr| {
            expr.transform_up(|expr| {
                let changed = match rounding(&expr) {
                    Some(call) => change(call, &schema)?,
                    None => None,
                };
                Ok(match changed {
                    Some(call) => Transformed::yes(Expr::ScalarFunction(call)),
                    None => Transformed::no(expr),
                })
            })
        })
    })
}

/// The call, if `expr` is one of `round` with places.
fn rounding(expr: &Expr) -> Option<&ScalarFunction> {
    match expr {
        Expr::ScalarFunction(call) if call.args.len() == 2 => {
            call.func.inner().is::<RoundFunc>().then_some(call)
        }
        _ => None,
    }
}

/// The value of `expr` in every row.
fn constant(expr: &Expr, simplifier: &ExprSimplifier) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    let varies = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(_, _)
                | Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    };
    if expr.is_volatile() || expr.exists(varies).unwrap_or(true) {
        return None;
    }
    let coerced = simplifier.coerce(expr.clone(), &DFSchema::empty()).ok()?;
    match simplifier.simplify(coerced) {
        Ok(Expr::Literal(value, _)) => Some(value),
        _ => None,
    }
}

/// `round` with a type of its own.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounded {
    round: RoundFunc,
    signature: Signature,
    ty: DataType,
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        self.round.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn is_strict(&self) -> bool {
        self.round.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.round.invoke_with_args(args)
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.round.output_ordering(input)
    }
}
