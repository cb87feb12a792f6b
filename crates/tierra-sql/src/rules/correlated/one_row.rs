//! The value of a subquery that has one row at most for each row outside.

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Column, exec_err, internal_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, FetchType, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use super::domain::{ForAll, value};

/// Whether `rows` has a row at most, whatever is stored.
pub(super) fn has_one_row(rows: &LogicalPlan) -> bool {
    match rows {
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::Sort(sort) => has_one_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_one_row(input),
        LogicalPlan::Limit(limit) => {
            let is_first = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))));
            is_first || has_one_row(&limit.input)
        }
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// The rows of a subquery for all of `values` values, of which one with more than one row is an error.
pub(super) fn checked(all: ForAll, values: usize, rows: &LogicalPlan) -> Result<ForAll> {
    let (table, field) = rows.schema().qualified_field(0);
    let column = Expr::Column(Column::from((table, field)));
    let by: Vec<Expr> = (0..values)
        .map(|place| Expr::Column(value(all.number, place)))
        .collect();
    let name = |place: usize| value(all.number, values + place).name;
    let first = first_value(column, Vec::new()).alias(name(1));
    let count = count(lit(1_i64)).alias(name(2));
    let computed = |place: usize| Expr::Column(Column::new_unqualified(name(place)));
    let only = ScalarUDF::from(OnlyRow::new()).call(vec![computed(1), computed(2)]);
    let only = only.alias_qualified(table.cloned(), field.name());
    let columns: Vec<Expr> = by.iter().cloned().chain([only]).collect();
    let plan = LogicalPlanBuilder::from(all.plan)
        .aggregate(by, [first, count])?
        .project(columns)?
        .build()?;
    Ok(ForAll { plan, ..all })
}

/// Gives its first argument; an error if the second one, a number of rows, is greater than 1.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OnlyRow {
    signature: Signature,
}

impl OnlyRow {
    const NAME: &str = "tierra_only_row";

    fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [ty, _] => Ok(ty.clone()),
            _ => internal_err!("{} takes two arguments", Self::NAME),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let Ok([only, counts]) = <[ColumnarValue; 2]>::try_from(args.args) else {
            return internal_err!("{} takes two arguments", Self::NAME);
        };
        let counts = counts.into_array(rows)?;
        let counts = counts.as_primitive::<Int64Type>();
        if counts.values().iter().any(|count| *count > 1) {
            return exec_err!(
                "a subquery for one value has more than one row: add a condition, an aggregate, or LIMIT 1"
            );
        }
        Ok(only)
    }
}
