//! The prepared statements of a session: point queries, which are planned once, and plans of other statements, into
//! which EXECUTE puts its arguments.

use std::collections::hash_map;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{ArrayRef, Datum, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::logical_plan::{Execute, Prepare};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;

use super::Session;
use super::uses::{self, Given, Use};
use crate::activity::cancellable;
use crate::change::Change;
use crate::error::{PreparedError, SqlError};
use crate::list::{List, ListParameter, unfolded};
use crate::memory::Planning;
use crate::outcome::{Outcome, Rows};
use crate::prepared::{Argument, PointPlan, WritePlan};
use crate::visit::visit_expressions;
use crate::{defect, rules, types};

/// The prepared statements of a session, by name.
#[derive(Default)]
pub(super) struct Statements(Mutex<HashMap<String, Entry>>);

/// A prepared statement in the list.
struct Entry {
    prepared: Prepared,
    /// That of a long one, which ends with it.
    _account: Option<Planning>,
}

/// A prepared statement.
#[derive(Clone)]
pub(super) enum Prepared {
    /// A point query.
    Point(Arc<PointPlan>),
    /// A write by key, and the same statement for arguments that need the planner.
    Write(Arc<WritePlan>, Box<Prepared>),
    /// A statement that changes rows.
    Change(Arc<PreparedChange>),
    /// Any other statement.
    Plan(Arc<PreparedPlan>),
}

/// A prepared statement that changes rows.
pub(super) struct PreparedChange {
    /// The query for the rows.
    pub(super) plan: PreparedPlan,
    /// The query of ON CONFLICT, if it has parameters.
    pub(super) upsert: Option<PreparedPlan>,
    pub(super) change: Change,
}

impl Prepared {
    /// The statement as DataFusion plans it.
    pub(super) fn planned(self) -> Self {
        match self {
            Prepared::Write(_, planned) => *planned,
            other => other,
        }
    }

    /// The statement with these types for the parameters whose types it leaves open.
    pub(super) fn with_types(self, types: &[Option<DataType>]) -> Self {
        match self {
            Prepared::Point(plan) => Prepared::Point(plan),
            Prepared::Write(plan, planned) => {
                Prepared::Write(plan, Box::new(planned.with_types(types)))
            }
            Prepared::Change(change) => Prepared::Change(Arc::new(PreparedChange {
                plan: change.plan.with_types(types),
                upsert: change.upsert.as_ref().map(|plan| plan.with_types(types)),
                change: change.change.clone(),
            })),
            Prepared::Plan(plan) => Prepared::Plan(Arc::new(plan.with_types(types))),
        }
    }
}

impl Statements {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // Only whole statements are inserted and removed, so a panic elsewhere leaves no partial one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, name: &str) -> Option<Prepared> {
        self.lock().get(name).map(|entry| entry.prepared.clone())
    }

    /// The point query of that name.
    pub(super) fn point(&self, name: &str) -> Option<Arc<PointPlan>> {
        match self.get(name) {
            Some(Prepared::Point(plan)) => Some(plan),
            _ => None,
        }
    }

    /// Adds a statement under a new name.
    pub(super) fn add(&self, name: String, prepared: Prepared) -> Result<(), PreparedError> {
        match self.lock().entry(name) {
            hash_map::Entry::Occupied(taken) => Err(PreparedError::Exists(taken.key().clone())),
            hash_map::Entry::Vacant(free) => {
                free.insert(Entry {
                    prepared,
                    _account: None,
                });
                Ok(())
            }
        }
    }

    /// Puts another plan in the place of a stored one.
    pub(super) fn replace(&self, name: &str, prepared: Prepared) {
        if let Some(stored) = self.lock().get_mut(name) {
            stored.prepared = prepared;
        }
    }

    /// Keeps the account of a stored statement as long as the statement.
    pub(super) fn account(&self, name: &str, account: Planning) {
        if let Some(stored) = self.lock().get_mut(name) {
            stored._account = Some(account);
        }
    }

    /// A name for a statement that a program prepares.
    pub(super) fn free_name(&self) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            let name = format!("unnamed {number}");
            if !self.lock().contains_key(&name) {
                return name;
            }
        }
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), PreparedError> {
        let removed = self.lock().remove(name);
        let there = removed.map(drop);
        there.ok_or_else(|| PreparedError::NotThere(name.to_string()))
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }
}

/// The plan of a statement with parameters, before optimisation. DataFusion's optimiser invents names and relies on known
/// conditions and keys, which is wrong for a plan that it optimises a second time.
pub(super) struct PreparedPlan {
    /// It has a parameter for each [`Use`].
    plan: LogicalPlan,
    /// The types of the parameters, in order; `None` if unknown.
    parameters: Vec<Option<FieldRef>>,
    /// The types that a program will bind, if it said so.
    declared: Vec<Option<DataType>>,
    /// The names of the parameters in the plan.
    used: HashSet<String>,
}

impl PreparedPlan {
    /// The plan of `prepare`. Parameters that a query does not use are not in its plan.
    pub(super) fn of(
        prepare: Prepare,
        written: WrittenParameters,
        config: &ConfigOptions,
    ) -> Result<Self, SqlError> {
        let plan = uses::typed_by_casts(Arc::unwrap_or_clone(prepare.input))?;
        // The rules know, for example, the type of a column that a parameter is assigned to.
        let mut settled = rules::settle(plan.clone(), config)?.get_parameter_fields()?;
        let mut known = plan.get_parameter_fields()?;
        // Of a statement that declares no types DataFusion lists those that it knows, without the gaps between them.
        let are_declared = written.are_typed;
        let count = written.count.max(prepare.fields.len());
        let parameters = (1..=count).map(|number| {
            let name = format!("${number}");
            let found = settled.remove(&name).flatten();
            let found = found.or_else(|| known.remove(&name).flatten());
            let declared = prepare.fields.get(number - 1).filter(|_| are_declared);
            found.or_else(|| declared.cloned())
        });
        let parameters = parameters.collect();
        let plan = match written.are_typed {
            // The argument has the declared type in every use.
            true => plan,
            false => uses::told_apart(plan, count)?,
        };
        Ok(Self {
            used: plan.get_parameter_names()?,
            plan,
            parameters,
            declared: Vec::new(),
        })
    }

    /// Both plans with the types that either knows. They belong to one statement.
    pub(super) fn of_one_statement(mut self, mut other: Self) -> (Self, Self) {
        for (first, second) in self.parameters.iter_mut().zip(&mut other.parameters) {
            let known = first.take().or(second.take());
            second.clone_from(&known);
            *first = known;
        }
        (self, other)
    }

    /// The types of the parameters, in order; `None` if unknown.
    pub(super) fn parameters(&self) -> &[Option<FieldRef>] {
        &self.parameters
    }

    /// The plan for arguments of these types, which are those of the parameters whose types are unknown.
    pub(super) fn with_types(&self, types: &[Option<DataType>]) -> Self {
        let typed = self.parameters.iter().enumerate().map(|(place, found)| {
            let given = types.get(place).cloned().flatten();
            // How many digits a DECIMAL has its value tells.
            let given = given.filter(|ty| !matches!(ty, DataType::Decimal128(_, _)));
            let given = given.map(|ty| Arc::new(Field::new("", ty, true)));
            found.clone().or(given)
        });
        Self {
            plan: self.plan.clone(),
            parameters: typed.collect(),
            declared: types.to_vec(),
            used: self.used.clone(),
        }
    }

    /// A NULL for each use of each parameter, of the type that its argument will have.
    pub(super) fn nulls(&self) -> Result<ParamValues, DataFusionError> {
        let declared = |place: usize| self.declared.get(place).and_then(Option::as_ref);
        let null = |how: Use, place: usize| match &self.parameters[place] {
            None => Ok(ScalarValue::Null),
            Some(field) => ScalarValue::try_from(&match (how, declared(place)) {
                (Use::Computed, Some(declared)) => uses::operand_type(declared, field.data_type()),
                _ => field.data_type().clone(),
            }),
        };
        let places = 0..self.parameters.len();
        let nulls = Use::ALL
            .into_iter()
            .flat_map(|how| places.clone().map(move |place| (how, place)))
            .map(|(how, place)| Ok(ScalarAndMetadata::new(null(how, place)?, None)));
        Ok(ParamValues::List(
            nulls.collect::<Result<_, DataFusionError>>()?,
        ))
    }

    /// The plan before optimisation.
    pub(super) fn plan(&self) -> &LogicalPlan {
        &self.plan
    }

    /// The statement with its parameters replaced by the arguments. `lists` were taken out of EXECUTE.
    pub(super) fn bind(
        &self,
        execute: Execute,
        given: Given,
        lists: &[Arc<List>],
        state: &SessionState,
    ) -> Result<LogicalPlan, SqlError> {
        let values = self.values(execute, given, lists, state)?;
        let values = values.into_iter();
        let values = values.map(|value| ScalarAndMetadata::new(value, None));
        let values = ParamValues::List(values.collect());
        Ok(self.plan.clone().replace_params_with_values(&values)?)
    }

    /// The arguments for each use. One that is assigned is a value of its parameter's type: DataFusion would cast it, and
    /// truncate 2.7 to 2.
    fn values(
        &self,
        execute: Execute,
        given_by: Given,
        lists: &[Arc<List>],
        state: &SessionState,
    ) -> Result<Vec<ScalarValue>, SqlError> {
        let Execute { name, parameters } = execute;
        if self.parameters.len() != parameters.len() {
            return Err(PreparedError::Arguments {
                name,
                expected: self.parameters.len(),
                given: parameters.len(),
            }
            .into());
        }
        let now = state.execution_props().query_execution_start_time;
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(state.config_options()))
            .with_query_execution_start_time(now);
        let simplifier = ExprSimplifier::new(context.build());
        let constant = |expr| match simplifier.simplify(expr) {
            Ok(Expr::Literal(value, _)) => Some(value),
            _ => None,
        };
        let value_for = |value: Expr,
                         field: &Option<FieldRef>,
                         number: usize,
                         how: Use|
         -> Result<ScalarValue, SqlError> {
            let not_constant = |given: &Expr| PreparedError::NotConstant {
                name: name.clone(),
                parameter: number,
                value: rules::shown(given),
            };
            let Some(field) = field else {
                let given = unfolded(value, lists);
                return Ok(constant(given.clone()).ok_or_else(|| not_constant(&given))?);
            };
            if let DataType::List(item) = field.data_type() {
                let parameter = ListParameter {
                    statement: &name,
                    number,
                    item: item.data_type(),
                    is_compared: how == Use::Compared,
                    is_bound: given_by == Given::Bound,
                };
                return parameter.bind(value, lists, constant);
            }
            let given = unfolded(value, lists);
            if how != Use::Assigned {
                let digits = match field.data_type() {
                    DataType::Decimal128(_, _) if given_by == Given::Written => {
                        rules::exact(given.clone())
                    }
                    _ => given.clone(),
                };
                let kept = constant(digits)
                    .and_then(|value| uses::kept(&value, field.data_type(), how, given_by));
                if let Some(kept) = kept {
                    return Ok(kept);
                }
            }
            let refused = || no_value(&name, number, &given, field);
            let assigned =
                rules::argument(given.clone(), field.data_type())?.ok_or_else(refused)?;
            let value = constant(assigned).ok_or_else(|| match constant(given.clone()) {
                // It is constant, but not a value of the type.
                Some(_) => refused(),
                None => not_constant(&given),
            })?;
            Ok(value.cast_to(field.data_type())?)
        };
        let count = self.parameters.len();
        let mut values = vec![ScalarValue::Null; Use::ALL.len() * count];
        for ((value, field), number) in parameters.into_iter().zip(&self.parameters).zip(1..) {
            let is_used = |how: &Use| {
                self.used
                    .contains(&format!("${}", how.number(number, count)))
            };
            let mut uses: Vec<Use> = Use::ALL.into_iter().filter(is_used).collect();
            if uses.is_empty() {
                // What it must be, it must be all the same.
                uses.push(Use::Assigned);
            }
            for how in uses {
                let place = how.number(number, count) - 1;
                values[place] = value_for(value.clone(), field, number, how)?;
            }
        }
        Ok(values)
    }
}

/// The highest parameter number that can be bound, as in PostgreSQL.
const PARAMETERS_MOST: usize = 65_535;

/// The parameters of a PREPARE as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WrittenParameters {
    /// Their highest number.
    count: usize,
    /// Whether PREPARE says their types.
    are_typed: bool,
}

impl WrittenParameters {
    /// Those of a statement of two parts.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            count: self.count.max(other.count),
            are_typed: self.are_typed || other.are_typed,
        }
    }
}

/// The parameters of `statement`, if it is a PREPARE.
pub(super) fn written_parameters(statement: &Statement) -> WrittenParameters {
    let Statement::Statement(statement) = statement else {
        return WrittenParameters::default();
    };
    let ast::Statement::Prepare {
        statement,
        data_types,
        ..
    } = statement.as_ref()
    else {
        return WrittenParameters::default();
    };
    let mut most = 0;
    let _ = visit_expressions(statement.as_ref(), |expr| {
        if let ast::Expr::Value(value) = expr
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(number) = name.strip_prefix('$')
        {
            most = most.max(number.parse().unwrap_or(0).min(PARAMETERS_MOST));
        }
        ControlFlow::<()>::Continue(())
    });
    WrittenParameters {
        count: most,
        are_typed: !data_types.is_empty(),
    }
}

impl Session {
    /// Prepares `statement`; `false` if it is not a point query.
    pub(super) fn prepare_point(
        &self,
        name: String,
        declared: &[ast::DataType],
        statement: &ast::Statement,
    ) -> Result<bool, SqlError> {
        if self.prepared.get(&name).is_some() {
            return Err(PreparedError::Exists(name).into());
        }
        let Some(plan) = PointPlan::of(&name, declared, statement, &self.database) else {
            return Ok(false);
        };
        self.count_planning();
        self.prepared.add(name, Prepared::Point(Arc::new(plan)))?;
        Ok(true)
    }

    /// The first word of the prepared statement `name`, and `SELECT` for any query; `None` if there is no such statement.
    pub fn prepared_command(&self, name: &str) -> Option<&'static str> {
        Some(match self.prepared.get(name)?.planned() {
            Prepared::Change(prepared) => prepared.change.effect.command(),
            Prepared::Plan(plan) if matches!(plan.plan(), LogicalPlan::Dml(_)) => "INSERT",
            Prepared::Point(_) | Prepared::Plan(_) | Prepared::Write(..) => "SELECT",
        })
    }

    /// The rows of the prepared point query `name` for many keys at once. There is one array per key column and one lookup per
    /// row of the arrays.
    ///
    /// # Errors
    /// If there is no such point query, or if the keys do not have its types.
    pub fn execute_prepared(&self, name: &str, keys: &[ArrayRef]) -> Result<RecordBatch, SqlError> {
        let plan = self
            .prepared
            .point(name)
            .ok_or_else(|| PreparedError::Unknown(name.to_string()))?;
        self.transactions.begin_implicitly(&self.database);
        self.transactions.check()?;
        let snapshot = |table: &_| self.snapshot_of(table);
        let found = plan.execute_keys(&self.database, keys, self.execution(), snapshot);
        found.inspect_err(|error| self.transactions.fail(error))
    }

    /// Runs the prepared statement `name` with these arguments, one per parameter. An arrow `Scalar` is a value; an array is a
    /// list, for parameters in `= ANY($1)` and `<> ALL($1)`. An argument that INSERT or UPDATE stores is assigned to its column. One
    /// that is compared, or computed with, keeps its type and its value. A list stays one array.
    ///
    /// # Errors
    /// If there is no such statement, if an argument does not fit, or if the statement fails.
    pub fn run_prepared<'a>(
        &'a self,
        name: &'a str,
        arguments: &[&dyn Datum],
    ) -> BoxFuture<'a, Result<Outcome, SqlError>> {
        self.run_stored(name, format!("EXECUTE {name}").into(), arguments)
    }

    /// As [`Session::run_prepared`], of a statement that is listed with this text.
    pub(super) fn run_stored<'a>(
        &'a self,
        name: &'a str,
        text: Arc<str>,
        arguments: &[&dyn Datum],
    ) -> BoxFuture<'a, Result<Outcome, SqlError>> {
        let arguments: Vec<(ArrayRef, bool)> = arguments
            .iter()
            .map(|argument| {
                let (array, is_value) = argument.get();
                (array.slice(0, array.len()), is_value)
            })
            .collect();
        let run = async move {
            self.transactions.begin_implicitly(&self.database);
            self.transactions.check()?;
            if let Some(plan) = self.prepared.point(name) {
                let arguments = arguments.into_iter();
                let arguments = arguments.map(|(array, is_value)| Argument::bound(array, is_value));
                let arguments: Vec<Argument> = arguments.collect();
                let snapshot = |table: &_| self.snapshot_of(table);
                let batch = plan.execute(&self.database, &arguments, self.execution(), snapshot)?;
                return Ok(Outcome::Rows(Rows::of_batch(batch)));
            }
            let prepared = self.prepared.get(name);
            if let Some(Prepared::Write(plan, _)) = &prepared {
                let bound = arguments.iter();
                let bound =
                    bound.map(|(array, is_value)| Argument::bound(Arc::clone(array), *is_value));
                let bound: Vec<Argument> = bound.collect();
                if let Some(write) = plan.bind(&bound, &self.database)? {
                    return Box::pin(self.write(write)).await;
                }
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
            // Apart: it is large, and what contains it is moved.
            Box::pin(self.run_bound(execute, Given::Bound, &[])).await
        };
        Box::pin(async move {
            let tracked = self.connection.begin(text);
            let result = cancellable(&tracked, defect::caught(run)).await;
            let result = result.inspect_err(|error| self.transactions.fail(error));
            Outcome::tracked(
                tracked,
                result.map(|outcome| self.transactions.watch(outcome)),
            )
        })
    }
}

/// The error that `given` is not a value of the parameter `field`, which has the name of its target or of the compared value.
fn no_value(statement: &str, parameter: usize, given: &Expr, field: &Field) -> PreparedError {
    let expected = types::name_of(field.data_type());
    PreparedError::Argument {
        name: statement.to_string(),
        parameter,
        value: rules::shown(given),
        expected: match field.name().as_str() {
            // The name of an expression comes from the planner.
            name if name.is_empty() || name.contains('(') => expected,
            name => format!("{expected}, the type of '{name}'"),
        },
    }
}
