//! Objects that may have a near copy: chunks, parts of inverted indexes, runs of keys. All compete for the same near memory.
//!
//! Invariant: an object's name determines its bytes. Copies are made while tables change; a copy whose object no longer exists
//! when it is done is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tierra_column::{Encoding, FormatError};
use tierra_memory::emulation::FarMemory;
use tierra_memory::placement::{Candidate, Saved, Uses};
use tierra_memory::{NearCopy, NearMemory};

use crate::error::StorageError;
use crate::index::inverted::InvertedPart;
use crate::index::key::KeyRun;
use crate::segment::Segment;
use crate::spec::{ColumnSpec, TableSpec};
use crate::table::near_object::ObjectName;
use crate::table::version::TableVersion;

/// Where a column of a table is read: some of it may have copies in near memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnPlacement {
    /// The table's name.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// Bytes of its chunks, one copy.
    pub stored_bytes: u64,
    /// The encodings of its chunks, each once, in their order, as scans read them.
    pub encodings: BTreeSet<Encoding>,
    /// The same as single values are looked up.
    pub lookup_encodings: BTreeSet<Encoding>,
    /// Bytes of these chunks with a near copy.
    pub near_bytes: u64,
    /// Bytes of its inverted index; for a key's first column, also those of the key's index.
    pub index_bytes: u64,
    /// Bytes of these indexes with a near copy.
    pub index_near_bytes: u64,
    /// Its heat: the time that near copies of its chunks and indexes save its readers, or would save. It fades while anything is
    /// read: after half a minute a use counts a third.
    pub heat: Duration,
}

/// Where the columns of a table are read.
pub(crate) fn placements(spec: &TableSpec, version: &TableVersion) -> Vec<ColumnPlacement> {
    let none = |column: &ColumnSpec| ColumnPlacement {
        table: spec.name.clone(),
        column: column.name.clone(),
        stored_bytes: 0,
        encodings: BTreeSet::new(),
        lookup_encodings: BTreeSet::new(),
        near_bytes: 0,
        index_bytes: 0,
        index_near_bytes: 0,
        heat: Duration::ZERO,
    };
    let mut placements: Vec<_> = spec.columns.iter().map(none).collect();
    let mut saved_ns = vec![0.0; placements.len()];
    for object in objects(version) {
        let column = match &object {
            Object::Chunk(_, column) => *column,
            Object::Part(part) => part.column(),
            Object::Run(_) => spec.primary_key[0],
        };
        let of_column = &mut placements[column];
        if let Object::Chunk(segment, column) = &object {
            of_column.encodings.extend(segment.encoding(*column));
            let looked_up = segment.for_lookups().encoding(*column);
            of_column.lookup_encodings.extend(looked_up);
        }
        let (stored, near) = match object {
            Object::Chunk(..) => (&mut of_column.stored_bytes, &mut of_column.near_bytes),
            _ => (&mut of_column.index_bytes, &mut of_column.index_near_bytes),
        };
        *stored += object.stored_bytes();
        *near += object.near().map_or(0, |_| object.stored_bytes());
        saved_ns[column] += object.uses().saved_ns();
    }
    for (placement, saved_ns) in placements.iter_mut().zip(saved_ns) {
        placement.heat = Duration::from_nanos(saved_ns as u64);
    }
    placements
}

/// An object in a version.
pub(crate) enum Object<'v> {
    Chunk(&'v Arc<Segment>, usize),
    Part(&'v Arc<InvertedPart>),
    Run(&'v Arc<KeyRun>),
}

/// All objects of a version that are readable and in use.
pub(crate) fn objects(version: &TableVersion) -> impl Iterator<Item = Object<'_>> {
    let segments = version.segments.iter();
    let chunks = segments.flat_map(|segment| {
        let columns = 0..segment.uses().len();
        let there = columns.filter(|column| !segment.is_placeholder(*column));
        there.map(move |column| Object::Chunk(segment, column))
    });
    let parts = version.indexes.iter().filter(|part| !part.is_given_up());
    let runs = version.keys.runs().iter().filter(|run| !run.is_given_up());
    chunks
        .chain(parts.map(Object::Part))
        .chain(runs.map(Object::Run))
}

impl ObjectName {
    /// The object, if the version has it.
    pub(crate) fn find<'v>(&self, version: &'v TableVersion) -> Option<Object<'v>> {
        match self {
            Self::Chunk {
                segment,
                column,
                place,
            } => {
                let segment = version.segments.get(*segment)?;
                let is_it = segment.place(*column) == *place;
                is_it.then_some(Object::Chunk(segment, *column))
            }
            Self::Part(entry) => {
                let mut parts = version.indexes.iter();
                let found = parts.find(|part| Arc::ptr_eq(part.entry(), entry));
                found.map(Object::Part)
            }
            Self::Run(entry) => {
                let mut runs = version.keys.runs().iter();
                let found = runs.find(|run| Arc::ptr_eq(run.entry(), entry));
                found.map(Object::Run)
            }
        }
    }
}

impl<'v> Object<'v> {
    pub(crate) fn name(&self) -> ObjectName {
        match self {
            Self::Chunk(segment, column) => ObjectName::Chunk {
                segment: segment.id(),
                column: *column,
                place: segment.place(*column),
            },
            Self::Part(part) => ObjectName::Part(part.entry().clone()),
            Self::Run(run) => ObjectName::Run(run.entry().clone()),
        }
    }

    /// Its stored bytes, one copy.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match self {
            Self::Chunk(segment, column) => segment.stored_bytes(*column),
            Self::Part(part) => part.extent().len_bytes(),
            Self::Run(run) => run.extent().len_bytes(),
        }
    }

    /// Bytes of its near copy, or of one that would be made.
    pub(crate) fn near_bytes(&self, spec: &TableSpec) -> u64 {
        match self {
            Self::Chunk(segment, column) => segment.near_bytes(spec, *column),
            Self::Part(_) | Self::Run(_) => self.stored_bytes(),
        }
    }

    /// The stored copy that is read without a near one, to measure how fast it is.
    pub(crate) fn stored(&self) -> &'v [u8] {
        match self {
            Self::Chunk(segment, column) => segment.stored(*column),
            Self::Part(part) => part.extent().read(),
            Self::Run(run) => run.extent().read(),
        }
    }

    /// The far memory that this copy is taken for now.
    pub(crate) fn emulated(&self) -> Option<FarMemory> {
        match self {
            Self::Chunk(segment, column) => segment.stored_emulated(*column),
            Self::Part(part) => part.extent().read().emulated(),
            Self::Run(run) => run.extent().read().emulated(),
        }
    }

    /// Its near copy.
    pub(crate) fn near(&self) -> Option<&'v Arc<NearCopy>> {
        match self {
            Self::Chunk(segment, column) => segment.near(*column),
            Self::Part(part) => part.pages().near(),
            Self::Run(run) => run.pages().near(),
        }
    }

    /// Statistics of its reads.
    pub(crate) fn uses(&self) -> &'v Uses {
        match self {
            Self::Chunk(segment, column) => &segment.uses()[*column],
            Self::Part(part) => part.uses(),
            Self::Run(run) => run.uses(),
        }
    }

    /// The placement requested for it: that of its column, also for an index.
    pub(crate) fn near_preference(&self, spec: &TableSpec) -> Option<bool> {
        match self {
            Self::Chunk(_, column) => spec.columns[*column].near,
            Self::Part(part) => spec.columns[part.column()].near,
            Self::Run(_) => key_near_preference(spec),
        }
    }

    /// The object as a candidate for near memory.
    pub(crate) fn candidate(&self, spec: &TableSpec, saved: Saved) -> Candidate {
        Candidate {
            bytes: NearMemory::taken_by(self.near_bytes(spec)),
            saved,
            is_near: self.near().is_some(),
            preference: self.near_preference(spec),
        }
    }

    /// A near copy, verified; `None` if there is one already, there is no room, or copying was stopped
    /// ([`NearMemory::copy_while`]). A part or a run that turns out to be damaged is given up.
    pub(crate) fn copy(
        &self,
        spec: &TableSpec,
        near: &NearMemory,
        goes_on: impl FnMut(usize) -> bool,
    ) -> Result<Option<Arc<NearCopy>>, CopyError> {
        match self {
            Self::Chunk(segment, column) => {
                let copy = segment.near_copy(spec, *column, near, goes_on);
                copy.map_err(|error| CopyError::Chunk(error.into()))
            }
            Self::Part(part) => part.near_copy(near, goes_on).map_err(CopyError::Index),
            Self::Run(run) => run.near_copy(near, goes_on).map_err(CopyError::Index),
        }
    }

    /// Gives up an index that is damaged in all copies, so that it is rebuilt. If pages were lost meanwhile, it must be read
    /// again first ([`Storage::read_validated`](crate::storage::Storage::read_validated)).
    pub(crate) fn give_up(&self, spec: &TableSpec, error: &FormatError) {
        let table = &spec.name;
        match self {
            Self::Chunk(..) => {}
            Self::Part(part) => {
                part.give_up();
                let column = &spec.columns[part.column()].name;
                tracing::warn!(table, column, %error, "a part of an index is damaged: it is built again");
            }
            Self::Run(run) => {
                run.give_up();
                tracing::warn!(table, %error, "a part of the index of keys is damaged: it is built again");
            }
        }
    }
}

/// Why there is no near copy.
pub(crate) enum CopyError {
    /// Bytes of a chunk are unreadable in all copies.
    Chunk(StorageError),
    /// An index is damaged, and is to be given up.
    Index(FormatError),
}

/// The placement requested for the key index: if any key column is never near, the whole index stays far.
fn key_near_preference(spec: &TableSpec) -> Option<bool> {
    let preferences = spec.primary_key.iter().map(|at| spec.columns[*at].near);
    preferences.fold(None, |all, one| match (all, one) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), _) | (_, Some(true)) => Some(true),
        (None, None) => None,
    })
}
