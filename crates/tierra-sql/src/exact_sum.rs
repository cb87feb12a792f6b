//! The exact sum of integers: a DECIMAL(38, 0), which holds the sum of any number of BIGINTs.
//!
//! No query can name this function. The rule [`shifted_sums`](crate::rules) puts it where several sums are made of one.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use datafusion::common::{ScalarValue, internal_datafusion_err, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::NullState;

use crate::sum::Summand;

/// The type of the sum.
pub(crate) const EXACT: DataType = DataType::Decimal128(38, 0);

/// The aggregate function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExactSum(Signature);

impl Default for ExactSum {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

/// The type of the summands.
fn summands<'a>(args: &AccumulatorArgs<'a>) -> Option<&'a DataType> {
    args.expr_fields.first().map(|field| field.data_type())
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        "exact_sum"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(EXACT)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match summands(&args) {
            Some(DataType::Int32) => Ok(Box::new(Total::<Int32Type>::default())),
            Some(DataType::Int64) => Ok(Box::new(Total::<Int64Type>::default())),
            ty => internal_err!("{} of {ty:?}", self.name()),
        }
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        match summands(&args) {
            Some(DataType::Int32) => Ok(Box::new(Groups::<Int32Type>::default())),
            Some(DataType::Int64) => Ok(Box::new(Groups::<Int64Type>::default())),
            ty => internal_err!("{} of {ty:?}", self.name()),
        }
    }
}

/// The sum of all rows.
#[derive(Debug)]
struct Total<T> {
    total: i128,
    /// The number of values summed: the sum of none is NULL.
    count: u64,
    of: PhantomData<T>,
}

impl<T> Default for Total<T> {
    fn default() -> Self {
        Self {
            total: 0,
            count: 0,
            of: PhantomData,
        }
    }
}

impl<T: Summand> Total<T> {
    fn add<V: Summand>(&mut self, values: &PrimitiveArray<V>) -> Result<()> {
        let total = V::sum_and_count(values).and_then(|(sum, count)| {
            self.count += count;
            self.total.checked_add(sum)
        });
        self.total = total.ok_or_else(beyond)?;
        Ok(())
    }
}

/// So many rows that no table has them.
fn beyond() -> datafusion::error::DataFusionError {
    internal_datafusion_err!("a sum of integers needs more than 128 bits")
}

impl<T: Summand> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values[0].as_primitive::<T>())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states[0].as_primitive::<Decimal128Type>())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.count > 0).then_some(self.total);
        ScalarValue::new_primitive::<Decimal128Type>(sum, &EXACT)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of groups.
struct Groups<T> {
    totals: Vec<i128>,
    /// Which groups have a value.
    seen: NullState,
    of: PhantomData<T>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self {
            totals: Vec::new(),
            seen: NullState::new(),
            of: PhantomData,
        }
    }
}

impl<T: Summand> Groups<T> {
    fn add<V: Summand>(
        &mut self,
        values: &PrimitiveArray<V>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) {
        let Self { totals, seen, .. } = self;
        totals.resize(total_groups, 0);
        // 2^64 values fit in 128 bits.
        seen.accumulate(groups, values, filter, total_groups, |group, value| {
            totals[group] += V::wide(value);
        });
    }
}

fn decimals(totals: Vec<i128>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(Decimal128Array::new(totals.into(), nulls).with_data_type(EXACT))
}

impl<T: Summand> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.add(values[0].as_primitive::<T>(), groups, filter, total_groups);
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        let totals = states[0].as_primitive::<Decimal128Type>();
        self.add(totals, groups, None, total_groups);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        Ok(decimals(totals, self.seen.build(emit_to)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let passing = filter.map(|filter| match filter.nulls() {
            Some(known) => NullBuffer::new(filter.values() & known.inner()),
            None => NullBuffer::new(filter.values().clone()),
        });
        let nulls = NullBuffer::union(values.nulls(), passing.as_ref());
        let totals = values.values().iter().map(|value| T::wide(*value));
        Ok(vec![decimals(totals.collect(), nulls)])
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<i128>() + self.seen.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int64Array};

    fn values(array: &ArrayRef) -> Vec<Option<i128>> {
        array.as_primitive::<Decimal128Type>().iter().collect()
    }

    #[test]
    fn sums_beyond_a_bigint_are_exact_with_and_without_groups() {
        let extremes = [i64::MAX, i64::MIN, i64::MAX, i64::MAX];
        let column: ArrayRef = Arc::new(Int64Array::from_iter(
            extremes.into_iter().map(Some).chain([None]),
        ));
        let expected: i128 = extremes.into_iter().map(i128::from).sum();
        let mut total = Total::<Int64Type>::default();
        assert!(total.evaluate().unwrap().is_null());
        total.update_batch(std::slice::from_ref(&column)).unwrap();
        let states = total.state().unwrap()[0].to_array().unwrap();
        let mut merged = Total::<Int64Type>::default();
        merged.merge_batch(&[Arc::clone(&states), states]).unwrap();
        let twice = merged.evaluate().unwrap().to_array().unwrap();
        assert_eq!(values(&twice), [Some(expected)]);

        let mut groups = Groups::<Int64Type>::default();
        let of = [0, 1, 0, 0, 2];
        groups.update_batch(&[column], &of, None, 3).unwrap();
        let state = groups.state(EmitTo::All).unwrap();
        let mut merged = Groups::<Int64Type>::default();
        merged.merge_batch(&state, &[0, 0, 1], 2).unwrap();
        merged.merge_batch(&state, &[1, 1, 0], 2).unwrap();
        let sums = values(&merged.evaluate(EmitTo::All).unwrap());
        assert_eq!(sums, [Some(expected), Some(expected)]);
    }

    #[test]
    fn rows_that_a_filter_drops_are_not_in_a_state() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![
            Some(i32::MIN),
            Some(2),
            None,
            Some(4),
        ]));
        let filter = BooleanArray::from(vec![Some(true), Some(false), Some(true), None]);
        let groups = Groups::<Int32Type>::default();
        let state = groups.convert_to_state(&[Arc::clone(&column)], Some(&filter));
        let least = Some(i128::from(i32::MIN));
        assert_eq!(values(&state.unwrap()[0]), [least, None, None, None]);
        let mut groups = Groups::<Int32Type>::default();
        let of = [0, 1, 2, 0];
        groups
            .update_batch(&[column], &of, Some(&filter), 3)
            .unwrap();
        let sums = values(&groups.evaluate(EmitTo::All).unwrap());
        assert_eq!(sums, [least, None, None]);
    }
}
