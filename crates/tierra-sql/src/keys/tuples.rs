//! Lists of whole keys: `(a, b) IN ((1, 2), (3, 4))` and `a = 1 AND b = 2 OR a = 3 AND b = 4`.
//!
//! No filter on one column expresses these, so a scan would evaluate them row by row. If they list keys of several
//! columns, the keys are looked up instead.

use std::collections::BTreeSet;

use arrow::array::{Array, StructArray};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, Operator};
use tierra_column::{LogicalType, Value};

use crate::filter::value_of;

/// The keys, each once, one of which a row must have for `predicate` to hold; `None` if the predicate has another form.
/// `key` are the indices of the key's columns in the table's schema.
pub(crate) fn key_tuples(
    predicate: &Expr,
    key: &[usize],
    schema: &Schema,
) -> Option<Vec<Vec<Value>>> {
    if key.len() < 2 {
        // Filters on the column cover keys of one column.
        return None;
    }
    let key = Key { key, schema };
    let mut found = BTreeSet::new();
    match predicate {
        Expr::InList(list) => key.row_values(list, &mut found)?,
        _ => {
            let mut alternatives = Vec::new();
            flatten(predicate, Operator::Or, &mut alternatives);
            for alternative in alternatives {
                found.extend(key.equalities(alternative)?);
            }
        }
    }
    Some(found.into_iter().collect())
}

struct Key<'a> {
    key: &'a [usize],
    schema: &'a Schema,
}

impl Key<'_> {
    fn ty(&self, part: usize) -> Option<LogicalType> {
        LogicalType::of_arrow(self.schema.field(self.key[part]).data_type())
    }

    /// The index in the key of the column `expr`.
    fn part(&self, expr: &Expr) -> Option<usize> {
        let Expr::Column(column) = expr else {
            return None;
        };
        let column = self.schema.index_of(&column.name).ok()?;
        self.key.iter().position(|part| *part == column)
    }

    /// `a = 1 AND b = 2`, each key column once. `Some(None)` if it never holds, for example if a column is compared with
    /// NULL.
    fn equalities(&self, alternative: &Expr) -> Option<Option<Vec<Value>>> {
        let mut conditions = Vec::new();
        flatten(alternative, Operator::And, &mut conditions);
        let mut values: Vec<Option<Option<Value>>> = vec![None; self.key.len()];
        let never = |condition: &&Expr| {
            matches!(
                condition,
                Expr::Literal(ScalarValue::Boolean(None | Some(false)), _)
            )
        };
        if conditions.iter().any(never) {
            return Some(None);
        }
        for condition in conditions {
            let Expr::BinaryExpr(binary) = condition else {
                return None;
            };
            if binary.op != Operator::Eq {
                return None;
            }
            let (part, other) = match self.part(&binary.left) {
                Some(part) => (part, &binary.right),
                None => (self.part(&binary.right)?, &binary.left),
            };
            let Expr::Literal(literal, _) = other.as_ref() else {
                return None;
            };
            let value = value_of(literal, self.ty(part)?)?;
            if values[part].replace(value).is_some() {
                return None;
            }
        }
        let values: Vec<Option<Value>> = values.into_iter().collect::<Option<_>>()?;
        Some(values.into_iter().collect())
    }

    /// `(a, b) IN (..)` in the planner's form: a structure of columns, cast to the type of the literals.
    fn row_values(&self, list: &InList, found: &mut BTreeSet<Vec<Value>>) -> Option<()> {
        if list.negated {
            return None;
        }
        let row = match list.expr.as_ref() {
            Expr::Cast(cast) => cast.expr.as_ref(),
            row => row,
        };
        let Expr::ScalarFunction(call) = row else {
            return None;
        };
        if call.func.name() != "struct" || call.args.len() != self.key.len() {
            return None;
        }
        let parts: Vec<usize> = call
            .args
            .iter()
            .map(|arg| self.part(arg))
            .collect::<Option<_>>()?;
        let distinct: BTreeSet<&usize> = parts.iter().collect();
        if distinct.len() != self.key.len() {
            return None;
        }
        for item in &list.list {
            let Expr::Literal(ScalarValue::Struct(values), _) = item else {
                return None;
            };
            found.extend(self.row_value(values, &parts)?);
        }
        Some(())
    }

    /// One literal of a list; `Some(None)` if no row can equal it.
    fn row_value(&self, values: &StructArray, parts: &[usize]) -> Option<Option<Vec<Value>>> {
        if values.len() != 1 || values.num_columns() != parts.len() {
            return None;
        }
        if values.is_null(0) {
            return Some(None);
        }
        let mut key: Vec<Option<Value>> = vec![None; parts.len()];
        for (values, part) in values.columns().iter().zip(parts) {
            let literal = ScalarValue::try_from_array(values, 0).ok()?;
            key[*part] = lossless(&literal, self.ty(*part)?)?;
        }
        Some(key.into_iter().collect())
    }
}

/// A literal as a value of the type; `Some(None)` if no value of the type equals it.
fn lossless(literal: &ScalarValue, ty: LogicalType) -> Option<Option<Value>> {
    match (literal, ty) {
        // Whole numbers are parsed as BIGINT; one that is not an INTEGER equals none.
        (ScalarValue::Int64(Some(number)), LogicalType::Integer) => match i32::try_from(*number) {
            Ok(number) => value_of(&ScalarValue::Int32(Some(number)), ty),
            Err(_) => Some(None),
        },
        (ScalarValue::Int32(Some(number)), LogicalType::BigInt) => {
            value_of(&ScalarValue::Int64(Some(i64::from(*number))), ty)
        }
        (literal, ty) if literal.is_null() => {
            let comparable =
                literal.data_type() == DataType::Null || literal.data_type() == ty.arrow();
            comparable.then_some(None)
        }
        (literal, ty) => value_of(literal, ty),
    }
}

/// The operands of a tree of `operator`.
fn flatten<'a>(expr: &'a Expr, operator: Operator, operands: &mut Vec<&'a Expr>) {
    let mut pending = vec![expr];
    while let Some(expr) = pending.pop() {
        match expr {
            Expr::BinaryExpr(binary) if binary.op == operator => {
                pending.extend([binary.left.as_ref(), binary.right.as_ref()]);
            }
            other => operands.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use datafusion::prelude::{col, lit};
    use tierra_column::ordinal;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("v", DataType::Int32, true),
            Field::new("b", DataType::Int64, false),
            Field::new("a", DataType::Int32, false),
        ])
    }

    fn tuples(predicate: &Expr) -> Option<Vec<Vec<Value>>> {
        key_tuples(predicate, &[2, 1], &schema())
    }

    fn key(a: i32, b: i64) -> Vec<Value> {
        vec![
            Value::Ordinal(ordinal::of_i32(a)),
            Value::Ordinal(ordinal::of_i64(b)),
        ]
    }

    fn both(a: i32, b: i64) -> Expr {
        col("a").eq(lit(a)).and(lit(b).eq(col("b")))
    }

    #[test]
    fn alternatives_that_fix_the_whole_key_are_keys_each_once() {
        let predicate = both(3, 4).or(both(1, 2)).or(both(3, 4));
        assert_eq!(tuples(&predicate), Some(vec![key(1, 2), key(3, 4)]));
        let null = col("a")
            .eq(lit(ScalarValue::Int32(None)))
            .and(col("b").eq(lit(1_i64)));
        assert_eq!(tuples(&null.or(both(1, 2))), Some(vec![key(1, 2)]));
        // The planner's form of `a = 1 AND b = NULL`.
        let never = col("a").eq(lit(1)).and(lit(ScalarValue::Boolean(None)));
        assert_eq!(tuples(&never.or(both(1, 2))), Some(vec![key(1, 2)]));
    }

    #[test]
    fn what_leaves_a_part_open_or_says_more_is_no_list_of_keys() {
        for predicate in [
            col("a").eq(lit(1)),
            both(1, 2).or(col("b").eq(lit(1_i64))),
            both(1, 2).and(col("v").eq(lit(1))),
            both(1, 2).and(col("a").eq(lit(1))),
            col("a").gt(lit(1)).and(col("b").eq(lit(1_i64))),
            col("a").eq(col("v")).and(col("b").eq(lit(1_i64))),
        ] {
            assert_eq!(tuples(&predicate), None, "{predicate}");
        }
        assert_eq!(key_tuples(&both(1, 2), &[2], &schema()), None);
    }

    #[test]
    fn numbers_that_no_integer_equals_are_no_keys() {
        let integer = LogicalType::Integer;
        assert_eq!(
            lossless(&ScalarValue::Int64(Some(7)), integer),
            Some(key(7, 0).first().cloned())
        );
        assert_eq!(
            lossless(&ScalarValue::Int64(Some(1 << 40)), integer),
            Some(None)
        );
        assert_eq!(lossless(&ScalarValue::Float64(Some(7.0)), integer), None);
        assert_eq!(
            lossless(&ScalarValue::Int64(None), LogicalType::BigInt),
            Some(None)
        );
    }
}
