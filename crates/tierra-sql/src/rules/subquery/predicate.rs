//! A predicate of a subquery.

use std::sync::Arc;

use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InList, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use super::correlation;

/// `[NOT] subject op ANY (rows)`, or `[NOT] EXISTS (rows)` without a subject.
pub(super) struct Predicate {
    pub(super) is_negated: bool,
    pub(super) subject: Option<(Expr, Operator)>,
    pub(super) rows: Subquery,
}

impl Predicate {
    /// The predicate of `expr`, if it is one.
    pub(super) fn of(expr: &Expr) -> Result<Option<Self>> {
        let any = |expr: &Expr, op, rows: &Subquery, is_negated| Self {
            is_negated,
            subject: Some((expr.clone(), op)),
            rows: rows.clone(),
        };
        Ok(Some(match expr {
            Expr::Exists(Exists { subquery, negated }) => Self {
                is_negated: *negated,
                subject: None,
                rows: subquery.clone(),
            },
            Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            }) => any(expr, Operator::Eq, subquery, *negated),
            Expr::InList(InList {
                expr,
                list,
                negated,
            }) => match list.as_slice() {
                [Expr::ScalarSubquery(rows)] => any(expr, Operator::Eq, rows, *negated),
                _ => return Ok(None),
            },
            Expr::SetComparison(SetComparison {
                expr,
                subquery,
                op,
                quantifier,
            }) => {
                use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
                match (quantifier, op, op.negate()) {
                    (_, op, _) if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) => {
                        return plan_err!("{op} cannot be followed by ANY or ALL");
                    }
                    (SetQuantifier::Any, op, _) => any(expr, *op, subquery, false),
                    (SetQuantifier::All, _, Some(op)) => any(expr, op, subquery, true),
                    (SetQuantifier::All, op, None) => {
                        return plan_err!("{op} cannot be followed by ALL");
                    }
                }
            }
            Expr::Not(inner) => match Self::of(inner)? {
                Some(inner) => Self {
                    is_negated: !inner.is_negated,
                    ..inner
                },
                None => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// The form from which DataFusion makes joins; `None` for a comparison that it does not know.
    pub(super) fn joined(&self) -> Option<Result<Expr>> {
        let rows = |named: LogicalPlan| Subquery {
            subquery: Arc::new(named),
            ..self.rows.clone()
        };
        match &self.subject {
            None => {
                let exists = Exists::new(self.rows.clone(), self.is_negated);
                Some(Ok(Expr::Exists(exists)))
            }
            Some((value, Operator::Eq)) => {
                let named = correlation::with_name(&self.rows.subquery);
                Some(named.map(|named| {
                    let value = Box::new(value.clone());
                    let negated = self.is_negated;
                    Expr::InSubquery(InSubquery::new(value, rows(named), negated))
                }))
            }
            Some(_) => None,
        }
    }

    /// Whether it can be evaluated from the rows of `schema` alone.
    pub(super) fn refers_only_to(&self, schema: &DFSchema) -> bool {
        let subject = self.subject.iter();
        let columns = subject.flat_map(|(value, _)| value.column_refs());
        let outer = self.rows.subquery.all_out_ref_exprs();
        let outer = outer.iter().filter_map(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        });
        columns.chain(outer).all(|column| schema.has_column(column))
    }
}
