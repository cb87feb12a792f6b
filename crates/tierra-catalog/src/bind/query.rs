//! Queries: SELECT, VALUES, set operations, WITH, ORDER BY and LIMIT.

use std::sync::Arc;

use sqlparser::ast::{
    Distinct as DistinctSyntax, Expr as Syntax, Function, FunctionArguments, GroupByExpr,
    LimitClause, OrderBy, OrderByExpr, OrderByKind, Query, Select as SelectSyntax, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, Value as Literal, With,
};

use super::coerce::unified;
use super::{Binder, Named, Scope, Typed, folded, path};
use crate::error::{Error, Result};
use crate::expression::Expr;
use crate::plan::{Body, Column, Distinct, Group, Key, Plan, Select, SetKind, Source};
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

    fn with(&mut self, with: &With) -> Result<()> {
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
        names: &[sqlparser::ast::TableAliasColumnDef],
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

    fn body(&mut self, body: &SetExpr) -> Result<Plan> {
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

    fn select(&mut self, select: &SelectSyntax, order: Option<&OrderBy>) -> Result<Plan> {
        check_select(select)?;
        self.scopes.push(Scope::default());
        let from = self.from(&select.from)?;
        let conditions = match &select.selection {
            Some(condition) => self.conditions(condition)?,
            None => Vec::new(),
        };
        self.group_keys(select)?;
        let scope = self.scope();
        let keys = scope.keys.clone();
        scope.loose.clear();
        scope.allows_aggregates = true;
        let having = select
            .having
            .as_ref()
            .map(|having| self.truth(having))
            .transpose()?;
        self.scope().allows_rows = true;
        let mut outputs: Vec<Typed> = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        for item in &select.projection {
            for (name, typed) in self.outputs(item)? {
                columns.push(Column {
                    name,
                    ty: typed.ty,
                    fields: typed.fields.clone(),
                });
                outputs.push(typed);
            }
        }
        let mut distinct = match &select.distinct {
            None | Some(DistinctSyntax::All) => Distinct::No,
            Some(DistinctSyntax::Distinct) => Distinct::All,
            Some(DistinctSyntax::On(_)) => Distinct::On(Vec::new()),
        };
        let mut order_places = Vec::new();
        for syntax in order.map(order_keys).transpose()?.unwrap_or_default() {
            let by = self.output_place(&syntax.expr, &columns, &mut outputs)?;
            order_places.push(key(by, syntax)?);
        }
        if matches!(distinct, Distinct::All) && outputs.len() > columns.len() {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(Error::new("42P10", message));
        }
        if let (Distinct::On(places), Some(DistinctSyntax::On(exprs))) =
            (&mut distinct, &select.distinct)
        {
            for syntax in exprs {
                places.push(self.output_place(syntax, &columns, &mut outputs)?);
            }
            let leading = order_places.iter().take(places.len());
            if leading.into_iter().any(|key| !places.contains(&key.by)) {
                let message =
                    "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
                return Err(Error::new("42P10", message));
            }
        }
        let scope = self.scopes.pop().unwrap_or_default();
        let is_grouped = !keys.is_empty()
            || having.is_some()
            || !scope.aggregates.is_empty()
            || is_grouped_by(select);
        if is_grouped {
            check_loose(&scope, &keys)?;
        }
        let group = is_grouped.then_some(Group {
            keys,
            aggregates: scope.aggregates,
            having,
        });
        let body = Select {
            items: scope.items,
            from,
            conditions,
            group,
            windows: scope.windows,
            row_functions: scope.row_functions,
            outputs: outputs.into_iter().map(|typed| typed.expr).collect(),
        };
        let mut plan = plan_of(columns, Body::Select(Box::new(body)), scope.is_correlated);
        plan.distinct = distinct;
        plan.order = order_places;
        Ok(plan)
    }

    fn group_keys(&mut self, select: &SelectSyntax) -> Result<()> {
        let GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else {
            return Err(Error::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(Error::unsupported("GROUP BY with a modifier"));
        }
        let mut keys = Vec::new();
        for syntax in exprs {
            let item = |place: usize| match select.projection.get(place) {
                Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
                    Ok(expr)
                }
                _ => Err(Error::new(
                    "42P10",
                    format!("GROUP BY position {} is not in select list", place + 1),
                )),
            };
            let mut syntax = syntax;
            if let Some(place) = place(syntax, usize::MAX)? {
                syntax = item(place)?;
            } else if let Syntax::Identifier(name) = syntax {
                let name = folded(name);
                // A name is that of a column of FROM, or else of the result.
                if !self
                    .scope()
                    .visible
                    .iter()
                    .any(|visible| visible.name == name)
                {
                    let named = select.projection.iter().find_map(|item| match item {
                        SelectItem::ExprWithAlias { expr, alias } if folded(alias) == name => {
                            Some(expr)
                        }
                        _ => None,
                    });
                    syntax = named.unwrap_or(syntax);
                }
            }
            match syntax {
                Syntax::Tuple(parts) if parts.is_empty() => {}
                Syntax::GroupingSets(_) | Syntax::Cube(_) | Syntax::Rollup(_) => {
                    return Err(Error::unsupported("GROUPING SETS"));
                }
                syntax => {
                    let typed = self.expr(syntax)?;
                    let typed = if typed.ty == Type::UNKNOWN {
                        self.coerced(typed, Type::TEXT)?
                    } else {
                        typed
                    };
                    keys.push(typed.expr);
                }
            }
        }
        self.scope().keys = keys;
        Ok(())
    }

    /// The columns of an item of the select list.
    fn outputs(&mut self, item: &SelectItem) -> Result<Vec<(String, Typed)>> {
        let plain = sqlparser::ast::WildcardAdditionalOptions::default();
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let typed = self.expr(expr)?;
                let name = match expr {
                    Syntax::Subquery(_) => match &typed.expr {
                        Expr::Scalar(plan) => plan.columns[0].name.clone(),
                        _ => String::new(),
                    },
                    expr => name_of(expr),
                };
                Ok(vec![(name, typed)])
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                Ok(vec![(folded(alias), self.expr(expr)?)])
            }
            SelectItem::Wildcard(options) if *options == plain => {
                let visible = &self.scope().visible;
                let found: Vec<_> = visible
                    .iter()
                    .map(|column| (column.name.clone(), column.typed.clone()))
                    .collect();
                self.name_all(&found);
                Ok(found)
            }
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) if *options == plain => {
                let path = path(name)?;
                let last = path.last().map_or("", String::as_str);
                let place = self
                    .scope()
                    .names
                    .iter()
                    .position(|names| names.name == last);
                let missing = || {
                    Error::new(
                        "42P01",
                        format!("missing FROM-clause entry for table \"{last}\""),
                    )
                };
                let place = place.ok_or_else(missing)?;
                let columns = self.scope().names[place].columns.iter().enumerate();
                let found: Vec<_> = columns
                    .map(|(column, found)| (found.name.clone(), found.at(place, column)))
                    .collect();
                self.name_all(&found);
                Ok(found)
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), options)
                if *options == plain =>
            {
                let before = self.made;
                let typed = self.expr(expr)?;
                self.copied(before, typed.fields.len())?;
                let fields = typed.fields.iter().enumerate().map(|(place, field)| {
                    let expr = Expr::Field(Box::new(typed.expr.clone()), place);
                    (
                        field.name.clone(),
                        Typed {
                            expr,
                            ty: field.ty,
                            fields: field.fields.clone(),
                        },
                    )
                });
                let fields: Vec<_> = fields.collect();
                match fields.is_empty() {
                    true => Err(Error::mismatch("what stands before .* has no columns")),
                    false => Ok(fields),
                }
            }
            other => Err(Error::unsupported(format_args!(
                "\"{other}\" in the select list"
            ))),
        }
    }

    /// Counts the columns of `*` as named.
    fn name_all(&mut self, columns: &[(String, Typed)]) {
        for (_, typed) in columns {
            let mut expr = typed.expr.clone();
            let mut named = Vec::new();
            super::lift(&mut expr, 0, &mut named);
            let scope = self.scope();
            if !scope.keys.contains(&typed.expr) {
                scope.loose.extend(named);
            }
        }
    }

    /// The place of the column that ORDER BY or DISTINCT ON names. One that is not in the select list is added behind it.
    fn output_place(
        &mut self,
        syntax: &Syntax,
        columns: &[Column],
        outputs: &mut Vec<Typed>,
    ) -> Result<usize> {
        if let Some(place) = place(syntax, columns.len())? {
            return Ok(place);
        }
        if let Syntax::Identifier(name) = syntax {
            let name = folded(name);
            let mut found = columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.name == name);
            if let Some((first, _)) = found.next() {
                if found.any(|(place, _)| outputs[place].expr != outputs[first].expr) {
                    return Err(Error::new(
                        "42702",
                        format!("ORDER BY \"{name}\" is ambiguous"),
                    ));
                }
                return Ok(first);
            }
        }
        let typed = self.expr(syntax)?;
        let typed = if typed.ty == Type::UNKNOWN {
            self.coerced(typed, Type::TEXT)?
        } else {
            typed
        };
        let known = outputs.iter().position(|output| output.expr == typed.expr);
        Ok(known.unwrap_or_else(|| {
            outputs.push(typed);
            outputs.len() - 1
        }))
    }
}

fn is_grouped_by(select: &SelectSyntax) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if !exprs.is_empty())
}

fn plan_of(columns: Vec<Column>, body: Body, is_correlated: bool) -> Plan {
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

fn rename(columns: &mut [Column], names: &[sqlparser::ast::TableAliasColumnDef]) -> Result<()> {
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

/// The place that a number in ORDER BY, GROUP BY or DISTINCT ON means.
fn place(syntax: &Syntax, columns: usize) -> Result<Option<usize>> {
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

fn order_keys(order: &OrderBy) -> Result<&[OrderByExpr]> {
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

/// Fails if a column is named that differs within a group.
fn check_loose(scope: &Scope, keys: &[Expr]) -> Result<()> {
    let is_key = |item: usize, column: usize| {
        keys.contains(&Expr::Column {
            up: 0,
            item,
            column,
        })
    };
    for (item, column) in &scope.loose {
        // What belongs to a table's number is the same as long as that is.
        let has_number = match &scope.items[*item].source {
            Source::Table(table) => {
                let number = table.columns.iter().position(|column| column.name == "oid");
                number.is_some_and(|number| is_key(*item, number))
            }
            _ => false,
        };
        if !is_key(*item, *column) && !has_number {
            let names = &scope.names[*item];
            let column = names
                .columns
                .get(*column)
                .map_or("tableoid", |column| column.name.as_str());
            let message = format!(
                "column \"{}.{column}\" must appear in the GROUP BY clause or be used in an aggregate function",
                names.name
            );
            return Err(Error::new("42803", message));
        }
    }
    Ok(())
}

fn check_select(select: &SelectSyntax) -> Result<()> {
    let is_plain = select.top.is_none()
        && select.exclude.is_none()
        && select.select_modifiers.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.value_table_mode.is_none();
    if is_plain {
        Ok(())
    } else {
        Err(Error::unsupported("a clause of this SELECT"))
    }
}

/// Whether a value has a name of its own, rather than that of its type.
fn is_named(syntax: &Syntax) -> bool {
    match syntax {
        Syntax::Nested(inner) | Syntax::Collate { expr: inner, .. } => is_named(inner),
        Syntax::Cast { expr, .. } => is_named(expr),
        Syntax::Case { .. } | Syntax::TypedString(_) | Syntax::Value(_) => false,
        other => name_of(other) != "?column?",
    }
}

/// The name that a column has if it is given none.
fn name_of(syntax: &Syntax) -> String {
    let none = || "?column?".to_owned();
    match syntax {
        Syntax::Identifier(name) => folded(name),
        Syntax::CompoundIdentifier(names) => names.last().map_or_else(none, folded),
        Syntax::Nested(inner) | Syntax::Collate { expr: inner, .. } => name_of(inner),
        Syntax::Function(Function { name, args, .. }) => match args {
            FunctionArguments::Subquery(_) => "array".to_owned(),
            _ => path(name)
                .ok()
                .and_then(|mut path| path.pop())
                .unwrap_or_else(none),
        },
        Syntax::Cast {
            expr, data_type, ..
        } => match is_named(expr) {
            true => name_of(expr),
            false => match Type::of_sql(data_type) {
                // An array is called as its elements.
                Ok((ty, _)) => {
                    let row = ty.element().unwrap_or(ty).row();
                    row.map_or_else(none, |row| row.name.to_owned())
                }
                Err(_) => none(),
            },
        },
        Syntax::Case { else_result, .. } => match else_result.as_deref().map(name_of) {
            Some(name) if name != "?column?" => name,
            _ => "case".to_owned(),
        },
        Syntax::Exists { negated: false, .. } => "exists".to_owned(),
        Syntax::Array(_) => "array".to_owned(),
        Syntax::Substring { .. } => "substring".to_owned(),
        Syntax::Position { .. } => "position".to_owned(),
        Syntax::Trim { .. } => "btrim".to_owned(),
        Syntax::Tuple(_) => "row".to_owned(),
        Syntax::Value(value) if matches!(value.value, Literal::Boolean(_)) => "bool".to_owned(),
        Syntax::TypedString(string) => match Type::of_sql(&string.data_type) {
            Ok((ty, _)) => ty.row().map_or_else(none, |row| row.name.to_owned()),
            Err(_) => none(),
        },
        Syntax::CompoundFieldAccess { root, access_chain } => {
            let last = access_chain.iter().rev().find_map(|access| match access {
                sqlparser::ast::AccessExpr::Dot(Syntax::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            last.unwrap_or_else(|| name_of(root))
        }
        _ => none(),
    }
}
