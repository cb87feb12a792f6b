//! Subqueries that refer to the row outside are computed for all rows outside at once.
//!
//! ```text
//! SELECT a.id, (S) FROM a WHERE EXISTS (T)
//! S'   a row for each value of the columns of a that S refers to: domain.rs
//!      SELECT a.id, S'.value FROM a LEFT JOIN S' ON S'.d IS NOT DISTINCT FROM a.k
//! T'   the rows of T for all values of the columns that T refers to
//!      .. WHERE EXISTS (SELECT * FROM T' WHERE T'.d IS NOT DISTINCT FROM a.k)
//! ```
//! DataFusion joins a subquery by its conditions on the row outside. That is right for those that [`plain`] describes, which
//! are left to it. Other aggregates and limits were computed of the rows of all values together, lost a condition of theirs, or
//! were NULL where there was no row to count.
//!
//! A subquery for one value that has more rows is an error when it runs ([`OnlyRow`]).

mod domain;
mod exists;
mod first_rows;
mod laterals;
mod one_row;
mod plain;
mod references;
mod repeatable;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::logical_plan::{Filter, Join};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use self::domain::{Domain, ForAll, Numbers, same, value};
use self::references::{outer_columns, subquery_of, with_subquery};
use self::repeatable::repeatable;
use super::plan::{map_under_names, uses};
use crate::tree::{TreeNode, transform_down_with_subqueries};

pub(crate) use self::domain::is_of_row_outside;
pub(super) use self::laterals::PlainInputs;

/// The rule.
#[derive(Debug)]
pub(super) struct Correlated;

impl AnalyzerRule for Correlated {
    fn name(&self) -> &str {
        "correlated"
    }

    /// From the outermost subquery in: what an inner one refers to further out has become a column by then.
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut numbers = Numbers::default();
        let plan = laterals::joined(plan, true, &mut numbers)?;
        transform_down_with_subqueries(plan, |plan| rewrite(plan, &mut numbers)).data()
    }
}

fn rewrite(plan: LogicalPlan, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, |expr| subquery_of(expr).is_some())? {
        return Ok(Transformed::no(plan));
    }
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_) => over_one_input(plan, numbers),
        LogicalPlan::Join(_) => over_sides(plan, numbers),
        other => Ok(Transformed::no(other)),
    }
}

/// An operator whose expressions have subqueries that refer to its input.
fn over_one_input(plan: LogicalPlan, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(plan.schema());
    let input = plan.inputs()[0].clone();
    let mut side = Side::new(input.clone(), outside(&plan, input)?);
    side.joins_values = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Filter(_));
    let changed = map_under_names(plan, |expr| {
        expr.transform_up(|expr| side.computed(expr, numbers))
    })?;
    if !changed.transformed {
        return Ok(changed);
    }
    let plan = changed.data;
    let exprs = plan.expressions();
    let plan = plan.with_new_exprs(exprs, vec![side.plan])?;
    with_columns(plan, &schema).map(Transformed::yes)
}

/// A join whose condition has subqueries that refer to one of its sides.
fn over_sides(plan: LogicalPlan, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && refers_to_both(&join)? => {
            let over_pairs = over_one_input(filtered(join)?, numbers)?;
            return Ok(Transformed::yes(over_pairs.data));
        }
        plan => plan,
    };
    let schema = Arc::clone(plan.schema());
    let sides = plan.inputs().into_iter();
    let sides = sides.map(|side| Side::new(side.clone(), side.clone()));
    let mut sides: Vec<Side> = sides.collect();
    let changed = map_under_names(plan, |expr| {
        expr.transform_up(|expr| {
            let Some(subquery) = subquery_of(&expr) else {
                return Ok(Transformed::no(expr));
            };
            let refers_to = |side: &Side| {
                let columns = outer_columns(&subquery.subquery, side.plan.schema())?;
                Ok(!columns.is_empty())
            };
            let of = sides.iter().map(refers_to).collect::<Result<Vec<bool>>>()?;
            match of.as_slice() {
                [true, false] => sides[0].computed(expr, numbers),
                [false, true] => sides[1].computed(expr, numbers),
                _ => Ok(Transformed::no(expr)),
            }
        })
    })?;
    if !changed.transformed {
        return Ok(changed);
    }
    let plan = changed.data;
    let exprs = plan.expressions();
    let inputs = sides.into_iter().map(|side| side.plan).collect();
    let plan = plan.with_new_exprs(exprs, inputs)?;
    with_columns(plan, &schema).map(Transformed::yes)
}

/// Whether a subquery in the condition of a join refers to rows of both sides.
fn refers_to_both(join: &Join) -> Result<bool> {
    let Some(condition) = &join.filter else {
        return Ok(false);
    };
    condition.exists(|expr| {
        let Some(subquery) = subquery_of(expr) else {
            return Ok(false);
        };
        let refers = |side: &LogicalPlan| {
            let columns = outer_columns(&subquery.subquery, side.schema())?;
            Ok::<_, DataFusionError>(!columns.is_empty())
        };
        Ok(refers(&join.left)? && refers(&join.right)?)
    })
}

/// An inner join whose condition is that of a filter.
fn filtered(mut join: Join) -> Result<LogicalPlan> {
    let condition = join.filter.take();
    let plan = LogicalPlan::Join(join);
    match condition {
        Some(condition) => Filter::try_new(condition, Arc::new(plan)).map(LogicalPlan::Filter),
        None => Ok(plan),
    }
}

/// The rows outside of the subqueries of `plan`: those of its input that meet the conditions without subqueries.
fn outside(plan: &LogicalPlan, input: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Filter(filter) = plan else {
        return Ok(input);
    };
    let is_plain = |term: &&Expr| {
        let is_other = term.exists(|expr| Ok(subquery_of(expr).is_some()));
        !is_other.unwrap_or(true) && !term.is_volatile()
    };
    let terms = split_conjunction(&filter.predicate).into_iter();
    match conjunction(terms.filter(is_plain).cloned()) {
        Some(condition) => Filter::try_new(condition, Arc::new(input)).map(LogicalPlan::Filter),
        None => Ok(input),
    }
}

/// `plan` with only the columns of `schema`.
fn with_columns(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(plan);
    }
    let columns = schema.columns().into_iter().map(Expr::from);
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// An input that gets a column for each subquery of one value.
struct Side {
    plan: LogicalPlan,
    /// The rows for which subqueries are computed.
    outside: LogicalPlan,
    /// Whether DataFusion joins values to the operator's input.
    joins_values: bool,
}

impl Side {
    fn new(plan: LogicalPlan, outside: LogicalPlan) -> Self {
        Self {
            plan,
            outside,
            joins_values: false,
        }
    }

    /// `expr`, if it is a subquery that is computed for all rows at once: the column with its value, or a predicate of its rows for
    /// all values.
    fn computed(&mut self, expr: Expr, numbers: &mut Numbers) -> Result<Transformed<Expr>> {
        let Some(subquery) = subquery_of(&expr) else {
            return Ok(Transformed::no(expr));
        };
        let rows = Arc::clone(&subquery.subquery);
        if matches!(expr, Expr::Exists(_))
            && let Some(all) = exists::of_any_row(&rows)
        {
            let expr = with_subquery(expr, all);
            return Ok(Transformed::yes(self.computed(expr, numbers)?.data));
        }
        let is_one_value = matches!(expr, Expr::ScalarSubquery(_));
        let columns = outer_columns(&rows, self.outside.schema())?;
        let is_joined = !is_one_value || self.joins_values;
        let is_plain = || plain::is_plain(&rows, is_one_value, self.outside.schema());
        if columns.is_empty() || is_joined && is_plain()? {
            return Ok(Transformed::no(expr));
        }
        let outside = repeatable(self.outside.clone())?;
        let mut domain = Domain {
            outside: &laterals::joined(outside, false, numbers)?,
            columns: &columns,
            numbers,
        };
        if !is_one_value {
            let all = domain.for_all(&rows)?;
            let plan = self.of_the_row(all, &columns, &rows)?;
            return Ok(Transformed::yes(with_subquery(expr, plan)));
        }
        let all = match one_row::has_one_row(&rows) {
            true => domain.for_all(&rows)?,
            false => one_row::checked(domain.for_all(&rows)?, columns.len(), &rows)?,
        };
        let name = value(all.number, columns.len());
        let values = (0..columns.len()).map(|place| Expr::Column(value(all.number, place)));
        let column = Column::from(rows.schema().qualified_field(0));
        let column = Expr::Column(column).alias(&name.name);
        let values: Vec<Expr> = values.chain([column]).collect();
        let right = LogicalPlanBuilder::from(all.plan)
            .project(values)?
            .build()?;
        let equal = columns.iter().enumerate().map(|(place, column)| {
            let inner = Expr::Column(value(all.number, place));
            same(Expr::Column(column.clone()), inner)
        });
        let equal: Vec<Expr> = equal.collect();
        let plan = std::mem::take(&mut self.plan);
        self.plan = LogicalPlanBuilder::from(plan)
            .join_on(right, JoinType::Left, equal)?
            .build()?;
        Ok(Transformed::yes(Expr::Column(name)))
    }

    /// The rows of a subquery for the values of the row outside.
    fn of_the_row(
        &self,
        all: ForAll,
        columns: &[Column],
        rows: &LogicalPlan,
    ) -> Result<LogicalPlan> {
        let outside = self.outside.schema();
        let terms = columns.iter().enumerate().map(|(place, column)| {
            let inner = Expr::Column(value(all.number, place));
            let (_, field) = outside.qualified_field_from_column(column)?;
            let outer = Expr::OuterReferenceColumn(Arc::clone(field), column.clone());
            Ok(same(inner, outer))
        });
        let condition = conjunction(terms.collect::<Result<Vec<_>>>()?);
        let condition = condition.expect("the subquery refers to the row outside");
        let columns = rows.schema().columns().into_iter().map(Expr::from);
        LogicalPlanBuilder::from(all.plan)
            .filter(condition)?
            .project(columns)?
            .build()
    }
}
