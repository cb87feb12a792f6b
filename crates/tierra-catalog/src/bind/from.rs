//! FROM: its items and how they are joined.

use std::sync::Arc;

use sqlparser::ast::{
    Expr as Syntax, FunctionArg, FunctionArgExpr, Join as JoinSyntax, JoinConstraint, JoinOperator,
    TableAlias, TableFactor, TableWithJoins,
};

use super::{Binder, ITEMS_MOST, ItemNames, Typed, Visible, folded, path};
use crate::contents::Declared;
use crate::error::{Error, Result};
use crate::expression::{Expr, Test};
use crate::functions::{RowsFunction, named};
use crate::plan::{Column, Condition, From, Item, Source};
use crate::tables;
use crate::types::Type;

/// Joined items, and their columns that can be named alone.
struct Joined {
    from: From,
    visible: Vec<Visible>,
}

impl Binder {
    /// Binds FROM. Afterwards its columns can be named.
    pub(super) fn from(&mut self, tables: &[TableWithJoins]) -> Result<From> {
        let (mut all, mut on) = (Vec::new(), Vec::new());
        let mut visible = Vec::new();
        for table in tables {
            let joined = self.joined(table, &visible)?;
            visible.extend(joined.visible);
            push(&mut all, &mut on, joined.from);
        }
        self.scope().visible = visible;
        Ok(From::Inner(all, on))
    }

    /// Binds items that are joined. `before` are the columns of those before them.
    fn joined(&mut self, table: &TableWithJoins, before: &[Visible]) -> Result<Joined> {
        self.scope().visible = before.to_vec();
        let mut joined = self.factor(&table.relation, before)?;
        for join in &table.joins {
            let mut seen = before.to_vec();
            seen.extend(joined.visible.iter().cloned());
            self.scope().visible.clone_from(&seen);
            let right = self.factor(&join.relation, &seen)?;
            joined = self.join(joined, right, join)?;
        }
        Ok(joined)
    }

    fn join(&mut self, left: Joined, right: Joined, join: &JoinSyntax) -> Result<Joined> {
        use JoinOperator as J;
        let (kind, constraint) = match &join.join_operator {
            J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => {
                ("inner", constraint)
            }
            J::Left(constraint) | J::LeftOuter(constraint) => ("left", constraint),
            J::Right(constraint) | J::RightOuter(constraint) => ("right", constraint),
            J::FullOuter(constraint) => ("full", constraint),
            _ => return Err(Error::unsupported(format_args!("\"{join}\""))),
        };
        let names: Vec<String> = match constraint {
            JoinConstraint::Using(columns) => columns
                .iter()
                .map(|column| Ok(path(column)?.pop().unwrap_or_default()))
                .collect::<Result<_>>()?,
            JoinConstraint::Natural => {
                let names = left.visible.iter().map(|column| &column.name);
                let common =
                    names.filter(|name| right.visible.iter().any(|column| column.name == **name));
                common.cloned().collect()
            }
            JoinConstraint::On(_) | JoinConstraint::None => Vec::new(),
        };
        let mut conditions = Vec::new();
        let mut visible = Vec::new();
        for name in &names {
            let (one, two) = (only(&left.visible, name)?, only(&right.visible, name)?);
            let (one_mask, two_mask) = (mask(&one.expr), mask(&two.expr));
            let merged = match kind {
                "right" => two.clone(),
                "full" => {
                    let (parts, ty) = self.unified(vec![one.clone(), two.clone()], "JOIN/USING")?;
                    Typed::new(
                        Expr::Coalesce(parts.into_iter().map(|part| part.expr).collect()),
                        ty,
                    )
                }
                _ => one.clone(),
            };
            let equal = self.compared(Test::Equal, one, two, "=")?;
            conditions.push(Condition {
                expr: equal.expr,
                mask: one_mask | two_mask,
                sides: Some((one_mask, two_mask)),
            });
            visible.push(Visible {
                name: name.clone(),
                typed: merged,
            });
        }
        let rest = left.visible.into_iter().chain(right.visible);
        visible.extend(rest.filter(|column| !names.contains(&column.name)));
        if let JoinConstraint::On(on) = constraint {
            self.scope().visible.clone_from(&visible);
            conditions.extend(self.conditions(on)?);
        }
        let within = left.from.mask() | right.from.mask();
        if conditions
            .iter()
            .any(|condition| condition.mask & !within != 0)
        {
            return Err(Error::new(
                "42P01",
                "a JOIN's condition names a table that is not part of the JOIN",
            ));
        }
        let (outer_left, outer_right) = match kind {
            "right" => (right.from, left.from),
            _ => (left.from, right.from),
        };
        let from = match kind {
            "inner" => {
                let mut all = Vec::new();
                push(&mut all, &mut conditions, outer_left);
                push(&mut all, &mut conditions, outer_right);
                From::Inner(all, conditions)
            }
            kind => From::Outer {
                full: kind == "full",
                left: Box::new(outer_left),
                right: Box::new(outer_right),
                on: conditions,
            },
        };
        Ok(Joined { from, visible })
    }

    fn factor(&mut self, factor: &TableFactor, before: &[Visible]) -> Result<Joined> {
        let unsupported = || Err(Error::unsupported(format_args!("\"{factor}\" in FROM")));
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version,
                with_ordinality: false,
                partitions,
                json_path,
                sample,
                index_hints,
            } if with_hints.is_empty()
                && version.is_none()
                && partitions.is_empty()
                && json_path.is_none()
                && sample.is_none()
                && index_hints.is_empty() =>
            {
                let path = path(name)?;
                self.table(&path, alias.as_ref())
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(arguments),
                with_ordinality,
                sample: None,
                ..
            } if arguments.settings.is_none() => {
                let arguments = plain(&arguments.args)?;
                self.function_item(&path(name)?, &arguments, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function {
                name,
                args,
                with_ordinality,
                alias,
                ..
            } => {
                let arguments = plain(args)?;
                self.function_item(&path(name)?, &arguments, *with_ordinality, alias.as_ref())
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_ordinality,
                ..
            } => {
                let arguments: Vec<&Syntax> = array_exprs.iter().collect();
                self.function_item(
                    &["unnest".to_owned()],
                    &arguments,
                    *with_ordinality,
                    alias.as_ref(),
                )
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample: None,
            } => {
                let touched = std::mem::take(&mut self.scope().touched);
                let place = self.scopes.len() - 1;
                self.scope().is_hidden = !lateral;
                let plan = self.query(subquery);
                self.scopes[place].is_hidden = false;
                let mut plan = plan?;
                self.settle(&mut plan)?;
                let needs = std::mem::replace(&mut self.scope().touched, touched);
                let columns = plan.columns.clone();
                self.item(
                    Source::Plan(Arc::new(plan), 0),
                    None,
                    None,
                    columns,
                    needs,
                    alias.as_ref(),
                )
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.joined(table_with_joins, before),
            _ => unsupported(),
        }
    }

    fn table(&mut self, path: &[String], alias: Option<&TableAlias>) -> Result<Joined> {
        let (schema, name) = match path {
            [name] => (None, name),
            [schema, name] | [_, schema, name] => (Some(schema.as_str()), name),
            _ => {
                return Err(Error::new(
                    "42601",
                    format!("improper qualified name: {}", path.join(".")),
                ));
            }
        };
        if schema.is_none()
            && let Some(found) = self.named.iter().rev().find(|named| named.name == *name)
        {
            let (plan, columns, home) =
                (Arc::clone(&found.plan), found.columns.clone(), found.home);
            if plan.is_correlated {
                self.scopes[home..]
                    .iter_mut()
                    .for_each(|scope| scope.is_correlated = true);
            }
            let source = Source::Plan(plan, self.scopes.len() - home);
            return self.item(source, None, Some(name), columns, 0, alias);
        }
        let missing = || {
            Error::new(
                "42P01",
                format!(
                    "relation \"{}\" does not exist in the system catalog",
                    path.join(".")
                ),
            )
        };
        let table = Declared::named(schema, name).ok_or_else(missing)?;
        tables::check(table)?;
        let columns = table.columns.iter().map(|column| Column {
            name: column.name.to_owned(),
            ty: column.ty,
            fields: Vec::new(),
        });
        self.item(
            Source::Table(table),
            Some(table.schema),
            Some(name),
            columns.collect(),
            0,
            alias,
        )
    }

    fn function_item(
        &mut self,
        path: &[String],
        arguments: &[&Syntax],
        is_numbered: bool,
        alias: Option<&TableAlias>,
    ) -> Result<Joined> {
        let name = self.function_name(path)?;
        if name == "pg_show_all_settings" && arguments.is_empty() && !is_numbered {
            return self.table(&["pg_catalog".to_owned(), "pg_settings".to_owned()], alias);
        }
        let touched = std::mem::take(&mut self.scope().touched);
        let mut functions = Vec::new();
        let mut columns = Vec::new();
        // `unnest` of several arrays takes them side by side.
        let calls: Vec<&[&Syntax]> = match name {
            "unnest" if arguments.len() > 1 => arguments.chunks(1).collect(),
            _ => vec![arguments],
        };
        for arguments in calls {
            let (function, arguments, found) = match RowsFunction::named(name, arguments.len()) {
                Some(function) => self.rows_function(function, name, arguments)?,
                None => {
                    if named(name, arguments.len()).next().is_none() {
                        return Err(Error::no_function(format_args!(
                            "{name} with {} arguments",
                            arguments.len()
                        )));
                    }
                    let (function, typed) = self.scalar(name, arguments)?;
                    let function = RowsFunction::Single(function);
                    (function, typed, function.columns(name, &[])?)
                }
            };
            functions.push((function, arguments));
            columns.extend(found);
        }
        if let (Some(alias), [only]) = (alias, columns.as_mut_slice()) {
            only.name = folded(&alias.name);
        }
        if is_numbered {
            columns.push(Column {
                name: "ordinality".to_owned(),
                ty: Type::INT8,
                fields: Vec::new(),
            });
        }
        let needs = std::mem::replace(&mut self.scope().touched, touched);
        self.item(
            Source::Functions(functions, is_numbered),
            None,
            Some(name),
            columns,
            needs,
            alias,
        )
    }

    fn item(
        &mut self,
        source: Source,
        schema: Option<&str>,
        name: Option<&str>,
        mut columns: Vec<Column>,
        needs: u64,
        alias: Option<&TableAlias>,
    ) -> Result<Joined> {
        if let Some(alias) = alias {
            if alias.columns.len() > columns.len() {
                let message = format!(
                    "table \"{}\" has {} columns available",
                    alias.name,
                    columns.len()
                );
                return Err(Error::new("42P10", message));
            }
            for (column, given) in columns.iter_mut().zip(&alias.columns) {
                column.name = folded(&given.name);
            }
        }
        let is_table = matches!(source, Source::Table(_));
        let (schema, name) = match alias {
            Some(alias) => (None, folded(&alias.name)),
            None => (
                schema.map(str::to_owned),
                name.unwrap_or_default().to_owned(),
            ),
        };
        let scope = self.scope();
        let place = scope.items.len();
        if place == ITEMS_MOST {
            return Err(Error::unsupported(format_args!(
                "a FROM of more than {ITEMS_MOST} tables"
            )));
        }
        let is_taken = scope
            .names
            .iter()
            .any(|item| item.name == name && item.schema == schema);
        if is_taken && !name.is_empty() {
            return Err(Error::new(
                "42712",
                format!("table name \"{name}\" specified more than once"),
            ));
        }
        let visible = columns.iter().enumerate().map(|(column, found)| Visible {
            name: found.name.clone(),
            typed: found.at(place, column),
        });
        let visible = visible.collect();
        scope.items.push(Item {
            source,
            width: columns.len() + usize::from(is_table),
            needs,
        });
        scope.names.push(ItemNames {
            schema,
            name,
            columns,
            is_table,
        });
        Ok(Joined {
            from: From::Item(place),
            visible,
        })
    }

    /// Conditions that must hold together.
    pub(super) fn conditions(&mut self, syntax: &Syntax) -> Result<Vec<Condition>> {
        let mut conditions = Vec::new();
        for part in super::expression::chain(syntax, &sqlparser::ast::BinaryOperator::And) {
            let touched = std::mem::take(&mut self.scope().touched);
            let condition = match super::expression::bare(part) {
                Syntax::BinaryOp {
                    left,
                    op: sqlparser::ast::BinaryOperator::Eq,
                    right,
                } => {
                    let left = self.expr(left)?;
                    let left_mask = std::mem::take(&mut self.scope().touched);
                    let right = self.expr(right)?;
                    let right_mask = std::mem::take(&mut self.scope().touched);
                    let equal = self.compared(Test::Equal, left, right, "=")?;
                    Condition {
                        expr: equal.expr,
                        mask: left_mask | right_mask,
                        sides: Some((left_mask, right_mask)),
                    }
                }
                part => {
                    let expr = self.truth(part)?;
                    Condition {
                        expr,
                        mask: self.scope().touched,
                        sides: None,
                    }
                }
            };
            self.scope().touched = touched | condition.mask;
            conditions.push(condition);
        }
        Ok(conditions)
    }
}

fn push(all: &mut Vec<From>, on: &mut Vec<Condition>, from: From) {
    match from {
        From::Inner(parts, conditions) => {
            all.extend(parts);
            on.extend(conditions);
        }
        other => all.push(other),
    }
}

/// The items that a column, or what a join makes of two, names.
fn mask(expr: &Expr) -> u64 {
    match expr {
        Expr::Column { item, .. } => 1 << item,
        Expr::Coalesce(parts) => parts.iter().fold(0, |all, part| all | mask(part)),
        Expr::Cast(_, inner) => mask(inner),
        _ => 0,
    }
}

fn only(visible: &[Visible], name: &str) -> Result<Typed> {
    let mut found = visible.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column.typed.clone()),
        (Some(_), Some(_)) => Err(Error::new(
            "42702",
            format!("common column name \"{name}\" appears more than once"),
        )),
        _ => Err(Error::new(
            "42703",
            format!("column \"{name}\" specified in USING clause does not exist"),
        )),
    }
}

/// Arguments without names.
pub(super) fn plain(arguments: &[FunctionArg]) -> Result<Vec<&Syntax>> {
    let arguments = arguments.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => Err(Error::unsupported(format_args!("the argument \"{other}\""))),
    });
    arguments.collect()
}
