//! References to the columns of one table, written for the names that they have above joins with merged columns.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, TableReference, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, JoinConstraint, ObjectName, OrderBy, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
    WildcardAdditionalOptions,
};

use super::numbers::{constraint_of, merging};
use super::{Columns, Hidden, Known};
use crate::duplicate_names::invisible::digits;
use crate::names::identifier;
use crate::visit::visit_mut;

/// Writes the references in `statement` anew, as far as the columns of its joins are known.
///
/// # Errors
/// If a list of columns cannot be written.
pub(super) fn write(statement: &mut Statement, known: &Known) -> Result<()> {
    let mut references = References {
        known,
        scopes: Vec::new(),
        from: Vec::new(),
        orders: Vec::new(),
    };
    let written = match statement {
        Statement::Statement(inner) => visit_mut(inner, &mut references),
        Statement::Explain(explain) => return write(&mut explain.statement, known),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => visit_mut(query, &mut references),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    };
    match written {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The tables that a reference may name.
#[derive(Clone, Default)]
struct Scope {
    names: Vec<String>,
    hidden: Vec<Hidden>,
    /// The columns of each table below the joins with merged columns.
    tables: Vec<(TableReference, Vec<String>)>,
}

impl Scope {
    fn of_table(name: Option<String>) -> Self {
        Self {
            names: name.into_iter().collect(),
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.names.extend(other.names);
        self.hidden.extend(other.hidden);
        self.tables.extend(other.tables);
    }

    /// Joins what is in scope by a join with these columns.
    fn join(&mut self, columns: &Columns) {
        self.hidden.extend(columns.hidden.iter().cloned());
        for (table, names) in &columns.tables {
            // A join below has seen the columns with their own names.
            if !self.tables.iter().any(|(known, _)| known == table) {
                self.tables.push((table.clone(), names.clone()));
            }
        }
    }

    /// What the column of a table is called, if not by its name.
    fn hidden(&self, table: &str, column: &str) -> Option<&Hidden> {
        let mut hidden = self.hidden.iter();
        hidden.find(|hidden| hidden.table.table() == table && hidden.name == column)
    }

    /// The columns of a table that is joined with merged columns.
    fn columns(&self, table: &str) -> Option<&[String]> {
        let mut tables = self.tables.iter();
        let (_, names) = tables.find(|(known, _)| known.table() == table)?;
        Some(names)
    }
}

struct References<'a> {
    known: &'a Known,
    /// The tables of the queries around what is visited, the innermost last.
    scopes: Vec<Scope>,
    /// FROM of the SELECTs around it, which is visited before the rest of them.
    from: Vec<Vec<TableWithJoins>>,
    /// ORDER BY of the queries around it, which belongs to their SELECT.
    orders: Vec<Option<OrderBy>>,
}

type Visited<T = ()> = ControlFlow<DataFusionError, T>;

impl VisitorMut for References<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> Visited {
        let mut order = None;
        if let SetExpr::Select(select) = query.body.as_mut()
            && query.order_by.is_some()
        {
            order = query.order_by.take();
            let scope = self.scope_of(&select.from);
            self.within(scope, |this| visit_mut(&mut order, this))?;
        }
        self.orders.push(order);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Visited {
        let order = self.orders.pop().flatten();
        query.order_by = order.or_else(|| query.order_by.take());
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Visited {
        let mut from = std::mem::take(&mut select.from);
        let mut scope = Scope::default();
        for item in &mut from {
            let added = self.visit_from(item, &scope)?;
            scope.add(added);
        }
        self.from.push(from);
        self.scopes.push(scope);
        let (mut items, mut written) = (Vec::new(), Vec::new());
        for item in std::mem::take(&mut select.projection) {
            let is_wildcard = matches!(item, SelectItem::QualifiedWildcard(..));
            let first = items.len();
            self.write_item(item, &mut items)?;
            if is_wildcard {
                written.extend(first..items.len());
            }
        }
        tell_apart(&mut items, &written);
        select.projection = items;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> Visited {
        self.scopes.pop();
        select.from = self.from.pop().unwrap_or_default();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Visited {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some((place, hidden)) = self.renamed(parts)
        {
            parts[place] = hidden;
        }
        ControlFlow::Continue(())
    }
}

impl References<'_> {
    fn within(&mut self, scope: Scope, visit: impl FnOnce(&mut Self) -> Visited) -> Visited {
        self.scopes.push(scope);
        let visited = visit(self);
        self.scopes.pop();
        visited
    }

    /// The scope of a FROM that stays as it is.
    fn scope_of(&self, from: &[TableWithJoins]) -> Scope {
        let mut scope = Scope::default();
        for item in from {
            scope.add(self.scope_of_item(item));
        }
        scope
    }

    fn scope_of_item(&self, item: &TableWithJoins) -> Scope {
        let mut scope = self.scope_of_factor(&item.relation);
        for join in &item.joins {
            scope.add(self.scope_of_factor(&join.relation));
            let mut operator = join.join_operator.clone();
            if let Some(constraint) = constraint_of(&mut operator) {
                self.merge(&mut scope, constraint);
            }
        }
        scope
    }

    fn scope_of_factor(&self, factor: &TableFactor) -> Scope {
        match factor {
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.scope_of_item(table_with_joins),
            other => Scope::of_table(name_of(other)),
        }
    }

    fn merge(&self, scope: &mut Scope, constraint: &JoinConstraint) {
        let columns = merging(constraint).and_then(|merging| self.known.get(&merging.number));
        if let Some(columns) = columns {
            scope.join(columns);
        }
    }

    /// Visits a FROM item behind those of `before`. A condition of ON sees the columns as they are below its join.
    fn visit_from(&mut self, item: &mut TableWithJoins, before: &Scope) -> Visited<Scope> {
        let mut scope = self.visit_factor(&mut item.relation, before)?;
        for join in &mut item.joins {
            let mut beside = before.clone();
            beside.add(scope.clone());
            let right = self.visit_factor(&mut join.relation, &beside)?;
            scope.add(right);
            match constraint_of(&mut join.join_operator) {
                Some(JoinConstraint::On(condition)) => {
                    self.within(scope.clone(), |this| visit_mut(condition, this))?;
                }
                Some(constraint) => self.merge(&mut scope, constraint),
                None => {}
            }
        }
        ControlFlow::Continue(scope)
    }

    /// Visits a table beside those of `before`, which only LATERAL and functions see.
    fn visit_factor(&mut self, factor: &mut TableFactor, before: &Scope) -> Visited<Scope> {
        match factor {
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                let inner = self.visit_from(table_with_joins, before)?;
                let alias = alias.as_ref().map(name_in);
                return ControlFlow::Continue(match alias {
                    Some(name) => Scope::of_table(Some(name)),
                    None => inner,
                });
            }
            TableFactor::Derived { lateral: false, .. } | TableFactor::Table { .. } => {
                visit_mut(factor, self)?;
            }
            _ => self.within(before.clone(), |this| visit_mut(factor, this))?,
        }
        ControlFlow::Continue(Scope::of_table(name_of(factor)))
    }

    /// The innermost scope with the table that the first of `parts` name, and how many of them do.
    fn table_in(&self, parts: &[Ident]) -> Option<(&Scope, String, usize)> {
        self.scopes.iter().rev().find_map(|scope| {
            // A table may be written with its schema and its catalog.
            let names = parts.iter().map(identifier).zip(1..).take(3);
            let mut known = names.filter(|(name, _)| scope.names.contains(name));
            known.next().map(|(name, count)| (scope, name, count))
        })
    }

    /// Which part of a compound name is to be replaced, and by what.
    fn renamed(&self, parts: &[Ident]) -> Option<(usize, Ident)> {
        let (scope, table, place) = self.table_in(parts.split_last()?.1)?;
        let hidden = scope.hidden(&table, &identifier(&parts[place]))?;
        Some((place, Ident::with_quote('"', &hidden.hidden)))
    }

    /// Adds what stands for a select item.
    fn write_item(&self, item: SelectItem, items: &mut Vec<SelectItem>) -> Visited {
        items.push(match item {
            SelectItem::UnnamedExpr(expr) => match self.name_to_keep(&expr) {
                Some(alias) => SelectItem::ExprWithAlias { expr, alias },
                None => SelectItem::UnnamedExpr(expr),
            },
            SelectItem::Wildcard(mut options) => {
                let scope = self.scopes.last().into_iter();
                let hidden = scope.flat_map(|scope| &scope.hidden);
                exclude(hidden.map(|hidden| hidden.hidden.as_str()), &mut options);
                SelectItem::Wildcard(options)
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) => {
                let parts = name.0.iter().filter_map(|part| part.as_ident().cloned());
                let parts: Vec<Ident> = parts.collect();
                let found = self.table_in(&parts);
                let found = found.filter(|(_, _, count)| *count == parts.len());
                let columns =
                    found.and_then(|(scope, table, _)| Some((scope, scope.columns(&table)?, table)));
                let Some((scope, columns, table)) = columns else {
                    let name = SelectItemQualifiedWildcardKind::ObjectName(name);
                    items.push(SelectItem::QualifiedWildcard(name, options));
                    return ControlFlow::Continue(());
                };
                let Some(excluded) = excluded(&options) else {
                    return ControlFlow::Break(plan_datafusion_err!(
                        "{name}.* with more than EXCLUDE is not supported above JOIN .. USING and NATURAL JOIN: write its columns"
                    ));
                };
                for column in columns.iter().filter(|column| !excluded.contains(column)) {
                    let quoted = |name: &str| Ident::with_quote('"', name);
                    let hidden = scope.hidden(&table, column);
                    let last = hidden.map_or(column, |hidden| &hidden.hidden);
                    let mut parts = parts.clone();
                    parts.push(quoted(last));
                    let expr = Expr::CompoundIdentifier(parts);
                    items.push(match hidden {
                        Some(_) => SelectItem::ExprWithAlias {
                            expr,
                            alias: quoted(column),
                        },
                        None => SelectItem::UnnamedExpr(expr),
                    });
                }
                return ControlFlow::Continue(());
            }
            other => other,
        });
        ControlFlow::Continue(())
    }

    /// The name of a select item that is a renamed column.
    fn name_to_keep(&self, expr: &Expr) -> Option<Ident> {
        match expr {
            Expr::Nested(inner) => self.name_to_keep(inner),
            Expr::CompoundIdentifier(parts) => {
                let (place, _) = self.renamed(parts)?;
                (place + 1 == parts.len()).then(|| parts[place].clone())
            }
            _ => None,
        }
    }
}

/// Gives items of one name different ones ([`crate::duplicate_names`]) where any of them was `written` for a wildcard.
fn tell_apart(items: &mut [SelectItem], written: &[usize]) {
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(identifier(alias)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(identifier),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(identifier(name)),
        _ => None,
    };
    let names: Vec<Option<String>> = items.iter().map(name).collect();
    for (at, item) in items.iter_mut().enumerate() {
        let Some(name) = &names[at] else { continue };
        let is_it = |other: &&Option<String>| other.as_ref() == Some(name);
        let is_written = written.iter().any(|at| is_it(&&names[*at]));
        if !is_written || names.iter().filter(is_it).count() < 2 {
            continue;
        }
        let alias = Ident::with_quote('"', format!("{name}{}", digits(at + 1)));
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let expr = expr.clone();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// The name by which references find a table.
fn name_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
            let last = || name.0.last()?.as_ident().map(identifier);
            alias.as_ref().map(name_in).or_else(last)
        }
        TableFactor::Derived { alias, .. } | TableFactor::UNNEST { alias, .. } => {
            alias.as_ref().map(name_in)
        }
        _ => None,
    }
}

fn name_in(alias: &TableAlias) -> String {
    identifier(&alias.name)
}

/// Adds columns to those that `*` leaves out.
fn exclude<'a>(names: impl Iterator<Item = &'a str>, options: &mut WildcardAdditionalOptions) {
    let names = names.map(|name| ObjectName::from(vec![Ident::with_quote('"', name)]));
    let mut all: Vec<ObjectName> = match options.opt_exclude.take() {
        Some(ExcludeSelectItem::Single(name)) => vec![name],
        Some(ExcludeSelectItem::Multiple(names)) => names,
        None => Vec::new(),
    };
    all.extend(names);
    options.opt_exclude = (!all.is_empty()).then_some(ExcludeSelectItem::Multiple(all));
}

/// The columns that the options of `t.*` leave out; `None` if they say more.
fn excluded(options: &WildcardAdditionalOptions) -> Option<Vec<String>> {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike: None,
        opt_exclude,
        opt_except,
        opt_replace: None,
        opt_rename: None,
        opt_alias: None,
    } = options
    else {
        return None;
    };
    let mut names = match opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![name.to_string()],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(ToString::to_string).collect(),
        None => Vec::new(),
    };
    if let Some(except) = opt_except {
        let idents = std::iter::once(&except.first_element).chain(&except.additional_elements);
        names.extend(idents.map(|ident| ident.value.clone()));
    }
    Some(names)
}
