//! Which copies of extents and which replicas of chunks are read, chosen anew: none in a tier that is lost, or in a copy that cannot
//! be repaired, if there is another, and else those that cost least. That takes a while for many segments: some are chosen for at a
//! time, and in between other requests have their turn.
//!
//! Invariant: no manifest is published; the next open chooses anew.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tierra_memory::placement::LineTimes;

use super::state::Writer;
use crate::error::DamageError;
use crate::segment::Segment;
use crate::spec::replicas::TierId;
use crate::storage::Storage;
use crate::storage::extent::OwnedExtent;
use crate::storage::tiers::Tiers;
use crate::table::Table;
use crate::table::requests::Request;
use crate::table::version::TableVersion;

/// Replicas of chunks that are chosen among at a time, in whole segments: one takes up to some microseconds.
const REPLICAS_A_STEP: usize = if cfg!(test) { 6 } else { 1024 };

/// What is left to be chosen for.
pub(super) struct Choosing {
    /// Ids; the last comes next.
    tables: Vec<u64>,
    /// The segment of that one that was done last.
    after: Option<u32>,
    /// Those who wait for the end.
    callers: Vec<SyncSender<()>>,
}

/// What reading costs in each tier.
pub(super) struct TierCosts {
    tiers: Arc<Tiers>,
    lines: Vec<(TierId, LineTimes)>,
}

impl TierCosts {
    /// What it costs now.
    pub(super) fn now(storage: &Storage) -> TierCosts {
        let tiers = storage.tiers();
        let lines = tiers.open.iter().map(|tier| (tier.id, tier.lines.times()));
        TierCosts {
            lines: lines.collect(),
            tiers,
        }
    }

    fn line_times(&self, extent: &OwnedExtent) -> LineTimes {
        let read = extent.read();
        let known = self.lines.iter().find(|(tier, _)| *tier == read.tier());
        known.map_or_else(|| read.line_times(), |(_, times)| *times)
    }

    /// The same rows, read from the replicas that are to be read; `None` if they are.
    pub(super) fn read_elsewhere(
        &self,
        table: &Table,
        segment: &Segment,
    ) -> Result<Option<Arc<Segment>>, DamageError> {
        let trouble = |extent: &OwnedExtent| {
            let read = extent.read();
            (read.refuses_repair(), self.tiers.get(read.tier()).is_none())
        };
        segment.read_elsewhere(table.spec(), trouble, |extent| self.line_times(extent))
    }
}

impl Writer {
    /// Chooses for all segments at once.
    pub(super) fn choose_replicas(&mut self) {
        for table in self.catalog.tables() {
            self.choose_after(&table, None, usize::MAX);
        }
    }

    /// Begins to choose for all segments, also if that was under way: what was done of it was of before.
    pub(super) fn begin_choosing(&mut self, caller: Option<SyncSender<()>>) {
        let tables = self.catalog.tables();
        let tables = tables.iter().map(|table| table.id()).collect();
        let before = self.choosing.take();
        let is_under_way = before.is_some();
        let mut callers = before.map_or_else(Vec::new, |before| before.callers);
        callers.extend(caller);
        self.choosing = Some(Choosing {
            tables,
            after: None,
            callers,
        });
        // Otherwise its next step is in the queue.
        if !is_under_way {
            self.go_on_choosing();
        }
    }

    /// Chooses for some more segments of a table.
    pub(super) fn go_on_choosing(&mut self) {
        let Some(mut choosing) = self.choosing.take() else {
            return;
        };
        if let Some(id) = choosing.tables.last() {
            let table = self.catalog.table_of_id(*id);
            choosing.after =
                table.and_then(|table| self.choose_after(&table, choosing.after, REPLICAS_A_STEP));
            if choosing.after.is_none() {
                choosing.tables.pop();
            }
        }
        if choosing.tables.is_empty() {
            for caller in choosing.callers {
                // It may not wait for its answer.
                let _ = caller.send(());
            }
            return;
        }
        self.choosing = Some(choosing);
        self.requests.send(Request::GoOnChoosing);
    }

    /// Chooses for the segments behind one, until they have that many replicas; for indexes before the first. Returns the last one, if
    /// others may follow.
    fn choose_after(
        &mut self,
        table: &Arc<Table>,
        after: Option<u32>,
        replicas_most: usize,
    ) -> Option<u32> {
        let (costs, current) = (TierCosts::now(&self.storage), table.current());
        let mut version = current.next();
        let are_indexes_changed = after.is_none() && self.read_indexes_elsewhere(&mut version);
        let mut segments = current.segments.to_vec();
        let (mut changed, mut replicas, mut last) = (Vec::new(), 0, None);
        let is_left = |segment: &&mut Arc<Segment>| after.is_none_or(|after| segment.id() > after);
        for segment in segments.iter_mut().filter(is_left) {
            let id = segment.id();
            match self.read_elsewhere(table, segment, &costs) {
                Ok(Some(other)) => {
                    changed.push(id);
                    *segment = other;
                }
                Ok(None) => {}
                Err(error) => {
                    let table = &table.spec().name;
                    tracing::error!(table, segment = id, %error, "no other replicas of a segment can be read");
                }
            }
            replicas += segment.entry().all_replicas().count();
            if replicas >= replicas_most {
                last = Some(id);
                break;
            }
        }
        if !changed.is_empty() || are_indexes_changed {
            let name = &table.spec().name;
            tracing::info!(table = name, segments = ?changed, "other replicas of chunks, or other copies, are read from now on");
            version.segments = segments.into_iter().collect();
            table.publish(version);
            table.ask_for_near_copies(changed);
        }
        last
    }

    /// The same rows, read from the copies and replicas that are to be read; `None` if they are.
    fn read_elsewhere(
        &mut self,
        table: &Table,
        segment: &Arc<Segment>,
        costs: &TierCosts,
    ) -> Result<Option<Arc<Segment>>, DamageError> {
        let mut is_other = false;
        let extents = segment.extents().iter().map(|extent| {
            let other = self.published.read_elsewhere(extent.as_ref()?.id());
            is_other |= other.is_some();
            other.or_else(|| extent.clone())
        });
        let extents: Vec<Option<Arc<OwnedExtent>>> = extents.collect();
        let other = match is_other {
            true => Some(segment.with_extents(extents, table.spec())?),
            false => None,
        };
        // Of one replica there is nothing to choose.
        if segment.entry().further.is_empty() {
            return Ok(other);
        }
        let chosen = costs.read_elsewhere(table, other.as_ref().unwrap_or(segment))?;
        Ok(chosen.or(other))
    }

    /// Has the indexes of a version read from the copies that are to be read. Returns whether any are others than before.
    fn read_indexes_elsewhere(&mut self, version: &mut TableVersion) -> bool {
        let (mut parts, mut runs) = (version.indexes.to_vec(), version.keys.runs().to_vec());
        let mut is_changed = false;
        for part in &mut parts {
            if let Some(extent) = self.published.read_elsewhere(part.extent().id()) {
                (*part, is_changed) = (part.with_extent(extent), true);
            }
        }
        for run in &mut runs {
            if let Some(extent) = self.published.read_elsewhere(run.extent().id()) {
                (*run, is_changed) = (run.with_extent(extent), true);
            }
        }
        if is_changed {
            version.indexes = parts.into();
            version.keys = version.keys.with_runs(runs);
        }
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use arrow::array::{Int64Array, RecordBatch};
    use tierra_column::{Encoding, LogicalType};

    use super::*;
    use crate::support::options;
    use crate::{ColumnSpec, Database, Replicas, TableSpec};

    /// A table of two replicas in five segments, of which a step takes three.
    fn create(database: &Database, name: &str) -> Arc<Table> {
        let spec = TableSpec {
            name: name.to_owned(),
            columns: vec![ColumnSpec::new("n", LogicalType::BigInt)],
            primary_key: Vec::new(),
        };
        let of_n = ["far/dynamic", "far/static"].map(str::to_owned);
        let replicas = Replicas {
            table: vec!["far".to_owned()],
            columns: [("n".to_owned(), of_n.into())].into(),
        };
        let table = database.create_table_in(spec, replicas).unwrap();
        for _ in 0..5 {
            // Few values are large.
            let numbers = (0..3000).map(|at| if at % 1000 == 0 { 1 << 40 } else { at % 7 });
            let numbers = Arc::new(Int64Array::from_iter_values(numbers));
            let batch = RecordBatch::try_new(table.schema(), vec![numbers]).unwrap();
            table.append(&[batch]).unwrap();
            table.seal().unwrap();
        }
        table
    }

    #[test]
    fn others_have_their_turn_while_replicas_are_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::create(&dir.path().join("db"), &options()).unwrap();
        let tables = ["t", "u"].map(|name| create(&database, name));
        database.wait_for_near_copies().unwrap();
        let scanned_static = || {
            tables.each_ref().map(|table| {
                let current = table.current();
                let segments = current.segments.iter();
                let encodings = segments.map(|segment| segment.encoding(0));
                encodings.filter(|it| *it == Some(Encoding::Static)).count()
            })
        };
        assert_eq!(scanned_static(), [0, 0]);
        // Bandwidth is plenty.
        let lines = database.storage().tiers().open[0].lines.clone();
        lines.set(Some(LineTimes {
            in_order_ns: 0.01,
            alone_ns: 10.0,
            shared_ns: 0.0,
        }));
        let requests = database.requests();
        // An answer without room holds the writer up until it is taken. Meanwhile these requests queue up.
        let ask = |room| {
            let (reply, answer) = sync_channel(room);
            requests.send(Request::Extents { reply });
            answer
        };
        let first = ask(0);
        let mut chosen = Vec::new();
        for _ in 0..2 {
            let (reply, answer) = sync_channel(1);
            requests.send(Request::ChooseReplicas { reply: Some(reply) });
            chosen.push(answer);
        }
        let (other, last) = (ask(1), ask(0));
        first.recv().unwrap();
        other.recv().unwrap();
        assert_eq!(scanned_static(), [0, 3]);
        assert!(chosen.iter().all(|answer| answer.try_recv().is_err()));
        last.recv().unwrap();
        for answer in chosen {
            answer.recv().unwrap();
        }
        assert_eq!(scanned_static(), [5, 5]);
        // Those that wait for everything do so for that, too.
        lines.set(None);
        requests.send(Request::ChooseReplicas { reply: None });
        database.wait_for_near_copies().unwrap();
        assert_eq!(scanned_static(), [0, 0]);
    }
}
