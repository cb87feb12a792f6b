//! SUM with an error where DataFusion's wraps around.
//!
//! BIGINT sums use 128 bits and are checked at the end of each thread's part. In groups they use 64 bits and a flag that any
//! overflow sets. So a sum with an overflow in a part is an error even if the parts would cancel out. DECIMAL sums of 38
//! digits are checked in the same way. Narrower ones cannot overflow, because SUM widens them by ten digits. DataFusion
//! computes these and DOUBLE sums.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, FieldRef, Int32Type, Int64Type,
};
use datafusion::common::{ScalarValue, exec_err, internal_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use tierra_column::bits::Kernels;

/// The least number with more digits than a DECIMAL.
const DECIMAL_LIMIT: u128 = 10_u128.pow(DECIMAL128_MAX_PRECISION as u32);
/// Rows whose halves can be summed in 64 bits each.
const SAFE_ROWS: usize = 1 << 30;

/// The aggregate function.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CheckedSum {
    unchecked: Sum,
}

/// The check that a sum needs.
enum Check {
    Integer,
    Decimal,
    Nothing,
}

impl Check {
    fn of(args: &AccumulatorArgs<'_>) -> Self {
        match args.return_field.data_type() {
            DataType::Int64 => Self::Integer,
            DataType::Decimal128(precision, _) if *precision == DECIMAL128_MAX_PRECISION => {
                Self::Decimal
            }
            _ => Self::Nothing,
        }
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.unchecked.name()
    }

    fn signature(&self) -> &Signature {
        self.unchecked.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.unchecked.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let total: Box<dyn Accumulator> = match Check::of(&args) {
            Check::Integer => Box::new(Total::<Int64Type>::new(&args)),
            Check::Decimal => Box::new(Total::<Decimal128Type>::new(&args)),
            Check::Nothing => return self.unchecked.accumulator(args),
        };
        if !args.is_distinct {
            return Ok(total);
        }
        let values = self.unchecked.accumulator(args)?;
        Ok(Box::new(DistinctTotal { values, total }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match Check::of(&args) {
            Check::Integer | Check::Decimal if !args.is_distinct => self.accumulator(args),
            _ => self.unchecked.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.unchecked.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.unchecked.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let ty = args.return_field.data_type();
        match Check::of(&args) {
            Check::Integer => Ok(Box::new(CheckedGroups::new::<Int64Type>(args.name, ty))),
            Check::Decimal => Ok(Box::new(CheckedGroups::new::<Decimal128Type>(
                args.name, ty,
            ))),
            Check::Nothing => self.unchecked.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.unchecked.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.unchecked.order_sensitivity()
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.unchecked.set_monotonicity(ty)
    }
}

/// The error of a sum that does not fit its type.
pub(crate) fn overflow<T>(name: &str, ty: &DataType) -> Result<T> {
    match ty {
        DataType::Int64 => {
            exec_err!("BIGINT overflow in {name}: sum CAST(.. AS DECIMAL(38, 0)) instead")
        }
        _ => exec_err!(
            "DECIMAL overflow in {name}: it has more than {DECIMAL128_MAX_PRECISION} digits"
        ),
    }
}

/// Values summed in 128 bits.
pub(crate) trait Summand:
    ArrowPrimitiveType + std::fmt::Debug + Send + Sync + Sized
{
    /// The sum of `values`; `None` if it needs more bits.
    fn sum(values: &[Self::Native]) -> Option<i128>;

    fn wide(value: Self::Native) -> i128;

    /// The sum of the values that are not NULL, and their number.
    fn sum_and_count(values: &PrimitiveArray<Self>) -> Option<(i128, u64)> {
        let count = (values.len() - values.null_count()) as u64;
        let sum = if values.null_count() == 0 {
            Self::sum(values.values())
        } else {
            let present = values.iter().flatten();
            present
                .map(Self::wide)
                .try_fold(0_i128, |total, value| total.checked_add(value))
        };
        Some((sum?, count))
    }
}

/// Values with sums of their own type.
trait Narrow: Summand {
    /// The sum as a value; `None` if it does not fit.
    fn narrow(total: i128) -> Option<Self::Native>;
}

impl Summand for Int32Type {
    fn sum(values: &[i32]) -> Option<i128> {
        let parts = values.chunks(SAFE_ROWS).map(|part| {
            let part = || part.iter().map(|value| i64::from(*value)).sum::<i64>();
            i128::from(Kernels::best().compiled(part))
        });
        Some(parts.sum())
    }

    fn wide(value: i32) -> i128 {
        i128::from(value)
    }
}

impl Summand for Int64Type {
    /// The halves are summed separately, without branches and 128-bit additions.
    fn sum(values: &[i64]) -> Option<i128> {
        let halves = |part: &[i64]| {
            let (mut low, mut high) = (0_u64, 0_i64);
            for value in part {
                low += u64::from(*value as u32);
                high += value >> 32;
            }
            (i128::from(high) << 32) + i128::from(low)
        };
        let parts = values.chunks(SAFE_ROWS);
        Some(
            parts
                .map(|part| Kernels::best().compiled(|| halves(part)))
                .sum(),
        )
    }

    fn wide(value: i64) -> i128 {
        i128::from(value)
    }
}

impl Narrow for Int64Type {
    fn narrow(total: i128) -> Option<i64> {
        i64::try_from(total).ok()
    }
}

impl Summand for Decimal128Type {
    fn sum(values: &[i128]) -> Option<i128> {
        let (mut total, mut overflowed) = (0_i128, false);
        for value in values {
            let (sum, overflow) = total.overflowing_add(*value);
            total = sum;
            overflowed |= overflow;
        }
        (!overflowed).then_some(total)
    }

    fn wide(value: i128) -> i128 {
        value
    }
}

impl Narrow for Decimal128Type {
    fn narrow(total: i128) -> Option<i128> {
        (total.unsigned_abs() < DECIMAL_LIMIT).then_some(total)
    }
}

/// One sum, of all rows or of a moving window.
#[derive(Debug)]
struct Total<T: Narrow> {
    /// The text of the aggregate, for messages.
    name: String,
    ty: DataType,
    total: i128,
    /// The number of values summed: the sum of none is NULL.
    count: u64,
    of: std::marker::PhantomData<T>,
}

impl<T: Narrow> Total<T> {
    fn new(args: &AccumulatorArgs<'_>) -> Self {
        Self {
            name: args.name.to_string(),
            ty: args.return_field.data_type().clone(),
            total: 0,
            count: 0,
            of: std::marker::PhantomData,
        }
    }

    /// The sum and the number of the values that are not NULL.
    fn sum(&self, values: &[ArrayRef]) -> Result<(i128, u64)> {
        match T::sum_and_count(values[0].as_primitive()) {
            Some(sum) => Ok(sum),
            None => overflow(&self.name, &self.ty),
        }
    }
}

impl<T: Narrow> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.sum(values)?;
        match self.total.checked_add(sum) {
            Some(total) => self.total = total,
            None => return overflow(&self.name, &self.ty),
        }
        self.count += count;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.sum(values)?;
        match self.total.checked_sub(sum) {
            Some(total) => self.total = total,
            None => return overflow(&self.name, &self.ty),
        }
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = match T::narrow(self.total) {
            Some(sum) => (self.count > 0).then_some(sum),
            None => return overflow(&self.name, &self.ty),
        };
        ScalarValue::new_primitive::<T>(sum, &self.ty)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.name.capacity()
    }
}

/// The sum of distinct values, which DataFusion collects.
#[derive(Debug)]
struct DistinctTotal {
    values: Box<dyn Accumulator>,
    total: Box<dyn Accumulator>,
}

impl Accumulator for DistinctTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.values.state()?.as_slice() {
            [ScalarValue::List(values)] if values.len() == 1 => {
                // A window with a growing frame asks again and again, for all values each time.
                let values = [values.value(0)];
                self.total.update_batch(&values)?;
                let sum = self.total.evaluate();
                self.total.retract_batch(&values)?;
                sum
            }
            _ => internal_err!("the distinct values of a sum are one list"),
        }
    }

    fn size(&self) -> usize {
        self.values.size() + self.total.size()
    }
}

/// Sums of groups, with a flag that is set if any of them overflowed.
struct CheckedGroups {
    name: String,
    ty: DataType,
    sums: Box<dyn GroupsAccumulator>,
    overflowed: Arc<AtomicBool>,
}

impl CheckedGroups {
    fn new<T: ArrowPrimitiveType<Native: ArrowNativeTypeOp> + Send>(
        name: &str,
        ty: &DataType,
    ) -> Self {
        let overflowed = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&overflowed);
        let sums = PrimitiveGroupsAccumulator::<T, _>::new(ty, move |sum, value| {
            match sum.add_checked(value) {
                Ok(total) => *sum = total,
                // Relaxed: the thread that sums is the thread that reads the flag.
                Err(_) => flag.store(true, Ordering::Relaxed),
            }
        });
        Self {
            name: name.to_string(),
            ty: ty.clone(),
            sums: Box::new(sums),
            overflowed,
        }
    }

    fn check(&self) -> Result<()> {
        if self.overflowed.load(Ordering::Relaxed) {
            return overflow(&self.name, &self.ty);
        }
        Ok(())
    }
}

impl GroupsAccumulator for CheckedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.sums
            .update_batch(values, groups, filter, total_groups)?;
        self.check()
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.sums.merge_batch(values, groups, total_groups)?;
        self.check()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.sums.evaluate(emit_to)?;
        if let Some(decimals) = sums.as_primitive_opt::<Decimal128Type>() {
            // Sixteen bytes hold slightly more than 38 digits.
            let fits = |decimals: &PrimitiveArray<Decimal128Type>| {
                let mut values = decimals.values().iter();
                values.all(|value| value.unsigned_abs() < DECIMAL_LIMIT)
            };
            if !fits(decimals) {
                return overflow(&self.name, &self.ty);
            }
        }
        Ok(sums)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.sums.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.sums.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.sums.size() + self.name.capacity()
    }
}
