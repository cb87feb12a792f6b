//! Arrow data of other libraries, taken over without a copy.
//!
//! Lengths, offsets and texts are checked before they are believed: a producer may be wrong, and a text that is not UTF-8 must not
//! become a string of Rust. A panic while a producer's rows are read is an error of the producer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::{
    Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader,
};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::guard::panic_text;

/// A reader of the rows of `reader`, which checks them.
pub fn checked(
    reader: impl RecordBatchReader + Send + 'static,
) -> Box<dyn RecordBatchReader + Send> {
    let schema = plain(&reader.schema());
    let under = SchemaRef::clone(&schema);
    let batches = Caught(Some(reader)).map(move |batch| checked_batch(&batch?, &under));
    Box::new(RecordBatchIterator::new(batches, schema))
}

/// The batches of a reader. They end with a panic of it.
struct Caught<R>(Option<R>);

impl<R: Iterator<Item = Result<RecordBatch, ArrowError>>> Iterator for Caught<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.0.as_mut()?;
        let next = catch_unwind(AssertUnwindSafe(|| reader.next()));
        next.unwrap_or_else(|panic| {
            let reader = self.0.take();
            // It may panic at its end as well.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(reader)));
            let text = panic_text(panic.as_ref());
            Some(Err(ArrowError::CDataInterface(format!(
                "their producer failed: {text}"
            ))))
        })
    }
}

/// `schema` without what libraries note in it for themselves.
fn plain(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_metadata(Default::default()));
    Schema::new(fields.collect::<Vec<_>>()).into()
}

fn checked_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    batch.columns().iter().try_for_each(check)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), batch.columns().to_vec(), &options)
}

/// Fails if the array's buffers cannot be what its type says.
///
/// # Errors
/// What is wrong with them.
pub fn check(array: &ArrayRef) -> Result<(), ArrowError> {
    match array.data_type() {
        // Any bytes of the right length are numbers.
        ty if ty.is_primitive() || *ty == DataType::Boolean => array.to_data().validate(),
        _ => array.to_data().validate_full(),
    }
}
