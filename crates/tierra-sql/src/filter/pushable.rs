//! Which predicates a scan takes over: those on one column that may be evaluated on any value.
//!
//! Evaluation once per distinct value also visits values that no surviving row has. So a predicate that can fail on a
//! value (division, narrowing casts, parsing) is not taken: it would raise errors for rows that another predicate
//! excludes.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, Operator};

use crate::list::InSet;
use crate::rules::CANONICAL;
use crate::tree::TreeNode;

/// Deterministic functions that are defined for every argument.
const TOTAL_FUNCTIONS: &[&str] = &[
    "ascii",
    "bit_length",
    "btrim",
    "character_length",
    "coalesce",
    "contains",
    "date_part",
    "date_trunc",
    "ends_with",
    "left",
    "lower",
    "ltrim",
    "nullif",
    "octet_length",
    "replace",
    "reverse",
    "right",
    "rtrim",
    "starts_with",
    "strpos",
    "substr",
    "substr_index",
    "translate",
    "upper",
];

/// Whether the scan evaluates `predicate` exactly.
pub(crate) fn is_pushable(predicate: &Expr, schema: &DFSchema) -> bool {
    predicate.column_refs().len() == 1 && is_total(predicate, schema)
}

fn is_total(predicate: &Expr, schema: &DFSchema) -> bool {
    let mut total = true;
    // The closure never fails.
    let _ = predicate.apply(|expr| {
        total &= match expr {
            Expr::Column(_)
            | Expr::Literal(_, _)
            | Expr::Alias(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Between(_)
            | Expr::Like(_)
            | Expr::Case(_)
            | Expr::InList(_) => true,
            Expr::BinaryExpr(binary) => is_total_operator(binary.op),
            Expr::Cast(cast) => is_widening(cast, schema),
            Expr::ScalarFunction(call) => is_total_function(call),
            _ => false,
        };
        Ok(if total {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    total
}

fn is_total_operator(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::And
            | Operator::Or
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
            | Operator::LikeMatch
            | Operator::NotLikeMatch
            | Operator::ILikeMatch
            | Operator::NotILikeMatch
            | Operator::StringConcat
    )
}

fn is_total_function(call: &ScalarFunction) -> bool {
    call.func.inner().downcast_ref::<InSet>().is_some()
        || call.func.name() == CANONICAL
        || TOTAL_FUNCTIONS.contains(&call.func.name())
}

/// Casts that fail for no value of the source type.
fn is_widening(cast: &Cast, schema: &DFSchema) -> bool {
    let from = cast.expr.get_type(schema);
    from.is_ok_and(|from| widens(&from, cast.field.data_type()))
}

fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (from, to) if from == to => true,
        (_, Utf8 | LargeUtf8 | Utf8View) => true,
        (Int32, Int64 | Float64) | (Int64, Float64) | (Date32, Timestamp(_, None)) => {
            !matches!(to, Timestamp(arrow::datatypes::TimeUnit::Nanosecond, _))
        }
        (Int32, Decimal128(p, s)) => i16::from(*p) - i16::from(*s) >= 10,
        (Int64, Decimal128(p, s)) => i16::from(*p) - i16::from(*s) >= 19,
        (Decimal128(p, s), Decimal128(to_p, to_s)) => {
            to_s >= s && i16::from(*to_p) - i16::from(*to_s) >= i16::from(*p) - i16::from(*s)
        }
        (Decimal128(_, _), Float64) => true,
        _ => false,
    }
}

/// Whether a cast maps different values to different values and fails for none.
pub(super) fn keeps_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float64, Int64};
    let rounds = matches!((from, to), (Int64 | Decimal128(_, _), Float64));
    widens(from, to) && !rounds && is_text(from) == is_text(to)
}

fn is_text(ty: &DataType) -> bool {
    use DataType::{LargeUtf8, Utf8, Utf8View};
    matches!(ty, Utf8 | LargeUtf8 | Utf8View)
}

/// The table's schema with unqualified names, which a scan's predicates use.
pub(crate) fn unqualified(schema: &Schema) -> datafusion::error::Result<DFSchema> {
    DFSchema::try_from(schema.clone())
}
