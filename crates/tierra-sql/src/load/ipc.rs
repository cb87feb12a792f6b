//! Arrow IPC, as files with a footer and as streams.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use tierra_engine::Database;

use super::{LoadError, LoadReport, Source, Target, columns, spec_of_file};

pub(super) fn load(
    source: &Source<'_>,
    database: &Arc<Database>,
    table: &str,
) -> Result<LoadReport, LoadError> {
    let file = source.file()?;
    match FileReader::try_new_buffered(file, None) {
        Ok(reader) => read(source, database, table, reader),
        Err(not_a_file) => match StreamReader::try_new(BufReader::new(source.file()?), None) {
            Ok(reader) => read::<StreamReader<BufReader<File>>>(source, database, table, reader),
            Err(_) => Err(source.damaged(not_a_file)),
        },
    }
}

fn read<R: RecordBatchReader + Iterator<Item = Result<RecordBatch, ArrowError>>>(
    source: &Source<'_>,
    database: &Arc<Database>,
    table: &str,
    reader: R,
) -> Result<LoadReport, LoadError> {
    let schema = reader.schema();
    let mut target = Target::begin(source, database, table, || spec_of_file(table, &schema))?;
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let places = columns::matched(source.path, &names, table, &target.schema)?;
    let mut bytes = 0;
    for batch in reader {
        let batch = batch.map_err(|error| source.damaged(error))?;
        bytes += batch.get_array_memory_size() as u64;
        let batch = columns::converted(source.path, &batch, &target.schema, &places)?;
        target.push(batch, bytes)?;
    }
    target.finish()
}
