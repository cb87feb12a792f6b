//! How a statement uses its parameters, and an argument as each use takes it.
//!
//! INSERT and UPDATE assign an argument: it becomes a value of the column's type. A comparison and arithmetic do not: no integer
//! equals 1.7, and each digit of a DECIMAL counts. So in a plan with N parameters each use has parameters of its own:
//!
//! ```text
//! $1 .. $N           assigned, or used in any other way
//! $N+1 .. $2N        compared with a value of the parameter's type
//! $2N+1 .. $3N       an operand of arithmetic with such a value
//! ```
//! As in PostgreSQL, the arguments that EXECUTE writes are assigned to the type that the statement gives a parameter, which for a
//! DECIMAL says nothing about digits. What a program binds has a type of its own.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, InSubquery, Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, LogicalPlan, Operator};

use crate::rules::map_under_names;
use crate::tree::{
    TreeNode, apply_expressions, apply_with_subqueries, map_expressions,
    transform_up_with_subqueries,
};
use crate::{list, rules};

/// The uses of a parameter that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Assigned,
    Compared,
    Computed,
}

impl Use {
    pub(super) const ALL: [Self; 3] = [Self::Assigned, Self::Compared, Self::Computed];

    /// The number, from 1, of the parameter that stands for this use of parameter `number` of `count`.
    pub(super) fn number(self, number: usize, count: usize) -> usize {
        number + self as usize * count
    }
}

/// Who gives an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// EXECUTE, as an expression.
    Written,
    /// A program, as a value that has a type.
    Bound,
}

/// `plan` with the types that its casts give to parameters: `CAST($1 AS INTEGER)` takes an INTEGER, as in PostgreSQL. A parameter
/// that has a type elsewhere, or several, has none by a cast.
pub(super) fn typed_by_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut types: HashMap<String, Option<FieldRef>> = HashMap::new();
    apply_with_subqueries(&plan, |plan| {
        apply_expressions(plan, |expr| {
            expr.apply(|expr| {
                let (id, field) = match expr {
                    Expr::Placeholder(Placeholder { id, field: Some(_) }) => (id, None),
                    Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
                        Expr::Placeholder(Placeholder { id, field: None }) => {
                            (id, parameter_field(field))
                        }
                        _ => return Ok(TreeNodeRecursion::Continue),
                    },
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                let known = types.entry(id.clone()).or_insert_with(|| field.clone());
                if *known != field {
                    *known = None;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if types.values().all(Option::is_none) {
        return Ok(plan);
    }
    let typed = transform_up_with_subqueries(plan, |plan| {
        map_under_names(plan, |expr| {
            expr.transform_up(|expr| match expr {
                Expr::Placeholder(Placeholder { id, field: None }) => {
                    let field = types.get(&id).cloned().flatten();
                    let is_typed = field.is_some();
                    let typed = Expr::Placeholder(Placeholder { id, field });
                    Ok(match is_typed {
                        true => Transformed::yes(typed),
                        false => Transformed::no(typed),
                    })
                }
                expr => Ok(Transformed::no(expr)),
            })
        })
    })?;
    Ok(typed.data)
}

/// The field of a parameter that is cast to the type of `field`; `None` if the cast takes values of other types.
fn parameter_field(field: &FieldRef) -> Option<FieldRef> {
    use DataType::{
        Boolean, Date32, Decimal128, Float64, Int32, Int64, Interval, Timestamp, Utf8, Utf8View,
    };
    let ty = match field.data_type() {
        Timestamp(_, None) => Timestamp(TimeUnit::Microsecond, None),
        ty @ (Boolean
        | Int32
        | Int64
        | Float64
        | Decimal128(_, _)
        | Date32
        | Interval(_)
        | Utf8
        | Utf8View) => ty.clone(),
        _ => return None,
    };
    Some(Arc::new(Field::new("", ty, true)))
}

/// `plan` with a parameter for each use. It has `count` parameters, whose types are known where the statement gives them.
pub(super) fn told_apart(plan: LogicalPlan, count: usize) -> Result<LogicalPlan> {
    // The planner has cast what INSERT computes to the types of the columns, and would not do so again.
    let computes = !matches!(plan, LogicalPlan::Dml(_));
    let told = transform_up_with_subqueries(plan, |plan| {
        let names = NamePreserver::new(&plan);
        map_expressions(plan, |expr| {
            let name = names.save(&expr);
            let told = expr.transform_up(|expr| Ok(tell(expr, count, computes)))?;
            Ok(told.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(told.data)
}

fn tell(expr: Expr, count: usize, computes: bool) -> Transformed<Expr> {
    let mark = |operand: &mut Expr, how: Use| {
        if let Expr::Placeholder(Placeholder { id, field: Some(_) }) = operand
            && let Some(number) = id.strip_prefix('$').and_then(|id| id.parse().ok())
            && (1..=count).contains(&number)
        {
            *id = format!("${}", how.number(number, count));
        }
    };
    let mut expr = expr;
    match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            use Operator::{
                Divide, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, Modulo,
                Multiply, NotEq, Plus,
            };
            let how = match op {
                Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => {
                    Use::Compared
                }
                Plus | Minus | Multiply | Divide | Modulo if computes => Use::Computed,
                _ => return Transformed::no(expr),
            };
            mark(left, how);
            mark(right, how);
        }
        Expr::Between(Between { low, high, .. }) => {
            mark(low, Use::Compared);
            mark(high, Use::Compared);
        }
        Expr::InList(InList { list, .. }) => {
            list.iter_mut().for_each(|item| mark(item, Use::Compared));
        }
        Expr::InSubquery(InSubquery { expr, .. }) => mark(expr, Use::Compared),
        Expr::ScalarFunction(ScalarFunction { func, args }) if list::is_any(func) => {
            args.iter_mut().for_each(|side| mark(side, Use::Compared));
        }
        _ => return Transformed::no(expr),
    }
    Transformed::yes(expr)
}

/// The argument `value` for a use that keeps it as it is, beside a value of type `to`. `None` if it is to be assigned to that type,
/// which changes nothing of its meaning then.
pub(super) fn kept(
    value: &ScalarValue,
    to: &DataType,
    how: Use,
    given: Given,
) -> Option<ScalarValue> {
    use DataType::{Date32, Decimal128, Decimal256, Timestamp};
    if how == Use::Assigned || value.is_null() {
        return None;
    }
    let from = value.data_type();
    let is_exact = |ty: &DataType| matches!(ty, Decimal128(_, _) | Decimal256(_, _));
    let is_lost = || value.cast_to(to).is_err();
    match (&from, to) {
        (from, to) if from == to => None,
        (from, to) if is_exact(from) && is_exact(to) => match how {
            Use::Compared => rules::beside(value, to),
            _ => (!fits(value, to)).then(|| value.clone()),
        },
        // Written or not, a text is the number that it says.
        (from, Decimal128(_, _)) if from.is_string() => {
            let number = rules::number_in(value)?;
            let beside = match how {
                Use::Compared => rules::beside(&number, to)?,
                _ => number.clone(),
            };
            (!fits(&number, to)).then_some(beside)
        }
        _ if given == Given::Written => None,
        (from, to) if from.is_integer() && to.is_integer() => is_lost().then(|| value.clone()),
        (from, to) if from.is_integer() && is_exact(to) => {
            is_lost().then(|| rules::beside(value, to))?
        }
        (from, to) if from.is_floating() && (to.is_integer() || is_exact(to)) => {
            value.cast_to(&DataType::Float64).ok()
        }
        (from, to) if is_exact(from) && to.is_integer() => match how {
            Use::Compared => rules::beside(value, to),
            _ => Some(value.clone()),
        },
        (Timestamp(unit, _), Date32) => value.cast_to(&Timestamp(*unit, None)).ok(),
        _ => None,
    }
}

/// Whether `to`, a DECIMAL, has all digits of the number.
fn fits(number: &ScalarValue, to: &DataType) -> bool {
    let there = number.cast_to(to);
    let back = there.and_then(|there| there.cast_to(&number.data_type()));
    back.is_ok_and(|back| back == *number)
}

/// The type that an operand of arithmetic has whose argument a program binds as `declared`, and of which the statement says `to`.
pub(super) fn operand_type(declared: &DataType, to: &DataType) -> DataType {
    use DataType::{Date32, Decimal128, Float64, Timestamp};
    match (declared, to) {
        (declared, to) if declared.is_floating() && to.is_numeric() => Float64,
        (Decimal128(_, _), to) if to.is_integer() => declared.clone(),
        (Timestamp(_, _), Date32) => Timestamp(TimeUnit::Microsecond, None),
        (_, to) => to.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_comparison_would_lose_is_kept() {
        let bound = |value: ScalarValue, to| kept(&value, &to, Use::Compared, Given::Bound);
        let cents = DataType::Decimal128(9, 2);
        let double = ScalarValue::Float64(Some(1.7));
        assert_eq!(bound(double.clone(), DataType::Int64), Some(double));
        let mills = ScalarValue::Decimal128(Some(1_505), 4, 3);
        assert_eq!(bound(mills.clone(), cents.clone()), Some(mills.clone()));
        assert_eq!(
            kept(&mills, &cents, Use::Compared, Given::Written),
            Some(mills)
        );
        let text = ScalarValue::from("1.505");
        assert!(bound(text, cents.clone()).is_some());
        let wide = ScalarValue::Int64(Some(3_000_000_000));
        assert_eq!(bound(wide.clone(), DataType::Int32), Some(wide.clone()));
        assert_eq!(
            kept(&wide, &DataType::Int32, Use::Compared, Given::Written),
            None
        );
        for same in [
            bound(ScalarValue::Int64(Some(7)), DataType::Int32),
            bound(ScalarValue::Int64(None), cents.clone()),
            bound(ScalarValue::from("1.50"), cents),
            bound(ScalarValue::Date32(Some(1)), DataType::Date32),
        ] {
            assert_eq!(same, None);
        }
    }
}
