//! Slow work, done by a separate thread: it reads immutable data and writes what no manifest names yet.
//!
//! Invariant: a job changes no table; the writer publishes its result or drops it.

use std::sync::Arc;

use tierra_column::{Dictionary, FormatError, POSTINGS_CHUNKS_MAX, PostingsError, PostingsPlan};

use super::compact_step::{CompactStep, Compacted};
use super::run_step::{RunError, RunStep};
use crate::error::{DamageError, StorageError};
use crate::index::inverted::InvertedPart;
use crate::index::key::KeyRun;
use crate::manifest::PartEntry;
use crate::segment::Segment;
use crate::spec::replicas::TierId;
use crate::storage::Storage;
use crate::storage::extent::Owner;
use crate::table::Table;
use crate::table::near_object::{NearChange, ObjectName};
use crate::table::version::TableVersion;
use crate::tiering::objects::CopyError;

/// A part with at most this many times the rows of the next one is joined with it.
const JOINED_TIMES: usize = 2;
/// The most rows of a part: build time grows with their square.
const PART_ROWS_MAX: usize = 1 << 28;

/// A part to be built.
pub(super) struct PartStep {
    segments: Vec<Arc<Segment>>,
    /// Parts that it replaces: their segments are among these.
    pub(super) replaced: Vec<Arc<InvertedPart>>,
}

/// Slow work for a table.
pub(super) struct Job {
    pub(super) table: Arc<Table>,
    pub(super) work: JobKind,
}

pub(super) enum JobKind {
    /// Builds a part of a column's index.
    Build {
        column: usize,
        dictionary: Arc<Dictionary>,
        /// The tiers for its copies.
        tier_ids: Vec<TierId>,
        step: PartStep,
    },
    /// Makes a run of keys.
    Run(RunStep),
    /// Copies parts and runs, or chunks, near, as far as the budget goes.
    Copy { objects: Vec<ObjectName> },
    /// Builds the near part of a version's key index.
    Keys { version: Arc<TableVersion> },
    /// Makes one segment of the rows that are left in others.
    Compact(CompactStep),
}

/// A job that is over.
pub(super) struct Ended {
    pub(super) job: Arc<Job>,
    pub(super) made: Made,
}

/// The result of a job.
pub(super) enum Made {
    Part(Result<Arc<InvertedPart>, StorageError>),
    Run(Result<Arc<KeyRun>, RunError>),
    Copies {
        copied: Vec<NearChange>,
        /// Whether a damaged index was given up.
        damaged: bool,
    },
    /// The version has its key index now, or the reason why not.
    Keys(Result<(), StorageError>),
    Compacted(Result<Compacted, RunError>),
    /// The thread could not be started, or ended early.
    Nothing {
        why: String,
    },
}

impl Job {
    /// Does the work, on any thread.
    pub(super) fn run(&self, storage: &Arc<Storage>) -> Made {
        #[cfg(test)]
        storage.wait_for_tests();
        let table = &self.table;
        match &self.work {
            JobKind::Build {
                column,
                dictionary,
                tier_ids,
                step,
            } => {
                let segments = &step.segments;
                let build = || build_part(storage, table, *column, segments, dictionary, tier_ids);
                let built = storage.read_validated(build);
                Made::Part(built.unwrap_or_else(|error| Err(error.into())))
            }
            JobKind::Run(step) => Made::Run(step.run(storage, table)),
            JobKind::Compact(step) => Made::Compacted(step.run(storage, table)),
            JobKind::Copy { objects } => copy_near(storage, table, objects),
            JobKind::Keys { version } => {
                let key = table.key();
                let built = key.map(|key| key.index(table, version).map(drop));
                Made::Keys(built.unwrap_or(Ok(())).map_err(StorageError::from))
            }
        }
    }

    /// The job that builds a version's key index, unless it is built.
    pub(super) fn of_keys(table: &Arc<Table>, version: &Arc<TableVersion>) -> Option<Job> {
        let is_built = table.key().is_none_or(|key| key.built(version).is_some());
        (!is_built).then(|| Job {
            table: table.clone(),
            work: JobKind::Keys {
                version: version.clone(),
            },
        })
    }
}

impl PartStep {
    /// The readable segments that no part covers, with those of the last parts if these are to be joined; `None` if all are
    /// covered.
    pub(super) fn next(
        version: &TableVersion,
        column: usize,
        is_readable: impl Fn(&Segment) -> bool,
    ) -> Option<Self> {
        let parts = version.indexes.iter();
        let usable = |part: &&Arc<InvertedPart>| part.column() == column && !part.is_given_up();
        let parts: Vec<_> = parts.filter(usable).collect();
        let is_covered = |segment: &Segment| parts.iter().any(|part| part.covers(segment.id()));
        let mut rows = 0;
        let mut segments: Vec<_> = version
            .segments
            .iter()
            .filter(|segment| is_readable(segment) && !is_covered(segment))
            .take(POSTINGS_CHUNKS_MAX)
            .take_while(|segment| {
                rows += segment.rows();
                rows <= PART_ROWS_MAX
            })
            .cloned()
            .collect();
        if segments.is_empty() {
            return None;
        }
        let rows = |segments: &[Arc<Segment>]| -> usize {
            segments.iter().map(|segment| segment.rows()).sum()
        };
        let mut replaced = Vec::new();
        for part in parts.into_iter().rev() {
            let listed =
                |segment: &&Arc<Segment>| is_readable(segment) && part.covers(segment.id());
            let of_part: Vec<_> = version.segments.iter().filter(listed).cloned().collect();
            let (of_part_rows, rows) = (rows(&of_part), rows(&segments));
            if of_part_rows > JOINED_TIMES * rows
                || of_part_rows + rows > PART_ROWS_MAX
                || of_part.len() + segments.len() > POSTINGS_CHUNKS_MAX
            {
                break;
            }
            segments.extend(of_part);
            replaced.push(part.clone());
        }
        segments.sort_unstable_by_key(|segment| segment.id());
        Some(Self { segments, replaced })
    }
}

/// Copies these near. Gives up parts and runs that turn out to be damaged.
fn copy_near(storage: &Storage, table: &Table, objects: &[ObjectName]) -> Made {
    let (mut copied, mut damaged) = (Vec::new(), false);
    for name in objects {
        if storage.is_closing() || table.check_alive().is_err() {
            break;
        }
        // Not longer than for one of them: near copies that are taken away are free when no version has them.
        let current = table.current();
        let Some(object) = name.find(&current) else {
            continue;
        };
        let copy = || object.copy(table.spec(), &storage.near, |_| true);
        // Pages are lost faster than they can be read: treated as damaged.
        match storage.read_validated(copy).unwrap_or(Ok(None)) {
            Ok(None) => {}
            Ok(copy) => copied.push(NearChange {
                object: name.clone(),
                copy,
            }),
            Err(CopyError::Index(error)) => {
                object.give_up(table.spec(), &error);
                damaged = true;
            }
            Err(CopyError::Chunk(error)) => warn_of_damage(table, &error),
        }
    }
    Made::Copies { copied, damaged }
}

/// The chunk is open already; its readable blocks can be read.
fn warn_of_damage(table: &Table, error: &StorageError) {
    tracing::warn!(table = %table.spec().name, %error, "a chunk is damaged: no near copy of it was made");
}

fn build_part(
    storage: &Arc<Storage>,
    table: &Table,
    column: usize,
    segments: &[Arc<Segment>],
    dictionary: &Dictionary,
    tier_ids: &[TierId],
) -> Result<Arc<InvertedPart>, StorageError> {
    let (spec, closing) = (table.spec(), storage.closing());
    table.check_alive()?;
    for segment in segments {
        if storage.is_closing() {
            return Err(StorageError::Closed);
        }
        segment.verify_column(spec, column)?;
    }
    let fault = |error| match error {
        PostingsError::Chunk { chunk, source } => {
            segments[chunk].damaged(spec, column, 0, source).into()
        }
        PostingsError::Interrupted => StorageError::Closed,
        PostingsError::Contradiction { .. } | PostingsError::Thread { .. } => StorageError::Index {
            column: spec.columns[column].name.clone(),
            source: error,
        },
    };
    let chunks = segments.iter().map(|segment| *segment.chunk(column));
    let threads = storage.threads;
    let plan = PostingsPlan::new(chunks.collect(), dictionary, threads, closing);
    let plan = plan.map_err(fault)?;
    let owner = Owner::Index(table.id());
    let mut writer = storage.allocate(tier_ids, plan.len_bytes() as u64, owner)?;
    plan.write(&mut writer, closing).map_err(fault)?;
    let extent = writer.finish()?;
    let entry = PartEntry {
        column: column as u32,
        generation: dictionary.generation(),
        segments: segments.iter().map(|segment| segment.id()).collect(),
        extent: extent.id(),
    };
    let calibration = &storage.calibration;
    let part = InvertedPart::written(Arc::new(entry), extent, calibration);
    Ok(part.map_err(|source| damaged(table, column, source))?)
}

fn damaged(table: &Table, column: usize, source: FormatError) -> DamageError {
    let column = table.spec().columns[column].name.clone();
    DamageError::Index { column, source }
}
