//! Damage of one copy is not noticed by who reads: the bytes come from another copy, and the damaged ones are put right.
//! What no copy has any more is named, and everything else stays readable.

use std::fs::{self, File};
use std::ops::Range;

use crate::copied::{FIRST_EXTENT, Place, ROWS, check, damage, starts};
use crate::support::{self, rows, spec};
use tierra_column::{Value, ordinal};
use tierra_engine::{LostRows, Replicas, ScanError, ScanSpec, ScrubOptions};
use tierra_interleave::Scheduling;

#[test]
fn damage_of_one_tier_is_read_past_and_put_right() {
    let place = Place::new();
    for seed in 0..12 {
        let (victim, other) = [("far", "b"), ("b", "far")][(seed / 3 % 2) as usize];
        let len_bytes = fs::metadata(place.pool(victim)).unwrap().len();
        let ranges = damage(seed, len_bytes);
        place.change(victim, &ranges);
        println!("seed {seed}: {victim} damaged in {} places", ranges.len());
        let database = place.open(if seed % 2 == 0 { 0 } else { 1 << 20 });
        check(&database);
        database.wait_for_near_copies().unwrap();
        let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(found.lost, [], "seed {seed}: {found:?}");
        assert_eq!(
            found.damaged_copies, found.repaired_copies,
            "seed {seed}: {found:?}"
        );
        let again = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(again.damaged_copies, 0, "seed {seed}: {again:?}");
        drop(database);
        // It is enough alone again.
        let away = place.pool(other).with_extension("away");
        let kept = fs::read(place.pool(victim)).unwrap();
        fs::rename(place.pool(other), &away).unwrap();
        check(&place.open(0));
        fs::rename(&away, place.pool(other)).unwrap();
        fs::write(place.pool(victim), kept).unwrap();
    }
}

/// In the mapping of an open database, in the copy that is read.
#[test]
fn a_block_is_put_right_when_it_is_read() {
    let place = Place::new();
    let database = place.open(0);
    // DECIMAL and VARCHAR, and a bit only.
    let blocks = [place.first_block("far", 4), place.first_block("far", 8)];
    let before = fs::read(place.pool("far")).unwrap();
    place.change(
        "far",
        &[blocks[0]..blocks[0] + 1, blocks[1] + 100..blocks[1] + 1000],
    );
    assert!(fs::read(place.pool("far")).unwrap() != before);
    check(&database);
    assert!(
        fs::read(place.pool("far")).unwrap() == before,
        "the bytes are back"
    );
    let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(found.damaged_copies, 0);
}

/// Damaged in all copies since the chunks were opened: what their directories say of blocks. Queries go by what is near, and a
/// scrub pass writes it down again.
#[test]
fn damaged_chunk_headers_mislead_no_query_and_are_rewritten() {
    let place = Place::new();
    let database = place.open(0);
    let tiers = ["far", "b"];
    let before = tiers.map(|tier| fs::read(place.pool(tier)).unwrap());
    for tier in tiers {
        let bytes = fs::read(place.pool(tier)).unwrap();
        let chunks = bytes.windows(5).enumerate();
        let chunks = chunks.filter(|(_, window)| window[..4] == *b"TCHK" && window[4] == 1);
        // Of three blocks: least and greatest values, a checksum, where it lies and how long it is.
        let entries = chunks.flat_map(|(at, _)| (0..3).map(move |block| at + 128 + 32 * block));
        let ranges: Vec<_> = entries.map(|at| at as u64..at as u64 + 28).collect();
        assert!(ranges.len() >= 30, "{ranges:?}");
        place.change(tier, &ranges);
    }
    check(&database);
    let table = database.table("t").unwrap();
    for id in [0, 1, 1023, 1024, 2047, 66_000] {
        let filter = tierra_column::Filter::eq(Value::Ordinal(ordinal::of_i64(id)));
        let (found, _) = support::scan(&table.snapshot(), &[0], &[(0, filter)]);
        assert_eq!(found.num_rows(), 1, "{id}");
    }
    let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(found.lost, []);
    assert!(found.damaged_copies > 0 && found.damaged_copies == found.repaired_copies);
    for (tier, before) in tiers.iter().zip(before) {
        assert!(
            fs::read(place.pool(tier)).unwrap() == before,
            "{tier} is back"
        );
    }
}

#[test]
fn what_no_copy_has_is_named_and_the_rest_is_there() {
    let place = Place::new();
    let database = place.open(0);
    for tier in ["far", "b"] {
        let block = place.first_block(tier, 4);
        place.change(tier, std::slice::from_ref(&(block + 8..block + 9)));
    }
    // Another block is damaged in one of them only: it is put right all the same.
    let other = place.first_block("b", 5);
    place.change("b", std::slice::from_ref(&(other..other + 40)));
    let table = database.table("t").unwrap();
    let scan = |projection: Vec<usize>| {
        let spec = ScanSpec {
            projection,
            filters: vec![],
            batch_rows: 8192,
            execution: tierra_interleave::Scheduling::Auto,
        };
        let scan = table.snapshot().scan(spec);
        let mut cursor = scan.cursor();
        let mut rows = 0;
        loop {
            match cursor.next(&[], 0) {
                Ok(Some(batch)) => rows += batch.num_rows() as i64,
                Ok(None) => return Ok(rows),
                Err(error) => return Err(error),
            }
        }
    };
    // Of its type the column with the largest chunk.
    let wide = 4;
    match scan(vec![0, wide]).unwrap_err() {
        ScanError::Damaged {
            column,
            segment: 1,
            block: 0,
            ..
        } => assert_eq!(column, "wide"),
        other => panic!("{other}"),
    }
    let others = (0..10).filter(|column| *column != wide).collect();
    assert_eq!(scan(others).unwrap(), ROWS);
    let verify = ScrubOptions {
        only_verify: true,
        ..ScrubOptions::default()
    };
    let expected = LostRows {
        table: "t".to_owned(),
        column: Some("wide".to_owned()),
        segment: 1,
        rows: 0..1024,
    };
    let told = database.scrub(&verify, |_| {}).unwrap();
    assert_eq!(
        (told.lost, told.repaired_copies),
        (vec![expected.clone()], 0)
    );
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(told.lost, [expected]);
    // Damaged twice they are what they were.
    for tier in ["far", "b"] {
        let block = place.first_block(tier, 4);
        place.change(tier, std::slice::from_ref(&(block + 8..block + 9)));
    }
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!((told.lost, told.damaged_copies), (vec![], 0));
    check(&database);
}

/// The head of a chunk is damaged in all copies while the database is closed: that chunk is lost, and nothing else.
#[test]
fn only_a_chunk_without_a_readable_header_is_lost() {
    const WIDE: usize = 4;
    let place = Place::new();
    let database = place.open(0);
    let table = database.table("t").unwrap();
    table.seal().unwrap();
    // A second segment, of which nothing is damaged.
    table.append(&[rows(ROWS..ROWS + 10)]).unwrap();
    database.wait_for_near_copies().unwrap();
    drop((table, database));
    let chunk_headers = ["far", "b"].map(|tier| place.first_chunk(tier, 4));
    let damage = || {
        for (tier, head) in ["far", "b"].iter().zip(&chunk_headers) {
            place.change(
                tier,
                std::slice::from_ref(&(head.start + 20..head.start + 30)),
            );
        }
    };
    damage();
    let mut count = ROWS + 10;
    for near_bytes in [0, 64 << 20] {
        let database = place.open(near_bytes);
        database.wait_for_near_copies().unwrap();
        let (faults, totals) = database.faults();
        assert!(totals.lost > 0);
        let is_told = |fault: &tierra_engine::Fault| {
            let column = fault.column.as_deref() == Some("wide");
            column && fault.outcome == tierra_engine::FaultOutcome::Lost
        };
        assert!(faults.iter().any(is_told), "{faults:?}");
        let table = database.table("t").unwrap();
        let snapshot = table.snapshot();
        let others: Vec<usize> = (0..10).filter(|column| *column != WIDE).collect();
        let (found, _) = support::scan(&snapshot, &others, &[]);
        let expected = rows(0..count).project(&others).unwrap();
        assert_eq!(support::sorted(&found), expected);
        assert!(snapshot.statistics(WIDE).lacks_rows);
        let by_id = |id: i64| {
            let id = Value::Ordinal(ordinal::of_i64(id));
            (0, tierra_column::Filter::eq(id))
        };
        let next = |filter| {
            let spec = ScanSpec {
                projection: vec![0, WIDE],
                filters: vec![filter],
                batch_rows: 8192,
                execution: Scheduling::Auto,
            };
            snapshot.scan(spec).cursor().next(&[], 0)
        };
        // Rows of other chunks of the column, sealed and not, are there.
        for id in [ROWS - 1, ROWS + 5] {
            let found = next(by_id(id)).unwrap().unwrap();
            let expected = rows(id..id + 1).project(&[0, WIDE]).unwrap();
            assert_eq!(found, expected, "{id}");
        }
        match next(by_id(2_000)).unwrap_err() {
            ScanError::Damaged {
                column,
                segment: 1,
                block: 1,
                ..
            } => assert_eq!(column, "wide"),
            other => panic!("{other}"),
        }
        let verify = ScrubOptions {
            only_verify: true,
            ..ScrubOptions::default()
        };
        for options in [verify, ScrubOptions::default()] {
            let told = database.scrub(&options, |_| {}).unwrap();
            let lost: i64 = told.lost.iter().map(|lost| lost.rows.len() as i64).sum();
            assert_eq!(lost, ROWS - 500);
            let is_it =
                |lost: &LostRows| lost.column.as_deref() == Some("wide") && lost.segment == 1;
            assert!(told.lost.iter().all(is_it), "{:?}", told.lost);
        }
        // Rows are added, sealed and merged as ever.
        table.append(&[rows(count..count + 1)]).unwrap();
        table.seal().unwrap();
        table.merge_dictionaries().unwrap();
        count += 1;
    }
    // Nothing was written over it: with its head it is all there.
    damage();
    let database = place.open(0);
    let (found, _) = support::scan(&database.table("t").unwrap().snapshot(), &[0, WIDE], &[]);
    let expected = rows(0..count).project(&[0, WIDE]).unwrap();
    assert_eq!(support::sorted(&found), expected);
}

/// Bytes that are never read, damaged in all copies: they are zero again, and nothing was lost.
#[test]
fn damaged_padding_is_rewritten() {
    let place = Place::new();
    let database = place.open(0);
    for tier in ["far", "b"] {
        // The last line of a chunk's pad, before another begins.
        let bytes = fs::read(place.pool(tier)).unwrap();
        let chunks = bytes.windows(5).enumerate();
        let chunks = chunks.filter(|(_, window)| window[..4] == *b"TCHK" && window[4] == 1);
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let ends = chunks.map(|(at, _)| at as u64 + u64_at(at + 48));
        let last: Vec<_> = ends.map(|end| end - 1..end).collect();
        assert!(last.len() >= 10, "{last:?}");
        assert!(last.iter().all(|range| bytes[range.start as usize] == 0));
        place.change(tier, &last);
    }
    check(&database);
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(told.lost, []);
    assert_eq!(told.damaged_copies, told.repaired_copies, "{told:?}");
    assert!(told.damaged_copies > 0);
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(told.damaged_copies, 0, "{told:?}");
}

#[test]
fn a_walk_that_is_stopped_says_so() {
    let place = Place::new();
    let database = place.open(0);
    let options = ScrubOptions {
        bytes_per_s: Some(1),
        ..ScrubOptions::default()
    };
    let stop = options.stop.clone();
    let total = database.scrub_bytes().unwrap();
    std::thread::scope(|scope| {
        let scrub = scope.spawn(|| database.scrub(&options, |_| {}).unwrap());
        stop.stop();
        let report = scrub.join().unwrap();
        assert!(report.stopped && report.bytes < total, "{report:?}");
    });
}

/// The file of a tier loses its end under an open database. Queries do not notice; a scrub pass puts everything right from the other
/// tier, and both are whole again.
#[test]
fn a_tier_that_is_cut_short_under_the_database_is_restored() {
    let place = Place::new();
    for (victim, other) in [("far", "b"), ("b", "far")] {
        let database = place.open(0);
        let table = database.table("t").unwrap();
        let file = File::options()
            .write(true)
            .open(place.pool(victim))
            .unwrap();
        file.set_len(FIRST_EXTENT).unwrap();
        let spec = ScanSpec {
            projection: (0..10).collect(),
            filters: vec![],
            batch_rows: 8192,
            execution: tierra_interleave::Scheduling::Auto,
        };
        let mut cursor = table.snapshot().scan(spec).cursor();
        let mut ids = 0;
        while let Some(batch) = cursor.next(&[], 0).unwrap() {
            ids += batch.num_rows() as i64;
        }
        assert_eq!(ids, ROWS);
        let found = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
        assert_eq!(found.lost, [], "{found:?}");
        assert_eq!(found.damaged_copies, found.repaired_copies, "{found:?}");
        // By queries, the scrubber in the background, or this scrub pass.
        let (faults, totals) = database.faults();
        assert!(totals.repaired > 0 && totals.lost == 0, "{faults:?}");
        check(&database);
        assert_eq!(
            database
                .scrub(&ScrubOptions::default(), |_| {})
                .unwrap()
                .damaged_copies,
            0
        );
        // It goes on being written to.
        table.append(&[rows(ROWS..ROWS + 10)]).unwrap();
        drop((table, cursor, database));
        let away = place.pool(other).with_extension("away");
        let kept = fs::read(place.pool(victim)).unwrap();
        fs::rename(place.pool(other), &away).unwrap();
        let database = place.open(0);
        assert_eq!(
            database.table("t").unwrap().snapshot().rows() as i64,
            ROWS + 10
        );
        drop(database);
        fs::rename(&away, place.pool(other)).unwrap();
        fs::write(place.pool(victim), kept).unwrap();
        // The same rows for the second round.
        let database = place.open(0);
        database.drop_table("t").unwrap();
        drop(database);
        return_to_start(&place);
    }
}

fn return_to_start(place: &Place) {
    let database = place.open(0);
    let table = database
        .create_table_in(spec("t", vec![0]), Replicas::of_table(["far", "b"]))
        .unwrap();
    let mut loader = table.loader();
    loader.push(rows(0..ROWS)).unwrap();
    loader.finish().unwrap();
    database.wait_for_near_copies().unwrap();
}

/// Where something is to be changed in a pool.
type Places = fn(&[u8]) -> Vec<Range<u64>>;

/// What is read when a database is opened only: its pools' headers, superblocks and manifests, and the logs of its tables.
#[test]
fn a_scrub_pass_finds_damage_in_what_only_opening_reads() {
    let place = Place::new();
    let database = place.open(0);
    let changes: [(&str, Places); 6] = [
        ("the header", |_| {
            Vec::from([std::ops::Range { start: 8, end: 9 }])
        }),
        ("the header's twin", |_| {
            Vec::from([std::ops::Range {
                start: 12_296,
                end: 12_297,
            }])
        }),
        // The slots lie on the pages behind, and their twins on the next; whichever is current.
        ("the superblock", |_| vec![4096..4104, 8192..8200]),
        ("the superblock's twins", |_| {
            vec![13_312..13_320, 14_336..14_344]
        }),
        ("records of a log", |pool| {
            starts(pool, b"TLOG").map(|at| at + 70..at + 71).collect()
        }),
        ("the heads of records", |pool| {
            starts(pool, b"TLOG").map(|at| at + 8..at + 9).collect()
        }),
    ];
    for (what, places) in changes {
        // Records that no copy has become a segment, and then there are none.
        let all = [&["far"][..], &["b"], &["far", "b"]];
        let most = if what == "records of a log" { 2 } else { 3 };
        for tiers in &all[..most] {
            println!("{what} in {tiers:?}");
            for tier in *tiers {
                let pool = fs::read(place.pool(tier)).unwrap();
                place.change(tier, &places(&pool));
            }
            let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
            assert!(told.damaged_copies > 0, "{what}: {told:?}");
            assert_eq!(
                told.damaged_copies, told.repaired_copies,
                "{what}: {told:?}"
            );
            assert_eq!(told.lost, []);
            let again = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
            assert_eq!(again.damaged_copies, 0, "{what}: {again:?}");
            check(&database);
        }
    }
    drop(database);
    for tier in ["far", "b"] {
        let other = if tier == "far" { "b" } else { "far" };
        let away = place.pool(other).with_extension("away");
        let kept = fs::read(place.pool(tier)).unwrap();
        fs::rename(place.pool(other), &away).unwrap();
        check(&place.open(0));
        fs::rename(&away, place.pool(other)).unwrap();
        fs::write(place.pool(tier), kept).unwrap();
    }
}

/// In the copy that is read; the other one has it.
#[test]
fn a_page_of_an_index_is_put_right_when_it_is_read() {
    let place = Place::new();
    let database = place.open(0);
    let pool = fs::read(place.pool("far")).unwrap();
    let index = starts(&pool, b"TINV").next().unwrap();
    // Behind its header and checksums: a bit in each of its lines.
    let lines = (index + 1024..index + 16_384).step_by(64);
    place.change("far", &lines.map(|at| at..at + 1).collect::<Vec<_>>());
    check(&database);
    let (faults, totals) = database.faults();
    assert!(
        totals.found > 0 && totals.found == totals.repaired,
        "{faults:?}"
    );
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(told.lost, []);
    let again = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(again.damaged_copies, 0);
    check(&database);
}

#[test]
fn a_page_of_an_index_is_put_right_when_it_is_copied_near() {
    let place = Place::new();
    let index = || starts(&fs::read(place.pool("far")).unwrap(), b"TINV").collect::<Vec<_>>();
    let indexes = index();
    let lines = (indexes[0] + 1024..indexes[0] + 16_384).step_by(64);
    place.change("far", &lines.map(|at| at..at + 1).collect::<Vec<_>>());
    let database = place.open(64 << 20);
    database.wait_for_near_copies().unwrap();
    let (faults, totals) = database.faults();
    assert!(
        totals.found > 0 && totals.found == totals.repaired,
        "{faults:?}"
    );
    let placements = database.placements();
    let all_near = |one: &tierra_engine::ColumnPlacement| one.index_near_bytes == one.index_bytes;
    assert!(placements.iter().all(all_near), "{placements:?}");
    // It is the same one, whole again.
    assert_eq!(index(), indexes);
    let told = database.scrub(&ScrubOptions::default(), |_| {}).unwrap();
    assert_eq!(told.damaged_copies, 0);
    check(&database);
}
