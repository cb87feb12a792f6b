//! Arguments and results of functions: columns, or constants, of which a function is computed once, and lists.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

/// What `compute` makes of columns of equal length, of one row if all arguments are constants. Then the result is a constant.
pub(crate) fn computed(
    args: &[ColumnarValue],
    compute: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let values = compute(&ColumnarValue::values_to_arrays(args)?)?;
    let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
    Ok(match args.iter().all(is_constant) {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
        false => ColumnarValue::Array(values),
    })
}

/// The type of what a list contains, and so on.
pub(crate) fn innermost(ty: &DataType) -> &DataType {
    match ty {
        DataType::List(item) => innermost(item.data_type()),
        ty => ty,
    }
}

/// `values` as those of type `to`, by a `cast` of what lists contain.
pub(crate) fn in_lists(
    values: &ArrayRef,
    to: &DataType,
    cast: &dyn Fn(&ArrayRef, &DataType) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let DataType::List(item) = to else {
        return cast(values, to);
    };
    let lists = values.as_list::<i32>();
    let offsets = lists.offsets();
    let first = offsets.first().map_or(0, |first| *first as usize);
    let count = offsets.lengths().sum();
    let items = in_lists(&lists.values().slice(first, count), item.data_type(), cast)?;
    let lists = ListArray::try_new(
        Arc::clone(item),
        OffsetBuffer::from_lengths(offsets.lengths()),
        items,
        lists.nulls().cloned(),
    );
    Ok(Arc::new(lists?))
}
