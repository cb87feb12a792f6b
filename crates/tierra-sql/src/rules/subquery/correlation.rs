//! What of a subquery refers to the row outside, and how it becomes the condition of a join.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, not_impl_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::replace_col;
use datafusion::logical_expr::logical_plan::{Distinct, Limit, Projection, SkipType};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

/// The column of a subquery that is compared.
pub(super) const VALUE: &str = "tierra_value";

/// Whether `plan` refers to a row outside.
pub(super) fn refers_outside(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// What of a correlated subquery would be computed of other rows once its conditions are those of a join.
pub(super) fn obstacle(rows: &LogicalPlan) -> Option<&'static str> {
    let mut found = None;
    let visited = rows.apply(|node| {
        let what = match node {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                "an aggregate without GROUP BY"
            }
            LogicalPlan::Window(_) => "a window function",
            LogicalPlan::Limit(limit) if skips(limit) => "OFFSET",
            LogicalPlan::Distinct(Distinct::On(_)) => "DISTINCT ON",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(match refers_outside(node) {
            true => {
                found = Some(what);
                TreeNodeRecursion::Stop
            }
            false => TreeNodeRecursion::Continue,
        })
    });
    visited.ok().and(found)
}

fn skips(limit: &Limit) -> bool {
    !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
}

/// Whether `plan` has one row, whatever there is below: aggregates without GROUP BY and HAVING.
pub(super) fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// `plan` with a name for the one value that it computes: the name of a cast is that of its column, which may
/// come to stand beside it.
pub(super) fn with_name(plan: &LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::Projection(projection) = plan
        && let [value] = projection.expr.as_slice()
        && !matches!(value, Expr::Column(_) | Expr::Alias(_))
    {
        let value = value.clone().alias(VALUE);
        let projection = Projection::try_new(vec![value], Arc::clone(&projection.input))?;
        return Ok(LogicalPlan::Projection(projection));
    }
    Ok(plan.clone())
}

/// The rows of a subquery as the right side of a join.
pub(super) struct JoinedRows {
    /// [`VALUE`], and the columns that the conditions speak of.
    plan: LogicalPlan,
    /// What ties them to the row outside.
    conditions: Vec<Expr>,
    /// The columns in the conditions that are the plan's, and what they are called there.
    columns: HashMap<Column, String>,
}

impl JoinedRows {
    /// The rows of `subquery`, of which `value` is compared.
    pub(super) fn of(subquery: &LogicalPlan, value: Option<Expr>) -> Result<Self> {
        let mut pulled = PullUpCorrelatedExpr::new().with_exists_sub_query(value.is_none());
        let value = value.unwrap_or_else(|| lit(true)).alias(VALUE);
        let plan = LogicalPlanBuilder::from(subquery.clone()).project([value])?;
        let mut rows = Self {
            plan: plan.build()?,
            conditions: Vec::new(),
            columns: HashMap::new(),
        };
        if !refers_outside(&rows.plan) {
            return Ok(rows);
        }
        let plan = rows.plan.rewrite(&mut pulled).data()?;
        if !pulled.can_pull_up || refers_outside(&plan) {
            return not_impl_err!(
                "a subquery in IN, EXISTS, ANY or ALL can refer to the row outside in its WHERE, not \
                 in its select list, in UNION or beside LIMIT"
            );
        }
        // Each by a name of its own, so that none is taken for a column outside.
        let used = pulled.join_filters.iter().flat_map(Expr::column_refs);
        let used: BTreeSet<&Column> = used.collect();
        let pulled_up = pulled.correlated_subquery_cols_map.values().flatten();
        let pulled_up: BTreeSet<&Column> = pulled_up.collect();
        let mut kept = vec![Expr::Column(Column::from(plan.schema().qualified_field(0)))];
        for column in used.intersection(&pulled_up) {
            let found = plan.schema().iter().skip(1).filter(|(table, field)| {
                let is_same = *table == column.relation.as_ref();
                field.name() == &column.name && (is_same || !plan.schema().has_column(column))
            });
            let found: Vec<Column> = found.map(Column::from).collect();
            let [found] = found.as_slice() else {
                return not_impl_err!(
                    "a subquery in IN, EXISTS, ANY or ALL that refers to the row outside has two columns {}",
                    column.name
                );
            };
            let name = format!("tierra_column_{}", kept.len());
            kept.push(Expr::Column(found.clone()).alias(&name));
            rows.columns.insert((*column).clone(), name);
        }
        rows.plan = LogicalPlanBuilder::from(plan).project(kept)?.build()?;
        rows.conditions = pulled.join_filters;
        Ok(rows)
    }

    pub(super) fn is_correlated(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// The rows under another name, and what ties them to the row outside.
    pub(super) fn named(&self, alias: &str) -> Result<(LogicalPlan, Vec<Expr>)> {
        let plan = LogicalPlanBuilder::from(self.plan.clone()).alias(alias)?;
        let columns = self.columns.iter();
        let columns = columns.map(|(old, name)| (old, Column::new(Some(alias), name)));
        let columns: HashMap<&Column, Column> = columns.collect();
        let columns = columns.iter().map(|(old, new)| (*old, new)).collect();
        let conditions = self.conditions.iter();
        let conditions = conditions.map(|condition| replace_col(condition.clone(), &columns));
        Ok((plan.build()?, conditions.collect::<Result<_>>()?))
    }
}
