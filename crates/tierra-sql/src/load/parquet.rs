//! Parquet: row groups decoded by all threads, handed on in the file's order.
//!
//! Worker `w` of `n` decodes row groups `w`, `w + n`, .. into a short queue of its own. The loading
//! thread empties the queues in turn, so rows keep their order (and columns their clustering) and no
//! worker runs further ahead than its queue is long.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};

use super::{LoadError, Source, Target, columns, spec_of_file};

/// Rows decoded at a time: few enough that the allocator hands the same pages out again.
const BATCH_ROWS: usize = 1 << 14;
/// Batches that a worker may be ahead.
const QUEUE: usize = 16;

/// What a worker says: rows, or that a row group is done.
type Message = Result<Option<RecordBatch>, LoadError>;

pub(super) fn load(source: &Source<'_>, target: &mut Target<'_>) -> Result<(), LoadError> {
    let metadata = ArrowReaderMetadata::load(&source.file()?, ArrowReaderOptions::new())
        .map_err(|error| source.damaged(error))?;
    let metadata = with_string_views(source, metadata)?;
    let (file, table) = (Arc::clone(metadata.schema()), target.name);
    let table_schema = target.begin(source, || spec_of_file(table, &file))?;
    let names: Vec<String> = file
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let file_places = columns::matched(source.path, &names, table, &table_schema)?;
    let mask = ProjectionMask::roots(metadata.parquet_schema(), file_places.iter().copied());
    // Decoded batches hold the wanted columns in the file's order.
    let mut decoded = file_places.clone();
    decoded.sort_unstable();
    decoded.dedup();
    let places: Vec<usize> = file_places
        .iter()
        .map(|place| {
            decoded
                .binary_search(place)
                .expect("every wanted column is decoded")
        })
        .collect();

    let groups = metadata.metadata().num_row_groups();
    let threads = source
        .options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let workers = threads.clamp(1, groups.max(1));
    let work = |worker: usize, send: &SyncSender<Message>| -> Result<(), LoadError> {
        for group in (worker..groups).step_by(workers) {
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
                source.file()?,
                metadata.clone(),
            )
            .with_projection(mask.clone())
            .with_row_groups(vec![group])
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| source.damaged(error))?;
            for batch in reader {
                let batch = batch.map_err(|error| source.damaged(error))?;
                let batch = columns::converted(source.path, &batch, &table_schema, &places)?;
                if send.send(Ok(Some(batch))).is_err() {
                    return Ok(());
                }
            }
            if send.send(Ok(None)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let queues: Vec<Receiver<Message>> = (0..workers)
            .map(|worker| {
                let (send, receive) = sync_channel(QUEUE);
                let work = &work;
                scope.spawn(move || {
                    if let Err(error) = work(worker, &send) {
                        // A receiver that is gone has an error of its own.
                        let _ = send.send(Err(error));
                    }
                });
                receive
            })
            .collect();
        let mut bytes = 0;
        for group in 0..groups {
            let queue = &queues[group % workers];
            loop {
                match queue.recv() {
                    Ok(Ok(Some(batch))) => target.push(source, batch, bytes)?,
                    Ok(Ok(None)) => break,
                    Ok(Err(error)) => return Err(error),
                    Err(_) => {
                        return Err(source.damaged(format!("row group {group} could not be read")));
                    }
                }
            }
            bytes +=
                u64::try_from(metadata.metadata().row_group(group).compressed_size()).unwrap_or(0);
        }
        Ok(())
    })
}

/// The same file with strings decoded as views, the form in which tables take them: no copy.
fn with_string_views(
    source: &Source<'_>,
    metadata: ArrowReaderMetadata,
) -> Result<ArrowReaderMetadata, LoadError> {
    let fields: Vec<Field> = metadata
        .schema()
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => {
                field.as_ref().clone().with_data_type(DataType::Utf8View)
            }
            _ => field.as_ref().clone(),
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
        .map_err(|error| source.damaged(error))
}
