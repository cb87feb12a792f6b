//! What an aggregate keeps of each group takes as much memory as it holds.
//!
//! DataFusion gives each group a block of its own for texts of more than twelve bytes that are kept as views: 2 MiB for distinct ones
//! that are counted, 8 KiB for each list in the state of an ordered or distinct aggregate. And the least list of texts keeps the blocks
//! of all rows that were read with it.
//! - COUNT(DISTINCT x) of groups becomes [`DistinctCount`].
//! - The others are given texts without views, by which they are ordered as well; their result is cast to the type that it had.
//!
//! The rule comes last: a single DISTINCT has become a GROUP BY before.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Sort};
use datafusion::logical_expr::logical_plan::{Aggregate, Projection};
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::optimizer::ApplyOrder;

use super::plan::EachNode;
use super::shifted_sums::unaliased;
use crate::distinct_count::DistinctCount;

/// The rule.
pub(super) const RULE: EachNode = EachNode {
    name: "group_states",
    order: ApplyOrder::BottomUp,
    rewrite,
};

/// The aggregates that keep a list for each group if they are ordered or distinct.
const LISTS: [&str; 3] = ["array_agg", "string_agg", "nth_value"];

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else {
        return Ok(Transformed::no(plan));
    };
    if aggregate.group_expr.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let below = aggregate.input.schema();
    let calls = aggregate.aggr_expr.iter();
    let replaced = calls.map(|expr| small_state(expr, below));
    let replaced: Vec<Option<Expr>> = replaced.collect::<Result<_>>()?;
    if replaced.iter().all(Option::is_none) {
        return Ok(Transformed::no(plan));
    }
    let schema = &aggregate.schema;
    let keys = schema.fields().len() - aggregate.aggr_expr.len();
    let kept = (0..keys).map(|place| Expr::Column(Column::from(schema.qualified_field(place))));
    let mut output: Vec<Expr> = kept.collect();
    let mut aggregates = Vec::new();
    for (place, (expr, replaced)) in aggregate.aggr_expr.iter().zip(replaced).enumerate() {
        let (qualifier, field) = schema.qualified_field(keys + place);
        let column = Expr::Column(Column::from((qualifier, field)));
        let Some(call) = replaced else {
            aggregates.push(expr.clone());
            output.push(column);
            continue;
        };
        let is_of_type = call.get_type(below)? == *field.data_type();
        aggregates.push(call.alias_qualified(qualifier.cloned(), field.name()));
        output.push(match is_of_type {
            true => column,
            false => cast(column, field.data_type().clone())
                .alias_qualified(qualifier.cloned(), field.name()),
        });
    }
    let input = Arc::clone(&aggregate.input);
    let aggregate = Aggregate::try_new(input, aggregate.group_expr.clone(), aggregates)?;
    let projection = Projection::try_new(output, Arc::new(LogicalPlan::Aggregate(aggregate)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// The same aggregate with a small state; `None` if it has one.
fn small_state(expr: &Expr, below: &DFSchema) -> Result<Option<Expr>> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = unaliased(expr) else {
        return Ok(None);
    };
    let mut views = false;
    let types = params.args.iter().map(|arg| arg.get_type(below));
    let types: Vec<DataType> = types.collect::<Result<_>>()?;
    for ty in &types {
        views |= without_views(ty).is_some();
    }
    for key in &params.order_by {
        views |= without_views(&key.expr.get_type(below)?).is_some();
    }
    let is_text = |ty: &DataType| ty.is_string() || ty.is_binary();
    let (func, params) = match (func.name(), types.as_slice()) {
        ("count", [ty]) if params.distinct && is_text(ty) => {
            let func = Arc::new(AggregateUDF::from(DistinctCount::default()));
            (
                func,
                AggregateFunctionParams {
                    distinct: false,
                    ..params.clone()
                },
            )
        }
        (name, _)
            if views
                && LISTS.contains(&name)
                && (params.distinct || !params.order_by.is_empty()) =>
        {
            (Arc::clone(func), of_texts(params, below)?)
        }
        ("min" | "max", [ty]) if views && ty.is_nested() => {
            (Arc::clone(func), of_texts(params, below)?)
        }
        _ => return Ok(None),
    };
    Ok(Some(Expr::AggregateFunction(AggregateFunction {
        func,
        params,
    })))
}

/// The arguments and keys without views.
fn of_texts(params: &AggregateFunctionParams, below: &DFSchema) -> Result<AggregateFunctionParams> {
    let text = |expr: &Expr| match without_views(&expr.get_type(below)?) {
        Some(ty) => Ok(cast(expr.clone(), ty)),
        None => Ok(expr.clone()),
    };
    let key = |key: &Sort| {
        Ok(Sort {
            expr: text(&key.expr)?,
            ..key.clone()
        })
    };
    Ok(AggregateFunctionParams {
        args: params.args.iter().map(text).collect::<Result<_>>()?,
        order_by: params.order_by.iter().map(key).collect::<Result<_>>()?,
        ..params.clone()
    })
}

/// The type without views; `None` if it has none.
fn without_views(ty: &DataType) -> Option<DataType> {
    match ty {
        // The texts of all groups may be more than 2 GiB.
        DataType::Utf8View => Some(DataType::LargeUtf8),
        DataType::BinaryView => Some(DataType::LargeBinary),
        DataType::List(item) => Some(DataType::List(of_texts_in(item)?)),
        DataType::Struct(fields) => {
            let without: Vec<_> = fields.iter().map(of_texts_in).collect();
            without.iter().any(Option::is_some).then(|| {
                let fields = fields.iter().zip(without);
                DataType::Struct(
                    fields
                        .map(|(field, without)| without.unwrap_or_else(|| Arc::clone(field)))
                        .collect(),
                )
            })
        }
        _ => None,
    }
}

fn of_texts_in(field: &Arc<Field>) -> Option<Arc<Field>> {
    let ty = without_views(field.data_type())?;
    Some(Arc::new(field.as_ref().clone().with_data_type(ty)))
}
