//! Commits segments: those of a load, or the one that a full tail becomes.
//!
//! Invariant: one manifest carries everything: segments, dictionary images and the tail's new start. Before it nothing is
//! visible, after it everything.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::state::Writer;
use crate::dictionaries::published::Dictionaries;
use crate::error::{LoadError, StorageError};
use crate::manifest::{TableEntry, TailEntry};
use crate::segment::Segments;
use crate::storage::extent::OwnedExtent;
use crate::table::Table;
use crate::table::requests::Load;
use crate::table::version::TableVersion;
use crate::tail::{Tail, TailLog};
use crate::write::column_source::Batches;
use crate::write::encode::encode_segments;

impl Writer {
    /// Publishes a load. A failed load leaves no codes in the dictionaries.
    pub(super) fn commit_load(&mut self, mut load: Load) -> Result<(), LoadError> {
        let (table, pass) = (load.table.clone(), load.pass.take());
        let committed = self.commit_rows(load);
        if let (Err(_), Some(pass)) = (&committed, pass) {
            pass.undo(|| table.dictionaries().reset(&table.current().dictionaries));
        }
        committed
    }

    fn commit_rows(&mut self, load: Load) -> Result<(), LoadError> {
        let Load {
            table,
            segments,
            keys,
            pass: _,
        } = load;
        let mut entry = TableEntry::clone(&*self.entry(&table)?);
        let current = table.current();
        let joined = match (table.key(), keys) {
            (Some(key), Some(loaded)) => Some(key.join(&table, &current, loaded)?),
            _ => None,
        };
        let run = joined.as_ref().and_then(|joined| joined.run.as_ref());
        entry.runs.extend(run.map(|run| run.entry().clone()));
        let run = run.map(|run| run.extent().clone());
        let added: Vec<_> = segments
            .into_iter()
            .map(|encoded| encoded.segment)
            .collect();
        let ids: Vec<u32> = added.iter().map(|segment| segment.id()).collect();
        let segments = current.segments.with(added);
        let before = &current.dictionaries;
        let dictionaries = self.commit_segments(&table, &mut entry, &segments, before, run)?;
        table.publish(TableVersion {
            segments,
            dictionaries,
            keys: joined.map_or_else(|| current.keys.next(None), |joined| joined.cell),
            ..current.next()
        });
        if self.is_begun(&table) {
            self.show(&table, TailLog::starting_at(entry.tail.first_sequence));
        }
        table.ask_for_indexes();
        table.ask_for_near_copies(ids);
        table.ask_for_index_copies();
        Ok(())
    }

    /// Seals the tail into a segment. Its rows keep their ids.
    pub(super) fn seal(&mut self, table: &Arc<Table>) -> Result<(), StorageError> {
        let mut entry = TableEntry::clone(&*self.entry(table)?);
        let current = table.current();
        if current.tail.rows() == 0 {
            return Ok(());
        }
        // Codes that are given out below must not be forgotten before they are published.
        let _pass = table.load_merge_lock().enter_seal();
        let batches: Vec<_> = current
            .tail
            .batches()
            .iter()
            .map(|batch| batch.rows.clone())
            .collect();
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
        let segment_id = table.new_segment_id()?;
        entry.tail = TailEntry {
            segment_id,
            first_sequence: sequence,
            reached: sequence,
            logs: Vec::new(),
        };
        let segments = current
            .segments
            .with(sealed.into_iter().map(|sealed| sealed.segment));
        let before = &current.dictionaries;
        let dictionaries = self.commit_segments(table, &mut entry, &segments, before, None)?;
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

    /// Publishes a manifest that gives the table `segments`, images of all dictionary values that they use, and, if given, a run
    /// of their keys. Returns the current dictionaries.
    fn commit_segments(
        &mut self,
        table: &Arc<Table>,
        entry: &mut TableEntry,
        segments: &Segments,
        before: &Dictionaries,
        run: Option<Arc<OwnedExtent>>,
    ) -> Result<Dictionaries, StorageError> {
        let images = table.dictionaries().images(&self.storage, entry, before)?;
        let known: Vec<u32> = entry.segments.iter().map(|segment| segment.id).collect();
        let new = segments
            .iter()
            .filter(|segment| known.binary_search(&segment.id()).is_err());
        let mut fresh: Vec<Arc<OwnedExtent>> = new
            .flat_map(|segment| segment.extents().iter().flatten().cloned())
            .collect();
        fresh.extend(images.extents);
        fresh.extend(run);
        entry.segments = segments
            .iter()
            .map(|segment| segment.entry().clone())
            .collect();
        entry.dictionaries = images.entries;
        entry.next_segment_id = table.next_segment_id();
        let next = self.published.with_table(entry.clone());
        self.publish(next, fresh)?;
        Ok(images.dictionaries)
    }
}
