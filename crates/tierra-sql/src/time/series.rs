//! `generate_series` and `range` in FROM take timestamps in microseconds, and steps that are texts. DataFusion's take only nanoseconds,
//! and intervals.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::{TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

use crate::{foreign, moments};

/// One of the two functions.
#[derive(Debug)]
pub(super) struct Series {
    of_nanoseconds: Arc<TableFunction>,
}

impl Series {
    pub(super) fn of(of_nanoseconds: Arc<TableFunction>) -> Self {
        Self { of_nanoseconds }
    }
}

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let exprs = args.exprs().iter().map(|expr| match expr {
            Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), zone), metadata) => {
                let nanos = micros.checked_mul(1_000).ok_or_else(|| {
                    plan_datafusion_err!(
                        "{} of timestamps begins after 1677 and ends before 2262",
                        self.of_nanoseconds.name()
                    )
                })?;
                let nanos = ScalarValue::TimestampNanosecond(Some(nanos), zone.clone());
                Ok(Expr::Literal(nanos, metadata.clone()))
            }
            Expr::Literal(ScalarValue::TimestampMicrosecond(None, zone), metadata) => {
                let nanos = ScalarValue::TimestampNanosecond(None, zone.clone());
                Ok(Expr::Literal(nanos, metadata.clone()))
            }
            other => Ok(other.clone()),
        });
        let mut exprs = exprs.collect::<Result<Vec<_>>>()?;
        if let [Expr::Literal(first, _), _, Expr::Literal(step, _)] = exprs.as_mut_slice()
            && matches!(
                first.data_type(),
                DataType::Timestamp(_, _) | DataType::Date32
            )
            && let Some(Some(text)) = step.try_as_str()
        {
            let interval = moments::interval(text);
            let interval =
                interval.ok_or_else(|| plan_datafusion_err!("'{text}' is no INTERVAL"))?;
            *step = ScalarValue::IntervalMonthDayNano(Some(interval));
        }
        let args = TableFunctionArgs::new(&exprs, args.session());
        let series = self.of_nanoseconds.create_table_provider_with_args(args)?;
        Ok(foreign::settled(series))
    }
}
