//! Numbers are compared with exact values digit by digit.
//!
//! A number with a point is a DOUBLE, as in DataFusion, except in exact contexts: compared with a DECIMAL or an integer,
//! added to or subtracted from a DECIMAL, cast to a DECIMAL (and, see [`super::assignment`], stored in one). None of these
//! changes the type that the planner gave the enclosing expression, except for sums. So sums are handled during planning.
//! -0.0 is 0.0, because no column stores it.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast, cast,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::arithmetic::lengthened;
use super::number::{Exact, as_double, is_number};
use super::plan::map_under_names;
use crate::tree::{TreeNode, apply_expressions, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct ExactNumbers;

impl AnalyzerRule for ExactNumbers {
    fn name(&self) -> &str {
        "exact_numbers"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, settle_plan).map(|settled| settled.data)
    }
}

impl ExprPlanner for ExactNumbers {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // Window functions count in 64 bits without a sign, in which 1 - 2 has no place.
        let counts = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::UInt64));
        if expr.op == BinaryOperator::Minus && counts(&expr.left) && counts(&expr.right) {
            expr.left = cast(expr.left, DataType::Int64);
        }
        if matches!(expr.op, BinaryOperator::Plus | BinaryOperator::Minus) {
            let addend = |number: &Expr, other: &Expr| {
                if !is_number(number) || is_number(other) {
                    return None;
                }
                let ty = other.get_type(schema).ok()?;
                Some(literal(Exact::of(number)?.addend(&ty)?))
            };
            if let Some(exact) = addend(&expr.left, &expr.right) {
                expr.left = exact;
            } else if let Some(exact) = addend(&expr.right, &expr.left) {
                expr.right = exact;
            }
        }
        let operator = match expr.op {
            BinaryOperator::Plus => Some(Operator::Plus),
            BinaryOperator::Minus => Some(Operator::Minus),
            BinaryOperator::Multiply => Some(Operator::Multiply),
            _ => None,
        };
        if let Some(operator) = operator
            && let Some(chain) = lengthened(&mut expr.left, operator, &expr.right, schema)
        {
            return Ok(PlannerResult::Planned(chain));
        }
        Ok(PlannerResult::Original(expr))
    }
}

fn settle_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_numbers(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    map_under_names(plan, |expr| {
        expr.transform_down(|expr| Ok(settle(expr, &schema)))
    })?
    .map_data(LogicalPlan::recompute_schema)
}

/// Most statements have none; they skip the second pass.
fn has_numbers(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply_expressions(plan, |expr| {
        expr.apply(|expr| {
            found |= is_number(expr);
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })
    })?;
    Ok(found)
}

fn settle(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            let [left, right] = compared([*left, *right], schema);
            let (left, right) = (Box::new(left), Box::new(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between {
            expr,
            negated,
            low,
            high,
        }) => {
            let [expr, low, high] = compared([*expr, *low, *high], schema);
            Transformed::yes(Expr::Between(Between {
                expr: Box::new(expr),
                negated,
                low: Box::new(low),
                high: Box::new(high),
            }))
        }
        Expr::InList(InList {
            expr,
            list,
            negated,
        }) => {
            let mut operands = vec![*expr];
            operands.extend(list);
            let mut list = compared_all(operands, schema);
            let expr = Box::new(list.remove(0));
            Transformed::yes(Expr::InList(InList {
                expr,
                list,
                negated,
            }))
        }
        Expr::Cast(Cast { expr, field }) if is_decimal(field.data_type()) => {
            let expr = Box::new(exact(*expr));
            Transformed::yes(Expr::Cast(Cast { expr, field }))
        }
        Expr::TryCast(TryCast { expr, field }) if is_decimal(field.data_type()) => {
            let expr = Box::new(exact(*expr));
            Transformed::yes(Expr::TryCast(TryCast { expr, field }))
        }
        // 0.0 or -0.0.
        Expr::Literal(ScalarValue::Float64(Some(0.0)), metadata) => {
            let zero = ScalarValue::Float64(Some(0.0));
            Transformed::yes(Expr::Literal(zero, metadata))
        }
        expr => match as_double(&expr) {
            Some(double) => Transformed::yes(literal(double)),
            None => Transformed::no(expr),
        },
    }
}

fn compared<const N: usize>(operands: [Expr; N], schema: &DFSchema) -> [Expr; N] {
    compared_all(operands.to_vec(), schema)
        .try_into()
        .unwrap_or(operands)
}

/// Operands that are compared with each other; the result has as many.
fn compared_all(operands: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    // Most have none, and types are expensive.
    if !operands.iter().any(is_number) {
        return operands;
    }
    let Some(ty) = exact_type(&operands, schema) else {
        return operands;
    };
    let numbers = operands.iter().filter(|operand| is_number(operand));
    // A number is too large for any DECIMAL: doubles are close enough.
    let all_exact = numbers.map(Exact::of).all(|number| number.is_some());
    operands
        .into_iter()
        .map(|operand| match (is_number(&operand), all_exact) {
            (true, true) => match Exact::of(&operand) {
                Some(number) => literal(number.beside(&ty)),
                None => operand,
            },
            (false, false) => Expr::Cast(Cast::new(Box::new(operand), DataType::Float64)),
            _ => operand,
        })
        .collect()
}

/// The exact type that numbers are compared with; `None` if there are no numbers, or if an operand is not exact.
fn exact_type(operands: &[Expr], schema: &DFSchema) -> Option<DataType> {
    let mut exact = None;
    let mut numbers = false;
    for operand in operands {
        if is_number(operand) {
            numbers = true;
            continue;
        }
        match operand.get_type(schema).ok()? {
            DataType::Null => {}
            ty if is_decimal(&ty) => exact = Some(ty),
            ty if ty.is_integer() => {
                exact.get_or_insert(ty);
            }
            _ => return None,
        }
    }
    exact.filter(|_| numbers)
}

fn is_decimal(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal128(_, _) | DataType::Decimal256(_, _))
}

/// A number with all its digits; other expressions unchanged.
pub(crate) fn exact(expr: Expr) -> Expr {
    match Exact::of(&expr) {
        Some(number) if is_number(&expr) => literal(number.scalar()),
        _ => expr,
    }
}

fn literal(value: ScalarValue) -> Expr {
    Expr::Literal(value, None)
}
