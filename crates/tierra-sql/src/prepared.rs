//! Point queries that are planned once: `PREPARE p AS SELECT .. FROM t WHERE key = $1`.
//!
//! DataFusion takes tens of milliseconds to plan a query on a table of a thousand columns, hundreds of times the time to
//! read the row. A [`PointPlan`] holds everything that does not depend on the arguments. Executing it parses only the
//! arguments, plans nothing, and clones no schema and no name.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::compute::{filter, is_not_null};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, SelectItem, SetExpr, TableFactor, UnaryOperator,
};
use tierra_column::{LogicalType, Value};
use tierra_engine::{Database, Projection, Table};
use tierra_interleave::{Lookups, Scheduling};

use crate::error::{PreparedError, SqlError};
use crate::keys::find_rows;
use crate::list::{Kind, List, array_items, assigned, marked_array};
use crate::names::{identifier, single_name};
use crate::types::logical_type;
use crate::{types, values};

/// A query for rows by primary key, complete except for its arguments.
pub(crate) struct PointPlan {
    name: String,
    table: Arc<Table>,
    projection: Projection,
    key_types: Vec<LogicalType>,
    condition: Condition,
    parameters: usize,
    /// Whether the parameter is a list, as in `key = ANY($1)`.
    takes_list: bool,
}

/// The condition on the key.
enum Condition {
    /// `a = .. AND b = ..`: one operand per key column.
    Equal(Vec<Operand>),
    /// `key IN (.., ..)` and `key = ANY(..)`: an operand may be an array.
    Any(Vec<Operand>),
}

/// An argument for a parameter.
pub(crate) enum Argument<'a> {
    /// An expression in the statement.
    Written(&'a Expr),
    /// A list taken out of the statement because it was too long, or bound by a program.
    List(Arc<List>),
    /// One value bound by a program.
    Value(Arc<List>),
}

impl<'a> Argument<'a> {
    /// An argument of EXECUTE; `lists` were taken out of it.
    pub(crate) fn written(argument: &'a Expr, lists: &[Arc<List>]) -> Self {
        let list = marked_array(argument).and_then(|number| lists.get(number));
        list.map_or(Argument::Written(argument), |list| {
            Argument::List(Arc::clone(list))
        })
    }

    /// An array, or its single value.
    pub(crate) fn bound(array: ArrayRef, is_value: bool) -> Self {
        let list = Arc::new(List::typed(array));
        match is_value {
            true => Argument::Value(list),
            false => Argument::List(list),
        }
    }
}

/// A literal, or the number of a parameter, from 0.
enum Operand {
    Literal(Option<Value>),
    Parameter(usize),
}

impl PointPlan {
    /// The plan of `query` if it is a point query on a table of `database`; DataFusion prepares other queries.
    pub(crate) fn of(name: &str, query: &ast::Statement, database: &Database) -> Option<Self> {
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
        let key = table.spec().primary_key.clone();
        let key_types: Vec<LogicalType> = key
            .iter()
            .map(|&column| logical_type(&schema, column))
            .collect();
        let condition = condition(selection, &key, &key_types, &schema)?;
        let parameters = condition.parameters()?;
        Some(Self {
            name: name.to_string(),
            projection: projection.ok()?,
            key_types,
            condition,
            parameters,
            takes_list: matches!(selection, Expr::AnyOp { .. }),
            table,
        })
    }

    /// The schema of the rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.projection.schema()
    }

    /// The types of the parameters, in order.
    pub(crate) fn parameter_types(&self) -> Vec<DataType> {
        let mut types = vec![DataType::Null; self.parameters];
        let mut set = |operand: &Operand, ty: LogicalType| {
            if let Operand::Parameter(number) = operand {
                let ty = ty.arrow();
                types[*number] = match self.takes_list {
                    true => DataType::new_list(ty, true),
                    false => ty,
                };
            }
        };
        match &self.condition {
            Condition::Equal(operands) => {
                let parts = operands.iter().zip(&self.key_types);
                parts.for_each(|(operand, ty)| set(operand, *ty));
            }
            Condition::Any(operands) => {
                operands
                    .iter()
                    .for_each(|operand| set(operand, self.key_types[0]));
            }
        }
        types
    }

    /// The rows for these arguments of EXECUTE.
    pub(crate) fn execute(
        &self,
        database: &Database,
        arguments: &[Argument<'_>],
        execution: Scheduling,
    ) -> Result<RecordBatch, SqlError> {
        if arguments.len() != self.parameters {
            return Err(PreparedError::Arguments {
                name: self.name.clone(),
                expected: self.parameters,
                given: arguments.len(),
            }
            .into());
        }
        self.read(database, &self.keys(arguments)?, execution)
    }

    /// The rows that have one of the keys in `keys`, which has one array per key column.
    pub(crate) fn execute_keys(
        &self,
        database: &Database,
        keys: &[ArrayRef],
        execution: Scheduling,
    ) -> Result<RecordBatch, SqlError> {
        let rows = keys.first().map_or(0, |array| array.len());
        if keys.len() != self.key_types.len() || keys.iter().any(|array| array.len() != rows) {
            return Err(PreparedError::Arguments {
                name: self.name.clone(),
                expected: self.key_types.len(),
                given: keys.len(),
            }
            .into());
        }
        let mut columns = Vec::with_capacity(keys.len());
        for (parameter, (array, ty)) in keys.iter().zip(&self.key_types).enumerate() {
            let array =
                types::convert(array, &ty.arrow()).map_err(|error| PreparedError::Argument {
                    name: self.name.clone(),
                    parameter: parameter + 1,
                    value: types::text(&error),
                    expected: ty.to_string(),
                })?;
            columns.push(array);
        }
        self.read(database, &columns, execution)
    }

    fn read(
        &self,
        database: &Database,
        keys: &[ArrayRef],
        execution: Scheduling,
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
        let snapshot = self.table.snapshot();
        let lookups = &mut Lookups::new(execution);
        let rows = find_rows(&snapshot, keys, lookups).map_err(SqlError::engine)?;
        snapshot
            .reconstruct(&rows, &self.projection, lookups)
            .map_err(SqlError::engine)
    }

    /// One array per key column. Keys that contain NULL equal nothing and are left out.
    fn keys(&self, arguments: &[Argument<'_>]) -> Result<Vec<ArrayRef>, SqlError> {
        let value = |operand: &Operand, ty: LogicalType| match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Parameter(number) => match &arguments[*number] {
                Argument::Written(written) => self.argument(*number, written, ty),
                Argument::Value(value) => Ok(Value::of_array(&self.values(*number, value, ty)?, 0)),
                Argument::List(list) => {
                    Err(self.refuse(*number, format!("a list of {} values", list.len()), ty))
                }
            },
        };
        match &self.condition {
            Condition::Equal(operands) => {
                let key = operands
                    .iter()
                    .zip(&self.key_types)
                    .map(|(operand, ty)| value(operand, *ty));
                let key = key.collect::<Result<Option<Vec<Value>>, _>>()?;
                let columns = self.key_types.iter().enumerate().map(|(part, ty)| {
                    let value = key.as_ref().map(|key| std::slice::from_ref(&key[part]));
                    values::array(*ty, value.unwrap_or_default())
                });
                Ok(columns.collect::<Result<_, _>>()?)
            }
            Condition::Any(operands) => {
                let ty = self.key_types[0];
                if let [Operand::Parameter(number)] = operands.as_slice()
                    && let Argument::List(list) = &arguments[*number]
                {
                    let keys = self.values(*number, list, ty)?;
                    return Ok(vec![without_nulls(keys)?]);
                }
                let mut keys = Vec::with_capacity(operands.len());
                for operand in operands {
                    let Operand::Parameter(number) = operand else {
                        keys.extend(value(operand, ty)?);
                        continue;
                    };
                    match &arguments[*number] {
                        Argument::List(list) => {
                            let list = self.values(*number, list, ty)?;
                            keys.extend(
                                (0..list.len()).filter_map(|at| Value::of_array(&list, at)),
                            );
                        }
                        Argument::Written(written) if let Some(items) = array_items(written) => {
                            for item in items {
                                keys.extend(self.argument(*number, item, ty)?);
                            }
                        }
                        _ => keys.extend(value(operand, ty)?),
                    }
                }
                Ok(vec![values::array(ty, &keys)?])
            }
        }
    }

    fn argument(
        &self,
        number: usize,
        argument: &Expr,
        ty: LogicalType,
    ) -> Result<Option<Value>, PreparedError> {
        literal(argument, ty).ok_or_else(|| self.refuse(number, argument.to_string(), ty))
    }

    /// The items of a list as keys of type `ty`.
    fn values(
        &self,
        number: usize,
        list: &List,
        ty: LogicalType,
    ) -> Result<ArrayRef, PreparedError> {
        // As strict as for single literals: keys are not rounded, and a string is not a number.
        let fits = match list.kind() {
            Kind::Integers => !is_text(ty) && ty != LogicalType::Boolean,
            Kind::Numbers => matches!(ty, LogicalType::Decimal { .. } | LogicalType::Double),
            Kind::Texts => is_text(ty),
            Kind::Typed => true,
        };
        if !fits {
            let first = list.values().slice(0, 1);
            let first = array_value_to_string(&first, 0).unwrap_or_default();
            return Err(self.refuse(number, format!("a list with {first}"), ty));
        }
        assigned(list, &ty.arrow()).map_err(|found| self.refuse(number, found, ty))
    }

    fn refuse(&self, number: usize, value: String, ty: LogicalType) -> PreparedError {
        PreparedError::Argument {
            name: self.name.clone(),
            parameter: number + 1,
            value,
            expected: ty.to_string(),
        }
    }
}

fn without_nulls(keys: ArrayRef) -> Result<ArrayRef, DataFusionError> {
    if keys.null_count() == 0 {
        return Ok(keys);
    }
    Ok(filter(&keys, &is_not_null(&keys)?)?)
}

/// Types whose literals are written in quotes.
fn is_text(ty: LogicalType) -> bool {
    matches!(
        ty,
        LogicalType::Varchar | LogicalType::Date | LogicalType::Timestamp
    )
}

impl Condition {
    /// The number of parameters; `None` if their numbers have a gap.
    fn parameters(&self) -> Option<usize> {
        let (Condition::Equal(operands) | Condition::Any(operands)) = self;
        let mut numbers: Vec<usize> = operands
            .iter()
            .filter_map(|operand| match operand {
                Operand::Parameter(number) => Some(*number),
                Operand::Literal(_) => None,
            })
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
            .iter()
            .enumerate()
            .all(|(place, number)| place == *number)
            .then_some(numbers.len())
    }
}

/// The condition, if it fixes the whole key and says nothing else.
fn condition(
    selection: &Expr,
    key: &[usize],
    types: &[LogicalType],
    schema: &Schema,
) -> Option<Condition> {
    if let ([column], [ty]) = (key, types) {
        let is_key = |expr: &Expr| column_of(expr, schema) == Some(*column);
        match selection {
            Expr::InList {
                expr,
                list,
                negated: false,
            } if is_key(expr) => {
                return list
                    .iter()
                    .map(|item| operand(item, *ty))
                    .collect::<Option<_>>()
                    .map(Condition::Any);
            }
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } if is_key(left) => {
                let right = match right.as_ref() {
                    Expr::Nested(inner) => inner,
                    other => other,
                };
                return Some(Condition::Any(vec![operand(right, *ty)?]));
            }
            _ => {}
        }
    }
    let mut operands: Vec<Option<Operand>> = key.iter().map(|_| None).collect();
    let mut pending = vec![selection];
    while let Some(expr) = pending.pop() {
        match expr {
            Expr::Nested(inner) => pending.push(inner),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => pending.extend([left.as_ref(), right.as_ref()]),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            } => {
                let (column, other) = match column_of(left, schema) {
                    Some(column) => (column, right),
                    None => (column_of(right, schema)?, left),
                };
                let place = key.iter().position(|part| *part == column)?;
                if operands[place].is_some() {
                    return None;
                }
                operands[place] = Some(operand(other, types[place])?);
            }
            _ => return None,
        }
    }
    let operands = operands.into_iter().collect::<Option<Vec<_>>>()?;
    (!operands.is_empty()).then_some(Condition::Equal(operands))
}

fn operand(expr: &Expr, ty: LogicalType) -> Option<Operand> {
    match expr {
        Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Placeholder(name),
            ..
        }) => {
            let number: usize = name.strip_prefix('$')?.parse().ok()?;
            Some(Operand::Parameter(number.checked_sub(1)?))
        }
        other => literal(other, ty).map(Operand::Literal),
    }
}

/// A literal as a value of type `ty`; `Some(None)` is NULL, `None` is another expression.
fn literal(expr: &Expr, ty: LogicalType) -> Option<Option<Value>> {
    match expr {
        Expr::Nested(inner) => literal(inner, ty),
        Expr::TypedString(typed) => match &typed.value.value {
            ast::Value::SingleQuotedString(text) if is_text(ty) => parsed(text, ty),
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            ast::Value::Null => Some(None),
            ast::Value::Number(digits, _) if !is_text(ty) => parsed(digits, ty),
            ast::Value::Boolean(value) if ty == LogicalType::Boolean => {
                Some(Some(Value::Ordinal(u64::from(*value))))
            }
            ast::Value::SingleQuotedString(text) if is_text(ty) => parsed(text, ty),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            Expr::Value(ast::ValueWithSpan {
                value: ast::Value::Number(digits, _),
                ..
            }) if !is_text(ty) => parsed(&format!("-{digits}"), ty),
            _ => None,
        },
        _ => None,
    }
}

fn parsed(text: &str, ty: LogicalType) -> Option<Option<Value>> {
    if ty == LogicalType::Boolean {
        return None;
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let value = types::convert(&text, &ty.arrow()).ok()?;
    (!value.is_null(0)).then(|| Value::of_array(&value, 0))
}

fn column_of(expr: &Expr, schema: &Schema) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => column_of(inner, schema),
        Expr::Identifier(ident) => schema.index_of(&identifier(ident)).ok(),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement;
    use datafusion::sql::parser::Statement;

    fn expression(text: &str) -> Expr {
        let statements = statement::split(&format!("SELECT {text}")).unwrap();
        let Statement::Statement(inner) = statements[0].parse().unwrap() else {
            panic!()
        };
        let ast::Statement::Query(query) = *inner else {
            panic!()
        };
        let SetExpr::Select(select) = *query.body else {
            panic!()
        };
        let SelectItem::UnnamedExpr(expr) = select.projection[0].clone() else {
            panic!()
        };
        expr
    }

    #[test]
    fn literals_take_the_type_of_the_key() {
        let of = |text: &str, ty| literal(&expression(text), ty);
        let int = |value| Some(Some(Value::Ordinal(tierra_column::ordinal::of_i32(value))));
        assert_eq!(of("-42", LogicalType::Integer), int(-42));
        assert_eq!(of("NULL", LogicalType::Integer), Some(None));
        assert_eq!(of("3000000000", LogicalType::Integer), None);
        assert_eq!(of("'42'", LogicalType::Integer), None);
        assert_eq!(of("DATE '1970-01-02'", LogicalType::Date), int(1));
        assert_eq!(of("1 + 1", LogicalType::Integer), None);
        assert_eq!(
            of("'x'", LogicalType::Varchar),
            Some(Some(Value::Bytes(b"x".as_slice().into())))
        );
        assert_eq!(LogicalType::Integer.arrow(), DataType::Int32);
    }
}
