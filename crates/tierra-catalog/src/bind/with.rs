//! WITH: queries that have names, and those that name themselves.

use std::sync::Arc;

use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier, TableAliasColumnDef, With};

use super::query::plan_of;
use super::{Binder, Named, folded};
use crate::error::{Error, Result};
use crate::plan::{Body, Column, Plan};

impl Binder {
    pub(super) fn with(&mut self, with: &With) -> Result<()> {
        for cte in &with.cte_tables {
            if cte.from.is_some() {
                return Err(Error::unsupported("FROM behind a query of WITH"));
            }
            let name = folded(&cte.alias.name);
            let home = self.scopes.len();
            let mut plan = match &*cte.query.body {
                SetExpr::SetOperation {
                    left,
                    op: SetOperator::Union,
                    set_quantifier,
                    right,
                } if with.recursive
                    && cte.query.with.is_none()
                    && cte.query.order_by.is_none()
                    && cte.query.limit_clause.is_none() =>
                {
                    self.recursive(
                        &name,
                        left,
                        right,
                        *set_quantifier == SetQuantifier::All,
                        &cte.alias.columns,
                    )?
                }
                _ => self.query(&cte.query)?,
            };
            self.settle(&mut plan)?;
            rename(&mut plan.columns, &cte.alias.columns)?;
            let columns = plan.columns.clone();
            self.named.push(Named {
                name,
                columns,
                plan: Arc::new(plan),
                home,
            });
        }
        Ok(())
    }

    fn recursive(
        &mut self,
        name: &str,
        first: &SetExpr,
        step: &SetExpr,
        all: bool,
        names: &[TableAliasColumnDef],
    ) -> Result<Plan> {
        let home = self.scopes.len();
        let outermost = std::mem::replace(&mut self.outermost, usize::MAX);
        let mut first = self.body(first)?;
        self.settle(&mut first)?;
        let mut columns = first.columns.clone();
        rename(&mut columns, names)?;
        self.recursions += 1;
        let number = self.recursions;
        let working = plan_of(columns.clone(), Body::Working(number), true);
        self.named.push(Named {
            name: name.to_owned(),
            columns: columns.clone(),
            plan: Arc::new(working),
            home,
        });
        let step = self.body(step);
        self.named.pop();
        let mut step = step?;
        if step.columns.len() != columns.len() {
            return Err(Error::new(
                "42601",
                "each UNION query must have the same number of columns",
            ));
        }
        for (place, column) in columns.iter().enumerate() {
            self.coerce_column(&mut step, place, column.ty)?;
        }
        let is_correlated = self.outermost < home;
        self.outermost = self.outermost.min(outermost);
        let body = Body::Recursive {
            number,
            all,
            first: Arc::new(first),
            step: Arc::new(step),
        };
        Ok(plan_of(columns, body, is_correlated))
    }
}

fn rename(columns: &mut [Column], names: &[TableAliasColumnDef]) -> Result<()> {
    if names.len() > columns.len() {
        return Err(Error::new(
            "42P10",
            format!("the query of WITH has {} columns", columns.len()),
        ));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = folded(&name.name);
    }
    Ok(())
}
