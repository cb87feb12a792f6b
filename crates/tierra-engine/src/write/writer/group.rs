//! Commits through logs. Those that wait at the same time become one: each table's log gets one record with the parts of all of
//! them, so they share its fence.
//!
//! Each is checked against the state that those before it leave. One that cannot be committed is answered with its error and is
//! as if it had never come. If the group cannot be written, its commits are tried one by one.
//!
//! A commit that changes several tables has a record in the log of each, which name each other: after a crash all of them count,
//! or none does (`database/open/together.rs`).
//!
//! Invariant: nothing is visible before it is durable in all logs, and then it is visible at once.

use std::collections::VecDeque;
use std::sync::Arc;

use tierra_memory::replication::ReplicationError;

use super::losses::is_lost;
use super::merge::wants_merge;
use super::state::Writer;
use crate::error::{CommitError, StorageError};
use crate::manifest::SEGMENT_ROWS;
use crate::table::Table;
use crate::table::requests::{Commit, TableChange};
use crate::table::version::TableVersion;
use crate::tail::{self, LogEnd, Participant, Record, TailLog};

/// Retries of a commit with other logs after pages of its logs were lost.
const COMMIT_TRIES_MOST: usize = 4;
/// The most bytes a tail logs: a commit that would exceed them seals the tail first.
const TAIL_MOST_BYTES: u64 = 256 << 20;
/// The most commits of a group, and bytes of their records, unless one has more.
pub(super) const GROUP_COMMITS_MOST: usize = 256;
const GROUP_BYTES_MOST: u64 = 1 << 20;

/// A table that a group changes.
struct Staged {
    table: Arc<Table>,
    /// The current version when the group began.
    before: Arc<TableVersion>,
    /// With the changes.
    version: TableVersion,
}

/// Commits that are checked and not yet written.
#[derive(Default)]
struct Group {
    /// Ordered by table id.
    tables: Vec<Staged>,
    commits: Vec<Commit>,
    bytes: u64,
}

/// Why a group was not written.
struct NotWritten {
    /// The table whose part failed.
    table: Arc<Table>,
    error: StorageError,
    why: Failure,
}

/// What could not be done.
enum Failure {
    /// To write a log.
    Log,
    /// To publish a manifest, or to make room by one.
    Publication,
    /// To keep what was staged: the table's copies changed meanwhile.
    Stale,
}

impl NotWritten {
    fn of(table: &Arc<Table>, error: StorageError) -> Self {
        Self {
            table: table.clone(),
            error,
            why: Failure::Publication,
        }
    }
}

/// Why a commit is not part of the group.
enum NotStaged {
    /// It never will be.
    Failed(CommitError),
    /// The group must be written first.
    Full,
}

impl<E: Into<CommitError>> From<E> for NotStaged {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Commit {
    fn len_bytes(&self) -> u64 {
        let records = self.changes.iter().map(|change| change.record.len_bytes());
        records.sum()
    }

    /// Finds the rows that go again where compaction has put them.
    fn follow(&mut self) -> Result<(), CommitError> {
        self.changes.iter_mut().try_for_each(TableChange::follow)
    }

    fn answer(&self, answer: Result<u64, CommitError>) {
        // A caller may not wait for it.
        let _ = self.reply.send(answer);
    }
}

impl Group {
    fn table(&self, id: u64) -> Result<usize, usize> {
        self.tables
            .binary_search_by_key(&id, |staged| staged.table.id())
    }

    /// The records of a table's changes.
    fn records(&self, table: u64) -> impl Iterator<Item = &Record> + Clone {
        let changes = self.commits.iter().flat_map(|commit| &commit.changes);
        let of_table = changes.filter(move |change| change.table.id() == table);
        of_table.map(|change| &change.record)
    }
}

/// Whether the tail is to be sealed before it takes the rows of this record.
fn is_full(version: &TableVersion, record: &Record) -> bool {
    let tail = &version.tail;
    tail.rows() as usize + record.rows() as usize > SEGMENT_ROWS
        || tail.bytes() > 0 && tail.bytes() + record.len_bytes() > TAIL_MOST_BYTES
}

impl Writer {
    /// Whether a commit takes no longer than its records take to reach their logs, and nothing else is due. A log on a device, which is
    /// waited for, counts only if the caller may block.
    pub(super) fn is_prompt(&self, commit: &Commit, may_block: bool) -> bool {
        let tables = commit.changes.len();
        let is_prompt = |change: &TableChange| {
            let (table, record) = (&change.table, &change.record);
            let version = table.current();
            let log = self.logs.get(&table.id());
            // Its keys are looked for among those of all rows, which may have to be read first.
            let key = table.key().filter(|_| change.rows.is_some());
            let finds_keys = key.is_none_or(|key| key.built(&version).is_some());
            finds_keys
                && log.is_some_and(|log| {
                    (may_block || log.is_memory()) && log.fits(record.len_bytes_among(tables))
                })
                && !is_full(&version, record)
                && !wants_merge(&version)
        };
        self.storage.is_settled()
            && !self.must_cut_logs
            && !self.must_leave_lost
            && commit.changes.iter().all(is_prompt)
    }

    /// Commits all of these, and answers each.
    pub(super) fn commit_all(&mut self, commits: Vec<Commit>) {
        let mut waiting = VecDeque::with_capacity(commits.len());
        for commit in commits {
            // Fails for all of them or none, but each is to have an error of its own.
            match self.begin_writing() {
                Ok(()) => waiting.push_back(commit),
                Err(error) => commit.answer(Err(error.into())),
            }
        }
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for change in waiting.iter().flat_map(|commit| &commit.changes) {
            if !tables.iter().any(|table| Arc::ptr_eq(table, &change.table)) {
                tables.push(change.table.clone());
            }
        }
        let (mut most, mut tries) = (GROUP_COMMITS_MOST, 0);
        while !waiting.is_empty() {
            let mut group = self.stage(&mut waiting, most);
            if group.commits.is_empty() {
                continue;
            }
            let failed = match self.write_group(&mut group) {
                Ok(number) => {
                    for commit in &group.commits {
                        commit.answer(Ok(number));
                        for change in &commit.changes {
                            self.compact_if_worn(&change.table, &change.deleted.ids);
                        }
                    }
                    (most, tries) = (GROUP_COMMITS_MOST, 0);
                    continue;
                }
                Err(failed) => failed,
            };
            let is_cured = tries < COMMIT_TRIES_MOST && self.cure(&failed);
            match &group.commits[..] {
                [commit] if !is_cured => {
                    commit.answer(Err(self.outcome(failed.error.into())));
                    tries = 0;
                }
                commits => {
                    if !is_cured {
                        most = 1;
                    }
                    tries = if commits.len() == 1 || is_cured {
                        tries + 1
                    } else {
                        0
                    };
                    let commits = group.commits.into_iter().rev();
                    commits.for_each(|commit| waiting.push_front(commit));
                }
            }
        }
        for table in tables {
            self.merge_if_due(&table);
        }
    }

    /// Takes commits that can be written together. Those that fail their checks are answered.
    fn stage(&mut self, waiting: &mut VecDeque<Commit>, most: usize) -> Group {
        let mut group = Group::default();
        while group.commits.len() < most
            && let Some(mut commit) = waiting.pop_front()
        {
            if let Err(error) = commit.follow() {
                commit.answer(Err(error));
                continue;
            }
            let bytes = group.bytes + commit.len_bytes();
            let staged = match group.commits.is_empty() || bytes <= GROUP_BYTES_MOST {
                true => self.stage_one(&mut group, &commit),
                false => Err(NotStaged::Full),
            };
            match staged {
                Ok(()) => {
                    group.commits.push(commit);
                    group.bytes = bytes;
                }
                Err(NotStaged::Failed(error)) => commit.answer(Err(error)),
                Err(NotStaged::Full) => {
                    waiting.push_front(commit);
                    break;
                }
            }
        }
        group
    }

    fn stage_one(&mut self, group: &mut Group, commit: &Commit) -> Result<(), NotStaged> {
        let is_first = group.commits.is_empty();
        if group
            .tables
            .iter()
            .any(|staged| self.is_begun(&staged.table))
        {
            return Err(NotStaged::Full);
        }
        let mut all = Vec::with_capacity(commit.changes.len());
        for change in &commit.changes {
            let TableChange {
                table,
                deleted,
                rows,
                record,
            } = change;
            self.entry(table)?;
            if self.is_begun(table) {
                if commit.changes.len() > 1 || !deleted.ids.is_empty() {
                    let table = table.spec().name.clone();
                    return Err(CommitError::Begun { table }.into());
                }
                if !is_first {
                    return Err(NotStaged::Full);
                }
            }
            let len_bytes = record.len_bytes();
            let after = |version: &TableVersion| {
                version.after(table, &deleted.ids, rows.as_ref(), len_bytes)
            };
            let (before, version) = match group.table(table.id()) {
                Ok(at) if is_full(&group.tables[at].version, record) => {
                    return Err(NotStaged::Full);
                }
                Ok(at) => {
                    let staged = &group.tables[at];
                    (staged.before.clone(), after(&staged.version)?)
                }
                Err(_) => {
                    if is_full(&table.current(), record) {
                        self.seal(table)?;
                    }
                    let current = table.current();
                    let version = after(&current)?;
                    (current, version)
                }
            };
            all.push(Staged {
                table: table.clone(),
                before,
                version,
            });
        }
        for staged in all {
            match group.table(staged.table.id()) {
                Ok(at) => group.tables[at] = staged,
                Err(at) => group.tables.insert(at, staged),
            }
        }
        Ok(())
    }

    /// Writes the records of a group, which commits it, and makes it visible. Returns the number of the commit.
    fn write_group(&mut self, group: &mut Group) -> Result<u64, NotWritten> {
        let tables: Vec<Arc<Table>> = group
            .tables
            .iter()
            .map(|staged| staged.table.clone())
            .collect();
        if let [table] = &tables[..]
            && self.is_begun(table)
        {
            let not_written = |error| NotWritten::of(table, error);
            let record = &mut group.commits[0].changes[0].record;
            let log = self.write_first(table, record).map_err(not_written)?;
            self.make_visible(&mut group.tables);
            self.show(table, log);
            return Ok(self.commit);
        }
        let sequence = |table: &Arc<Table>| self.logs.get(&table.id()).map(TailLog::next_sequence);
        let participants = tables.iter().map(|table| Participant {
            table: table.id(),
            sequence: sequence(table).unwrap_or_default(),
        });
        let participants: Vec<_> = participants.filter(|_| tables.len() > 1).collect();
        let mut joined: Vec<Record> = Vec::new();
        let records: Vec<&mut Record> = match &mut group.commits[..] {
            [commit] if participants.is_empty() => commit
                .changes
                .iter_mut()
                .map(|change| &mut change.record)
                .collect(),
            _ => {
                let of_table =
                    |table: &Arc<Table>| Record::together(&participants, group.records(table.id()));
                joined.extend(tables.iter().map(of_table));
                joined.iter_mut().collect()
            }
        };
        for (table, record) in tables.iter().zip(&records) {
            let room = self.make_room(table, record);
            room.map_err(|error| NotWritten::of(table, error))?;
        }
        // A tier may have been lost by a publication: then the table is read elsewhere.
        let is_stale = |staged: &&Staged| !Arc::ptr_eq(&staged.before, &staged.table.current());
        if let Some(staged) = group.tables.iter().find(is_stale) {
            return Err(NotWritten {
                table: staged.table.clone(),
                error: StorageError::Closed,
                why: Failure::Stale,
            });
        }
        let commit = self.next_commit();
        if let Err((failed, error)) = self.append(&tables, records, commit) {
            return Err(NotWritten {
                table: tables[failed].clone(),
                error: error.into(),
                why: Failure::Log,
            });
        }
        self.commit = commit.number;
        self.schedule_idle_marks();
        self.make_visible(&mut group.tables);
        Ok(commit.number)
    }

    /// Appends a record to the log of each table, all of them under one fence. An error comes with the number of the table whose
    /// log failed; none has its record then.
    fn append(
        &mut self,
        tables: &[Arc<Table>],
        mut records: Vec<&mut Record>,
        commit: tail::Commit,
    ) -> Result<(), (usize, ReplicationError)> {
        let method = self.storage.log_method;
        let room = "it has room for a record";
        if let ([table], [record]) = (tables, &mut records[..]) {
            let log = self.logs.get_mut(&table.id()).expect(room);
            return log
                .append(&method, record, commit)
                .map_err(|error| (0, error));
        }
        let logs = tables.iter();
        let logs = logs.map(|table| self.logs.remove(&table.id()).expect(room));
        let mut logs: Vec<TailLog> = logs.collect();
        let ends: Vec<LogEnd> = logs.iter().map(TailLog::end).collect();
        let appended = TailLog::append_together(&method, &mut logs, &mut records, commit);
        self.logs
            .extend(tables.iter().map(|table| table.id()).zip(logs));
        if let Err((failed, _)) = appended {
            let others = tables.iter().zip(ends).enumerate();
            let others = others.filter(|(at, _)| *at != failed);
            self.take_back(others.map(|(_, other)| other));
        }
        appended
    }

    /// Removes the records of a commit from logs, which end where they did before it.
    fn take_back<'t>(&mut self, written: impl Iterator<Item = (&'t Arc<Table>, LogEnd)>) {
        for (table, before) in written {
            let Some(log) = self.logs.get_mut(&table.id()) else {
                continue;
            };
            if let Err(error) = log.take_back(&self.storage.log_method, before) {
                // Not counted without the others, but it must be gone before one of their logs ends.
                self.must_cut_logs = true;
                let table = &table.spec().name;
                tracing::warn!(table, %error, "a record of a commit that failed could not be removed from its log");
            }
        }
    }

    /// Shows all tables of a group as they are after it, at once.
    fn make_visible(&self, staged: &mut Vec<Staged>) {
        self.catalog.publish_together(|| {
            for Staged { table, version, .. } in staged.drain(..) {
                table.publish(version);
            }
        });
    }

    /// Removes why a group could not be written, if that is possible. Returns whether it was.
    fn cure(&mut self, failed: &NotWritten) -> bool {
        let cured = match (&failed.why, &failed.error) {
            (Failure::Stale, _) => Ok(()),
            (_, StorageError::Pool(error)) if is_lost(error) => {
                // The log's pages were lost. The earlier rows are also in near memory; they move to a segment, and a new log begins.
                self.storage.note_losses();
                self.leave_log(&failed.table)
            }
            // No log has the record. A publication loses failed tiers itself: what failed before it was not published.
            (Failure::Log | Failure::Publication, _) if self.lose_failed_tiers() => {
                self.go_on_without_lost()
            }
            _ => return false,
        };
        match cured {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "a log could not be left");
                false
            }
        }
    }
}
