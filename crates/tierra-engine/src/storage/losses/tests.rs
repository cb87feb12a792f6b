//! Pages are lost under an open database. Queries, lookups, indexes, appends and merges continue with right answers. Exactly the
//! data without another copy is reported.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use tempfile::TempDir;
use tierra_column::{Encoding, Filter, Value};
use tierra_interleave::{Lookups, Scheduling};
use tierra_memory::Pool;
use tierra_memory::faults::Injector;

use crate::error::{LookupError, ScanError};
use crate::storage::extent::Owner;
use crate::support::{CITY, all_rows, options, rows, scan, spec};
use crate::{
    Database, DatabaseOptions, FaultKind, FaultOutcome, IndexKind, Replicas, ScanSpec,
    ScrubOptions, Table,
};

/// Enough for a segment.
const ROWS: i64 = 67_000;
const COLUMNS: usize = 10;
/// After the header and the superblock.
const FIRST_EXTENT: u64 = 16_384;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        Place(dir.unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("db")
    }

    fn other(&self) -> PathBuf {
        self.0.path().join("b")
    }

    /// A table of segments, dictionaries, an index and a tail, with copies in these tiers and none near.
    fn create(&self, tiers: &[&str]) -> (Arc<Database>, Arc<Table>) {
        let options = DatabaseOptions {
            near_memory_bytes: Some(0),
            ..options()
        };
        let database = Database::create(&self.db(), &options).unwrap();
        if tiers.contains(&"b") {
            database.add_tier("b", &self.other()).unwrap();
        }
        let mut spec = spec("t", vec![0]);
        spec.columns[CITY].encoding = Some(Encoding::Dictionary);
        spec.columns[CITY].index = Some(IndexKind::Inverted);
        let replicas = Replicas::of_table(tiers.iter().copied());
        let table = database.create_table_in(spec, replicas).unwrap();
        let mut loader = table.loader();
        loader.push(rows(0..ROWS - 500)).unwrap();
        loader.finish().unwrap();
        table.append(&[rows(ROWS - 500..ROWS)]).unwrap();
        database.wait_for_near_copies().unwrap();
        (database, table)
    }
}

fn pool(table: &Table, tier: &str) -> Arc<Pool> {
    let tiers = table.storage().tiers();
    let tier = tiers.open.iter().find(|open| &*open.name == tier);
    tier.unwrap().pool.clone()
}

fn check_scan(table: &Arc<Table>, upto: i64) {
    assert_eq!(all_rows(table), rows(0..upto));
}

fn check_index(table: &Arc<Table>, upto: i64) {
    let city = Filter::eq(Value::Bytes("city number 007".as_bytes().into()));
    let (found, _) = scan(&table.snapshot(), &[0], &[(CITY, city)]);
    let expected = (0..upto).filter(|id| id % 200 == 7).count();
    assert_eq!(found.num_rows(), expected);
}

fn check_lookups(table: &Arc<Table>, ids: &[i64]) -> Result<(), LookupError> {
    let (snapshot, columns) = (table.snapshot(), Vec::from_iter(0..COLUMNS));
    let projection = table.projection(&columns);
    let keys: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let mut lookups = Lookups::new(Scheduling::Auto);
    let found = snapshot.rows_by_key(&[keys], &mut lookups)?;
    let found: Vec<_> = found.into_iter().map(Option::unwrap).collect();
    let read = snapshot.reconstruct(&found, &projection, &mut lookups)?;
    assert_eq!(read, crate::support::rows_of(ids));
    Ok(())
}

fn random_pages(seed: u64, count: u64, len_bytes: u64) -> Vec<Range<u64>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        FIRST_EXTENT + state % (len_bytes - FIRST_EXTENT)
    };
    (0..count).map(|_| next()).map(|at| at..at + 1).collect()
}

/// Checks that the tier `victim` alone is enough.
fn check_alone(place: &Place, victim: &str, upto: i64) {
    let other = match victim {
        "far" => place.other(),
        _ => place.db().join("far.pool"),
    };
    let away = Path::new(&other).with_extension("away");
    std::fs::rename(&other, &away).unwrap();
    let degraded = DatabaseOptions {
        degraded: true,
        ..options()
    };
    let database = Database::open(&place.db(), &degraded).unwrap();
    check_scan(&database.table("t").unwrap(), upto);
    drop(database);
    std::fs::rename(&away, &other).unwrap();
}

#[test]
fn pages_that_another_tier_has_are_read_from_there() {
    for seed in 0..8 {
        println!("seed {seed}");
        let place = Place::new();
        let (database, table) = place.create(&["far", "b"]);
        let victim = ["far", "far", "far", "b"][seed as usize % 4];
        let pool = pool(&table, victim);
        // Everything was read once: no checksum will be compared again.
        check_scan(&table, ROWS);
        check_lookups(&table, &[1, 2, 3]).unwrap();
        let mut injector = Injector::new(seed);
        match seed % 3 {
            2 => drop(injector.cut(&pool, FIRST_EXTENT + 5000).unwrap()),
            _ => {
                for page in random_pages(seed, 40, pool.len_bytes()) {
                    injector.lose_page(&pool, page).unwrap();
                }
            }
        }
        let some: Vec<i64> = (0..ROWS).step_by(97).collect();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| check_scan(&table, ROWS));
            }
            scope.spawn(|| check_index(&table, ROWS));
            scope.spawn(|| check_lookups(&table, &some).unwrap());
        });
        table.append(&[rows(ROWS..ROWS + 10)]).unwrap();
        table.merge_dictionaries().unwrap();
        check_scan(&table, ROWS + 10);
        let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(found.lost, [], "seed {seed}: {found:?}");
        let again = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(again.damaged_copies, 0, "seed {seed}: {again:?}");
        assert_eq!(database.missing_tiers(), []);
        let (faults, totals) = database.faults();
        assert!(totals.found > 0 && totals.lost == 0, "{totals:?}");
        for fault in &faults {
            let is_repaired = matches!(fault.outcome, FaultOutcome::Repaired { .. });
            // An unreferenced extent is not repaired.
            assert!(
                is_repaired || fault.outcome == FaultOutcome::Open,
                "{fault:?}"
            );
        }
        drop((table, pool, database));
        check_alone(&place, victim, ROWS + 10);
    }
}

/// A page without a copy: a query that needs it gets an error naming the rows; all other queries work.
#[test]
fn what_no_tier_has_is_named_and_all_else_goes_on() {
    let place = Place::new();
    let (database, table) = place.create(&["far"]);
    check_scan(&table, ROWS);
    // In the middle of the chunk of `note`.
    let note = crate::support::NOTE;
    let segment = table.current().segments[0].clone();
    let (extent, range) = {
        let chunk = segment.chunk(note);
        let entry = &segment.entry().chunks[note];
        let extent = segment.extents()[entry.extent as usize].clone().unwrap();
        let at = entry.offset as usize + chunk.block_range(20).start + 100;
        (extent, at..at + 1)
    };
    let first = extent.read().extent().offset;
    let page = first + range.start as u64..first + range.end as u64;
    let pool = pool(&table, "far");
    let damage = Injector::new(1).lose_page(&pool, page).unwrap();
    let page = &damage.offsets[0];
    let in_extent = (page.start.saturating_sub(first)) as usize..(page.end - first) as usize;
    let (columns, lost) = segment.rows_at(extent.id(), &in_extent).unwrap();
    assert_eq!(columns, [note], "a page of one column: choose another");
    for _ in 0..2 {
        let others = Vec::from_iter((0..COLUMNS).filter(|column| *column != note));
        let (found, _) = scan(&table.snapshot(), &others, &[]);
        assert_eq!(found.num_rows() as i64, ROWS);
        let wanted = ScanSpec {
            projection: vec![note],
            filters: vec![],
            batch_rows: 1,
            execution: Scheduling::Auto,
        };
        let mut cursor = table.snapshot().scan(wanted).cursor();
        let (mut readable, mut named) = (0, Vec::new());
        loop {
            match cursor.next(&[], 0) {
                Ok(Some(batch)) => readable += batch.num_rows(),
                Ok(None) => break,
                Err(ScanError::Damaged { column, block, .. }) => {
                    assert_eq!(column, "note");
                    named.push(block * 1024..(block + 1) * 1024);
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(
            (named[0].start, named.last().unwrap().end),
            (lost.start, lost.end)
        );
        assert_eq!(readable, ROWS as usize - lost.len());
        check_lookups(&table, &[lost.start as i64 - 1, lost.end as i64]).unwrap();
        let error = check_lookups(&table, &[lost.start as i64]).unwrap_err();
        assert!(error.to_string().contains("its page was lost"), "{error}");
    }
    let (faults, totals) = database.faults();
    assert_eq!((totals.found, totals.lost), (1, 1), "{faults:?}");
    let fault = &faults[0];
    assert_eq!(fault.kind, FaultKind::LostPage);
    assert_eq!(fault.column.as_deref(), Some("note"));
    assert_eq!(fault.rows, Some(lost.start as u64..lost.end as u64));
    table.append(&[rows(ROWS..ROWS + 10)]).unwrap();
    check_index(&table, ROWS + 10);
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    let named: Vec<_> = told.lost.iter().map(|lost| lost.rows.clone()).collect();
    assert_eq!(
        (named[0].start, named.last().unwrap().end),
        (lost.start, lost.end)
    );
}

/// The log loses pages, in one tier or in the only one.
#[test]
fn rows_of_a_log_that_lost_pages_are_not_lost() {
    for tiers in [&["far", "b"][..], &["far"][..]] {
        let place = Place::new();
        let (database, table) = place.create(tiers);
        let held = table.storage().losses().held();
        let logs = held
            .iter()
            .filter(|extent| matches!(extent.owner(), Owner::Log(_)));
        let mut injector = Injector::new(3);
        for log in logs {
            let place = log.read().extent();
            let page = place.offset..place.offset + 1;
            injector.lose_page(log.read().pool(), page).unwrap();
            let page = place.offset + 20_000..place.offset + 40_000;
            injector.lose_page(log.read().pool(), page).unwrap();
        }
        drop(held);
        for start in (ROWS..ROWS + 1000).step_by(100) {
            table.append(&[rows(start..start + 100)]).unwrap();
        }
        check_scan(&table, ROWS + 1000);
        database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        drop((table, database));
        match tiers.len() {
            2 => check_alone(&place, "far", ROWS + 1000),
            _ => {
                let database = Database::open(&place.db(), &options()).unwrap();
                check_scan(&database.table("t").unwrap(), ROWS + 1000);
            }
        }
    }
}

/// A dictionary piece loses a page without a copy: its values are in near memory, and are rewritten.
#[test]
fn a_dictionary_whose_only_piece_lost_a_page_is_not_lost() {
    let place = Place::new();
    let (database, table) = place.create(&["far"]);
    let held = table.storage().losses().held();
    let pieces = held.iter();
    let pieces = pieces.filter(|extent| matches!(extent.owner(), Owner::Dictionary(_)));
    let mut lost = 0;
    for piece in pieces {
        let at = piece.read().extent().offset;
        Injector::new(5)
            .lose_page(piece.read().pool(), at..at + 1)
            .unwrap();
        lost += 1;
    }
    assert!(lost > 0);
    drop(held);
    check_index(&table, ROWS);
    let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(found.lost, [], "{found:?}");
    let (faults, totals) = database.faults();
    assert_eq!(totals.lost, 0, "{faults:?}");
    // Values added later come after those in the new piece.
    table.append(&[rows(ROWS..ROWS + 300)]).unwrap();
    table.seal().unwrap();
    drop((table, database));
    let database = Database::open(&place.db(), &options()).unwrap();
    let table = database.table("t").unwrap();
    check_scan(&table, ROWS + 300);
    check_index(&table, ROWS + 300);
}
