//! The rows of FROM that meet the conditions.
//!
//! A row has a part for each item; a part that is not there yet is empty. Conditions are checked as soon as all items that they name are
//! there, equalities by hashing. Items that are joined by `,` or INNER JOIN are taken in the order that keeps the rows few; those that
//! name others (LATERAL) behind these.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::expression::{Expr, Row, Runs};
use crate::functions::RowsFunction;
use crate::lookup::Lookup;
use crate::plan::{Condition, From, Select, Source};
use crate::session::ROW_STEPS;
use crate::value::{Part, Value};

/// Parts of some items.
type Parts = Vec<Part>;

pub(crate) struct Join<'a> {
    pub(crate) run: &'a dyn Runs,
    pub(crate) lookup: &'a Lookup,
    pub(crate) select: &'a Select,
    pub(crate) outer: Option<&'a Row<'a>>,
}

/// The items that are there already, with their parts.
#[derive(Clone, Copy)]
struct Given<'a> {
    parts: &'a [Part],
    mask: u64,
}

fn is_within(mask: u64, outer: u64) -> bool {
    mask & !outer == 0
}

impl Join<'_> {
    /// All rows, each with as many parts as there are items.
    pub(crate) fn all(&self) -> Result<Vec<Parts>> {
        let none: Part = Arc::new([]);
        let parts = vec![none; self.select.items.len()];
        let conditions: Vec<&Condition> = self.select.conditions.iter().collect();
        self.rows(
            &self.select.from,
            &conditions,
            Given {
                parts: &parts,
                mask: 0,
            },
        )
    }

    fn row<'b>(&'b self, parts: &'b [Part]) -> Row<'b> {
        Row {
            parts,
            outer: self.outer,
        }
    }

    fn value(&self, expr: &Expr, parts: &[Part]) -> Result<Value> {
        expr.value(&self.row(parts), self.run)
    }

    fn holds(&self, conditions: &[&Condition], parts: &[Part]) -> Result<bool> {
        for condition in conditions {
            self.run.session().step(1)?;
            if !self.value(&condition.expr, parts)?.is_true() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rows of `from` that meet `conditions`, which name items of it and of those given.
    fn rows(&self, from: &From, conditions: &[&Condition], given: Given<'_>) -> Result<Vec<Parts>> {
        match from {
            From::Item(item) => self.item(*item, conditions, given),
            From::Inner(parts, on) => {
                let all: Vec<&Condition> = conditions.iter().copied().chain(on).collect();
                self.inner(parts, &all, given)
            }
            From::Outer {
                full,
                left,
                right,
                on,
            } => {
                let on: Vec<&Condition> = on.iter().collect();
                self.outer(*full, left, right, &on, conditions, given)
            }
        }
    }

    fn item(
        &self,
        place: usize,
        conditions: &[&Condition],
        given: Given<'_>,
    ) -> Result<Vec<Parts>> {
        let item = &self.select.items[place];
        let row = self.row(given.parts);
        let (all, found) = match &item.source {
            Source::Table(table) => {
                let all = self.lookup.table(self.run.session(), table)?;
                let mut found = None;
                for condition in conditions {
                    if let Some((column, other)) = lookup(condition, place, given.mask) {
                        let key = self.value(other, given.parts)?;
                        found = Some(self.lookup.found(self.run.session(), table, column, &key)?);
                        break;
                    }
                }
                (all, found)
            }
            Source::Plan(plan, up) => {
                let mut around = Some(&row);
                for _ in 0..*up {
                    around = around.and_then(|row| row.outer);
                }
                (self.run.rows(plan, around)?, None)
            }
            Source::Functions(functions, is_numbered) => {
                let rows = function_rows(self.run, functions, *is_numbered, &row)?;
                (std::rc::Rc::new(rows), None)
            }
        };
        let mut parts = given.parts.to_vec();
        let mut rows = Vec::new();
        let mut take = |part: &Part| -> Result<()> {
            self.run.session().step(1)?;
            parts[place] = Arc::clone(part);
            if self.holds(conditions, &parts)? {
                self.run.session().step(kept(&parts))?;
                rows.push(parts.clone());
            }
            Ok(())
        };
        match found {
            Some(places) => places.iter().try_for_each(|found| take(&all[*found]))?,
            None => all.iter().try_for_each(take)?,
        }
        Ok(rows)
    }

    /// The items outside `from` that it names.
    fn needs(&self, from: &From) -> u64 {
        let mask = from.mask();
        let items = self.select.items.iter().enumerate();
        let inside = items.filter(|(place, _)| mask >> place & 1 == 1);
        inside.fold(0, |needs, (_, item)| needs | item.needs) & !mask
    }

    fn inner(
        &self,
        parts: &[From],
        conditions: &[&Condition],
        given: Given<'_>,
    ) -> Result<Vec<Parts>> {
        let (known, conditions): (Vec<_>, Vec<_>) = conditions
            .iter()
            .partition(|condition| is_within(condition.mask, given.mask));
        if !self.holds(&known, given.parts)? {
            return Ok(Vec::new());
        }
        let within = |mask: u64| -> Vec<&Condition> {
            let found = conditions
                .iter()
                .filter(|condition| is_within(condition.mask, mask));
            found.copied().collect()
        };
        let mut units = Vec::new();
        let mut dependent = Vec::new();
        for part in parts {
            let mask = part.mask();
            if !is_within(self.needs(part), given.mask) {
                dependent.push(part);
                continue;
            }
            let rows = self.rows(part, &within(given.mask | mask), given)?;
            if rows.is_empty() {
                return Ok(rows);
            }
            units.push((mask, rows));
        }
        let mut mask = given.mask;
        let mut rows = vec![given.parts.to_vec()];
        while !units.is_empty() || !dependent.is_empty() {
            let joins = |unit: u64| {
                let mut equalities = conditions
                    .iter()
                    .filter_map(|condition| condition.equality());
                equalities.any(|(_, left, _, right)| {
                    let crosses = |left, right| {
                        left & !given.mask != 0
                            && is_within(left, mask)
                            && is_within(right, unit | given.mask)
                    };
                    crosses(left, right) || crosses(right, left)
                })
            };
            let best = units
                .iter()
                .enumerate()
                .min_by_key(|(_, (unit, rows))| (!joins(*unit), rows.len()));
            let is_joined = best.is_some_and(|(_, (unit, _))| mask == given.mask || joins(*unit));
            let next = dependent
                .iter()
                .position(|part| is_within(self.needs(part), mask));
            match (best.map(|(place, _)| place), next) {
                (Some(place), next) if is_joined || next.is_none() => {
                    let (unit, right) = units.swap_remove(place);
                    let before = within(mask | unit);
                    let new: Vec<&Condition> = before
                        .into_iter()
                        .filter(|condition| {
                            !is_within(condition.mask, mask)
                                && !is_within(condition.mask, unit | given.mask)
                        })
                        .collect();
                    let matches = Matches::of(self, &new, mask, unit | given.mask, &right)?;
                    let mut joined = Vec::new();
                    for left in &rows {
                        matches.each(self, left, &right, unit, |parts, _| joined.push(parts))?;
                    }
                    rows = joined;
                    mask |= unit;
                }
                (_, Some(place)) => {
                    let part = dependent.remove(place);
                    let after = mask | part.mask();
                    let mut new = within(after);
                    new.retain(|condition| !is_within(condition.mask, mask));
                    let mut joined = Vec::new();
                    for left in &rows {
                        joined.extend(self.rows(part, &new, Given { parts: left, mask })?);
                    }
                    rows = joined;
                    mask = after;
                }
                _ => {
                    return Err(Error::unsupported(
                        "an item of FROM that names one behind it",
                    ));
                }
            }
            if rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(rows)
    }

    fn outer(
        &self,
        is_full: bool,
        left: &From,
        right: &From,
        on: &[&Condition],
        conditions: &[&Condition],
        given: Given<'_>,
    ) -> Result<Vec<Parts>> {
        let left_mask = given.mask | left.mask();
        let right_mask = right.mask();
        let (pushed, rest): (Vec<&Condition>, Vec<&Condition>) = conditions
            .iter()
            .partition(|condition| !is_full && is_within(condition.mask, left_mask));
        let lefts = self.rows(left, &pushed, given)?;
        let mut rows = Vec::new();
        let mut push = |parts: Parts| -> Result<()> {
            if self.holds(&rest, &parts)? {
                self.run.session().step(kept(&parts))?;
                rows.push(parts);
            }
            Ok(())
        };
        if !is_within(self.needs(right), given.mask) {
            if is_full {
                return Err(Error::unsupported("a FULL JOIN with LATERAL"));
            }
            for left in &lefts {
                let given = Given {
                    parts: left,
                    mask: left_mask,
                };
                let rights = self.rows(right, on, given)?;
                if rights.is_empty() {
                    push(self.with_nulls(left, right_mask))?;
                }
                rights.into_iter().try_for_each(&mut push)?;
            }
            return Ok(rows);
        }
        let (before, on): (Vec<&Condition>, Vec<&Condition>) = on
            .iter()
            .partition(|condition| !is_full && is_within(condition.mask, right_mask | given.mask));
        let rights = self.rows(right, &before, given)?;
        let matches = Matches::of(self, &on, left_mask, right_mask | given.mask, &rights)?;
        let mut is_matched = vec![false; rights.len()];
        for left in &lefts {
            let mut found = Vec::new();
            matches.each(self, left, &rights, right_mask, |parts, place| {
                is_matched[place] = true;
                found.push(parts);
            })?;
            if found.is_empty() {
                push(self.with_nulls(left, right_mask))?;
            }
            found.into_iter().try_for_each(&mut push)?;
        }
        if is_full {
            for (right, _) in rights
                .iter()
                .zip(is_matched)
                .filter(|(_, is_matched)| !is_matched)
            {
                push(self.with_nulls(right, left.mask()))?;
            }
        }
        Ok(rows)
    }

    fn with_nulls(&self, parts: &[Part], mask: u64) -> Parts {
        let mut parts = parts.to_vec();
        for (place, item) in self.select.items.iter().enumerate() {
            if mask >> place & 1 == 1 {
                parts[place] = vec![Value::Null; item.width].into();
            }
        }
        parts
    }
}

/// The column of the item `place` that must equal a value of the items given.
fn lookup(condition: &Condition, place: usize, given: u64) -> Option<(usize, &Expr)> {
    let (left, left_mask, right, right_mask) = condition.equality()?;
    let column = |expr: &Expr, other_mask: u64| match expr {
        Expr::Column {
            up: 0,
            item,
            column,
        } if *item == place && is_within(other_mask, given) => Some(*column),
        _ => None,
    };
    let as_left = column(left, right_mask).map(|column| (column, right));
    as_left.or_else(|| column(right, left_mask).map(|column| (column, left)))
}

/// How rows of the right side are found for one of the left.
struct Matches<'a> {
    keys: Vec<&'a Expr>,
    places: HashMap<Vec<Value>, Vec<usize>>,
    conditions: Vec<&'a Condition>,
    all: Vec<usize>,
}

impl<'a> Matches<'a> {
    fn of(
        join: &Join<'_>,
        on: &[&'a Condition],
        left: u64,
        right: u64,
        rights: &[Parts],
    ) -> Result<Self> {
        let (mut keys, mut right_keys, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for condition in on {
            match condition.equality() {
                Some((one, one_mask, two, two_mask))
                    if is_within(one_mask, left) && is_within(two_mask, right) =>
                {
                    keys.push(one);
                    right_keys.push(two);
                }
                Some((one, one_mask, two, two_mask))
                    if is_within(two_mask, left) && is_within(one_mask, right) =>
                {
                    keys.push(two);
                    right_keys.push(one);
                }
                _ => conditions.push(*condition),
            }
        }
        let mut places: HashMap<Vec<Value>, Vec<usize>> = HashMap::new();
        if !keys.is_empty() {
            for (place, right) in rights.iter().enumerate() {
                let key = right_keys.iter().map(|key| join.value(key, right));
                let key = key.collect::<Result<Vec<_>>>()?;
                places.entry(key).or_default().push(place);
            }
        }
        let all = if keys.is_empty() {
            (0..rights.len()).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            keys,
            places,
            conditions,
            all,
        })
    }

    /// Hands on each row of `left` with one of `rights`, whose items are those of `mask`.
    fn each(
        &self,
        join: &Join<'_>,
        left: &[Part],
        rights: &[Parts],
        mask: u64,
        mut take: impl FnMut(Parts, usize),
    ) -> Result<()> {
        let found = if self.keys.is_empty() {
            Some(&self.all)
        } else {
            let key = self.keys.iter().map(|key| join.value(key, left));
            let key = key.collect::<Result<Vec<_>>>()?;
            // Records that hold NULL are equal to none, either.
            let is_known = |value: &Value| match value {
                Value::Record(fields) => !fields.iter().any(Value::is_null),
                value => !value.is_null(),
            };
            match key.iter().all(is_known) {
                true => self.places.get(&key),
                false => None,
            }
        };
        for place in found.into_iter().flatten() {
            join.run.session().step(1)?;
            let mut parts = left.to_vec();
            for (item, part) in rights[*place].iter().enumerate() {
                if mask >> item & 1 == 1 {
                    parts[item] = Arc::clone(part);
                }
            }
            if join.holds(&self.conditions, &parts)? {
                join.run.session().step(kept(&parts))?;
                take(parts, *place);
            }
        }
        Ok(())
    }
}

/// What it costs to keep a row of these parts.
fn kept(parts: &[Part]) -> u64 {
    ROW_STEPS + 4 * parts.len() as u64
}

/// The values of expressions.
pub(crate) fn part(run: &dyn Runs, exprs: &[Expr], row: &Row<'_>) -> Result<Part> {
    run.session().step(4 * exprs.len() as u64)?;
    exprs.iter().map(|expr| expr.value(row, run)).collect()
}

/// The rows of functions side by side; where one has ended, its columns are NULL.
pub(crate) fn function_rows(
    run: &dyn Runs,
    functions: &[(RowsFunction, Vec<Expr>)],
    is_numbered: bool,
    row: &Row<'_>,
) -> Result<Vec<Part>> {
    let all = functions.iter().map(|(function, arguments)| {
        let arguments = part(run, arguments, row)?;
        Ok((function.width(), function.rows(run.session(), &arguments)?))
    });
    let all: Vec<(usize, Vec<Vec<Value>>)> = all.collect::<Result<_>>()?;
    let len = all.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
    run.session().step(len as u64 * ROW_STEPS)?;
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
