//! Expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use sqlparser::ast::{BinaryOperator, CastKind, Expr as Syntax, UnaryOperator, Value as Literal};

use super::coerce::{cast, unpadded};
use super::many::many;
use super::operator::operator_name;
use super::{Binder, DEPTH_MOST, Typed, folded, path};
use crate::error::{Error, Result};
use crate::expression::{Expr, Many, Test};
use crate::plan::{Column, Plan};
use crate::types::Type;
use crate::value::Value;

/// What is within brackets.
pub(super) fn bare(mut syntax: &Syntax) -> &Syntax {
    while let Syntax::Nested(inner) = syntax {
        syntax = inner;
    }
    syntax
}

/// The parts of a chain of AND or OR, from left to right.
pub(super) fn chain<'a>(syntax: &'a Syntax, operator: &BinaryOperator) -> Vec<&'a Syntax> {
    let mut parts = Vec::new();
    let mut left = vec![syntax];
    while let Some(next) = left.pop() {
        match bare(next) {
            Syntax::BinaryOp {
                left: one,
                op,
                right: two,
            } if op == operator => left.extend([&**two, &**one]),
            other => parts.push(other),
        }
    }
    parts
}

impl Binder {
    /// An expression.
    pub(super) fn expr(&mut self, syntax: &Syntax) -> Result<Typed> {
        self.depth += 1;
        if self.depth > DEPTH_MOST {
            return Err(Error::new(
                "54001",
                "an expression of the query is nested too deep",
            ));
        }
        self.make(1)?;
        let loose = self.scope().loose.len();
        let typed = self.any_expr(syntax)?;
        self.depth -= 1;
        // What is a key of the group may be named as a whole.
        if !self.scope().keys.is_empty() && self.scope().keys.contains(&typed.expr) {
            self.scope().loose.truncate(loose);
        }
        Ok(typed)
    }

    pub(super) fn boxed(&mut self, syntax: &Syntax, ty: Type) -> Result<Box<Expr>> {
        let typed = self.expr(syntax)?;
        Ok(Box::new(self.coerced(typed, ty)?.expr))
    }

    /// A condition.
    pub(super) fn truth(&mut self, syntax: &Syntax) -> Result<Expr> {
        Ok(*self.boxed(syntax, Type::BOOL)?)
    }

    fn truths(&mut self, parts: &[&Syntax]) -> Result<Vec<Expr>> {
        parts.iter().map(|part| self.truth(part)).collect()
    }

    fn any_expr(&mut self, syntax: &Syntax) -> Result<Typed> {
        Ok(match syntax {
            Syntax::Nested(inner) => self.expr(inner)?,
            Syntax::Identifier(name) if name.quote_style.is_none() && is_function(&name.value) => {
                self.call(&name.value.to_lowercase(), &[])?
            }
            Syntax::Identifier(name) => self.column(&[folded(name)])?,
            Syntax::CompoundIdentifier(names) => {
                let path: Vec<String> = names.iter().map(folded).collect();
                self.column(&path)?
            }
            Syntax::Value(value) => self.literal(&value.value)?,
            Syntax::TypedString(string) => {
                let literal = self.literal(&string.value.value)?;
                let (ty, letters) = Type::of_sql(&string.data_type)?;
                cast(literal, ty, letters)?
            }
            Syntax::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => {
                let typed = self.expr(expr)?;
                let (ty, letters) = Type::of_sql(data_type)?;
                match (typed.ty, &typed.expr) {
                    (Type::UNKNOWN, Expr::Parameter(_)) if letters.is_none() => {
                        self.coerced(typed, ty)?
                    }
                    (from, Expr::Array(items)) if items.is_empty() && from == Type::TEXT_ARRAY => {
                        Typed::new(typed.expr, ty)
                    }
                    (from, _) if from == ty && letters.is_none() => typed,
                    _ => cast(typed, ty, letters)?,
                }
            }
            Syntax::BinaryOp {
                op: op @ (BinaryOperator::And | BinaryOperator::Or),
                ..
            } => {
                let parts = self.truths(&chain(syntax, op))?;
                Typed::bool(if *op == BinaryOperator::And {
                    Expr::And(parts)
                } else {
                    Expr::Or(parts)
                })
            }
            Syntax::BinaryOp { left, op, right } => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                self.binary(left, &operator_name(op)?, right)?
            }
            Syntax::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => Typed::bool(Expr::Not(self.boxed(expr, Type::BOOL)?)),
            Syntax::UnaryOp {
                op: UnaryOperator::Plus,
                expr,
            } => self.expr(expr)?,
            Syntax::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => self.minus(expr)?,
            Syntax::IsTrue(inner) => Typed::bool(Expr::Is(true, self.boxed(inner, Type::BOOL)?)),
            Syntax::IsFalse(inner) => Typed::bool(Expr::Is(false, self.boxed(inner, Type::BOOL)?)),
            Syntax::IsNotTrue(inner) => not(Expr::Is(true, self.boxed(inner, Type::BOOL)?)),
            Syntax::IsNotFalse(inner) => not(Expr::Is(false, self.boxed(inner, Type::BOOL)?)),
            Syntax::IsUnknown(inner) => Typed::bool(Expr::IsNull(self.boxed(inner, Type::BOOL)?)),
            Syntax::IsNotUnknown(inner) => not(Expr::IsNull(self.boxed(inner, Type::BOOL)?)),
            Syntax::IsNull(inner) => Typed::bool(Expr::IsNull(Box::new(self.of_one(inner)?.expr))),
            Syntax::IsNotNull(inner) => not(Expr::IsNull(Box::new(self.of_one(inner)?.expr))),
            Syntax::IsDistinctFrom(left, right) => not(self.same(left, right)?),
            Syntax::IsNotDistinctFrom(left, right) => Typed::bool(self.same(left, right)?),
            Syntax::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let (low, high) = (self.expr(low)?, self.expr(high)?);
                let before = self.made;
                let value = self.expr(expr)?;
                self.copied(before, 1)?;
                let least = self.compared(Test::GreaterOrEqual, value.clone(), low, ">=")?;
                let most = self.compared(Test::LessOrEqual, value, high, "<=")?;
                negated_if(*negated, Expr::And(vec![least.expr, most.expr]))
            }
            Syntax::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            }
            | Syntax::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => {
                let ignores_case = matches!(syntax, Syntax::ILike { .. });
                self.like(ignores_case, *negated, expr, pattern, escape_char.as_ref())?
            }
            Syntax::Like {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            }
            | Syntax::ILike {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => {
                let test = Test::Like {
                    ignores_case: matches!(syntax, Syntax::ILike { .. }),
                    is_not: false,
                    escape: Some('\\'),
                };
                let found = self.against_array(test, false, expr, pattern, "~~")?;
                negated_if(*negated, found)
            }
            Syntax::InList {
                expr,
                list,
                negated,
            } => {
                let mut left = self.expr(expr)?;
                let mut rights = Vec::new();
                for item in list {
                    let right = self.expr(item)?;
                    let (one, right) = self.rows_of(left.clone(), right, "=")?;
                    if left.ty == Type::UNKNOWN {
                        left = one;
                    }
                    rights.push(unpadded(right)?.expr);
                }
                let left = unpadded(left)?;
                negated_if(*negated, many(Test::Equal, false, left, Many::List(rights)))
            }
            Syntax::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                let found = self.against_query(Test::Equal, false, expr, subquery)?;
                negated_if(*negated, found)
            }
            Syntax::InUnnest {
                expr,
                array_expr,
                negated,
            } => {
                let found = self.against_array(Test::Equal, false, expr, array_expr, "=")?;
                negated_if(*negated, found)
            }
            Syntax::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.quantified(false, left, compare_op, right)?,
            Syntax::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(true, left, compare_op, right)?,
            Syntax::Exists { subquery, negated } => {
                let plan = self.subquery(subquery)?;
                negated_if(*negated, Expr::Exists(plan))
            }
            Syntax::Subquery(query) => {
                let plan = self.subquery(query)?;
                let column = one_column(&plan)?;
                Typed {
                    expr: Expr::Scalar(plan),
                    ty: column.ty,
                    fields: column.fields,
                }
            }
            Syntax::Case {
                operand,
                conditions,
                else_result,
                ..
            } => {
                let before = self.made;
                let operand = operand
                    .as_ref()
                    .map(|operand| self.expr(operand))
                    .transpose()?;
                self.copied(before, conditions.len())?;
                let mut tests = Vec::new();
                let mut results = Vec::new();
                for branch in conditions {
                    tests.push(match &operand {
                        None => self.truth(&branch.condition)?,
                        Some(operand) => {
                            let value = self.expr(&branch.condition)?;
                            self.compared(Test::Equal, operand.clone(), value, "=")?
                                .expr
                        }
                    });
                    results.push(self.expr(&branch.result)?);
                }
                results.push(match else_result {
                    Some(result) => self.expr(result)?,
                    None => Typed::new(Expr::Constant(Value::Null), Type::UNKNOWN),
                });
                let (mut results, ty) = self.unified(results, "CASE")?;
                let otherwise = results
                    .pop()
                    .map_or(Expr::Constant(Value::Null), |result| result.expr);
                let branches = tests
                    .into_iter()
                    .zip(results.into_iter().map(|result| result.expr));
                Typed::new(Expr::Case(branches.collect(), Box::new(otherwise)), ty)
            }
            Syntax::Array(array) => {
                let items = array
                    .elem
                    .iter()
                    .map(|item| self.expr(item))
                    .collect::<Result<Vec<_>>>()?;
                let (items, ty) = self.unified(items, "ARRAY")?;
                Typed::new(
                    Expr::Array(items.into_iter().map(|item| item.expr).collect()),
                    ty.array()?,
                )
            }
            Syntax::Tuple(fields) => {
                let fields = fields
                    .iter()
                    .map(|field| self.expr(field))
                    .collect::<Result<Vec<_>>>()?;
                record(fields)
            }
            Syntax::CompoundFieldAccess { root, access_chain } => {
                self.access(root, access_chain)?
            }
            Syntax::Collate { expr, collation } => {
                let name = path(collation)?.pop().unwrap_or_default();
                // All of them are the order of bytes here.
                if !["default", "C", "POSIX", "c", "posix"].contains(&name.as_str()) {
                    return Err(Error::new(
                        "42704",
                        format!("collation \"{name}\" does not exist"),
                    ));
                }
                let typed = self.expr(expr)?;
                match typed.ty {
                    Type::UNKNOWN => self.coerced(typed, Type::TEXT)?,
                    _ => typed,
                }
            }
            Syntax::Position { expr, r#in } => self.call("position", &[r#in, expr])?,
            Syntax::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } => {
                let one = Syntax::Value(Literal::Number("1".to_owned(), false).into());
                let from = substring_from.as_deref().unwrap_or(&one);
                match substring_for {
                    Some(len) => self.call("substring", &[expr, from, len])?,
                    None => self.call("substring", &[expr, from])?,
                }
            }
            Syntax::Trim {
                expr,
                trim_where,
                trim_what,
                trim_characters: None,
            } => {
                use sqlparser::ast::TrimWhereField as Side;
                let name = match trim_where {
                    Some(Side::Leading) => "ltrim",
                    Some(Side::Trailing) => "rtrim",
                    Some(Side::Both) | None => "btrim",
                };
                match trim_what {
                    Some(what) => self.call(name, &[expr, what])?,
                    None => self.call(name, &[expr])?,
                }
            }
            Syntax::Ceil { expr, .. } => self.call("ceil", &[expr])?,
            Syntax::Floor { expr, .. } => self.call("floor", &[expr])?,
            Syntax::Function(function) => self.function(function)?,
            other => return Err(Error::unsupported(format_args!("\"{other}\""))),
        })
    }

    /// A value of which only is asked whether it is NULL.
    fn of_one(&mut self, syntax: &Syntax) -> Result<Typed> {
        let typed = self.expr(syntax)?;
        match (typed.ty, &typed.expr) {
            (Type::UNKNOWN, Expr::Parameter(_)) => self.coerced(typed, Type::TEXT),
            (Type::RECORD, _) => Err(Error::unsupported("IS NULL of a row")),
            _ => Ok(typed),
        }
    }

    fn literal(&mut self, literal: &Literal) -> Result<Typed> {
        let unknown = |text: &str| Typed::new(Expr::Constant(text.into()), Type::UNKNOWN);
        Ok(match literal {
            Literal::Null => Typed::new(Expr::Constant(Value::Null), Type::UNKNOWN),
            Literal::Boolean(truth) => Typed::bool(Expr::Constant((*truth).into())),
            Literal::SingleQuotedString(text)
            | Literal::EscapedStringLiteral(text)
            | Literal::UnicodeStringLiteral(text)
            | Literal::NationalStringLiteral(text) => unknown(text),
            Literal::DollarQuotedString(string) => unknown(&string.value),
            Literal::Number(digits, false) => match digits.parse::<i64>() {
                Ok(int) if i32::try_from(int).is_ok() => {
                    Typed::new(Expr::Constant(Value::Int(int)), Type::INT4)
                }
                Ok(int) => Typed::new(Expr::Constant(Value::Int(int)), Type::INT8),
                Err(_) => match digits.parse::<f64>() {
                    Ok(float) if float.to_string() == *digits => {
                        Typed::new(Expr::Constant(Value::Float(float)), Type::NUMERIC)
                    }
                    _ => return Err(Error::unsupported(format_args!("the number {digits}"))),
                },
            },
            Literal::Placeholder(name) => {
                let number = name
                    .strip_prefix('$')
                    .and_then(|number| number.parse::<usize>().ok());
                let number = number.filter(|number| (1..=usize::from(u16::MAX)).contains(number));
                let place = number
                    .ok_or_else(|| Error::new("42P02", format!("there is no parameter {name}")))?
                    - 1;
                if self.parameters.len() <= place {
                    self.parameters.resize(place + 1, None);
                }
                let ty = self.parameters[place].unwrap_or(Type::UNKNOWN);
                Typed::new(Expr::Parameter(place), ty)
            }
            other => return Err(Error::unsupported(format_args!("the literal {other}"))),
        })
    }

    /// A subquery, whose columns have their types.
    pub(super) fn subquery(&mut self, query: &sqlparser::ast::Query) -> Result<Arc<Plan>> {
        let mut plan = self.query(query)?;
        self.settle(&mut plan)?;
        Ok(Arc::new(plan))
    }

    pub(super) fn least(&mut self, wanted: Ordering, parts: Vec<Typed>) -> Result<Typed> {
        let (parts, ty) = self.unified(parts, "GREATEST or LEAST")?;
        Ok(Typed::new(
            Expr::Least(wanted, parts.into_iter().map(|part| part.expr).collect()),
            ty,
        ))
    }
}

/// Whether it is a function that is written without brackets.
pub(crate) fn is_function(name: &str) -> bool {
    let names = [
        "current_user",
        "current_role",
        "session_user",
        "user",
        "current_catalog",
        "current_schema",
    ];
    names
        .iter()
        .any(|keyword| name.eq_ignore_ascii_case(keyword))
}

fn not(expr: Expr) -> Typed {
    Typed::bool(Expr::Not(Box::new(expr)))
}

fn negated_if(negated: bool, expr: Expr) -> Typed {
    if negated {
        not(expr)
    } else {
        Typed::bool(expr)
    }
}

pub(super) fn record(fields: Vec<Typed>) -> Typed {
    let columns = fields.iter().map(|field| Column {
        name: String::new(),
        ty: field.ty,
        fields: field.fields.clone(),
    });
    Typed {
        fields: columns.collect(),
        ty: Type::RECORD,
        expr: Expr::Row(fields.into_iter().map(|field| field.expr).collect()),
    }
}

pub(super) fn one_column(plan: &Plan) -> Result<Column> {
    match plan.columns.as_slice() {
        [column] => Ok(column.clone()),
        _ => Err(Error::new("42601", "subquery must return only one column")),
    }
}
