//! What stands beside a DECIMAL: a DOUBLE makes both DOUBLEs, and a text is a number with all its digits, as in PostgreSQL.
//!
//! DataFusion makes a DECIMAL(30, 15) of the DOUBLE, which has no place for 1e-20, 1e16 or NaN: the first became 0, the others were errors.
//! A text it cast to the DECIMAL beside it, so that a price of 0.50 equalled `'0.501'`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, InSubquery, SetComparison};
use datafusion::logical_expr::logical_plan::{Join, Projection, Subquery, SubqueryAlias, Union};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, cast,
};
use datafusion::optimizer::AnalyzerRule;

use super::number::{beside, is_number, number_in};
use super::numbers::exact;
use super::plan::{map_under_names, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// Functions whose arguments get one type.
const ALIKE: [&str; 7] = [
    "coalesce",
    "greatest",
    "ifnull",
    "least",
    "make_array",
    "nullif",
    "nvl",
];

/// The rule.
#[derive(Debug)]
pub(super) struct BesideDecimals;

impl AnalyzerRule for BesideDecimals {
    fn name(&self) -> &str {
        "beside_decimals"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Operators above one that has changed get its types.
        let mut has_changed = false;
        transform_up_with_subqueries(plan, |plan| {
            let settled = settle_plan(plan)?;
            has_changed |= settled.transformed;
            match has_changed {
                true => Ok(Transformed::yes(settled.data.recompute_schema()?)),
                false => Ok(settled),
            }
        })
        .data()
    }
}

fn settle_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let inputs = plan.inputs();
    let has_decimals = inputs.iter().any(|input| {
        let mut fields = input.schema().fields().iter();
        fields.any(|field| is_decimal(field.data_type()))
    });
    if !has_decimals && !uses(&plan, may_be_decimal)? {
        return Ok(Transformed::no(plan));
    }
    let plan = match plan {
        LogicalPlan::Join(join) => joined(join)?,
        LogicalPlan::Union(union) => united(union)?,
        other => Transformed::no(other),
    };
    plan.transform_data(|plan| {
        let schema = merge_schema(&plan.inputs());
        map_under_names(plan, |expr| expr.transform_up(|expr| settle(expr, &schema)))
    })
}

fn is_decimal(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal128(_, _) | DataType::Decimal256(_, _))
}

/// Whether `expr` may make a DECIMAL of other types.
fn may_be_decimal(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_decimal(cast.field.data_type()),
        Expr::TryCast(cast) => is_decimal(cast.field.data_type()),
        Expr::Literal(value, _) => is_decimal(&value.data_type()),
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        _ => false,
    }
}

fn settle(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            alike(&mut [left.as_mut(), right.as_mut()], schema, true)
        }
        Expr::Between(Between {
            expr, low, high, ..
        }) => alike(
            &mut [expr.as_mut(), low.as_mut(), high.as_mut()],
            schema,
            true,
        ),
        Expr::InList(InList { expr, list, .. }) => {
            let operands = std::iter::once(expr.as_mut()).chain(list);
            alike(&mut Vec::from_iter(operands), schema, true)
        }
        Expr::Case(case) => {
            let (whens, thens): (Vec<&mut Expr>, Vec<&mut Expr>) = (case.when_then_expr.iter_mut())
                .map(|(when, then)| (when.as_mut(), then.as_mut()))
                .unzip();
            let compared = match &mut case.expr {
                Some(base) => {
                    let operands = std::iter::once(base.as_mut()).chain(whens);
                    alike(&mut Vec::from_iter(operands), schema, true)
                }
                None => false,
            };
            let results = thens.into_iter().chain(case.else_expr.as_deref_mut());
            alike(&mut Vec::from_iter(results), schema, false) | compared
        }
        Expr::ScalarFunction(call) if ALIKE.contains(&call.name()) => {
            alike(&mut Vec::from_iter(&mut call.args), schema, false)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. })
        | Expr::SetComparison(SetComparison { expr, subquery, .. }) => {
            beside_rows(expr, subquery, schema)?
        }
        _ => false,
    };
    Ok(match is_changed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    })
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}

/// Makes operands that are `compared`, or of which one is the result, alike; returns whether one has changed.
fn alike(operands: &mut [&mut Expr], schema: &DFSchema, compared: bool) -> bool {
    let types = operands.iter();
    let types = types.map(|operand| operand.get_type(schema).unwrap_or(DataType::Null));
    let types: Vec<DataType> = types.collect();
    let Some(decimal) = types.iter().find(|ty| is_decimal(ty)) else {
        return false;
    };
    // A number with a point is as exact as what it stands beside.
    let is_exact = |operand: &Expr| is_number(operand) && exact(operand.clone()) != *operand;
    let has_doubles =
        (operands.iter().zip(&types)).any(|(operand, ty)| ty.is_floating() && !is_exact(operand));
    let mut is_changed = false;
    for (operand, ty) in operands.iter_mut().zip(&types) {
        let other = match &**operand {
            decimal if has_doubles && is_decimal(ty) => {
                Some(cast(decimal.clone(), DataType::Float64))
            }
            number if !has_doubles && ty.is_floating() => Some(exact(number.clone())),
            Expr::Literal(text, metadata) if !has_doubles && compared && ty.is_string() => {
                let number = number_in(text).and_then(|number| beside(&number, decimal));
                number.map(|number| Expr::Literal(number, metadata.clone()))
            }
            _ => None,
        };
        if let Some(other) = other {
            **operand = other;
            is_changed = true;
        }
    }
    is_changed
}

/// Makes a value and the rows that it is compared with alike.
fn beside_rows(value: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let ty = value.get_type(schema)?;
    let (qualifier, field) = subquery.subquery.schema().qualified_field(0);
    if is_decimal(&ty) && field.data_type().is_floating() {
        *value = cast(std::mem::take(value), DataType::Float64);
        return Ok(true);
    }
    if !(ty.is_floating() && is_decimal(field.data_type())) || is_number(value) {
        return Ok(false);
    }
    let name = field.name().clone();
    let column = Expr::Column((qualifier, field).into());
    let rows = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([cast(
        column,
        DataType::Float64,
    )
    .alias(name)])?;
    subquery.subquery = Arc::new(rows.build()?);
    Ok(true)
}

/// A join whose keys are alike.
fn joined(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut is_changed = false;
    for (left, right) in &mut join.on {
        let types = (
            left.get_type(join.left.schema())?,
            right.get_type(join.right.schema())?,
        );
        let decimal = match types {
            (one, other) if is_decimal(&one) && other.is_floating() => left,
            (one, other) if one.is_floating() && is_decimal(&other) => right,
            _ => continue,
        };
        *decimal = cast(std::mem::take(decimal), DataType::Float64);
        is_changed = true;
    }
    let join = LogicalPlan::Join(join);
    Ok(match is_changed {
        true => Transformed::yes(join),
        false => Transformed::no(join),
    })
}

/// Whether a column is written, and no column of a table.
fn is_constant(plan: &LogicalPlan, column: usize) -> bool {
    match plan {
        LogicalPlan::Projection(Projection { expr, .. }) => expr[column].column_refs().is_empty(),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => is_constant(input, column),
        _ => false,
    }
}

/// A union whose columns are alike.
fn united(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let type_of =
        |input: &LogicalPlan, column: usize| input.schema().field(column).data_type().clone();
    // A number that is written in a branch does not make a DOUBLE of the others.
    let is_mixed = |column: &usize| {
        let has = |is: &dyn Fn(&LogicalPlan) -> bool| union.inputs.iter().any(|input| is(input));
        has(&|input| is_decimal(&type_of(input, *column)))
            && has(&|input| type_of(input, *column).is_floating() && !is_constant(input, *column))
    };
    let mixed: Vec<usize> = (0..columns).filter(is_mixed).collect();
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let as_doubles = |input: &Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
        let columns = input
            .schema()
            .iter()
            .enumerate()
            .map(|(place, (table, field))| {
                let column = Expr::Column((table, field).into());
                match mixed.contains(&place) && is_decimal(field.data_type()) {
                    true => cast(column, DataType::Float64)
                        .alias_qualified(table.cloned(), field.name()),
                    false => column,
                }
            });
        let columns: Vec<Expr> = columns.collect();
        let plan = LogicalPlanBuilder::from(Arc::clone(input)).project(columns)?;
        Ok(Arc::new(plan.build()?))
    };
    let inputs = union.inputs.iter().map(as_doubles);
    let union = Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}
