//! ORDER BY of an expression takes names from FROM, as PostgreSQL does. Only a name alone may be that of an output column.
//!
//! DataFusion looks for every name among the output columns first. In a select list it finds the columns of FROM. So a key with a name
//! that the list gives to something else becomes a column itself, as in PostgreSQL's own plans:
//!
//! ```text
//! SELECT id, 100 - x AS x FROM a ORDER BY x + 0, id LIMIT 2
//!
//! SELECT * EXCLUDE ("key 1") FROM (SELECT id, 100 - x AS x, x + 0 AS "key 1" FROM a) ORDER BY "key 1", 1 LIMIT 2
//! ```
//! A key with a subquery becomes a column as well, because the planner does not look into it for columns that only FROM has.
//!
//! The number of a column is read outside too, where the planner takes none: in a select list with groups it knows aggregates, group
//! keys and aliases, and no other expressions.
//!
//! ```text
//! SELECT k, count(*) + 1 FROM a GROUP BY k ORDER BY 2, sum(x)
//!
//! SELECT * EXCLUDE ("key 1") FROM (SELECT k, count(*) + 1, sum(x) AS "key 1" FROM a GROUP BY k) ORDER BY 2, "key 1"
//! ```
//!
//! PostgreSQL refuses a key whose names FROM does not have, and one that is neither grouped nor an aggregate. Here, as in other
//! databases, such a key is computed from the output columns. Which keys these are only planning shows: the statement is planned again
//! with the keys as they are written.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Distinct, ExcludeSelectItem, Expr, GroupByExpr, Ident, ObjectName, Query, Select, SelectFlavor,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Value, VisitorMut, WildcardAdditionalOptions,
};

use crate::duplicate_names;
use crate::duplicate_names::invisible::HIDDEN;
use crate::error::SqlError;
use crate::names::{identifier, last_name};
use crate::syntax::ordered_items::{
    bare, form, keys_of, number_of, own_name, place_of, same_item, uses_new_name,
};
use crate::visit::{visit_expressions, visit_mut};

/// The most keys of a statement that are tried one by one, each with a plan.
const TRIED_MOST: usize = 16;

/// What becomes of a key with a name that its select list gives anew, or with a number that the planner does not take.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Choice {
    /// It becomes a column, of FROM's columns. A number is read outside of the SELECT.
    Column,
    /// It stays, an expression of output columns.
    Stays,
    /// It is left out.
    Gone,
}

/// The plan of a statement. It may be planned several times.
///
/// # Errors
/// If the statement cannot be planned.
pub(crate) async fn planned(
    state: &SessionState,
    mut statement: Statement,
) -> Result<LogicalPlan, SqlError> {
    let count = write(state, &mut statement, Vec::new());
    if count == 0 {
        return duplicate_names::planned(state, statement).await;
    }
    let plan = async |choices: Vec<Choice>| {
        let mut written = statement.clone();
        write(state, &mut written, choices);
        duplicate_names::planned(state, written).await
    };
    if let Ok(found) = plan(vec![Choice::Column; count]).await {
        return Ok(found);
    }
    if (2..=TRIED_MOST).contains(&count) {
        let mut choices = Vec::with_capacity(count);
        for place in 0..count {
            let mut alone = vec![Choice::Gone; count];
            alone[place] = Choice::Column;
            choices.push(match plan(alone).await {
                Ok(_) => Choice::Column,
                Err(_) => Choice::Stays,
            });
        }
        if let Ok(found) = plan(choices).await {
            return Ok(found);
        }
    }
    plan(Vec::new()).await
}

/// Writes the keys of `statement` that have a choice by `choices`; the others of them stay. Returns how many have one.
fn write(state: &SessionState, statement: &mut Statement, choices: Vec<Choice>) -> usize {
    let mut keys = Keys {
        state,
        choices,
        seen: 0,
    };
    // The visitor never breaks.
    match innermost(statement) {
        Statement::Statement(inner) => drop(visit_mut(inner, &mut keys)),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                let _ = visit_mut(query, &mut keys);
            }
        }
        _ => {}
    }
    keys.seen
}

/// The statement in an EXPLAIN; otherwise the statement itself.
fn innermost(statement: &mut Statement) -> &mut Statement {
    match statement {
        Statement::Explain(explain) => innermost(&mut explain.statement),
        other => other,
    }
}

struct Keys<'a> {
    state: &'a SessionState,
    choices: Vec<Choice>,
    /// Keys with a choice so far.
    seen: usize,
}

impl VisitorMut for Keys<'_> {
    type Break = ();

    /// Visits a query after those inside of it: so the keys come in one order, whatever is chosen.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some((select, keys)) = keys_of(query) else {
            return ControlFlow::Continue(());
        };
        // Another column would make other rows distinct, and other groups.
        let takes_columns = matches!(select.distinct, None | Some(Distinct::All))
            && !matches!(select.group_by, GroupByExpr::All(_));
        if !takes_columns && !keys.iter().all(|key| is_output(&key.expr, select)) {
            return ControlFlow::Continue(());
        }
        let aggregates = self.state.aggregate_functions();
        let is_aggregate = |name: &str| aggregates.contains_key(name);
        let chosen = keys.iter().map(|key| {
            let has_choice = uses_new_name(&key.expr, select)
                || has_subquery(&key.expr)
                || is_read_outside(&key.expr, select, &is_aggregate);
            has_choice.then(|| self.next())
        });
        let mut chosen: Vec<Option<Choice>> = chosen.collect();
        if chosen.contains(&Some(Choice::Gone)) {
            let mut all = chosen.iter();
            keys.retain(|_| all.next() != Some(&Some(Choice::Gone)));
            chosen.retain(|choice| *choice != Some(Choice::Gone));
            if keys.is_empty() {
                query.order_by = None;
            }
        }
        if chosen.contains(&Some(Choice::Column)) {
            add_columns(query, &chosen);
        }
        ControlFlow::Continue(())
    }
}

impl Keys<'_> {
    fn next(&mut self) -> Choice {
        let choice = self.choices.get(self.seen);
        self.seen += 1;
        choice.copied().unwrap_or(Choice::Stays)
    }
}

/// Whether a key has a subquery, which may refer to any column of FROM.
fn has_subquery(key: &Expr) -> bool {
    let found = visit_expressions(key, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Whether `key` is a number or name of an output column. Then it adds none.
fn is_output(key: &Expr, select: &Select) -> bool {
    match bare(key) {
        Expr::Value(_) => true,
        expr @ Expr::Identifier(name) => {
            !matches!(output(&identifier(name), select), Output::None)
                || same_item(expr, select).is_some()
        }
        _ => false,
    }
}

/// Whether `key` is the number of a column that the planner does not take: in a list with groups an expression without alias that is
/// neither an aggregate nor a group key.
fn is_read_outside(key: &Expr, select: &Select, is_aggregate: &dyn Fn(&str) -> bool) -> bool {
    let Some(place) = number(key).and_then(|number| number.checked_sub(1)) else {
        return false;
    };
    let groups = match &select.group_by {
        GroupByExpr::All(_) => &[],
        GroupByExpr::Expressions(groups, _) => groups.as_slice(),
    };
    let is_call = |expr: &Expr| match expr {
        Expr::Function(call) => call.over.is_none() && is_aggregate(&last_name(&call.name)),
        _ => false,
    };
    let is_group = |at: usize, expr: &Expr| {
        let expr = form(expr, select);
        let mut groups = groups.iter();
        groups.any(|group| match number(group) {
            Some(number) => number == at + 1,
            None => form(group, select) == expr,
        })
    };
    let is_unknown = |(at, item): (usize, &SelectItem)| match item {
        SelectItem::UnnamedExpr(expr) => {
            own_name(bare(expr)).is_none() && !is_call(bare(expr)) && !is_group(at, expr)
        }
        _ => false,
    };
    let mut items = select.projection.iter().enumerate();
    let is_number_of_one = match are_counted(&select.projection, place) {
        true => items.nth(place).is_some_and(is_unknown),
        false => items.any(is_unknown),
    };
    let has_calls = || {
        let found = visit_expressions(&select.projection, |expr| match is_call(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.is_break()
    };
    let is_grouped = || {
        let is_by_all = matches!(select.group_by, GroupByExpr::All(_));
        is_by_all || !groups.is_empty() || select.having.is_some() || has_calls()
    };
    is_number_of_one && is_grouped()
}

/// The number that an expression consists of.
fn number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Makes columns of the keys of `query`, except of those that stay and those that are output columns already.
fn add_columns(query: &mut Query, chosen: &[Option<Choice>]) {
    let mut added: Vec<(Ident, Expr)> = Vec::new();
    let mut reads_outside = false;
    let Some((select, keys)) = keys_of(query) else {
        return;
    };
    for (key, choice) in keys.iter_mut().zip(chosen) {
        if *choice == Some(Choice::Stays) {
            continue;
        }
        let place = match bare(&key.expr) {
            Expr::Value(_) => {
                reads_outside |= *choice == Some(Choice::Column);
                continue;
            }
            Expr::Identifier(name) => match output(&identifier(name), select) {
                Output::None => same_item(bare(&key.expr), select),
                Output::At(place) => Some(place),
                Output::Named => continue,
            },
            expr => place_of(expr, select),
        };
        match place {
            Some(place) => key.expr = number_of(place),
            None => {
                let name = format!("{HIDDEN}key {}", added.len() + 1);
                let name = Ident::with_quote('"', name);
                let expr = std::mem::replace(&mut key.expr, Expr::Identifier(name.clone()));
                added.push((name, expr));
            }
        }
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    if added.is_empty() && !reads_outside {
        return;
    }
    let names = added.iter();
    let names = names.map(|(name, _)| ObjectName::from(vec![name.clone()]));
    let mut outer = every_column_but(names.collect());
    outer.into = select.into.take();
    let added = added.into_iter();
    let added = added.map(|(alias, expr)| SelectItem::ExprWithAlias { expr, alias });
    select.projection.extend(added);
    let inner = std::mem::replace(select.as_mut(), outer);
    select.from = vec![rows_of(inner)];
}

/// The output column of a name.
enum Output {
    /// There is none, or only among those of `*`, where it is FROM's.
    None,
    /// Its place.
    At(usize),
    /// It is only known by its name, or there are several different ones.
    Named,
}

fn output(name: &str, select: &Select) -> Output {
    let found = select.projection.iter().enumerate();
    let mut found = found.filter_map(|(at, item)| Some((at, named(item, name)?)));
    let Some((place, first)) = found.next() else {
        return Output::None;
    };
    let first = form(first, select);
    let are_one = found.all(|(_, expr)| form(expr, select) == first);
    match are_one && are_counted(&select.projection, place) {
        true => Output::At(place),
        false => Output::Named,
    }
}

/// Whether each of the items before this place is one column. How many `*` has is not known.
fn are_counted(items: &[SelectItem], place: usize) -> bool {
    items.iter().take(place).all(|item| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    })
}

/// The expression of `item`, if the column has this name.
fn named<'a>(item: &'a SelectItem, name: &str) -> Option<&'a Expr> {
    let (own, expr) = match item {
        SelectItem::ExprWithAlias { expr, alias } => (identifier(alias), expr),
        SelectItem::UnnamedExpr(expr) => (own_name(bare(expr))?, expr),
        _ => return None,
    };
    (own == name).then_some(expr)
}

/// What FROM has for a subquery.
fn rows_of(select: Select) -> TableWithJoins {
    TableWithJoins {
        relation: TableFactor::Derived {
            lateral: false,
            subquery: Box::new(Query {
                with: None,
                body: Box::new(SetExpr::Select(Box::new(select))),
                order_by: None,
                limit_clause: None,
                fetch: None,
                locks: Vec::new(),
                for_clause: None,
                settings: None,
                format_clause: None,
                pipe_operators: Vec::new(),
            }),
            alias: None,
            sample: None,
        },
        joins: Vec::new(),
    }
}

/// `SELECT * EXCLUDE (..)`, without FROM; of no names `SELECT *`.
fn every_column_but(names: Vec<ObjectName>) -> Select {
    let names = Some(names).filter(|names| !names.is_empty());
    let options = WildcardAdditionalOptions {
        opt_exclude: names.map(ExcludeSelectItem::Multiple),
        ..WildcardAdditionalOptions::default()
    };
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(options)],
        exclude: None,
        into: None,
        from: Vec::new(),
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}
