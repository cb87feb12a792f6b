//! Tables that the database does not store: files and series. Their values get the form of stored values: one zero, one
//! NaN, and timestamps in microseconds.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, ScalarUDF, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::{rules, time};

/// A table that the database does not store.
#[derive(Debug)]
struct Foreign {
    table: Arc<dyn TableProvider>,
    schema: SchemaRef,
}

/// `table`, with its values in the form of stored values.
pub(crate) fn settled(table: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
    let schema = table.schema();
    if !schema
        .fields()
        .iter()
        .any(|field| may_differ(field.data_type()))
    {
        return table;
    }
    let fields = schema.fields().iter().map(|field| {
        let ty = time::settled(field.data_type());
        let ty = ty.unwrap_or_else(|| field.data_type().clone());
        Field::clone(field).with_data_type(ty)
    });
    let fields: Vec<Field> = fields.collect();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    Arc::new(Foreign {
        table,
        schema: Arc::new(schema),
    })
}

/// Whether values of type `ty` may differ from the stored form.
fn may_differ(ty: &DataType) -> bool {
    rules::is_double(ty) || time::settled(ty).is_some()
}

/// The function that converts values of type `ty` to the stored form; `None` if they have it.
fn function(ty: &DataType) -> Option<ScalarUDF> {
    match ty {
        ty if rules::is_double(ty) => Some(rules::one_zero()),
        DataType::Timestamp(_, _) => Some(time::microseconds()),
        _ => None,
    }
}

#[async_trait]
impl TableProvider for Foreign {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = self.table.scan(state, projection, filters, limit).await?;
        let schema = scan.schema();
        if !schema
            .fields()
            .iter()
            .any(|field| may_differ(field.data_type()))
        {
            return Ok(scan);
        }
        let columns = schema.fields().iter().enumerate().map(|(place, field)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), place));
            let ty = field.data_type();
            let settled: Arc<dyn PhysicalExpr> = match (may_differ(ty), function(ty)) {
                (false, _) => column,
                (true, Some(function)) => {
                    let config = Arc::clone(state.config().options());
                    let call = ScalarFunctionExpr::try_new(
                        Arc::new(function),
                        vec![column],
                        &schema,
                        config,
                    )?;
                    Arc::new(call)
                }
                (true, None) => {
                    let to = time::settled(ty).unwrap_or_else(|| ty.clone());
                    Arc::new(CastExpr::new(column, to, None))
                }
            };
            Ok((settled, field.name().clone()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ProjectionExec::try_new(columns, scan)?))
    }

    /// A filter on a converted column must see the converted values, so the table does not evaluate it.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let of_table = self.table.supports_filters_pushdown(filters)?;
        let schema = self.table.schema();
        let differs = |filter: &Expr| {
            filter.column_refs().iter().any(|column| {
                let field = schema.field_with_name(&column.name);
                field.is_ok_and(|field| may_differ(field.data_type()))
            })
        };
        let pushed = of_table.into_iter().zip(filters);
        let pushed = pushed.map(|(pushed, filter)| match differs(filter) {
            true => TableProviderFilterPushDown::Unsupported,
            false => pushed,
        });
        Ok(pushed.collect())
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.insert_into(state, input, insert_op).await
    }
}
