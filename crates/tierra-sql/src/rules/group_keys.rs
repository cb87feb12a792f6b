//! Renames groups whose names mislead the optimiser.
//!
//! The key of one table does not determine the groups of a join. For `GROUP BY a.id, b.id` DataFusion takes the primary key
//! `a.id` of `a` for a key of all groups. So ORDER BY lost `b.id`, an outer GROUP BY had too few groups, and a join with these
//! groups found one match instead of many. It compares names. It also computes the second group of
//! `GROUP BY a, CAST(a AS DOUBLE)`, which has the same name, from the first one above the groups, and refuses both. So such groups
//! and all groups of joined rows get other names, and a projection above restores the old ones. Which keys a join has is not
//! known here: the optimiser makes keys of DISTINCT, and other joins of outer joins.
//!
//! In `GROUP BY a, CAST(CAST(a AS BIGINT) AS VARCHAR)` over a table `t` the first group is column `a` of `t`, and the second a column
//! "t.a" of no table. The optimiser takes one for the other. The second keeps another name up to the select list.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Projection};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// What begins the name of a group that is to be told from a column of a table.
const APART: &str = "tierra_group ";

/// The rule.
#[derive(Debug)]
pub(super) struct GroupKeys;

impl AnalyzerRule for GroupKeys {
    fn name(&self) -> &str {
        "group_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewrite).data()
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
        _ => return Ok(unchanged(plan)),
    };
    let joins = || input.exists(|plan| Ok(matches!(plan, LogicalPlan::Join(_))));
    if !has_ambiguous_names(&groups) && (groups.len() < 2 || !joins()?) {
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
    let whole_names = |name: &String| {
        let mut columns = plan.schema().iter();
        columns.any(|(table, field)| {
            table.is_some_and(|table| format!("{table}.{}", field.name()) == *name)
        })
    };
    let columns = columns.zip(names).map(|((place, column), (table, field))| {
        let (column, name) = (Expr::from(column), field.name());
        match place < count {
            true if table.is_none() && whole_names(name) => column.alias(format!("{APART}{name}")),
            true => column.alias_qualified(table.cloned(), name),
            false => column,
        }
    });
    let renamed = Arc::new(LogicalPlan::Aggregate(renamed));
    let named = Projection::try_new(columns.collect(), renamed)?;
    Ok(Transformed::yes(LogicalPlan::Projection(named)))
}

/// The same with the names that groups have below, and its own as they were.
fn with_apart_names(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
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
    let renamed = plan.map_expressions(|expr| {
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

/// Whether two different groups have one name.
fn has_ambiguous_names(groups: &[Expr]) -> bool {
    let mut seen = HashMap::new();
    groups.iter().any(|group| {
        let first = seen.entry(group.schema_name().to_string()).or_insert(group);
        *first != group
    })
}
