//! GROUP BY, aggregates and window functions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::expression::{Expr, Row, Runs};
use crate::plan::{Aggregate, AggregateKind, Group, Key, Select, Window, WindowKind, order};
use crate::value::{Part, Value};

/// A row for each group: the parts of its first row, and one of its aggregates.
pub(crate) fn grouped(
    run: &dyn Runs,
    select: &Select,
    group: &Group,
    rows: Vec<Vec<Part>>,
    outer: Option<&Row<'_>>,
) -> Result<Vec<Vec<Part>>> {
    let mut places: HashMap<Vec<Value>, usize> = HashMap::new();
    let mut groups: Vec<Vec<Vec<Part>>> = Vec::new();
    for parts in rows {
        let row = Row::of(&parts, outer);
        let key = group.keys.iter().map(|key| key.value(&row, run));
        let key = key.collect::<Result<Vec<_>>>()?;
        run.session().weigh(&key)?;
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(parts);
    }
    if groups.is_empty() && group.keys.is_empty() {
        groups.push(Vec::new());
    }
    let mut found = Vec::with_capacity(groups.len());
    for rows in groups {
        let values = group
            .aggregates
            .iter()
            .map(|aggregate| value(run, aggregate, &rows, outer));
        let values: Part = values.collect::<Result<_>>()?;
        let mut parts = rows.into_iter().next().unwrap_or_else(|| {
            let items = select.items.iter();
            items
                .map(|item| vec![Value::Null; item.width].into())
                .collect()
        });
        parts.push(values);
        let row = Row::of(&parts, outer);
        let is_wanted = match &group.having {
            Some(having) => having.value(&row, run)?.is_true(),
            None => true,
        };
        if is_wanted {
            found.push(parts);
        }
    }
    Ok(found)
}

/// The value of an aggregate of these rows.
fn value(
    run: &dyn Runs,
    aggregate: &Aggregate,
    rows: &[Vec<Part>],
    outer: Option<&Row<'_>>,
) -> Result<Value> {
    let mut taken: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    for parts in rows {
        run.session().step(1)?;
        let row = Row { parts, outer };
        if let Some(filter) = &aggregate.filter
            && !filter.value(&row, run)?.is_true()
        {
            continue;
        }
        let arguments = aggregate
            .arguments
            .iter()
            .map(|argument| argument.value(&row, run));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let is_kept = match aggregate.kind {
            AggregateKind::CountAll | AggregateKind::ArrayAgg => true,
            _ => !arguments[0].is_null(),
        };
        if is_kept {
            let keys = aggregate.order.iter().map(|key| key.by.value(&row, run));
            let keys = keys.collect::<Result<Vec<_>>>()?;
            run.session().weigh(&keys)?;
            if aggregate.is_distinct {
                run.session().weigh(&arguments)?;
            }
            taken.push((arguments, keys));
        }
    }
    if aggregate.is_distinct {
        let mut seen = HashSet::new();
        taken.retain(|(arguments, _)| seen.insert(arguments.clone()));
        if aggregate.order.is_empty() {
            taken.sort_by(|(left, _), (right, _)| left[0].order(&right[0]));
        }
    }
    sort(&aggregate.order, &mut taken);
    let mut first = taken
        .iter()
        .map(|(arguments, _)| arguments.first().unwrap_or(&Value::Null));
    let is_empty = taken.is_empty();
    Ok(match aggregate.kind {
        AggregateKind::CountAll | AggregateKind::Count => Value::Int(taken.len() as i64),
        AggregateKind::Min => first
            .min_by(|left, right| left.order(right))
            .cloned()
            .unwrap_or(Value::Null),
        AggregateKind::Max => first
            .max_by(|left, right| left.order(right))
            .cloned()
            .unwrap_or(Value::Null),
        _ if is_empty => Value::Null,
        AggregateKind::Sum | AggregateKind::Average => {
            let (mut ints, mut floats, mut is_whole) = (0_i64, 0.0, true);
            for value in first {
                match value {
                    Value::Float(float) => {
                        floats += float;
                        is_whole = false;
                    }
                    value => {
                        let beyond = || Error::new("22003", "bigint out of range");
                        ints = ints.checked_add(value.as_int()).ok_or_else(beyond)?;
                    }
                }
            }
            match (aggregate.kind, is_whole) {
                (AggregateKind::Sum, true) => Value::Int(ints),
                (AggregateKind::Sum, false) => Value::Float(floats + ints as f64),
                _ => Value::Float((floats + ints as f64) / taken.len() as f64),
            }
        }
        AggregateKind::BoolAnd => first.all(Value::is_true).into(),
        AggregateKind::BoolOr => first.any(Value::is_true).into(),
        AggregateKind::ArrayAgg => {
            run.session().step(taken.len() as u64)?;
            Value::array(first.cloned().collect())
        }
        AggregateKind::StringAgg => {
            let mut text = String::new();
            for (place, (arguments, _)) in taken.iter().enumerate() {
                let between = arguments[1].as_text().len();
                let bytes = arguments[0].as_text().len() + if place > 0 { between } else { 0 };
                run.session().bytes(bytes as u64)?;
                if place > 0 {
                    text.push_str(arguments[1].as_text());
                }
                text.push_str(arguments[0].as_text());
            }
            run.session().bytes(text.len() as u64)?;
            text.into()
        }
    })
}

fn sort<T>(keys: &[Key<Expr>], rows: &mut [(T, Vec<Value>)]) {
    // The place of a key's values is that of the key.
    let keys: Vec<Key> = keys
        .iter()
        .enumerate()
        .map(|(by, key)| Key {
            by,
            is_descending: key.is_descending,
            nulls_first: key.nulls_first,
        })
        .collect();
    rows.sort_by(|(_, left), (_, right)| order(&keys, |by| (&left[*by], &right[*by])));
}

/// Adds to each row a part with the values of the window functions.
pub(crate) fn windows(
    run: &dyn Runs,
    windows: &[Window],
    rows: &mut [Vec<Part>],
    outer: Option<&Row<'_>>,
) -> Result<()> {
    let mut columns = vec![vec![Value::Null; windows.len()]; rows.len()];
    for (column, window) in windows.iter().enumerate() {
        let mut partitions: HashMap<Vec<Value>, Vec<(usize, Vec<Value>)>> = HashMap::new();
        for (place, parts) in rows.iter().enumerate() {
            let row = Row { parts, outer };
            let key = window.partition.iter().map(|expr| expr.value(&row, run));
            let order = window.order.iter().map(|key| key.by.value(&row, run));
            let entry = partitions.entry(key.collect::<Result<_>>()?).or_default();
            entry.push((place, order.collect::<Result<_>>()?));
        }
        for mut partition in partitions.into_values() {
            sort(&window.order, &mut partition);
            if let WindowKind::Aggregate(aggregate) = &window.kind {
                let parts: Vec<Vec<Part>> = partition
                    .iter()
                    .map(|(place, _)| rows[*place].clone())
                    .collect();
                let found = value(run, aggregate, &parts, outer)?;
                for (place, _) in partition {
                    columns[place][column] = found.clone();
                }
                continue;
            }
            let (mut rank, mut dense) = (0, 0);
            for at in 0..partition.len() {
                if at == 0 || partition[at].1 != partition[at - 1].1 {
                    (rank, dense) = (at, dense + 1);
                }
                columns[partition[at].0][column] = Value::Int(match window.kind {
                    WindowKind::Rank => rank as i64 + 1,
                    WindowKind::DenseRank => dense,
                    _ => at as i64 + 1,
                });
            }
        }
    }
    for (parts, values) in rows.iter_mut().zip(columns) {
        parts.push(Arc::from(values));
    }
    Ok(())
}
