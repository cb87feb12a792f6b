//! What a session has prepared: point queries, which no planner sees twice, and the types of the
//! parameters of every other statement.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::FieldRef;
use datafusion::logical_expr::logical_plan::Execute;
use datafusion::sql::sqlparser::ast;

use super::Session;
use crate::error::{PreparedError, SqlError};
use crate::prepared::PointPlan;
use crate::rules;

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

/// The parameters of the statements that DataFusion has prepared in a session, by name.
#[derive(Default)]
pub(super) struct Parameters(Mutex<HashMap<String, Vec<FieldRef>>>);

impl Parameters {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<FieldRef>>> {
        // As above: whole entries go in and out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, name: String, fields: Vec<FieldRef>) {
        self.lock().insert(name, fields);
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// The arguments as values of the parameters' types: DataFusion would cast, and cut 2.7 to 2.
    pub(super) fn assign(&self, execute: &mut Execute) -> Result<(), SqlError> {
        let fields = self.lock().get(&execute.name).cloned().unwrap_or_default();
        if fields.len() != execute.parameters.len() {
            return Ok(());
        }
        let arguments = std::mem::take(&mut execute.parameters);
        let arguments = arguments.into_iter().zip(fields).zip(1..);
        execute.parameters = arguments
            .map(|((value, field), number)| {
                rules::argument(&execute.name, number, value, field.data_type())
            })
            .collect::<Result<_, _>>()?;
        Ok(())
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
