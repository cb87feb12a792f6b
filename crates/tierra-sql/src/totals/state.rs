//! What an aggregate wants of its column, and its state made of that.
//!
//! Invariant: a state has the types that the aggregate's own accumulator would give it, and the same value. A mean of integers is the
//! one exception: their sum is exact, and rounded once.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use tierra_column::{LogicalType, Totals, Value, WantedTotals};

use crate::exact_sum::ExactSum;
use crate::extreme::{self, End};
use crate::sum::{self, CheckedSum};
use crate::values::scalar;

/// An aggregate whose state comes from totals.
#[derive(Clone, Debug)]
pub(super) struct TotalsState {
    /// The text of the aggregate.
    name: String,
    kind: Kind,
    /// The types of its state.
    types: Vec<DataType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Rows.
    Rows,
    /// Rows with a value. This, and the following, is by the place of a column in the scan's output.
    Values(usize),
    Sum(usize),
    Mean(usize),
    Extreme(End, usize, LogicalType),
}

impl TotalsState {
    /// Of an aggregate over columns of these types; `None` if totals do not tell it.
    pub(super) fn of(
        aggregate: &AggregateFunctionExpr,
        columns: &[LogicalType],
    ) -> Result<Option<TotalsState>> {
        if aggregate.is_distinct() || !aggregate.order_bys().is_empty() {
            return Ok(None);
        }
        let arguments = aggregate.expressions();
        let [argument] = arguments.as_slice() else {
            return Ok(None);
        };
        let Some(kind) = Kind::of(aggregate.fun(), argument, columns) else {
            return Ok(None);
        };
        let fields = aggregate.state_fields()?;
        let types: Vec<_> = fields.iter().map(|it| it.data_type().clone()).collect();
        let state = TotalsState {
            name: aggregate.name().to_owned(),
            kind,
            types,
        };
        Ok(state.has_its_types(columns).then_some(state))
    }

    /// Whether the totals that it needs of its column exist, and become values of the state's types.
    fn has_its_types(&self, columns: &[LogicalType]) -> bool {
        let Some((place, wanted)) = self.wanted() else {
            return self.types == [DataType::Int64];
        };
        let ty = columns[place];
        let holds_sum = |state: &DataType| match (state, ty) {
            (DataType::Int64, LogicalType::Integer | LogicalType::BigInt) => true,
            (DataType::Decimal128(_, 0), LogicalType::Integer | LogicalType::BigInt) => true,
            (DataType::Decimal128(_, to), LogicalType::Decimal { scale, .. }) => {
                i16::from(*to) == i16::from(scale)
            }
            _ => false,
        };
        let is_integer = matches!(ty, LogicalType::Integer | LogicalType::BigInt);
        let fit = match (self.kind, self.types.as_slice()) {
            (Kind::Values(_), [DataType::Int64]) => true,
            (Kind::Sum(_), [sum]) => holds_sum(sum),
            (Kind::Mean(_), [DataType::UInt64, DataType::Float64]) => is_integer,
            (Kind::Mean(_), [DataType::UInt64, sum]) => !is_integer && holds_sum(sum),
            (Kind::Extreme(..), [value]) => *value == ty.arrow(),
            _ => false,
        };
        fit && wanted.of_type(ty)
    }

    /// What is wanted of which column; `None` if the number of rows is enough.
    pub(super) fn wanted(&self) -> Option<(usize, WantedTotals)> {
        let mut wanted = WantedTotals::default();
        let place = match self.kind {
            Kind::Rows => return None,
            Kind::Values(place) => place,
            Kind::Sum(place) | Kind::Mean(place) => {
                wanted.sum = true;
                place
            }
            Kind::Extreme(_, place, _) => {
                wanted.extremes = true;
                place
            }
        };
        Some((place, wanted))
    }

    /// The text of the aggregate.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How many values the state has.
    pub(super) fn len(&self) -> usize {
        self.types.len()
    }

    /// The state's value number `part`, of so many rows and of the totals of a column by its place.
    pub(super) fn value<'t>(
        &self,
        part: usize,
        rows: u64,
        column: impl Fn(usize) -> &'t Totals,
    ) -> Result<ScalarValue> {
        Ok(match self.kind {
            Kind::Rows => count(rows),
            Kind::Values(place) => count(column(place).count),
            // As the accumulators of groups: one that merges a number that is 0 and a sum that is NULL takes the sum for known.
            Kind::Mean(place) if part == 0 => {
                let values = column(place).count;
                ScalarValue::UInt64((values > 0).then_some(values))
            }
            Kind::Sum(place) | Kind::Mean(place) => self.sum(column(place), &self.types[part])?,
            Kind::Extreme(end, place, ty) => {
                let ordinal = column(place).extremes().map(|(least, greatest)| match end {
                    End::Least => least,
                    End::Greatest => greatest,
                });
                match ordinal.and_then(|ordinal| scalar(ty, &Value::Ordinal(ordinal))) {
                    Some(value) => value,
                    None => ScalarValue::try_from(&self.types[0])?,
                }
            }
        })
    }

    /// A column's sum as a value of this type; NULL without a value.
    fn sum(&self, totals: &Totals, ty: &DataType) -> Result<ScalarValue> {
        let sum = (totals.count > 0).then_some(totals.sum);
        match ty {
            DataType::Int64 => match sum.map(i64::try_from).transpose() {
                Ok(sum) => Ok(ScalarValue::Int64(sum)),
                Err(_) => sum::overflow(&self.name, ty),
            },
            // 2^64 values of 18 digits have no more than 38.
            DataType::Decimal128(precision, scale) => {
                debug_assert!(*precision <= DECIMAL128_MAX_PRECISION);
                Ok(ScalarValue::Decimal128(sum, *precision, *scale))
            }
            DataType::Float64 => Ok(ScalarValue::Float64(sum.map(|sum| sum as f64))),
            _ => internal_err!("{} as {ty}", self.name),
        }
    }
}

fn count(rows: u64) -> ScalarValue {
    ScalarValue::Int64(i64::try_from(rows).ok())
}

impl Kind {
    fn of(
        function: &AggregateUDF,
        argument: &Arc<dyn PhysicalExpr>,
        columns: &[LogicalType],
    ) -> Option<Kind> {
        let inner = function.inner();
        let place = |argument: &Arc<dyn PhysicalExpr>| {
            let column = argument.downcast_ref::<Column>()?;
            (column.index() < columns.len()).then(|| column.index())
        };
        if inner.downcast_ref::<Count>().is_some() {
            return match argument.downcast_ref::<Literal>() {
                Some(literal) => (!literal.value().is_null()).then_some(Kind::Rows),
                None => place(argument).map(Kind::Values),
            };
        }
        if let Some(end) = extreme::end(function) {
            let place = place(argument)?;
            return Some(Kind::Extreme(end, place, columns[place]));
        }
        let is_mean = inner.downcast_ref::<Avg>().is_some();
        let is_sum = inner.downcast_ref::<CheckedSum>().is_some()
            || inner.downcast_ref::<ExactSum>().is_some();
        if !is_mean && !is_sum {
            return None;
        }
        // Integers are widened before they are added up, which changes no sum. Their mean is a DOUBLE.
        let Some(cast) = argument.downcast_ref::<CastExpr>() else {
            let kind = if is_mean { Kind::Mean } else { Kind::Sum };
            return place(argument).map(kind);
        };
        let place = place(cast.expr())?;
        match (columns[place], cast.cast_type()) {
            (LogicalType::Integer, DataType::Int64) if is_sum => Some(Kind::Sum(place)),
            (LogicalType::Integer | LogicalType::BigInt, DataType::Float64) if is_mean => {
                Some(Kind::Mean(place))
            }
            _ => None,
        }
    }
}
