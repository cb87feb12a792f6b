//! Puts a [`TotalsExec`] in the place of an aggregation of all rows of a scan, or by the values of one column with a dictionary.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use tierra_column::LogicalType;

use super::exec::TotalsExec;
use super::state::TotalsState;
use crate::rules::EachOperator;
use crate::scan::TierraScanExec;
use crate::types::logical_type;

pub(super) const RULE: EachOperator = EachOperator {
    name: "packed_totals",
    rewrite,
};

fn rewrite(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let changed = match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => without_rows(aggregate)?,
        None => None,
    };
    Ok(match changed {
        Some(changed) => Transformed::yes(changed),
        None => Transformed::no(plan),
    })
}

/// The most values of a dictionary by which rows are grouped: states are made of every group once in some ten thousand rows.
const GROUPS_MOST: usize = 1 << 10;

/// By which of the scan's columns, if by any, the rows are grouped; `None` if totals do not do that.
fn group(aggregate: &AggregateExec, scan: &TierraScanExec) -> Option<Option<usize>> {
    let groups = aggregate.group_expr();
    if groups.is_true_no_grouping() {
        return Some(None);
    }
    let is_plain = groups.is_single()
        && aggregate.limit_options().is_none()
        && *aggregate.input_order_mode() == InputOrderMode::Linear;
    let [(expression, _)] = groups.expr() else {
        return None;
    };
    let place = expression.downcast_ref::<Column>()?.index();
    let column = *scan.projection().get(place)?;
    let snapshot = scan.source().snapshot;
    let is_counted = matches!(
        logical_type(&snapshot.table().schema(), column),
        LogicalType::Varchar | LogicalType::Integer | LogicalType::BigInt | LogicalType::Date
    );
    let dictionary = snapshot.sealed_dictionary(column)?;
    let pays = is_plain && is_counted && dictionary.len() <= GROUPS_MOST;
    pays.then_some(Some(place))
}

/// The aggregation of totals; `None` if it needs rows.
fn without_rows(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (input, groups) = (aggregate.input(), aggregate.group_expr());
    let Some(scan) = input.downcast_ref::<TierraScanExec>() else {
        return Ok(None);
    };
    let has_filters = aggregate.filter_expr().iter().any(Option::is_some);
    let Some(group) = group(aggregate, scan) else {
        return Ok(None);
    };
    if has_filters || scan.tells_row_ids() || !scan.yields_all_rows() {
        return Ok(None);
    }
    let table = scan.source().snapshot.table().schema();
    let columns = scan.projection().iter();
    let columns: Vec<_> = columns
        .map(|column| logical_type(&table, *column))
        .collect();
    let mut states = Vec::with_capacity(aggregate.aggr_expr().len());
    for function in aggregate.aggr_expr() {
        match TotalsState::of(function, &columns)? {
            Some(state) => states.push(state),
            None => return Ok(None),
        }
    }
    let totals = |schema| TotalsExec::new(Arc::clone(input), group, states, schema).map(Arc::new);
    match aggregate.mode() {
        AggregateMode::Partial => Ok(Some(totals(aggregate.schema())?)),
        AggregateMode::Single if input.output_partitioning().partition_count() == 1 => {
            let of_mode = |mode, groups: PhysicalGroupBy, input: Arc<dyn ExecutionPlan>| {
                AggregateExec::try_new(
                    mode,
                    groups,
                    aggregate.aggr_expr().to_vec(),
                    aggregate.filter_expr().to_vec(),
                    input,
                    aggregate.input_schema(),
                )
            };
            let partial = of_mode(AggregateMode::Partial, groups.clone(), Arc::clone(input))?;
            let totals = totals(partial.schema())?;
            let whole = of_mode(AggregateMode::Final, groups.as_final(), totals)?;
            Ok(Some(Arc::new(whole)))
        }
        _ => Ok(None),
    }
}
