//! CSV with a header: records parsed into columns by one thread while another loads them.
//!
//! An empty field is NULL; only in a NOT NULL VARCHAR it is the empty string. Where the table is
//! new, its types are those that every record of a sample at the beginning of the file fits.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use ::csv::{ByteRecord, Reader, ReaderBuilder};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, TableSpec};

use super::csv_field::{FieldBuilder, Guess};
use super::{LoadError, LoadReport, Source, Target, columns};
use crate::table::logical_type;

/// Records from which types are inferred.
const SAMPLE_RECORDS: usize = 10_000;
/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 14;
/// Batches that the parser may be ahead.
const QUEUE: usize = 4;
/// Characters of a bad field that the error shows.
const SHOWN: usize = 80;

type Message = Result<(RecordBatch, u64), LoadError>;

pub(super) fn load(
    source: &Source<'_>,
    database: &Arc<Database>,
    table: &str,
    delimiter: u8,
) -> Result<LoadReport, LoadError> {
    let names = header(source, delimiter)?;
    let sampled = match database.table(table) {
        Some(_) => None,
        None => Some(inferred(source, delimiter, table, &names)?),
    };
    let mut target = Target::begin(source, database, table, || {
        Ok(sampled.expect("types are inferred for a new table"))
    })?;
    let places = columns::matched(source.path, &names, table, &target.schema)?;
    let schema = Arc::clone(&target.schema);
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Message>(QUEUE);
        let names = &names;
        scope.spawn(move || {
            if let Err(error) = parse(source, delimiter, names, &places, &schema, &send) {
                // A receiver that is gone has an error of its own.
                let _ = send.send(Err(error));
            }
        });
        for message in receive {
            let (batch, bytes) = message?;
            target.push(batch, bytes)?;
        }
        Ok::<_, LoadError>(())
    })?;
    target.finish()
}

fn reader(source: &Source<'_>, delimiter: u8) -> Result<Reader<std::fs::File>, LoadError> {
    let mut builder = ReaderBuilder::new();
    // Records of another length are ours to report.
    builder
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        .buffer_capacity(1 << 18);
    Ok(builder.from_reader(source.file()?))
}

fn next(
    source: &Source<'_>,
    reader: &mut Reader<std::fs::File>,
    record: &mut ByteRecord,
) -> Result<bool, LoadError> {
    reader
        .read_byte_record(record)
        .map_err(|error| source.damaged(error))
}

fn line(record: &ByteRecord) -> u64 {
    record.position().map_or(0, |position| position.line())
}

fn header(source: &Source<'_>, delimiter: u8) -> Result<Vec<String>, LoadError> {
    let mut record = ByteRecord::new();
    if !next(source, &mut reader(source, delimiter)?, &mut record)? {
        return Err(LoadError::NoHeader {
            file: source.path.to_path_buf(),
        });
    }
    let mut names = Vec::with_capacity(record.len());
    for (place, name) in record.iter().enumerate() {
        let name = if place == 0 {
            name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name)
        } else {
            name
        };
        let name = std::str::from_utf8(name).map_err(|_| {
            bad_field(
                source,
                1,
                &format!("number {}", place + 1),
                name,
                "column name in UTF-8".to_string(),
            )
        })?;
        names.push(name.trim().to_string());
    }
    Ok(names)
}

/// A table whose types fit the sample.
fn inferred(
    source: &Source<'_>,
    delimiter: u8,
    table: &str,
    names: &[String],
) -> Result<TableSpec, LoadError> {
    let mut reader = reader(source, delimiter)?;
    let mut record = ByteRecord::new();
    let mut guesses = vec![Guess::default(); names.len()];
    next(source, &mut reader, &mut record)?;
    for _ in 0..SAMPLE_RECORDS {
        if !next(source, &mut reader, &mut record)? {
            break;
        }
        check_count(source, &record, names.len())?;
        for (guess, field) in guesses.iter_mut().zip(&record) {
            guess.see(field);
        }
    }
    let columns = names
        .iter()
        .zip(guesses)
        .map(|(name, guess)| ColumnSpec::new(name, guess.ty()))
        .collect();
    Ok(TableSpec {
        name: table.to_string(),
        columns,
        primary_key: Vec::new(),
    })
}

fn check_count(source: &Source<'_>, record: &ByteRecord, expected: usize) -> Result<(), LoadError> {
    if record.len() == expected {
        return Ok(());
    }
    Err(LoadError::FieldCount {
        file: source.path.to_path_buf(),
        line: line(record),
        found: record.len(),
        expected,
    })
}

fn bad_field(
    source: &Source<'_>,
    line: u64,
    column: &str,
    field: &[u8],
    expected: String,
) -> LoadError {
    let mut value = String::from_utf8_lossy(field).into_owned();
    if let Some((end, _)) = value.char_indices().nth(SHOWN) {
        value.truncate(end);
        value.push_str("..");
    }
    LoadError::Field {
        file: source.path.to_path_buf(),
        line,
        column: column.to_string(),
        value,
        expected,
    }
}

/// Parse every record into batches of the table's columns; `places` says which field each is.
fn parse(
    source: &Source<'_>,
    delimiter: u8,
    names: &[String],
    places: &[usize],
    schema: &SchemaRef,
    send: &SyncSender<Message>,
) -> Result<(), LoadError> {
    let mut reader = reader(source, delimiter)?;
    let mut record = ByteRecord::new();
    next(source, &mut reader, &mut record)?;
    let types: Vec<LogicalType> = (0..places.len())
        .map(|column| logical_type(schema, column))
        .collect();
    let mut builders: Vec<FieldBuilder> = types
        .iter()
        .map(|ty| FieldBuilder::new(*ty, BATCH_ROWS))
        .collect();
    loop {
        let mut rows = 0;
        while rows < BATCH_ROWS && next(source, &mut reader, &mut record)? {
            check_count(source, &record, names.len())?;
            for (column, builder) in builders.iter_mut().enumerate() {
                let field = &record[places[column]];
                let nullable = schema.field(column).is_nullable();
                if builder.append(field, nullable).is_err() {
                    let null = if field.is_empty() { "NOT NULL " } else { "" };
                    let expected = format!("{null}{}", types[column]);
                    return Err(bad_field(
                        source,
                        line(&record),
                        schema.field(column).name(),
                        field,
                        expected,
                    ));
                }
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(());
        }
        let arrays: Vec<ArrayRef> = builders.iter_mut().map(FieldBuilder::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(schema), arrays)
            .map_err(|error| source.damaged(error))?;
        if send.send(Ok((batch, reader.position().byte()))).is_err() {
            return Ok(());
        }
    }
}
