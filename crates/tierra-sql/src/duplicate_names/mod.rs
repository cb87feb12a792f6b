//! Duplicate names: two columns of one name, as in `SELECT 1, 1`, `SELECT a, a`, `SELECT *, a`; and different expressions to
//! which the planner gives one name: `max(a), max(CAST(a AS VARCHAR))`.
//!
//! The planner refuses columns with equal names. A statement refused for that reason is planned again with different names. An
//! invisible number is added to each duplicate, and to parts of expressions that names omit ([`marks`]). [`restored`] removes the
//! numbers from the result. In a subquery every duplicate gets a number, so that a reference to their name finds none of them, and
//! is [ambiguous](invisible::of_reference).

pub(crate) mod invisible;
mod marks;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::SchemaError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr as Planned, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, VisitorMut,
};

use self::invisible::{DIGITS, digits, number, visible};
use self::marks::{mark_order, mark_select, marking, removed};
use crate::error::SqlError;
use crate::hidden_keys;
use crate::merged_columns;
use crate::names::identifier;
use crate::tree::{TreeNode, apply_expressions, apply_with_subqueries};
use crate::visit::visit_mut;

/// Whether `error` reports equal names.
fn are_cause(error: &DataFusionError) -> bool {
    match error.find_root() {
        // Of projections, aggregates and windows.
        DataFusionError::Plan(text) => text.contains("require unique expression names"),
        DataFusionError::SchemaError(error, _) => matches!(
            error.as_ref(),
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                // Two columns of one name, of which one has no table.
                | SchemaError::AmbiguousReference { .. }
        ),
        _ => false,
    }
}

/// `schema` with the user's names; `None` if it has them.
pub(crate) fn restored(schema: &SchemaRef) -> Option<SchemaRef> {
    let is_twin = |field: &Arc<Field>| field.name().contains(DIGITS);
    if !schema.fields().iter().any(is_twin) {
        return None;
    }
    let fields = schema.fields().iter().map(|field| match is_twin(field) {
        true => Arc::new(Field::clone(field).with_name(visible(field.name()))),
        false => Arc::clone(field),
    });
    let fields: Vec<Arc<Field>> = fields.collect();
    Some(Arc::new(Schema::new_with_metadata(
        fields,
        schema.metadata().clone(),
    )))
}

/// The plan of a statement, which may give several columns one name.
///
/// # Errors
/// If the statement cannot be planned.
pub(crate) async fn planned(
    state: &SessionState,
    statement: Statement,
) -> Result<LogicalPlan, SqlError> {
    if has_none(&statement) {
        return Ok(match has_values(&statement) {
            true => merged_columns::planned(state, statement).await?,
            false => hidden_keys::planned(state, statement).await?,
        });
    }
    let refused = match hidden_keys::planned(state, statement.clone()).await {
        Err(error) if are_cause(&error) => error,
        planned => return Ok(planned?),
    };
    let state = marking(state)?;
    let plan = async |names: HashMap<usize, String>, beside_wildcards| {
        let mut apart = statement.clone();
        if let Some(name) = tell_apart(&mut apart, &names, beside_wildcards) {
            return Err(SqlError::Ambiguous(name));
        }
        match hidden_keys::planned(&state, apart).await {
            Ok(plan) => Ok(Some(removed(plan)?)),
            Err(error) if are_cause(&error) => Ok(None),
            Err(error) => Err(legible(error).into()),
        }
    };
    for beside_wildcards in [false, true] {
        let Some(numbered) = plan(HashMap::new(), beside_wildcards).await? else {
            continue;
        };
        // Only the plan contains the planner's names of expressions.
        let names = planned_names(&numbered);
        if names.is_empty() {
            return Ok(numbered);
        }
        if let Some(plan) = plan(names, beside_wildcards).await? {
            return Ok(plan);
        }
    }
    Err(refused.into())
}

/// `error` without marks.
fn legible(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Plan(text) => DataFusionError::Plan(visible(&text)),
        DataFusionError::Diagnostic(diagnostic, error) => {
            DataFusionError::Diagnostic(diagnostic, Box::new(legible(*error)))
        }
        other => other,
    }
}

/// Gives columns of one name in `statement` different names. `known` are the names of expressions, by number. Columns beside `*`
/// may have the names of its columns. Returns the ambiguous name in ORDER BY, if there is one.
fn tell_apart(
    statement: &mut Statement,
    known: &HashMap<usize, String>,
    beside_wildcards: bool,
) -> Option<String> {
    let mut duplicates = DuplicateNames {
        known,
        beside_wildcards,
        found: 0,
        depth: 0,
        ambiguous: None,
    };
    match statement {
        // The visitor never breaks.
        Statement::Statement(inner) => drop(visit_mut(inner, &mut duplicates)),
        Statement::Explain(explain) => {
            return tell_apart(&mut explain.statement, known, beside_wildcards);
        }
        // A columnar file, unlike CSV, cannot have columns of one name.
        _ => {}
    }
    duplicates.ambiguous
}

/// The planner's names of expressions that [`tell_apart`] could only give a number.
fn planned_names(plan: &LogicalPlan) -> HashMap<usize, String> {
    let mut names = HashMap::new();
    // The closures never fail.
    let _ = apply_with_subqueries(plan, |plan| {
        apply_expressions(plan, |expr| {
            expr.apply(|expr| {
                if let Planned::Alias(alias) = expr
                    && let Some(number) = number(&alias.name)
                {
                    let name = match alias.expr.as_ref() {
                        Planned::Column(column) => column.name.clone(),
                        other => other.schema_name().to_string(),
                    };
                    names.entry(number).or_insert(visible(&name));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    names
}

struct DuplicateNames<'a> {
    known: &'a HashMap<usize, String>,
    /// Whether names beside `*` are all made different.
    beside_wildcards: bool,
    /// Columns of select lists so far.
    found: usize,
    /// Queries around the one visited.
    depth: usize,
    ambiguous: Option<String>,
}

impl VisitorMut for DuplicateNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        if let SetExpr::Select(select) = query.body.as_ref()
            && let Some(order) = &query.order_by
            && let OrderByKind::Expressions(exprs) = &order.kind
        {
            let ordered = exprs.iter().filter_map(|order| match &order.expr {
                Expr::Identifier(ident) => Some(identifier(ident)),
                _ => None,
            });
            let mut ambiguous = ordered.filter(|name| names_different(select, name));
            self.ambiguous = ambiguous.next().or(self.ambiguous.take());
        }
        mark_order(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        mark_select(select);
        group_apart(select);
        let is_wildcard = |item: &SelectItem| {
            matches!(
                item,
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _)
            )
        };
        let any_wildcard = select.projection.iter().any(is_wildcard);
        let is_outermost = self.depth <= 1;
        let is_alone = select.projection.len() == 1;
        let numbers = self.found + 1..;
        self.found += select.projection.len();
        let known = |number: &usize| self.known.get(number).cloned();
        let names = select.projection.iter().zip(numbers.clone());
        let names = names.map(|(item, number)| name_of(item).or_else(|| known(&number)));
        let names: Vec<Option<String>> = names.collect();
        let mut count: HashMap<&str, usize> = HashMap::new();
        for name in names.iter().flatten() {
            *count.entry(name).or_default() += 1;
        }
        let mut seen = HashSet::new();
        let items = select.projection.iter_mut().zip(&names).zip(numbers);
        for ((item, name), number) in items {
            let is_first = name.as_deref().is_none_or(|name| seen.insert(name));
            let is_only = name.as_deref().is_some_and(|name| count[name] == 1);
            let stays = match name_of(item) {
                Some(_) => {
                    !(any_wildcard && self.beside_wildcards)
                        && (is_only || is_first && is_outermost)
                }
                // An additional expression of ORDER BY may have the same name.
                None => !any_wildcard && (is_only || is_alone) && !is_outermost,
            };
            let expr = match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
                    if !stays =>
                {
                    expr.clone()
                }
                _ => continue,
            };
            let alias = format!("{}{}", name.as_deref().unwrap_or_default(), digits(number));
            *item = SelectItem::ExprWithAlias {
                expr,
                alias: Ident::with_quote('"', alias),
            };
        }
        ControlFlow::Continue(())
    }
}

/// ROLLUP and CUBE may name a column twice if another grouping is multiplied with them. Times the empty set they are unchanged.
fn group_apart(select: &mut Select) {
    if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by
        && let [Expr::Rollup(_) | Expr::Cube(_)] = exprs.as_slice()
    {
        exprs.push(Expr::GroupingSets(vec![Vec::new()]));
    }
}

/// The name of a select item, as far as it is known without the planner.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => own_name(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(identifier(alias)),
        _ => None,
    }
}

/// The name of a column.
fn own_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => own_name(inner),
        Expr::Identifier(ident) => Some(identifier(ident)),
        Expr::CompoundIdentifier(idents) => idents.last().map(identifier),
        _ => None,
    }
}

/// Whether several different expressions of `select` have the name.
fn names_different(select: &Select, name: &str) -> bool {
    let mut exprs = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => (identifier(alias) == name).then_some(expr),
        SelectItem::UnnamedExpr(expr) => (own_name(expr).as_deref() == Some(name)).then_some(expr),
        _ => None,
    });
    let first = exprs.next();
    exprs.any(|expr| Some(expr) != first)
}

/// Whether planning `statement` again costs more than it may gain: rows of VALUES have no names.
fn has_none(statement: &Statement) -> bool {
    let Statement::Statement(boxed) = statement else {
        return matches!(statement, Statement::CopyTo(_));
    };
    match boxed.as_ref() {
        ast::Statement::Insert(_) => has_values(statement),
        ast::Statement::Query(_)
        | ast::Statement::Prepare { .. }
        | ast::Statement::Explain { .. } => false,
        _ => true,
    }
}

/// Whether it inserts rows that are written in it.
fn has_values(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else {
        return false;
    };
    match statement.as_ref() {
        ast::Statement::Insert(insert) => insert
            .source
            .as_ref()
            .is_none_or(|source| matches!(source.body.as_ref(), SetExpr::Values(_))),
        _ => false,
    }
}
