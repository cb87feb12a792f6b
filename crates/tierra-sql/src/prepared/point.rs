//! Point queries that are planned once: `PREPARE p AS SELECT .. FROM t WHERE key = $1`.
//!
//! DataFusion takes tens of milliseconds to plan a query on a table of a thousand columns, hundreds of times the time to
//! read the row.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{self, SelectItem, SetExpr, TableFactor};
use tierra_engine::{Database, Projection, Snapshot, Table};
use tierra_interleave::{Lookups, Scheduling};

use super::Argument;
use super::key::{Declared, KeyCondition, column_of, count};
use crate::error::{PreparedError, SqlError};
use crate::keys::find_rows;
use crate::names::{identifier, single_name};
use crate::types;

/// A query for rows by primary key, complete except for its arguments.
pub(crate) struct PointPlan {
    name: String,
    table: Arc<Table>,
    projection: Projection,
    condition: KeyCondition,
    parameters: usize,
}

impl PointPlan {
    /// The plan of `query` if it is a point query on a table of `database`, and the types in `declared`, if any, are those of the key;
    /// DataFusion prepares other queries.
    pub(crate) fn of(
        name: &str,
        declared: &[ast::DataType],
        query: &ast::Statement,
        database: &Database,
    ) -> Option<Self> {
        let ast::Statement::Query(query) = query else {
            return None;
        };
        let SetExpr::Select(select) = query.body.as_ref() else {
            return None;
        };
        let [from] = select.from.as_slice() else {
            return None;
        };
        let TableFactor::Table {
            name: table_name,
            alias: None,
            ..
        } = &from.relation
        else {
            return None;
        };
        let selection = select.selection.as_ref()?;
        // The query may contain nothing else: ORDER BY, LIMIT, joins and hints would all change its text.
        let projection: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
        if query.to_string()
            != format!(
                "SELECT {} FROM {table_name} WHERE {selection}",
                projection.join(", ")
            )
        {
            return None;
        }
        let table = database.table(&single_name(table_name)?)?;
        let schema = table.schema();
        let (columns, fields) = columns(&select.projection, &schema)?;
        let projection = Projection::new(&table, columns, Arc::new(Schema::new(fields)));
        let condition = KeyCondition::of(name, selection, &table, &schema)?;
        let parameters = count(condition.parameters())?;
        let declared = Declared(declared);
        if !declared.are_at_most(parameters) || !condition.has(declared) {
            return None;
        }
        Some(Self {
            name: name.to_string(),
            projection: projection.ok()?,
            parameters,
            condition,
            table,
        })
    }

    /// The table that it reads.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The schema of the rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.projection.schema()
    }

    /// The types of the parameters, in order.
    pub(crate) fn parameter_types(&self) -> Vec<DataType> {
        self.condition.parameter_types(self.parameters)
    }

    /// The rows for these arguments of EXECUTE; `snapshot` gives the one to read.
    pub(crate) fn execute(
        &self,
        database: &Database,
        arguments: &[Argument<'_>],
        execution: Scheduling,
        snapshot: impl FnOnce(&Arc<Table>) -> Result<Snapshot, SqlError>,
    ) -> Result<RecordBatch, SqlError> {
        if arguments.len() != self.parameters {
            return Err(PreparedError::Arguments {
                name: self.name.clone(),
                expected: self.parameters,
                given: arguments.len(),
            }
            .into());
        }
        self.read(
            database,
            &self.condition.keys(arguments)?,
            execution,
            snapshot,
        )
    }

    /// The rows that have one of the keys in `keys`, which has one array per key column.
    pub(crate) fn execute_keys(
        &self,
        database: &Database,
        keys: &[ArrayRef],
        execution: Scheduling,
        snapshot: impl FnOnce(&Arc<Table>) -> Result<Snapshot, SqlError>,
    ) -> Result<RecordBatch, SqlError> {
        let rows = keys.first().map_or(0, |array| array.len());
        let key_types = &self.condition.key_types;
        if keys.len() != key_types.len() || keys.iter().any(|array| array.len() != rows) {
            return Err(PreparedError::Arguments {
                name: self.name.clone(),
                expected: key_types.len(),
                given: keys.len(),
            }
            .into());
        }
        let mut columns = Vec::with_capacity(keys.len());
        for (parameter, (array, ty)) in keys.iter().zip(key_types).enumerate() {
            let refused = |value| PreparedError::Argument {
                name: self.name.clone(),
                parameter: parameter + 1,
                value,
                expected: ty.to_string(),
            };
            let converted = types::convert(array, &ty.arrow());
            let converted = converted.map_err(|error| refused(types::text(&error)))?;
            // A cast cuts fractions off, and no key is equal to a number that has one.
            let is_same = |back: ArrayRef| back.as_ref() == array.as_ref();
            let back = || types::convert(&converted, array.data_type());
            if array.data_type().is_numeric() && !back().is_ok_and(is_same) {
                return Err(refused("a number that no key can be".to_string()).into());
            }
            columns.push(converted);
        }
        self.read(database, &columns, execution, snapshot)
    }

    fn read(
        &self,
        database: &Database,
        keys: &[ArrayRef],
        execution: Scheduling,
        snapshot: impl FnOnce(&Arc<Table>) -> Result<Snapshot, SqlError>,
    ) -> Result<RecordBatch, SqlError> {
        let spec_name = &self.table.spec().name;
        let current = database.table(spec_name);
        if !current.is_some_and(|table| Arc::ptr_eq(&table, &self.table)) {
            return Err(PreparedError::TableGone {
                name: self.name.clone(),
                table: spec_name.clone(),
            }
            .into());
        }
        let snapshot = snapshot(&self.table)?;
        let lookups = &mut Lookups::new(execution);
        let rows = find_rows(&snapshot, keys, lookups).map_err(SqlError::engine)?;
        snapshot
            .reconstruct(&rows, &self.projection, lookups)
            .map_err(SqlError::engine)
    }
}

/// The columns of a select list and their fields; `None` if an item is computed.
fn columns(items: &[SelectItem], schema: &Schema) -> Option<(Vec<usize>, Vec<Field>)> {
    let mut columns = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    for item in items {
        match item {
            SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                columns.extend(0..schema.fields().len());
                fields.extend(schema.fields().iter().map(|field| field.as_ref().clone()));
            }
            SelectItem::UnnamedExpr(expr) => {
                let column = column_of(expr, schema)?;
                columns.push(column);
                fields.push(schema.field(column).clone());
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                let column = column_of(expr, schema)?;
                columns.push(column);
                fields.push(schema.field(column).clone().with_name(identifier(alias)));
            }
            _ => return None,
        }
    }
    let mut names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    names.sort_unstable();
    // The planner handles two columns of one name.
    names
        .windows(2)
        .all(|pair| pair[0] != pair[1])
        .then_some((columns, fields))
}
