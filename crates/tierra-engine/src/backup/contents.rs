//! The contents of a backup: what its frames are, and what they belong to.
//!
//! ```text
//! contents  when u64, microseconds since 1970 | 0 u8, or the older backup that it builds on: 1 u8, id u128, name of its file text
//!           | list of access text, one for each tier of the manifest
//!           | list of extent: number u64, 0 u8 or 1 u8 if it is in the older backup, run
//!           | list of table, in the manifest's order: rows u64, list of batch: rows u32, run
//!           | manifest, a list of bytes
//! run       bytes u64 | CRC u32 | list of frame: bytes in the file u32, CRC u32
//! ```
//!
//! The encoding is that of a manifest's body. The manifest is a pool's, with all offsets of copies zero, no directory, and tails
//! without logs: the rows of tails are the tables' batches, and bitmaps of deleted rows have extents that only the backup has.
//!
//! The run of an extent that is in the older backup has no frames here.
//!
//! Invariant: `decode(encode(c)) == c`. What `decode` accepts is a manifest by its own rules; each of its extents has one run, of
//! its length; and the frames, in the order of their runs, fill the file from the first line to the contents.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use super::frames::{FRAME_BYTES, Frame, Run};
use crate::manifest::{Decoder, Encoder, ExtentId, Manifest, ManifestError, SEGMENT_ROWS};
use crate::storage::access::Access;
use crate::storage::directory::is_tier_name;

/// The most bytes of a batch: a tail is sealed long before.
const BATCH_BYTES_MOST: u64 = 1 << 30;
/// The least bytes of a run, and of a frame, in the contents.
const RUN_BYTES: usize = 8 + 4 + 4;
const FRAME_ENTRY_BYTES: usize = 4 + 4;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Contents {
    /// When it was begun, in microseconds since 1970.
    pub(super) when_us: u64,
    /// How scans reach the blocks of each tier of the manifest.
    pub(super) accesses: Vec<Access>,
    /// The older backup that it builds on, if it does.
    pub(super) older: Option<OlderBackup>,
    /// In the order of the file.
    pub(super) extents: Vec<StoredExtent>,
    /// In the manifest's order.
    pub(super) tables: Vec<StoredTable>,
    pub(super) manifest: Manifest,
}

/// The backup that another one builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OlderBackup {
    pub(super) id: u128,
    /// The name of its file when this one was written.
    pub(super) name: String,
}

/// An extent of the manifest.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredExtent {
    pub(super) id: ExtentId,
    /// Whether its bytes are in the older backup; then the run has no frames.
    pub(super) is_older: bool,
    pub(super) run: Run,
}

/// A table, besides its extents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StoredTable {
    /// Rows of the table, those of its extents included.
    pub(super) rows: u64,
    /// The newest of them.
    pub(super) tail: Vec<StoredBatch>,
}

/// Rows as Arrow IPC.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredBatch {
    pub(super) rows: u32,
    pub(super) run: Run,
}

impl Contents {
    /// The bytes of all runs, not compressed.
    pub(super) fn len_bytes(&self) -> u64 {
        let extents = self.extents.iter().map(|extent| &extent.run);
        let batches = self.tables.iter().flat_map(|table| &table.tail);
        let runs = extents.chain(batches.map(|batch| &batch.run));
        runs.map(|run| run.len_bytes).sum()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.u64(self.when_us);
        match &self.older {
            None => out.u8(0),
            Some(older) => {
                out.u8(1);
                out.u128(older.id);
                out.text(&older.name);
            }
        }
        out.count(self.accesses.len());
        for access in &self.accesses {
            out.text(&access.to_string());
        }
        out.count(self.extents.len());
        for extent in &self.extents {
            out.u64(extent.id.0);
            out.u8(u8::from(extent.is_older));
            encode_run(&mut out, &extent.run);
        }
        out.count(self.tables.len());
        for table in &self.tables {
            out.u64(table.rows);
            out.count(table.tail.len());
            for batch in &table.tail {
                out.u32(batch.rows);
                encode_run(&mut out, &batch.run);
            }
        }
        out.bytes(&self.manifest.encode());
        out.into_bytes()
    }

    /// The contents in `bytes`, whose frames lie from `begin` to `end` of the file.
    pub(super) fn decode(bytes: &[u8], begin: u64, end: u64) -> Result<Contents, ManifestError> {
        let mut input = Decoder::new(bytes);
        let when_us = input.u64()?;
        let older = match input.u8()? {
            0 => None,
            1 => Some(OlderBackup {
                id: input.u128()?,
                name: input.text()?,
            }),
            other => return Err(input.fault(format!("an older backup of kind {other}"))),
        };
        let accesses = input.list(4, |input| {
            let word = input.text()?;
            let unknown = |_| ManifestError::Unknown {
                what: format!("a tier with access {word:?}"),
            };
            word.parse().map_err(unknown)
        })?;
        // Where the next frame lies.
        let mut at = begin;
        let extents = input.list(8 + 1 + RUN_BYTES, |input| {
            let id = ExtentId(input.u64()?);
            let is_older = match input.u8()? {
                0 => false,
                1 if older.is_some() => true,
                other => {
                    let what = format!("extent {} lies in backup {other}", id.0);
                    return Err(input.fault(what));
                }
            };
            let run = match is_older {
                true => decode_older_run(input)?,
                false => decode_run(input, &mut at, u64::MAX)?,
            };
            Ok(StoredExtent { id, is_older, run })
        })?;
        let mut tables = Vec::new();
        for _ in 0..input.count(8 + 4)? {
            tables.push(decode_table(&mut input, &mut at)?);
        }
        if at != end {
            let what = format!("its frames end at byte {at} of the file, not at {end}");
            return Err(input.fault(what));
        }
        let manifest = Manifest::decode(input.bytes()?)?;
        let contents = Contents {
            when_us,
            older,
            accesses,
            extents,
            tables,
            manifest,
        };
        match contents.contradiction() {
            Some(what) => Err(input.fault(what)),
            None => {
                input.finish()?;
                Ok(contents)
            }
        }
    }

    /// What in it cannot be, beside the manifest itself.
    fn contradiction(&self) -> Option<String> {
        let manifest = &self.manifest;
        if let Some(tier) = manifest.tiers.iter().find(|t| !is_tier_name(&t.name)) {
            return Some(format!("{:?} cannot name a tier", tier.name));
        }
        let is_name = |name: &str| Path::new(name).file_name() == Some(OsStr::new(name));
        if let Some(older) = self.older.as_ref().filter(|older| !is_name(&older.name)) {
            return Some(format!("{:?} is no name of a file", older.name));
        }
        if self.accesses.len() != manifest.tiers.len() {
            return Some("it does not say how each tier is read".to_owned());
        }
        if self.tables.len() != manifest.tables.len() {
            return Some("it has the rows of other tables".to_owned());
        }
        if let Some(table) = manifest.tables.iter().find(|t| !t.tail.logs.is_empty()) {
            return Some(format!("table {:?} has a log", table.spec.name));
        }
        let mut ids = BTreeSet::new();
        for StoredExtent { id, run, .. } in &self.extents {
            let entry = manifest.extents.get(id);
            let fits = entry.is_some_and(|entry| entry.len_bytes == run.len_bytes);
            if !fits || !ids.insert(*id) {
                let what = "is not one of its manifest, comes twice, or has another length";
                return Some(format!("extent {} {what}", id.0));
            }
        }
        let mut named = manifest.extents.keys();
        let missing = named.find(|id| !ids.contains(id))?;
        Some(format!("extent {} is not there", missing.0))
    }
}

fn encode_run(out: &mut Encoder, run: &Run) {
    out.u64(run.len_bytes);
    out.u32(run.crc);
    out.count(run.frames.len());
    for frame in &run.frames {
        out.u32(frame.stored_bytes);
        out.u32(frame.crc);
    }
}

/// A run whose first frame lies at `at`, which is moved behind its last one.
fn decode_run(input: &mut Decoder, at: &mut u64, most: u64) -> Result<Run, ManifestError> {
    let len_bytes = input.u64()?;
    let crc = input.u32()?;
    let frames = input.list(FRAME_ENTRY_BYTES, |input| {
        Ok(Frame {
            stored_bytes: input.u32()?,
            crc: input.u32()?,
        })
    })?;
    if len_bytes > most || len_bytes.div_ceil(FRAME_BYTES as u64) != frames.len() as u64 {
        let frames = frames.len();
        return Err(input.fault(format!("{len_bytes} bytes in {frames} frames")));
    }
    let run = Run {
        at: *at,
        len_bytes,
        crc,
        frames,
    };
    for place in run.places() {
        let stored_bytes = place.frame.stored_bytes as usize;
        if stored_bytes == 0 || stored_bytes > place.range.len() {
            let holds = place.range.len();
            return Err(input.fault(format!(
                "a frame of {stored_bytes} bytes that holds {holds}"
            )));
        }
        let next = at.checked_add(u64::from(place.frame.stored_bytes));
        *at = next.ok_or_else(|| input.fault("its frames are longer than any file"))?;
    }
    Ok(run)
}

/// A run whose frames are in another file.
fn decode_older_run(input: &mut Decoder) -> Result<Run, ManifestError> {
    let run = Run {
        at: 0,
        len_bytes: input.u64()?,
        crc: input.u32()?,
        frames: Vec::new(),
    };
    match input.u32()? {
        0 => Ok(run),
        frames => Err(input.fault(format!("{frames} frames of an extent that is not here"))),
    }
}

fn decode_table(input: &mut Decoder, at: &mut u64) -> Result<StoredTable, ManifestError> {
    let rows = input.u64()?;
    let (mut tail, mut tail_rows) = (Vec::new(), 0);
    for _ in 0..input.count(4 + RUN_BYTES)? {
        let batch = StoredBatch {
            rows: input.u32()?,
            run: decode_run(input, at, BATCH_BYTES_MOST)?,
        };
        tail_rows += u64::from(batch.rows);
        tail.push(batch);
    }
    if tail_rows > rows.min(SEGMENT_ROWS as u64) || tail.iter().any(|batch| batch.rows == 0) {
        return Err(input.fault(format!("{tail_rows} of {rows} rows in a tail")));
    }
    Ok(StoredTable { rows, tail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{CopyEntry, ExtentEntry, TierEntry};
    use crate::spec::replicas::TierId;
    use proptest::prelude::*;

    /// Contents without extents but for those of the manifest, whose frames lie from 64 on; and where they end.
    fn some() -> (Contents, u64) {
        let manifest = Manifest {
            tiers: vec![TierEntry {
                id: TierId::FIRST,
                name: "far".to_owned(),
                pool_id: 1,
                present: true,
            }],
            ..Manifest::default()
        };
        let contents = Contents {
            when_us: 5,
            older: None,
            accesses: vec![Access::Auto],
            extents: Vec::new(),
            tables: Vec::new(),
            manifest,
        };
        (contents, 64)
    }

    #[test]
    fn what_is_written_is_read() {
        let (contents, end) = some();
        let bytes = contents.encode();
        assert_eq!(Contents::decode(&bytes, 64, end).unwrap(), contents);
        for end in [63, 65] {
            let error = Contents::decode(&bytes, 64, end).unwrap_err();
            assert!(error.to_string().contains("its frames end"), "{error}");
        }
        for cut in 0..bytes.len() {
            assert!(Contents::decode(&bytes[..cut], 64, end).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let (contents, end) = some();
        let mut other = contents.clone();
        other.manifest.tiers[0].name = "../far".to_owned();
        let error = Contents::decode(&other.encode(), 64, end).unwrap_err();
        assert!(error.to_string().contains("cannot name a tier"), "{error}");
        let refused = |contents: &Contents, end, said: &str| {
            let error = Contents::decode(&contents.encode(), 64, end).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        };
        let mut other = contents.clone();
        other.accesses.push(Access::InPlace);
        refused(&other, end, "how each tier");
        let mut other = contents.clone();
        other.tables.push(StoredTable::default());
        refused(&other, end, "other tables");
        let run = Run {
            at: 64,
            len_bytes: 5,
            crc: 0,
            frames: vec![Frame {
                stored_bytes: 5,
                crc: 0,
            }],
        };
        let mut other = contents.clone();
        other.extents.push(StoredExtent {
            id: ExtentId(0),
            is_older: false,
            run: run.clone(),
        });
        refused(&other, end + 5, "is not one of its manifest");
        // An extent that no table names.
        other.manifest.next_extent_id = 1;
        let copy = CopyEntry {
            tier: TierId::FIRST,
            offset: 0,
        };
        let entry = ExtentEntry {
            len_bytes: 5,
            copies: vec![copy],
        };
        other.manifest.extents.insert(ExtentId(0), entry);
        refused(&other, end + 5, "nothing names extent");
        for (len_bytes, stored_bytes) in [(5, 0), (5, 6), (0, 5), (2 << 20, 5)] {
            let mut wrong = run.clone();
            (wrong.len_bytes, wrong.frames[0].stored_bytes) = (len_bytes, stored_bytes);
            other.extents[0].run = wrong;
            refused(&other, end + 5, "frame");
        }
        other.extents[0].is_older = true;
        refused(&other, end, "lies in backup 1");
        other.older = Some(OlderBackup {
            id: 7,
            name: "monday".to_owned(),
        });
        other.extents[0].run = run.clone();
        refused(&other, end, "frames of an extent that is not here");
        let bytes = contents.encode().len();
        other.extents.clear();
        other.manifest = contents.manifest.clone();
        let more = other.encode();
        assert_eq!(more.len(), bytes + 16 + 4 + "monday".len());
        assert_eq!(Contents::decode(&more, 64, end).unwrap(), other);
        other.older.as_mut().unwrap().name = "../monday".to_owned();
        refused(&other, end, "no name of a file");
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_error_or_contents(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            value in any::<u8>(),
        ) {
            let _ = Contents::decode(&bytes, 64, 64);
            let mut forged = some().0.encode();
            let at = at.index(forged.len());
            forged[at] = value;
            let _ = Contents::decode(&forged, 64, 64);
        }
    }
}
