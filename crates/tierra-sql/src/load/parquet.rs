//! Parquet: columns are decoded on the thread that encodes them.
//!
//! A Parquet file stores column chunks, and segments are made of them. Each thread of the load decodes the rows of one
//! segment in one column and packs them while they are in its cache. Row groups need not match segments; pages outside a
//! segment are skipped, not decoded.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tierra_engine::ColumnSource;

use super::error::LoadError;
use super::shared_file::SharedFile;
use super::source::Source;
use super::target::{LoadTarget, spec_of_file};
use super::{check, columns};

/// Rows decoded at a time: few enough that the allocator reuses the same pages.
const BATCH_ROWS: usize = 1 << 14;

pub(super) fn load(
    source: &Source<'_>,
    shared: SharedFile,
    target: &mut LoadTarget<'_>,
) -> Result<(), LoadError> {
    let metadata = ArrowReaderMetadata::load(&shared, ArrowReaderOptions::new())
        .map_err(|error| source.damaged(error))?;
    let metadata = with_string_views(source, metadata)?;
    let (file, table) = (Arc::clone(metadata.schema()), target.name);
    let schema = target.begin(source, || spec_of_file(source, table, &file))?;
    let names: Vec<String> = file
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let places = columns::matched(source.path, &names, table, &schema)?;
    target.push_columns(
        source,
        &Columns::new(source, shared, metadata, places, &schema)?,
    )
}

/// The same file with strings decoded as views. Tables take views without a copy.
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

/// The position of a row group in the file.
struct RowGroup {
    rows: Range<u64>,
    /// By column of the table: the bytes of its chunk, unpacked and in the file.
    bytes: Vec<(u64, u64)>,
}

/// The columns of a file that a table takes, in the table's order.
struct Columns<'a> {
    source: &'a Source<'a>,
    file: SharedFile,
    metadata: ArrowReaderMetadata,
    /// One schema with one column for each.
    schemas: Vec<SchemaRef>,
    masks: Vec<ProjectionMask>,
    groups: Vec<RowGroup>,
    /// The size of these columns in the file.
    stored_bytes: u64,
    /// The bytes of the file read so far.
    read_bytes: AtomicU64,
}

impl<'a> Columns<'a> {
    fn new(
        source: &'a Source<'a>,
        file: SharedFile,
        metadata: ArrowReaderMetadata,
        places: Vec<usize>,
        schema: &Schema,
    ) -> Result<Self, LoadError> {
        let file_schema = metadata.parquet_schema();
        let masks: Vec<ProjectionMask> = places
            .iter()
            .map(|place| ProjectionMask::roots(file_schema, [*place]))
            .collect();
        let count = |number: i64| u64::try_from(number).map_err(|error| source.damaged(error));
        let mut groups = Vec::with_capacity(metadata.metadata().num_row_groups());
        let mut first_row = 0_u64;
        for group in metadata.metadata().row_groups() {
            let rows = count(group.num_rows())?;
            let mut bytes = vec![(0, 0); places.len()];
            for (mask, (unpacked, stored)) in masks.iter().zip(&mut bytes) {
                // Only nested columns have more than one leaf.
                for leaf in (0..group.num_columns()).filter(|leaf| mask.leaf_included(*leaf)) {
                    let chunk = group.column(leaf);
                    // A footer has no checksum, and the load plans with its numbers before it reads a page.
                    let is_flat = chunk.column_descr().max_rep_level() == 0;
                    if is_flat && chunk.num_values() != group.num_rows() {
                        let values = chunk.num_values();
                        return Err(source.damaged(format!(
                            "a row group of {rows} rows has {values} values in a column"
                        )));
                    }
                    *unpacked += count(group.column(leaf).uncompressed_size())?;
                    *stored += count(group.column(leaf).compressed_size())?;
                }
            }
            let end = first_row
                .checked_add(rows)
                .ok_or_else(|| source.damaged("its row groups have more than 2^64 rows"))?;
            groups.push(RowGroup {
                rows: first_row..end,
                bytes,
            });
            first_row = end;
        }
        let schemas = schema
            .fields()
            .iter()
            .map(|field| Arc::new(Schema::new(vec![Arc::clone(field)])))
            .collect();
        let stored = groups.iter().flat_map(|group| &group.bytes);
        Ok(Self {
            source,
            stored_bytes: stored.map(|(_, stored)| stored).sum(),
            file,
            metadata,
            schemas,
            masks,
            groups,
            read_bytes: AtomicU64::new(0),
        })
    }

    /// The row groups that contain some of `rows`.
    fn overlapping(&self, rows: &Range<u64>) -> Range<usize> {
        let first = self
            .groups
            .partition_point(|group| group.rows.end <= rows.start);
        let end = self
            .groups
            .partition_point(|group| group.rows.start < rows.end);
        first..end.max(first)
    }

    /// Sums a column's bytes over `rows`. A row group's bytes are spread evenly over its rows.
    fn share(&self, column: usize, rows: &Range<u64>, of: impl Fn((u64, u64)) -> u64) -> u64 {
        self.groups[self.overlapping(rows)]
            .iter()
            .map(|group| {
                let taken = group.rows.end.min(rows.end) - group.rows.start.max(rows.start);
                let all = group.rows.end - group.rows.start;
                (u128::from(of(group.bytes[column])) * u128::from(taken) / u128::from(all.max(1)))
                    as u64
            })
            .sum()
    }

    fn advance(&self, column: usize, rows: &Range<u64>) {
        let read = self.share(column, rows, |(_, stored)| stored);
        let bytes = self.read_bytes.fetch_add(read, Ordering::Relaxed) + read;
        // Columns are read at different times; progress counts rows as if columns advanced evenly.
        let done = u128::from(self.rows()) * u128::from(bytes.min(self.stored_bytes))
            / u128::from(self.stored_bytes.max(1));
        self.source.progress(done as u64, bytes);
    }
}

impl ColumnSource for Columns<'_> {
    type Error = LoadError;

    fn rows(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.rows.end)
    }

    fn bytes(&self, column: usize, rows: Range<u64>) -> u64 {
        // Values that take few bytes in the file still take a value per row in the table.
        let least = 4 * (rows.end - rows.start);
        self.share(column, &rows, |(unpacked, _)| unpacked)
            .max(least)
    }

    fn read(&self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, LoadError> {
        check::guarded(self.source, || self.read_arrays(column, rows))
    }
}

impl Columns<'_> {
    fn read_arrays(&self, column: usize, rows: Range<u64>) -> Result<Vec<ArrayRef>, LoadError> {
        self.source.check_cancelled()?;
        let groups = self.overlapping(&rows);
        let first_row = self
            .groups
            .get(groups.start)
            .map_or(0, |group| group.rows.start);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.file.clone(),
            self.metadata.clone(),
        )
        .with_projection(self.masks[column].clone())
        .with_row_groups(groups.collect())
        .with_offset((rows.start - first_row) as usize)
        .with_limit((rows.end - rows.start) as usize)
        .with_batch_size(BATCH_ROWS)
        .build()
        .map_err(|error| self.source.damaged(error))?;
        let mut arrays =
            Vec::with_capacity(((rows.end - rows.start) as usize).div_ceil(BATCH_ROWS));
        for batch in reader {
            let batch = batch.map_err(|error| self.source.damaged(error))?;
            let batch = columns::converted(self.source.path, &batch, &self.schemas[column], &[0])?;
            arrays.extend_from_slice(batch.columns());
        }
        self.advance(column, &rows);
        Ok(arrays)
    }
}
