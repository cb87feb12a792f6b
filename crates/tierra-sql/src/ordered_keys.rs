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
    SelectItem, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions, visit_expressions,
};

use crate::duplicate_names;
use crate::duplicate_names::invisible::HIDDEN;
use crate::error::SqlError;
use crate::names::identifier;
use crate::ordered_items::{bare, form, keys_of, number_of, own_name, place_of, uses_new_name};

/// The most keys of a statement that are tried one by one, each with a plan.
const TRIED_MOST: usize = 16;

/// What becomes of a key with a name that its select list gives anew.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Choice {
    /// It becomes a column, of FROM's columns.
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
    let count = write(&mut statement, Vec::new());
    if count == 0 {
        return duplicate_names::planned(state, statement).await;
    }
    let plan = async |choices: Vec<Choice>| {
        let mut written = statement.clone();
        write(&mut written, choices);
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
fn write(statement: &mut Statement, choices: Vec<Choice>) -> usize {
    let mut keys = Keys { choices, seen: 0 };
    // The visitor never breaks.
    match innermost(statement) {
        Statement::Statement(inner) => drop(inner.visit(&mut keys)),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                let _ = query.visit(&mut keys);
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

struct Keys {
    choices: Vec<Choice>,
    /// Keys with a choice so far.
    seen: usize,
}

impl VisitorMut for Keys {
    type Break = ();

    /// Visits a query after those inside of it: so the keys come in one order, whatever is chosen.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some((select, keys)) = keys_of(query) else {
            return ControlFlow::Continue(());
        };
        // Another column would make other rows distinct, and other groups.
        if !matches!(select.distinct, None | Some(Distinct::All))
            || matches!(select.group_by, GroupByExpr::All(_))
        {
            return ControlFlow::Continue(());
        }
        let chosen = keys.iter().map(|key| {
            let has_choice = uses_new_name(&key.expr, select) || has_subquery(&key.expr);
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

impl Keys {
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

/// Makes columns of the keys of `query`, except of those that stay and those that are output columns already.
fn add_columns(query: &mut Query, chosen: &[Option<Choice>]) {
    let mut added: Vec<(Ident, Expr)> = Vec::new();
    let Some((select, keys)) = keys_of(query) else {
        return;
    };
    for (key, choice) in keys.iter_mut().zip(chosen) {
        if *choice == Some(Choice::Stays) {
            continue;
        }
        let place = match bare(&key.expr) {
            Expr::Value(_) => continue,
            Expr::Identifier(name) => match output(&identifier(name), select) {
                Output::None => None,
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
    if added.is_empty() {
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
    let is_column = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    // How many columns `*` has is not known.
    match are_one && select.projection[..place].iter().all(is_column) {
        true => Output::At(place),
        false => Output::Named,
    }
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

/// `SELECT * EXCLUDE (..)`, without FROM.
fn every_column_but(names: Vec<ObjectName>) -> Select {
    let options = WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(names)),
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
