//! `INSERT INTO t SELECT * FROM 'file.csv'`: fields that go into columns unchanged are parsed as values of those columns,
//! as in a load.
//!
//! The types of a file's fields are guesses. If values were assigned from them, a number would be rounded to the digits of
//! its column, and 007 would become 7 in a VARCHAR. A field that the query computes or compares with keeps the guessed
//! type. So does a field that goes into columns of several types, or into a column and elsewhere. Rows that WHERE or LIMIT
//! leaves out must not fail for a column they do not go into: below these only fields for VARCHAR columns are parsed as the
//! column's type, because every field is text.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScanBuilder};

use crate::load::CsvTable;
use crate::tree::apply_with_subqueries;

/// `source` with the fields of a CSV file parsed as `wanted`, by the source's columns; `None` if it does not read a CSV
/// file.
pub(super) fn read_as(
    source: &LogicalPlan,
    wanted: &[Option<Field>],
) -> Result<Option<LogicalPlan>> {
    if is_correlated(source)? {
        return Ok(None);
    }
    let mut below: Vec<Option<Field>> = match source {
        LogicalPlan::TableScan(scan) if scan.projection.is_none() && scan.filters.is_empty() => {
            let provider = source_as_provider(&scan.source)?;
            let Some(file) = provider.downcast_ref::<CsvTable>() else {
                return Ok(None);
            };
            let fields = scan.source.schema();
            let fields = fields.fields().iter().zip(wanted);
            let fields = fields.map(|(guessed, wanted)| match wanted {
                Some(wanted) => wanted.clone().with_name(guessed.name()),
                None => guessed.as_ref().clone(),
            });
            let file = provider_as_source(Arc::new(file.read_as(fields.collect())));
            let scan = TableScanBuilder::new(scan.table_name.clone(), file).with_fetch(scan.fetch);
            return Ok(Some(LogicalPlan::TableScan(scan.build()?)));
        }
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Sort(_) => wanted.to_vec(),
        LogicalPlan::Filter(_) | LogicalPlan::Limit(_) => {
            let texts = wanted.iter().cloned().map(|field| {
                let field = field.filter(|field| *field.data_type() == DataType::Utf8View)?;
                Some(field.with_nullable(true))
            });
            texts.collect()
        }
        LogicalPlan::Projection(projection) => {
            let input = projection.input.schema();
            let mut below: Vec<Option<Field>> = vec![None; input.fields().len()];
            let mut contested = Vec::new();
            for (expr, wanted) in projection.expr.iter().zip(wanted) {
                let place = column(expr).and_then(|name| input.maybe_index_of_column(name));
                let Some(place) = place else { continue };
                match (wanted, &below[place]) {
                    (None, _) => contested.push(place),
                    (Some(wanted), Some(other)) if other.data_type() != wanted.data_type() => {
                        contested.push(place);
                    }
                    (Some(wanted), _) => below[place] = Some(wanted.clone()),
                }
            }
            contested.into_iter().for_each(|place| below[place] = None);
            below
        }
        _ => return Ok(None),
    };
    let [input] = source.inputs()[..] else {
        return Ok(None);
    };
    let chooses = matches!(source, LogicalPlan::Projection(_));
    for expr in source.expressions() {
        if chooses && column(&expr).is_some() {
            continue;
        }
        for name in expr.column_refs() {
            if let Some(place) = input.schema().maybe_index_of_column(name) {
                below[place] = None;
            }
        }
    }
    let Some(input) = read_as(input, &below)? else {
        return Ok(None);
    };
    let plan = source.with_new_exprs(source.expressions(), vec![input])?;
    Ok(Some(plan.recompute_schema()?))
}

/// Whether a subquery of the node `plan` refers to outer rows. Such a reference stores its column's type and is in no
/// expression of `plan`.
fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_subqueries(|subquery| {
        apply_with_subqueries(subquery, |part| {
            found |= part.contains_outer_reference();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// The column of `expr`, under any alias.
fn column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Alias(alias) => column(&alias.expr),
        Expr::Column(column) => Some(column),
        _ => None,
    }
}
