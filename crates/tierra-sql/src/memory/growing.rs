//! Functions whose result may be far larger than their arguments: they compute its size first.
//!
//! Two limits apply. A statement that calls one of them for many bytes per row is executed in smaller batches
//! ([`batch_rows`]). And no call makes more than a part of the memory that queries may use: a larger result is an error
//! before anything is allocated.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::unary;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, resources_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature,
};
use tierra_memory::Size;

use crate::settings;
use crate::tree::{apply_expressions, apply_with_subqueries};

/// One call may make at most one part in this many of the memory that queries may use.
const PART: u64 = 4;
/// Results up to this size are not checked further.
const SMALL_BYTES: u64 = 16 << 20;
/// The target size of a batch's results.
const BATCH_BYTES: u64 = 4 << 20;
/// Bytes per row assumed for a function if nothing tells its size.
const UNKNOWN_BYTES: u64 = 1 << 12;
/// Bytes assumed for a value.
const VALUE_BYTES: u64 = 16;

/// The way in which a result grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// `(text, n)`: the text n times.
    Repeated,
    /// `(text, n, ..)`: n characters.
    Padded,
    /// `(text, from, to)`.
    Replaced,
    /// `(text, text, ..)`.
    Joined,
    /// `(item, n)`: n items.
    Items,
    /// `(start, stop, step)` or `(stop)`.
    Series,
    /// `(list, n, ..)`: n items.
    Resized,
}

const FUNCTIONS: [(&str, Growth); 10] = [
    ("repeat", Growth::Repeated),
    ("lpad", Growth::Padded),
    ("rpad", Growth::Padded),
    ("replace", Growth::Replaced),
    ("concat", Growth::Joined),
    ("concat_ws", Growth::Joined),
    ("array_repeat", Growth::Items),
    ("range", Growth::Series),
    ("generate_series", Growth::Series),
    ("array_resize", Growth::Resized),
];

/// Replaces the library's functions by the bounded ones.
pub(crate) fn add_to(context: &SessionContext) {
    for (name, growth) in FUNCTIONS {
        let inner = context
            .state_ref()
            .read()
            .scalar_functions()
            .get(name)
            .cloned();
        if let Some(inner) = inner {
            let inner = ScalarUDF::clone(&inner);
            context.register_udf(Bounded { inner, growth }.into());
        }
    }
}

/// A function of the library that checks the size of its result before it is called.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: ScalarUDF,
    growth: Growth,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.growth == Growth::Padded
            && let Some(ColumnarValue::Array(lengths)) = args.args.get_mut(1)
            && let Some(counts) = lengths.as_primitive_opt::<Int64Type>()
        {
            // The library takes a negative length for an enormous one.
            *lengths = Arc::new(unary::<_, _, Int64Type>(counts, |count| count.max(0)));
        }
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        // Constant arguments make one result.
        let rows = match args.args.iter().all(is_scalar) {
            true => 1,
            false => args.number_rows,
        };
        let bytes = made_bytes(self.growth, &args.args, rows).unwrap_or(0);
        if bytes > SMALL_BYTES {
            let limit = settings::of(&args.config_options).query_memory as u64;
            if bytes > limit / PART {
                return Err(resources_datafusion_err!(
                    "{} would make {} of one batch of rows, which may be a {PART}th of tierra.query_memory = {}: \
                     SET tierra.query_memory to more, or ask for less at a time",
                    self.name(),
                    Size(bytes),
                    Size(limit)
                ));
            }
        }
        self.inner.invoke_with_args(args)
    }
}

/// An upper bound of the bytes that a call makes; `None` if its arguments do not tell.
fn made_bytes(growth: Growth, args: &[ColumnarValue], rows: usize) -> Option<u64> {
    let sum = |of: &dyn Fn(usize) -> u64| (0..rows).map(of).fold(0, u64::saturating_add);
    let bytes = match growth {
        Growth::Repeated => {
            let (text, count) = (args.first()?, Counts::of(args.get(1)?)?);
            sum(&|row| text_bytes(text, row).saturating_mul(count.at(row)))
        }
        Growth::Padded => {
            let count = Counts::of(args.get(1)?)?;
            sum(&|row| count.at(row))
        }
        Growth::Replaced => {
            let [text, from, to] = args else { return None };
            sum(&|row| {
                let (text, from, to) = (
                    text_bytes(text, row),
                    text_bytes(from, row),
                    text_bytes(to, row),
                );
                // A match is at least as long as the text that is searched for.
                text.saturating_add(text.saturating_mul(to) / from.max(1))
            })
        }
        Growth::Joined => sum(&|row| args.iter().map(|text| text_bytes(text, row)).sum()),
        Growth::Items => {
            let (item, count) = (args.first()?, Counts::of(args.get(1)?)?);
            let item = item_bytes(item, rows);
            sum(&|row| count.at(row).saturating_mul(item))
        }
        Growth::Resized => {
            let count = Counts::of(args.get(1)?)?;
            sum(&|row| count.at(row).saturating_mul(VALUE_BYTES / 2))
        }
        Growth::Series => {
            let (start, stop) = match args {
                [stop] => (None, stop),
                [start, stop, ..] => (Some(Counts::of(start)?), stop),
                [] => return None,
            };
            let stop = Counts::of(stop)?;
            let step = args.get(2).map(Counts::of);
            let step = match step {
                None => None,
                Some(step) => Some(step?),
            };
            sum(&|row| {
                let start = start.as_ref().map_or(0, |start| start.signed(row));
                let step = step.as_ref().map_or(1, |step| step.signed(row));
                let length = stop.signed(row).abs_diff(start) / step.unsigned_abs().max(1);
                length.saturating_mul(VALUE_BYTES / 2)
            })
        }
    };
    Some(bytes)
}

/// The counts in the rows of a call.
struct Counts(ColumnarValue);

impl Counts {
    fn of(value: &ColumnarValue) -> Option<Self> {
        match value.data_type().is_integer() {
            true => value.cast_to(&DataType::Int64, None).ok().map(Self),
            false => None,
        }
    }

    fn signed(&self, row: usize) -> i64 {
        match &self.0 {
            ColumnarValue::Scalar(ScalarValue::Int64(Some(count))) => *count,
            ColumnarValue::Array(counts) if counts.is_valid(row) => {
                counts.as_primitive::<Int64Type>().value(row)
            }
            _ => 0,
        }
    }

    fn at(&self, row: usize) -> u64 {
        u64::try_from(self.signed(row)).unwrap_or(0)
    }
}

fn text_bytes(text: &ColumnarValue, row: usize) -> u64 {
    let bytes = match text {
        ColumnarValue::Scalar(text) => text.try_as_str().flatten().map_or(0, str::len),
        ColumnarValue::Array(texts) if texts.is_null(row) => 0,
        ColumnarValue::Array(texts) => match texts.data_type() {
            DataType::Utf8 => texts.as_string::<i32>().value(row).len(),
            DataType::LargeUtf8 => texts.as_string::<i64>().value(row).len(),
            DataType::Utf8View => texts.as_string_view().value(row).len(),
            _ => 0,
        },
    };
    bytes as u64
}

/// The average size of an item in bytes.
fn item_bytes(item: &ColumnarValue, rows: usize) -> u64 {
    match item {
        ColumnarValue::Scalar(item) => item.size() as u64,
        ColumnarValue::Array(items) => {
            let bytes = items.to_data().get_slice_memory_size().unwrap_or(0);
            (bytes / rows.max(1)) as u64 + 1
        }
    }
}

/// The rows per batch of `plan`, if that is fewer than `most`.
pub(crate) fn batch_rows(plan: &LogicalPlan, most: usize) -> Result<Option<usize>> {
    let mut widest = 0;
    apply_with_subqueries(plan, |node| {
        apply_expressions(node, |expr| {
            widest = widest.max(made_by(expr)?);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if widest.saturating_mul(most as u64) <= BATCH_BYTES {
        return Ok(None);
    }
    Ok(Some((BATCH_BYTES / widest).max(1) as usize))
}

/// Bytes per row that the functions above make in `expr`, over all their calls.
fn made_by(expr: &Expr) -> Result<u64> {
    use crate::tree::TreeNode;
    let mut made = 0_u64;
    expr.apply(|part| {
        if let Expr::ScalarFunction(call) = part {
            made = made.saturating_add(width(call));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(made)
}

/// Bytes per row that a call makes; 0 for a function that makes no more than its arguments.
fn width(call: &ScalarFunction) -> u64 {
    let Some(bounded) = call.func.inner().downcast_ref::<Bounded>() else {
        return 0;
    };
    let number = |place: usize| match call.args.get(place).map(strip) {
        Some(Expr::Literal(value, _)) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(number))) => Some(number),
            _ => None,
        },
        _ => None,
    };
    let count = number(1).map(|count| u64::try_from(count).unwrap_or(0));
    // Another call may have made the repeated text.
    let inner = match call.args.first().map(strip) {
        Some(Expr::ScalarFunction(inner)) => width(inner).max(VALUE_BYTES),
        _ => VALUE_BYTES,
    };
    let bytes = match bounded.growth {
        Growth::Repeated | Growth::Items => count.map(|count| count.saturating_mul(inner)),
        Growth::Padded => count,
        Growth::Resized => count.map(|count| count.saturating_mul(VALUE_BYTES / 2)),
        Growth::Replaced | Growth::Joined => return 0,
        Growth::Series => {
            let ends = match call.args.len() {
                1 => Some(0).zip(number(0)),
                _ => number(0).zip(number(1)),
            };
            ends.map(|(start, stop)| stop.abs_diff(start).saturating_mul(VALUE_BYTES / 2))
        }
    };
    bytes.unwrap_or(UNKNOWN_BYTES)
}

/// The argument of casts.
fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => strip(&cast.expr),
        Expr::Alias(alias) => strip(&alias.expr),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};

    #[test]
    fn sizes_are_known_before_anything_is_made() {
        let texts = StringViewArray::from(vec![Some("ab"), None, Some("c")]);
        let texts = ColumnarValue::Array(Arc::new(texts));
        let counts = Int64Array::from(vec![Some(3), Some(5), Some(-1)]);
        let counts = ColumnarValue::Array(Arc::new(counts));
        let number = |number: i64| ColumnarValue::Scalar(ScalarValue::Int64(Some(number)));
        let text = |text: &str| ColumnarValue::Scalar(ScalarValue::from(text));
        let bytes = |growth, args: &[ColumnarValue]| made_bytes(growth, args, 3);
        assert_eq!(
            bytes(Growth::Repeated, &[texts.clone(), counts.clone()]),
            Some(6)
        );
        assert_eq!(
            bytes(Growth::Repeated, &[texts.clone(), number(i64::MAX)]),
            Some(u64::MAX)
        );
        assert_eq!(
            bytes(Growth::Padded, &[texts.clone(), number(10)]),
            Some(30)
        );
        assert_eq!(bytes(Growth::Series, &[counts]), Some(8 * 9));
        let replaced = [texts, text("c"), text("long")];
        assert_eq!(bytes(Growth::Replaced, &replaced), Some(2 + 8 + 1 + 4));
    }
}
