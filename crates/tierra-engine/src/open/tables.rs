//! The tables of a manifest, read back: their segments, dictionaries, parts of indexes, runs of keys and tails.
//!
//! Every row comes from a chunk whose descriptor, or a record whose checksum, holds. What fails in one copy is taken
//! from another.

use std::path::Path;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use tierra_column::Dictionary;
use tierra_memory::ExtentLabel;

use super::{missing_with, warn_of_part, warn_of_run};
use crate::calibration::Calibration;
use crate::error::{DamageError, OpenError};
use crate::faults::{FaultKind, HEADER};
use crate::inverted::InvertedPart;
use crate::key::{KeyIndexCell, KeyRun};
use crate::manifest::{DictionaryEntry, ExtentId, Place, TableEntry};
use crate::mend;
use crate::segment::{SEGMENT_ROWS, Segment};
use crate::space::{ExtentCopy, OwnedExtent, Owner};
use crate::table::Missing;
use crate::tail::{self, LogError, Tail, TailLog};
use crate::tiers::Tiers;
use crate::version::TableVersion;
use crate::writer::Published;

/// A table as it was read.
pub(crate) struct OpenedTable {
    pub(crate) entry: Arc<TableEntry>,
    pub(crate) version: TableVersion,
    pub(crate) log: TailLog,
    /// What of it is in tiers that are missing.
    pub(crate) missing: Option<Missing>,
}

/// All tables of the manifest. Gates of lookups start as `calibration` says.
pub(crate) fn read_tables(
    dir: &Path,
    tiers: &Tiers,
    published: &Published,
    calibration: &Calibration,
) -> Result<Vec<OpenedTable>, OpenError> {
    let read = |entry: &Arc<TableEntry>| {
        let is_held = |id| published.extent(id).is_some();
        let missing = missing_with(entry, tiers, &published.manifest().extents, is_held);
        if let Some(Missing::Rows(_)) = missing {
            return Ok(without_rows(entry, missing));
        }
        read_table(published, entry, missing, calibration).map_err(|source| OpenError::Table {
            dir: dir.to_owned(),
            table: entry.spec.name.clone(),
            source,
        })
    };
    published.manifest().tables.iter().map(read).collect()
}

/// A table whose rows are not there.
fn without_rows(entry: &Arc<TableEntry>, missing: Option<Missing>) -> OpenedTable {
    OpenedTable {
        entry: entry.clone(),
        version: TableVersion {
            segments: Arc::new([]),
            dictionaries: vec![None; entry.spec.columns.len()].into(),
            indexes: Arc::new([]),
            tail: Tail::empty(entry.tail.segment_id),
            keys: KeyIndexCell::of([]),
        },
        log: TailLog::starting_at(entry.tail.first_sequence),
        missing,
    }
}

fn read_table(
    published: &Published,
    entry: &Arc<TableEntry>,
    missing: Option<Missing>,
    calibration: &Calibration,
) -> Result<OpenedTable, DamageError> {
    let mut segments = Vec::with_capacity(entry.segments.len());
    for segment in &entry.segments {
        let extents = segment
            .extents
            .iter()
            .map(|id| published.extent(*id).cloned())
            .collect();
        let why = missing.as_ref().map(Missing::why);
        let segment = Segment::open(segment.clone(), extents, &entry.spec, why)?;
        for extent in segment.extents().iter().flatten() {
            restore_header(extent, || segment.is_whole_in(extent))?;
        }
        segments.push(segment);
    }
    let dictionaries = read_dictionaries(published, entry, calibration)?;
    // A part can be built again: without it its rows are scanned. The writer names others instead.
    let parts = entry.parts.iter().filter_map(|part| {
        // With a column's chunks, parts of its index may be missing.
        let extent = published.extent(part.extent)?.clone();
        let dictionary = dictionaries[part.column as usize].as_deref();
        let opened = InvertedPart::open(part.clone(), extent, calibration, &segments, dictionary);
        opened
            .inspect_err(|error| warn_of_part(&entry.spec, part, error))
            .ok()
    });
    let indexes: Vec<_> = parts.collect();
    for part in &indexes {
        restore_header(part.extent(), || part.is_whole())?;
    }
    let runs = entry.runs.iter().filter_map(|run| {
        let extent = published.extent(run.extent)?.clone();
        let opened = KeyRun::open(run.clone(), extent, calibration, &segments);
        opened
            .inspect_err(|error| warn_of_run(&entry.spec, error))
            .ok()
    });
    let runs: Vec<_> = runs.collect();
    for run in &runs {
        restore_header(run.extent(), || run.is_whole())?;
    }
    let (tail, log) = read_tail(published, entry)?;
    let version = TableVersion {
        segments: segments.into(),
        dictionaries: dictionaries.into(),
        indexes: indexes.into(),
        tail,
        keys: KeyIndexCell::of(runs),
    };
    Ok(OpenedTable {
        entry: entry.clone(),
        version,
        log,
        missing,
    })
}

/// Gives the only copy of an extent its header again, if it has none and what lies there is right.
fn restore_header(
    extent: &OwnedExtent,
    is_right: impl FnOnce() -> bool,
) -> Result<(), DamageError> {
    let copy = extent.first();
    if !copy.pool().has_damaged_header(copy.extent()) {
        return Ok(());
    }
    let log = &extent.all_losses().log;
    log.found(extent, copy, HEADER, FaultKind::Header);
    if is_right() {
        let sealed = !matches!(extent.owner(), Owner::Log(_));
        let label = ExtentLabel {
            owner: extent.owner().tag(),
            payload_crc: sealed.then(|| crc32c::crc32c(copy)),
        };
        copy.pool().restore_header(copy.extent(), &label)?;
        log.repaired(extent, copy, &(0..usize::MAX), "what it heads");
    }
    Ok(())
}

/// An extent that a table names.
fn extent(published: &Published, id: ExtentId) -> &Arc<OwnedExtent> {
    let held = published.extent(id);
    held.expect("a table without one of its extents was refused")
}

/// The dictionaries, each from the first copies that are right; others are put right from them.
fn read_dictionaries(
    published: &Published,
    entry: &TableEntry,
    calibration: &Calibration,
) -> Result<Vec<Option<Arc<Dictionary>>>, DamageError> {
    let read = |(column, dictionary): (usize, &Option<DictionaryEntry>)| {
        let Some(dictionary) = dictionary else {
            return Ok(None);
        };
        let places = || std::iter::once(&dictionary.main).chain(&dictionary.deltas);
        let copies = places().map(|place| extent(published, place.extent).copies().len());
        let copies = copies.max().unwrap_or(1);
        let mut opened = open_dictionary(published, entry, column, dictionary, calibration, 0);
        for copy in 1..copies {
            if opened.is_ok() {
                break;
            }
            let other = open_dictionary(published, entry, column, dictionary, calibration, copy);
            if other.is_ok() {
                for place in places() {
                    let extent = extent(published, place.extent);
                    mend::range(extent, copy_of(extent, copy), range(place));
                }
                opened = other;
            }
        }
        if opened.is_ok() {
            for place in places() {
                restore_header(extent(published, place.extent), || true)?;
            }
        }
        opened.map(Some)
    };
    entry.dictionaries.iter().enumerate().map(read).collect()
}

fn range(place: &Place) -> std::ops::Range<usize> {
    place.offset as usize..(place.offset + place.len_bytes) as usize
}

/// A copy by its place among the copies; the last where there are fewer.
fn copy_of(extent: &OwnedExtent, copy: usize) -> &Arc<ExtentCopy> {
    let copies = extent.copies();
    &copies[copy.min(copies.len() - 1)]
}

fn open_dictionary(
    published: &Published,
    entry: &TableEntry,
    column: usize,
    dictionary: &DictionaryEntry,
    calibration: &Calibration,
    copy: usize,
) -> Result<Arc<Dictionary>, DamageError> {
    let image = |place: &Place| {
        let bytes = copy_of(extent(published, place.extent), copy);
        &bytes[range(place)]
    };
    let ty = entry.spec.columns[column].ty;
    let deltas: Vec<&[u8]> = dictionary.deltas.iter().map(image).collect();
    let opened = Dictionary::open(ty, dictionary.generation, image(&dictionary.main), &deltas);
    let opened = opened.map_err(|source| DamageError::Dictionary {
        column: entry.spec.columns[column].name.clone(),
        source,
    })?;
    Ok(Arc::new(opened.with_gate(calibration.dictionary_gate(ty))))
}

fn read_tail(published: &Published, entry: &TableEntry) -> Result<(Tail, TailLog), DamageError> {
    let schema = entry.spec.schema();
    let mut tail = Tail::empty(entry.tail.segment_id);
    let copies_of = |id| {
        let copies = extent(published, id).copies().iter();
        copies.map(|copy| &***copy).collect()
    };
    let read = tail::replay(&entry.tail, copies_of, |sequence, payload, logged_bytes| {
        // Near, and aligned as arrow wants it.
        let mut near = MutableBuffer::with_capacity(payload.len());
        near.extend_from_slice(payload);
        let rows = tail::decode(&schema, &Buffer::from(near));
        let pushed = rows.and_then(|rows| {
            if tail.rows() as usize + rows.num_rows() > SEGMENT_ROWS {
                let why = format!("more than {SEGMENT_ROWS} rows in one tail");
                return Err(ArrowError::IpcError(why));
            }
            tail.push(rows, logged_bytes)
        });
        tail = pushed.map_err(|source| LogError::Rows { sequence, source })?;
        Ok(())
    })?;
    let (end, mends) = read;
    tail::mend(&mends, |id| &**extent(published, id))?;
    for log in &entry.tail.logs {
        restore_header(extent(published, log.extent), || true)?;
    }
    // A process that was killed may have left its last record in the caches. From here on it is shown,
    // and others come behind it: a power cut must not take it back.
    let last = entry.tail.logs.last();
    let last = last.map(|log| (*log, &**extent(published, log.extent)));
    for copy in last.iter().flat_map(|(_, extent)| extent.copies()) {
        copy.pool().persist_log(copy.extent(), end.at)?;
    }
    Ok((tail, TailLog::reopened(last, end)?))
}
