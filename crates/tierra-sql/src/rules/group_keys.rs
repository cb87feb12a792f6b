//! Renames groups whose names mislead the optimiser.
//!
//! The key of one table does not determine the groups of a join. For `GROUP BY a.id, b.id` DataFusion takes the primary key
//! `a.id` of `a` for a key of all groups. So ORDER BY lost `b.id`, an outer GROUP BY had too few groups, and a join with these
//! groups found one match instead of many. It compares names. It also computes the second group of
//! `GROUP BY a, CAST(a AS DOUBLE)`, which has the same name, from the first one above the groups, and refuses both. So such groups
//! and all groups of joined rows get other names, and a projection above restores the old ones. Which keys a join has is not
//! known here: the optimiser makes keys of DISTINCT, and other joins of outer joins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Projection};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

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
        _ => return Ok(Transformed::no(plan)),
    };
    let joins = || input.exists(|plan| Ok(matches!(plan, LogicalPlan::Join(_))));
    if !has_ambiguous_names(&groups) && (groups.len() < 2 || !joins()?) {
        return Ok(Transformed::no(plan));
    }
    // An expression that is named twice is one column.
    let mut seen = HashSet::new();
    groups.retain(|expr| seen.insert(expr.clone()));
    let count = groups.len();
    if count + aggregates.len() != plan.schema().fields().len() {
        return Ok(Transformed::no(plan));
    }
    let groups = groups.into_iter().enumerate();
    let groups = groups.map(|(place, expr)| expr.alias(format!("tierra_group_{place}")));
    let renamed = Aggregate::try_new(Arc::clone(input), groups.collect(), aggregates)?;
    let columns = renamed.schema.columns().into_iter().enumerate();
    let names = plan.schema().iter();
    let columns = columns.zip(names).map(|((place, column), (table, field))| {
        let column = Expr::from(column);
        match place < count {
            true => column.alias_qualified(table.cloned(), field.name()),
            false => column,
        }
    });
    let renamed = Arc::new(LogicalPlan::Aggregate(renamed));
    let named = Projection::try_new(columns.collect(), renamed)?;
    Ok(Transformed::yes(LogicalPlan::Projection(named)))
}

/// Whether two different groups have one name.
fn has_ambiguous_names(groups: &[Expr]) -> bool {
    let mut seen = HashMap::new();
    groups.iter().any(|group| {
        let first = seen.entry(group.schema_name().to_string()).or_insert(group);
        *first != group
    })
}
