//! A subquery for one value is NULL where it has no row, whatever its column may be.
//!
//! DataFusion takes the value to be as the column is. So `(SELECT id FROM t WHERE id < 0) IS NULL` was false if `id` is a key, and to show
//! the value failed. A column that may be NULL as it is written may become one that may not: `x / nullif(7, 0)` is `x / 7`, and an outer
//! join becomes an inner one. Here the column may always be NULL, unless the subquery is an aggregate of all rows, which always has a
//! row.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::plan::{map_under_names, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The rule.
#[derive(Debug)]
pub(super) struct EmptySubqueries;

impl AnalyzerRule for EmptySubqueries {
    fn name(&self) -> &str {
        "empty_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, may_lack_null)? {
        return Ok(Transformed::no(plan));
    }
    let written = map_under_names(plan, |expr| {
        expr.transform_up(|expr| match expr {
            Expr::ScalarSubquery(rows) if lacks_null(&rows) => {
                let plan = Arc::unwrap_or_clone(rows.subquery);
                let (table, field) = plan.schema().qualified_field(0);
                let value = Expr::Column((table, field).into());
                let value = match rows.outer_ref_columns.is_empty() {
                    true => ScalarUDF::from(MaybeNull::of(Volatility::Volatile)).call(vec![value]),
                    // It becomes a column of an outer join.
                    false => maybe_null(value),
                };
                let value = value.alias(field.name());
                let subquery = LogicalPlanBuilder::new(plan).project([value])?.build()?;
                Ok(Transformed::yes(Expr::ScalarSubquery(Subquery {
                    subquery: Arc::new(subquery),
                    ..rows
                })))
            }
            other => Ok(Transformed::no(other)),
        })
    })?;
    written.map_data(LogicalPlan::recompute_schema)
}

fn may_lack_null(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(rows) if lacks_null(rows))
}

/// Whether a subquery may have no row, and says that its value is never NULL, or will say so when it is optimised.
fn lacks_null(rows: &Subquery) -> bool {
    rows.subquery.schema().fields().len() == 1 && !has_a_row(&rows.subquery)
}

fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Sort(sort) => has_a_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// `value`, which may be NULL, and of which nothing else is known.
pub(super) fn maybe_null(value: Expr) -> Expr {
    ScalarUDF::from(MaybeNull::of(Volatility::Immutable)).call(vec![value])
}

/// Gives its argument, which may be NULL. Of a constant the optimiser makes that constant, unless the function is called volatile.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MaybeNull {
    signature: Signature,
}

impl MaybeNull {
    const NAME: &str = "tierra_maybe_null";

    fn of(volatility: Volatility) -> Self {
        Self {
            signature: Signature::any(1, volatility),
        }
    }
}

impl ScalarUDFImpl for MaybeNull {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [ty] => Ok(ty.clone()),
            _ => internal_err!("{} takes an argument", Self::NAME),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => Ok(Arc::new(Field::clone(field).with_nullable(true))),
            _ => internal_err!("{} takes an argument", Self::NAME),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(value) => Ok(value),
            None => internal_err!("{} takes an argument", Self::NAME),
        }
    }
}
