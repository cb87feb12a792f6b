//! MIN and MAX of doubles: NaN is the greatest of them, as in ORDER BY.
//!
//! DataFusion's MIN and MAX do this only without groups. Per group they take a NaN and then any value that follows one,
//! so that the answer depends on the order of rows. The least of infinities alone is the greatest finite number.

use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// The two aggregate functions.
pub(crate) fn functions() -> [AggregateUDF; 2] {
    [Extreme::Least(Min::new()), Extreme::Greatest(Max::new())].map(AggregateUDF::from)
}

/// An end of the order of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Least,
    Greatest,
}

/// Which end one of the two functions yields; `None` for other functions.
pub(crate) fn end(function: &AggregateUDF) -> Option<End> {
    Some(match function.inner().downcast_ref::<Extreme>()? {
        Extreme::Least(_) => End::Least,
        Extreme::Greatest(_) => End::Greatest,
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Extreme {
    Least(Min),
    Greatest(Max),
}

impl Extreme {
    fn unordered(&self) -> &dyn AggregateUDFImpl {
        match self {
            Self::Least(min) => min,
            Self::Greatest(max) => max,
        }
    }

    fn of_groups<T>(&self, ty: &DataType) -> Box<dyn GroupsAccumulator>
    where
        T: ArrowPrimitiveType<Native: Ordered> + Send + Sync,
    {
        match self {
            Self::Least(_) => {
                let groups =
                    PrimitiveGroupsAccumulator::<T, _>::new(ty, |least, value: T::Native| {
                        if value.is_less(*least) {
                            *least = value;
                        }
                    });
                Box::new(groups.with_starting_value(T::Native::GREATEST))
            }
            Self::Greatest(_) => {
                let groups =
                    PrimitiveGroupsAccumulator::<T, _>::new(ty, |greatest, value: T::Native| {
                        if greatest.is_less(value) {
                            *greatest = value;
                        }
                    });
                Box::new(groups.with_starting_value(T::Native::LEAST))
            }
        }
    }
}

/// Doubles ordered with NaN as the greatest.
trait Ordered: Copy {
    const LEAST: Self;
    const GREATEST: Self;

    fn is_less(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($native:ty) => {
        impl Ordered for $native {
            const LEAST: Self = <$native>::NEG_INFINITY;
            const GREATEST: Self = <$native>::NAN;

            #[inline]
            fn is_less(self, other: Self) -> bool {
                self < other || (other.is_nan() && !self.is_nan())
            }
        }
    };
}

ordered!(f32);
ordered!(f64);

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.unordered().name()
    }

    fn signature(&self) -> &Signature {
        self.unordered().signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.unordered().return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.unordered().accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.unordered().create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.unordered().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let ty = args.return_field.data_type();
        match ty {
            DataType::Float64 => Ok(self.of_groups::<Float64Type>(ty)),
            DataType::Float32 => Ok(self.of_groups::<Float32Type>(ty)),
            _ => self.unordered().create_groups_accumulator(args),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.unordered().coerce_types(types)
    }

    fn is_descending(&self) -> Option<bool> {
        self.unordered().is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.unordered().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.unordered().reverse_expr()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.unordered().value_from_stats(args)
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.unordered().set_monotonicity(ty)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.unordered().documentation()
    }
}
