//! In which tiers a cursor reads a morsel: of a segment's copies and replicas those that cost least for one more reader of their
//! tiers. It counts as a reader of these tiers until its next morsel.
//!
//! Costs nothing where the database has one tier. Elsewhere a cursor writes the counts of the tiers that it reads twice a morsel.
//!
//! Invariant: a cursor counts at most once in each tier, and no longer than it has a morsel.

use std::sync::Arc;

use tierra_memory::placement::LineTimes;

use crate::segment::Segment;
use crate::spec::TableSpec;
use crate::spec::replicas::TierId;
use crate::storage::extent::{ALIKE, ExtentCopy};
use crate::storage::tier::TierLines;
use crate::storage::tiers::Tiers;

/// What a cursor reads, and where it counts.
#[derive(Debug)]
pub(super) struct Load {
    /// The open tiers; none where there is only one.
    tiers: Vec<ReadTier>,
    /// Which of the [others](Segment::others) of the morsel's segment is read; `None`: the segment itself.
    other: Option<usize>,
}

#[derive(Debug)]
struct ReadTier {
    id: TierId,
    lines: TierLines,
    /// What a line takes while nobody else reads, as it was when the cursor began; `None`: it is not known.
    alone: Option<LineTimes>,
    /// Whether the cursor counts there.
    is_read: bool,
}

impl Load {
    pub(super) fn new(tiers: &Tiers) -> Load {
        let open = tiers.open.iter().filter(|_| tiers.open.len() > 1);
        let tiers = open.map(|tier| ReadTier {
            id: tier.id,
            lines: tier.lines.clone(),
            alone: tier.lines.known_alone(),
            is_read: false,
        });
        Load {
            tiers: tiers.collect(),
            other: None,
        }
    }

    /// Which of the others of the morsel's segment is read; `None`: the segment itself.
    #[inline]
    pub(super) fn other(&self) -> Option<usize> {
        self.other
    }

    /// Begins a morsel of a segment of which these columns are read.
    pub(super) fn begin(&mut self, segment: &Arc<Segment>, spec: &TableSpec, columns: &[usize]) {
        self.end();
        if self.tiers.is_empty() {
            return;
        }
        self.other = self.cheapest(segment, spec, columns);
        self.count(segment.read_as(self.other), columns);
    }

    /// Reads what another scan of the batch reads of the morsel, whose lines are in a cache then.
    pub(super) fn follow(&mut self, segment: &Arc<Segment>, first: &Segment, columns: &[usize]) {
        let is_first = |other: &Option<usize>| std::ptr::eq(&**segment.read_as(*other), first);
        let others = (0..segment.made_others()).map(Some);
        let found = std::iter::once(None).chain(others).find(is_first);
        if let Some(other) = found.filter(|other| *other != self.other) {
            self.end();
            self.other = other;
            self.count(segment.read_as(other), columns);
        }
    }

    /// Nothing is read until the next morsel.
    pub(super) fn end(&mut self) {
        self.other = None;
        for tier in self.tiers.iter_mut().filter(|tier| tier.is_read) {
            tier.is_read = false;
            tier.lines.end_reading();
        }
    }

    /// What costs clearly less than the segment itself, for one more reader.
    fn cheapest(&self, segment: &Segment, spec: &TableSpec, columns: &[usize]) -> Option<usize> {
        let lines = |copy: &ExtentCopy| {
            let mut tiers = self.tiers.iter();
            let tier = tiers.find(|tier| tier.id == copy.tier())?;
            Some(tier.alone?.loaded(tier.lines.readers() + 1))
        };
        let itself_ns = segment.scan_ns(columns, lines)?;
        let costs = segment.others(spec).iter().enumerate();
        let costs = costs.filter_map(|(at, other)| Some((at, other.scan_ns(columns, lines)?)));
        let least = costs.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let clearly_less = least.filter(|(_, ns)| *ns * ALIKE < itself_ns);
        clearly_less.map(|(at, _)| at)
    }

    fn count(&mut self, segment: &Segment, columns: &[usize]) {
        for id in segment.tiers_read(columns) {
            let mut tiers = self.tiers.iter_mut();
            if let Some(tier) = tiers.find(|tier| tier.id == id && !tier.is_read) {
                tier.is_read = true;
                tier.lines.begin_reading();
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use tierra_column::{Encoding, Filter, LogicalType, Value};
    use tierra_interleave::Scheduling;

    use super::*;
    use crate::read::scan::ScanSpec;
    use crate::support::options;
    use crate::{ColumnSpec, Database, DatabaseOptions, Replicas, Table};

    const ROWS: i64 = 20_000;

    /// A table with a segment whose column has replicas in these tiers, `far` and `b`. Nothing is near.
    fn create(dir: &tempfile::TempDir, replicas: &[&str]) -> (Arc<Database>, Arc<Table>) {
        let options = DatabaseOptions {
            near_memory_bytes: Some(0),
            ..options()
        };
        let database = Database::create(&dir.path().join("db"), &options).unwrap();
        database.add_tier("b", &dir.path().join("b.pool")).unwrap();
        let spec = TableSpec {
            name: "t".to_owned(),
            columns: vec![ColumnSpec::new("n", LogicalType::BigInt)],
            primary_key: Vec::new(),
        };
        let of_n = replicas.iter().map(|name| (*name).to_owned()).collect();
        let replicas = Replicas {
            table: vec!["far".to_owned()],
            columns: [("n".to_owned(), of_n)].into(),
        };
        let table = database.create_table_in(spec, replicas).unwrap();
        // Few values are large.
        let numbers = (0..ROWS).map(|at| if at % 1000 == 0 { 1 << 40 } else { at % 7 });
        let numbers = Arc::new(Int64Array::from_iter_values(numbers));
        let batch = RecordBatch::try_new(table.schema(), vec![numbers]).unwrap();
        table.append(&[batch]).unwrap();
        table.seal().unwrap();
        database.wait_for_near_copies().unwrap();
        (database, table)
    }

    fn lines(database: &Database, tier: &str) -> TierLines {
        let tiers = database.storage().tiers();
        let found = tiers.open.iter().find(|open| *open.name == *tier);
        found.unwrap().lines.clone()
    }

    fn times(in_order_ns: f64, shared_ns: f64) -> Option<LineTimes> {
        Some(LineTimes {
            in_order_ns,
            alone_ns: 100.0,
            shared_ns,
        })
    }

    fn other_than(tier: &str) -> &'static str {
        if tier == "far" { "b" } else { "far" }
    }

    #[test]
    fn the_tier_that_costs_one_more_reader_less_is_read_and_counts_as_long() {
        let dir = tempfile::tempdir().unwrap();
        let (database, table) = create(&dir, &["far", "b"]);
        let segment = table.current().segments[0].clone();
        let itself = segment.tier(0).unwrap();
        let [here, there] = [itself, other_than(itself)].map(|tier| lines(&database, tier));
        let tier_of_next = |load: &mut Load| {
            load.begin(&segment, table.spec(), &[0]);
            segment.read_as(load.other()).tier(0).unwrap().to_owned()
        };
        let load = || Load::new(&database.storage().tiers());
        let counts = || [here.readers(), there.readers()];

        // So slow that unpacking does not count. What is not known may be a disk.
        here.set(times(50e3, 40e3));
        let busy = [here.reading(), here.reading()];
        assert_eq!(tier_of_next(&mut load()), itself);
        there.set(times(50e3, 40e3));
        let mut first = load();
        assert_eq!(tier_of_next(&mut first), other_than(itself));
        assert_eq!(counts(), [2, 1]);
        // A cursor does not stand in its own way.
        assert_eq!(tier_of_next(&mut first), other_than(itself));
        assert_eq!(counts(), [2, 1]);
        drop(busy);
        // Of tiers alike what was chosen when the segment was opened.
        assert_eq!(tier_of_next(&mut first), itself);
        assert_eq!(counts(), [1, 0]);
        let mut loads: Vec<Load> = (0..7).map(|_| load()).collect();
        for load in &mut loads {
            tier_of_next(load);
        }
        assert_eq!(counts(), [4, 4]);
        first.end();
        assert_eq!(counts(), [3, 4]);
        drop((first, loads));
        assert_eq!(counts(), [0, 0]);
        // In proportion, where one has three times the bandwidth.
        there.set(times(50e3, 120e3));
        let mut loads: Vec<Load> = (0..8).map(|_| load()).collect();
        for load in &mut loads {
            tier_of_next(load);
        }
        assert_eq!(counts(), [6, 2]);
    }

    #[test]
    fn bandwidth_decides_about_encodings_too() {
        let dir = tempfile::tempdir().unwrap();
        let (database, table) = create(&dir, &["far/static", "far/dynamic"]);
        let segment = table.current().segments[0].clone();
        let far = lines(&database, "far");
        // Plenty for one, little for each of many.
        far.set(times(0.01, 0.01));
        let mut load = Load::new(&database.storage().tiers());
        let mut encoding_of_next = || {
            load.begin(&segment, table.spec(), &[0]);
            segment.read_as(load.other()).encoding(0)
        };
        assert_eq!(encoding_of_next(), Some(Encoding::Static));
        let busy: Vec<_> = (0..5000).map(|_| far.reading()).collect();
        assert_eq!(encoding_of_next(), Some(Encoding::Dynamic));
        drop(busy);
        assert_eq!(encoding_of_next(), Some(Encoding::Static));
    }

    #[test]
    fn rows_are_the_same_wherever_each_morsel_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (database, table) = create(&dir, &["far/static", "b/dynamic"]);
        for tier in ["far", "b"] {
            lines(&database, tier).set(times(5.0, 4.0));
        }
        let three = Value::of_array(&Int64Array::from(vec![3]), 0);
        let scan = table.snapshot().scan(ScanSpec {
            projection: vec![0],
            filters: vec![(0, Filter::eq(three.unwrap()))],
            batch_rows: 1000,
            execution: Scheduling::Auto,
        });
        let (mut cursor, mut rows) = (scan.cursor(), 0);
        for batch in 0.. {
            // Tiers are busy by turns.
            let busy = lines(&database, ["far", "b"][batch % 2]);
            let _busy: Vec<_> = (0..100).map(|_| busy.reading()).collect();
            let Some(batch) = cursor.next(&[], 0).unwrap() else {
                break;
            };
            let values = batch.column(0).as_primitive::<Int64Type>();
            assert!(values.values().iter().all(|value| *value == 3));
            rows += batch.num_rows() as i64;
        }
        let expected = (0..ROWS).filter(|at| at % 7 == 3 && at % 1000 != 0);
        assert_eq!(rows, expected.count() as i64);
        assert!(cursor.counters().blocks_elsewhere > 0);
        drop(cursor);
        let counts = ["far", "b"].map(|tier| lines(&database, tier).readers());
        assert_eq!(counts, [0, 0]);
    }
}
