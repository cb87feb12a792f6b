//! Two columns of one name: `SELECT 1, 1`, `SELECT a, a`, `SELECT *, a`.
//!
//! The planner refuses a select list whose names do not differ. A statement that it refuses for that is planned again with
//! names that do: to each of the twins an invisible number is added, which [`restored`] takes away from what the statement
//! yields. In a subquery every twin gets one, so that a reference to their name finds none of them, and is
//! [ambiguous](of_reference).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::SchemaError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr as Planned, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, VisitMut, VisitorMut,
};

use crate::names::identifier;

/// The digits of a twin's number: invisible separators.
const DIGITS: [char; 2] = ['\u{2063}', '\u{2064}'];

/// Whether `error` says that names of a select list do not differ.
pub(crate) fn are_cause(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Plan(text) => {
            text.starts_with("Projections require unique expression names")
        }
        DataFusionError::SchemaError(error, _) => matches!(
            error.as_ref(),
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
        ),
        _ => false,
    }
}

/// The name that a reference names more than one column by, if that is why it was not found.
pub(crate) fn of_reference(error: &SchemaError) -> Option<&str> {
    let SchemaError::FieldNotFound {
        field,
        valid_fields,
    } = error
    else {
        return None;
    };
    let is_twin = |name: &str| name.ends_with(DIGITS) && visible(name) == field.name;
    let found = valid_fields.iter().any(|valid| is_twin(&valid.name));
    found.then_some(&field.name)
}

/// `schema` with the names that the user gave; `None` where it has them.
pub(crate) fn restored(schema: &SchemaRef) -> Option<SchemaRef> {
    let is_twin = |field: &Arc<Field>| field.name().ends_with(DIGITS);
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

fn visible(name: &str) -> &str {
    name.trim_end_matches(DIGITS)
}

/// What told the twins of a statement apart.
pub(crate) enum Apart {
    /// Nothing: it has none.
    Nothing,
    /// A reference names several.
    Ambiguous(String),
    /// Names, some of which only the plan tells: [`planned_names`] finds them.
    Names,
}

/// Gives the twins in `statement` names that differ. `known` are those that no column or alias bears, by number.
pub(crate) fn tell_apart(statement: &mut Statement, known: &HashMap<usize, String>) -> Apart {
    let mut twins = Twins {
        known,
        found: 0,
        depth: 0,
        ambiguous: None,
    };
    let _ = match statement {
        Statement::Statement(inner) => inner.visit(&mut twins),
        Statement::Explain(explain) => return tell_apart(&mut explain.statement, known),
        // A file of columns, other than CSV, has no place for twins.
        _ => ControlFlow::Continue(()),
    };
    match twins {
        Twins {
            ambiguous: Some(name),
            ..
        } => Apart::Ambiguous(name),
        Twins { found: 0, .. } => Apart::Nothing,
        _ => Apart::Names,
    }
}

/// What the planner calls those expressions that [`tell_apart`] could give a number only.
pub(crate) fn planned_names(plan: &LogicalPlan) -> HashMap<usize, String> {
    let mut names = HashMap::new();
    // The closures never fail.
    let _ = plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Planned::Alias(alias) = expr
                    && let Some(number) = number(&alias.name)
                {
                    let name = match alias.expr.as_ref() {
                        Planned::Column(column) => column.name.clone(),
                        other => other.schema_name().to_string(),
                    };
                    names.entry(number).or_insert(visible(&name).to_string());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    names
}

fn digits(number: usize) -> String {
    let bits = usize::BITS - number.leading_zeros();
    (0..bits)
        .rev()
        .map(|bit| DIGITS[number >> bit & 1])
        .collect()
}

/// The number that `name` consists of.
fn number(name: &str) -> Option<usize> {
    let digit = |char| DIGITS.iter().position(|digit| *digit == char);
    let mut digits = name.chars().map(digit);
    let number = digits.try_fold(0, |number, digit| Some(number << 1 | digit?));
    number.filter(|number| *number > 0)
}

struct Twins<'a> {
    known: &'a HashMap<usize, String>,
    /// Expressions that were given a name.
    found: usize,
    /// Queries around the one visited.
    depth: usize,
    ambiguous: Option<String>,
}

impl VisitorMut for Twins<'_> {
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
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_wildcard = |item: &SelectItem| {
            matches!(
                item,
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _)
            )
        };
        let any_wildcard = select.projection.iter().any(is_wildcard);
        let mut count: HashMap<String, usize> = HashMap::new();
        for item in &select.projection {
            if let Some(key) = key(item) {
                *count.entry(key).or_default() += 1;
            }
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        for item in &mut select.projection {
            let Some(key) = key(item) else { continue };
            let before = seen.entry(key.clone()).or_default();
            *before += 1;
            let is_first = *before == 1;
            if !any_wildcard && (count[&key] == 1 || (is_first && self.depth <= 1)) {
                continue;
            }
            self.found += 1;
            let (expr, name) = match item {
                SelectItem::UnnamedExpr(expr) => {
                    let known = self.known.get(&self.found).cloned();
                    (expr.clone(), own_name(expr).or(known).unwrap_or_default())
                }
                SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), identifier(alias)),
                _ => continue,
            };
            let alias = format!("{name}{}", digits(self.found));
            *item = SelectItem::ExprWithAlias {
                expr,
                alias: Ident::with_quote('"', alias),
            };
        }
        ControlFlow::Continue(())
    }
}

/// What two expressions of a select list have in common where the planner may give them one name.
fn key(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            Some(own_name(bare(expr)).unwrap_or_else(|| bare(expr).to_string().to_lowercase()))
        }
        SelectItem::ExprWithAlias { alias, .. } => Some(identifier(alias)),
        _ => None,
    }
}

/// The planner leaves parentheses and casts out of a name.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        Expr::Cast { expr, .. } => bare(expr),
        other => other,
    }
}

/// The name of a column.
fn own_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(identifier(ident)),
        Expr::CompoundIdentifier(idents) => idents.last().map(identifier),
        _ => None,
    }
}

/// Whether several expressions of `select` bear the name, and are not the same.
fn names_different(select: &Select, name: &str) -> bool {
    let mut exprs = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => (identifier(alias) == name).then_some(expr),
        SelectItem::UnnamedExpr(expr) => (own_name(expr).as_deref() == Some(name)).then_some(expr),
        _ => None,
    });
    let first = exprs.next();
    exprs.any(|expr| Some(expr) != first)
}

/// Whether planning `statement` again costs more than it may be worth: rows that are written out have no names.
pub(crate) fn has_none(statement: &Statement) -> bool {
    let Statement::Statement(statement) = statement else {
        return matches!(statement, Statement::CopyTo(_));
    };
    match statement.as_ref() {
        ast::Statement::Insert(insert) => insert
            .source
            .as_ref()
            .is_none_or(|source| matches!(source.body.as_ref(), SetExpr::Values(_))),
        ast::Statement::Query(_)
        | ast::Statement::Prepare { .. }
        | ast::Statement::Explain { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for n in [1, 2, 3, 100, usize::MAX] {
            assert_eq!(number(&digits(n)), Some(n));
            assert_eq!(visible(&format!("a{}", digits(n))), "a");
        }
        assert_eq!(number(""), None);
        assert_eq!(number("a"), None);
    }
}
