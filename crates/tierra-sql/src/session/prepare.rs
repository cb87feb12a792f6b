//! PREPARE, EXECUTE and DEALLOCATE of point queries, which no planner sees twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::sql::sqlparser::ast;

use super::Session;
use crate::error::{PreparedError, SqlError};
use crate::prepared::PointPlan;

/// The point queries prepared in a session, by name.
#[derive(Default)]
pub(super) struct PointPlans(Mutex<HashMap<String, Arc<PointPlan>>>);

impl PointPlans {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<PointPlan>>> {
        // Only whole plans are put in and taken out, so that a panic elsewhere leaves no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<PointPlan>> {
        self.lock().get(name).cloned()
    }

    /// Whether there was one.
    pub(super) fn remove(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }
}

impl Session {
    /// Prepare `statement`; `false` if it is no point query.
    pub(super) fn prepare_point(
        &self,
        name: String,
        statement: &ast::Statement,
    ) -> Result<bool, SqlError> {
        if self.point_plans.get(&name).is_some() {
            return Err(PreparedError::Exists(name).into());
        }
        let Some(plan) = PointPlan::of(&name, statement, &self.database) else {
            return Ok(false);
        };
        self.count_planning();
        self.point_plans.lock().insert(name, Arc::new(plan));
        Ok(true)
    }

    /// The rows of the prepared point query `name` for many keys at once: one array per key column,
    /// one look-up per row of them.
    ///
    /// # Errors
    /// If there is no such point query or the keys are not of its types.
    pub fn execute_prepared(&self, name: &str, keys: &[ArrayRef]) -> Result<RecordBatch, SqlError> {
        let plan = self
            .point_plans
            .get(name)
            .ok_or_else(|| PreparedError::Unknown(name.to_string()))?;
        plan.execute_keys(&self.database, keys, self.execution())
    }
}
