//! Promise: near copies in an encoding of their own have the rows of the chunks that they were made of. They come, go and change nothing
//! else: what is stored stays in its encoding, and is checked, put right and backed up as if it were not near.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use tierra_column::Encoding;
use tierra_engine::{
    Change, Database, DatabaseOptions, ReadPattern, Replicas, RowId, ScrubOptions, Snapshot, Table,
    TableSpec,
};
use tierra_interleave::{Lookups, Scheduling};

use crate::copied::{self, damage};
use crate::replicated::{Place, check, fill, indexed};
use crate::support::{self, options, rows_of};

/// Columns, the encoding in which they are stored, and that of near copies.
const NEAR: [(usize, &str, Encoding); 8] = [
    (0, "delta", Encoding::Static),
    (1, "rle", Encoding::Plain),
    (2, "lz4", Encoding::Static),
    (3, "fastpfor", Encoding::FrameOfReference),
    (5, "lz4", Encoding::Plain),
    (6, "snappy", Encoding::Dynamic),
    (7, "dynamic", Encoding::Static),
    (9, "front", Encoding::Plain),
];

fn near_spec(mut spec: TableSpec) -> TableSpec {
    for (column, _, encoding) in NEAR {
        spec.columns[column].near_encoding = Some(encoding);
    }
    spec
}

/// The stored encodings in these tiers; a tier in which columns have another one is last.
fn stored(tiers: &[&str], other: Option<&str>) -> Replicas {
    let spec = indexed("t");
    let of_column = NEAR.map(|(column, stored, _)| {
        let all = tiers.iter().map(|tier| format!("{tier}/{stored}"));
        let other = other.map(|tier| format!("{tier}/plain"));
        (
            spec.columns[column].name.clone(),
            all.chain(other).collect(),
        )
    });
    let tiers = tiers.iter().copied().chain(other);
    Replicas {
        table: tiers.map(str::to_owned).collect(),
        columns: of_column.into(),
    }
}

/// With room for all near copies, or none.
fn with_room(is_there: bool) -> DatabaseOptions {
    DatabaseOptions {
        near_memory_bytes: Some(if is_there { 64 << 20 } else { 0 }),
        degraded: true,
        ..options()
    }
}

/// What scans, or lookups, read sealed rows of the columns from: near or not, and in which encodings.
fn sources(table: &Arc<Table>, pattern: ReadPattern) -> Vec<(bool, Encoding)> {
    let snapshot = table.snapshot();
    let of_column = NEAR.map(|(column, ..)| {
        let mut sources = snapshot.sources(column, pattern);
        assert_eq!(sources.len(), 1, "{sources:?}");
        let source = sources.remove(0);
        (source.tier.is_none(), source.encoding)
    });
    of_column.into()
}

/// Looks all columns of some rows up.
fn check_lookups(snapshot: &Snapshot, ids: &[i64]) {
    let keys: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
    let mut lookups = Lookups::new(Scheduling::Auto);
    let found = snapshot.rows_by_key(&[keys], &mut lookups).unwrap();
    let found: Vec<RowId> = found.into_iter().map(Option::unwrap).collect();
    let columns: Vec<usize> = (0..snapshot.table().spec().columns.len()).collect();
    let projection = snapshot.table().projection(&columns);
    let looked_up = snapshot.reconstruct(&found, &projection, &mut lookups);
    assert_eq!(looked_up.unwrap(), rows_of(ids));
}

/// All rows, by scans and by lookups.
fn check_all(database: &Database, count: i64) {
    check(database, count);
    let ids: Vec<i64> = (0..count / 97).rev().map(|at| at * 97).collect();
    check_lookups(&database.table("t").unwrap().snapshot(), &ids);
}

#[test]
fn columns_are_read_near_in_the_encoding_asked_for() {
    let place = Place::new();
    let database = Database::create(&place.db(), &with_room(true)).unwrap();
    let replicas = stored(&["far"], None);
    let table = database.create_table_in(near_spec(indexed("t")), replicas.clone());
    let table = table.unwrap();
    let mut count = fill(&table, 0);
    check_all(&database, count);
    let near: Vec<(bool, Encoding)> = NEAR.iter().map(|(.., near)| (true, *near)).collect();
    for pattern in [ReadPattern::Sequential, ReadPattern::Random] {
        assert_eq!(sources(&table, pattern), near);
    }
    let (statistics, stored_bytes) = (
        NEAR.map(|(column, ..)| table.snapshot().statistics(column)),
        table.snapshot().stored_bytes(),
    );
    let distinct = NEAR.map(|(column, ..)| table.snapshot().distinct_values(column));
    drop((table, database));

    // Without room what is stored is read, which is as it was; and it says the same of its values.
    let database = Database::open(&place.db(), &with_room(false)).unwrap();
    let table = database.table("t").unwrap();
    check_all(&database, count);
    let far = NEAR.map(|(_, stored, _)| (false, stored.parse().unwrap()));
    for pattern in [ReadPattern::Sequential, ReadPattern::Random] {
        assert_eq!(sources(&table, pattern), far);
    }
    assert_eq!(table.snapshot().stored_bytes(), stored_bytes);
    let again = NEAR.map(|(column, ..)| table.snapshot().statistics(column));
    assert_eq!(again, statistics);
    let again = NEAR.map(|(column, ..)| table.snapshot().distinct_values(column));
    assert_eq!(again, distinct);
    drop((table, database));

    // The encodings are those of the table, which a database that is opened again knows.
    let database = Database::open(&place.db(), &with_room(true)).unwrap();
    let table = database.table("t").unwrap();
    assert_eq!(
        table.spec().columns[0].near_encoding,
        Some(Encoding::Static)
    );
    count = fill(&table, count);
    check_all(&database, count);
    assert_eq!(sources(&table, ReadPattern::Sequential), near);
    // Deleted rows are so in every encoding.
    let odd: Vec<i64> = (0..count).filter(|id| id % 2 == 1).collect();
    let even: Vec<i64> = (0..count).filter(|id| id % 2 == 0).collect();
    let snapshot = table.snapshot();
    let keys: ArrayRef = Arc::new(Int64Array::from(even));
    let found = snapshot.rows_by_key(&[keys], &mut Lookups::new(Scheduling::Auto));
    let change = Change {
        snapshot: snapshot.clone(),
        deleted: found.unwrap().into_iter().flatten().collect(),
        appended: Vec::new(),
    };
    database.commit(vec![change]).unwrap();
    for _ in 0..2 {
        assert_eq!(support::all_rows(&table), rows_of(&odd));
        check_lookups(&table.snapshot(), &odd[..1000]);
        // Then compacted.
        database.wait_for_near_copies().unwrap();
    }
    assert_eq!(sources(&table, ReadPattern::Sequential), near);
}

/// Copies of what is stored move between tiers and encodings, and tiers go away, under near copies that stay, or are made anew.
#[test]
fn what_is_stored_moves_below_near_copies() {
    let place = Place::new();
    drop(place.create(&["b"]));
    let database = Database::open(&place.db(), &with_room(true)).unwrap();
    let replicas = stored(&["far"], None);
    let table = database.create_table_in(near_spec(indexed("t")), replicas);
    let table = table.unwrap();
    let count = fill(&table, 0);
    check_all(&database, count);
    let near: Vec<(bool, Encoding)> = NEAR.iter().map(|(.., near)| (true, *near)).collect();
    for replicas in [
        stored(&["far", "b"], None),
        stored(&["b"], None),
        stored(&["far"], Some("b")),
        stored(&["b"], Some("far")),
        Replicas::of_table(["far", "b"]),
        stored(&["far"], Some("b")),
    ] {
        table.set_replicas(&replicas).unwrap();
        check_all(&database, count);
        database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        let by_lookups = sources(&table, ReadPattern::Random);
        assert!(
            by_lookups.iter().all(|(is_near, _)| *is_near),
            "{replicas:?}"
        );
    }
    drop((table, database));
    for gone in ["far", "b"] {
        place.take_away(gone);
        let database = Database::open(&place.db(), &with_room(true)).unwrap();
        check_all(&database, count);
        let table = database.table("t").unwrap();
        let read = sources(&table, ReadPattern::Sequential);
        // Of plain chunks near copies in that encoding are as they are stored.
        assert_eq!(read, near, "without {gone}");
        drop((table, database));
        place.bring_back(gone);
    }
}

/// As without near copies: damage of what is stored is found, and put right of the other replica.
#[test]
fn damage_below_near_copies_is_put_right() {
    let replicas = stored(&["far"], Some("b"));
    let place = copied::Place::in_replicas(replicas, |spec| *spec = near_spec(spec.clone()));
    for seed in 0..12 {
        let victim = ["far", "b"][(seed / 3 % 2) as usize];
        let len_bytes = std::fs::metadata(place.pool(victim)).unwrap().len();
        let database = place.open(64 << 20);
        copied::check(&database);
        database.wait_for_near_copies().unwrap();
        let ranges = damage(seed, len_bytes);
        println!("seed {seed}: {victim} damaged in {} places", ranges.len());
        place.change(victim, &ranges);
        // Near, all is as it was.
        copied::check(&database);
        copied::put_right(&database, seed);
        copied::check(&database);
        drop(database);
        copied::check(&place.open(0));
        // Damaged before near copies are made of it.
        place.change(victim, &damage(seed + 100, len_bytes));
        let database = place.open(64 << 20);
        copied::check(&database);
        database.wait_for_near_copies().unwrap();
        copied::check(&database);
        copied::put_right(&database, seed);
    }
}

/// What has codes of a dictionary, chosen for the values, is near as it is: indexes and groups speak of codes. The option is refused
/// where it says otherwise.
#[test]
fn codes_stay_codes() {
    let place = Place::new();
    let database = Database::create(&place.db(), &with_room(true)).unwrap();
    let mut spec = indexed("t");
    spec.columns[support::CITY].near_encoding = Some(Encoding::Plain);
    let refused = database.create_table(spec.clone()).unwrap_err().to_string();
    assert!(refused.contains("near copies"), "{refused}");
    spec.columns[support::CITY].near_encoding = None;
    spec.columns[0].near_encoding = Some(Encoding::Dictionary);
    let refused = database.create_table(spec.clone()).unwrap_err().to_string();
    assert!(refused.contains("near copies"), "{refused}");
    spec.columns[0].near_encoding = Some(Encoding::Front);
    let refused = database.create_table(spec.clone()).unwrap_err().to_string();
    assert!(refused.contains("front"), "{refused}");
    spec.columns[0].near_encoding = None;
    // Chosen by Tierra.
    (
        spec.columns[support::CITY].encoding,
        spec.columns[support::CITY].index,
    ) = (None, None);
    spec.columns[support::CITY].near_encoding = Some(Encoding::Plain);
    let table = database.create_table(spec).unwrap();
    let count = fill(&table, 0);
    check_all(&database, count);
    let sources = table
        .snapshot()
        .sources(support::CITY, ReadPattern::Sequential);
    let read: Vec<_> = sources
        .iter()
        .map(|it| (it.tier.is_none(), it.encoding))
        .collect();
    // Few rows of the last segment are plain.
    assert!(read.contains(&(true, Encoding::Dictionary)), "{read:?}");
    assert!(read.iter().all(|(is_near, _)| *is_near), "{read:?}");
}
