//! Window functions of DataFusion with changes.
//!
//! row_number, rank, dense_rank and ntile give BIGINT, as in PostgreSQL. DataFusion's count in 64 bits without a sign, a type that
//! Tierra's columns do not have: half of the third row was 1.5, and the negative of a number was refused.
//!
//! lead and lag of integers, or of dates, give the type of a default of another kind, which DataFusion cuts. With IGNORE NULLS they
//! are computed of all rows of a partition at once: row by row, DataFusion's `lead(x, 2)` loses count at a NULL. By NULL rows they are NULL,
//! where DataFusion takes the row itself.
//!
//! first_value, last_value and nth_value with IGNORE NULLS find their row by the places of the values that are there. DataFusion counts through
//! the frame for each row: a column filled forward would take time with the square of its rows.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::functions_window::nth_value::{first_value_udwf, last_value_udwf, nth_value_udwf};
use datafusion::functions_window::ntile::ntile_udwf;
use datafusion::functions_window::rank::{dense_rank_udwf, rank_udwf};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, Volatility, WindowUDF,
    WindowUDFImpl,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::prelude::SessionContext;

/// Puts them in the place of DataFusion's.
pub(crate) fn add_to(context: &SessionContext) {
    for function in [
        row_number_udwf(),
        rank_udwf(),
        dense_rank_udwf(),
        ntile_udwf(),
    ] {
        context.register_udwf(Changed(function, Change::Signed).into());
    }
    for function in [lead_udwf(), lag_udwf()] {
        context.register_udwf(Changed(function, Change::Shifted).into());
    }
    for function in [first_value_udwf(), last_value_udwf(), nth_value_udwf()] {
        context.register_udwf(Changed(function, Change::Placed).into());
    }
}

/// A function with a change.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Changed(Arc<WindowUDF>, Change);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Change {
    /// The result has a sign.
    Signed,
    /// The default has its own type, and with IGNORE NULLS all rows of a partition are read first.
    Shifted,
    /// With IGNORE NULLS the values that are there are found once.
    Placed,
}

impl WindowUDFImpl for Changed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        static OF_ANY: LazyLock<Signature> =
            LazyLock::new(|| Signature::user_defined(Volatility::Immutable));
        match self.1 {
            Change::Signed | Change::Placed => self.0.signature(),
            Change::Shifted => &OF_ANY,
        }
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.0.expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let ignores_nulls = arguments.ignore_nulls();
        let offset = arguments.input_exprs().get(1);
        let offset = offset.and_then(|offset| offset.downcast_ref::<Literal>());
        let nth = offset.map(|nth| nth.value().cast_to(&DataType::Int64));
        let is_reversed = arguments.is_reversed();
        if self.1 == Change::Shifted && offset.is_some_and(|offset| offset.value().is_null()) {
            let ty = arguments.input_fields()[0].data_type().clone();
            return Ok(Box::new(NullEvaluator(ty)));
        }
        let inner = self.0.partition_evaluator_factory(arguments)?;
        Ok(match self.1 {
            Change::Signed => Box::new(SignedEvaluator(inner)),
            Change::Shifted if ignores_nulls => Box::new(WholeEvaluator(inner)),
            Change::Placed if ignores_nulls => Box::new(PresentEvaluator {
                nth: match (self.name(), nth) {
                    ("first_value", _) => 1,
                    ("last_value", _) => -1,
                    (_, Some(Ok(ScalarValue::Int64(Some(nth))))) if is_reversed => -nth,
                    (_, Some(Ok(ScalarValue::Int64(Some(nth))))) => nth,
                    _ => return plan_err!("the row of {} must be a number", self.name()),
                },
                present: None,
            }),
            Change::Shifted | Change::Placed => inner,
        })
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.0.field(arguments)?;
        Ok(match self.1 {
            Change::Signed => Arc::new(Field::clone(&field).with_data_type(DataType::Int64)),
            Change::Shifted | Change::Placed => field,
        })
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.0.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.1, types) {
            (Change::Signed | Change::Placed, _) => self.0.coerce_types(types),
            (Change::Shifted, [value, offset, default])
                if value.is_integer() && (default.is_floating() || default.is_decimal())
                    || matches!(
                        (value, default),
                        (DataType::Date32, DataType::Timestamp(..))
                    ) =>
            {
                let both = type_union_resolution(&[value.clone(), default.clone()]);
                let both = both.unwrap_or_else(|| default.clone());
                Ok(vec![both.clone(), offset.clone(), both])
            }
            (Change::Shifted, [_] | [_, _] | [_, _, _]) => Ok(types.to_vec()),
            (Change::Shifted, _) => plan_err!(
                "{} takes a value, an offset and a default, of which the last two may be left out",
                self.name()
            ),
        }
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.0.reverse_expr() {
            ReversedUDWF::Reversed(other) => {
                ReversedUDWF::Reversed(Arc::new(Changed(other, self.1).into()))
            }
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.0.inner().limit_effect(arguments)
    }
}

#[derive(Debug)]
struct SignedEvaluator(Box<dyn PartitionEvaluator>);

fn signed(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(values, &DataType::Int64)?)
}

impl PartitionEvaluator for SignedEvaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        signed(&self.0.evaluate_all(values, rows)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)?.cast_to(&DataType::Int64)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        signed(&self.0.evaluate_all_with_rank(rows, ranks)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}

#[derive(Debug)]
struct NullEvaluator(DataType);

impl PartitionEvaluator for NullEvaluator {
    fn evaluate_all(&mut self, _values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(new_null_array(&self.0, rows))
    }
}

#[derive(Debug)]
struct WholeEvaluator(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for WholeEvaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, rows)
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }
}

/// The value at a place among those of the frame that are not NULL.
#[derive(Debug)]
struct PresentEvaluator {
    /// From 1, or from -1 from the frame's end. There is no value at 0.
    nth: i64,
    /// The rows of the partition with a value.
    present: Option<Vec<usize>>,
}

impl PartitionEvaluator for PresentEvaluator {
    /// `values` are those of the whole partition, the same in each call.
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let values = &values[0];
        let present = self
            .present
            .get_or_insert_with(|| match values.logical_nulls() {
                Some(nulls) => nulls.valid_indices().collect(),
                None => (0..values.len()).collect(),
            });
        let low = present.partition_point(|row| *row < range.start);
        let high = present.partition_point(|row| *row < range.end);
        let distance = usize::try_from(self.nth.unsigned_abs()).unwrap_or(usize::MAX);
        let place = match self.nth {
            0 => None,
            1.. => low.checked_add(distance - 1),
            _ => high.checked_sub(distance),
        };
        match place.filter(|place| (low..high).contains(place)) {
            Some(place) => ScalarValue::try_from_array(values, present[place]),
            None => ScalarValue::try_from(values.data_type()),
        }
    }

    /// Rows that have been computed would be taken out of `values`.
    fn supports_bounded_execution(&self) -> bool {
        false
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn the_nth_value_of_a_frame_is_found_among_those_that_are_there() {
        let values: Vec<Option<i64>> = (0..40_i64)
            .map(|row| (row * row % 7 > 2 && row % 11 > 3).then_some(row))
            .collect();
        let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        for nth in [1, 2, 5, 39, 40, i64::MAX, 0, -1, -2, -5, -40, i64::MIN] {
            let mut evaluator = PresentEvaluator { nth, present: None };
            for start in 0..=values.len() {
                for end in start..=values.len() {
                    let there: Vec<i64> = values[start..end].iter().flatten().copied().collect();
                    let expected = match nth {
                        0 => None,
                        1.. => there.get((nth - 1) as usize),
                        _ => there.iter().rev().nth((nth + 1).unsigned_abs() as usize),
                    };
                    let found = evaluator.evaluate(&[Arc::clone(&array)], &(start..end));
                    let expected = ScalarValue::Int64(expected.copied());
                    assert_eq!(found.unwrap(), expected, "{nth} of {start}..{end}");
                }
            }
        }
    }
}
