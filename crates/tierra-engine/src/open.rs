//! What a database holds, read back: the manifest, the segments, the dictionaries, the tails.
//!
//! Invariant: reads only. Every extent is checked against its header before its bytes are believed,
//! and every row comes from a chunk whose descriptor, or a record whose checksum, holds.

use std::path::Path;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use tierra_column::Dictionary;
use tierra_interleave::GroupSize;
use tierra_memory::{Extent, Pool};

use crate::error::{DamageError, OpenError};
use crate::inverted::InvertedPart;
use crate::key::KeyIndexCell;
use crate::manifest::{DictionaryEntry, Manifest, PartEntry, Place, TableEntry};
use crate::segment::{SEGMENT_ROWS, Segment};
use crate::space::{OwnedExtent, Owner};
use crate::spec::TableSpec;
use crate::tail::{self, LogError, Tail, TailLog};
use crate::version::TableVersion;
use crate::writer::Published;

/// A table as it was read.
pub(crate) struct OpenedTable {
    pub(crate) entry: Arc<TableEntry>,
    pub(crate) version: TableVersion,
    pub(crate) log: TailLog,
}

/// The newest manifest, and the extents that it names, each checked to be what it should be.
pub(crate) fn read_manifest(dir: &Path, pool: &Arc<Pool>) -> Result<Published, OpenError> {
    let Some(root) = pool.root() else {
        return Err(OpenError::NotADatabase {
            dir: dir.to_owned(),
            why: "its creation was interrupted",
        });
    };
    if pool.verify_extent(root)? != Owner::Manifest.tag() {
        return Err(OpenError::NotADatabase {
            dir: dir.to_owned(),
            why: "its pool holds something else",
        });
    }
    let manifest = Manifest::decode(pool.bytes(root));
    let mut manifest = manifest.map_err(|source| OpenError::Manifest {
        dir: dir.to_owned(),
        source,
    })?;
    let mut lost_parts = false;
    for table in &mut manifest.tables {
        lost_parts |= forget_lost_parts(pool, table);
        check_owners(pool, table).map_err(|source| OpenError::Table {
            dir: dir.to_owned(),
            table: table.spec.name.clone(),
            source,
        })?;
    }
    let live = manifest.extents();
    pool.retain(&live)?;
    let extents: Vec<_> = live
        .into_iter()
        .map(|extent| OwnedExtent::published(pool, extent))
        .collect();
    let mut published = Published::new(manifest, Some(OwnedExtent::published(pool, root)), extents);
    if lost_parts {
        // Their space is free. Another column's part that is written there, and not published before
        // a power cut, must not be taken for the lost one: so nothing names that any more.
        let manifest = published.manifest().clone();
        if let Err(error) = published.publish(pool, manifest, Vec::new()) {
            tracing::warn!(%error, "a database without damaged parts of indexes could not be published");
        }
    }
    Ok(published)
}

fn check_owners(pool: &Pool, table: &TableEntry) -> Result<(), DamageError> {
    let segments = table.segments.iter().flat_map(|segment| &segment.extents);
    let logs = table.tail.logs.iter().map(|log| &log.extent);
    let images = table.dictionaries.iter().flatten();
    let images =
        images.flat_map(|dictionary| std::iter::once(&dictionary.main).chain(&dictionary.deltas));
    let expected = segments.map(|extent| (extent, Owner::Segment(table.id)));
    let expected = expected.chain(logs.map(|extent| (extent, Owner::Log(table.id))));
    let expected = expected.chain(images.map(|image| (&image.extent, Owner::Dictionary(table.id))));
    for (extent, owner) in expected {
        check_owner(pool, *extent, owner)?;
    }
    Ok(())
}

fn check_owner(pool: &Pool, extent: Extent, owner: Owner) -> Result<(), DamageError> {
    let (found, expected) = (pool.check_extent(extent)?, owner.tag());
    if found != expected {
        return Err(DamageError::Owner {
            offset: extent.offset,
            expected,
            found,
        });
    }
    Ok(())
}

/// Parts of indexes whose extents are something else by now are as good as not there: takes them out
/// of the manifest that was read, and says whether there were any.
fn forget_lost_parts(pool: &Pool, table: &mut Arc<TableEntry>) -> bool {
    let table = Arc::make_mut(table);
    let (spec, owner) = (table.spec.clone(), Owner::Index(table.id));
    let named = table.parts.len();
    table.parts.retain(|part| {
        let checked = check_owner(pool, part.extent, owner);
        let lost = checked.inspect_err(|error| warn_of_part(&spec, part, error));
        lost.is_ok()
    });
    table.parts.len() < named
}

fn warn_of_part(spec: &TableSpec, part: &PartEntry, error: &dyn std::fmt::Display) {
    let column = &spec.columns[part.column as usize].name;
    tracing::warn!(
        table = spec.name,
        column,
        %error,
        "a part of an index is damaged: it is built again"
    );
}

/// All tables of the manifest. Look-ups in inverted indexes take turns in groups of `size`.
pub(crate) fn read_tables(
    dir: &Path,
    pool: &Arc<Pool>,
    published: &Published,
    size: GroupSize,
) -> Result<Vec<OpenedTable>, OpenError> {
    let read = |entry: &Arc<TableEntry>| {
        read_table(pool, published, entry, size).map_err(|source| OpenError::Table {
            dir: dir.to_owned(),
            table: entry.spec.name.clone(),
            source,
        })
    };
    published.manifest().tables.iter().map(read).collect()
}

fn read_table(
    pool: &Arc<Pool>,
    published: &Published,
    entry: &Arc<TableEntry>,
    size: GroupSize,
) -> Result<OpenedTable, DamageError> {
    let mut segments = Vec::with_capacity(entry.segments.len());
    for segment in &entry.segments {
        let extents = segment
            .extents
            .iter()
            .map(|extent| published.extent(*extent))
            .collect();
        segments.push(Segment::open(segment.clone(), extents, &entry.spec)?);
    }
    let dictionaries = read_dictionaries(pool, entry)?;
    // A part can be built again: without it its rows are scanned. The writer names others instead.
    let parts = entry.parts.iter().filter_map(|part| {
        let extent = published.extent(part.extent);
        let dictionary = dictionaries[part.column as usize].as_deref();
        let opened = InvertedPart::open(part.clone(), extent, size, &segments, dictionary);
        opened
            .inspect_err(|error| warn_of_part(&entry.spec, part, error))
            .ok()
    });
    let indexes: Vec<_> = parts.collect();
    let (tail, log) = read_tail(pool, entry)?;
    let version = TableVersion {
        segments: segments.into(),
        dictionaries: dictionaries.into(),
        indexes: indexes.into(),
        tail,
        keys: KeyIndexCell::empty(),
    };
    Ok(OpenedTable {
        entry: entry.clone(),
        version,
        log,
    })
}

fn read_dictionaries(
    pool: &Pool,
    entry: &TableEntry,
) -> Result<Vec<Option<Arc<Dictionary>>>, DamageError> {
    let image = |place: &Place| {
        let bytes = pool.bytes(place.extent);
        &bytes[place.offset as usize..(place.offset + place.len_bytes) as usize]
    };
    let read = |(column, dictionary): (usize, &Option<DictionaryEntry>)| {
        let Some(dictionary) = dictionary else {
            return Ok(None);
        };
        let ty = entry.spec.columns[column].ty;
        let deltas: Vec<&[u8]> = dictionary.deltas.iter().map(image).collect();
        let opened = Dictionary::open(ty, dictionary.generation, image(&dictionary.main), &deltas);
        let opened = opened.map_err(|source| DamageError::Dictionary {
            column: entry.spec.columns[column].name.clone(),
            source,
        })?;
        Ok(Some(Arc::new(opened)))
    };
    entry.dictionaries.iter().enumerate().map(read).collect()
}

fn read_tail(pool: &Pool, entry: &TableEntry) -> Result<(Tail, TailLog), DamageError> {
    let schema = entry.spec.schema();
    let mut tail = Tail::empty(entry.tail.segment_id);
    let bytes_of = |extent: Extent| pool.bytes(extent);
    let log = tail::replay(&entry.tail, bytes_of, |sequence, payload, logged_bytes| {
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
    // A process that was killed may have left its last record in the caches. From here on it is shown,
    // and others come behind it: a power cut must not take it back.
    log.persist(pool)?;
    Ok((tail, log))
}
