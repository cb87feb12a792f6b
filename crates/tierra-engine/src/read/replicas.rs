//! Reading a column from the replica that suits the reader, block by block; what its replicas are.
//!
//! Invariant: whichever replica is read, the rows are the snapshot's. What `read` makes of a block is returned only if the block
//! matched its checksum and no page of it was lost meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use tierra_column::bits::Mask;
use tierra_column::{Chunk, ColumnReader, Encoding, FormatError, Scratch};
use tierra_memory::emulation::begin_read;

use crate::error::ScanError;
use crate::manifest::ReplicaNumber;
use crate::manifest::row_id::RowId;
use crate::segment::ReadPattern;
use crate::storage::READS_MOST;
use crate::table::snapshot::Snapshot;
use crate::table::version::TableVersion;

/// What a tier has of one replica of a column, as a snapshot sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// The tier's name.
    pub tier: String,
    /// Whether the tier is missing.
    pub is_missing: bool,
    /// The encoding that was asked for; `None`: the column's own, or the one that fits the values.
    pub encoding: Option<Encoding>,
    /// The encodings of its chunks: also plain, where values cannot be encoded as asked.
    pub encodings: BTreeSet<Encoding>,
    /// Sealed rows that the tier has in this replica. Rows of the tail are in the table's log.
    pub rows: u64,
    /// Bytes of these chunks.
    pub stored_bytes: u64,
}

/// What a reader reads sealed rows of a column from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSource {
    /// The tier's name; `None`: a near copy.
    pub tier: Option<String>,
    /// The encoding.
    pub encoding: Encoding,
    /// Sealed rows that are read so, deleted ones as well.
    pub rows: u64,
}

impl Snapshot {
    /// What a reader of this pattern reads a column from, each once. Rows that no copy has are not among them: to read them is an error.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn sources(&self, column: usize, pattern: ReadPattern) -> Vec<ReplicaSource> {
        let mut sources: Vec<ReplicaSource> = Vec::new();
        for segment in self.segments() {
            let segment = segment.for_reading(pattern);
            let Some(encoding) = segment.encoding(column) else {
                continue;
            };
            let (tier, rows) = (segment.tier(column), segment.rows() as u64);
            let mut known = sources.iter_mut();
            match known.find(|it| it.tier.as_deref() == tier && it.encoding == encoding) {
                Some(source) => source.rows += rows,
                None => sources.push(ReplicaSource {
                    tier: tier.map(str::to_owned),
                    encoding,
                    rows,
                }),
            }
        }
        sources
    }

    /// Whether a reader chooses for some of a column's rows: among several replicas, or among copies whose tiers' times are known.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn has_choice(&self, column: usize) -> bool {
        let mut segments = self.segments().iter();
        segments.any(|segment| {
            let mut replicas = segment.entry().replicas(column);
            let of_first = replicas.next().map(|place| place.extent as usize);
            let extent = of_first.and_then(|extent| segment.extents()[extent].as_ref());
            replicas.next().is_some() || extent.is_some_and(|extent| extent.has_known_copies())
        })
    }

    /// The replicas of a column in each tier that should have one, as they were placed.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn replicas(&self, column: usize) -> Vec<ReplicaInfo> {
        let table = self.table();
        let (placement, tiers) = (table.placement(), table.storage().tiers());
        let mut all = Vec::new();
        for (wanted, (encoding, ids)) in placement.replicas(column).enumerate() {
            for id in ids {
                let mut info = ReplicaInfo {
                    tier: tiers.name(*id).to_owned(),
                    is_missing: tiers.get(*id).is_none(),
                    encoding,
                    encodings: BTreeSet::new(),
                    rows: 0,
                    stored_bytes: 0,
                };
                for segment in self.segments() {
                    let stored = segment.entry().replicas(column).count();
                    let numbers: Vec<usize> = (0..stored).collect();
                    let found = segment.matched(&placement, column, &numbers)[wanted];
                    let Some(number) = found else { continue };
                    let place = segment.entry().replica(ReplicaNumber { column, number });
                    let extent = segment.extents()[place.extent as usize].as_ref();
                    let is_there = extent.is_some_and(|extent| {
                        extent.copies().iter().any(|copy| copy.tier() == *id)
                    });
                    if is_there {
                        info.encodings.insert(place.encoding);
                        info.rows += segment.rows() as u64;
                        info.stored_bytes += place.len_bytes;
                    }
                }
                all.push(info);
            }
        }
        all
    }

    /// The same snapshot, in which each chunk is read from the replica that suits the reader: scans, lookups and
    /// [`Snapshot::read_block`] of it do so. For [`Snapshot::is_current`], ask the original.
    #[must_use]
    pub fn for_reading(&self, pattern: ReadPattern) -> Snapshot {
        if !pattern.looks_up() {
            return self.clone();
        }
        let segments = self.segments().iter();
        let segments = segments.map(|segment| segment.for_reading(pattern).clone());
        let version = TableVersion {
            segments: segments.collect(),
            ..self.version().next()
        };
        Snapshot::new(self.table().clone(), Arc::new(version))
    }

    /// What `read` makes of a block of one of [`Snapshot::segments`], which is verified before and, where a page was lost meanwhile, after;
    /// then it is read again.
    ///
    /// # Errors
    /// [`ScanError`]: no copy and no replica has the block, or `read` fails on bytes that are right.
    ///
    /// # Panics
    /// If there is no such segment, column or block.
    pub fn read_block<T>(
        &self,
        segment: usize,
        column: usize,
        block: usize,
        mut read: impl FnMut(&Chunk<'_>) -> Result<T, FormatError>,
    ) -> Result<T, ScanError> {
        let (spec, storage) = (self.table().spec(), self.table().storage());
        self.table().check_available()?;
        let segment = &self.segments()[segment];
        for _ in 0..READS_MOST {
            let found = storage.read_validated(|| {
                segment.read(spec, column, block, |chunk| {
                    let stored = chunk.stored_block(block);
                    segment.uses()[column].streamed(segment.stored_block_bytes(column, block));
                    // Waits when it is dropped, where far memory is emulated.
                    let _transfer = begin_read(stored);
                    read(chunk)
                })
            })??;
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(storage.lost_while_read())
    }

    /// The values of a block, deleted rows' as well.
    ///
    /// # Errors
    /// As [`Snapshot::read_block`].
    ///
    /// # Panics
    /// As there.
    pub fn block_values(
        &self,
        segment: usize,
        column: usize,
        block: usize,
    ) -> Result<ArrayRef, ScanError> {
        let (ty, dictionary) = (
            self.table().types()[column],
            self.version().dictionary(column),
        );
        let mut scratch = Scratch::new();
        self.read_block(segment, column, block, |chunk| {
            let rows = chunk.block_rows(block);
            let mut reader = ColumnReader::new(ty, rows);
            reader.append(chunk, block, &Mask::first(rows), dictionary, &mut scratch)?;
            Ok(reader.finish())
        })
    }

    /// The rows that are not in segments yet, in the order of their commits, with the id of each batch's first row. Those of a batch
    /// follow each other; deleted ones are among them.
    pub fn tail_batches(&self) -> impl Iterator<Item = (RowId, &RecordBatch)> {
        let tail = &self.version().tail;
        let id = tail.segment_id;
        let batches = tail.batches().iter();
        batches.map(move |batch| (RowId::new(id, batch.first_row), &batch.rows))
    }
}
