//! Queries: set operations, VALUES, ORDER BY and LIMIT.

use std::sync::Arc;

use sqlparser::ast::{
    Expr as Syntax, LimitClause, OrderBy, OrderByExpr, OrderByKind, Query, SetExpr, SetOperator,
    SetQuantifier, Value as Literal,
};

use super::coerce::unified;
use super::{Binder, Scope, Typed, folded};
use crate::error::{Error, Result};
use crate::expression::Expr;
use crate::plan::{Body, Column, Distinct, Key, Plan, SetKind};
use crate::types::Type;

impl Binder {
    /// A query. Literals among its columns have no type yet.
    pub(crate) fn query(&mut self, query: &Query) -> Result<Plan> {
        if query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.locks.is_empty()
            || !query.pipe_operators.is_empty()
        {
            return Err(Error::unsupported("a clause behind ORDER BY and LIMIT"));
        }
        self.depth += 1;
        if self.depth > super::DEPTH_MOST {
            return Err(Error::new("54001", "the query is nested too deep"));
        }
        let known = self.named.len();
        if let Some(with) = &query.with {
            self.with(with)?;
        }
        let mut plan = match &*query.body {
            SetExpr::Select(select) => self.select(select, query.order_by.as_ref())?,
            body => {
                let mut plan = self.body(body)?;
                let has_own =
                    !plan.order.is_empty() || plan.limit.is_some() || plan.offset.is_some();
                if has_own
                    && (query.order_by.is_some()
                        || query.limit_clause.is_some()
                        || query.fetch.is_some())
                {
                    plan = around(plan);
                }
                if let Some(order) = &query.order_by {
                    plan.order = self.order_of_columns(order, &plan.columns)?;
                }
                plan
            }
        };
        self.limit(query, &mut plan)?;
        self.named.truncate(known);
        self.depth -= 1;
        Ok(plan)
    }

    /// Makes literals among the columns texts.
    pub(crate) fn settle(&mut self, plan: &mut Plan) -> Result<()> {
        for place in 0..plan.columns.len() {
            if plan.columns[place].ty == Type::UNKNOWN {
                self.coerce_column(plan, place, Type::TEXT)?;
            }
        }
        Ok(())
    }

    /// Makes the values of a column ones of type `to`.
    pub(super) fn coerce_column(&mut self, plan: &mut Plan, place: usize, to: Type) -> Result<()> {
        let from = std::mem::replace(&mut plan.columns[place].ty, to);
        if from == to {
            return Ok(());
        }
        let mut coerce = |expr: &mut Expr| -> Result<()> {
            let inner = std::mem::replace(expr, Expr::And(Vec::new()));
            *expr = self.coerced(Typed::new(inner, from), to)?.expr;
            Ok(())
        };
        match &mut plan.body {
            Body::Select(select) => coerce(&mut select.outputs[place]),
            Body::Values(rows) => rows.iter_mut().try_for_each(|row| coerce(&mut row[place])),
            Body::Set { left, right, .. } => {
                for arm in [left, right] {
                    let arm = Arc::get_mut(arm).ok_or_else(|| Error::unsupported("this UNION"))?;
                    self.coerce_column(arm, place, to)?;
                }
                Ok(())
            }
            Body::Same(inner) => {
                let inner = Arc::get_mut(inner).ok_or_else(|| Error::unsupported("this query"))?;
                self.coerce_column(inner, place, to)
            }
            Body::Working(_) | Body::Recursive { .. } => {
                Err(Error::unsupported("a literal in a recursive query"))
            }
        }
    }

    pub(super) fn body(&mut self, body: &SetExpr) -> Result<Plan> {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::Values(values) => {
                self.scopes.push(Scope::default());
                let mut rows: Vec<Vec<Typed>> = Vec::new();
                for row in &values.rows {
                    let row = row
                        .content
                        .iter()
                        .map(|expr| self.expr(expr))
                        .collect::<Result<Vec<_>>>()?;
                    if rows.first().is_some_and(|first| first.len() != row.len()) {
                        return Err(Error::new(
                            "42601",
                            "VALUES lists must all be the same length",
                        ));
                    }
                    rows.push(row);
                }
                let mut columns = Vec::new();
                for place in 0..rows.first().map_or(0, Vec::len) {
                    let mut ty = Type::UNKNOWN;
                    for row in &rows {
                        ty = unified(ty, row[place].ty, "VALUES")?;
                    }
                    for row in &mut rows {
                        row[place] = self.coerced(row[place].clone(), ty)?;
                    }
                    columns.push(Column {
                        name: format!("column{}", place + 1),
                        ty,
                        fields: Vec::new(),
                    });
                }
                let rows = rows
                    .into_iter()
                    .map(|row| row.into_iter().map(|typed| typed.expr).collect());
                let body = Body::Values(rows.collect());
                let scope = self.scopes.pop().unwrap_or_default();
                Ok(plan_of(columns, body, scope.is_correlated))
            }
            SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => {
                self.depth += 1;
                if self.depth > super::DEPTH_MOST {
                    return Err(Error::new("54001", "the query is nested too deep"));
                }
                let (mut left, mut right) = (self.body(left)?, self.body(right)?);
                self.depth -= 1;
                let kind = match op {
                    SetOperator::Union => SetKind::Union,
                    SetOperator::Intersect => SetKind::Intersect,
                    SetOperator::Except => SetKind::Except,
                    SetOperator::Minus => return Err(Error::unsupported("MINUS")),
                };
                let all = match set_quantifier {
                    SetQuantifier::All => true,
                    SetQuantifier::None | SetQuantifier::Distinct => false,
                    _ => return Err(Error::unsupported("BY NAME")),
                };
                if left.columns.len() != right.columns.len() {
                    let message = format!("each {op} query must have the same number of columns");
                    return Err(Error::new("42601", message));
                }
                let mut columns = left.columns.clone();
                for (place, column) in columns.iter_mut().enumerate() {
                    column.ty = unified(column.ty, right.columns[place].ty, &op.to_string())?;
                    self.coerce_column(&mut left, place, column.ty)?;
                    self.coerce_column(&mut right, place, column.ty)?;
                }
                let is_correlated = left.is_correlated || right.is_correlated;
                let body = Body::Set {
                    kind,
                    all,
                    left: Arc::new(left),
                    right: Arc::new(right),
                };
                Ok(plan_of(columns, body, is_correlated))
            }
            other => Err(Error::unsupported(format_args!("\"{other}\""))),
        }
    }

    fn limit(&mut self, query: &Query, plan: &mut Plan) -> Result<()> {
        let (mut limit, mut offset) = (None, None);
        match &query.limit_clause {
            None => {}
            Some(LimitClause::LimitOffset {
                limit: most,
                offset: skipped,
                limit_by,
            }) if limit_by.is_empty() => {
                limit = most.as_ref();
                offset = skipped.as_ref().map(|offset| &offset.value);
            }
            Some(other) => return Err(Error::unsupported(format_args!("\"{other}\""))),
        }
        let one = Syntax::Value(Literal::Number("1".to_owned(), false).into());
        if let Some(fetch) = &query.fetch {
            if fetch.with_ties || fetch.percent || limit.is_some() {
                return Err(Error::unsupported(format_args!("\"{fetch}\"")));
            }
            limit = Some(fetch.quantity.as_ref().unwrap_or(&one));
        }
        self.scopes.push(Scope::default());
        for (syntax, kept) in [(limit, &mut plan.limit), (offset, &mut plan.offset)] {
            if let Some(syntax) = syntax {
                let typed = self.expr(syntax)?;
                *kept = Some(self.coerced(typed, Type::INT8)?.expr);
            }
        }
        let scope = self.scopes.pop().unwrap_or_default();
        plan.is_correlated |= scope.is_correlated;
        Ok(())
    }

    /// ORDER BY behind a set operation: by names and places of columns.
    fn order_of_columns(&mut self, order: &OrderBy, columns: &[Column]) -> Result<Vec<Key>> {
        let keys = order_keys(order)?.iter().map(|syntax| {
            let place = match &syntax.expr {
                Syntax::Identifier(name) => {
                    let name = folded(name);
                    columns.iter().position(|column| column.name == name)
                }
                other => place(other, columns.len())?,
            };
            let missing = || {
                Error::unsupported(format_args!(
                    "ORDER BY {} behind a set operation",
                    syntax.expr
                ))
            };
            key(place.ok_or_else(missing)?, syntax)
        });
        keys.collect()
    }
}

pub(super) fn plan_of(columns: Vec<Column>, body: Body, is_correlated: bool) -> Plan {
    Plan {
        columns,
        body,
        distinct: Distinct::No,
        order: Vec::new(),
        limit: None,
        offset: None,
        is_correlated,
    }
}

/// A plan of the rows of another, to be ordered and limited once more.
fn around(plan: Plan) -> Plan {
    plan_of(plan.columns.clone(), Body::Same(Arc::new(plan)), true)
}

/// The place that a number in ORDER BY, GROUP BY or DISTINCT ON means.
pub(super) fn place(syntax: &Syntax, columns: usize) -> Result<Option<usize>> {
    let Syntax::Value(value) = syntax else {
        return Ok(None);
    };
    match &value.value {
        Literal::Number(digits, _) => match digits.parse::<usize>() {
            Ok(place) if (1..=columns).contains(&place) => Ok(Some(place - 1)),
            _ => Err(Error::new(
                "42P10",
                format!("ORDER BY position {digits} is not in select list"),
            )),
        },
        _ => Ok(None),
    }
}

pub(super) fn order_keys(order: &OrderBy) -> Result<&[OrderByExpr]> {
    match &order.kind {
        OrderByKind::Expressions(keys) if order.interpolate.is_none() => Ok(keys),
        _ => Err(Error::unsupported("ORDER BY ALL")),
    }
}

/// A key to sort by. NULL is the greatest unless something else is said.
pub(super) fn key<By>(by: By, syntax: &OrderByExpr) -> Result<Key<By>> {
    if syntax.with_fill.is_some() {
        return Err(Error::unsupported("WITH FILL"));
    }
    let is_descending = syntax.options.asc == Some(false);
    Ok(Key {
        by,
        is_descending,
        nulls_first: syntax.options.nulls_first.unwrap_or(is_descending),
    })
}
