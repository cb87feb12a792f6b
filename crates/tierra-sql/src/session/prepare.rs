//! What a session has prepared: point queries, which no planner sees twice, and the types of the
//! parameters of every other statement.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, Datum, RecordBatch};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::config::ConfigOptions;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::logical_plan::{Execute, Prepare};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;

use super::Session;
use crate::error::{PreparedError, SqlError};
use crate::list::{List, ListParameter, unfolded};
use crate::outcome::{Outcome, Rows};
use crate::prepared::{Argument, PointPlan};
use crate::{defect, rules};

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

    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}

/// The types of a statement's parameters, from the first; `None` where nothing tells.
pub(super) struct PreparedParameters(Vec<Option<FieldRef>>);

impl PreparedParameters {
    /// Those of `prepare`, which then says no more than is known: DataFusion wants the types of all parameters that it finds
    /// in the plan, or none. `written` is how many the statement has; what a query does not use is not in its plan.
    pub(super) fn of(prepare: &mut Prepare, written: usize) -> Result<Self, SqlError> {
        let mut found = prepare.input.get_parameter_fields()?;
        let used = found.len();
        let count = written.max(prepare.fields.len());
        let fields: Vec<_> = (1..=count)
            .map(|number| {
                let found = found.remove(&format!("${number}")).flatten();
                found.or_else(|| prepare.fields.get(number - 1).cloned())
            })
            .collect();
        let known: Option<Vec<_>> = fields.iter().cloned().collect();
        prepare.fields = known
            .filter(|known| known.len() == used)
            .unwrap_or_default();
        Ok(Self(fields))
    }
}

/// The highest number of a parameter that can be given a value, as in PostgreSQL.
const PARAMETERS_MOST: usize = 65_535;

/// The highest number of a parameter in `statement`, if that is to be prepared.
pub(super) fn written_parameters(statement: &Statement) -> usize {
    let Statement::Statement(statement) = statement else {
        return 0;
    };
    let ast::Statement::Prepare { statement, .. } = statement.as_ref() else {
        return 0;
    };
    let mut most = 0;
    let _ = ast::visit_expressions(statement.as_ref(), |expr| {
        if let ast::Expr::Value(value) = expr
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(number) = name.strip_prefix('$')
        {
            most = most.max(number.parse().unwrap_or(0).min(PARAMETERS_MOST));
        }
        ControlFlow::<()>::Continue(())
    });
    most
}

/// `plan` without DISTINCT ON: what DataFusion optimises to prepare it finds no functions to replace that by.
pub(super) fn first_of_each(
    plan: LogicalPlan,
    state: &SessionState,
) -> Result<LogicalPlan, SqlError> {
    let is_distinct_on =
        |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Distinct(Distinct::On(_))));
    if !plan.exists(is_distinct_on)? {
        return Ok(plan);
    }
    let replace = Optimizer::with_rules(vec![Arc::new(ReplaceDistinctWithAggregate::new())]);
    Ok(replace.optimize(plan, state, |_, _| {})?)
}

/// The parameters of the statements that DataFusion has prepared in a session, by name.
#[derive(Default)]
pub(super) struct Parameters(Mutex<HashMap<String, PreparedParameters>>);

impl Parameters {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, PreparedParameters>> {
        // As above: whole entries go in and out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, name: String, parameters: PreparedParameters) {
        self.lock().insert(name, parameters);
    }

    pub(super) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn contains(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }

    /// The arguments as values of the parameters' types: DataFusion would cast, and cut 2.7 to 2.
    /// `lists` were taken out of the statement.
    pub(super) fn assign(
        &self,
        execute: &mut Execute,
        lists: &[Arc<List>],
        config: Arc<ConfigOptions>,
    ) -> Result<(), SqlError> {
        let fields = self.lock().get(&execute.name).map(|known| known.0.clone());
        let fields = fields.ok_or_else(|| PreparedError::NotThere(execute.name.clone()))?;
        if fields.len() != execute.parameters.len() {
            return Err(PreparedError::Arguments {
                name: execute.name.clone(),
                expected: fields.len(),
                given: execute.parameters.len(),
            }
            .into());
        }
        let context = SimplifyContext::builder().with_config_options(config);
        let simplifier = ExprSimplifier::new(context.build());
        let constant = |expr| match simplifier.simplify(expr) {
            Ok(Expr::Literal(value, _)) => Some(value),
            _ => None,
        };
        let arguments = std::mem::take(&mut execute.parameters);
        let arguments = arguments.into_iter().zip(fields).zip(1..);
        let assigned = arguments.map(|((value, field), number)| {
            let Some(field) = field else {
                return Ok(unfolded(value, lists));
            };
            if let DataType::List(item) = field.data_type() {
                let parameter = ListParameter {
                    statement: &execute.name,
                    number,
                    item: item.data_type(),
                };
                return parameter.bind(value, lists, constant);
            }
            let given = unfolded(value, lists);
            let refused = || PreparedError::argument(&execute.name, number, &given, &field);
            let assigned =
                rules::argument(given.clone(), field.data_type())?.ok_or_else(refused)?;
            match constant(assigned.clone()) {
                Some(value) => Ok(Expr::Literal(value, None)),
                // Computed, but no value of the type.
                None if constant(given.clone()).is_some() => Err(refused().into()),
                None => Ok(assigned),
            }
        });
        execute.parameters = assigned.collect::<Result<_, _>>()?;
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
        if self.point_plans.get(&name).is_some() || self.parameters.contains(&name) {
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
    /// one lookup per row of them.
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

    /// Run the prepared statement `name` with these arguments, one per parameter: an arrow `Scalar` is a
    /// value, an array a list, for parameters in `= ANY($1)` and `<> ALL($1)`. They are assigned to the
    /// parameters' types as INSERT assigns values to columns; a list stays the array that it is.
    ///
    /// # Errors
    /// If there is no such statement, if an argument does not fit, or if the statement fails.
    pub fn run_prepared<'a>(
        &'a self,
        name: &'a str,
        arguments: &[&dyn Datum],
    ) -> BoxFuture<'a, Result<Outcome, SqlError>> {
        let arguments: Vec<(ArrayRef, bool)> = arguments
            .iter()
            .map(|argument| {
                let (array, is_value) = argument.get();
                (array.slice(0, array.len()), is_value)
            })
            .collect();
        Box::pin(defect::caught(async move {
            if let Some(plan) = self.point_plans.get(name) {
                let arguments = arguments.into_iter();
                let arguments = arguments.map(|(array, is_value)| Argument::bound(array, is_value));
                let arguments: Vec<Argument> = arguments.collect();
                let batch = plan.execute(&self.database, &arguments, self.execution())?;
                return Ok(Outcome::Rows(Rows::of_batch(batch)));
            }
            let parameters = arguments.into_iter().map(|(array, is_value)| {
                let value = match is_value {
                    true => ScalarValue::try_from_array(&array, 0)?,
                    false => SingleRowListArrayBuilder::new(array).build_list_scalar(),
                };
                Ok(Expr::Literal(value, None))
            });
            let execute = Execute {
                name: name.to_string(),
                parameters: parameters.collect::<Result<_, SqlError>>()?,
            };
            self.run_bound(execute, &[]).await
        }))
    }
}
