//! Renames groups whose names mislead the optimiser.
//!
//! The key of one table does not determine the groups of a join. For `GROUP BY a.id, b.id` DataFusion takes the primary key
//! `a.id` of `a` for a key of all groups. So ORDER BY lost `b.id`, an outer GROUP BY had too few groups, and a join with these
//! groups found one match instead of many. It compares names. It also computes the second group of
//! `GROUP BY a, CAST(a AS DOUBLE)`, which has the same name, from the first one above the groups, and refuses both. So such groups
//! and all groups of joined rows get other names, and a projection above restores the old ones. Which keys a join has is not
//! known here: the optimiser makes keys of DISTINCT, and other joins of outer joins.
//!
//! A name is without casts. So the key `at` of a table was taken for `CAST(at AS DATE)`, of which several rows are equal: other groups
//! and keys of ORDER BY behind it were left out. And a key of rows whose lists are unnested is taken for one of their elements. Such
//! groups get other names as well, and DISTINCT ON becomes groups with such names.
//!
//! For the same reason `ORDER BY CAST(at AS DATE), at` lost its second key where `at` is a key ([`of_columns`]).
//!
//! In `GROUP BY a, CAST(CAST(a AS BIGINT) AS VARCHAR)` over a table `t` the first group is column `a` of `t`, and the second a column
//! "t.a" of no table. The optimiser takes one for the other. The second keeps another name up to the select list.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr_rewriter::{NamePreserver, normalize_cols};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, DistinctOn, Projection, Sort};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

use super::unnested::unnests;
use crate::tree::{TreeNode, map_expressions, transform_up_with_subqueries};

/// DataFusion's rule that leaves keys of ORDER BY out that earlier ones determine.
pub(super) const REPEATED: &str = "eliminate_duplicated_expr";

/// The rule, except where it would take a computed key of ORDER BY for a column, or a key of rows for one of the elements of their lists.
pub(super) fn of_columns(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let is_misled = |sort: &Sort| {
        let columns = sort.input.schema();
        let mut keys = sort.expr.iter();
        keys.any(|key| is_called_as_column(&key.expr, columns))
    };
    match &plan {
        LogicalPlan::Sort(sort) if is_misled(sort) || unnests(&plan)? => Ok(Transformed::no(plan)),
        _ => rule.rewrite(plan, config),
    }
}

/// What begins the name of a group that is to be told from a column of a table.
pub(super) const APART: &str = "tierra_group ";

/// The rule.
#[derive(Debug)]
pub(super) struct GroupKeys;

impl AnalyzerRule for GroupKeys {
    fn name(&self) -> &str {
        "group_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = with_apart_names(plan)?;
    let is_changed = plan.transformed;
    let plan = plan.data;
    let unchanged = |plan| match is_changed {
        true => Transformed::yes(plan),
        false => Transformed::no(plan),
    };
    let (input, mut groups, aggregates) = match &plan {
        LogicalPlan::Aggregate(Aggregate {
            input,
            group_expr,
            aggr_expr,
            ..
        }) => (input, group_expr.clone(), aggr_expr.clone()),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let columns = input.schema().columns().into_iter().map(Expr::from);
            (input, columns.collect(), Vec::new())
        }
        LogicalPlan::Distinct(Distinct::On(on)) if mislead(&on.on_expr, &on.input)? => {
            return first_of_groups(on.clone()).map(Transformed::yes);
        }
        _ => return Ok(unchanged(plan)),
    };
    if !mislead(&groups, input)? {
        return Ok(unchanged(plan));
    }
    // An expression that is named twice is one column.
    let mut seen = HashSet::new();
    groups.retain(|expr| seen.insert(expr.clone()));
    let count = groups.len();
    if count + aggregates.len() != plan.schema().fields().len() {
        return Ok(unchanged(plan));
    }
    let groups = groups.into_iter().enumerate();
    let groups = groups.map(|(place, expr)| expr.alias(format!("tierra_group_{place}")));
    let renamed = Aggregate::try_new(Arc::clone(input), groups.collect(), aggregates)?;
    let columns = renamed.schema.columns().into_iter().enumerate();
    let names = plan.schema().iter();
    let columns = columns.zip(names).map(|((place, column), (table, field))| {
        let (column, name) = (Expr::from(column), field.name());
        match place < count {
            true if table.is_none() && is_whole_name(name, plan.schema()) => {
                column.alias(format!("{APART}{name}"))
            }
            true => column.alias_qualified(table.cloned(), name),
            false => column,
        }
    });
    let renamed = Arc::new(LogicalPlan::Aggregate(renamed));
    let named = Projection::try_new(columns.collect(), renamed)?;
    Ok(Transformed::yes(LogicalPlan::Projection(named)))
}

/// Whether a column of a table has this name together with its table.
pub(super) fn is_whole_name(name: &str, columns: &DFSchema) -> bool {
    columns.iter().any(|(table, field)| {
        table.is_some_and(|table| format!("{table}.{}", field.name()) == name)
    })
}

/// The same with the names that groups have below, and its own as they were.
pub(super) fn with_apart_names(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let apart: HashSet<String> = plan
        .inputs()
        .into_iter()
        .flat_map(|input| input.schema().fields())
        .filter_map(|field| field.name().strip_prefix(APART).map(String::from))
        .collect();
    if apart.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    let renamed = map_expressions(plan, |expr| {
        let name = names.save(&expr);
        let renamed = expr.transform_up(|expr| match expr {
            Expr::Column(column) if column.relation.is_none() && apart.contains(&column.name) => {
                let name = format!("{APART}{}", column.name);
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(
                    name,
                ))))
            }
            expr => Ok(Transformed::no(expr)),
        })?;
        Ok(renamed.update_data(|expr| name.restore(expr)))
    })?;
    renamed.map_data(LogicalPlan::recompute_schema)
}

/// The groups that the optimiser makes of DISTINCT ON, with names of their own.
fn first_of_groups(on: DistinctOn) -> Result<LogicalPlan> {
    let DistinctOn {
        on_expr,
        select_expr,
        sort_expr,
        input,
        schema,
    } = on;
    let name = |place: usize| format!("tierra_group_{place}");
    let order = sort_expr.unwrap_or_default();
    let selected = normalize_cols(select_expr, &input)?.into_iter();
    let first = selected.map(|expr| first_value(expr, order.clone()));
    let first = first.enumerate();
    let first = first.map(|(place, expr)| expr.alias(format!("tierra_first_{place}")));
    let count = on_expr.len();
    let groups = on_expr.into_iter().enumerate();
    let groups = groups.map(|(place, expr)| expr.alias(name(place)));
    let groups = Aggregate::try_new(input, groups.collect(), first.collect())?;
    let columns = groups.schema.columns().into_iter().skip(count);
    let columns = columns.zip(schema.iter()).map(|(column, (table, field))| {
        Expr::from(column).alias_qualified(table.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    // ORDER BY begins with the groups.
    let order = order.into_iter().take(count).enumerate();
    let order = order.map(|(place, key)| SortExpr {
        expr: Expr::Column(Column::new_unqualified(name(place))),
        ..key
    });
    let order: Vec<SortExpr> = order.collect();
    let mut plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(groups));
    if !order.is_empty() {
        plan = plan.sort(order)?;
    }
    plan.project(columns)?.build()
}

/// Whether the optimiser would take a key of rows of `input` for one of these groups, or one group for another.
fn mislead(groups: &[Expr], input: &LogicalPlan) -> Result<bool> {
    let joins = || input.exists(|plan| Ok(matches!(plan, LogicalPlan::Join(_))));
    Ok(has_ambiguous_names(groups)
        || groups
            .iter()
            .any(|group| is_called_as_column(group, input.schema()))
        || groups.len() > 1 && joins()?
        || unnests(input)?)
}

/// Whether `expr` is computed, and has the name of a column.
fn is_called_as_column(expr: &Expr, columns: &DFSchema) -> bool {
    let name = || expr.schema_name().to_string();
    !matches!(expr, Expr::Column(_)) && columns.field_names().contains(&name())
}

/// Whether two different groups have one name.
fn has_ambiguous_names(groups: &[Expr]) -> bool {
    let mut seen = HashMap::new();
    groups.iter().any(|group| {
        let first = seen.entry(group.schema_name().to_string()).or_insert(group);
        *first != group
    })
}
