//! The tables of a plan that outlives the statement that made it.
//!
//! Invariant: a prepared plan runs only while the tables that it was made for are there. Those that were created since under
//! their names are others: their columns may be, and their rows are.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use tierra_engine::{Database, Table};

use super::prepare::Prepared;
use crate::error::{PreparedError, SqlError};
use crate::table::TierraTable;
use crate::tree::apply_with_subqueries;

/// Fails if a table of the statement `name` was dropped since it was planned.
pub(super) fn check(name: &str, planned: &Prepared, database: &Database) -> Result<(), SqlError> {
    let tables = match planned {
        Prepared::Plan(plan) => tables_of(plan.plan())?,
        Prepared::Change(prepared) => {
            let mut tables = tables_of(prepared.plan.plan())?;
            tables.push(Arc::clone(&prepared.change.table));
            tables
        }
        // They check it when they are bound.
        Prepared::Point(_) | Prepared::Write(_, _) => return Ok(()),
    };
    match tables.iter().find(|table| !is_there(table, database)) {
        None => Ok(()),
        Some(table) => Err(PreparedError::TableGone {
            name: name.to_string(),
            table: table.spec().name.clone(),
        }
        .into()),
    }
}

/// Whether all tables of the statement are there still.
pub(super) fn is_current(planned: &Prepared, database: &Database) -> bool {
    match planned {
        Prepared::Point(plan) => is_there(plan.table(), database),
        Prepared::Write(plan, _) => is_there(plan.table(), database),
        Prepared::Plan(_) | Prepared::Change(_) => check("", planned, database).is_ok(),
    }
}

fn is_there(table: &Arc<Table>, database: &Database) -> bool {
    let current = database.table(&table.spec().name);
    current.is_some_and(|current| Arc::ptr_eq(&current, table))
}

/// The database's tables that `plan` reads or writes.
fn tables_of(plan: &LogicalPlan) -> Result<Vec<Arc<Table>>, DataFusionError> {
    let mut tables = Vec::new();
    let mut add = |source: &Arc<dyn TableSource>| {
        let provider = source_as_provider(source)?;
        if let Some(table) = provider.downcast_ref::<TierraTable>() {
            tables.push(Arc::clone(table.table()));
        }
        Ok::<_, DataFusionError>(())
    };
    apply_with_subqueries(plan, |node| {
        match node {
            LogicalPlan::TableScan(scan) => add(&scan.source)?,
            LogicalPlan::Dml(write) => add(&write.target)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}
