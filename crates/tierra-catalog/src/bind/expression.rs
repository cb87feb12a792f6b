//! Expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, Expr as Syntax, Subscript, UnaryOperator,
    Value as Literal, ValueWithSpan,
};

use super::coerce::{cast, no_operator};
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

    fn boxed(&mut self, syntax: &Syntax, ty: Type) -> Result<Box<Expr>> {
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
            } => self.like(false, *negated, expr, pattern, escape_char.as_ref())?,
            Syntax::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(true, *negated, expr, pattern, escape_char.as_ref())?,
            Syntax::Like {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => {
                let test = Test::Like {
                    ignores_case: false,
                    is_not: false,
                    escape: Some('\\'),
                };
                negated_if(
                    *negated,
                    self.against_array(test, false, expr, pattern, "~~")?,
                )
            }
            Syntax::ILike {
                negated,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => {
                let test = Test::Like {
                    ignores_case: true,
                    is_not: false,
                    escape: Some('\\'),
                };
                negated_if(
                    *negated,
                    self.against_array(test, false, expr, pattern, "~~*")?,
                )
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
                    rights.push(right.expr);
                }
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

    fn minus(&mut self, syntax: &Syntax) -> Result<Typed> {
        let typed = self.expr(syntax)?;
        match typed.expr.constant() {
            Some(Value::Int(int)) => Ok(Typed::new(Expr::Constant(Value::Int(-int)), typed.ty)),
            Some(Value::Float(float)) => {
                Ok(Typed::new(Expr::Constant(Value::Float(-float)), typed.ty))
            }
            _ => {
                let zero = Typed::new(Expr::Constant(Value::Int(0)), Type::INT4);
                self.binary(zero, "-", typed)
            }
        }
    }

    fn same(&mut self, left: &Syntax, right: &Syntax) -> Result<Expr> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right) = self.comparable(left, right, "IS DISTINCT FROM")?;
        Ok(Expr::IsSame(Box::new(left.expr), Box::new(right.expr)))
    }

    fn like(
        &mut self,
        ignores_case: bool,
        is_not: bool,
        text: &Syntax,
        pattern: &Syntax,
        escape: Option<&ValueWithSpan>,
    ) -> Result<Typed> {
        let escape = match escape.map(|escape| &escape.value) {
            None => Some('\\'),
            Some(Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text)) => {
                let mut letters = text.chars();
                match (letters.next(), letters.next()) {
                    (letter, None) => letter,
                    _ => {
                        return Err(Error::new(
                            "22019",
                            "invalid escape string: it must be empty or one character",
                        ));
                    }
                }
            }
            Some(other) => return Err(Error::unsupported(format_args!("ESCAPE {other}"))),
        };
        let (text, pattern) = (self.expr(text)?, self.expr(pattern)?);
        self.pattern(
            Test::Like {
                ignores_case,
                is_not,
                escape,
            },
            text,
            pattern,
            "~~",
        )
    }

    fn pattern(&mut self, test: Test, text: Typed, pattern: Typed, name: &str) -> Result<Typed> {
        if !text.ty.is_text() || !pattern.ty.is_text() {
            return Err(no_operator(text.ty, name, pattern.ty));
        }
        let (text, pattern) = (
            self.coerced(text, Type::TEXT)?,
            self.coerced(pattern, Type::TEXT)?,
        );
        Ok(Typed::bool(Expr::Test(
            test,
            Box::new(text.expr),
            Box::new(pattern.expr),
        )))
    }

    fn binary(&mut self, left: Typed, name: &str, right: Typed) -> Result<Typed> {
        if let Some(test) = test_named(name) {
            return match test {
                Test::Like { .. } | Test::Regex { .. } => self.pattern(test, left, right, name),
                Test::Contains | Test::IsContained | Test::Overlaps => {
                    let (left, right) = self.comparable(left, right, name)?;
                    match left.ty.element() {
                        Some(_) => Ok(Typed::bool(Expr::Test(
                            test,
                            Box::new(left.expr),
                            Box::new(right.expr),
                        ))),
                        None => Err(no_operator(left.ty, name, right.ty)),
                    }
                }
                test => self.compared(test, left, right, name),
            };
        }
        if name == "||" {
            return self.concatenated(left, right);
        }
        let operator = match name {
            "+" | "-" | "*" | "/" | "%" | "&" | "|" | "#" => name.chars().next().unwrap_or('+'),
            "<<" => '<',
            ">>" => '>',
            _ => return Err(no_operator(left.ty, name, right.ty)),
        };
        let (left, right) = match (left.ty, right.ty) {
            (Type::UNKNOWN, Type::UNKNOWN) => {
                return Err(Error::new(
                    "42725",
                    format!("operator is not unique: unknown {name} unknown"),
                ));
            }
            (Type::UNKNOWN, other) => (self.coerced(left, other)?, right),
            (other, Type::UNKNOWN) => (left, self.coerced(right, other)?),
            _ => (left, right),
        };
        let is_bits = matches!(operator, '&' | '|' | '#' | '<' | '>');
        let are_numbers = left.ty.class() == b'N' && right.ty.class() == b'N';
        let are_whole = left.ty.is_whole() && right.ty.is_whole();
        if !are_numbers
            || is_bits && !are_whole
            || left.ty.is_reference()
            || right.ty.is_reference()
        {
            return Err(no_operator(left.ty, name, right.ty));
        }
        // The number of a thing counts as one that has no bounds here.
        let wide = |ty| if ty == Type::OID { Type::INT8 } else { ty };
        let ty = match operator {
            '<' | '>' => left.ty,
            _ => super::coerce::unified(wide(left.ty), wide(right.ty), "operator")?,
        };
        if ty == Type::NUMERIC {
            // Its digits would have to be PostgreSQL's.
            return Err(Error::unsupported("arithmetic of numeric"));
        }
        let ty = if ty == Type::FLOAT4 { Type::FLOAT8 } else { ty };
        Ok(Typed::new(
            Expr::Arithmetic(operator, ty, Box::new(left.expr), Box::new(right.expr)),
            ty,
        ))
    }

    fn concatenated(&mut self, left: Typed, right: Typed) -> Result<Typed> {
        let call = |binder: &mut Self, name: &str, all: Vec<Typed>| binder.called(name, all);
        match (left.ty.element(), right.ty.element()) {
            (Some(_), Some(_)) => call(self, "array_cat", vec![left, right]),
            (Some(_), None) if right.ty == Type::UNKNOWN => {
                let right = self.coerced(right, left.ty)?;
                call(self, "array_cat", vec![left, right])
            }
            (None, Some(_)) if left.ty == Type::UNKNOWN => {
                let left = self.coerced(left, right.ty)?;
                call(self, "array_cat", vec![left, right])
            }
            (Some(_), None) => call(self, "array_append", vec![left, right]),
            (None, Some(_)) => call(self, "array_prepend", vec![left, right]),
            (None, None) if left.ty.is_text() || right.ty.is_text() => {
                let mut parts = Vec::new();
                for part in [left, right] {
                    let part = match part.ty {
                        Type::UNKNOWN => self.coerced(part, Type::TEXT)?,
                        Type::TEXT => part,
                        _ => cast(part, Type::TEXT, None)?,
                    };
                    parts.push(part.expr);
                }
                Ok(Typed::new(Expr::Concat(parts), Type::TEXT))
            }
            (None, None) => Err(no_operator(left.ty, "||", right.ty)),
        }
    }

    /// A subquery, whose columns have their types.
    pub(super) fn subquery(&mut self, query: &sqlparser::ast::Query) -> Result<Arc<Plan>> {
        let mut plan = self.query(query)?;
        self.settle(&mut plan)?;
        Ok(Arc::new(plan))
    }

    fn quantified(
        &mut self,
        all: bool,
        left: &Syntax,
        operator: &BinaryOperator,
        right: &Syntax,
    ) -> Result<Typed> {
        let name = operator_name(operator)?;
        let test =
            test_named(&name).ok_or_else(|| Error::unsupported(format_args!("{name} ANY")))?;
        Ok(Typed::bool(match bare(right) {
            Syntax::Subquery(query) => self.against_query(test, all, left, query)?,
            array => self.against_array(test, all, left, array, &name)?,
        }))
    }

    fn against_query(
        &mut self,
        test: Test,
        all: bool,
        left: &Syntax,
        query: &sqlparser::ast::Query,
    ) -> Result<Expr> {
        let left = self.expr(left)?;
        let mut plan = self.query(query)?;
        let width = match &left.expr {
            Expr::Row(fields) => fields.len(),
            _ => 1,
        };
        if plan.columns.len() != width {
            let message = format!(
                "subquery has {} columns, and {width} are compared with them",
                plan.columns.len()
            );
            return Err(Error::new("42601", message));
        }
        let left = match &left.expr {
            Expr::Row(fields) => {
                let mut row = Vec::new();
                let lefts: Vec<_> = fields.iter().cloned().zip(left.fields.clone()).collect();
                for (place, (field, column)) in lefts.into_iter().enumerate() {
                    let field = Typed::new(field, column.ty);
                    row.push(self.against_column(test, field, &mut plan, place)?);
                }
                record(row)
            }
            _ => self.against_column(test, left, &mut plan, 0)?,
        };
        Ok(many(test, all, left, Many::Plan(Arc::new(plan))))
    }

    /// `left`, as it is compared with a column of a subquery.
    fn against_column(
        &mut self,
        test: Test,
        left: Typed,
        plan: &mut Plan,
        place: usize,
    ) -> Result<Typed> {
        if plan.columns[place].ty == Type::UNKNOWN {
            let ty = if left.ty == Type::UNKNOWN {
                Type::TEXT
            } else {
                left.ty
            };
            self.coerce_column(plan, place, ty)?;
        }
        let column = Typed::new(Expr::Constant(Value::Null), plan.columns[place].ty);
        match test {
            Test::Like { .. } | Test::Regex { .. } => {
                self.pattern(test, left.clone(), column, "~~")?;
                self.coerced(left, Type::TEXT)
            }
            _ => Ok(self.comparable(left, column, "=")?.0),
        }
    }

    fn against_array(
        &mut self,
        test: Test,
        all: bool,
        left: &Syntax,
        array: &Syntax,
        name: &str,
    ) -> Result<Expr> {
        let left = self.expr(left)?;
        let array = self.expr(array)?;
        let array = match (array.ty, left.ty) {
            (Type::UNKNOWN, Type::UNKNOWN) => self.coerced(array, Type::TEXT_ARRAY)?,
            (Type::UNKNOWN, ty) => {
                let ty = ty.array()?;
                self.coerced(array, ty)?
            }
            _ => array,
        };
        let element = array.ty.element().ok_or_else(|| {
            Error::new("42809", "op ANY/ALL (array) requires array on right side")
        })?;
        let item = Typed::new(Expr::Constant(Value::Null), element);
        let left = match test {
            Test::Like { .. } | Test::Regex { .. } => {
                self.pattern(test, left.clone(), item, name)?;
                self.coerced(left, Type::TEXT)?
            }
            _ => self.comparable(left, item, name)?.0,
        };
        Ok(many(test, all, left, Many::Array(Box::new(array.expr))))
    }

    /// `(x).n`, `a[1]` and `a[1:2]`.
    fn access(&mut self, root: &Syntax, chain: &[AccessExpr]) -> Result<Typed> {
        let mut chain = chain.iter().peekable();
        let mut names = match root {
            Syntax::Identifier(name) => vec![folded(name)],
            Syntax::CompoundIdentifier(names) => names.iter().map(folded).collect(),
            _ => Vec::new(),
        };
        let mut typed = if names.is_empty() {
            self.expr(root)?
        } else {
            while let Some(AccessExpr::Dot(Syntax::Identifier(name))) = chain.peek() {
                names.push(folded(name));
                chain.next();
            }
            self.column(&names)?
        };
        for access in chain {
            typed = match access {
                AccessExpr::Dot(Syntax::Identifier(name)) => {
                    let name = folded(name);
                    let place = typed.fields.iter().position(|field| field.name == name);
                    let missing = || {
                        Error::new(
                            "42703",
                            format!("column \"{name}\" is not in the value before it"),
                        )
                    };
                    let place = place.ok_or_else(missing)?;
                    let field = typed.fields[place].clone();
                    Typed {
                        expr: Expr::Field(Box::new(typed.expr), place),
                        ty: field.ty,
                        fields: field.fields,
                    }
                }
                AccessExpr::Dot(other) => {
                    return Err(Error::unsupported(format_args!("\".{other}\"")));
                }
                AccessExpr::Subscript(subscript) => {
                    let subscripted = || {
                        Error::mismatch(format!("cannot subscript type {}", typed.ty.sql_name()))
                    };
                    let element = typed.ty.element().ok_or_else(subscripted)?;
                    match subscript {
                        Subscript::Index { index } => {
                            let at = self.boxed(index, Type::INT4)?;
                            Typed::new(Expr::Subscript(Box::new(typed.expr), at), element)
                        }
                        Subscript::Slice {
                            lower_bound,
                            upper_bound,
                            stride: None,
                        } => {
                            let mut bound = |bound: &Option<Syntax>| {
                                let bound = bound.as_ref();
                                bound.map(|bound| self.boxed(bound, Type::INT4)).transpose()
                            };
                            let (from, to) = (bound(lower_bound)?, bound(upper_bound)?);
                            let ty = element.array()?;
                            Typed::new(Expr::Slice(Box::new(typed.expr), from, to), ty)
                        }
                        other @ Subscript::Slice { .. } => {
                            return Err(Error::unsupported(format_args!("[{other}]")));
                        }
                    }
                }
            };
        }
        Ok(typed)
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

fn many(test: Test, all: bool, left: Typed, right: Many) -> Expr {
    Expr::Many {
        test,
        all,
        left: Box::new(left.expr),
        right,
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

/// An operator as it is written; `OPERATOR(pg_catalog.~)` is that without the schema.
fn operator_name(operator: &BinaryOperator) -> Result<String> {
    Ok(match operator {
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.as_slice() {
            [name] => name.clone(),
            [schema, name] if schema == "pg_catalog" => name.clone(),
            _ => {
                return Err(Error::new(
                    "42883",
                    format!("operator does not exist: {operator}"),
                ));
            }
        },
        BinaryOperator::Xor | BinaryOperator::Spaceship => {
            return Err(Error::unsupported(format_args!("operator {operator}")));
        }
        operator => operator.to_string(),
    })
}

fn test_named(name: &str) -> Option<Test> {
    let like = |ignores_case, is_not| Test::Like {
        ignores_case,
        is_not,
        escape: Some('\\'),
    };
    Some(match name {
        "=" => Test::Equal,
        "<>" | "!=" => Test::Unequal,
        "<" => Test::Less,
        "<=" => Test::LessOrEqual,
        ">" => Test::Greater,
        ">=" => Test::GreaterOrEqual,
        "~~" => like(false, false),
        "~~*" => like(true, false),
        "!~~" => like(false, true),
        "!~~*" => like(true, true),
        "~" => Test::Regex {
            ignores_case: false,
            is_not: false,
        },
        "~*" => Test::Regex {
            ignores_case: true,
            is_not: false,
        },
        "!~" => Test::Regex {
            ignores_case: false,
            is_not: true,
        },
        "!~*" => Test::Regex {
            ignores_case: true,
            is_not: true,
        },
        "@>" => Test::Contains,
        "<@" => Test::IsContained,
        "&&" => Test::Overlaps,
        _ => return None,
    })
}
