//! CSV with a header: one thread parses records into columns while another loads them.
//!
//! An empty field is NULL. In quotes it is the empty string of a VARCHAR, as in PostgreSQL; other types have no empty
//! value, so there it is NULL as well. If the table is new, its types are the narrowest ones that fit every record of a
//! sample at the beginning of the file.

use std::str::Utf8Error;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, TableSpec};

use super::columns;
use super::csv_field::{BadField, FieldBuilder, Guess};
use super::csv_records::{Record, RecordError, Records};
use super::error::LoadError;
use super::shared_file::SharedFile;
use super::source::Source;
use super::target::LoadTarget;
use crate::types::logical_type;

/// Records from which types are inferred.
const SAMPLE_RECORDS: usize = 10_000;
/// Rows of a batch, at most.
const BATCH_ROWS: usize = 1 << 14;
/// Bytes of fields after which a batch ends, even if it has few rows: several batches are in memory at a time.
const BATCH_BYTES: usize = 4 << 20;
/// Batches by which the parser may be ahead.
const QUEUE: usize = 4;
/// The separators of other files.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];
/// The most characters of a bad field that an error shows.
const SHOWN: usize = 80;

type Message = Result<(RecordBatch, u64), LoadError>;

pub(super) fn load(
    source: &Source<'_>,
    file: SharedFile,
    target: &mut LoadTarget<'_>,
    delimiter: u8,
) -> Result<(), LoadError> {
    let names = header(source, &file, delimiter)?;
    let name = target.name;
    let schema = target.begin(source, || inferred(source, &file, delimiter, name, &names))?;
    let places = columns::matched(source.path, &names, target.name, &schema)?;
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<Message>(QUEUE);
        let (names, file) = (&names, &file);
        scope.spawn(move || {
            let mut emit = |batch, bytes| send.send(Ok((batch, bytes))).is_ok();
            if let Err(error) = parse(source, file, delimiter, names, &places, &schema, &mut emit) {
                // If the receiver is gone, it has reported an error of its own.
                let _ = send.send(Err(error));
            }
        });
        for message in receive {
            let (batch, bytes) = message?;
            target.push(source, batch, bytes)?;
        }
        Ok(())
    })
}

/// A file that is being read, and the names that its errors use.
struct Reader<'a> {
    source: &'a Source<'a>,
    names: &'a [String],
    records: Records<SharedFile>,
    record: Record,
}

impl<'a> Reader<'a> {
    /// Opens the file before the header if `names` is empty, else after it.
    fn open(
        source: &'a Source<'a>,
        file: &SharedFile,
        delimiter: u8,
        names: &'a [String],
    ) -> Result<Self, LoadError> {
        let mut reader = Self {
            source,
            names,
            records: Records::new(file.clone(), delimiter),
            record: Record::default(),
        };
        if !names.is_empty() {
            reader.next_record()?;
        }
        if names.len() == 1 {
            reader.records.expect_one_field();
        }
        Ok(reader)
    }

    /// Reads the next record, with any number of fields.
    fn next_record(&mut self) -> Result<bool, LoadError> {
        self.records
            .read(&mut self.record)
            .map_err(|error| match error {
                RecordError::Io(error) => self.source.unreadable(error),
                RecordError::Malformed { place, fault } => self.bad_field(place, fault.to_string()),
            })
    }

    /// Reads the next record, which must have one field per name.
    fn next_row(&mut self) -> Result<bool, LoadError> {
        let found = self.next_record()?;
        if found && self.record.len() != self.names.len() {
            return Err(LoadError::FieldCount {
                file: self.source.path.to_path_buf(),
                line: self.record.line,
                found: self.record.len(),
                expected: self.names.len(),
            });
        }
        Ok(found)
    }

    fn bad_field(&self, place: usize, message: String) -> LoadError {
        let number = || format!("number {}", place + 1);
        LoadError::Field {
            file: self.source.path.to_path_buf(),
            line: self.record.line,
            column: self.names.get(place).cloned().unwrap_or_else(number),
            message,
        }
    }
}

/// The column names in the first record.
pub(super) fn header(
    source: &Source<'_>,
    file: &SharedFile,
    delimiter: u8,
) -> Result<Vec<String>, LoadError> {
    let mut reader = Reader::open(source, file, delimiter, &[])?;
    if !reader.next_record()? {
        return Err(LoadError::NoHeader {
            file: source.path.to_path_buf(),
        });
    }
    let mut names = Vec::with_capacity(reader.record.len());
    for (place, name) in reader.record.iter().enumerate() {
        let name = std::str::from_utf8(name.bytes)
            .map_err(|error| reader.bad_field(place, not_utf8(name.bytes, &error)))?;
        names.push(name.trim().to_string());
    }
    // A single name that contains another separator: the file has another delimiter.
    if let ([name], false) = (names.as_slice(), reader.record.field(0).quoted)
        && let Some(other) = name.chars().find(|c| SEPARATORS.contains(c))
    {
        return Err(LoadError::Separator {
            file: source.path.to_path_buf(),
            name: shown(name.as_bytes()),
            other,
            expected: if delimiter == b'\t' { "tabs" } else { "commas" },
        });
    }
    Ok(names)
}

/// A table whose types fit the sample.
pub(super) fn inferred(
    source: &Source<'_>,
    file: &SharedFile,
    delimiter: u8,
    table: &str,
    names: &[String],
) -> Result<TableSpec, LoadError> {
    let mut reader = Reader::open(source, file, delimiter, names)?;
    let mut guesses = vec![Guess::default(); names.len()];
    for _ in 0..SAMPLE_RECORDS {
        if !reader.next_row()? {
            break;
        }
        for (guess, field) in guesses.iter_mut().zip(reader.record.iter()) {
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

/// Why a field is not a value of its column.
fn explained(bad: BadField, field: &[u8], ty: LogicalType) -> String {
    match bad {
        BadField::Null if ty == LogicalType::Varchar => {
            "empty, which is NULL, but the column is NOT NULL; write \"\" for the empty string"
                .to_string()
        }
        BadField::Null => "empty, which is NULL, but the column is NOT NULL".to_string(),
        BadField::NotUtf8(error) => not_utf8(field, &error),
        BadField::Value => format!("'{}' is no {ty}", shown(field)),
    }
}

fn not_utf8(field: &[u8], error: &Utf8Error) -> String {
    let byte = field.get(error.valid_up_to()).copied().unwrap_or_default();
    format!(
        "'{}' is not UTF-8 (byte 0x{byte:02X}); convert the file to UTF-8",
        shown(field)
    )
}

/// The beginning of a field; invalid UTF-8 is replaced.
fn shown(field: &[u8]) -> String {
    let mut value = String::from_utf8_lossy(field).into_owned();
    if let Some((end, _)) = value.char_indices().nth(SHOWN) {
        value.truncate(end);
        value.push_str("..");
    }
    value
}

/// Parses every record into batches of the table's columns; `places` gives the field of each column. `emit` takes each batch
/// with its end in the file in bytes, and returns whether to continue.
pub(super) fn parse(
    source: &Source<'_>,
    file: &SharedFile,
    delimiter: u8,
    names: &[String],
    places: &[usize],
    schema: &SchemaRef,
    emit: &mut dyn FnMut(RecordBatch, u64) -> bool,
) -> Result<(), LoadError> {
    let mut reader = Reader::open(source, file, delimiter, names)?;
    let types: Vec<LogicalType> = (0..places.len())
        .map(|column| logical_type(schema, column))
        .collect();
    let mut builders: Vec<FieldBuilder> = types
        .iter()
        .map(|ty| FieldBuilder::new(*ty, BATCH_ROWS))
        .collect();
    loop {
        let (mut rows, mut bytes) = (0, 0);
        while rows < BATCH_ROWS && bytes < BATCH_BYTES && reader.next_row()? {
            for (column, builder) in builders.iter_mut().enumerate() {
                let field = reader.record.field(places[column]);
                bytes += field.bytes.len();
                let nullable = schema.field(column).is_nullable();
                if let Err(bad) = builder.append(field, nullable) {
                    let message = explained(bad, field.bytes, types[column]);
                    return Err(reader.bad_field(places[column], message));
                }
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(());
        }
        let arrays: Vec<ArrayRef> = builders.iter_mut().map(FieldBuilder::finish).collect();
        // A query that only counts rows reads no column.
        let counted = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &counted)
            .map_err(|error| source.damaged(error))?;
        if !emit(batch, reader.records.position_bytes()) {
            return Ok(());
        }
    }
}
