//! Mark joins: a column that says for each row whether a subquery has a row that meets the comparison.
//!
//! ```text
//! x op ANY (S)   CASE WHEN found THEN true WHEN unknown THEN NULL ELSE false END
//! found          LeftMark Join: x op S.value, and the conditions of S on the row
//! unknown        S refers to the row:  LeftMark Join: x IS NULL OR S.value IS NULL, and the conditions of S on the row
//!                otherwise:            S has a NULL, OR x IS NULL AND S has a row
//! ```
//! Parts that do not depend on the row are scalar subqueries, computed once.

use std::sync::Arc;

use datafusion::common::alias::AliasGenerator;
use datafusion::common::{Column, ExprSchema, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::logical_plan::{Join, JoinConstraint, Subquery};
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr, lit, not, when,
};

use super::correlation::{self, JoinedRows, VALUE};
use super::predicate::Predicate;
use crate::tree::TreeNode;

/// How NULL is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// NULL and false are distinguished.
    Told,
    /// NULL counts as false.
    IsFalse,
}

/// A plan that gets a column for each mark.
pub(super) struct Marks<'a> {
    input: LogicalPlan,
    aliases: &'a Arc<AliasGenerator>,
}

impl<'a> Marks<'a> {
    pub(super) fn over(input: LogicalPlan, aliases: &'a Arc<AliasGenerator>) -> Self {
        Self { input, aliases }
    }

    /// The plan with its marks.
    pub(super) fn finish(self) -> LogicalPlan {
        self.input
    }

    /// The value of a predicate for each row.
    pub(super) fn value(&mut self, predicate: Predicate, unknown: Unknown) -> Result<Expr> {
        let Predicate {
            is_negated,
            subject,
            rows,
        } = predicate;
        let plan = rows.subquery.as_ref();
        let value = match subject {
            None => self.exists(plan, None)?,
            Some((value, op)) if !value.any_column_refs() => self.constant(
                value,
                op,
                &correlation::with_name(plan)?,
                unknown,
                is_negated,
            )?,
            Some((value, op)) if is_negated && unknown == Unknown::IsFalse => {
                return self.none(value, op, &correlation::with_name(plan)?);
            }
            Some((value, op)) => self.any(value, op, &correlation::with_name(plan)?, unknown)?,
        };
        Ok(if is_negated { not(value) } else { value })
    }

    /// Whether `plan` has a row, or a row that meets the condition.
    fn exists(&mut self, plan: &LogicalPlan, condition: Option<Expr>) -> Result<Expr> {
        let compared = condition.is_some().then(|| first_column(plan).0);
        let rows = match condition {
            Some(condition) => LogicalPlanBuilder::from(plan.clone())
                .filter(condition)?
                .build()?,
            None => plan.clone(),
        };
        if !correlation::refers_outside(&rows) {
            return has_row(rows);
        }
        let rows = JoinedRows::of(&rows, compared)?;
        self.mark(&rows, |_| None)
    }

    /// `value op ANY (plan)` for a value that is the same in all rows: a join on it would have no key.
    fn constant(
        &mut self,
        value: Expr,
        op: Operator,
        plan: &LogicalPlan,
        unknown: Unknown,
        is_negated: bool,
    ) -> Result<Expr> {
        let compared = binary_expr(value, op, first_column(plan).0);
        let found = self.exists(plan, Some(compared.clone()))?;
        if unknown == Unknown::IsFalse && !is_negated {
            return Ok(found);
        }
        let is_unknown = self.exists(plan, Some(compared.is_null()))?;
        three_values(found, is_unknown)
    }

    /// `value op ANY (plan)`
    fn any(
        &mut self,
        value: Expr,
        op: Operator,
        plan: &LogicalPlan,
        unknown: Unknown,
    ) -> Result<Expr> {
        let value = self.computed(value)?;
        let (compared, is_compared_null) = first_column(plan);
        let rows = JoinedRows::of(plan, Some(compared.clone()))?;
        let found = self.mark(&rows, |row| Some(binary_expr(value.clone(), op, row)))?;
        let is_value_null = value.nullable(self.input.schema())?;
        if unknown == Unknown::IsFalse || !is_value_null && !is_compared_null {
            return Ok(found);
        }
        let nulls = |row: Expr| {
            let value = is_value_null.then(|| value.clone().is_null());
            let row = is_compared_null.then(|| row.is_null());
            disjunction(value.into_iter().chain(row))
        };
        let is_unknown = if rows.is_correlated() {
            Some(self.mark(&rows, nulls)?)
        } else {
            let mut unknown = Vec::new();
            if is_compared_null {
                let nulls = LogicalPlanBuilder::from(plan.clone()).filter(compared.is_null())?;
                unknown.push(has_row(nulls.build()?)?);
            }
            if is_value_null {
                unknown.push(value.is_null().and(has_row(plan.clone())?));
            }
            disjunction(unknown)
        };
        let Some(is_unknown) = is_unknown else {
            return Ok(found);
        };
        three_values(found, is_unknown)
    }

    /// `NOT value op ANY (plan)` if NULL counts as false: no row compares true or NULL.
    fn none(&mut self, value: Expr, op: Operator, plan: &LogicalPlan) -> Result<Expr> {
        if op == Operator::Eq && !correlation::refers_outside(plan) {
            return self.any(value, op, plan, Unknown::Told).map(not);
        }
        let value = self.computed(value)?;
        let (compared, is_compared_null) = first_column(plan);
        let is_value_null = value.nullable(self.input.schema())?;
        let rows = JoinedRows::of(plan, Some(compared))?;
        let found = self.mark(&rows, |row| {
            let compared = binary_expr(value.clone(), op, row.clone());
            let value = is_value_null.then(|| value.clone().is_null());
            let row = is_compared_null.then(|| row.is_null());
            disjunction([compared].into_iter().chain(value).chain(row))
        })?;
        Ok(not(found))
    }

    /// `value` in a form that a join can compare: subqueries in it are computed first.
    fn computed(&mut self, value: Expr) -> Result<Expr> {
        if !value.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_))))? {
            return Ok(value);
        }
        self.column(value)
    }

    /// `value` as the key of DataFusion's anti join for NOT IN. The join asks columns, not the expression, whether the key can be
    /// NULL: it took `nullif(id, 3)` to be known if `id` is. Such a value becomes a column, which says that it can be NULL.
    pub(super) fn anti_join_key(&mut self, value: Expr) -> Result<Expr> {
        let schema = self.input.schema();
        let columns = value.column_refs().into_iter();
        let mut nullable = columns.filter_map(|column| schema.nullable(column).ok());
        if nullable.any(|is_nullable| is_nullable) || !value.nullable(schema)? {
            return Ok(value);
        }
        self.column(value)
    }

    /// `value` as a column of the input.
    fn column(&mut self, value: Expr) -> Result<Expr> {
        let name = self.aliases.next("tierra_subject");
        let input = std::mem::take(&mut self.input);
        let columns = input.schema().columns().into_iter().map(Expr::from);
        let columns: Vec<Expr> = columns.chain([value.alias(&name)]).collect();
        self.input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    /// A column that says whether `rows` contains a row that meets the condition.
    fn mark(
        &mut self,
        rows: &JoinedRows,
        condition: impl FnOnce(Expr) -> Option<Expr>,
    ) -> Result<Expr> {
        let alias = self.aliases.next("tierra_subquery");
        let (right, mut conditions) = rows.named(&alias)?;
        conditions.extend(condition(Expr::Column(Column::new(Some(&*alias), VALUE))));
        let join = Join::try_new(
            Arc::new(std::mem::take(&mut self.input)),
            Arc::new(right),
            Vec::new(),
            Some(conjunction(conditions).unwrap_or_else(|| lit(true))),
            JoinType::LeftMark,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        self.input = LogicalPlan::Join(join);
        Ok(Expr::Column(Column::new(Some(alias), "mark")))
    }
}

fn three_values(found: Expr, is_unknown: Expr) -> Result<Expr> {
    when(found, lit(true))
        .when(is_unknown, lit(ScalarValue::Boolean(None)))
        .otherwise(lit(false))
}

/// The first column of `plan`, and whether it can be NULL.
fn first_column(plan: &LogicalPlan) -> (Expr, bool) {
    let (table, field) = plan.schema().qualified_field(0);
    let column = Column::from((table, field));
    (Expr::Column(column), field.is_nullable())
}

/// Whether `plan`, which does not depend on the row, has a row.
fn has_row(plan: LogicalPlan) -> Result<Expr> {
    let rows = LogicalPlanBuilder::from(plan)
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), [count(lit(1_i64)).alias("rows")])?
        .project([Expr::Column(Column::new_unqualified("rows")).gt(lit(0_i64))])?;
    Ok(Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(rows.build()?),
        outer_ref_columns: Vec::new(),
        spans: Default::default(),
    }))
}
