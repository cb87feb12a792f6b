//! The lengths stated in a Parquet file: of its footer, of the footer's lists, of column chunks and pages.
//!
//! Pages state how many values they have and to how many bytes they unpack. A reader allocates room for both. So both are
//! compared with what the packed bytes can unpack to, and with the footer.

use std::io::{BufReader, Read, Seek, SeekFrom};

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::Length;

use super::fault::{Fault, LZ4_RATIO, UNPACKED_LEAST, ZSTD_RATIO, damaged};
use super::thrift::Compact;
use crate::load::shared_file::SharedFile;

const MAGIC: &[u8; 4] = b"PAR1";
/// The footer's length and the magic.
const TAIL_BYTES: u64 = 8;
/// Bytes of a page header that are read at a time.
const HEADER_BYTES: usize = 256;

pub(super) fn check(file: &SharedFile) -> Result<(), Fault> {
    let footer = footer(file)?;
    Compact::new(footer.as_slice(), footer.len() as u64).structure(&mut |_, _| {})?;
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new());
    let metadata = metadata.map_err(|error| Fault::Damaged(error.to_string()))?;
    for group in metadata.metadata().row_groups() {
        for column in group.columns() {
            check_column(file, column)?;
        }
    }
    Ok(())
}

fn footer(file: &SharedFile) -> Result<Vec<u8>, Fault> {
    let length = file.len();
    let Some(end) = length.checked_sub(TAIL_BYTES) else {
        return damaged("it is too short for a Parquet file");
    };
    let mut tail = [0; TAIL_BYTES as usize];
    let mut file = file.clone();
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    if magic != *MAGIC {
        return damaged(
            "it does not end as a Parquet file does; it may be cut short, or encrypted",
        );
    }
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(start) = end.checked_sub(footer_bytes) else {
        return damaged(format!(
            "its footer has {footer_bytes} bytes, the file {length}"
        ));
    };
    let mut footer = vec![0; footer_bytes as usize];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut footer)?;
    Ok(footer)
}

/// The numbers of a page header.
#[derive(Default)]
struct Page {
    unpacked: i64,
    packed: i64,
    /// The number of values of a data page.
    values: Option<i64>,
    /// The number of values of a dictionary page.
    dictionary: Option<i64>,
}

impl Page {
    fn see(&mut self, path: &[i64], number: i64) {
        match path {
            [2] => self.unpacked = number,
            [3] => self.packed = number,
            // Data pages of both versions.
            [5 | 8, 1] => self.values = Some(number),
            [7, 1] => self.dictionary = Some(number),
            _ => {}
        }
    }
}

fn check_column(file: &SharedFile, column: &ColumnChunkMetaData) -> Result<(), Fault> {
    let name = column.column_path().string();
    let start = match column.dictionary_page_offset() {
        Some(dictionary) if dictionary > 0 => dictionary.min(column.data_page_offset()),
        _ => column.data_page_offset(),
    };
    let place = u64::try_from(start)
        .ok()
        .zip(u64::try_from(column.compressed_size()).ok());
    let place = place.and_then(|(start, bytes)| Some((start, start.checked_add(bytes)?)));
    let Some((mut at, end)) = place.filter(|(_, end)| *end <= file.len()) else {
        return damaged(format!("column '{name}' lies behind its end"));
    };
    // The parts that are read besides its pages.
    for (offset, bytes) in [
        (column.column_index_offset(), column.column_index_length()),
        (column.offset_index_offset(), column.offset_index_length()),
        (column.bloom_filter_offset(), column.bloom_filter_length()),
    ] {
        let is_there = |(offset, bytes): (i64, i32)| {
            let end = u64::try_from(offset).ok().zip(u64::try_from(bytes).ok());
            end.and_then(|(offset, bytes)| offset.checked_add(bytes))
                .is_some_and(|end| end <= file.len())
        };
        if !offset.zip(bytes).is_none_or(is_there) {
            return damaged(format!("an index of column '{name}' lies behind its end"));
        }
    }
    let mut values = 0_i64;
    while at < end && values < column.num_values() {
        let left = end - at;
        let bytes = BufReader::with_capacity(HEADER_BYTES, file.from(at));
        let mut header = Compact::new(bytes, left);
        let mut page = Page::default();
        header.structure(&mut |path, number| page.see(path, number))?;
        let behind = header.left();
        let packed = u64::try_from(page.packed)
            .ok()
            .filter(|packed| *packed <= behind);
        let Some(packed) = packed else {
            return damaged(format!(
                "a page of column '{name}' has {} bytes of {behind}",
                page.packed
            ));
        };
        let most = unpacked_most(column.compression(), packed);
        if u64::try_from(page.unpacked).map_or(true, |unpacked| unpacked > most) {
            let unpacked = page.unpacked;
            return damaged(format!(
                "a page of column '{name}' has {packed} bytes for {unpacked}"
            ));
        }
        if page
            .dictionary
            .is_some_and(|items| !(0..=page.unpacked).contains(&items))
        {
            return damaged(format!(
                "a dictionary of column '{name}' is shorter than it says"
            ));
        }
        if let Some(found) = page.values {
            values = match values.checked_add(found) {
                Some(sum) if found >= 0 => sum,
                _ => return damaged(format!("a page of column '{name}' has {found} values")),
            };
        }
        at = end - behind + packed;
    }
    match values == column.num_values() {
        true => Ok(()),
        false => damaged(format!(
            "column '{name}' has {} values, and {values} in its pages",
            column.num_values()
        )),
    }
}

/// The most bytes that `packed` bytes can unpack to.
fn unpacked_most(codec: Compression, packed: u64) -> u64 {
    let ratio = match codec {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => LZ4_RATIO,
        Compression::GZIP(_) => 1_100,
        _ => ZSTD_RATIO,
    };
    packed.saturating_mul(ratio).saturating_add(UNPACKED_LEAST)
}
