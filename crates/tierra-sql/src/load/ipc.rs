//! Arrow IPC, as files with a footer and as streams.

use std::io::BufReader;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};

use super::check::is_file;
use super::columns;
use super::error::LoadError;
use super::shared_file::SharedFile;
use super::source::Source;
use super::target::{LoadTarget, spec_of_file};

pub(super) fn load(
    source: &Source<'_>,
    file: SharedFile,
    target: &mut LoadTarget<'_>,
) -> Result<(), LoadError> {
    if is_file(&file) {
        let reader = FileReader::try_new_buffered(file, None);
        return read(
            source,
            target,
            reader.map_err(|error| source.damaged(error))?,
        );
    }
    let reader = StreamReader::try_new(BufReader::new(file), None);
    read(
        source,
        target,
        reader.map_err(|error| source.damaged(error))?,
    )
}

/// Loads the batches of `reader`.
pub(super) fn read<R: RecordBatchReader + Iterator<Item = Result<RecordBatch, ArrowError>>>(
    source: &Source<'_>,
    target: &mut LoadTarget<'_>,
    reader: R,
) -> Result<(), LoadError> {
    let (file, table) = (reader.schema(), target.name);
    let schema = target.begin(source, || spec_of_file(source, table, &file))?;
    let names: Vec<String> = file
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let places = columns::matched(source.path, &names, table, &schema)?;
    let mut bytes = 0;
    for batch in reader {
        let batch = batch.map_err(|error| source.damaged(error))?;
        bytes += batch.get_array_memory_size() as u64;
        let batch = columns::converted(source.path, &batch, &schema, &places)?;
        target.push(source, batch, bytes)?;
    }
    Ok(())
}
