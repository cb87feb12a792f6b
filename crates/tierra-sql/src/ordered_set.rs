//! `percentile_disc(0.5) WITHIN GROUP (ORDER BY x)` and `mode() WITHIN GROUP (ORDER BY x)`: one of the values, which are sorted when all
//! are known. Also `quantile_disc(x, 0.5)` and `mode(x)`, as DuckDB writes them.
//!
//! NULLs do not count, and of none the result is NULL. A percentile is the first value up to which at least that share of them lies. Of
//! values that are as frequent, the first in the order is the mode.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::{SortOptions, partition, sort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_plan::expressions::Literal;

/// The functions.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    let percentile = OrderedSet {
        name: "percentile_disc",
        aliases: vec!["quantile_disc".to_owned()],
        signature: Signature::any(2, Volatility::Immutable),
    };
    let mode = OrderedSet {
        name: "mode",
        aliases: Vec::new(),
        signature: Signature::any(1, Volatility::Immutable),
    };
    [percentile, mode].map(AggregateUDF::from)
}

/// An aggregate function that is one of its values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

/// Which of the values it is.
#[derive(Clone, Copy, Debug)]
struct Pick {
    order: SortOptions,
    /// The share of the values that lie before it or are it; `None` is the most frequent.
    share: Option<f64>,
}

impl OrderedSet {
    /// What is picked, and the function that collects the values with its arguments.
    fn pick(&self, arguments: &AccumulatorArgs<'_>) -> Result<Pick> {
        if arguments.is_distinct {
            return not_impl_err!("{} of DISTINCT values", self.name);
        }
        let order = arguments.order_bys.first().map(|key| key.options);
        let share = match arguments.exprs.get(1) {
            None => None,
            Some(share) => Some(share_of(share.downcast_ref::<Literal>(), self.name)?),
        };
        Ok(Pick {
            order: order.unwrap_or_default(),
            share,
        })
    }
}

fn share_of(literal: Option<&Literal>, name: &str) -> Result<f64> {
    let Some(literal) = literal else {
        return not_impl_err!("{name} of a share that is not constant");
    };
    match literal.value().cast_to(&DataType::Float64)? {
        ScalarValue::Float64(Some(share)) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => plan_err!("{name} takes a share from 0 to 1, not {}", literal.value()),
    }
}

/// The arguments of the function that collects all values but NULLs.
fn collecting<'a>(arguments: &AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
    let value = &arguments.expr_fields[0];
    let list = DataType::new_list(value.data_type().clone(), true);
    AccumulatorArgs {
        return_field: Arc::new(Field::new("values", list, true)),
        schema: arguments.schema,
        ignore_nulls: true,
        order_bys: &[],
        is_reversed: false,
        name: arguments.name,
        is_distinct: false,
        exprs: &arguments.exprs[..1],
        expr_fields: &arguments.expr_fields[..1],
    }
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        array_agg_udaf().state_fields(StateFieldsArgs {
            ordering_fields: &[],
            ..arguments
        })
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Picked {
            pick: self.pick(&arguments)?,
            values: array_agg_udaf().accumulator(collecting(&arguments))?,
        }))
    }

    fn groups_accumulator_supported(&self, _arguments: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Picked {
            pick: self.pick(&arguments)?,
            values: array_agg_udaf().create_groups_accumulator(collecting(&arguments))?,
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

impl Pick {
    /// The place of the value; `None` if there is none.
    fn place(&self, values: &dyn Array) -> Result<Option<u64>> {
        if values.is_empty() {
            return Ok(None);
        }
        let sorted = sort_to_indices(values, Some(self.order), None)?;
        let at = match self.share {
            Some(share) => {
                let before = (share * values.len() as f64).ceil() as usize;
                before.clamp(1, values.len()) - 1
            }
            None => {
                let equal = partition(&[take(values, &sorted, None)?])?.ranges();
                // Of the longest the first.
                let longest = equal.into_iter().rev().max_by_key(|equal| equal.len());
                longest.map_or(0, |equal| equal.start)
            }
        };
        Ok(Some(u64::from(sorted.value(at))))
    }

    /// The value of each list.
    fn values(&self, lists: &dyn Array) -> Result<ArrayRef> {
        let Some(lists) = lists.as_list_opt::<i32>() else {
            return exec_err!("the values of a group are no list");
        };
        let starts = lists.value_offsets();
        let places = (0..lists.len()).map(|list| {
            let place = self.place(&lists.value(list))?;
            Ok(place.map(|place| starts[list] as u64 + place))
        });
        let places = places.collect::<Result<UInt64Array>>()?;
        Ok(take(lists.values(), &places, None)?)
    }
}

/// One of the values that another accumulator collects.
#[derive(Debug)]
struct Picked<A> {
    pick: Pick,
    values: A,
}

impl Accumulator for Picked<Box<dyn Accumulator>> {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(&columns[..1])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let list = self.values.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&self.pick.values(&list)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}

impl GroupsAccumulator for Picked<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        passing: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.values
            .update_batch(&columns[..1], groups, passing, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.values.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let lists = self.values.evaluate(emit_to)?;
        self.pick.values(&lists)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.values.state(emit_to)
    }

    fn convert_to_state(
        &self,
        columns: &[ArrayRef],
        passing: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.values.convert_to_state(&columns[..1], passing)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}
