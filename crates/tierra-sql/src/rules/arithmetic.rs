//! Integer overflow is an error. The result does not wrap around.
//!
//! DataFusion adds, subtracts and multiplies integers modulo their width. Here each such operation becomes a call of
//! [`Checked`], before the optimiser evaluates constants. It computes a batch without a branch, in the processor's widest
//! registers, and remembers whether any value may have overflowed. Only then arrow's checked kernel computes the batch
//! again, value by value, and reports the value. The test is not left out where the bounds of columns exclude an overflow:
//! in wide registers it takes hardly any time beside reading and writing the values.
//!
//! A long chain of operations becomes one call while it is planned ([`lengthened`]): the planner asks an expression for
//! its type and its name at every level, and both take time proportional to its length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::kernels::numeric::{add, mul, sub};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Int32Type, Int64Type};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, exec_datafusion_err, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use tierra_column::bits::Kernels;

use super::number::is_number;
use super::plan::{map_under_names, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};
use crate::types;

/// The rule.
#[derive(Debug)]
pub(super) struct CheckArithmetic;

impl AnalyzerRule for CheckArithmetic {
    fn name(&self) -> &str {
        "check_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, check_plan).map(|checked| checked.data)
    }
}

fn check_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, is_arithmetic)? {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    map_under_names(plan, |expr| {
        expr.transform_up(|expr| Ok(check(expr, &schema)))
    })?
    .map_data(LogicalPlan::recompute_schema)
}

fn is_arithmetic(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => Operation::of(binary.op).is_some(),
        Expr::Negative(_) => true,
        _ => false,
    }
}

fn check(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let integer = |expr: &Expr| type_of(expr, schema).filter(DataType::is_integer);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let ty = Operation::of(op).zip(integer(&left));
            match ty.filter(|(_, ty)| integer(&right).as_ref() == Some(ty)) {
                Some((operation, ty)) => {
                    Transformed::yes(Checked::call(vec![operation], ty, vec![*left, *right]))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(inner) => {
            let ty = integer(&inner);
            match ty.and_then(|ty| Some((ScalarValue::new_zero(&ty).ok()?, ty))) {
                Some((zero, ty)) => {
                    let operands = vec![Expr::Literal(zero, None), *inner];
                    Transformed::yes(Checked::call(vec![Operation::Subtract], ty, operands))
                }
                None => Transformed::no(Expr::Negative(inner)),
            }
        }
        expr => Transformed::no(expr),
    }
}

/// The type of `expr`, without recursion if it is a call of [`Checked`].
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    match expr {
        Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<Checked>() {
            Some(checked) => Some(checked.ty.clone()),
            None => expr.get_type(schema).ok(),
        },
        _ => expr.get_type(schema).ok(),
    }
}

/// Chains of up to this many operations stay trees.
const SHORT_CHAIN: usize = 32;

/// `left op right` as one more operation of a long chain's call. `None` if `left` is not such a chain, if the type would change,
/// or if it is not an integer type, DOUBLE or DECIMAL.
pub(super) fn lengthened(
    left: &mut Expr,
    op: Operator,
    right: &Expr,
    schema: &DFSchema,
) -> Option<Expr> {
    let operation = Operation::of(op)?;
    let is_chain = match left {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref::<Checked>().is_some(),
        Expr::BinaryExpr(_) => is_long(left),
        _ => false,
    };
    if !is_chain {
        return None;
    }
    let ty = type_of(left, schema)?;
    let stays = match (&ty, &type_of(right, schema)?) {
        // The sum of DECIMALs has one digit more, up to the maximum.
        (
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
            DataType::Decimal128(_, of_right),
        ) => operation != Operation::Multiply && of_right <= scale,
        (ty, of_right) => (ty.is_integer() || *ty == DataType::Float64) && ty == of_right,
    };
    // Numbers in the statement keep their digits if an exact context asks for them.
    if !stays || is_number(left) {
        return None;
    }
    let left = std::mem::take(left);
    let (mut operations, mut operands) = match left {
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            match func.inner().downcast_ref::<Checked>() {
                Some(checked) => (checked.operations.clone(), args),
                None => (
                    Vec::new(),
                    vec![Expr::ScalarFunction(ScalarFunction { func, args })],
                ),
            }
        }
        left => (Vec::new(), vec![left]),
    };
    operations.push(operation);
    operands.push(right.clone());
    Some(Checked::call(operations, ty, operands))
}

fn is_long(mut chain: &Expr) -> bool {
    for _ in 0..SHORT_CHAIN {
        chain = match chain {
            Expr::BinaryExpr(BinaryExpr { left, op, .. }) if Operation::of(*op).is_some() => left,
            _ => return false,
        };
    }
    true
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

impl Operation {
    fn of(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            _ => None,
        }
    }

    fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
        }
    }
}

/// `a + b`, `a - b` or `a * b` of two integers of one type, or a chain of such operations from the left. A chain may
/// also be of doubles, which do not overflow, and of DECIMALs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    /// One fewer than the operands.
    operations: Vec<Operation>,
    /// The type of the first operand and of the result.
    ty: DataType,
    signature: Signature,
}

impl Checked {
    fn call(operations: Vec<Operation>, ty: DataType, operands: Vec<Expr>) -> Expr {
        let func = Arc::new(ScalarUDF::from(Self::new(operations, ty)));
        Expr::ScalarFunction(ScalarFunction::new_udf(func, operands))
    }

    fn new(operations: Vec<Operation>, ty: DataType) -> Self {
        Self {
            signature: Signature::any(operations.len() + 1, Volatility::Immutable),
            operations,
            ty,
        }
    }
}

/// An expression that is a constant away from another one: `x + c`, `c + x`, `x - c` or `c - x`.
pub(super) struct Shift<'a> {
    pub(super) of: &'a Expr,
    pub(super) constant: i64,
    /// Whether x is subtracted.
    pub(super) is_negated: bool,
}

impl<'a> Shift<'a> {
    /// `None` if `call` is something else, or a chain.
    pub(super) fn of(call: &'a ScalarFunction) -> Option<Self> {
        let checked = call.func.inner().downcast_ref::<Checked>()?;
        let ([operation], [left, right]) = (checked.operations.as_slice(), call.args.as_slice())
        else {
            return None;
        };
        let (of, constant, is_left) = match (integer(left), integer(right)) {
            (None, Some(constant)) => (left, constant, true),
            (Some(constant), None) => (right, constant, false),
            _ => return None,
        };
        let (constant, is_negated) = match operation {
            Operation::Add => (constant, false),
            Operation::Subtract if is_left => (constant.checked_neg()?, false),
            Operation::Subtract => (constant, true),
            Operation::Multiply => return None,
        };
        Some(Self {
            of,
            constant,
            is_negated,
        })
    }
}

fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int32(Some(value)), _) => Some(i64::from(*value)),
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(*value),
        _ => None,
    }
}

fn evaluate(
    operation: Operation,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Result<ColumnarValue> {
    let whole = match left.data_type() {
        DataType::Int32 => whole_batch::<Int32Type>(operation, left, right),
        DataType::Int64 => whole_batch::<Int64Type>(operation, left, right),
        _ => None,
    };
    if let Some(values) = whole {
        return Ok(ColumnarValue::Array(values));
    }
    match operation {
        Operation::Add => apply(left, right, add),
        Operation::Subtract => apply(left, right, sub),
        Operation::Multiply => apply(left, right, mul),
    }
    .map_err(|error| overflow(error, &left.data_type()))
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operations.as_slice() {
            [Operation::Add] => "add",
            [Operation::Subtract] => "subtract",
            [Operation::Multiply] => "multiply",
            _ => "calculate",
        }
    }

    /// The name that the operations themselves would give a column.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some((first, others)) = args.split_first() else {
            return internal_err!("{} takes operands", self.name());
        };
        let mut name = first.schema_name().to_string();
        for (operation, operand) in self.operations.iter().zip(others) {
            name += &format!(" {} {}", operation.sign(), operand.schema_name());
        }
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.ty.clone(), nullable)))
    }

    /// An interval of the result's type. With an untyped one, enclosing functions could not derive the order of their results.
    fn evaluate_bounds(&self, _inputs: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&self.ty)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // The optimiser replaces columns by NULLs without a type to test for null results. Functions of such NULLs may yield
        // another type.
        let mut operands =
            args.args
                .into_iter()
                .map(|operand| match (operand.data_type(), &self.ty) {
                    (DataType::Decimal128(..), DataType::Decimal128(..)) => Ok(operand),
                    (ty, own) if ty == *own => Ok(operand),
                    _ => operand.cast_to(&self.ty, None),
                });
        let Some(mut value) = operands.next().transpose()? else {
            return internal_err!("{} takes operands", self.name());
        };
        for (operation, operand) in self.operations.iter().zip(operands) {
            value = evaluate(*operation, &value, &operand?)?;
        }
        Ok(value)
    }
}

/// The message for an overflow: the operation, and a type that holds more.
fn overflow(error: DataFusionError, ty: &DataType) -> DataFusionError {
    let DataFusionError::ArrowError(arrow, _) = &error else {
        return error;
    };
    let ArrowError::ArithmeticOverflow(text) = arrow.as_ref() else {
        return error;
    };
    let operation = text
        .rsplit_once(": ")
        .map_or(text.as_str(), |(_, rest)| rest);
    let wider = match ty {
        DataType::Int64 => "DECIMAL(38, 0)",
        DataType::Decimal128(..) => "DOUBLE",
        _ => "BIGINT",
    };
    let ty = types::from_arrow("", ty).map_or_else(|_| ty.to_string(), |ty| ty.to_string());
    exec_datafusion_err!("{ty} overflow in {operation}: cast an operand to {wider}")
}

/// One side of an operation.
enum Side<'a, T: ArrowPrimitiveType> {
    Values(&'a PrimitiveArray<T>),
    Constant(T::Native),
}

impl<'a, T: ArrowPrimitiveType> Side<'a, T> {
    /// `None` for NULL, whose result needs no computing.
    fn of(value: &'a ColumnarValue) -> Option<Self> {
        match value {
            ColumnarValue::Array(values) => Some(Self::Values(values.as_primitive())),
            ColumnarValue::Scalar(value) if value.is_null() => None,
            ColumnarValue::Scalar(value) => {
                let value = value.to_array().ok()?;
                Some(Self::Constant(value.as_primitive::<T>().value(0)))
            }
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Values(values) => values.nulls(),
            Self::Constant(_) => None,
        }
    }
}

/// Integers with branch-free overflow detection: each operation also returns a number that is negative if the result may be
/// wrong.
trait Lane: Copy + Default + std::ops::BitOrAssign + PartialOrd {
    fn add(self, other: Self) -> (Self, Self);
    fn subtract(self, other: Self) -> (Self, Self);
    fn multiply(self, other: Self) -> (Self, Self);
}

macro_rules! lane {
    ($native:ty, $multiply:expr) => {
        impl Lane for $native {
            #[inline]
            fn add(self, other: Self) -> (Self, Self) {
                let sum = self.wrapping_add(other);
                // Both operands have one sign, and the sum has the other.
                (sum, (self ^ sum) & (other ^ sum))
            }

            #[inline]
            fn subtract(self, other: Self) -> (Self, Self) {
                let difference = self.wrapping_sub(other);
                (difference, (self ^ other) & (self ^ difference))
            }

            #[inline]
            fn multiply(self, other: Self) -> (Self, Self) {
                $multiply(self, other)
            }
        }
    };
}

lane!(i32, |a: i32, b: i32| {
    let product = i64::from(a) * i64::from(b);
    let low = product as i32;
    (low, -i32::from(i64::from(low) != product))
});
// Factors of 32 bits never overflow; wider ones may still be correct.
lane!(i64, |a: i64, b: i64| {
    let wide = (i64::from(a as i32) != a) | (i64::from(b as i32) != b);
    (a.wrapping_mul(b), -i64::from(wide))
});

/// Computes the whole batch; `None` if a result may have overflowed, or if no argument is an array.
fn whole_batch<T: ArrowPrimitiveType<Native: Lane>>(
    operation: Operation,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Option<ArrayRef> {
    let (left, right) = (Side::<T>::of(left)?, Side::<T>::of(right)?);
    let values = match operation {
        Operation::Add => combine(&left, &right, Lane::add),
        Operation::Subtract => combine(&left, &right, Lane::subtract),
        Operation::Multiply => combine(&left, &right, Lane::multiply),
    }?;
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    Some(Arc::new(PrimitiveArray::<T>::new(
        ScalarBuffer::from(values),
        nulls,
    )))
}

fn combine<T: ArrowPrimitiveType<Native: Lane>>(
    left: &Side<'_, T>,
    right: &Side<'_, T>,
    operation: impl Fn(T::Native, T::Native) -> (T::Native, T::Native),
) -> Option<Vec<T::Native>> {
    let rows = match (left, right) {
        (Side::Values(values), _) | (_, Side::Values(values)) => values.len(),
        (Side::Constant(_), Side::Constant(_)) => return None,
    };
    let mut values = vec![T::Native::default(); rows];
    let overflow = Kernels::best().compiled(|| fill(&mut values, left, right, operation));
    (overflow >= T::Native::default()).then_some(values)
}

/// Computes all `values`; a negative number if one of them may be wrong. Inlined, so that its loops are compiled for the
/// level of the caller.
#[inline(always)]
fn fill<T: ArrowPrimitiveType<Native: Lane>>(
    values: &mut [T::Native],
    left: &Side<'_, T>,
    right: &Side<'_, T>,
    operation: impl Fn(T::Native, T::Native) -> (T::Native, T::Native),
) -> T::Native {
    let mut overflow = T::Native::default();
    let mut put = |value: &mut T::Native, a: T::Native, b: T::Native| {
        let (result, flag) = operation(a, b);
        *value = result;
        overflow |= flag;
    };
    match (left, right) {
        (Side::Values(left), Side::Values(right)) => {
            let pairs = left.values().iter().zip(right.values());
            for (value, (a, b)) in values.iter_mut().zip(pairs) {
                put(value, *a, *b);
            }
        }
        (Side::Values(left), Side::Constant(b)) => {
            for (value, a) in values.iter_mut().zip(left.values()) {
                put(value, *a, *b);
            }
        }
        (Side::Constant(a), Side::Values(right)) => {
            for (value, b) in values.iter_mut().zip(right.values()) {
                put(value, *a, *b);
            }
        }
        (Side::Constant(a), Side::Constant(b)) => {
            for value in values {
                put(value, *a, *b);
            }
        }
    }
    overflow
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int64Array};
    use proptest::prelude::*;

    fn array<T: ArrowPrimitiveType>(values: Vec<Option<T::Native>>) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(values.into_iter().collect::<PrimitiveArray<T>>()))
    }

    fn values(result: Result<ColumnarValue>) -> Option<Vec<Option<i64>>> {
        let array = result.ok()?.to_array(1).unwrap();
        let wide = arrow::compute::cast(&array, &DataType::Int64).unwrap();
        Some(wide.as_primitive::<Int64Type>().iter().collect())
    }

    fn exactly(
        operation: Operation,
        pairs: &[(Option<i64>, Option<i64>)],
        range: std::ops::RangeInclusive<i128>,
    ) -> Option<Vec<Option<i64>>> {
        let result = pairs.iter().map(|pair| match pair {
            (Some(a), Some(b)) => {
                let (a, b) = (i128::from(*a), i128::from(*b));
                let result = match operation {
                    Operation::Add => a + b,
                    Operation::Subtract => a - b,
                    Operation::Multiply => a * b,
                };
                range.contains(&result).then_some(Some(result as i64))
            }
            _ => Some(None),
        });
        result.collect()
    }

    /// Numbers of every size, including the extremes.
    fn any_bigint() -> impl Strategy<Value = Option<i64>> {
        let sized = (any::<i64>(), 0..64_u32).prop_map(|(value, shift)| Some(value >> shift));
        let special = prop::sample::select(vec![None, Some(i64::MIN), Some(i64::MAX), Some(-1)]);
        prop_oneof![5 => sized, 1 => special]
    }

    proptest! {
        #[test]
        fn results_are_exact_or_errors(
            pairs in prop::collection::vec((any_bigint(), any_bigint()), 1..6),
            pick in 0..3_usize,
        ) {
            let operation = [Operation::Add, Operation::Subtract, Operation::Multiply][pick];
            let evaluate = |left: &ColumnarValue, right: &ColumnarValue| evaluate(operation, left, right);
            let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let wide = evaluate(&array::<Int64Type>(a.clone()), &array::<Int64Type>(b.clone()));
            let range = i128::from(i64::MIN)..=i128::from(i64::MAX);
            prop_assert_eq!(values(wide), exactly(operation, &pairs, range.clone()));

            // A constant on either side.
            let constant = ColumnarValue::Scalar(ScalarValue::Int64(a[0]));
            let beside: Vec<_> = b.iter().map(|b| (a[0], *b)).collect();
            let right = evaluate(&constant, &array::<Int64Type>(b.clone()));
            prop_assert_eq!(values(right), exactly(operation, &beside, range.clone()));
            let beside: Vec<_> = b.iter().map(|b| (*b, a[0])).collect();
            let left = evaluate(&array::<Int64Type>(b.clone()), &constant);
            prop_assert_eq!(values(left), exactly(operation, &beside, range));

            let narrow = |values: &[Option<i64>]| -> Vec<Option<i32>> {
                values.iter().map(|value| value.map(|value| value as i32)).collect()
            };
            let (a, b) = (narrow(&a), narrow(&b));
            let pairs: Vec<_> = a.iter().zip(&b).map(|(a, b)| (a.map(i64::from), b.map(i64::from))).collect();
            let result = evaluate(&array::<Int32Type>(a), &array::<Int32Type>(b));
            let range = i128::from(i32::MIN)..=i128::from(i32::MAX);
            prop_assert_eq!(values(result), exactly(operation, &pairs, range));
        }
    }

    #[test]
    fn what_lies_under_a_null_overflows_nothing() {
        let nulls = Some(NullBuffer::from(vec![false, true]));
        let a = Int32Array::new(vec![i32::MAX, 1].into(), nulls);
        let a = ColumnarValue::Array(Arc::new(a));
        let b = array::<Int32Type>(vec![Some(1), Some(1)]);
        let sum = evaluate(Operation::Add, &a, &b);
        assert_eq!(values(sum), Some(vec![None, Some(2)]));
    }

    #[test]
    fn the_error_names_operation_and_remedy() {
        let a = ColumnarValue::Array(Arc::new(Int64Array::from(vec![i64::MAX])));
        let b = ColumnarValue::Scalar(ScalarValue::Int64(Some(2)));
        let error = evaluate(Operation::Multiply, &a, &b).unwrap_err();
        assert_eq!(
            error.strip_backtrace(),
            "Execution error: BIGINT overflow in 9223372036854775807 * 2: cast an operand to DECIMAL(38, 0)"
        );
    }
}
