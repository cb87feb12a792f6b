//! COUNT(DISTINCT x) of groups: the pairs of a group and a value are kept in one table, as GROUP BY keeps its keys.
//!
//! DataFusion keeps a table for each group, which is 2 MiB once it holds a text of more than twelve bytes: 10,000 groups took 20 GiB.
//! No query can name this function. The rule [`group_states`](crate::rules) puts it in the place of COUNT.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt64Array, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{filter, not, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

/// The aggregate function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct DistinctCount(Signature);

impl Default for DistinctCount {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl AggregateUDFImpl for DistinctCount {
    fn name(&self) -> &str {
        "distinct_count"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let is_distinct = true;
        count_udaf().state_fields(StateFieldsArgs {
            is_distinct,
            ..args
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let is_distinct = true;
        count_udaf().accumulator(AccumulatorArgs {
            is_distinct,
            ..args
        })
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(args.expr_fields[0].data_type())?))
    }
}

/// The distinct values of groups.
struct Groups {
    /// Pairs of a group and a value of it that is not NULL.
    pairs: Box<dyn GroupValues>,
    schema: SchemaRef,
    /// The group of each pair.
    owners: Vec<usize>,
    /// The number of groups.
    total: usize,
    /// The pair of each row of a batch.
    places: Vec<usize>,
}

impl Groups {
    fn new(ty: &DataType) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("group", DataType::UInt64, false),
            Field::new("value", ty.clone(), true),
        ]));
        Ok(Self {
            pairs: new_group_values(Arc::clone(&schema), &GroupOrdering::None)?,
            schema,
            owners: Vec::new(),
            total: 0,
            places: Vec::new(),
        })
    }

    /// Adds pairs without NULLs.
    fn add(&mut self, groups: UInt64Array, values: ArrayRef) -> Result<()> {
        let groups = Arc::new(groups);
        let columns = [Arc::clone(&groups) as ArrayRef, values];
        self.pairs.intern(&columns, &mut self.places)?;
        self.owners.resize(self.pairs.len(), 0);
        for (place, group) in self.places.iter().zip(groups.values()) {
            self.owners[*place] = *group as usize;
        }
        Ok(())
    }

    fn lists(&self, offsets: OffsetBuffer<i32>, values: ArrayRef) -> Result<ListArray> {
        let item = Field::new_list_field(self.schema.field(1).data_type().clone(), true);
        Ok(ListArray::try_new(Arc::new(item), offsets, values, None)?)
    }

    /// Takes the first groups out: the number of values of each, and the values in the order of `owners`. The groups that stay are
    /// numbered from zero.
    fn take(&mut self, emit_to: EmitTo) -> Result<Taken> {
        let count = match emit_to {
            EmitTo::All => self.total,
            EmitTo::First(count) => count,
        };
        let mut owners = std::mem::take(&mut self.owners);
        let mut values = match owners.is_empty() {
            true => new_empty_array(self.schema.field(1).data_type()),
            false => self.pairs.emit(EmitTo::All)?.swap_remove(1),
        };
        self.pairs.clear_shrink(0);
        let stay = owners.iter().any(|owner| *owner >= count);
        if stay {
            let stays: BooleanArray = owners.iter().map(|owner| Some(*owner >= count)).collect();
            let kept = owners.iter().filter(|owner| **owner >= count);
            let kept: UInt64Array = kept.map(|owner| (owner - count) as u64).collect();
            self.add(kept, filter(&values, &stays)?)?;
            values = filter(&values, &not(&stays)?)?;
            owners.retain(|owner| *owner < count);
        }
        self.total -= count;
        let mut counts = vec![0; count];
        for owner in &owners {
            counts[*owner] += 1;
        }
        Ok(Taken {
            owners,
            counts,
            values,
        })
    }
}

/// Which values are counted: those that are not NULL, of rows that pass the filter. `None` is all.
fn counted(values: &dyn Array, passing: Option<&BooleanArray>) -> Option<BooleanArray> {
    let known = values
        .logical_nulls()
        .filter(|nulls| nulls.null_count() > 0);
    let known = known.map(|nulls| nulls.into_inner());
    let passing = passing.map(|passing| match passing.nulls() {
        Some(known) => passing.values() & known.inner(),
        None => passing.values().clone(),
    });
    let both = match (known, passing) {
        (Some(known), Some(passing)) => &known & &passing,
        (one, other) => one.or(other)?,
    };
    Some(BooleanArray::new(both, None))
}

/// What was counted of groups.
struct Taken {
    /// The group of each value.
    owners: Vec<usize>,
    /// The number of values of each group.
    counts: Vec<usize>,
    values: ArrayRef,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        passing: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.total = total;
        let groups: UInt64Array = groups.iter().map(|group| *group as u64).collect();
        match counted(&values[0], passing) {
            None => self.add(groups, Arc::clone(&values[0])),
            Some(counted) => {
                let groups = filter(&groups, &counted)?;
                self.add(groups.as_primitive().clone(), filter(&values[0], &counted)?)
            }
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.total = total;
        let lists = states[0].as_list::<i32>();
        let offsets = lists.value_offsets();
        let first = offsets[0] as usize;
        let count = offsets[lists.len()] as usize - first;
        let owners = groups.iter().zip(lists.offsets().lengths());
        let owners: UInt64Array = owners
            .flat_map(|(group, count)| std::iter::repeat_n(*group as u64, count))
            .collect();
        self.add(owners, lists.values().slice(first, count))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = self.take(emit_to)?.counts.into_iter();
        Ok(Arc::new(Int64Array::from_iter_values(
            counts.map(|count| count as i64),
        )))
    }

    /// The values of each group as a list, as COUNT(DISTINCT ..) has them.
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = self.take(emit_to)?;
        if i32::try_from(taken.owners.len()).is_err() {
            return exec_err!(
                "COUNT(DISTINCT ..) of more than {} values at once",
                i32::MAX
            );
        }
        let offsets = OffsetBuffer::from_lengths(taken.counts.iter().copied());
        let mut ends: Vec<usize> = offsets[..taken.counts.len()]
            .iter()
            .map(|start| *start as usize)
            .collect();
        let mut order = vec![0; taken.owners.len()];
        for (place, owner) in taken.owners.iter().enumerate() {
            order[ends[*owner]] = place as u64;
            ends[*owner] += 1;
        }
        let values = take(&taken.values, &UInt64Array::from(order), None)?;
        Ok(vec![Arc::new(self.lists(offsets, values)?)])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        passing: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let Some(counted) = counted(&values[0], passing) else {
            let offsets = OffsetBuffer::from_repeated_length(1, values[0].len());
            return Ok(vec![Arc::new(self.lists(offsets, Arc::clone(&values[0]))?)]);
        };
        let offsets = OffsetBuffer::from_lengths(counted.values().iter().map(usize::from));
        let values = filter(&values[0], &counted)?;
        Ok(vec![Arc::new(self.lists(offsets, values)?)])
    }

    fn size(&self) -> usize {
        let kept = (self.owners.capacity() + self.places.capacity()) * size_of::<usize>();
        self.pairs.size() + kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;

    const TEXTS: [Option<&str>; 6] = [
        Some("a text of many bytes"),
        Some("b"),
        None,
        Some("a text of many bytes"),
        Some("another of many bytes"),
        Some("b"),
    ];

    fn texts() -> ArrayRef {
        Arc::new(StringViewArray::from_iter(TEXTS))
    }

    fn groups() -> Groups {
        Groups::new(&DataType::Utf8View).unwrap()
    }

    fn counts(groups: &mut Groups, emit_to: EmitTo) -> Vec<i64> {
        let counts = groups.evaluate(emit_to).unwrap();
        counts
            .as_primitive::<arrow::datatypes::Int64Type>()
            .values()
            .to_vec()
    }

    #[test]
    fn each_group_counts_its_values_once() {
        let mut all = groups();
        let of = [0, 0, 0, 0, 0, 2];
        all.update_batch(&[texts()], &of, None, 4).unwrap();
        assert_eq!(counts(&mut all, EmitTo::All), [3, 0, 1, 0]);
        // Nothing is left of what was taken.
        all.update_batch(&[texts()], &of, None, 3).unwrap();
        assert_eq!(counts(&mut all, EmitTo::All), [3, 0, 1]);
        let passing = BooleanArray::from(vec![
            Some(true),
            Some(true),
            Some(true),
            Some(false),
            None,
            Some(false),
        ]);
        all.update_batch(&[texts()], &of, Some(&passing), 3)
            .unwrap();
        assert_eq!(counts(&mut all, EmitTo::All), [2, 0, 0]);
    }

    #[test]
    fn groups_that_stay_are_numbered_anew() {
        let mut some = groups();
        let of = [0, 1, 1, 1, 2, 2];
        some.update_batch(&[texts()], &of, None, 3).unwrap();
        assert_eq!(counts(&mut some, EmitTo::First(1)), [1]);
        some.update_batch(&[texts()], &[0, 0, 1, 1, 1, 2], None, 3)
            .unwrap();
        assert_eq!(counts(&mut some, EmitTo::First(2)), [2, 3]);
        assert_eq!(counts(&mut some, EmitTo::All), [1]);
        assert_eq!(counts(&mut some, EmitTo::All), [0_i64; 0]);
    }

    #[test]
    fn states_are_merged() {
        let of = [1, 1, 1, 0, 0, 1];
        let mut one = groups();
        one.update_batch(&[texts()], &of, None, 2).unwrap();
        let state = one.state(EmitTo::All).unwrap();
        let lengths: Vec<usize> = state[0].as_list::<i32>().offsets().lengths().collect();
        assert_eq!(lengths, [2, 2]);
        let rows = groups().convert_to_state(&[texts()], None).unwrap();
        let passing = BooleanArray::from(vec![false, true, true, false, false, true]);
        let few = groups().convert_to_state(&[texts()], Some(&passing));
        let mut merged = groups();
        merged.merge_batch(&state, &[1, 0], 2).unwrap();
        assert_eq!(counts(&mut merged, EmitTo::All), [2, 2]);
        merged.merge_batch(&rows, &of, 2).unwrap();
        merged
            .merge_batch(&[state[0].slice(1, 1)], &[0], 3)
            .unwrap();
        merged.merge_batch(&few.unwrap(), &[2; 6], 3).unwrap();
        assert_eq!(counts(&mut merged, EmitTo::All), [3, 2, 1]);
    }
}
