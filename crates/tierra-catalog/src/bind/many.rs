//! What is compared with many values: ANY, ALL and IN.

use std::sync::Arc;

use sqlparser::ast::{BinaryOperator, Expr as Syntax, Query};

use super::coerce::unpadded;
use super::expression::{bare, record};
use super::operator::{operator_name, test_named};
use super::{Binder, Typed};
use crate::error::{Error, Result};
use crate::expression::{Expr, Many, Test};
use crate::plan::Plan;
use crate::types::Type;
use crate::value::Value;

impl Binder {
    pub(super) fn quantified(
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

    pub(super) fn against_query(
        &mut self,
        test: Test,
        all: bool,
        left: &Syntax,
        query: &Query,
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
            _ => {
                let left = unpadded(self.comparable(left, column, "=")?.0)?;
                if plan.columns[place].ty == Type::BPCHAR {
                    self.coerce_column(plan, place, Type::TEXT)?;
                }
                Ok(left)
            }
        }
    }

    pub(super) fn against_array(
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
            _ => unpadded(self.comparable(left, item, name)?.0)?,
        };
        let array = unpadded(array)?;
        Ok(many(test, all, left, Many::Array(Box::new(array.expr))))
    }
}

pub(super) fn many(test: Test, all: bool, left: Typed, right: Many) -> Expr {
    Expr::Many {
        test,
        all,
        left: Box::new(left.expr),
        right,
    }
}
