//! SELECT: its columns, groups and the order of its rows.

use sqlparser::ast::{
    Distinct as DistinctSyntax, Expr as Syntax, GroupByExpr, OrderBy, Select as SelectSyntax,
    SelectItem, SelectItemQualifiedWildcardKind,
};

use super::column_name::name_of;
use super::query::{key, order_keys, place, plan_of};
use super::{Binder, Scope, Typed, folded, path};
use crate::error::{Error, Result};
use crate::expression::Expr;
use crate::plan::{Body, Column, Distinct, Group, Plan, Select, Source};
use crate::types::Type;

impl Binder {
    pub(super) fn select(
        &mut self,
        select: &SelectSyntax,
        order: Option<&OrderBy>,
    ) -> Result<Plan> {
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

/// Fails if a column is named that differs within a group.
fn check_loose(scope: &Scope, keys: &[Expr]) -> Result<()> {
    let is_key = |item: usize, column: usize| keys.contains(&Expr::column(item, column));
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
