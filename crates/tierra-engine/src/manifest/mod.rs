//! The manifest: one immutable version of a database's state.
//!
//! It names the tiers, every table, and every extent of a table with all its copies. Each tier's pool has a manifest of its own.
//! Publishing it through the pools' superblocks commits, and the newest one counts. Space that neither a published manifest nor a
//! snapshot names is free. Only the writer thread makes new versions.
//!
//! ```text
//! offset  0  magic "TIERRAMF"
//!         8  format version, u8       (another one is rejected before anything else is read)
//!         9  zero, 3 bytes
//!        12  CRC32C of the body, u32
//!        16  length of the body, u64
//!        24  body: see `layout`; the chapter "Manifest and tail log" of docs/file-format.md draws it
//! ```

mod codec;
mod entries;
mod error;
mod layout;
mod replicas;
pub(crate) mod row_id;
#[cfg(test)]
mod tests;

pub(crate) use codec::{COUNTER_END, Decoder, Encoder};
pub use entries::SEGMENT_ROWS;
pub(crate) use entries::{
    ChunkPlace, ColumnId, CopyEntry, DatabaseId, DeletedEntry, DictionaryEntry, DirectoryIdentity,
    ExtentEntry, ExtentId, LogEntry, Manifest, PartEntry, RunEntry, SegmentEntry, StoredRange,
    TableEntry, TailEntry, TierEntry, lineage_mark,
};
pub use error::ManifestError;
pub(crate) use replicas::{FurtherReplica, ReplicaNumber};

/// First bytes of a manifest.
const MAGIC: [u8; 8] = *b"TIERRAMF";
/// The layout that this build writes, and the only one that it reads.
pub(crate) const FORMAT_VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;

impl Manifest {
    /// The bytes to store.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = layout::encode(self);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[FORMAT_VERSION, 0, 0, 0]);
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Checks and reads what [`Manifest::encode`] wrote. Bytes after the body are ignored: an extent may be longer.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() < HEADER_BYTES {
            return Err(ManifestError::Truncated {
                expected: HEADER_BYTES as u64,
                found: bytes.len() as u64,
            });
        }
        let (header, body) = bytes.split_at(HEADER_BYTES);
        if header[..8] != MAGIC {
            return Err(ManifestError::Magic);
        }
        if header[8] != FORMAT_VERSION {
            return Err(ManifestError::Version {
                found: header[8],
                supported: FORMAT_VERSION,
            });
        }
        let expected = u32::from_le_bytes(header[12..16].try_into().expect("four bytes"));
        let len = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
        let body = usize::try_from(len)
            .ok()
            .and_then(|len| body.get(..len))
            .ok_or(ManifestError::Truncated {
                expected: len,
                found: body.len() as u64,
            })?;
        let found = crc32c::crc32c(body);
        if found != expected {
            return Err(ManifestError::Checksum { expected, found });
        }
        layout::decode(body)
    }
}
