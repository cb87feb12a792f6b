//! References of a subquery to the outer row, and their conversion into a join condition.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::tree::TreeNode;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, not_impl_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::replace_col;
use datafusion::logical_expr::logical_plan::{Filter, Projection};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

/// The name of the compared column of a subquery.
pub(super) const VALUE: &str = "tierra_value";

/// Whether `plan` refers to an outer row.
pub(super) fn refers_outside(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// `plan` with a name for its computed value. The name of a cast is that of its column, which may stand beside
/// it later.
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

/// `plan` with `(a.x = a.x) IS TRUE` for the condition `a.x = a.x` on the row outside, which the planner would leave out: it is not true
/// where `a.x` is NULL.
fn with_equal_sides(plan: LogicalPlan) -> Result<LogicalPlan> {
    let told = |condition: &Expr| match condition {
        Expr::BinaryExpr(equal) if equal.op == Operator::Eq && equal.left == equal.right => {
            condition.clone().is_true()
        }
        other => other.clone(),
    };
    let rewritten = plan.transform_up(|plan| {
        Ok(match plan {
            LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
                let conditions = split_conjunction(&filter.predicate).into_iter();
                let predicate = conjunction(conditions.map(told)).unwrap_or(lit(true));
                let filter = Filter::try_new(predicate, filter.input)?;
                Transformed::yes(LogicalPlan::Filter(filter))
            }
            plan => Transformed::no(plan),
        })
    });
    rewritten.data()
}

/// The rows of a subquery as the right side of a join.
pub(super) struct JoinedRows {
    /// [`VALUE`], and the columns of the conditions.
    plan: LogicalPlan,
    /// The conditions on the outer row.
    conditions: Vec<Expr>,
    /// The plan's columns in the conditions, and their names there.
    columns: HashMap<Column, String>,
}

impl JoinedRows {
    /// The rows of `subquery`; `value` is compared.
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
        let plan = with_equal_sides(rows.plan)?.rewrite(&mut pulled).data()?;
        if !pulled.can_pull_up || refers_outside(&plan) {
            return not_impl_err!(
                "a subquery in IN, EXISTS, ANY or ALL can refer to the row outside in its WHERE, not \
                 in its select list, in UNION or beside LIMIT"
            );
        }
        // Each gets a unique name, so that none is taken for an outer column.
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

    /// The rows under another name, and their conditions on the outer row.
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
