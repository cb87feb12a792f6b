//! Running plans.
//!
//! Everything is in memory, so a query has a budget of steps: one that would take much time or memory fails.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use regex::Regex;

use crate::contents::{Declared, Objects};
use crate::error::{Error, Result};
use crate::expression::{Expr, Part, Row};
use crate::functions::RowsFunction;
use crate::group;
use crate::join::Join;
use crate::pattern::regex;
use crate::plan::{Body, Distinct, Key, Plan, Select, SetKind};
use crate::tables;
use crate::value::Value;

/// The most steps of a query: some seconds.
const STEPS_MOST: u64 = 30_000_000;
/// What a row that is kept costs, so that those of a query take some hundred MB at most.
pub(crate) const ROW_STEPS: u64 = 10;
/// The most rounds of a recursive query.
const ROUNDS_MOST: usize = 10_000;

type Rows = Rc<Vec<Part>>;
/// The rows of a table that have a value in a column.
type Places = Rc<HashMap<Value, Vec<usize>>>;

/// A run of a query.
pub(crate) struct Run<'a> {
    pub(crate) objects: &'a Objects<'a>,
    pub(crate) arguments: Vec<Value>,
    steps: Cell<u64>,
    tables: RefCell<HashMap<u32, Rows>>,
    indexes: RefCell<HashMap<(u32, usize), Places>>,
    plans: RefCell<HashMap<*const Plan, Rows>>,
    working: RefCell<HashMap<usize, Rows>>,
    patterns: RefCell<HashMap<(String, bool), Regex>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(objects: &'a Objects<'a>, arguments: Vec<Value>) -> Self {
        Self {
            objects,
            arguments,
            steps: Cell::new(0),
            tables: RefCell::default(),
            indexes: RefCell::default(),
            plans: RefCell::default(),
            working: RefCell::default(),
            patterns: RefCell::default(),
        }
    }

    /// Counts steps.
    pub(crate) fn step(&self, steps: u64) -> Result<()> {
        let sum = self.steps.get().saturating_add(steps);
        self.steps.set(sum);
        if sum > STEPS_MOST {
            Err(Error::too_much())
        } else {
            Ok(())
        }
    }

    pub(crate) fn regex(&self, pattern: &str, ignores_case: bool) -> Result<Regex> {
        let key = (pattern.to_owned(), ignores_case);
        if let Some(found) = self.patterns.borrow().get(&key) {
            return Ok(found.clone());
        }
        // To compile one takes as long as many steps.
        self.step(1_000)?;
        let made = regex(pattern, ignores_case)?;
        self.patterns.borrow_mut().insert(key, made.clone());
        Ok(made)
    }

    /// The rows of a table.
    pub(crate) fn table(&self, table: &'static Declared) -> Result<Rows> {
        if let Some(found) = self.tables.borrow().get(&table.oid) {
            return Ok(Rc::clone(found));
        }
        let rows = Rc::new(tables::rows(table, self.objects)?);
        self.step(rows.len() as u64)?;
        self.tables.borrow_mut().insert(table.oid, Rc::clone(&rows));
        Ok(rows)
    }

    /// The places of a table's rows that have `key` in a column.
    pub(crate) fn found(
        &self,
        table: &'static Declared,
        column: usize,
        key: &Value,
    ) -> Result<Vec<usize>> {
        if key.is_null() {
            return Ok(Vec::new());
        }
        let known = self
            .indexes
            .borrow()
            .get(&(table.oid, column))
            .map(Rc::clone);
        let places = match known {
            Some(places) => places,
            None => {
                let mut places: HashMap<Value, Vec<usize>> = HashMap::new();
                for (place, row) in self.table(table)?.iter().enumerate() {
                    places.entry(row[column].clone()).or_default().push(place);
                }
                let places = Rc::new(places);
                self.indexes
                    .borrow_mut()
                    .insert((table.oid, column), Rc::clone(&places));
                places
            }
        };
        Ok(places.get(key).cloned().unwrap_or_default())
    }

    /// The rows of a query, within a row of the query around it.
    pub(crate) fn rows(&self, plan: &Plan, outer: Option<&Row<'_>>) -> Result<Rows> {
        self.step(1)?;
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

    fn computed(&self, plan: &Plan, outer: Option<&Row<'_>>) -> Result<Vec<Part>> {
        let mut rows = match &plan.body {
            Body::Select(select) => self.select(select, outer)?,
            Body::Values(rows) => {
                let row = Row { parts: &[], outer };
                let rows = rows.iter().map(|exprs| self.part(exprs, &row));
                rows.collect::<Result<_>>()?
            }
            Body::Set {
                kind,
                all,
                left,
                right,
            } => {
                let (left, right) = (self.rows(left, outer)?, self.rows(right, outer)?);
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

    fn part(&self, exprs: &[Expr], row: &Row<'_>) -> Result<Part> {
        exprs.iter().map(|expr| expr.value(row, self)).collect()
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
                outputs.push(self.part(
                    &select.outputs,
                    &Row {
                        parts: &parts,
                        outer,
                    },
                )?);
                continue;
            }
            let found = self.function_rows(
                &select.row_functions,
                false,
                &Row {
                    parts: &parts,
                    outer,
                },
            )?;
            parts.push(Arc::clone(&none));
            let last = parts.len() - 1;
            for values in found {
                parts[last] = values;
                self.step(ROW_STEPS)?;
                outputs.push(self.part(
                    &select.outputs,
                    &Row {
                        parts: &parts,
                        outer,
                    },
                )?);
            }
        }
        self.step(outputs.len() as u64)?;
        Ok(outputs)
    }

    /// The rows of functions side by side; where one has ended, its columns are NULL.
    pub(crate) fn function_rows(
        &self,
        functions: &[(RowsFunction, Vec<Expr>)],
        is_numbered: bool,
        row: &Row<'_>,
    ) -> Result<Vec<Part>> {
        let all = functions.iter().map(|(function, arguments)| {
            let arguments = self.part(arguments, row)?;
            Ok((function.width(), function.rows(self, &arguments)?))
        });
        let all: Vec<(usize, Vec<Vec<Value>>)> = all.collect::<Result<_>>()?;
        let len = all.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
        self.step(len as u64 * ROW_STEPS)?;
        let rows = (0..len).map(|place| {
            let mut values = Vec::new();
            for (width, rows) in &all {
                match rows.get(place) {
                    Some(row) => values.extend(row.iter().cloned()),
                    None => values.extend(std::iter::repeat_n(Value::Null, *width)),
                }
            }
            if is_numbered {
                values.push(Value::Int(place as i64 + 1));
            }
            values.into()
        });
        Ok(rows.collect())
    }
}

/// The order of two rows, of which `values` takes the values of a key.
pub(crate) fn order<'v, By>(
    keys: &[Key<By>],
    values: impl Fn(&By) -> (&'v Value, &'v Value),
) -> std::cmp::Ordering {
    let orders = keys.iter().map(|key| {
        let (left, right) = values(&key.by);
        match (left.is_null(), right.is_null()) {
            (false, false) if key.is_descending => right.order(left),
            (false, false) => left.order(right),
            (left, right) if key.nulls_first => right.cmp(&left),
            (left, right) => left.cmp(&right),
        }
    });
    orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
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
