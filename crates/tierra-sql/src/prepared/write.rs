//! Writes that are planned once: `INSERT INTO t VALUES ($1, ..)`, and UPDATE and DELETE of rows by their key.
//!
//! ```text
//! INSERT                 --> new row --------------------------------+
//! UPDATE .. WHERE key    --> row id, the row with its new values ----+--> one change for the engine
//! DELETE .. WHERE key    --> row id ---------------------------------+
//! ```
//! Only values that go into their columns as they are take this way. Others (a number to be rounded, a text to be parsed as a
//! timestamp, an error) are left to the planner, so a statement means the same on both.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, FromTable, SetExpr, TableFactor, TableObject,
    TableWithJoins,
};
use tierra_column::LogicalType;
use tierra_engine::{Change, Database, Projection, RowId, RowIds, Snapshot, Table};
use tierra_interleave::{Lookups, Scheduling};

use super::Argument;
use super::key::{Declared, KeyCondition, Operand, count, literal};
use crate::error::{PreparedError, SqlError};
use crate::keys::find_rows;
use crate::names::{identifier, single_name};
use crate::types::{self, logical_type};
use crate::values;

/// A write by key, complete except for its arguments.
pub(crate) struct WritePlan {
    name: String,
    table: Arc<Table>,
    schema: SchemaRef,
    /// All columns.
    projection: Projection,
    kind: Kind,
    parameters: usize,
}

enum Kind {
    /// For each row, the value of each column.
    Insert(Vec<Vec<Operand>>),
    Update {
        key: KeyCondition,
        /// Columns and their new values.
        values: Vec<(usize, Operand)>,
    },
    Delete {
        key: KeyCondition,
    },
}

/// A write with its arguments. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Write {
    plan: Arc<WritePlan>,
    /// One array per key column; unused by INSERT.
    keys: Vec<ArrayRef>,
    /// INSERT: all columns of the new rows. UPDATE: columns of one row.
    values: Vec<(usize, ArrayRef)>,
}

impl WritePlan {
    /// The plan of `statement` if it writes single rows of a table of `database` by their key, and nothing else, and the types in
    /// `declared`, if any, are those of the columns.
    pub(crate) fn of(
        name: &str,
        declared: &[ast::DataType],
        statement: &ast::Statement,
        database: &Database,
    ) -> Option<Self> {
        let table_name = match statement {
            ast::Statement::Insert(insert) => match &insert.table {
                TableObject::TableName(table) => table,
                _ => return None,
            },
            ast::Statement::Update(update) => plain_table(&update.table)?,
            ast::Statement::Delete(delete) => match &delete.from {
                FromTable::WithFromKeyword(from) => plain_table(from.first()?)?,
                FromTable::WithoutKeyword(_) => return None,
            },
            _ => return None,
        };
        let table = database.table(&single_name(table_name)?)?;
        let schema = table.schema();
        let kind = match statement {
            ast::Statement::Insert(insert) => insert_rows(insert, &schema)?,
            ast::Statement::Update(update) => update_rows(name, update, &table, &schema)?,
            ast::Statement::Delete(delete) => {
                let selection = delete.selection.as_ref()?;
                if !reads(
                    statement,
                    &format!("DELETE FROM {table_name} WHERE {selection}"),
                ) {
                    return None;
                }
                let key = KeyCondition::of(name, selection, &table, &schema)?;
                Kind::Delete { key }
            }
            _ => return None,
        };
        let parameters = count(kind.parameters().into_iter())?;
        let declared = Declared(declared);
        if !declared.are_at_most(parameters) || !kind.has(declared, &schema) {
            return None;
        }
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        Some(Self {
            name: name.to_string(),
            projection: table.projection(&columns),
            parameters,
            kind,
            schema,
            table,
        })
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The first word of the statement.
    pub(crate) fn command(&self) -> &'static str {
        match self.kind {
            Kind::Insert(_) => "INSERT",
            Kind::Update { .. } => "UPDATE",
            Kind::Delete { .. } => "DELETE",
        }
    }

    /// The write with these arguments; `None` if the planner has to assign them.
    ///
    /// # Errors
    /// If the number of arguments is wrong, or if the table was dropped.
    pub(crate) fn bind(
        self: &Arc<Self>,
        arguments: &[Argument<'_>],
        database: &Database,
    ) -> Result<Option<Write>, SqlError> {
        if arguments.len() != self.parameters {
            return Err(PreparedError::Arguments {
                name: self.name.clone(),
                expected: self.parameters,
                given: arguments.len(),
            }
            .into());
        }
        let table = &self.table.spec().name;
        let current = database.table(table);
        if !current.is_some_and(|current| Arc::ptr_eq(&current, &self.table)) {
            return Err(PreparedError::TableGone {
                name: self.name.clone(),
                table: table.clone(),
            }
            .into());
        }
        let key = |key: &KeyCondition| key.keys(arguments).ok();
        let (keys, values) = match &self.kind {
            Kind::Insert(rows) => (Some(Vec::new()), self.inserted(rows, arguments)),
            Kind::Update { key: by, values } => {
                let values = values.iter().map(|(column, operand)| {
                    let value = self.value(operand, *column, arguments)?;
                    Some((*column, value))
                });
                (key(by), values.collect())
            }
            Kind::Delete { key: by } => (key(by), Some(Vec::new())),
        };
        Ok(keys.zip(values).map(|(keys, values)| Write {
            plan: Arc::clone(self),
            keys,
            values,
        }))
    }

    fn inserted(
        &self,
        rows: &[Vec<Operand>],
        arguments: &[Argument<'_>],
    ) -> Option<Vec<(usize, ArrayRef)>> {
        let column = |place: usize| {
            let cells = rows.iter();
            let cells = cells.map(|row| self.value(&row[place], place, arguments));
            let cells = cells.collect::<Option<Vec<ArrayRef>>>()?;
            let values = match cells.as_slice() {
                [cell] => Arc::clone(cell),
                cells => concat(&cells.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok()?,
            };
            Some((place, values))
        };
        (0..self.schema.fields().len()).map(column).collect()
    }

    /// The value of `column` as an array of length one, if it needs no conversion that INSERT and UPDATE define.
    fn value(
        &self,
        operand: &Operand,
        column: usize,
        arguments: &[Argument<'_>],
    ) -> Option<ArrayRef> {
        let ty = logical_type(&self.schema, column);
        let value = match operand {
            Operand::Literal(value) => value.clone(),
            Operand::Parameter(number) => match &arguments[*number] {
                Argument::Written(written) => as_it_is(written, ty)?,
                Argument::Value(value) => {
                    let value = value.values();
                    let is_text = |ty: &DataType| {
                        matches!(
                            ty,
                            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                        )
                    };
                    let (from, to) = (value.data_type(), ty.arrow());
                    let is_same = *from == to
                        || is_text(from) && is_text(&to)
                        || from.is_integer() && to.is_integer();
                    let value = is_same.then(|| types::convert(value, &to).ok())??;
                    return self.may_be(value, column);
                }
                Argument::List(_) => return None,
            },
        };
        let value = match value {
            Some(value) => values::array(ty, &[value]).ok()?,
            None => new_null_array(&ty.arrow(), 1),
        };
        self.may_be(value, column)
    }

    /// `value`, unless it is a NULL that the column cannot have.
    fn may_be(&self, value: ArrayRef, column: usize) -> Option<ArrayRef> {
        let fits = self.schema.field(column).is_nullable() || value.null_count() == 0;
        fits.then_some(value)
    }
}

impl Kind {
    /// Whether the types that PREPARE declares for its parameters are those of the columns.
    fn has(&self, declared: Declared<'_>, schema: &SchemaRef) -> bool {
        let allow =
            |operand: &Operand, column| declared.allow(operand, logical_type(schema, column));
        match self {
            Kind::Insert(rows) => rows.iter().all(|row| {
                row.iter()
                    .zip(0..)
                    .all(|(cell, column)| allow(cell, column))
            }),
            Kind::Update { key, values } => {
                let mut values = values.iter();
                key.has(declared) && values.all(|(column, value)| allow(value, *column))
            }
            Kind::Delete { key } => key.has(declared),
        }
    }

    /// The numbers of the parameters.
    fn parameters(&self) -> Vec<usize> {
        match self {
            Kind::Insert(rows) => {
                let operands = rows.iter().flatten();
                operands.filter_map(Operand::parameter).collect()
            }
            Kind::Update { key, values } => {
                let values = values.iter().map(|(_, operand)| operand);
                let values = values.filter_map(Operand::parameter);
                values.chain(key.parameters()).collect()
            }
            Kind::Delete { key } => key.parameters().collect(),
        }
    }
}

impl Write {
    pub(crate) fn plan(&self) -> &WritePlan {
        &self.plan
    }

    /// The most rows that it can change.
    pub(crate) fn rows_most(&self) -> usize {
        let columns = match self.plan.kind {
            Kind::Insert(_) => self.values.first().map(|(_, values)| values),
            Kind::Update { .. } | Kind::Delete { .. } => self.keys.first(),
        };
        columns.map_or(0, |values| values.len())
    }

    /// What it changes in `snapshot`, which is one of its table, and the number of rows that change. Blocks as long as lookups of
    /// its keys.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub(crate) fn change(
        &self,
        snapshot: Snapshot,
        execution: Scheduling,
    ) -> Result<(Change, u64), SqlError> {
        let plan = &*self.plan;
        if let Kind::Insert(rows) = &plan.kind {
            let columns = self.values.iter().map(|(_, values)| Arc::clone(values));
            let batch = self.batch(columns.collect())?;
            let change = Change {
                snapshot,
                deleted: RowIds::default(),
                appended: vec![batch],
            };
            return Ok((change, rows.len() as u64));
        }
        let lookups = &mut Lookups::new(execution);
        let rows = find_rows(&snapshot, &self.keys, lookups).map_err(SqlError::engine)?;
        let deleted: RowIds = rows.iter().copied().collect();
        let rows: Vec<RowId> = deleted.iter().collect();
        let mut appended = Vec::new();
        if matches!(plan.kind, Kind::Update { .. }) && !rows.is_empty() {
            let old = snapshot.reconstruct(&rows, &plan.projection, lookups);
            let mut columns = old.map_err(SqlError::engine)?.columns().to_vec();
            let first = UInt32Array::from(vec![0; rows.len()]);
            for (column, value) in &self.values {
                columns[*column] = take(value, &first, None).map_err(DataFusionError::from)?;
            }
            appended.push(self.batch(columns)?);
        }
        let count = rows.len() as u64;
        let change = Change {
            snapshot,
            deleted,
            appended,
        };
        Ok((change, count))
    }

    fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch, SqlError> {
        let batch = RecordBatch::try_new(Arc::clone(&self.plan.schema), columns);
        Ok(batch.map_err(DataFusionError::from)?)
    }
}

/// The rows of `INSERT INTO t (..) VALUES (..), ..`.
fn insert_rows(insert: &ast::Insert, schema: &SchemaRef) -> Option<Kind> {
    let source = insert.source.as_ref()?;
    let SetExpr::Values(rows) = source.body.as_ref() else {
        return None;
    };
    let listed: Vec<String> = insert.columns.iter().map(ToString::to_string).collect();
    let listed = match listed.as_slice() {
        [] => String::new(),
        columns => format!("({})", columns.join(", ")),
    };
    let statement = ast::Statement::Insert(insert.clone());
    let text = format!("INSERT INTO {} {listed} {rows}", insert.table);
    if !reads(&statement, &text) {
        return None;
    }
    // For each column of the table, its place in the rows.
    let mut places: Vec<Option<usize>> = vec![None; schema.fields().len()];
    match insert.columns.as_slice() {
        [] => places
            .iter_mut()
            .zip(0..)
            .for_each(|(place, n)| *place = Some(n)),
        columns => {
            for (n, column) in columns.iter().enumerate() {
                let [name] = column.0.as_slice() else {
                    return None;
                };
                let column = schema.index_of(&identifier(name.as_ident()?)).ok()?;
                if places[column].replace(n).is_some() {
                    return None;
                }
            }
        }
    }
    let width = places.iter().flatten().count();
    let row = |cells: &[Expr]| {
        if cells.len() != width {
            return None;
        }
        let columns = places.iter().enumerate();
        let operands = columns.map(|(column, place)| match place {
            Some(place) => operand(&cells[*place], column, schema),
            None => schema
                .field(column)
                .is_nullable()
                .then_some(Operand::Literal(None)),
        });
        operands.collect::<Option<Vec<_>>>()
    };
    let rows = rows.rows.iter().map(|cells| row(&cells.content));
    Some(Kind::Insert(rows.collect::<Option<_>>()?))
}

/// `UPDATE t SET a = .., b = .. WHERE key = ..`.
fn update_rows(
    name: &str,
    update: &ast::Update,
    table: &Table,
    schema: &SchemaRef,
) -> Option<Kind> {
    let selection = update.selection.as_ref()?;
    let set: Vec<String> = update.assignments.iter().map(ToString::to_string).collect();
    let statement = ast::Statement::Update(update.clone());
    let text = format!(
        "UPDATE {} SET {} WHERE {selection}",
        update.table,
        set.join(", ")
    );
    if !reads(&statement, &text) {
        return None;
    }
    let mut values: Vec<(usize, Operand)> = Vec::new();
    for Assignment { target, value } in &update.assignments {
        let AssignmentTarget::ColumnName(column) = target else {
            return None;
        };
        let [column] = column.0.as_slice() else {
            return None;
        };
        let column = schema.index_of(&identifier(column.as_ident()?)).ok()?;
        if values.iter().any(|(other, _)| *other == column) {
            return None;
        }
        values.push((column, operand(value, column, schema)?));
    }
    let key = KeyCondition::of(name, selection, table, schema)?;
    Some(Kind::Update { key, values })
}

/// The name of a table without an alias or a join.
fn plain_table(from: &TableWithJoins) -> Option<&ast::ObjectName> {
    match &from.relation {
        TableFactor::Table {
            name, alias: None, ..
        } if from.joins.is_empty() => Some(name),
        _ => None,
    }
}

/// Whether `statement` reads as `text`, which has all the clauses that a plan knows: hints, RETURNING, ON CONFLICT and all
/// others would change its text.
fn reads(statement: &ast::Statement, text: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<String>();
    words(&statement.to_string()) == words(text)
}

/// A parameter or literal for `column`.
fn operand(expr: &Expr, column: usize, schema: &SchemaRef) -> Option<Operand> {
    match super::key::operand(expr, logical_type(schema, column)) {
        Some(parameter @ Operand::Parameter(_)) => Some(parameter),
        _ => {
            let value = as_it_is(expr, logical_type(schema, column))?;
            let fits = schema.field(column).is_nullable() || value.is_some();
            fits.then_some(Operand::Literal(value))
        }
    }
}

/// A literal that a column of type `ty` takes as it is.
fn as_it_is(expr: &Expr, ty: LogicalType) -> Option<Option<tierra_column::Value>> {
    let value = literal(expr, ty)?;
    let is_converted = match ty {
        // It may be rounded.
        LogicalType::Decimal { .. } => true,
        // The planner reads texts of more kinds and years.
        LogicalType::Timestamp | LogicalType::Date => true,
        _ => false,
    };
    (value.is_none() || !is_converted).then_some(value)
}
