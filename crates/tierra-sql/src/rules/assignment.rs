//! INSERT, UPDATE and MERGE assign values to columns; they do not convert them freely.
//!
//! DataFusion's planner casts every value. Here a value is assigned as in PostgreSQL. Numbers go into numbers: rounded half
//! away from zero if the column has fewer digits after the point, refused if it has too few before it. Dates and timestamps
//! go into each other, and any value into VARCHAR. A text literal goes into every type that can parse it. Everything else
//! needs an explicit cast.
//!
//! Invariant: every cast left between a value and a column is one of these.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, Schema, SchemaRef,
};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::math::expr_fn::round;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{
    Cast, DmlStatement, Expr, ExprSchemable, LogicalPlan, Projection, Values, WriteOp,
};
use datafusion::optimizer::AnalyzerRule;

use tierra_column::LogicalType;

use super::assign_to::AssignTo;
use super::assigned::assigned;
use super::csv_source;
use super::number::{is_number, long_text};
use super::numbers::exact;
use crate::error::{InsertError, SqlError};
use crate::text_values::{Target, strict};
use crate::tree::TreeNode;
use crate::types;

/// The rule.
#[derive(Debug)]
pub(super) struct Assignment;

impl AnalyzerRule for Assignment {
    fn name(&self) -> &str {
        "assignment"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down(|plan| match plan {
            LogicalPlan::Dml(dml) if matches!(dml.op, WriteOp::Insert(_)) => {
                let assigned = LogicalPlan::Dml(assign_all(dml)?);
                Ok(Transformed::new(assigned, true, TreeNodeRecursion::Stop))
            }
            LogicalPlan::Projection(projection) if projection.expr.iter().any(has_mark) => {
                let assigned = LogicalPlan::Projection(assign_marked(projection)?);
                Ok(Transformed::yes(assigned))
            }
            plan => Ok(Transformed::no(plan)),
        })
        .map(|transformed| transformed.data)
    }
}

/// `projection` with its marked values assigned to their columns.
fn assign_marked(projection: Projection) -> Result<Projection> {
    let Projection { expr, input, .. } = projection;
    let assigned = expr.into_iter().map(|expr| {
        let assigned = expr.transform_up(|expr| {
            let Some(mark) = mark_of(&expr) else {
                return Ok(Transformed::no(expr));
            };
            let field = &mark.field;
            let target = AssignmentTarget {
                table: &mark.table,
                schema: Arc::new(Schema::new(vec![Arc::clone(field)])),
            };
            let Expr::ScalarFunction(call) = &expr else {
                return Ok(Transformed::no(expr));
            };
            let mut value = call.args[0].clone();
            if let Expr::Placeholder(parameter) = &mut value {
                let ty = parameter.field.take();
                parameter.field = ty.or_else(|| Some(Arc::clone(field)));
            }
            let from = value.get_type(input.schema())?;
            Ok(Transformed::yes(target.assign(value, &from, field)?))
        })?;
        Ok(assigned.data)
    });
    let assigned = assigned.collect::<Result<Vec<_>>>()?;
    Projection::try_new(assigned, input)
}

fn has_mark(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(mark_of(expr).is_some()))
        .unwrap_or(true)
}

fn mark_of(expr: &Expr) -> Option<&AssignTo> {
    match expr {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref(),
        _ => None,
    }
}

/// The target of an INSERT.
struct AssignmentTarget<'a> {
    table: &'a str,
    schema: SchemaRef,
}

fn assign_all(dml: DmlStatement) -> Result<DmlStatement> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = dml.input.as_ref() else {
        return Ok(dml);
    };
    let target = AssignmentTarget {
        table: dml.table_name.table(),
        schema: dml.target.schema(),
    };
    let source = match input.as_ref() {
        LogicalPlan::Values(values) => Arc::new(target.assign_values(values, expr)?),
        _ => match csv_source::read_as(input, &target.columns_of(input, expr))? {
            Some(file) => Arc::new(file),
            None => Arc::clone(input),
        },
    };
    let mut assigned = Vec::with_capacity(expr.len());
    for (expr, field) in expr.iter().zip(target.schema.fields()) {
        let value = target.assign_column(expr.clone().unalias(), &source, field)?;
        assigned.push(value.alias(field.name()));
    }
    let input = LogicalPlan::Projection(Projection::try_new(assigned, source)?);
    Ok(DmlStatement::new(
        dml.table_name.clone(),
        Arc::clone(&dml.target),
        dml.op.clone(),
        Arc::new(input),
    ))
}

impl AssignmentTarget<'_> {
    /// For each column of `source`, the table's column that it goes to unchanged; `columns` are the table's.
    fn columns_of(&self, source: &LogicalPlan, columns: &[Expr]) -> Vec<Option<Field>> {
        let mut fields = vec![None; source.schema().fields().len()];
        for (expr, field) in columns.iter().zip(self.schema.fields()) {
            let place = source_column(expr);
            if let Some(place) = place.and_then(|name| source.schema().maybe_index_of_column(name))
            {
                fields[place] = Some(field.as_ref().clone());
            }
        }
        fields
    }

    /// The rows of VALUES. The planner has cast their cells to the types of the columns.
    fn assign_values(&self, values: &Values, columns: &[Expr]) -> Result<LogicalPlan> {
        // The table's column for each column of VALUES.
        let mut fields = vec![None; values.schema.fields().len()];
        for (expr, field) in columns.iter().zip(self.schema.fields()) {
            if let Some(place) =
                source_column(expr).and_then(|column| values.schema.maybe_index_of_column(column))
            {
                fields[place] = Some(field);
            }
        }
        let none = DFSchema::empty();
        let mut rows = Vec::with_capacity(values.values.len());
        for (number, row) in values.values.iter().enumerate() {
            let mut cells = Vec::with_capacity(row.len());
            for (cell, field) in row.iter().zip(&fields) {
                // Where an argument took the place of a parameter, the cell has an alias.
                let cell = cell.clone().unalias();
                let Some(field) = field else {
                    cells.push(cell);
                    continue;
                };
                if !field.is_nullable() && is_null(&cell) {
                    return Err(self.refuse(InsertError::Null {
                        table: self.table.to_string(),
                        column: field.name().clone(),
                        row: Some(number + 1),
                    }));
                }
                cells.push(match cell {
                    Expr::Cast(Cast { expr, .. }) => {
                        let from = expr.get_type(&none)?;
                        self.assign(*expr, &from, field)?
                    }
                    cell => cell,
                });
            }
            rows.push(cells);
        }
        // The table refuses a cell that turns out to be NULL: it can name the column.
        let nullable = values.schema.fields().iter();
        let nullable = nullable.map(|field| field.as_ref().clone().with_nullable(true));
        let schema = DFSchema::from_unqualified_fields(nullable.collect(), Default::default())?;
        Ok(LogicalPlan::Values(Values {
            schema: Arc::new(schema),
            values: rows,
        }))
    }

    /// The value for `field`: `expr` is a column of `source`, with or without a cast, or a default.
    fn assign_column(&self, expr: Expr, source: &LogicalPlan, field: &Field) -> Result<Expr> {
        if !field.is_nullable() && is_null(&expr) {
            return Err(self.refuse(InsertError::Null {
                table: self.table.to_string(),
                column: field.name().clone(),
                row: None,
            }));
        }
        let Expr::Cast(Cast { expr, .. }) = &expr else {
            return Ok(expr);
        };
        let Expr::Column(column) = expr.as_ref() else {
            return Ok(Expr::Cast(Cast::new(
                expr.clone(),
                field.data_type().clone(),
            )));
        };
        let from = source.schema().field_from_column(column)?.data_type();
        // A constant is assigned as written, with all its digits.
        match constant(source, column) {
            Some(constant) => self.assign(constant, from, field),
            None => self.assign(expr.as_ref().clone(), from, field),
        }
    }

    /// `value` of type `from` as a value of `field`, if it can be assigned.
    fn assign(&self, value: Expr, from: &DataType, field: &Field) -> Result<Expr> {
        let value = assign(value, from, field.data_type()).ok_or_else(|| {
            self.refuse(InsertError::Mismatch {
                column: field.name().clone(),
                expected: types::name_of(field.data_type()),
                found: types::name_of(from),
            })
        })?;
        Ok(match value {
            // A parameter keeps its cast, so that its argument is assigned when it is bound.
            Expr::Cast(cast) if from != field.data_type() && !has_parameter(&cast.expr) => {
                assigned(*cast.expr, field.name(), field.data_type())
            }
            value => value,
        })
    }

    fn refuse(&self, error: InsertError) -> DataFusionError {
        DataFusionError::External(Box::new(SqlError::Insert(error)))
    }
}

/// `value` of type `from` as a value of type `to`, if it can be assigned.
fn assign(value: Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    use DataType::*;
    let readable = is_string(from) && matches!(value, Expr::Literal(_, _));
    let allowed = match to {
        _ if from.is_null() => true,
        Utf8View => true,
        Int8 | Int16 | Int32 | Int64 | Float64 | Decimal128(_, _) => from.is_numeric() || readable,
        Date32 | Timestamp(_, _) => matches!(from, Date32 | Date64 | Timestamp(_, _)) || readable,
        Boolean => *from == Boolean || readable,
        _ => from == to,
    };
    let value = match to {
        Int8 | Int16 | Int32 | Int64 => rounded(value, from),
        Decimal128(_, _) => exact(value),
        _ => value,
    };
    allowed.then(|| cast(value, to.clone()))
}

/// An argument of EXECUTE as a value of its parameter's type, if that is a column's, an integer or an interval. It is assigned as a value is to
/// a column. `None` if it cannot be.
pub(crate) fn argument(value: Expr, to: &DataType) -> Result<Option<Expr>> {
    if let Expr::Literal(text, _) = &value
        && text.data_type().is_string()
        && Target::of(to).is_some()
    {
        let read = strict(&text.to_array()?, to);
        let read = read.and_then(|read| Ok(ScalarValue::try_from_array(&read, 0)?));
        return Ok(read.ok().map(|read| Expr::Literal(read, None)));
    }
    if LogicalType::of_arrow(to).is_none() && !to.is_integer() {
        return Ok(Some(value));
    }
    let from = value.get_type(&DFSchema::empty())?;
    Ok(assign(value, &from, to))
}

/// A number rounded to an integer, half away from zero, because the cast that follows truncates.
fn rounded(value: Expr, from: &DataType) -> Expr {
    if is_number(&value) {
        let number = exact(value);
        return match number {
            Expr::Literal(ScalarValue::Decimal128(_, _, _), _) => {
                cast(number, DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
            }
            Expr::Literal(ScalarValue::Decimal256(_, _, _), _) => {
                cast(number, DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0))
            }
            huge => huge,
        };
    }
    match from {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => round(vec![value]),
        DataType::Decimal128(_, scale) if *scale > 0 => {
            cast(value, DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
        }
        DataType::Decimal256(_, scale) if *scale > 0 => {
            cast(value, DataType::Decimal256(DECIMAL256_MAX_PRECISION, 0))
        }
        _ => value,
    }
}

fn cast(value: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(value), to))
}

/// The source's column that `expr` refers to.
fn source_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Alias(Alias { expr, .. }) => source_column(expr),
        Expr::Cast(Cast { expr, .. }) => source_column(expr),
        Expr::Column(column) => Some(column),
        _ => None,
    }
}

/// The number or text that the statement gives `column` of `source` in every row.
fn constant(source: &LogicalPlan, column: &Column) -> Option<Expr> {
    let LogicalPlan::Projection(projection) = source else {
        return None;
    };
    let place = projection.schema.maybe_index_of_column(column)?;
    let expr = projection.expr[place].clone().unalias();
    let is_text = matches!(&expr, Expr::Literal(value, _) if is_string(&value.data_type()));
    (is_text || is_number(&expr)).then_some(expr)
}

fn has_parameter(expr: &Expr) -> bool {
    let is_parameter = |expr: &Expr| Ok(matches!(expr, Expr::Placeholder(_)));
    expr.exists(is_parameter).unwrap_or(true)
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(Cast { expr, .. }) => is_null(expr),
        _ => false,
    }
}

fn is_string(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// An argument, or an item of it, as written.
pub(crate) fn shown(value: &Expr) -> String {
    match value {
        Expr::Literal(text, _) if is_string(&text.data_type()) && !text.is_null() => {
            format!("'{text}'")
        }
        Expr::Literal(value, _) => value.to_string(),
        other => long_text(other).map_or_else(|| other.to_string(), str::to_string),
    }
}
