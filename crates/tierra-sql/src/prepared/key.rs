//! The condition on a primary key in a statement that is planned once, and its keys for some arguments.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::compute::{filter, is_not_null};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};
use tierra_column::{LogicalType, Value};
use tierra_engine::Table;

use super::Argument;
use crate::error::{PreparedError, SqlError};
use crate::list::{List, ListKind, array_items, assigned};
use crate::names::identifier;
use crate::rules::exactly;
use crate::types::logical_type;
use crate::{types, values};

/// A condition that fixes the primary key of a table.
pub(super) struct KeyCondition {
    /// The statement's name.
    name: String,
    pub(super) key_types: Vec<LogicalType>,
    condition: Condition,
    /// Whether the parameter is a list, as in `key = ANY($1)`.
    takes_list: bool,
}

/// The condition on the key.
enum Condition {
    /// `a = .. AND b = ..`: one operand per key column.
    Equal(Vec<Operand>),
    /// `key IN (.., ..)` and `key = ANY(..)`: an operand may be an array.
    Any(Vec<Operand>),
}

/// A literal, or the number of a parameter, from 0.
pub(super) enum Operand {
    Literal(Option<Value>),
    Parameter(usize),
}

/// The types that PREPARE declares, of the first parameters or of none.
#[derive(Clone, Copy)]
pub(super) struct Declared<'a>(pub(super) &'a [ast::DataType]);

impl Declared<'_> {
    /// Whether a parameter for values of type `ty` is declared so, or not at all. An argument is assigned to the declared type
    /// first, and only the planner knows how the value is compared with another one, or stored as another one.
    pub(super) fn allow(self, operand: &Operand, ty: LogicalType) -> bool {
        self.of(operand)
            .is_none_or(|declared| types::from_sql("", declared).is_ok_and(|found| found == ty))
    }

    /// The same of a parameter for a list of such values.
    fn allow_list(self, operand: &Operand, ty: LogicalType) -> bool {
        self.of(operand).is_none_or(|declared| match declared {
            ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(item, None)) => {
                types::from_sql("", item).is_ok_and(|found| found == ty)
            }
            _ => false,
        })
    }

    /// Whether it declares no parameter beyond `count`.
    pub(super) fn are_at_most(self, count: usize) -> bool {
        self.0.len() <= count
    }

    fn of(&self, operand: &Operand) -> Option<&ast::DataType> {
        self.0.get(operand.parameter()?)
    }
}

impl KeyCondition {
    /// The condition of the statement `name`, if it fixes the whole key of `table` and says nothing else.
    pub(super) fn of(
        name: &str,
        selection: &Expr,
        table: &Table,
        schema: &SchemaRef,
    ) -> Option<Self> {
        let key = &table.spec().primary_key;
        let key_types = key.iter().map(|&column| logical_type(schema, column));
        let key_types: Vec<LogicalType> = key_types.collect();
        Some(Self {
            name: name.to_string(),
            condition: condition(selection, key, &key_types, schema)?,
            key_types,
            takes_list: matches!(selection, Expr::AnyOp { .. }),
        })
    }

    /// Whether the types that PREPARE declares for its parameters are those of the key.
    pub(super) fn has(&self, declared: Declared<'_>) -> bool {
        match &self.condition {
            Condition::Equal(operands) => {
                let mut parts = operands.iter().zip(&self.key_types);
                parts.all(|(operand, ty)| declared.allow(operand, *ty))
            }
            Condition::Any(operands) => operands.iter().all(|operand| match self.takes_list {
                true => declared.allow_list(operand, self.key_types[0]),
                false => declared.allow(operand, self.key_types[0]),
            }),
        }
    }

    /// The numbers of its parameters.
    pub(super) fn parameters(&self) -> impl Iterator<Item = usize> {
        let (Condition::Equal(operands) | Condition::Any(operands)) = &self.condition;
        operands.iter().filter_map(Operand::parameter)
    }

    /// The types of its parameters, in order, of which there are `count`.
    pub(super) fn parameter_types(&self, count: usize) -> Vec<DataType> {
        let mut types = vec![DataType::Null; count];
        let mut set = |operand: &Operand, ty: LogicalType| {
            if let Operand::Parameter(number) = operand {
                let ty = ty.arrow();
                types[*number] = match self.takes_list {
                    true => DataType::new_list(ty, true),
                    false => ty,
                };
            }
        };
        match &self.condition {
            Condition::Equal(operands) => {
                let parts = operands.iter().zip(&self.key_types);
                parts.for_each(|(operand, ty)| set(operand, *ty));
            }
            Condition::Any(operands) => {
                let operands = operands.iter();
                operands.for_each(|operand| set(operand, self.key_types[0]));
            }
        }
        types
    }

    /// One array per key column. Keys that contain NULL equal nothing and are left out.
    pub(super) fn keys(&self, arguments: &[Argument<'_>]) -> Result<Vec<ArrayRef>, SqlError> {
        let value = |operand: &Operand, ty: LogicalType| match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Parameter(number) => match &arguments[*number] {
                Argument::Written(written) => self.argument(*number, written, ty),
                Argument::Value(value) => {
                    let value = self.values(*number, value, ty)?;
                    Ok((0..value.len()).find_map(|at| Value::of_array(&value, at)))
                }
                Argument::List(list) => {
                    Err(self.refuse(*number, format!("a list of {} values", list.len()), ty))
                }
            },
        };
        match &self.condition {
            Condition::Equal(operands) => {
                let key = operands
                    .iter()
                    .zip(&self.key_types)
                    .map(|(operand, ty)| value(operand, *ty));
                let key = key.collect::<Result<Option<Vec<Value>>, _>>()?;
                let columns = self.key_types.iter().enumerate().map(|(part, ty)| {
                    let value = key.as_ref().map(|key| std::slice::from_ref(&key[part]));
                    values::array(*ty, value.unwrap_or_default())
                });
                Ok(columns.collect::<Result<_, _>>()?)
            }
            Condition::Any(operands) => {
                let ty = self.key_types[0];
                if let [Operand::Parameter(number)] = operands.as_slice()
                    && let Argument::List(list) = &arguments[*number]
                {
                    let keys = self.values(*number, list, ty)?;
                    return Ok(vec![without_nulls(keys)?]);
                }
                let mut keys = Vec::with_capacity(operands.len());
                for operand in operands {
                    let Operand::Parameter(number) = operand else {
                        keys.extend(value(operand, ty)?);
                        continue;
                    };
                    match &arguments[*number] {
                        Argument::List(list) => {
                            let list = self.values(*number, list, ty)?;
                            keys.extend(
                                (0..list.len()).filter_map(|at| Value::of_array(&list, at)),
                            );
                        }
                        Argument::Written(written) if let Some(items) = array_items(written) => {
                            for item in items {
                                keys.extend(self.argument(*number, item, ty)?);
                            }
                        }
                        _ => keys.extend(value(operand, ty)?),
                    }
                }
                Ok(vec![values::array(ty, &keys)?])
            }
        }
    }

    fn argument(
        &self,
        number: usize,
        argument: &Expr,
        ty: LogicalType,
    ) -> Result<Option<Value>, PreparedError> {
        let value = key(argument, ty).or_else(|| assigned_moment(argument, ty));
        value.ok_or_else(|| self.refuse(number, argument.to_string(), ty))
    }

    /// The keys of type `ty` that the items of a list can equal.
    fn values(
        &self,
        number: usize,
        list: &List,
        ty: LogicalType,
    ) -> Result<ArrayRef, PreparedError> {
        // As strict as for single literals: keys are not rounded, and a string is not a number.
        let is_comparable = || list.is_comparable(&ty.arrow());
        let (fits, is_compared) = match list.kind() {
            ListKind::Integers => (!is_text(ty) && ty != LogicalType::Boolean, false),
            ListKind::Numbers => match ty {
                LogicalType::Decimal { .. } => (true, true),
                ty => (ty == LogicalType::Double, false),
            },
            ListKind::Texts => (is_text(ty), false),
            ListKind::Typed => (true, is_comparable()),
        };
        if !fits {
            let first = list.values().slice(0, 1);
            let first = array_value_to_string(&first, 0).unwrap_or_default();
            return Err(self.refuse(number, format!("a list with {first}"), ty));
        }
        if is_compared {
            let items = list.items(&ty.arrow());
            let items = items.map_err(|error| self.refuse(number, error.to_string(), ty))?;
            return Ok(items.values);
        }
        assigned(list, &ty.arrow()).map_err(|found| self.refuse(number, found, ty))
    }

    fn refuse(&self, number: usize, value: String, ty: LogicalType) -> PreparedError {
        PreparedError::Argument {
            name: self.name.clone(),
            parameter: number + 1,
            value,
            expected: ty.to_string(),
        }
    }
}

fn without_nulls(keys: ArrayRef) -> Result<ArrayRef, DataFusionError> {
    if keys.null_count() == 0 {
        return Ok(keys);
    }
    Ok(filter(&keys, &is_not_null(&keys)?)?)
}

/// Types whose literals are written in quotes.
fn is_text(ty: LogicalType) -> bool {
    matches!(
        ty,
        LogicalType::Varchar | LogicalType::Date | LogicalType::Timestamp
    )
}

impl Operand {
    /// The number of the parameter, if it is one.
    pub(super) fn parameter(&self) -> Option<usize> {
        match self {
            Operand::Parameter(number) => Some(*number),
            Operand::Literal(_) => None,
        }
    }
}

/// The number of parameters if `numbers` are theirs; `None` if the numbers have a gap.
pub(super) fn count(numbers: impl Iterator<Item = usize>) -> Option<usize> {
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    let has_no_gap = numbers.iter().copied().eq(0..numbers.len());
    has_no_gap.then_some(numbers.len())
}

/// The condition, if it fixes the whole key and says nothing else.
fn condition(
    selection: &Expr,
    key: &[usize],
    types: &[LogicalType],
    schema: &Schema,
) -> Option<Condition> {
    if let ([column], [ty]) = (key, types) {
        let is_key = |expr: &Expr| column_of(expr, schema) == Some(*column);
        match selection {
            Expr::InList {
                expr,
                list,
                negated: false,
            } if is_key(expr) => {
                return list
                    .iter()
                    .map(|item| operand(item, *ty))
                    .collect::<Option<_>>()
                    .map(Condition::Any);
            }
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } if is_key(left) => {
                let right = match right.as_ref() {
                    Expr::Nested(inner) => inner,
                    other => other,
                };
                return Some(Condition::Any(vec![operand(right, *ty)?]));
            }
            _ => {}
        }
    }
    let mut operands: Vec<Option<Operand>> = key.iter().map(|_| None).collect();
    let mut pending = vec![selection];
    while let Some(expr) = pending.pop() {
        match expr {
            Expr::Nested(inner) => pending.push(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => pending.extend([left.as_ref(), right.as_ref()]),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            } => {
                let (column, other) = match column_of(left, schema) {
                    Some(column) => (column, right),
                    None => (column_of(right, schema)?, left),
                };
                let place = key.iter().position(|part| *part == column)?;
                if operands[place].is_some() {
                    return None;
                }
                operands[place] = Some(operand(other, types[place])?);
            }
            _ => return None,
        }
    }
    let operands = operands.into_iter().collect::<Option<Vec<_>>>()?;
    (!operands.is_empty()).then_some(Condition::Equal(operands))
}

pub(super) fn operand(expr: &Expr, ty: LogicalType) -> Option<Operand> {
    match expr {
        Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Placeholder(name),
            ..
        }) => {
            let number: usize = name.strip_prefix('$')?.parse().ok()?;
            Some(Operand::Parameter(number.checked_sub(1)?))
        }
        other => key(other, ty).map(Operand::Literal),
    }
}

/// A literal as a key of type `ty`; `Some(None)` equals none, `None` is another expression.
fn key(expr: &Expr, ty: LogicalType) -> Option<Option<Value>> {
    match (expr, ty) {
        (Expr::Nested(inner), ty) => key(inner, ty),
        (_, LogicalType::Decimal { precision, scale }) => {
            let value = literal(expr, ty)?;
            match number(expr) {
                // The planner reads it.
                Some(digits) if digits.contains(['e', 'E']) => None,
                // It would be rounded to a key that does not equal it.
                Some(digits) if exactly(&digits, precision, scale).is_none() => Some(None),
                _ => Some(value),
            }
        }
        _ => literal(expr, ty),
    }
}

/// The digits of a number that is written.
fn number(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => Some(digits.clone()),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => number(expr).map(|digits| format!("-{digits}")),
        _ => None,
    }
}

/// A literal as a value of type `ty`; `Some(None)` is NULL, `None` is another expression.
pub(super) fn literal(expr: &Expr, ty: LogicalType) -> Option<Option<Value>> {
    match expr {
        Expr::Nested(inner) => literal(inner, ty),
        Expr::TypedString(typed) => typed_text(typed, ty).filter(|_| type_of(typed) == Some(ty)),
        Expr::Value(value) => match &value.value {
            ast::Value::Null => Some(None),
            ast::Value::Number(digits, _) if !is_text(ty) => parsed(digits, ty),
            ast::Value::Boolean(value) if ty == LogicalType::Boolean => {
                Some(Some(Value::Ordinal(u64::from(*value))))
            }
            ast::Value::SingleQuotedString(text) if is_text(ty) => parsed(text, ty),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            Expr::Value(ast::ValueWithSpan {
                value: ast::Value::Number(digits, _),
                ..
            }) if !is_text(ty) => parsed(&format!("-{digits}"), ty),
            _ => None,
        },
        _ => None,
    }
}

/// The type that a literal says it has, as in `DATE '2020-02-29'`.
fn type_of(typed: &ast::TypedString) -> Option<LogicalType> {
    types::from_sql("", &typed.data_type).ok()
}

/// The text of a literal with a type, as a value of type `ty`.
fn typed_text(typed: &ast::TypedString, ty: LogicalType) -> Option<Option<Value>> {
    match &typed.value.value {
        ast::Value::SingleQuotedString(text) if is_text(ty) => parsed(text, ty),
        _ => None,
    }
}

/// An argument that says its type, assigned to another one: a date to a timestamp, the other way round, and either to a text.
fn assigned_moment(expr: &Expr, ty: LogicalType) -> Option<Option<Value>> {
    use LogicalType::{Date, Timestamp, Varchar};
    let typed = match expr {
        Expr::Nested(inner) => return assigned_moment(inner, ty),
        Expr::TypedString(typed) => typed,
        _ => return None,
    };
    let from = type_of(typed)?;
    if !matches!(
        (from, ty),
        (Date, Timestamp | Varchar) | (Timestamp, Date | Varchar)
    ) {
        return None;
    }
    let Some(value) = typed_text(typed, from)? else {
        return Some(None);
    };
    let value = values::array(from, &[value]).ok()?;
    let value = types::convert(&value, &ty.arrow()).ok()?;
    (!value.is_null(0)).then(|| Value::of_array(&value, 0))
}

fn parsed(text: &str, ty: LogicalType) -> Option<Option<Value>> {
    if ty == LogicalType::Boolean {
        return None;
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let value = types::convert(&text, &ty.arrow()).ok()?;
    (!value.is_null(0)).then(|| Value::of_array(&value, 0))
}

pub(super) fn column_of(expr: &Expr, schema: &Schema) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => column_of(inner, schema),
        Expr::Identifier(ident) => schema.index_of(&identifier(ident)).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement;
    use datafusion::sql::parser::Statement;
    use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr};

    fn expression(text: &str) -> Expr {
        let statements = statement::split(&format!("SELECT {text} AS x")).unwrap();
        let Statement::Statement(inner) = statements[0].parse().unwrap() else {
            panic!()
        };
        let ast::Statement::Query(query) = *inner else {
            panic!()
        };
        let SetExpr::Select(select) = *query.body else {
            panic!()
        };
        let SelectItem::ExprWithAlias { expr, .. } = select.projection[0].clone() else {
            panic!()
        };
        expr
    }

    #[test]
    fn literals_take_the_type_of_the_key() {
        let of = |text: &str, ty| literal(&expression(text), ty);
        let int = |value| Some(Some(Value::Ordinal(tierra_column::ordinal::of_i32(value))));
        assert_eq!(of("-42", LogicalType::Integer), int(-42));
        assert_eq!(of("NULL", LogicalType::Integer), Some(None));
        assert_eq!(of("3000000000", LogicalType::Integer), None);
        assert_eq!(of("'42'", LogicalType::Integer), None);
        assert_eq!(of("DATE '1970-01-02'", LogicalType::Date), int(1));
        let noon = "TIMESTAMP '1970-01-02 12:00:00'";
        assert_eq!(of(noon, LogicalType::Date), None);
        assert_eq!(of("DATE '1970-01-02'", LogicalType::Timestamp), None);
        assert_eq!(of("DATE '1970-1-2'", LogicalType::Varchar), None);
        assert_eq!(
            of("TIMESTAMP(3) '1970-01-02'", LogicalType::Timestamp),
            None
        );
        assert_eq!(
            assigned_moment(&expression(noon), LogicalType::Date),
            int(1)
        );
        assert_eq!(of("1 + 1", LogicalType::Integer), None);
        assert_eq!(
            of("'x'", LogicalType::Varchar),
            Some(Some(Value::Bytes(b"x".as_slice().into())))
        );
        assert_eq!(LogicalType::Integer.arrow(), DataType::Int32);
        let cents = LogicalType::Decimal {
            precision: 9,
            scale: 2,
        };
        assert_eq!(key(&expression("1.505"), cents), Some(None));
        assert_eq!(key(&expression("-(1.505)"), cents), None);
        assert!(matches!(key(&expression("-1.50"), cents), Some(Some(_))));
    }
}
