//! Inverted indexes follow the segments: parts are built in the background after a commit, joined,
//! built anew after a dictionary merge, and again where they turn out to be damaged.
//!
//! A part is joined with the one before it while that has at most twice as many rows, and both together
//! not too many for one; so a table has logarithmically many, and a row is indexed again
//! logarithmically often. A part is built by a thread of its own ([`super::background`]), of segments and
//! a dictionary that never change, while the writer goes on.
//!
//! Invariant: copy on write. One manifest names the new part instead of those that it replaces; until
//! then, and where there is none, rows are scanned. A part whose codes are not those of the column any
//! more is never named.

use std::sync::Arc;

use tierra_column::{Dictionary, FormatError, POSTINGS_CHUNKS_MAX, PostingsError, PostingsPlan};

use super::Writer;
use super::background::Task;
use super::near::place;
use super::runs::{RunError, RunStep};
use crate::error::{DamageError, ScanError, StorageError};
use crate::inverted::InvertedPart;
use crate::key::KeyRun;
use crate::manifest::{PartEntry, TableEntry};
use crate::near::{self, CopyError, NearChange, Object, ObjectName};
use crate::replicas::TierId;
use crate::segment::Segment;
use crate::space::Owner;
use crate::storage::Storage;
use crate::table::Table;
use crate::version::TableVersion;

/// A part with at most this many times the rows of the next one is joined with it.
const JOINED_TIMES: usize = 2;
/// Rows that one part covers at most: the time that building takes grows with their square.
const PART_ROWS_MAX: usize = 1 << 28;

/// A part that is to be built.
pub(super) struct Step {
    segments: Vec<Arc<Segment>>,
    /// Parts that it replaces: their segments are among these.
    replaced: Vec<Arc<InvertedPart>>,
}

/// What takes time, for a table.
pub(super) struct Job {
    pub(super) table: Arc<Table>,
    pub(super) work: Work,
}

pub(super) enum Work {
    /// Building a part of a column's index.
    Build {
        column: usize,
        dictionary: Arc<Dictionary>,
        /// Where copies of it are to lie.
        homes: Vec<TierId>,
        step: Step,
    },
    /// Making a run of keys.
    Run(RunStep),
    /// Copying parts and runs near, as far as the budget goes.
    Copy { indexes: Vec<ObjectName> },
    /// Building what is near of the index of a version's keys.
    Keys { version: Arc<TableVersion> },
}

/// A job that is over.
pub(crate) struct Ended {
    pub(super) job: Arc<Job>,
    pub(super) made: Made,
}

/// What came of it.
pub(super) enum Made {
    Part(Result<Arc<InvertedPart>, StorageError>),
    Run(Result<Arc<KeyRun>, RunError>),
    Copies {
        copied: Vec<NearChange>,
        /// Whether something was given up.
        damaged: bool,
    },
    /// The version has its index of keys now, or why not.
    Keys(Result<(), StorageError>),
    /// The thread could not be started, or ended early.
    Nothing {
        why: String,
    },
}

impl Writer {
    /// Has a table's indexes built, and copied near, in the background.
    pub(super) fn index_in_background(&mut self, table: &Arc<Table>) {
        if table.has_indexes() {
            self.background.push(Task::Index(table.clone()));
            self.background.push(Task::CopyIndexes(table.clone()));
        }
    }

    /// Begins the next task, or the next job of the one that is under way.
    pub(super) fn go_on_in_background(&mut self) {
        while !self.storage.is_closing()
            && let Some(task) = self.background.next()
        {
            let job = match task {
                Task::Index(_) if !self.storage.is_settled() => None,
                Task::Index(table) => self.next_run(table).or_else(|| self.next_part(table)),
                Task::CopyIndexes(table) => self.copies_of(table),
                Task::Keys(table, version) => keys_of(table, version),
                Task::Answer(_) => None,
            };
            let Some(job) = job else {
                if let Some(Task::Answer(reply)) = self.background.pop() {
                    let _ = reply.send(());
                }
                continue;
            };
            if let Err(ended) = self.background.start(&self.storage, job) {
                self.publish_job(ended);
            }
        }
    }

    /// The next part to build of a table's indexes.
    fn next_part(&self, table: &Arc<Table>) -> Option<Job> {
        let current = table.current();
        table.check_alive().ok()?;
        table.spec().indexed_columns().find_map(|column| {
            let dictionary = current.dictionaries[column].clone()?;
            let id = (table.id(), column);
            if !self
                .unbuilt
                .is_due(id, dictionary.generation(), sealed_rows(&current))
            {
                return None;
            }
            let is_readable = |segment: &Segment| !self.unbuilt.is_left_out(id, segment.id());
            let step = next_step(&current, column, is_readable)?;
            Some(Job {
                table: table.clone(),
                work: Work::Build {
                    column,
                    dictionary,
                    homes: table.homes().of_column(column).to_vec(),
                    step,
                },
            })
        })
    }

    /// The parts and runs of a table's indexes to be copied near.
    fn copies_of(&self, table: &Arc<Table>) -> Option<Job> {
        let current = table.current();
        let wants = |object: &Object<'_>| {
            let is_chunk = matches!(object, Object::Chunk(..));
            !is_chunk && object.wish(table.spec()) != Some(false)
        };
        let indexes = near::objects(&current).filter(wants);
        let indexes: Vec<_> = indexes.map(|object| object.name()).collect();
        (!indexes.is_empty()).then(|| Job {
            table: table.clone(),
            work: Work::Copy { indexes },
        })
    }

    /// Makes what a job has made part of its table.
    pub(super) fn publish_job(&mut self, ended: Ended) {
        self.background.ended();
        let Ended { job, made } = ended;
        let table = &job.table;
        match &job.work {
            Work::Build {
                column,
                dictionary,
                homes,
                step,
            } => {
                let is_of_now = |part: &InvertedPart| self.is_of_now(table, part, homes);
                let built = match made {
                    Made::Part(Ok(part)) if !is_of_now(&part) => Ok(()),
                    Made::Part(Ok(part)) => self.publish_part(table, step, &part),
                    Made::Part(Err(error)) => Err(error),
                    Made::Nothing { why } => Err(StorageError::Index {
                        column: table.spec().columns[*column].name.clone(),
                        source: PostingsError::Thread { why },
                    }),
                    Made::Copies { .. } | Made::Keys(_) | Made::Run(_) => Ok(()),
                };
                if let Err(error) = built {
                    self.note_failure(table, *column, dictionary.generation(), error);
                }
            }
            Work::Run(step) => match made {
                Made::Run(run) => self.publish_run(table, step, run),
                Made::Nothing { why } => self.publish_run(table, step, Err(no_thread(why))),
                Made::Part(_) | Made::Copies { .. } | Made::Keys(_) => {}
            },
            Work::Keys { .. } => {
                self.background.pop();
                if let Made::Keys(Err(error)) = made {
                    // Whoever looks a key up next is told.
                    let table = &table.spec().name;
                    tracing::warn!(table, %error, "an index of keys could not be built");
                }
            }
            Work::Copy { .. } => {
                self.background.pop();
                let Made::Copies { copied, damaged } = made else {
                    return;
                };
                if !copied.is_empty() {
                    place(&self.storage, table, copied);
                }
                if damaged {
                    // What is built a moment before it is copied is not read again.
                    self.background.push_front(Task::CopyIndexes(table.clone()));
                    self.background.push_front(Task::Index(table.clone()));
                }
            }
        }
    }

    /// Whether a part that was built is in the codes, and its copies in the tiers, that its column has
    /// now; if not, it is built again.
    fn is_of_now(&self, table: &Table, part: &InvertedPart, homes: &[TierId]) -> bool {
        let (current, tiers) = (table.current(), self.storage.tiers());
        let now = current.dictionary(part.column());
        let mut copies = part.extent().copies().iter();
        now.is_some_and(|now| now.generation() == part.entry().generation)
            && table.homes().of_column(part.column()) == homes
            && copies.all(|copy| tiers.get(copy.tier()).is_some())
    }

    /// Names a part that was built.
    fn publish_part(
        &mut self,
        table: &Arc<Table>,
        step: &Step,
        part: &Arc<InvertedPart>,
    ) -> Result<(), StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        let is_kept = |part: &&Arc<InvertedPart>| {
            let is_same = |other: &Arc<InvertedPart>| Arc::ptr_eq(other.entry(), part.entry());
            !step.replaced.iter().any(is_same) && !part.is_given_up()
        };
        let kept = current.indexes.iter().filter(is_kept);
        let indexes: Vec<_> = kept.cloned().chain([part.clone()]).collect();
        entry.parts = indexes.iter().map(|part| part.entry().clone()).collect();
        let next = self.published.with_table(entry);
        self.publish(next, vec![part.extent().clone()])?;
        publish_parts(table, &current, indexes);
        Ok(())
    }

    /// Nobody waits for an index, and nothing is lost without one: rows are scanned.
    fn note_failure(&mut self, table: &Table, column: usize, generation: u64, error: StorageError) {
        let (id, name) = ((table.id(), column), &table.spec().name);
        match error {
            StorageError::Closed | StorageError::Dropped { .. } => {}
            StorageError::Scan(error) if let ScanError::Damaged { segment, .. } = *error => {
                // Its rows stay without an index, all others need not.
                self.unbuilt.leave_out(id, segment);
                tracing::warn!(table = name, %error, "a segment could not be indexed");
            }
            error => {
                let rows = sealed_rows(&table.current());
                self.unbuilt.note(id, generation, rows);
                let column = &table.spec().columns[column].name;
                tracing::warn!(table = name, column, %error, "an index could not be built");
            }
        }
    }
}

impl Job {
    /// Does the work, on any thread.
    pub(super) fn run(&self, storage: &Arc<Storage>) -> Made {
        #[cfg(test)]
        storage.wait_for_tests();
        let table = &self.table;
        match &self.work {
            Work::Build {
                column,
                dictionary,
                homes,
                step,
            } => {
                let segments = &step.segments;
                let build = || build_part(storage, table, *column, segments, dictionary, homes);
                let built = storage.whole(build);
                Made::Part(built.unwrap_or_else(|error| Err(error.into())))
            }
            Work::Run(step) => Made::Run(step.run(storage, table)),
            Work::Copy { indexes } => copy_near(storage, table, indexes),
            Work::Keys { version } => {
                let key = table.key();
                let built = key.map(|key| key.index(table, version).map(drop));
                Made::Keys(built.unwrap_or(Ok(())).map_err(StorageError::from))
            }
        }
    }
}

/// No run was made because there was no thread to do it, or it ended early.
fn no_thread(why: String) -> RunError {
    let source = PostingsError::Thread { why };
    let column = "the primary key".to_owned();
    StorageError::Index { column, source }.into()
}

/// The index of a version's keys, unless it is built.
fn keys_of(table: &Arc<Table>, version: &Arc<TableVersion>) -> Option<Job> {
    let is_built = table.key().is_none_or(|key| key.built(version).is_some());
    (!is_built).then(|| Job {
        table: table.clone(),
        work: Work::Keys {
            version: version.clone(),
        },
    })
}

/// Copies parts and runs near. What turns out to be damaged is given up.
fn copy_near(storage: &Storage, table: &Table, indexes: &[ObjectName]) -> Made {
    let (mut copied, mut damaged) = (Vec::new(), false);
    let current = table.current();
    for name in indexes {
        if storage.is_closing() {
            break;
        }
        let Some(index) = name.find(&current) else {
            continue;
        };
        let copy = || index.copy(table.spec(), &storage.near, |_| true);
        // Faster than it can be read: as good as damaged.
        match storage.whole(copy).unwrap_or(Ok(None)) {
            Ok(None) => {}
            Ok(copy) => copied.push(NearChange {
                object: name.clone(),
                copy,
            }),
            Err(CopyError::Index(error)) => {
                index.give_up(table.spec(), &error);
                damaged = true;
            }
            Err(CopyError::Chunk(_)) => damaged = true,
        }
    }
    Made::Copies { copied, damaged }
}

fn build_part(
    storage: &Arc<Storage>,
    table: &Table,
    column: usize,
    segments: &[Arc<Segment>],
    dictionary: &Dictionary,
    homes: &[TierId],
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
    let mut writer = storage.allocate(homes, plan.len_bytes() as u64, owner)?;
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

fn publish_parts(table: &Arc<Table>, current: &TableVersion, indexes: Vec<Arc<InvertedPart>>) {
    table.publish(TableVersion {
        segments: current.segments.clone(),
        dictionaries: current.dictionaries.clone(),
        indexes: indexes.into(),
        tail: current.tail.clone(),
        keys: current.keys.next(None),
    });
}

fn sealed_rows(version: &TableVersion) -> u64 {
    version.rows() - u64::from(version.tail.rows())
}

/// The readable segments that no part covers, with those of the last parts as far as these are to be
/// joined; `None` where all are covered.
fn next_step(
    version: &TableVersion,
    column: usize,
    is_readable: impl Fn(&Segment) -> bool,
) -> Option<Step> {
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
        let listed = |segment: &&Arc<Segment>| is_readable(segment) && part.covers(segment.id());
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
    Some(Step { segments, replaced })
}
