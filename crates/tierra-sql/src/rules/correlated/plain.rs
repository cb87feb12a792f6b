//! Subqueries that DataFusion joins rightly.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, ExprSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Distinct, Filter};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};

use super::references::{outer_columns, refers, subquery_of};
use crate::rules::plan::schema_below;
use crate::tree::{TreeNode, apply_expressions};

/// Whether `rows`, which refers to a row outside, is of a form that is left to DataFusion.
pub(super) fn is_plain(rows: &LogicalPlan, is_one_value: bool, outside: &DFSchema) -> Result<bool> {
    match is_one_value {
        true => is_plain_value(rows, outside),
        false => is_plain_predicate(rows, outside),
    }
}

/// Whether `rows`, in FROM behind `outside`, are of a form that is left to DataFusion.
pub(super) fn is_plain_lateral(rows: &LogicalPlan, outside: &DFSchema) -> Result<bool> {
    let references = rows.all_out_ref_exprs();
    let is_beside = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => outside.has_column(column),
        _ => false,
    };
    let is_other = |node: &LogicalPlan| {
        Ok(matches!(
            node,
            LogicalPlan::Distinct(_) | LogicalPlan::Subquery(_)
        ))
    };
    Ok(references.iter().all(is_beside)
        && !rows.exists(is_other)?
        && (is_plain_value(rows, outside)? || is_plain_predicate(rows, outside)?))
}

/// An aggregate of all rows, or a row found by its key, of rows that meet conditions `column = value outside`.
fn is_plain_value(rows: &LogicalPlan, outside: &DFSchema) -> Result<bool> {
    let columns = outer_columns(rows, outside)?;
    match rows {
        LogicalPlan::Projection(projection) => {
            let is_outside = |expr: &Expr| {
                let names = expr.contains_outer();
                names
                    || expr
                        .exists(|expr| Ok(subquery_of(expr).is_some()))
                        .unwrap_or(true)
            };
            Ok(!projection.expr.iter().any(is_outside)
                && is_plain_value(&projection.input, outside)?)
        }
        LogicalPlan::SubqueryAlias(alias) => is_plain_value(&alias.input, outside),
        LogicalPlan::Aggregate(aggregate) => {
            let is_of_all = aggregate.group_expr.is_empty();
            let refers_in = aggregate.aggr_expr.iter().any(Expr::contains_outer);
            match aggregate.input.as_ref() {
                LogicalPlan::Filter(filter) if is_of_all && !refers_in => {
                    Ok(has_equal_columns(filter, outside)? && !refers(&filter.input, &columns)?)
                }
                _ => Ok(false),
            }
        }
        LogicalPlan::Filter(filter) => Ok(rows.max_rows().is_some_and(|most| most <= 1)
            && is_stored(&filter.input)
            && has_equal_columns(filter, outside)?
            && has_equal_types(filter)?),
        _ => Ok(false),
    }
}

/// Whether the rows are those of a table.
fn is_stored(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_stored(&alias.input),
        plan => matches!(plan, LogicalPlan::TableScan(_)),
    }
}

/// Whether each term that refers outside compares a column with a value that is the same for equal columns only.
fn has_equal_columns(filter: &Filter, outside: &DFSchema) -> Result<bool> {
    let schema = filter.input.schema();
    for term in split_conjunction(&filter.predicate) {
        if term.exists(|expr| Ok(subquery_of(expr).is_some()))? {
            return Ok(false);
        }
        if !term.contains_outer() {
            continue;
        }
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = term
        else {
            return Ok(false);
        };
        let (column, other) = match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), other) | (other, Expr::Column(column)) => (column, other),
            _ => return Ok(false),
        };
        let Expr::OuterReferenceColumn(_, other) = other else {
            return Ok(false);
        };
        if !outside.has_column(other) {
            return Ok(false);
        }
        let inner = schema.field_from_column(column)?.data_type();
        let outer = outside.field_from_column(other)?.data_type();
        let are_whole = |types: [&DataType; 2]| types.iter().all(|ty| ty.is_integer());
        if inner != outer && !are_whole([inner, outer]) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether what terms compare has one type. A key that is cast is no key any more.
fn has_equal_types(filter: &Filter) -> Result<bool> {
    let schema = filter.input.schema();
    for term in split_conjunction(&filter.predicate) {
        if let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = term
            && left.get_type(schema)? != right.get_type(schema)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a subquery in an expression of `node` is computed for all rows of it. Then those rows, and what they refer to outside, are
/// in the subquery as well.
fn repeats(node: &LogicalPlan, expr: &Expr) -> Result<bool> {
    let Some(subquery) = subquery_of(expr) else {
        return Ok(false);
    };
    let rows = &subquery.subquery;
    let below = schema_below(node)?;
    if outer_columns(rows, &below)?.is_empty() {
        return Ok(false);
    }
    let is_one_value = matches!(expr, Expr::ScalarSubquery(_));
    let is_joined =
        !is_one_value || matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Filter(_));
    Ok(!is_joined || !is_plain(rows, is_one_value, &below)?)
}

/// Rows that filters, projections and inner joins yield, of which only filters refer outside, and projections not below joins.
fn is_plain_predicate(rows: &LogicalPlan, outside: &DFSchema) -> Result<bool> {
    let columns = outer_columns(rows, outside)?;
    // Conditions are not moved out of a join beside a limit.
    let is_limit = |node: &LogicalPlan| Ok(matches!(node, LogicalPlan::Limit(_)));
    let is_beside = |node: &LogicalPlan| match node {
        LogicalPlan::Join(_) => Ok(refers(node, &columns)? && node.exists(is_limit)?),
        _ => Ok(false),
    };
    // Nor out of a projection beside a join, which does not yield what they compare.
    let is_projected = |node: &LogicalPlan| match node {
        LogicalPlan::Projection(_) | LogicalPlan::Distinct(_) => refers(node, &columns),
        _ => Ok(false),
    };
    let is_below = |node: &LogicalPlan| match node {
        LogicalPlan::Join(_) => Ok(refers(node, &columns)? && node.exists(is_projected)?),
        _ => Ok(false),
    };
    let mut is_plain = !rows.exists(is_beside)? && !rows.exists(is_below)?;
    rows.apply(|node| {
        if !refers(node, &columns)? {
            return Ok(TreeNodeRecursion::Jump);
        }
        let mut in_subqueries = false;
        let mut in_expressions = false;
        apply_expressions(node, |expr| {
            in_expressions |= expr.contains_outer();
            expr.apply(|expr| {
                if let Some(subquery) = subquery_of(expr) {
                    // What is compared with its rows may refer outside, too.
                    in_subqueries |= expr.contains_outer()
                        || refers(&subquery.subquery, &columns)?
                        || repeats(node, expr)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let is_known = match node {
            LogicalPlan::Filter(_) => true,
            LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => !in_expressions,
            LogicalPlan::Join(join) => !in_expressions && join.join_type == JoinType::Inner,
            _ => false,
        };
        is_plain &= is_known && !in_subqueries;
        Ok(match is_plain {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(is_plain)
}
