//! Commits by a manifest: the segments of loads, the one that a full tail becomes, and bitmaps of the rows that are deleted.
//!
//! Invariant: one manifest carries everything: segments, dictionary pieces, bitmaps and the tail's new start, of all tables that
//! change. Before it nothing is visible, after it everything.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::state::Writer;
use crate::dictionaries::published::Dictionaries;
use crate::error::{CommitError, StorageError, TableError};
use crate::manifest::{TableEntry, TailEntry};
use crate::segment::Segments;
use crate::storage::extent::OwnedExtent;
use crate::table::Table;
use crate::table::requests::{BulkChange, BulkCommit};
use crate::table::version::TableVersion;
use crate::tail::{Tail, TailLog};
use crate::write::column_source::Batches;
use crate::write::encode::encode_segments;

impl Writer {
    /// Commits changes by one manifest, and returns its number as a commit. If that fails, no codes stay in dictionaries.
    pub(super) fn commit_bulk(&mut self, mut commit: BulkCommit) -> Result<u64, CommitError> {
        let passes = commit.changes.iter_mut().map(|change| {
            let pass = change.load.as_mut().and_then(|load| load.pass.take());
            (change.table.clone(), pass)
        });
        let passes: Vec<_> = passes.collect();
        let committed = self.commit_changes(commit);
        if committed.is_err() {
            for (table, pass) in passes {
                if let Some(pass) = pass {
                    pass.undo(|| table.dictionaries().reset(&table.current().dictionaries));
                }
            }
        }
        committed
    }

    fn commit_changes(&mut self, mut commit: BulkCommit) -> Result<u64, CommitError> {
        for BulkChange { table, deleted, .. } in &mut commit.changes {
            self.entry(table)?;
            deleted.follow(table)?;
            // A manifest has no bitmap of rows that are only in a log.
            let tail = table.current().tail.segment_id;
            if deleted.ids.by_segment().any(|(segment, _)| segment == tail) {
                self.seal(table)?;
            }
        }
        let mut next = Vec::with_capacity(commit.changes.len());
        for change in commit.changes {
            next.push(self.bulk_version(change)?);
        }
        let entries = next.iter_mut().map(|next| std::mem::take(&mut next.stored));
        let (entries, fresh): (Vec<_>, Vec<_>) =
            entries.map(|stored| (stored.entry, stored.fresh)).unzip();
        let manifest = self.published.with_tables(entries.into_iter().flatten());
        self.publish(manifest, fresh.concat())?;
        let begun = next.iter().filter(|next| self.is_begun(&next.table));
        let begun: Vec<_> = begun
            .map(|next| (next.table.clone(), next.first_sequence))
            .collect();
        let changed = next
            .iter()
            .map(|next| (next.table.clone(), next.added.clone()));
        let changed: Vec<_> = changed.collect();
        self.catalog.publish_together(|| {
            for next in next {
                next.table.publish(next.version);
            }
        });
        for (table, first_sequence) in begun {
            self.show(&table, TailLog::starting_at(first_sequence));
        }
        for (table, added) in changed {
            table.ask_for_indexes();
            table.ask_for_near_copies(added);
            table.ask_for_index_copies();
        }
        Ok(self.commit)
    }

    /// A table after a change that a manifest commits, and what that names.
    fn bulk_version(&mut self, change: BulkChange) -> Result<NextVersion, CommitError> {
        let BulkChange {
            table,
            deleted,
            load,
        } = change;
        let mut entry = TableEntry::clone(&*self.entry(&table)?);
        let current = table.current();
        let left = current.without(&table, &deleted.ids)?;
        let (segments, keys) = load.map_or((Vec::new(), None), |load| (load.segments, load.keys));
        let joined = match (table.key(), keys) {
            (Some(key), Some(loaded)) => Some(key.join(&table, &left, loaded)?),
            _ => None,
        };
        let run = joined.as_ref().and_then(|joined| joined.run.as_ref());
        entry.runs.extend(run.map(|run| run.entry().clone()));
        let run = run.map(|run| run.extent().clone());
        let added = segments.into_iter().map(|encoded| encoded.segment);
        let added: Vec<_> = added.collect();
        let ids = added.iter().map(|segment| segment.id()).collect();
        let segments = current.segments.with(added);
        let before = &current.dictionaries;
        let (dictionaries, mut fresh) =
            self.name_segments(&table, &mut entry, &segments, before)?;
        fresh.extend(run);
        fresh.extend(self.store_deletions(&mut entry, &left.deletions)?);
        let version = TableVersion {
            segments,
            dictionaries,
            keys: joined.map_or_else(|| current.keys.next(None), |joined| joined.cell),
            ..left
        };
        Ok(NextVersion {
            table,
            version,
            added: ids,
            first_sequence: entry.tail.first_sequence,
            stored: Stored {
                entry: Some(entry),
                fresh,
            },
        })
    }

    /// Seals the tail into a segment, and stores what its log says of deleted rows. Rows keep their ids.
    pub(super) fn seal(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        if current.tail.bytes() == 0 {
            return Ok(());
        }
        // Codes that are given out below must not be forgotten before they are published.
        let _pass = table.load_merge_lock().enter_seal();
        let batches = current.tail.batches().iter();
        let batches: Vec<_> = batches.map(|batch| batch.rows.clone()).collect();
        let id = current.tail.segment_id;
        let sealed = encode_segments(
            table,
            &Batches(&batches),
            || Ok(id),
            &AtomicBool::new(false),
            |_, _| Ok(()),
        )?;
        let sequence = self
            .logs
            .get(&table.id())
            .ok_or(StorageError::Closed)?
            .next_sequence();
        let segment_id = match sealed.is_empty() {
            true => id,
            false => table.new_segment_id()?,
        };
        entry.tail = TailEntry {
            segment_id,
            first_sequence: sequence,
            reached: sequence,
            logs: Vec::new(),
        };
        let sealed = sealed.into_iter().map(|sealed| sealed.segment);
        let segments = current.segments.with(sealed);
        let before = &current.dictionaries;
        let (dictionaries, mut fresh) = self.name_segments(table, &mut entry, &segments, before)?;
        fresh.extend(self.store_deletions(&mut entry, &current.deletions)?);
        let next = self.published.with_table(entry);
        self.publish(next, fresh)?;
        self.restart_log(table, sequence);
        table.publish(TableVersion {
            segments,
            dictionaries,
            tail: Tail::empty(segment_id),
            ..current.next()
        });
        table.ask_for_indexes();
        table.ask_for_near_copies([id]);
        table.ask_for_index_copies();
        Ok(())
    }

    /// Removes all rows of tables by one publication. Returns their number.
    pub(super) fn truncate(&mut self, tables: &[Arc<Table>]) -> Result<u64, TableError> {
        let (mut rows, mut entries, mut next) = (0, Vec::new(), Vec::new());
        for table in tables {
            let mut entry = TableEntry::clone(&*self.entry(table)?);
            if self.is_begun(table) {
                continue;
            }
            let log = self.logs.get(&table.id()).ok_or(StorageError::Closed)?;
            let (segment_id, sequence) = (table.new_segment_id()?, log.next_sequence());
            entry.tail = TailEntry {
                segment_id,
                first_sequence: sequence,
                reached: sequence,
                logs: Vec::new(),
            };
            entry.next_segment_id = table.next_segment_id();
            entry.segments.clear();
            entry.deleted.clear();
            entry.parts.clear();
            entry.runs.clear();
            entry.dictionaries.fill(None);
            entries.push(entry);
            rows += table.current().rows();
            let columns = table.spec().columns.len();
            let version = TableVersion::without_rows(columns, segment_id);
            next.push((table, version, sequence));
        }
        let manifest = self.published.with_tables(entries);
        self.publish(manifest, Vec::new())?;
        for (table, version, sequence) in &next {
            table.dictionaries().reset(&version.dictionaries);
            self.restart_log(table, *sequence);
        }
        self.catalog.publish_together(|| {
            for (table, version, _) in next {
                table.publish(version);
            }
        });
        self.give_back_space();
        Ok(rows)
    }

    /// Gives the table's entry `segments`, and pieces of all dictionary values that they use. Returns the current dictionaries,
    /// and the extents that the entry names newly.
    pub(super) fn name_segments(
        &self,
        table: &Arc<Table>,
        entry: &mut TableEntry,
        segments: &Segments,
        before: &Dictionaries,
    ) -> Result<(Dictionaries, Vec<Arc<OwnedExtent>>), StorageError> {
        let pieces = table.dictionaries().pieces(&self.storage, entry, before)?;
        let known: Vec<u32> = entry.segments.iter().map(|segment| segment.id).collect();
        let new = segments
            .iter()
            .filter(|segment| known.binary_search(&segment.id()).is_err());
        let mut fresh: Vec<Arc<OwnedExtent>> = new
            .flat_map(|segment| segment.extents().iter().flatten().cloned())
            .collect();
        fresh.extend(pieces.extents);
        entry.segments = segments
            .iter()
            .map(|segment| segment.entry().clone())
            .collect();
        entry.dictionaries = pieces.entries;
        entry.next_segment_id = table.next_segment_id();
        Ok((pieces.dictionaries, fresh))
    }

    /// Forgets the log of a tail that has none any more: the next record starts a new one.
    fn restart_log(&mut self, table: &Arc<Table>, sequence: u64) {
        self.logs.insert(table.id(), TailLog::starting_at(sequence));
    }
}

/// A table after a change that a manifest commits.
struct NextVersion {
    table: Arc<Table>,
    version: TableVersion,
    /// Ids of new segments.
    added: Vec<u32>,
    /// Of its log.
    first_sequence: u64,
    stored: Stored,
}

/// What the manifest names of it.
#[derive(Default)]
struct Stored {
    entry: Option<TableEntry>,
    /// Extents that no manifest names yet.
    fresh: Vec<Arc<OwnedExtent>>,
}
