//! Data sets as Parquet files, which every engine of a comparison loads.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::error::{At, Context, LabError};

/// One table's Parquet file.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// The table's name in SQL.
    pub table: String,
    /// The columns, texts as Utf8.
    pub schema: SchemaRef,
    /// The file: Snappy pages, row groups of 2^20 rows.
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
    /// The size of its rows as uncompressed Arrow arrays, texts with 32-bit offsets.
    pub arrow_bytes: u64,
}

/// Writes one table's batches to `folder/TABLE.parquet`.
pub fn write_parquet(
    folder: &Path,
    table: &str,
    schema: &Schema,
    batches: impl Iterator<Item = RecordBatch>,
) -> Result<TableFile, LabError> {
    let path = folder.join(table).with_extension("parquet");
    let schema = with_plain_texts(schema);
    let doing = || format!("writing {}", path.display());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(1 << 20))
        .build();
    let file = File::create(&path).at(&path)?;
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))
        .by("the Parquet writer", doing())?;
    let (mut rows, mut arrow_bytes) = (0, 0);
    for batch in batches {
        let batch = as_plain_texts(&batch, &schema).by("Arrow", doing())?;
        rows += batch.num_rows() as u64;
        for column in batch.columns() {
            arrow_bytes += column
                .to_data()
                .get_slice_memory_size()
                .by("Arrow", "sizing a column")? as u64;
        }
        writer.write(&batch).by("the Parquet writer", doing())?;
    }
    writer.close().by("the Parquet writer", doing())?;
    Ok(TableFile {
        table: table.to_owned(),
        schema,
        path,
        rows,
        arrow_bytes,
    })
}

/// The schema with views replaced by the one text type that all engines support.
fn with_plain_texts(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let plain = match field.data_type() {
            DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(plain)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn as_plain_texts(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| cast(column, field.data_type()));
    RecordBatch::try_new(schema.clone(), columns.collect::<Result<Vec<_>, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringViewArray};
    use arrow::datatypes::Field;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn counts_bytes_without_views() {
        let fields = vec![
            Field::new("n", DataType::Int32, false),
            Field::new("s", DataType::Utf8View, false),
        ];
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(
            schema.clone(),
            vec![
                Arc::new(Int32Array::from(vec![1, 2])),
                Arc::new(StringViewArray::from(vec!["ab", "cde"])),
            ],
        )
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = write_parquet(folder.path(), "t", &schema, std::iter::once(batch)).unwrap();
        // Two numbers, three offsets, five letters.
        assert_eq!((file.rows, file.arrow_bytes), (2, 8 + 12 + 5));
        let read =
            ParquetRecordBatchReaderBuilder::try_new(File::open(&file.path).unwrap()).unwrap();
        assert_eq!(read.schema(), &file.schema);
    }
}
