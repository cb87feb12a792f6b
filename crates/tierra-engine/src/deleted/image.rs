//! The stored form of a segment's deleted rows, as a manifest names it.
//!
//! ```text
//!  0      4   5       8         12             16             20               24      28
//! | TDEL | 1 | 3 x 0 | segment | deleted rows | bitmap bytes | CRC of bitmap | 0 u32 | CRC of 0..28 | roaring bitmap
//!                       u32       u32             u32             u32                      u32
//! ```
//!
//! Invariant: what is read back is what was written, or an error. A bitmap that cannot be read is never taken for an empty one.

use std::sync::Arc;

use roaring::RoaringBitmap;
use tierra_column::FormatError;

use super::DeletedRows;
use super::row_ids::read_bitmap;

const MAGIC: [u8; 4] = *b"TDEL";
const FORMAT_VERSION: u8 = 1;
const HEADER_BYTES: usize = 32;

/// A bitmap to be stored.
pub(crate) struct Image {
    segment: u32,
    rows: RoaringBitmap,
}

impl Image {
    pub(crate) fn of(segment: u32, rows: &DeletedRows) -> Image {
        let rows = rows.bitmap();
        Image { segment, rows }
    }

    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }

    /// Number of deleted rows.
    pub(crate) fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn len_bytes(&self) -> usize {
        HEADER_BYTES + self.rows.serialized_size()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let written = self.rows.serialize_into(&mut bytes);
        written.expect("a vector takes all bytes");
        let (header, bitmap) = bytes.split_at_mut(HEADER_BYTES);
        header[..4].copy_from_slice(&MAGIC);
        header[4] = FORMAT_VERSION;
        header[8..12].copy_from_slice(&self.segment.to_le_bytes());
        header[12..16].copy_from_slice(&self.rows().to_le_bytes());
        header[16..20].copy_from_slice(&(bitmap.len() as u32).to_le_bytes());
        header[20..24].copy_from_slice(&crc32c::crc32c(bitmap).to_le_bytes());
        let crc = crc32c::crc32c(&header[..28]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// The deleted rows of a segment with `segment_rows` rows, of which `rows` are deleted according to the manifest.
pub(crate) fn read(
    bytes: &[u8],
    segment: u32,
    segment_rows: u32,
    rows: u32,
) -> Result<Arc<DeletedRows>, FormatError> {
    let corrupt = |why: String| FormatError::Corrupt {
        what: "a bitmap of deleted rows",
        why,
    };
    let Some((header, bitmap)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(corrupt("it is shorter than its header".to_owned()));
    };
    let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if header[..4] != MAGIC || crc32c::crc32c(&header[..28]) != u32_at(28) {
        return Err(corrupt("the checksum of its header is wrong".to_owned()));
    }
    if header[4] != FORMAT_VERSION {
        return Err(corrupt(format!("it has format version {}", header[4])));
    }
    if bitmap.len() != u32_at(16) as usize || crc32c::crc32c(bitmap) != u32_at(20) {
        return Err(corrupt("its checksum is wrong".to_owned()));
    }
    let read = read_bitmap(bitmap).map_err(&corrupt)?;
    let is_right = (u32_at(8), u32_at(12)) == (segment, rows)
        && read.len() == u64::from(rows)
        && read.max().is_some_and(|last| last < segment_rows);
    match is_right {
        true => Ok(Arc::new(read.iter().collect())),
        false => Err(corrupt(format!(
            "it is not that of segment {segment}, which has {segment_rows} rows, {rows} of them deleted"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written_or_an_error() {
        for rows in [vec![0], vec![5, 99_999], (0..100_000).collect()] {
            let deleted: DeletedRows = rows.iter().copied().collect();
            let image = Image::of(3, &deleted);
            let bytes = image.bytes();
            assert_eq!(bytes.len(), image.len_bytes());
            let count = rows.len() as u32;
            let back = read(&bytes, 3, 100_000, count).unwrap();
            assert!(back.iter().eq(rows));
            for (segment, segment_rows, count) in
                [(4, 100_000, count), (3, 0, count), (3, 100_000, count + 1)]
            {
                assert!(read(&bytes, segment, segment_rows, count).is_err());
            }
            for at in 0..bytes.len() {
                let mut forged = bytes.clone();
                forged[at] ^= 1;
                assert!(read(&forged, 3, 100_000, count).is_err(), "byte {at}");
                assert!(read(&bytes[..at], 3, 100_000, count).is_err(), "{at} bytes");
            }
        }
    }
}
