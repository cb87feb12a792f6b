//! Statements are planned as if tables had no keys.
//!
//! To GROUP BY a key DataFusion's planner adds the columns of its table, so that they can be selected. Of the groups of a join it takes the
//! key of one table for the key of all columns, counts among them. So in `SELECT b, count(*) FROM (SELECT x.id AS a, y.id AS b FROM x JOIN y
//! .. GROUP BY 1, 2) GROUP BY b` it added `a`, and `b` had a row for each. A statement that is refused without keys, since it may select
//! what only a key determines, is planned again with them, and stays refused if it groups what the planner misjudges: groups of joined
//! rows, elements of lists, and casts of a key, which have its name.
//!
//! The rows of a subquery in FROM have no keys for the planner either ([`KeylessSubqueries`]). Of `(SELECT id AS x, id AS z FROM t GROUP BY
//! 1, 2) d` it took `x` for a key, and since the name of a cast is that of its column, `GROUP BY CAST(d.x AS DATE)` got a group for each `z`.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, FunctionalDependencies, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::logical_plan::{Distinct, Projection, Sort, Union};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::TableFactor;

use crate::merged_columns;
use crate::tree::{TreeNode, apply_with_subqueries};

tokio::task_local! {
    /// Set while a statement is planned without keys.
    static WITHOUT_KEYS: ();
}

/// Whether tables are to be found without their keys.
pub(crate) fn are_hidden() -> bool {
    WITHOUT_KEYS.try_with(|()| ()).is_ok()
}

/// The plan of a statement. It may be planned twice.
///
/// # Errors
/// If the statement cannot be planned.
pub(crate) async fn planned(state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    let without = merged_columns::planned(state, statement.clone());
    match WITHOUT_KEYS.scope((), without).await {
        Err(error) if error.to_string().contains("GROUP BY") => {
            let plan = merged_columns::planned(state, statement).await?;
            match misjudges_keys(&plan)? {
                true => Err(error),
                false => Ok(plan),
            }
        }
        planned => planned,
    }
}

/// Whether the planner may have taken wrong columns for keys, by which `plan` groups.
fn misjudges_keys(plan: &LogicalPlan) -> Result<bool> {
    let is_join = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Join(_)));
    let is_misjudged = |plan: &LogicalPlan| match plan {
        LogicalPlan::Aggregate(groups) if groups.group_expr.len() > 1 => {
            groups.input.exists(is_join)
        }
        plan => Ok(matches!(plan, LogicalPlan::Unnest(_))),
    };
    let mut found = false;
    apply_with_subqueries(plan, |plan| {
        if let LogicalPlan::Aggregate(groups) = plan {
            let columns = groups.input.schema().field_names();
            let is_taken_for_column = |key: &Expr| {
                !matches!(key, Expr::Column(_)) && columns.contains(&key.schema_name().to_string())
            };
            found |= groups.group_expr.iter().any(is_taken_for_column)
                || groups.input.exists(is_misjudged)?;
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

thread_local! {
    /// Set where [`KeylessSubqueries`] asks for the plan of a relation, which it leaves to the planner then.
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Plans subqueries in FROM, by names of WITH too, as rows without keys. A column of the row outside in their select lists keeps its name,
/// which the planner makes `outer_ref(a.k)`: `k` was then looked for further out.
#[derive(Debug)]
pub(crate) struct KeylessSubqueries;

impl RelationPlanner for KeylessSubqueries {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if IS_ASKED.replace(false) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let (mut relation, is_subquery) = match relation {
            table @ TableFactor::Table { .. } => (table, false),
            subquery @ TableFactor::Derived { .. } => (subquery, true),
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = &mut relation
        else {
            return internal_err!("a table or a subquery");
        };
        let alias = alias.take();
        IS_ASKED.set(true);
        let plan = context.plan(relation);
        // If it was not planned at all.
        IS_ASKED.set(false);
        let plan = match is_subquery {
            true => named(plan?)?,
            false => plan?,
        };
        let planned = PlannedRelation::new(keyless(plan)?, alias);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// A subquery whose columns of the row outside have their names.
fn named(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let named = |expr: Expr| match expr {
                Expr::OuterReferenceColumn(field, column) => {
                    let name = column.name.clone();
                    Expr::OuterReferenceColumn(field, column).alias(name)
                }
                expr => expr,
            };
            let exprs = expr.into_iter().map(named).collect();
            Projection::try_new(exprs, input).map(LogicalPlan::Projection)
        }
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.into_iter();
            let inputs = inputs.map(|input| named(Arc::unwrap_or_clone(input)).map(Arc::new));
            let union = Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?;
            Ok(LogicalPlan::Union(union))
        }
        LogicalPlan::Sort(Sort { expr, input, fetch }) => {
            let before = Arc::clone(input.schema());
            let input = named(Arc::unwrap_or_clone(input))?;
            let as_named = |expr: Expr| match &expr {
                Expr::Column(column) => match before.maybe_index_of_column(column) {
                    Some(place) => {
                        let field = input.schema().qualified_field(place);
                        Transformed::yes(Expr::Column(field.into()))
                    }
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            };
            let keys = expr.into_iter().map(|key| {
                let expr = key.expr.transform_up(|expr| Ok(as_named(expr))).data()?;
                Ok(SortExpr { expr, ..key })
            });
            Ok(LogicalPlan::Sort(Sort {
                expr: keys.collect::<Result<_>>()?,
                input: Arc::new(input),
                fetch,
            }))
        }
        LogicalPlan::Limit(_) | LogicalPlan::Distinct(Distinct::All(_)) => {
            let plan = plan.map_children(|input| named(input).map(Transformed::yes))?;
            plan.data.recompute_schema()
        }
        other => Ok(other),
    }
}

fn keyless(plan: LogicalPlan) -> Result<LogicalPlan> {
    let without = |schema: &DFSchemaRef| {
        let schema = schema.as_ref().clone();
        let schema = schema.with_functional_dependencies(FunctionalDependencies::empty())?;
        Ok::<_, DataFusionError>(Arc::new(schema))
    };
    match plan {
        LogicalPlan::TableScan(_) => Ok(plan),
        // A name of WITH.
        LogicalPlan::SubqueryAlias(mut alias) => {
            alias.schema = without(&alias.schema)?;
            Ok(LogicalPlan::SubqueryAlias(alias))
        }
        LogicalPlan::Projection(mut all) => {
            all.schema = without(&all.schema)?;
            Ok(LogicalPlan::Projection(all))
        }
        plan if plan.schema().functional_dependencies().is_empty() => Ok(plan),
        plan => {
            let columns = plan.schema().columns().into_iter().map(Expr::from);
            let mut all = Projection::try_new(columns.collect(), Arc::new(plan))?;
            all.schema = without(&all.schema)?;
            Ok(LogicalPlan::Projection(all))
        }
    }
}
