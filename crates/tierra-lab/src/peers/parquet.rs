//! Parquet's encodings without general compression: dictionaries and, where these grow too large, version 2's differences.

use arrow::array::{ArrayRef, RecordBatch};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

/// The encoding's name in results.
pub const ENCODING: &str = "Parquet, uncompressed";

/// A column as a Parquet file in memory.
#[derive(Clone, Debug)]
pub struct Stored(Bytes);

impl Stored {
    /// Writes values as the only column of a file, one row group.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(values: &ArrayRef) -> Result<Stored, ParquetError> {
        let batch = RecordBatch::try_from_iter([("values", values.clone())])?;
        let properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::UNCOMPRESSED)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_max_row_group_row_count(Some(values.len().max(1)))
            .build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        Ok(Stored(writer.into_inner()?.into()))
    }

    /// Bytes of the file.
    pub fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// Decodes it into arrays of that many values.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn decode(
        &self,
        values: usize,
        mut take: impl FnMut(ArrayRef),
    ) -> Result<(), ParquetError> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(self.0.clone())?;
        for batch in reader.with_batch_size(values).build()? {
            take(batch?.column(0).clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, StringViewArray};
    use arrow::compute::concat;

    use super::*;

    #[test]
    fn gives_back_what_it_got() {
        let texts = (0..3_000).map(|n| (n % 7 > 0).then(|| format!("text {n}")));
        let values: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        let stored = Stored::new(&values).unwrap();
        let mut parts = Vec::new();
        stored.decode(1_024, |part| parts.push(part)).unwrap();
        assert_eq!(parts.len(), 3);
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        assert_eq!(&concat(&parts).unwrap(), &values);
    }
}
