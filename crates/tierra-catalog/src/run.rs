//! Running plans.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::expression::{Expr, Row, Runs};
use crate::group;
use crate::join::{Join, function_rows, part};
use crate::lookup::Lookup;
use crate::plan::{Body, Distinct, Plan, Select, SetKind, order};
use crate::session::{ROW_STEPS, Session};
use crate::value::{Part, Value};

/// The most rounds of a recursive query.
const ROUNDS_MOST: usize = 10_000;

type Rows = Rc<Vec<Part>>;

/// A run of a query.
pub(crate) struct Run<'a> {
    session: Session<'a>,
    lookup: Lookup,
    plans: RefCell<HashMap<*const Plan, Rows>>,
    working: RefCell<HashMap<usize, Rows>>,
}

impl Runs for Run<'_> {
    fn session(&self) -> &Session<'_> {
        &self.session
    }

    fn rows(&self, plan: &Plan, outer: Option<&Row<'_>>) -> Result<Rows> {
        self.session.step(1)?;
        if plan.is_correlated {
            return self.computed(plan, outer).map(Rc::new);
        }
        let key = std::ptr::from_ref(plan);
        if let Some(found) = self.plans.borrow().get(&key) {
            return Ok(Rc::clone(found));
        }
        let rows = Rc::new(self.computed(plan, outer)?);
        self.plans.borrow_mut().insert(key, Rc::clone(&rows));
        Ok(rows)
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(session: Session<'a>) -> Self {
        Self {
            session,
            lookup: Lookup::default(),
            plans: RefCell::default(),
            working: RefCell::default(),
        }
    }

    fn computed(&self, plan: &Plan, outer: Option<&Row<'_>>) -> Result<Vec<Part>> {
        let mut rows = match &plan.body {
            Body::Select(select) => self.select(select, outer)?,
            Body::Values(rows) => {
                let row = Row { parts: &[], outer };
                let rows = rows.iter().map(|exprs| part(self, exprs, &row));
                rows.collect::<Result<_>>()?
            }
            Body::Set {
                kind,
                all,
                left,
                right,
            } => {
                let (left, right) = (self.rows(left, outer)?, self.rows(right, outer)?);
                let mut both = left.iter().chain(right.iter());
                both.try_for_each(|row| self.session.weigh(row))?;
                combined(*kind, *all, &left, &right)
            }
            Body::Working(number) => {
                let working = self.working.borrow();
                working
                    .get(number)
                    .map(|rows| rows.to_vec())
                    .unwrap_or_default()
            }
            Body::Recursive {
                number,
                all,
                first,
                step,
            } => self.recursive(*number, *all, first, step, outer)?,
            Body::Same(plan) => self.rows(plan, outer)?.to_vec(),
        };
        if matches!(plan.distinct, Distinct::All | Distinct::On(_)) || !plan.order.is_empty() {
            rows.iter().try_for_each(|row| self.session.weigh(row))?;
        }
        if matches!(plan.distinct, Distinct::All) {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(Arc::clone(row)));
        }
        rows.sort_by(|left, right| order(&plan.order, |by| (&left[*by], &right[*by])));
        if let Distinct::On(columns) = &plan.distinct {
            let mut seen: HashSet<Vec<Value>> = HashSet::new();
            rows.retain(|row| {
                seen.insert(columns.iter().map(|column| row[*column].clone()).collect())
            });
        }
        let count = |expr: &Option<Expr>, what: &str| -> Result<Option<usize>> {
            let row = Row { parts: &[], outer };
            let value = expr
                .as_ref()
                .map_or(Ok(Value::Null), |expr| expr.value(&row, self))?;
            match value {
                Value::Null => Ok(None),
                value => usize::try_from(value.as_int())
                    .map(Some)
                    .map_err(|_| Error::new("2201W", format!("{what} must not be negative"))),
            }
        };
        if let Some(offset) = count(&plan.offset, "OFFSET")? {
            rows.drain(..offset.min(rows.len()));
        }
        if let Some(limit) = count(&plan.limit, "LIMIT")? {
            rows.truncate(limit);
        }
        let width = plan.columns.len();
        if rows.first().is_some_and(|row| row.len() > width) {
            rows = rows.into_iter().map(|row| row[..width].into()).collect();
        }
        Ok(rows)
    }

    fn recursive(
        &self,
        number: usize,
        all: bool,
        first: &Plan,
        step: &Plan,
        outer: Option<&Row<'_>>,
    ) -> Result<Vec<Part>> {
        let mut seen = HashSet::new();
        let mut new = self.rows(first, outer)?.to_vec();
        let mut rows = Vec::new();
        for _ in 0..ROUNDS_MOST {
            if !all {
                new.retain(|row| seen.insert(Arc::clone(row)));
            }
            if new.is_empty() {
                return Ok(rows);
            }
            rows.extend(new.iter().cloned());
            self.working.borrow_mut().insert(number, Rc::new(new));
            new = self.rows(step, outer)?.to_vec();
        }
        Err(Error::too_much())
    }

    fn select(&self, select: &Select, outer: Option<&Row<'_>>) -> Result<Vec<Part>> {
        let join = Join {
            run: self,
            lookup: &self.lookup,
            select,
            outer,
        };
        let mut rows = join.all()?;
        // Behind the items come aggregates, window functions and functions that return rows.
        let none: Part = Arc::new([]);
        match &select.group {
            Some(group) => rows = group::grouped(self, select, group, rows, outer)?,
            None => rows
                .iter_mut()
                .for_each(|parts| parts.push(Arc::clone(&none))),
        }
        if select.windows.is_empty() {
            rows.iter_mut()
                .for_each(|parts| parts.push(Arc::clone(&none)));
        } else {
            group::windows(self, &select.windows, &mut rows, outer)?;
        }
        let mut outputs = Vec::with_capacity(rows.len());
        for mut parts in rows {
            if select.row_functions.is_empty() {
                outputs.push(part(self, &select.outputs, &Row::of(&parts, outer))?);
                continue;
            }
            let found = function_rows(self, &select.row_functions, false, &Row::of(&parts, outer))?;
            parts.push(Arc::clone(&none));
            let last = parts.len() - 1;
            for values in found {
                parts[last] = values;
                self.session.step(ROW_STEPS)?;
                outputs.push(part(self, &select.outputs, &Row::of(&parts, outer))?);
            }
        }
        self.session.step(outputs.len() as u64)?;
        Ok(outputs)
    }
}

fn combined(kind: SetKind, all: bool, left: &[Part], right: &[Part]) -> Vec<Part> {
    if kind == SetKind::Union {
        let both = left.iter().chain(right).cloned();
        let mut seen = HashSet::new();
        return both
            .filter(|row| all || seen.insert(Arc::clone(row)))
            .collect();
    }
    let mut counts: HashMap<&Part, usize> = HashMap::new();
    for row in right {
        *counts.entry(row).or_default() += 1;
    }
    let mut seen = HashSet::new();
    let kept = left.iter().filter(|row| {
        if !all && !seen.insert(Arc::clone(row)) {
            return false;
        }
        let is_there = match counts.get_mut(row) {
            Some(count) if *count > 0 => {
                if all {
                    *count -= 1;
                }
                true
            }
            _ => false,
        };
        is_there == (kind == SetKind::Intersect)
    });
    kept.cloned().collect()
}
