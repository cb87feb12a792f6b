//! Operators, and what is written like one: LIKE, IS DISTINCT FROM.

use sqlparser::ast::{BinaryOperator, Expr as Syntax, Value as Literal, ValueWithSpan};

use super::coerce::{cast, no_operator, unified, unpadded};
use super::{Binder, Typed};
use crate::error::{Error, Result};
use crate::expression::{Expr, Test};
use crate::types::Type;
use crate::value::Value;

impl Binder {
    pub(super) fn minus(&mut self, syntax: &Syntax) -> Result<Typed> {
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

    pub(super) fn same(&mut self, left: &Syntax, right: &Syntax) -> Result<Expr> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right) = self.comparable(left, right, "IS DISTINCT FROM")?;
        let (left, right) = (unpadded(left)?, unpadded(right)?);
        Ok(Expr::IsSame(Box::new(left.expr), Box::new(right.expr)))
    }

    pub(super) fn like(
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

    pub(super) fn pattern(
        &mut self,
        test: Test,
        text: Typed,
        pattern: Typed,
        name: &str,
    ) -> Result<Typed> {
        if !text.ty.is_text() || !pattern.ty.is_text() {
            return Err(no_operator(text.ty, name, pattern.ty));
        }
        // Here the blanks of `character(n)` count.
        let text = match text.ty {
            Type::BPCHAR => text,
            _ => self.coerced(text, Type::TEXT)?,
        };
        let pattern = self.coerced(pattern, Type::TEXT)?;
        Ok(Typed::bool(Expr::Test(
            test,
            Box::new(text.expr),
            Box::new(pattern.expr),
        )))
    }

    pub(super) fn binary(&mut self, left: Typed, name: &str, right: Typed) -> Result<Typed> {
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
            _ => unified(wide(left.ty), wide(right.ty), "operator")?,
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
}

/// An operator as it is written; `OPERATOR(pg_catalog.~)` is that without the schema.
pub(super) fn operator_name(operator: &BinaryOperator) -> Result<String> {
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

pub(super) fn test_named(name: &str) -> Option<Test> {
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
